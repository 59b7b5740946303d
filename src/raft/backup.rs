//! What a running member gives away for keeping: a snapshot taken now, and one to carry away.

use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::vote::RaftLeaderId;
use tokio::time::{Instant, timeout_at};

use super::archive::{self, Archive, Head, Span};
use super::store::blocking;
use super::types::{LogId, SnapshotMeta};
use super::{Raft, RaftError};
use crate::state::{AuditRecord, State};

/// How long taking a snapshot is waited for.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// How long until raft is asked once more: it does not hear of a snapshot that is wanted while it writes one.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// Bytes handed out at a time.
const PIECE_BYTES: usize = 256 << 10;

/// A snapshot of the applied state with the retained audit, in a file that is gone with it. A secret: hashes of tokens
/// are in it.
#[derive(Debug)]
pub struct Backup {
    archive: Archive,
}

impl Backup {
    pub(super) fn of(archive: Archive) -> Self {
        Self { archive }
    }

    /// One of a state that no group replicates, at an index.
    ///
    /// # Errors
    /// When no file can be written in the directory for such.
    pub fn of_state(index: u64, state: &State, records: &[AuditRecord]) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("slotkeeper-{}.tmp", super::open::random_id()));
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        let end = &state.audit_head;
        let (first, previous) = match records.first() {
            Some(record) => (record.seq, record.previous.clone()),
            None => (end.seq + 1, end.hash.clone()),
        };
        let span = Span { first, previous, last: end.seq, hash: end.hash.clone() };
        let leader = openraft::impls::leader_id_std::LeaderId::<u64, u64>::new(1, 1).to_committed();
        let meta = SnapshotMeta { last_log_id: Some(LogId::new(leader, index)), ..SnapshotMeta::default() };
        let head = Head::new("local", &meta, span, records.len() as u64);
        let lines = records.iter().map(|record| serde_json::to_string(record).map_err(std::io::Error::other));
        archive::write(&file, false, &head, state, lines)?;
        Archive::open(file).map(Self::of).map_err(std::io::Error::other)
    }

    /// Its size.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.archive.bytes
    }

    /// Index of the log that it stands at.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.archive.head.meta.last_log_id.map_or(0, |id| id.index)
    }

    /// Its content, in pieces, none of them kept.
    pub fn into_stream(self) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 'static {
        futures::stream::try_unfold((std::sync::Arc::new(self.archive), 0), |(archive, at)| async move {
            let source = std::sync::Arc::clone(&archive);
            let piece = blocking(move || source.read_at(at, PIECE_BYTES)).await?;
            let next = at + piece.len() as u64;
            Ok((!piece.is_empty()).then(|| (Bytes::from(piece), (archive, next))))
        })
    }
}

impl Raft {
    /// Makes this member write a snapshot of what it has applied, and waits for it. Its index.
    ///
    /// # Errors
    /// [`RaftError`] when raft has stopped, or it takes longer than 60 s.
    pub async fn take_snapshot(&self) -> Result<u64, RaftError> {
        let core = &self.inner.core;
        let wanted = self.inner.replica.look(|_, index| index);
        let mut metrics = core.metrics();
        let deadline = Instant::now() + TAKEN_WITHIN;
        let mut ask_at = Instant::now();
        loop {
            let taken = metrics.borrow_watched().snapshot.as_ref().map(|id| id.index);
            if let Some(taken) = taken.filter(|&taken| taken >= wanted) {
                return Ok(taken);
            }
            if Instant::now() >= deadline {
                return Err(RaftError::Timeout);
            }
            if Instant::now() >= ask_at {
                core.trigger().snapshot().await.map_err(|error| RaftError::Fatal(error.to_string()))?;
                ask_at = Instant::now() + ASK_AGAIN;
            }
            if let Ok(Err(error)) = timeout_at(ask_at, metrics.changed()).await {
                return Err(RaftError::Fatal(error.to_string()));
            }
        }
    }

    /// A snapshot of what this member has applied now, to carry away.
    ///
    /// # Errors
    /// [`RaftError::Fatal`] when it cannot be written.
    pub async fn backup(&self) -> Result<Backup, RaftError> {
        // Between two applies, when the audit records of all that was applied are queued.
        let taken =
            self.inner.core.with_state_machine(|machine| Box::pin(std::future::ready(machine.snapshot()))).await;
        let (meta, state): (SnapshotMeta, State) = taken.map_err(|error| RaftError::Fatal(error.to_string()))?;
        let archive = self.inner.store.archive(meta, state).await;
        archive.map(Backup::of).map_err(|error| RaftError::Fatal(format!("no snapshot: {error}")))
    }
}
