//! Adopting a running cluster from the text of `CLUSTER NODES`.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{ClusterPath, WriteHeaders};
use crate::controller::Imported;
use crate::domain::Host;
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

/// The text, whichever way it came.
#[derive(Debug)]
pub struct NodesText {
    text: Vec<u8>,
    dialled: Option<Host>,
    reason: Option<Text>,
}

impl Payload for NodesText {
    fn read(media: Option<&str>, bytes: &[u8]) -> Result<Self, ApiError> {
        match media {
            Some("text/plain") => Ok(Self { text: bytes.to_vec(), dialled: None, reason: None }),
            Some("application/json") => {
                let Body(ImportRequest { nodes_text, dialled, reason }) = Body::read(media, bytes)?;
                Ok(Self { text: nodes_text.into_bytes(), dialled, reason })
            }
            other => Err(unsupported(other.unwrap_or("no type"))),
        }
    }
}

/// Adopt a running cluster: its nodes, shards and slots as one of them tells them. The cluster must have no shards yet.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/import", tag = "clusters",
    params(ClusterPath, ImportQuery, WriteHeaders),
    request_body(content((ImportRequest = "application/json"), (String = "text/plain"))),
    responses((status = 200, description = "Adopted, as one new epoch.", body = ImportAnswer)))]
pub async fn import_cluster(
    State(app): State<Shared>,
    At(ClusterPath { cluster: name }): At<ClusterPath>,
    input: Input<NodesText, ImportQuery>,
) -> Result<Json<ImportAnswer>, ApiError> {
    let (body, query) = (&input.body, &input.query);
    let caller = input.caller(body.reason.as_ref().or(query.reason.as_ref()));
    let dialled = body.dialled.as_ref().or(query.dialled.as_ref());
    let imported = app.controller.import_nodes_text(&caller, &name, &body.text, dialled).await;
    let Imported { receipt, cluster, notes } = imported.map_err(|error| app.refuse(&name, error))?;
    let version = views::version_after(Some(&receipt), &cluster);
    let (generation, epoch) = (version.generation.0, version.epoch.0);
    Ok(Json(ImportAnswer { generation, epoch, cluster: views::cluster(&cluster), notes }))
}
