//! Snapshots on their way to another member: in pieces, so that neither side ever holds one whole, each piece asked
//! for by its offset, so that a lost connection costs a piece and not the snapshot. Only when all of it is there and
//! its checksum is right does raft hear of it. Entries and heartbeats go their own ways meanwhile.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State as Shared};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Extension, Router};
use openraft::OptionalSend;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError};
use openraft::raft::SnapshotResponse;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::archive::Archive;
use super::machine::{Received, SnapshotContent};
use super::network::Peer;
use super::rpc::{Member, Reply};
use super::store::blocking;
use super::types::{Snapshot, SnapshotMeta, Types, Vote};
use crate::domain::MemberId;

/// Bytes of one piece.
const PIECE_BYTES: usize = 1 << 20;
/// Largest request: a piece and what goes with it.
const REQUEST_MAX_BYTES: usize = PIECE_BYTES + (64 << 10);
/// Largest snapshot that is taken.
const SNAPSHOT_MAX_BYTES: u64 = 16 << 30;
/// How long one piece may take.
const PIECE_WITHIN: Duration = Duration::from_secs(10);
/// How long checking and installing may take once everything is there.
const INSTALL_WITHIN: Duration = Duration::from_secs(120);
/// Attempts at one piece before raft is told, which tries again later.
const ATTEMPTS_MAX: u32 = 5;
/// Pause after the first failed attempt; it grows with every one.
const PAUSE: Duration = Duration::from_millis(50);

/// What goes before the bytes of a piece, on a line of its own.
#[derive(Debug, Serialize, Deserialize)]
struct Piece {
    vote: Vote,
    /// Which snapshot: the checksum of all of it.
    sha256: String,
    bytes: u64,
    /// Where in it the piece starts.
    offset: u64,
    /// All of it was sent: check and install it.
    install: bool,
}

/// The answer to a piece.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Taken {
    /// So many bytes are there, from the first on: the next piece starts there.
    Bytes(u64),
    /// All of it is there, checked, and with raft.
    Installed(SnapshotResponse<Types>),
}

/// A peer needs entries that are not kept for it.
#[derive(Debug, thiserror::Error)]
#[error("the entries up to {upto} are given up: it is sent a snapshot")]
pub(super) struct GivenUp {
    upto: u64,
}

/// The snapshots that are or were on their way, and where they take the place of entries.
#[derive(Default)]
pub(super) struct Outgoing {
    /// The one that was last sent: kept until a peer has it, so that one that lost the connection goes on with it.
    last: Mutex<Option<(SnapshotMeta, Arc<Archive>)>>,
    /// The index that the last one sent to each peer stands at, whether or not it is there yet.
    upto: Mutex<BTreeMap<MemberId, u64>>,
    /// The last entry that is not sent to anybody any more.
    given_up: AtomicU64,
}

impl Outgoing {
    /// Where the last snapshot that was sent to a peer stands in the log, 0 when none was.
    pub(super) fn sent_upto(&self, peer: MemberId) -> u64 {
        self.upto.lock().unwrap_or_else(PoisonError::into_inner).get(&peer).copied().unwrap_or_default()
    }

    /// From now on a peer that lacks an entry up to this index is sent a snapshot. raft keeps entries for as long as it sends
    /// them without an error, to one who never catches up for ever.
    pub(super) fn give_up(&self, upto: u64) {
        self.given_up.fetch_max(upto, Ordering::Relaxed);
    }

    /// Whether what comes after an index is still sent as entries.
    pub(super) fn still_sent(&self, after: u64) -> Result<(), GivenUp> {
        let upto = self.given_up.load(Ordering::Relaxed);
        if after < upto { Err(GivenUp { upto }) } else { Ok(()) }
    }

    fn sending(&self, peer: MemberId, meta: &SnapshotMeta) {
        let index = meta.last_log_id.map_or(0, |id| id.index);
        self.upto.lock().unwrap_or_else(PoisonError::into_inner).insert(peer, index);
    }

