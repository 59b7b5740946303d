//! Requests to the other members: HTTP with JSON bodies on their peer listeners.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Request, Response};
use http_body_util::BodyExt;
use openraft::OptionalSend;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use reqwest::Body;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::acquaintance::{Acquaintance, FOREIGN, OTHER_STORE, REMOVED, Stranger, Way};
use super::level::{LEVEL_HEADER, Levels};
use super::machine::SnapshotContent;
use super::patience::wait_for_me;
use super::reversion::Acknowledged;
use super::transfer::{self, Outgoing};
use super::transport::{Lane, Transport, TransportError, chain};
use super::types::{Snapshot, Types, Vote};
use crate::domain::MemberId;

/// How long entries may take to arrive and to be durable on the other side.
const ENTRIES_WITHIN: Duration = Duration::from_secs(2);

/// How long a vote may take to be durable on the other side. One for a term that is over does no harm.
const VOTE_WITHIN: Duration = Duration::from_secs(10);

/// Why a peer gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerError {
    /// Nothing was sent.
    #[error("{0}")]
    Connect(TransportError),
    /// The peer refused the request before looking at it.
    #[error("refused ({status}): {why}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// In its words.
        why: String,
    },
    /// Anything after sending began: what the peer did is unknown.
    #[error("no answer: {0}")]
    Unknown(String),
}

/// Requests to the other members, each lane by itself, so that none waits behind another.
#[derive(Clone)]
pub(super) struct Peers {
    pub(super) acquaintance: Arc<Acquaintance>,
    acknowledged: Arc<Acknowledged>,
    pub(super) levels: Arc<Levels>,
    transport: Arc<dyn Transport>,
    pub(super) outgoing: Arc<Outgoing>,
}

impl Peers {
    pub(super) fn new(acquaintance: Arc<Acquaintance>, levels: Arc<Levels>, transport: Arc<dyn Transport>) -> Self {
        Self { acquaintance, acknowledged: Arc::default(), levels, transport, outgoing: Arc::default() }
    }

    /// Makes this member and another known to each other.
    pub(super) async fn greet(&self, to: (MemberId, &str)) -> Result<(), PeerError> {
        self.call(Lane::Forwards, to, "hello", b"null".to_vec(), Duration::from_secs(1)).await
    }

    /// Asks who is at a member's address, and takes note of it.
    pub(super) async fn meet(&self, to: (MemberId, &str)) -> Result<(), PeerError> {
        self.call(Lane::Forwards, to, "identity", b"null".to_vec(), Duration::from_secs(1)).await
    }

    /// Sends a client's request on to the leader.
    pub(super) async fn forward<Q: Serialize, A: DeserializeOwned>(
        &self,
        to: (MemberId, &str),
        verb: &str,
        request: &Q,
        within: Duration,
    ) -> Result<A, PeerError> {
        let body = serde_json::to_vec(request).map_err(|error| PeerError::Unknown(error.to_string()))?;
        self.call(Lane::Forwards, to, verb, body, within).await
    }

    async fn call<A: DeserializeOwned>(
        &self,
        lane: Lane,
        (target, address): (MemberId, &str),
        verb: &str,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<A, PeerError> {
        let mut request = Request::post(format!("http://{address}/raft/v1/{target}/{verb}"))
            .body(Body::from(body))
            .map_err(|error| PeerError::Unknown(error.to_string()))?;
        *request.headers_mut() = self.acquaintance.headers();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers_mut().insert(LEVEL_HEADER, HeaderValue::from(self.levels.own()));
        let answered = async {
            let response = self.transport.send(lane, request).await.map_err(|error| match error {
                TransportError::Connect(_) => PeerError::Connect(error),
                TransportError::Broken(why) => PeerError::Unknown(why),
            })?;
            self.answer(target, response).await
        };
        let too_slow = |_| PeerError::Unknown(format!("nothing within {} ms", within.as_millis()));
        timeout(within, answered).await.map_err(too_slow)?
    }

    async fn answer<A: DeserializeOwned>(&self, target: MemberId, response: Response<Body>) -> Result<A, PeerError> {
        let (head, body) = response.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes);
        let status = head.status.as_u16();
        if status == 200 {
            let from = self.acquaintance.check(&head.headers, Way::Answer).await;
            if !matches!(from, Ok(member) if member == target) {
                let why = from.err().map_or("the answer is from another member".to_owned(), |error| error.to_string());
                tracing::error!("member {target} is not heard: {why}");
                return Err(PeerError::Unknown(why));
            }
            self.levels.learn(target, &head.headers);
            let body = body.map_err(|error| PeerError::Unknown(chain(&error)))?;
            return serde_json::from_slice(&body).map_err(|error| PeerError::Unknown(chain(&error)));
        }
        let why = body.map(|body| String::from_utf8_lossy(&body).into_owned()).unwrap_or_default();
        match status {
            FOREIGN => tracing::error!("member {target} refuses this member: {why}"),
            OTHER_STORE => self.acquaintance.refused(target, &why).await,
            REMOVED => self.acquaintance.left(&why).await,
            _ => {}
        }
        match status {
            400..500 => Err(PeerError::Refused { status, why }),
            _ => Err(PeerError::Unknown(format!("status {status}: {why}"))),
        }
    }
}

