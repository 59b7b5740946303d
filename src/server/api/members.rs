//! The raft group, as this member sees it.

use axum::Json;
use axum::extract::State;

use crate::server::error::ApiError;
use crate::server::query::Query;
use crate::server::{Shared, views};
use crate::wire::{MemberView, Page, StatusView};

/// Show the member that answers.
#[utoipa::path(get, path = "/v1/status", tag = "members",
    responses((status = 200, description = "This member and what it knows of its group.", body = StatusView)))]
pub async fn status(State(app): State<Shared>, _: Query) -> Result<Json<StatusView>, ApiError> {
    let status = app.controller.status();
    let leader = status.leader;
    let (state_hash_index, state_hash) = app.controller.state_hash();
    Ok(Json(StatusView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        member_id: status.id,
        members: views::members(&status),
        group_id: status.group_id,
        leader,
        role: status.role.to_owned(),
        term: status.term,
        committed: status.committed,
        applied: status.applied,
        state_hash,
        state_hash_index,
        stale_ms: status.stale_ms,
        ready: app.controller.ready().is_ok() && leader.is_some(),
        waiting: app.controller.publisher().waiting() as u64,
        clusters: views::count(app.controller.clusters().len()),
    }))
}

/// List the members of the group.
#[utoipa::path(get, path = "/v1/members", tag = "members",
    responses((status = 200, description = "Members, ascending by number.", body = Page<MemberView>)))]
pub async fn list_members(State(app): State<Shared>, _: Query) -> Result<Json<Page<MemberView>>, ApiError> {
    Ok(Json(Page { items: views::members(&app.controller.status()), next: None }))
}