    async fn of(&self, peer: &Peer, snapshot: Snapshot) -> io::Result<Arc<Archive>> {
        let held = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, archive)) = held.filter(|(meta, _)| *meta == snapshot.meta) {
            return Ok(archive);
        }
        let store = &peer.peers.acquaintance.store;
        let archive = Arc::new(store.archive(snapshot.meta.clone(), snapshot.snapshot.state).await?);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((snapshot.meta, Arc::clone(&archive)));
        Ok(archive)
    }

    fn forget(&self, sent: &Arc<Archive>) {
        let mut held = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if held.as_ref().is_some_and(|(_, archive)| Arc::ptr_eq(archive, sent)) {
            *held = None;
        }
    }
}

/// Sends a snapshot to a peer.
pub(super) async fn send(
    peer: &Peer,
    vote: Vote,
    snapshot: Snapshot,
    cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
    let transmit = async {
        let outgoing = &peer.peers.outgoing;
        outgoing.sending(peer.target, &snapshot.meta);
        let unsent = |error: io::Error| StreamingError::from(NetworkError::new(&error));
        let archive = outgoing.of(peer, snapshot).await.map_err(unsent)?;
        let installed = send_pieces(peer, vote, &archive).await?;
        outgoing.forget(&archive);
        Ok(installed)
    };
    tokio::select! {
        closed = cancel => Err(StreamingError::Closed(closed)),
        sent = transmit => sent,
    }
}

async fn send_pieces(
    peer: &Peer,
    vote: Vote,
    archive: &Arc<Archive>,
) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
    let unsent = |error: io::Error| StreamingError::from(NetworkError::new(&error));
    // The first piece is empty: it asks how much the peer has already.
    let (mut offset, mut most, mut failures) = (0, 0, 0);
    loop {
        let (source, from) = (Arc::clone(archive), offset);
        let bytes = blocking(move || source.read_at(from, most)).await.map_err(unsent)?;
        let install = offset == archive.bytes;
        let within = if install { INSTALL_WITHIN } else { PIECE_WITHIN };
        let piece = Piece { vote, sha256: archive.sha256.clone(), bytes: archive.bytes, offset, install };
        let mut body = serde_json::to_vec(&piece).map_err(|error| unsent(error.into()))?;
        body.push(b'\n');
        body.extend_from_slice(&bytes);
        match peer.send("snapshot", body, within).await {
            Ok(Taken::Installed(response)) => return Ok(response),
            Ok(Taken::Bytes(there)) => {
                // A peer that lost what it had goes back, and may do so only so often.
                failures = if there > offset || most == 0 { 0 } else { failures + 1 };
                offset = there.min(archive.bytes);
                most = PIECE_BYTES;
            }
            Err(RPCError::Unreachable(error)) => return Err(RPCError::Unreachable(error).into()),
            Err(error) if failures + 1 >= ATTEMPTS_MAX => return Err(error.into()),
            Err(error) => {
                failures += 1;
                tracing::info!("a piece of a snapshot at byte {offset} did not arrive, sending it again: {error}");
            }
        }
        if failures > 0 {
            sleep(PAUSE * failures).await;
        }
    }
}

/// The one snapshot that is being received; another one takes its place.
#[derive(Default)]
struct Incoming(tokio::sync::Mutex<Option<Arriving>>);

struct Arriving {
    sha256: String,
    bytes: u64,
    file: Arc<File>,
    there: u64,
    /// Checked, and about to be installed.
    checked: Option<(Arc<Archive>, crate::state::State)>,
}

/// The route at which a member takes a snapshot.
pub(super) fn routes() -> Router<Member> {
    Router::new()
        .route("/raft/v1/{target}/snapshot", post(snapshot).layer(DefaultBodyLimit::max(REQUEST_MAX_BYTES)))
        .layer(Extension(Arc::new(Incoming::default())))
}