impl RaftNetworkFactory<Types> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, target: MemberId, node: &openraft::BasicNode) -> Peer {
        Peer { lane: Lane::Entries, peers: self.clone(), target, address: node.addr.clone() }
    }

    async fn new_heartbeat_client(&mut self, target: MemberId, node: &openraft::BasicNode) -> Peer {
        Peer { lane: Lane::Heartbeats, peers: self.clone(), target, address: node.addr.clone() }
    }

    async fn new_snapshot_client(&mut self, target: MemberId, node: &openraft::BasicNode) -> Peer {
        Peer { lane: Lane::Snapshots, peers: self.clone(), target, address: node.addr.clone() }
    }
}

/// openraft's way to one peer.
pub(super) struct Peer {
    lane: Lane,
    pub(super) peers: Peers,
    pub(super) target: MemberId,
    address: String,
}

impl Peer {
    async fn rpc<Q: Serialize, A: DeserializeOwned>(
        &self,
        verb: &str,
        request: &Q,
        option: &RPCOption,
    ) -> Result<A, RPCError<Types>> {
        let body = serde_json::to_vec(request).map_err(|error| NetworkError::new(&error))?;
        self.send(verb, body, option.soft_ttl()).await
    }

    pub(super) async fn send<A: DeserializeOwned>(
        &self,
        verb: &str,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<A, RPCError<Types>> {
        self.peers.call(self.lane, (self.target, &self.address), verb, body, within).await.map_err(
            |error| match error {
                PeerError::Unknown(_) => NetworkError::new(&error).into(),
                PeerError::Connect(_) | PeerError::Refused { .. } => Unreachable::new(&error).into(),
            },
        )
    }
}

impl RaftNetworkV2<Types> for Peer {
    type SnapshotData = SnapshotContent;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let after = request.prev_log_id.map_or(0, |id| id.index);
        if !request.entries.is_empty() {
            self.peers.outgoing.still_sent(after).map_err(|given_up| NetworkError::new(&given_up))?;
        }
        // openraft's budget is that of a heartbeat. Entries that need longer to arrive (large, or a busy peer) would be
        // sent again and again and never be committed; heartbeats go their own way, so nothing else waits.
        let within = if request.entries.is_empty() { option.soft_ttl() } else { option.soft_ttl().max(ENTRIES_WITHIN) };
        let body = serde_json::to_vec(&request).map_err(|error| NetworkError::new(&error))?;
        let asked = self.peers.acknowledged.asked(self.target, &request);
        let answer = self.send("append", body, within).await?;
        if self.peers.acknowledged.denied(self.target, &asked, &answer) {
            let why = Stranger::Copy(self.target);
            tracing::error!("{why}");
            self.peers.acquaintance.bar(self.target).await.map_err(|error| NetworkError::new(&error))?;
            return Err(Unreachable::new(&why).into());
        }
        Ok(answer)
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        wait_for_me(VOTE_WITHIN);
        let body = serde_json::to_vec(&request).map_err(|error| NetworkError::new(&error))?;
        self.send("vote", body, VOTE_WITHIN).await
    }

    // Left out, it would count as granted.
    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        self.peers.acquaintance.store.pause.over().await;
        self.rpc("pre-vote", &request, &option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        transfer::send(self, vote, snapshot, cancel).await
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        self.rpc("transfer-leader", &request, &option).await
    }
}
