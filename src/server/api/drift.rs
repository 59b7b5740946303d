//! What the nodes say against the table.

use axum::Json;
use axum::extract::State;

use super::{ClusterPath, ReadQuery};
use crate::server::Shared;
use crate::server::error::ApiError;
use crate::server::query::{At, Read};
use crate::wire::{DriftItem, DriftView, Problem};

/// Ask every node what it sees, and tell where that is not what the table has. Changes nothing.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/drift", tag = "clusters", params(ClusterPath, ReadQuery),
    responses(
        (status = 200, description = "The differences; none when the nodes are as the table has it.", body = DriftView),
        (status = 409, description = "The cluster's driver does not ask its nodes.", body = Problem,
            content_type = "application/problem+json"),
    ))]
pub async fn show_drift(
    State(app): State<Shared>,
    At(ClusterPath { cluster }): At<ClusterPath>,
    _: Read,
) -> Result<Json<DriftView>, ApiError> {
    let report = app.controller.drift(&cluster).await.map_err(|error| app.refuse(&cluster, error))?;
    let drift = report.drift.into_iter().map(|drift| DriftItem {
        kind: drift.kind.as_str().to_owned(),
        node: drift.node,
        shard: drift.shard,
        ranges: drift.slots.ranges(),
        what: drift.what,
        advice: drift.advice.to_string(),
    });
    Ok(Json(DriftView {
        generation: report.version.generation.0,
        epoch: report.version.epoch.0,
        asked: report.nodes.0 as u64,
        answered: report.nodes.1 as u64,
        drift: drift.collect(),
    }))
}
