//! The raft group of controllers: the only room that knows openraft. Everything else sees [`Raft`].

mod acquaintance;
mod archive;
mod backup;
mod begin;
mod codec;
mod errand;
mod handle;
mod identity;
mod leader;
mod level;
mod machine;
mod membership;
mod network;
mod open;
mod patience;
mod purge;
mod restore;
mod reversion;
mod roster;
mod rounds;
mod rpc;
mod runtime;
mod store;
mod transfer;
mod transport;
mod types;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

pub use backup::Backup;
pub use handle::{Freshness, Raft};
pub use identity::has_member;
pub use membership::{GroupChange, GroupError};
pub use open::{Config, Join, OpenError, Tuning};
pub use restore::{Act, Made, SnapshotSummary, force_new_group, inspect, restore};
pub use roster::MemberStatus;
pub use runtime::{off_thread, seeded};
pub use store::Disk;
pub use transport::{Lane, Transport, TransportError};

use crate::domain::MemberId;
use crate::state::Applied;

/// Largest command, in bytes of its log entry.
pub const COMMAND_MAX_BYTES: usize = 512 << 10;

/// Runs what only a leader may do outside the group; none from a member that does not lead. See [`Raft::errand`].
pub type ErrandRunner = Arc<dyn Fn(String) -> BoxFuture<'static, Option<String>> + Send + Sync>;

/// A command that is committed and applied on this member too.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its index in the log.
    pub index: u64,
    /// What applying it gave, a rejection included.
    pub applied: Applied,
}

/// Why it is not known whether, or known that not, a command was committed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RaftError {
    /// No leader within the time limit; nothing was submitted.
    #[error("no leader of the raft group is known")]
    NoLeader,
    /// The command was sent and no answer came: its outcome is unknown.
    #[error("no answer from the leader within the time limit; the outcome is unknown")]
    Timeout,
    /// The command is larger than an entry of the log may be; nothing was submitted.
    #[error("the command takes {bytes} bytes; at most {COMMAND_MAX_BYTES} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A member of the group is too old for the command; nothing was submitted.
    #[error(
        "the command needs feature level {needs}, and the group is at {group}: a member of it runs an older version"
    )]
    NotYet {
        /// Level of the command.
        needs: u16,
        /// Level of the group: that of its oldest member.
        group: u16,
    },
    /// This member cannot go on; the process is about to end.
    #[error("raft has stopped: {0}")]
    Fatal(String),
}

/// What a member knows of itself and its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// This member.
    pub id: MemberId,
    /// Identity of the group, the same on every member.
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
    /// Those of them that have a vote.
    pub voters: BTreeSet<MemberId>,
    /// Milliseconds since a leader was last heard of (0 on a leader that a majority confirms); none before the first
    /// time.
    pub stale_ms: Option<u64>,
    /// Whether this member has applied up to a commit index that a leader told it since it started.
    pub recovered: bool,
}

/// How a member stands in its group: the part of its [`Status`] that costs nothing to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// As in the status.
    pub leader: Option<MemberId>,
    /// As in the status.
    pub role: &'static str,
    /// As in the status.
    pub stale_ms: Option<u64>,
    /// As in the status.
    pub recovered: bool,
}

/// What is called, with the reason, when a member cannot go on.
#[derive(Clone)]
pub struct FatalHook(Arc<dyn Fn(&str) + Send + Sync>);

impl FatalHook {
    /// A hook of one's own, for tests. It may be called from any thread and more than once.
    pub fn new(hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    /// Says why and ends the process with exit code 10.
    #[must_use]
    pub fn exit() -> Self {
        Self::new(|reason| {
            tracing::error!("this member cannot go on: {reason}");
            eprintln!("slotkeeper: this member cannot go on: {reason}");
            std::process::exit(10);
        })
    }

    fn call(&self, reason: &str) {
        (self.0)(reason);
    }
}

impl fmt::Debug for FatalHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FatalHook")
    }
}
