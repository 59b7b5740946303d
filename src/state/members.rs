//! What the log must remember of the raft group's members, because raft's own membership forgets it: which numbers were
//! used, who was invited, and who has left.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::domain::{MemberId, TokenId};

/// Numbers of members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// The highest number ever given; the next is above it.
    pub highest: MemberId,
    /// Members that were added and have no vote yet.
    pub invited: BTreeMap<MemberId, Invited>,
    /// Members that have left, or are leaving: their numbers are never used again.
    pub removed: BTreeSet<MemberId>,
}

/// A member that may join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invited {
    /// Where the others will reach it.
    pub address: String,
    /// The token it joins with.
    pub token: TokenId,
}

impl Members {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
