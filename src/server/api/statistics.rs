//! What the nodes count of each slot.

use axum::Json;
use axum::extract::State;

use super::{ClusterPath, ReadQuery};
use crate::server::Shared;
use crate::server::error::ApiError;
use crate::server::query::{At, Read};
use crate::wire::{MeasuredSlotView, MeasuredView, Problem, Timestamp};

/// Ask the primaries what they count of each slot: keys, bytes, and processor time where they count it. Changes nothing.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/statistics", tag = "clusters", params(ClusterPath, ReadQuery),
    responses(
        (status = 200, description = "The figures of every slot that has an owner.", body = MeasuredView),
        (status = 409, description = "The cluster's driver does not ask its nodes.", body = Problem,
            content_type = "application/problem+json"),
        (status = 503, description = "A primary does not answer.", body = Problem,
            content_type = "application/problem+json"),
    ))]
pub async fn show_statistics(
    State(app): State<Shared>,
    At(ClusterPath { cluster }): At<ClusterPath>,
    _: Read,
) -> Result<Json<MeasuredView>, ApiError> {
    let measured = app.controller.measure(&cluster).await.map_err(|error| app.refuse(&cluster, error))?;
    let slots = measured.slots.into_iter().map(|of| MeasuredSlotView {
        slot: of.slot,
        keys: of.keys,
        bytes: of.bytes,
        busy_us: of.busy_us,
    });
    Ok(Json(MeasuredView { taken_at: Timestamp(measured.taken_at), slots: slots.collect() }))
}
