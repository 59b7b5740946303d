//! The peer listener: what the other members of the group may ask. The target's id is in the path and the sender's
//! identity in headers; a request for another member, from another group or from a member that lost its store is refused.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State as Shared};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use openraft::raft::AppendEntriesResponse;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::leader;
use super::network::{Acquaintance, FOREIGN, GROUP_HEADER, INCARNATION_HEADER, MEMBER_HEADER, OTHER_STORE, Stranger};
use super::transfer;
use super::types::Core;
use crate::domain::MemberId;

/// Largest bodies.
const SMALL_MAX_BYTES: usize = 64 << 10;
const COMMAND_MAX_BYTES: usize = 1 << 20;
const ENTRIES_MAX_BYTES: usize = 64 << 20;
/// How long the leader tries for another member's client.
const FORWARDED_WITHIN: Duration = Duration::from_secs(2);

/// When a leader was last heard of.
#[derive(Default)]
pub(super) struct Contact(Mutex<Option<Instant>>);

impl Contact {
    pub(super) fn ago(&self) -> Option<Duration> {
        self.0.lock().expect("held for a moment only").map(|at| at.elapsed())
    }

    fn now(&self) {
        *self.0.lock().expect("held for a moment only") = Some(Instant::now());
    }
}

/// What the handlers need.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) core: Core,
    pub(super) acquaintance: Arc<Acquaintance>,
    pub(super) contact: Arc<Contact>,
}

/// The routes of the peer listener.
pub(super) fn router(member: Member) -> Router {
    let at = |verb| format!("/raft/v1/{{target}}/{verb}");
    let limit = |bytes| DefaultBodyLimit::max(bytes);
    Router::new()
        .route(&at("append"), post(append).layer(limit(ENTRIES_MAX_BYTES)))
        .route(&at("hello"), post(hello).layer(limit(SMALL_MAX_BYTES)))
        .route(&at("vote"), post(vote).layer(limit(SMALL_MAX_BYTES)))
        .route(&at("pre-vote"), post(pre_vote).layer(limit(SMALL_MAX_BYTES)))
        .route(&at("transfer-leader"), post(transfer_leader).layer(limit(SMALL_MAX_BYTES)))
        .merge(transfer::routes())
        .route(&at("submit"), post(submit).layer(limit(COMMAND_MAX_BYTES)))
        .route(&at("read-index"), post(read_index).layer(limit(SMALL_MAX_BYTES)))
        .with_state(member)
}

pub(super) type Reply = Result<Response, (StatusCode, String)>;

impl Member {
    pub(super) async fn admit(&self, target: MemberId, headers: &HeaderMap) -> Result<(), (StatusCode, String)> {
        let own = self.acquaintance.identity.member_id;
        if target != own {
            return Err((StatusCode::MISDIRECTED_REQUEST, format!("this is member {own}, not {target}")));
        }
        self.acquaintance.check(headers).await.map(drop).map_err(|stranger| {
            let status = match stranger {
                Stranger::Outside(_) => FOREIGN,
                Stranger::OtherStore(_) => OTHER_STORE,
                Stranger::Store(_) => 503,
            };
            (StatusCode::from_u16(status).expect("a valid status"), stranger.to_string())
        })
    }

    pub(super) fn reply<T: Serialize, E: std::fmt::Display>(&self, answer: Result<T, E>) -> Reply {
        let answer = answer.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
        let identity = &self.acquaintance.identity;
        let headers = [
            (GROUP_HEADER, identity.group_id.clone()),
            (MEMBER_HEADER, identity.member_id.to_string()),
            (INCARNATION_HEADER, identity.incarnation.clone()),
        ];
        Ok((headers, axum::Json(answer)).into_response())
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, (StatusCode, String)> {
    serde_json::from_slice(body).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))
}

async fn append(
    Shared(member): Shared<Member>,
    Path(target): Path<MemberId>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply {
    member.admit(target, &headers).await?;
    let answer = member.core.append_entries(parse(&body)?).await;
    if !matches!(answer, Err(_) | Ok(AppendEntriesResponse::HigherVote(_))) {
        member.contact.now();
    }
    member.reply(answer)
}

async fn vote(Shared(member): Shared<Member>, Path(target): Path<MemberId>, headers: HeaderMap, body: Bytes) -> Reply {
    member.admit(target, &headers).await?;
    member.reply(member.core.vote(parse(&body)?).await)
}

async fn pre_vote(
    Shared(member): Shared<Member>,
    Path(target): Path<MemberId>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply {
    member.admit(target, &headers).await?;
    member.reply(member.core.pre_vote(parse(&body)?).await)
}

async fn transfer_leader(
    Shared(member): Shared<Member>,
    Path(target): Path<MemberId>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply {
    member.admit(target, &headers).await?;
    member.reply(member.core.handle_transfer_leader(parse(&body)?).await)
}

async fn submit(
    Shared(member): Shared<Member>,
    Path(target): Path<MemberId>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply {
    member.admit(target, &headers).await?;
    let command = parse(&body)?;
    member.reply(Ok::<_, io::Error>(leader::write(&member.core, command, FORWARDED_WITHIN).await))
}

async fn read_index(Shared(member): Shared<Member>, Path(target): Path<MemberId>, headers: HeaderMap) -> Reply {
    member.admit(target, &headers).await?;
    member.reply(Ok::<_, io::Error>(leader::read_index(&member.core, FORWARDED_WITHIN).await))
}

async fn hello(Shared(member): Shared<Member>, Path(target): Path<MemberId>, headers: HeaderMap) -> Reply {
    member.admit(target, &headers).await?;
    member.reply(Ok::<_, io::Error>(()))
}
