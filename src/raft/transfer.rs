//! Snapshots on their way to another member.

use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State as Shared};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use openraft::OptionalSend;
use openraft::errors::{NetworkError, ReplicationClosed, StreamingError};
use openraft::network::RPCOption;
use openraft::raft::SnapshotResponse;
use serde::{Deserialize, Serialize};

use super::codec;
use super::machine::SnapshotContent;
use super::network::Peer;
use super::rpc::{Member, Reply};
use super::store::Store;
use super::types::{Snapshot, SnapshotMeta, Types, Vote};
use crate::domain::MemberId;

const SNAPSHOT_MAX_BYTES: usize = 1 << 30;
/// Longest wait for a snapshot's answer to begin; raft itself gives up earlier, by its own setting.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// The routes at which a member takes a snapshot.
pub(super) fn routes() -> Router<Member> {
    Router::new().route("/raft/v1/{target}/snapshot", post(snapshot).layer(DefaultBodyLimit::max(SNAPSHOT_MAX_BYTES)))
}

/// Sends a snapshot to a peer.
pub(super) async fn send(
    peer: &Peer,
    vote: Vote,
    snapshot: Snapshot,
    cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
    option: RPCOption,
) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
    let transmit = async {
        let body = snapshot_body(&peer.peers.acquaintance.store, vote, snapshot)
            .await
            .map_err(|error| StreamingError::from(NetworkError::new(&error)))?;
        let within = option.soft_ttl().min(IDLE_TIMEOUT);
        peer.send("snapshot", body, within).await.map_err(StreamingError::from)
    };
    tokio::select! {
        closed = cancel => Err(StreamingError::Closed(closed)),
        sent = transmit => sent,
    }
}

async fn snapshot(
    Shared(member): Shared<Member>,
    Path(target): Path<MemberId>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply {
    member.admit(target, &headers).await?;
    let (vote, snapshot) = parse_snapshot(&body).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    member.reply(member.core.install_full_snapshot(vote, snapshot).await)
}

#[derive(Serialize, Deserialize)]
struct SnapshotHead {
    vote: Vote,
    meta: SnapshotMeta,
}

/// A snapshot on the wire: a line of JSON each for head and state, then one per audit record.
async fn snapshot_body(store: &Store, vote: Vote, snapshot: Snapshot) -> io::Result<Vec<u8>> {
    let Snapshot { meta, snapshot: SnapshotContent { state, audit } } = snapshot;
    let audit = match audit {
        Some(records) => records,
        None => store.audit(0, usize::MAX).await?,
    };
    let mut body = serde_json::to_vec(&SnapshotHead { vote, meta })?;
    body.push(b'\n');
    body.extend(codec::encode(&state).map_err(io::Error::other)?.bytes());
    // Records later than the snapshot belong to entries that the receiver applies by itself.
    for record in audit.iter().take_while(|record| record.seq <= state.audit_head.seq) {
        body.push(b'\n');
        serde_json::to_writer(&mut body, record)?;
    }
    Ok(body)
}

fn parse_snapshot(body: &[u8]) -> Result<(Vote, Snapshot), String> {
    let mut lines = body.split(|&byte| byte == b'\n');
    let head: SnapshotHead =
        serde_json::from_slice(lines.next().unwrap_or_default()).map_err(|error| format!("head: {error}"))?;
    let state = codec::decode(lines.next().unwrap_or_default()).map_err(|error| format!("state: {error}"))?;
    let audit = lines
        .map(serde_json::from_slice)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("audit record: {error}"))?;
    let content = SnapshotContent { state, audit: Some(audit) };
    Ok((head.vote, Snapshot { meta: head.meta, snapshot: content }))
}
