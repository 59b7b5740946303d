//! The raft group, as this member sees it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;

use super::WriteHeaders;
use crate::controller::Removal;
use crate::domain::{MemberId, Rejection, is_peer_address, is_plain_number};
use crate::server::error::ApiError;
use crate::server::input::{Input, Json as Body, MaybeJson, Nothing};
use crate::server::query::{At, Query};
use crate::server::{App, Shared, views};
use crate::wire::{JoinAnswer, MemberAdd, MemberAdded, MemberView, Page, PeerView, ReasonRequest, StatusView, Text};

/// Show the member that answers.
#[utoipa::path(get, path = "/v1/status", tag = "members",
    responses((status = 200, description = "This member and what it knows of its group.", body = StatusView)))]
pub async fn status(State(app): State<Shared>, _: Query) -> Result<Json<StatusView>, ApiError> {
    let status = app.controller.status();
    let leader = status.leader;
    let (state_hash_index, state_hash) = app.controller.state_hash_aside().await;
    Ok(Json(StatusView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        member_id: status.id,
        members: views::known_members(&status),
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

/// A member in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct MemberPath {
    /// The member's number.
    #[param(value_type = u64, inline, minimum = 1)]
    #[serde(deserialize_with = "member")]
    pub member: MemberId,
}

/// A number in the one way it is written.
fn member<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MemberId, D::Error> {
    let text = String::deserialize(deserializer)?;
    let number = is_plain_number(&text).then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| serde::de::Error::custom(format!("member: {text:?} is not the number of a member")))
}

/// How a member is removed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MemberRemovalQuery {
    /// Also when no majority of those that stay answers now: it is then done when enough of them do.
    #[serde(default)]
    pub force: bool,
    /// Why; kept in the audit.
    #[param(value_type = Option<String>, max_length = 1024)]
    pub reason: Option<Text>,
}

type Members = Result<Json<Page<MemberView>>, ApiError>;

async fn members(app: &App) -> Members {
    Ok(Json(Page { items: app.controller.members().await.into_iter().map(views::member).collect(), next: None }))
}

/// List the members of the group, and how far each is as the leader knows.
#[utoipa::path(get, path = "/v1/members", tag = "members",
    responses((status = 200, description = "Members, ascending by number.", body = Page<MemberView>)))]
pub async fn list_members(State(app): State<Shared>, _: Query) -> Members {
    members(&app).await
}

/// Make a number and a join token for a new member. It belongs to the group once it has joined with it.
#[utoipa::path(post, path = "/v1/members", tag = "members", params(WriteHeaders), request_body = MemberAdd,
    responses((status = 201, description = "It may join; keep the token.", body = MemberAdded)))]
pub async fn add_member(State(app): State<Shared>, input: Input<Body<MemberAdd>>) -> Result<Response, ApiError> {
    let Body(add) = &input.body;
    if !is_peer_address(&add.peer_address) {
        return Err(Rejection::invalid("peer_address", &"is not HOST:PORT").into());
    }
    let caller = input.caller(add.reason.as_ref());
    let invitation = app.controller.add_member(&caller, &add.peer_address).await?;
    let body = MemberAdded {
        member_id: invitation.member,
        group_id: app.controller.status().group_id,
        token: invitation.token,
        expires_at: invitation.expires_at.into(),
    };
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// Take a member out for good, dead or alive; a leader hands the lead over first.
#[utoipa::path(delete, path = "/v1/members/{member}", tag = "members",
    params(MemberPath, MemberRemovalQuery, WriteHeaders),
    responses(
        (status = 200, description = "The members that stay.", body = Page<MemberView>),
        (status = 202, description = "By force: it leaves when those that would have to agree answer; until then the group may take no writes.", body = Page<MemberView>),
    ))]
pub async fn remove_member(
    State(app): State<Shared>,
    At(path): At<MemberPath>,
    input: Input<Nothing, MemberRemovalQuery>,
) -> Result<Response, ApiError> {
    let caller = input.caller(input.query.reason.as_ref());
    let status = match app.controller.remove_member(&caller, path.member, input.query.force).await? {
        Removal::Done => StatusCode::OK,
        Removal::Pending => StatusCode::ACCEPTED,
    };
    Ok((status, members(&app).await?).into_response())
}

/// Give a learner that has caught up a vote.
#[utoipa::path(post, path = "/v1/members/{member}/promote", tag = "members", params(MemberPath, WriteHeaders),
    request_body(content = ReasonRequest, description = "May be absent."),
    responses((status = 200, description = "The members.", body = Page<MemberView>)))]
pub async fn promote_member(
    State(app): State<Shared>,
    At(path): At<MemberPath>,
    input: Input<MaybeJson<ReasonRequest>>,
) -> Members {
    let caller = input.caller(input.body.0.reason.as_ref());
    app.controller.promote_member(&caller, path.member).await?;
    members(&app).await
}

/// Hand the lead to a voter.
#[utoipa::path(post, path = "/v1/members/{member}/transfer-leadership", tag = "members",
    params(MemberPath, WriteHeaders), request_body(content = ReasonRequest, description = "May be absent."),
    responses((status = 200, description = "The members.", body = Page<MemberView>)))]
pub async fn transfer_leadership(
    State(app): State<Shared>,
    At(path): At<MemberPath>,
    input: Input<MaybeJson<ReasonRequest>>,
) -> Members {
    let caller = input.caller(input.body.0.reason.as_ref());
    app.controller.transfer_leadership(&caller, path.member).await?;
    members(&app).await
}

/// Join the group as the member that the token was made for: as a learner. Safe to repeat.
#[utoipa::path(post, path = "/v1/join", tag = "members", params(WriteHeaders),
    request_body(content = ReasonRequest, description = "May be absent."),
    responses((status = 200, description = "Who it is, and who the others are.", body = JoinAnswer)))]
pub async fn join(
    State(app): State<Shared>,
    input: Input<MaybeJson<ReasonRequest>>,
) -> Result<Json<JoinAnswer>, ApiError> {
    let joined = app.controller.join(&input.caller(None).principal).await?;
    let peer = |(id, peer_address)| PeerView { id, peer_address };
    Ok(Json(JoinAnswer {
        group_id: joined.group_id,
        member_id: joined.member,
        peer_address: joined.address,
        members: joined.members.into_iter().map(peer).collect(),
    }))
}
