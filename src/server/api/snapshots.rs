//! Snapshots: taken by a member for itself, and carried away as backups.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};

use super::{ReadQuery, WriteHeaders};
use crate::controller::Caller;
use crate::server::Shared;
use crate::server::context::Context;
use crate::server::error::ApiError;
use crate::server::input::{Input, Nothing};
use crate::server::query::{Consistency, Read};
use crate::wire::SnapshotTaken;

/// Take a snapshot: the member that answers writes one of everything committed before, so that its log can be shortened.
#[utoipa::path(post, path = "/v1/snapshots", tag = "snapshots", params(WriteHeaders),
    responses((status = 200, description = "It is on the member's disk.", body = SnapshotTaken)))]
pub async fn take_snapshot(State(app): State<Shared>, _: Input<Nothing>) -> Result<Json<SnapshotTaken>, ApiError> {
    app.controller.linearize().await?;
    let index = app.controller.take_snapshot().await?;
    Ok(Json(SnapshotTaken { member_id: app.controller.status().id, index }))
}

/// Download a snapshot of now: the state and the retained audit of every cluster, with a checksum. It holds hashes of
/// tokens: keep it like a secret. That it was taken is in the audit, also in the one that it holds; with `consistency=local`,
/// where there is no leader, in this member's log alone.
#[utoipa::path(get, path = "/v1/snapshots/latest", tag = "snapshots", params(ReadQuery),
    responses((status = 200, description = "Lines of JSON; the first one names the format, the last one has the checksum.",
        body = String, content_type = "application/x-ndjson")))]
pub async fn download_snapshot(
    State(app): State<Shared>,
    Read(query): Read<ReadQuery>,
    Extension(context): Extension<Context>,
) -> Result<Response, ApiError> {
    let principal = context.principal.ok_or_else(|| ApiError::internal("a download without a principal"))?;
    let caller = Caller { principal, reason: None, idempotency: None };
    let backup = app.controller.backup(&caller, query.consistency != Consistency::Local).await?;
    let headers = [
        (CONTENT_TYPE, "application/x-ndjson".to_owned()),
        (CONTENT_LENGTH, backup.bytes().to_string()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"slotkeeper-{}.snapshot\"", backup.index())),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, Body::from_stream(backup.into_stream())).into_response())
}
