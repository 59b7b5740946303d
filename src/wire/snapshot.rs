//! Snapshots and what is in them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A snapshot that a member took for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotTaken {
    /// The member.
    pub member_id: u64,
    /// Index of the last entry in it.
    pub index: u64,
}

/// What a snapshot file holds, as `slotkeeper snapshot status` tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotSummary {
    /// Version of the program that wrote it.
    pub written_by: String,
    /// The group it is of.
    pub group_id: String,
    /// Index of the last entry in it.
    pub index: u64,
    /// Term of that entry.
    pub term: u64,
    /// The members then: number and peer address.
    pub members: Vec<(u64, String)>,
    /// Every cluster with its version, `GENERATION.EPOCH`.
    pub clusters: Vec<(String, String)>,
    /// First and last audit record in it; none when it holds none.
    pub audit: Option<(u64, u64)>,
    /// SHA-256 of the state, as `/v1/status` tells it at that index.
    pub state_hash: String,
    /// SHA-256 of the content.
    pub sha256: String,
    /// Size of the file.
    pub bytes: u64,
}