async fn snapshot(
    Shared(member): Shared<Member>,
    Path(target): Path<MemberId>,
    Extension(incoming): Extension<Arc<Incoming>>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply {
    member.admit(target, &headers).await?;
    let bad = |why: String| (StatusCode::BAD_REQUEST, why);
    let end = body.iter().position(|&byte| byte == b'\n').ok_or_else(|| bad("head: no end of its line".to_owned()))?;
    let piece: Piece = serde_json::from_slice(&body[..end]).map_err(|error| bad(format!("head: {error}")))?;
    if piece.bytes > SNAPSHOT_MAX_BYTES {
        return Err(bad(format!("{} bytes are more than a snapshot may have", piece.bytes)));
    }
    let bytes = body.slice(end + 1..);
    let path = member.acquaintance.store.incoming_path();
    // Held to the end: pieces come one after the other, and one that is sent again must find the first one done.
    let mut slot = incoming.0.lock().await;
    if slot.as_ref().is_none_or(|arriving| (&arriving.sha256, arriving.bytes) != (&piece.sha256, piece.bytes)) {
        *slot =
            Some(Arriving::new(&path, &piece).map_err(|error| (StatusCode::INSUFFICIENT_STORAGE, error.to_string()))?);
    }
    let arriving = slot.as_mut().expect("just put there");
    if !piece.install {
        let taken = arriving.take(piece.offset, bytes).await;
        return member.reply(taken.map(Taken::Bytes));
    }
    if arriving.there < arriving.bytes {
        return member.reply(Ok::<_, io::Error>(Taken::Bytes(arriving.there)));
    }
    let (archive, state) = match arriving.check(&member.acquaintance.identity.group_id).await {
        Ok(checked) => checked,
        Err(why) => {
            *slot = None;
            tracing::error!("a snapshot that was received is refused: {why}");
            return Err((StatusCode::UNPROCESSABLE_ENTITY, why));
        }
    };
    let meta = archive.head.meta.clone();
    let content = SnapshotContent { state, received: Some(Received { archive, path }) };
    let installed = member.core.install_full_snapshot(piece.vote, Snapshot { meta, snapshot: content }).await;
    *slot = None;
    member.reply(installed.map(Taken::Installed))
}

impl Arriving {
    fn new(path: &PathBuf, piece: &Piece) -> io::Result<Self> {
        // Not over the old one, which may be about to be installed.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        let (sha256, bytes) = (piece.sha256.clone(), piece.bytes);
        Ok(Self { sha256, bytes, file: Arc::new(file), there: 0, checked: None })
    }

    /// Takes a piece that continues what is there; says how much is there then.
    async fn take(&mut self, offset: u64, bytes: Bytes) -> io::Result<u64> {
        let end = offset + bytes.len() as u64;
        if offset != self.there || bytes.is_empty() || end > self.bytes {
            return Ok(self.there);
        }
        let file = Arc::clone(&self.file);
        blocking(move || {
            file.write_all_at(&bytes, offset)?;
            // Little by little: all of it at the end would stall the log beside it.
            file.sync_data()
        })
        .await?;
        self.there = end;
        Ok(end)
    }

    async fn check(&mut self, group_id: &str) -> Result<(Arc<Archive>, crate::state::State), String> {
        if let Some((archive, state)) = &self.checked {
            return Ok((Arc::clone(archive), state.clone()));
        }
        let (file, announced, group_id) = (Arc::clone(&self.file), self.sha256.clone(), group_id.to_owned());
        let checked = blocking(move || {
            file.sync_all()?;
            let archive = Archive::open(file.try_clone()?).map_err(io::Error::other)?;
            if archive.sha256 != announced || archive.head.group_id != group_id {
                return Err(io::Error::other("it is not the snapshot of this group that was announced"));
            }
            let state = archive.state().map_err(io::Error::other)?;
            archive.check_records().map_err(io::Error::other)?;
            Ok((Arc::new(archive), state))
        });
        let (archive, state) = checked.await.map_err(|error| error.to_string())?;
        self.checked = Some((Arc::clone(&archive), state.clone()));
        Ok((archive, state))
    }
}
