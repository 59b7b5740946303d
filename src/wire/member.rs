//! The raft group and this member of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A member of the raft group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberView {
    /// Its number.
    pub id: u64,
    /// Where its peers reach it.
    pub peer_address: String,
    /// Whether it leads, as far as the answering member knows.
    pub leader: bool,
}

/// The member that answers, and what it knows of its group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatusView {
    /// Version of the program.
    pub version: String,
    /// This member.
    pub member_id: u64,
    /// Identity of the group.
    pub group_id: String,
    /// The leader, when one is known and was heard of in the last 2 s.
    pub leader: Option<u64>,
    /// What it takes itself for: `leader`, `follower`, `candidate` or `learner`.
    pub role: String,
    /// Current term.
    pub term: u64,
    /// Index of the last committed entry known here.
    pub committed: u64,
    /// Index of the last applied entry.
    pub applied: u64,
    /// SHA-256 of the applied state: equal on members at the same index.
    pub state_hash: String,
    /// The index that `state_hash` belongs to.
    pub state_hash_index: u64,
    /// Milliseconds since a leader was last heard of; `null` before the first time.
    pub stale_ms: Option<u64>,
    /// Whether `/readyz` says yes: it has caught up since its start and knows a leader.
    pub ready: bool,
    /// Requests that wait for a new epoch now.
    pub waiting: u64,
    /// Number of clusters.
    pub clusters: u32,
    /// Every member.
    pub members: Vec<MemberView>,
}
