//! The raft group of controllers: the only room that knows openraft. Everything else sees [`Raft`].

use std::sync::Arc;

use tokio::sync::watch;

use crate::domain::{Instant, MemberId, Rejection};
use crate::state::{Applied, AuditRecord, Command, State};

/// A member of the group. Cheap to clone.
#[derive(Clone)]
pub struct Raft {
    _inner: Arc<()>,
}

/// A command that is committed and applied on this member too.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its index in the log.
    pub index: u64,
    /// What applying it gave, a rejection included.
    pub applied: Applied,
}

/// Why it is not known whether, or known that not, a command was committed.
#[derive(Debug, thiserror::Error)]
pub enum RaftError {
    /// No leader within the time limit; nothing was submitted.
    #[error("no leader of the raft group is known")]
    NoLeader,
    /// The command was sent and no answer came: its outcome is unknown.
    #[error("no answer from the leader within the time limit; the outcome is unknown")]
    Timeout,
    /// This member cannot go on; the process is about to end.
    #[error("raft has stopped: {0}")]
    Fatal(String),
}

/// What a member knows of itself and its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// This member.
    pub id: MemberId,
    /// Identity of the group, random, the same on every member.
    pub group_id: String,
    /// The leader, when one is known.
    pub leader: Option<MemberId>,
    /// `leader`, `follower`, `candidate` or `learner`.
    pub role: &'static str,
    /// Current term.
    pub term: u64,
    /// Index of the last committed entry known here.
    pub committed: u64,
    /// Index of the last applied entry.
    pub applied: u64,
    /// Every member and its peer address, ascending.
    pub members: Vec<(MemberId, String)>,
    /// Milliseconds since a leader was last heard of (0 on the leader); none before the first time.
    pub stale_ms: Option<u64>,
    /// Whether this member has applied up to a commit index that a leader told it since it started.
    pub recovered: bool,
}

impl Raft {
    /// Commits a command: here when this member leads, otherwise forwarded to the leader. Returns when it is applied on
    /// this member as well (or after 2 s behind a leader that answered).
    ///
    /// # Errors
    /// [`RaftError`]; a [`Rejection`] is an answer, in [`Committed::applied`].
    pub async fn submit(&self, _command: Command) -> Result<Committed, RaftError> {
        unimplemented!("src/raft")
    }

    /// Looks at the applied state. The closure must be short: applying waits for it.
    pub fn read<R>(&self, _look: impl FnOnce(&State) -> R) -> R {
        unimplemented!("src/raft")
    }

    /// Returns when this member has applied everything that was committed before the call (read index).
    ///
    /// # Errors
    /// [`RaftError`] when no leader confirms within 2 s.
    pub async fn linearize(&self) -> Result<(), RaftError> {
        unimplemented!("src/raft")
    }

    /// Index of the last applied entry, as it grows.
    #[must_use]
    pub fn applied(&self) -> watch::Receiver<u64> {
        unimplemented!("src/raft")
    }

    /// The term in which this member leads, as it changes; none while it does not lead.
    #[must_use]
    pub fn leading(&self) -> watch::Receiver<Option<u64>> {
        unimplemented!("src/raft")
    }

    /// What this member knows of its group.
    #[must_use]
    pub fn status(&self) -> Status {
        unimplemented!("src/raft")
    }

    /// Audit records with `after < seq`, ascending, at most `limit`.
    ///
    /// # Errors
    /// [`RaftError::Fatal`] when the store cannot be read.
    pub async fn audit(&self, _after: u64, _limit: usize) -> Result<Vec<AuditRecord>, RaftError> {
        unimplemented!("src/raft")
    }

    /// SHA-256 (hex) of the applied state and the index it stands at: equal on members at the same index.
    #[must_use]
    pub fn state_hash(&self) -> (u64, String) {
        unimplemented!("src/raft")
    }

    /// Stops: writes what is pending, closes the store.
    pub async fn shutdown(&self) {
        unimplemented!("src/raft")
    }
}

#[expect(dead_code, reason = "skeleton")]
type Unused = (Instant, Rejection);
