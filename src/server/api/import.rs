//! Adopting a running cluster from the text of `CLUSTER NODES`, or from its nodes.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{ClusterPath, WriteHeaders};
use crate::controller::{Imported, Zones};
use crate::domain::{Address, Host};
use crate::server::error::ApiError;
use crate::server::input::{Input, Json as Body, Payload, unsupported};
use crate::server::query::At;
use crate::server::{Shared, views};
use crate::wire::{ImportAnswer, ImportRequest, Text, schema};

/// What goes with plain text, which has no room for it.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ImportQuery {
    /// The host that was asked: fills in for nodes printed with an empty one.
    #[param(value_type = Option<schema::HostText>, inline)]
    pub dialled: Option<Host>,
    /// Why; kept in the audit.
    #[param(value_type = Option<String>, max_length = 1024)]
    pub reason: Option<Text>,
}

/// What to adopt, whichever way it came.
#[derive(Debug)]
pub struct Asked {
    source: Source,
    zones: Zones,
    reason: Option<Text>,
}

/// Where the cluster is told of.
#[derive(Debug)]
enum Source {
    Text(Vec<u8>, Option<Host>),
    Seed(Address),
}

impl Payload for Asked {
    fn read(media: Option<&str>, bytes: &[u8]) -> Result<Self, ApiError> {
        match media {
            Some("text/plain") => {
                Ok(Self { source: Source::Text(bytes.to_vec(), None), zones: Zones::default(), reason: None })
            }
            Some("application/json") => {
                let Body(request) = Body::<ImportRequest>::read(media, bytes)?;
                request.validate()?;
                let ImportRequest { nodes_text, dialled, seed, zones, zone_pattern, reason } = request;
                let source = match seed {
                    Some(seed) => Source::Seed(seed),
                    None => Source::Text(nodes_text.unwrap_or_default().into_bytes(), dialled),
                };
                Ok(Self { source, zones: Zones { named: zones, pattern: zone_pattern }, reason })
            }
            other => Err(unsupported(other.unwrap_or("no type"))),
        }
    }
}

/// Adopt a running cluster: its nodes, shards and slots as one of them tells them, or as all of its masters do, which the
/// address of one leads to. The cluster must have no shards yet.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/import", tag = "clusters",
    params(ClusterPath, ImportQuery, WriteHeaders),
    request_body(content((ImportRequest = "application/json"), (String = "text/plain"))),
    responses((status = 200, description = "Adopted, as one new epoch.", body = ImportAnswer)))]
pub async fn import_cluster(
    State(app): State<Shared>,
    At(ClusterPath { cluster: name }): At<ClusterPath>,
    input: Input<Asked, ImportQuery>,
) -> Result<Json<ImportAnswer>, ApiError> {
    let (body, query) = (&input.body, &input.query);
    let caller = input.caller(body.reason.as_ref().or(query.reason.as_ref()));
    let imported = match &body.source {
        Source::Seed(seed) => app.controller.import_seed(&caller, &name, seed, &body.zones).await,
        Source::Text(text, dialled) => {
            let dialled = dialled.as_ref().or(query.dialled.as_ref());
            app.controller.import_nodes_text(&caller, &name, text, dialled, &body.zones).await
        }
    };
    let Imported { receipt, cluster, notes } = imported.map_err(|error| app.refuse(&name, error))?;
    let version = views::version_after(Some(&receipt), &cluster);
    let (generation, epoch) = (version.generation.0, version.epoch.0);
    Ok(Json(ImportAnswer { generation, epoch, cluster: views::cluster(&cluster), notes }))
}
