//! Metrics in the text format of `OpenMetrics`: requests, waiters, epochs, raft, rollouts, and the process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, EncodeMetric, LabelValueEncoder,
};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::process;
use super::routes::ROUTES;
use crate::controller::Controller;

/// The media type of [`Metrics::render`].
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counters of this server, and the registry they are shown by.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    duration: Family<RouteLabels, Histogram>,
    panics: Counter,
    routes: HashMap<&'static str, RouteMetrics>,
}

/// What is looked up once per route rather than with every request.
struct RouteMetrics {
    label: Arc<str>,
    duration: OnceLock<Histogram>,
    /// Of the requests with GET and 200.
    got: OnceLock<Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: Verb,
    route: Arc<str>,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: Arc<str>,
}

/// A method out of few: clients can invent others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Verb {
    Get,
    Head,
    Post,
    Patch,
    Delete,
    Other,
}

impl EncodeLabelValue for Verb {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        let name = match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Other => "other",
        };
        EncodeLabelValue::encode(&name, encoder)
    }
}

impl Metrics {
    /// Metrics of a controller.
    #[must_use]
    pub fn new(controller: Controller) -> Self {
        let mut registry = Registry::with_prefix("slotkeeper");
        let requests = Family::<RequestLabels, Counter>::default();
        registry.register("http_requests", "Requests answered", requests.clone());
        // From a quarter of a millisecond to about four seconds.
        let duration = Family::<RouteLabels, Histogram>::new_with_constructor(|| {
            Histogram::new(prometheus_client::metrics::histogram::exponential_buckets(0.000_25, 4.0, 8))
        });
        let help = "Time to an answer, waits for a new epoch included";
        registry.register_with_unit("http_request_duration", help, Unit::Seconds, duration.clone());
        let panics = Counter::default();
        registry.register("http_panics", "Requests that ran into a defect", panics.clone());
        registry.register_collector(Box::new(Observed { controller }));
        registry.register_collector(Box::new(process::Process));
        let route =
            |path| (path, RouteMetrics { label: Arc::from(path), duration: OnceLock::new(), got: OnceLock::new() });
        let routes = ROUTES.iter().map(|listed| route(listed.path)).chain([route("none")]).collect();
        Self { registry, requests, duration, panics, routes }
    }

    /// Counts an answer.
    pub fn answered(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let method = match method.as_str() {
            "GET" => Verb::Get,
            "HEAD" => Verb::Head,
            "POST" => Verb::Post,
            "PATCH" => Verb::Patch,
            "DELETE" => Verb::Delete,
            _ => Verb::Other,
        };
        let known = self.routes.get(route).unwrap_or_else(|| &self.routes["none"]);
        let route = Arc::clone(&known.label);
        let labels = || RouteLabels { route: Arc::clone(&route) };
        let duration = known.duration.get_or_init(|| self.duration.get_or_create_owned(&labels()));
        duration.observe(took.as_secs_f64());
        let labels = RequestLabels { method, route, status: status.as_u16() };
        match (method, status) {
            (Verb::Get, StatusCode::OK) => {
                known.got.get_or_init(|| self.requests.get_or_create_owned(&labels)).inc();
            }
            _ => {
                self.requests.get_or_create(&labels).inc();
            }
        }
    }

    /// Counts a panic.
    pub fn panicked(&self) {
        self.panics.inc();
    }

    /// Everything, as text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("a String takes every write");
        text
    }
}

/// What is looked at when somebody asks, rather than counted.
struct Observed {
    controller: Controller,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").finish_non_exhaustive()
    }
}

impl Collector for Observed {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let status = self.controller.status();
        let waiting = self.controller.publisher().waiting() as u64;
        gauge(&mut encoder, "topology_waiters", "Requests that wait for a new epoch", waiting)?;
        gauge(&mut encoder, "raft_term", "Current term", status.term)?;
        gauge(&mut encoder, "raft_committed_index", "Last committed entry known here", status.committed)?;
        gauge(&mut encoder, "raft_applied_index", "Last applied entry", status.applied)?;
        gauge(&mut encoder, "raft_members", "Members of the group", status.members.len() as u64)?;
        gauge(&mut encoder, "raft_leader", "Number of the leader; 0 while none is known", status.leader.unwrap_or(0))?;
        if let Some(stale_ms) = status.stale_ms {
            gauge(&mut encoder, "raft_stale_ms", "Milliseconds since a leader was last heard of", stale_ms)?;
        }
        let roles = [(vec![("role", status.role.to_owned())], 1)];
        gauges(&mut encoder, "raft_role", "1 for the role of this member", roles)?;

        let clusters = self.controller.clusters();
        let name = |cluster: &crate::controller::Cluster| vec![("cluster", cluster.name.to_string())];
        let each = |look: fn(&crate::controller::Cluster) -> u64| {
            clusters.iter().map(move |cluster| (name(cluster), look(cluster))).collect::<Vec<_>>()
        };
        gauges(&mut encoder, "cluster_epoch", "Version of what clients see", each(|c| c.epoch.0))?;
        gauges(&mut encoder, "cluster_generation", "Generation of the cluster", each(|c| c.generation.0))?;
        gauges(&mut encoder, "cluster_shards", "Shards", each(|c| c.shards.len() as u64))?;
        gauges(&mut encoder, "cluster_nodes", "Nodes", each(|c| c.nodes.len() as u64))?;
        let drift = self.controller.observed().into_iter();
        let drift = drift
            .map(|((cluster, kind), count)| (vec![("cluster", cluster.to_string()), ("kind", kind.to_owned())], count));
        let help = "Differences between nodes and table that the leader sees, by kind";
        gauges(&mut encoder, "cluster_drift", help, drift)?;
        let mut rollouts: BTreeMap<(String, &'static str), u64> = BTreeMap::new();
        for cluster in &clusters {
            for rollout in cluster.plans.values().filter_map(|record| record.rollout.as_ref()) {
                *rollouts.entry((cluster.name.to_string(), rollout.state.as_str())).or_default() += 1;
            }
        }
        let rollouts = rollouts
            .into_iter()
            .map(|((cluster, state), count)| (vec![("cluster", cluster), ("state", state.to_owned())], count));
        gauges(&mut encoder, "rollouts", "Rollouts known, by state", rollouts)
    }
}

type Labels = Vec<(&'static str, String)>;

/// One gauge without labels.
pub fn gauge(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: u64) -> fmt::Result {
    let metric = ConstGauge::new(value);
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// One counter without labels.
pub fn counter(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: f64) -> fmt::Result {
    let metric = ConstCounter::new(value);
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

fn gauges(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (Labels, u64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, ConstGauge::new(0_u64).metric_type())?;
    for (labels, value) in values {
        ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
