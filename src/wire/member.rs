//! The raft group and this member of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Text, Timestamp};

/// A member of the raft group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberView {
    /// Its number.
    pub id: u64,
    /// Where its peers reach it.
    pub peer_address: String,
    /// Whether it leads, as far as the answering member knows.
    pub leader: bool,
    /// What it is to the group.
    pub standing: MemberStanding,
    /// Index of the last entry it is known to have; `null` where no leader says.
    pub matched: Option<u64>,
    /// Entries it lacks.
    pub lag: Option<u64>,
    /// Milliseconds since it last answered the leader.
    pub last_contact_ms: Option<u64>,
}

/// What a member is to the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemberStanding {
    /// It has a vote.
    Voter,
    /// It receives everything and has no vote.
    Learner,
    /// It may join, and has not yet.
    Invited,
}

impl MemberStanding {
    /// The name as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Voter => "voter",
            Self::Learner => "learner",
            Self::Invited => "invited",
        }
    }
}

/// Make a number and a join token for a new member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberAdd {
    /// `HOST:PORT` where the other members will reach it.
    #[schema(max_length = 261, example = "10.0.0.4:7474")]
    pub peer_address: String,
    /// Why; kept in the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// A member that may join, with its token, shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberAdded {
    /// Its number, never used before.
    pub member_id: u64,
    /// Identity of the group.
    pub group_id: String,
    /// What `--join-token-file` is to hold.
    pub token: String,
    /// When the token stops working.
    pub expires_at: Timestamp,
}

/// What a process is told that joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JoinAnswer {
    /// Identity of the group.
    pub group_id: String,
    /// Its own number.
    pub member_id: u64,
    /// Where the others will reach it.
    pub peer_address: String,
    /// Every member.
    pub members: Vec<PeerView>,
}

/// Where a member is reached by the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PeerView {
    /// Its number.
    pub id: u64,
    /// Where its peers reach it.
    pub peer_address: String,
}

/// The token is not shown.
impl std::fmt::Debug for MemberAdded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemberAdded").field("member_id", &self.member_id).finish_non_exhaustive()
    }
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
