//! The peer listener: what the other members of the group may ask. The target's id is in the path and the sender's
//! identity in headers; a request for another member, from another group or from a member that lost its store is refused.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State as Shared};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::AppendEntriesResponse;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::acquaintance::{Acquaintance, FOREIGN, OTHER_STORE, REMOVED, Stranger, Way};
use super::errand::Errands;
use super::handle::Freshness;
use super::leader;
use super::level::{self, LEVEL_HEADER};
use super::machine::Replica;
use super::membership::{self, GroupChange, Turn};
use super::network::Peers;
use super::roster;
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
    pub(super) peers: Peers,
    pub(super) replica: Arc<Replica>,
    pub(super) turn: Turn,
    pub(super) errands: Errands,
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
        .route(&at("identity"), post(identity).layer(limit(SMALL_MAX_BYTES)))
        .route(&at("members"), post(members).layer(limit(SMALL_MAX_BYTES)))
        .route(&at("errand"), post(errand).layer(limit(COMMAND_MAX_BYTES)))
        .route(&at("change-group"), post(change_group).layer(limit(SMALL_MAX_BYTES)))
        .with_state(member)
}

pub(super) type Reply = Result<Response, (StatusCode, String)>;

impl Member {
    pub(super) async fn admit(&self, target: MemberId, headers: &HeaderMap) -> Result<(), (StatusCode, String)> {
        self.check_target(target)?;
        let member = match self.acquaintance.check(headers, Way::Request).await {
            Err(Stranger::Unmet(member)) => self.meet(member, headers).await,
            checked => checked,
        };
        let member = member.map_err(|stranger| refuse(&stranger))?;
        if self.has_left(member) {
            return Err((status(REMOVED), format!("member {member} was removed from the group")));
        }
        Ok(())
    }

    fn check_target(&self, target: MemberId) -> Result<(), (StatusCode, String)> {
        let own = self.acquaintance.identity.member_id;
        if target == own {
            return Ok(());
        }
        Err((StatusCode::MISDIRECTED_REQUEST, format!("this is member {own}, not {target}")))
    }

    /// One who says that he is a later start of a member's store is heard when the member's own address says so too: a
    /// copy that runs elsewhere does not displace the original.
    async fn meet(&self, member: MemberId, headers: &HeaderMap) -> Result<MemberId, Stranger> {
        let Some(address) = self.address_of(member) else {
            return self.acquaintance.check(headers, Way::Answer).await;
        };
        if let Err(error) = self.peers.meet((member, &address)).await {
            tracing::info!("member {member} is not met at {address}: {error}");
            return Err(Stranger::Unmet(member));
        }
        match self.acquaintance.check(headers, Way::Request).await {
            Err(Stranger::Unmet(member)) => Err(Stranger::Copy(member)),
            checked => checked,
        }
    }

    fn address_of(&self, member: MemberId) -> Option<String> {
        let metrics = self.core.metrics();
        let metrics = metrics.borrow_watched();
        metrics.membership_config.get_node(&member).map(|node| node.addr.clone())
    }

    /// Whether a member was removed, for good: as long as raft counts it in, it is heard. The state is looked at last,
    /// since who applies an entry holds it.
    fn has_left(&self, member: MemberId) -> bool {
        self.address_of(member).is_none() && self.replica.look(|state, _| state.members.removed.contains(&member))
    }

    pub(super) fn reply<T: Serialize, E: std::fmt::Display>(&self, answer: Result<T, E>) -> Reply {
        let answer = answer.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
        let mut headers = self.acquaintance.headers();
        headers.insert(LEVEL_HEADER, HeaderValue::from(self.peers.levels.own()));
        Ok((headers, axum::Json(answer)).into_response())
    }
}

fn refuse(stranger: &Stranger) -> (StatusCode, String) {
    let code = match stranger {
        Stranger::Outside(_) => FOREIGN,
        Stranger::OtherStore(_) | Stranger::Copy(_) => OTHER_STORE,
        Stranger::Unmet(_) | Stranger::Store(_) => 503,
    };
    (status(code), stranger.to_string())
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).expect("a valid status")
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
    let request = level::read_entries(&body, member.peers.levels.own()).map_err(|why| {
        tracing::error!("entries are refused: {why}");
        (StatusCode::BAD_REQUEST, why)
    })?;
    let answer = member.core.append_entries(request).await;
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
    member.reply(Ok::<_, io::Error>(leader::write(&member.core, &member.peers.levels, command, FORWARDED_WITHIN).await))
}

async fn read_index(
    Shared(member): Shared<Member>,
    Path(target): Path<MemberId>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply {
    member.admit(target, &headers).await?;
    let freshness: Option<Freshness> = parse(&body)?;
    let index = leader::read_index(&member.core, freshness.unwrap_or_default(), FORWARDED_WITHIN).await;
    member.reply(Ok::<_, io::Error>(index))
}

async fn errand(
    Shared(member): Shared<Member>,
    Path(target): Path<MemberId>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply {
    member.admit(target, &headers).await?;
    let ran = member.errands.run(parse(&body)?).await;
    member.reply(Ok::<_, io::Error>(ran))
}

async fn members(Shared(member): Shared<Member>, Path(target): Path<MemberId>, headers: HeaderMap) -> Reply {
    member.admit(target, &headers).await?;
    let metrics = member.core.metrics().borrow_watched().clone();
    member.reply(Ok::<_, io::Error>(roster::list(&metrics)))
}

async fn change_group(
    Shared(member): Shared<Member>,
    Path(target): Path<MemberId>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply {
    member.admit(target, &headers).await?;
    let change: GroupChange = parse(&body)?;
    let changed = membership::carry_out(&member.core, &member.turn, &change, membership::ATTEMPT_WITHIN).await;
    member.reply(Ok::<_, io::Error>(changed))
}

/// Who is at this address: asked by one who does not know yet whether to hear us, so he is not looked at either.
async fn identity(Shared(member): Shared<Member>, Path(target): Path<MemberId>, headers: HeaderMap) -> Reply {
    member.check_target(target)?;
    member.acquaintance.check_group(&headers).map_err(|stranger| refuse(&stranger))?;
    member.reply(Ok::<_, io::Error>(()))
}

async fn hello(Shared(member): Shared<Member>, Path(target): Path<MemberId>, headers: HeaderMap) -> Reply {
    member.admit(target, &headers).await?;
    member.reply(Ok::<_, io::Error>(()))
}
