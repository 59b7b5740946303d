//! Creating, configuring and deleting clusters.

use std::sync::Arc;

use super::super::cluster::CLUSTERS_MAX;
use super::super::{Cluster, Event, Nodes, Receipt, Shards, State, invariants};
use super::{Context, Step, check_revision};
use crate::domain::{
    ClusterId, ClusterName, DriverKind, Epoch, Generation, Policy, Rejection, SharedMap, SlotTable, Window,
};

impl State {
    pub(super) fn create_cluster(
        &mut self,
        context: &Context<'_>,
        name: &ClusterName,
        id: &ClusterId,
        driver: DriverKind,
        policy: &Policy,
    ) -> Result<Step, Rejection> {
        if self.clusters.contains_key(name) {
            return Err(Rejection::Exists { what: "cluster".to_owned(), id: name.to_string() });
        }
        if self.clusters.values().any(|cluster| cluster.id == *id) {
            return Err(Rejection::Exists { what: "cluster id".to_owned(), id: id.to_string() });
        }
        if self.clusters.len() >= CLUSTERS_MAX {
            return Err(Rejection::LimitExceeded { what: "clusters".to_owned(), most: CLUSTERS_MAX as u64 });
        }
        check(policy)?;
        let generation = Generation((self.generation_high.0 + 1).max(context.now.unix_seconds()));
        let cluster = Cluster {
            id: id.clone(),
            name: name.clone(),
            generation,
            epoch: Epoch(1),
            revision: 1,
            created_at: context.now,
            driver,
            policy: policy.clone(),
            nodes: Nodes::default(),
            shards: Shards::default(),
            table: SlotTable::new(),
            moving: Vec::new(),
            plans: SharedMap::new(),
            plans_proposed: 0,
            active: None,
            removed: Vec::new(),
        };
        invariants::assert_cluster(&cluster);
        self.generation_high = generation;
        let version = cluster.version();
        self.clusters.insert(name.clone(), Arc::new(cluster));
        Ok(Step {
            cluster: Some(name.clone()),
            summary: format!("created with driver {}, generation {generation}", driver.as_str()),
            receipt: Receipt { version: Some(version), revision: Some(1), ..Receipt::default() },
            events: vec![Event::TopologyChanged { cluster: name.clone(), version }],
            ..Step::default()
        })
    }

    pub(super) fn delete_cluster(&mut self, name: &ClusterName, if_match: Option<u64>) -> Result<Step, Rejection> {
        let cluster = self.clusters.get(name).ok_or_else(|| Rejection::not_found("cluster", name))?;
        check_revision("cluster", name, cluster.revision, if_match)?;
        cluster.refuse_while_active()?;
        let summary = format!("deleted with {} shards at epoch {}", cluster.shards.len(), cluster.epoch);
        let receipt = Receipt { version: Some(cluster.version()), ..Receipt::default() };
        self.clusters.remove(name);
        let events = vec![Event::ClusterDeleted { cluster: name.clone() }];
        Ok(Step { cluster: Some(name.clone()), summary, receipt, events, ..Step::default() })
    }
}

pub(super) fn configure(
    cluster: &mut Cluster,
    if_match: Option<u64>,
    driver: Option<DriverKind>,
    policy: Option<&Policy>,
) -> Result<Step, Rejection> {
    check_revision("cluster", &cluster.name, cluster.revision, if_match)?;
    let (new_driver, new_policy) = (driver.unwrap_or(cluster.driver), policy.unwrap_or(&cluster.policy).clone());
    check(&new_policy)?;
    let mut summary = Vec::new();
    if new_driver != cluster.driver {
        cluster.refuse_while_active()?;
        let open = cluster.plans.values().find(|record| !record.state.is_final());
        if let Some(record) = open {
            return Err(Rejection::conflict(format!(
                "the driver cannot change while plan {} is {}: end it first",
                record.plan.id,
                record.state.as_str()
            )));
        }
        summary.push(format!("driver {} -> {}", cluster.driver.as_str(), new_driver.as_str()));
    }
    summary.extend(policy_changes(&cluster.policy, &new_policy));
    cluster.revision += u64::from(!summary.is_empty());
    (cluster.driver, cluster.policy) = (new_driver, new_policy);
    let summary = if summary.is_empty() { "configured as it was".to_owned() } else { summary.join("; ") };
    Ok(Step { summary, receipt: Receipt { revision: Some(cluster.revision), ..Receipt::default() }, ..Step::default() })
}

fn policy_changes(before: &Policy, after: &Policy) -> Vec<String> {
    let fields = |policy: &Policy| {
        let (limits, optional) =
            (&policy.limits, |value: Option<u64>| value.map_or("none".to_owned(), |v| v.to_string()));
        [
            ("approvals", policy.approvals.to_string()),
            ("author_may_approve", policy.author_may_approve.to_string()),
            ("ttl_ms", policy.ttl_ms.to_string()),
            ("auto_approve_max_slots", optional(policy.auto_approve_max_slots.map(u64::from))),
            ("moves_per_source", limits.moves_per_source.to_string()),
            ("moves_per_target", limits.moves_per_target.to_string()),
            ("slots_per_move", limits.slots_per_move.to_string()),
            ("slots_per_second", optional(limits.slots_per_second.map(u64::from))),
            ("bytes_per_second", optional(limits.bytes_per_second)),
            ("overlap_ms", limits.overlap_ms.to_string()),
            ("windows", windows(&limits.windows)),
        ]
    };
    let pairs = fields(before).into_iter().zip(fields(after)).filter(|(old, new)| old != new);
    pairs.map(|((name, old), (_, new))| format!("{name} {old} -> {new}")).collect()
}

/// The windows, or that there are none.
fn windows(windows: &[Window]) -> String {
    let texts: Vec<String> = windows.iter().map(ToString::to_string).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

fn check(policy: &Policy) -> Result<(), Rejection> {
    let limits = policy.limits.validate();
    limits.map_err(|invalid| Rejection::invalid(&format!("policy.limits.{}", invalid.what), &invalid.why))?;
    policy.validate().map_err(|invalid| Rejection::invalid(&format!("policy.{}", invalid.what), &invalid.why))
}
