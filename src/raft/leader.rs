//! What only the leader can do, for its own clients and for those of the members that ask it.

use std::sync::Arc;
use std::time::Duration;

use openraft::ReadPolicy;
use openraft::errors::{ClientWriteError, RaftError as CoreError};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::handle::Freshness;
use super::level::Levels;
use super::types::{Core, Request};
use crate::state::{Applied, Command};

/// What became of a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Submitted {
    /// Committed and applied on the leader.
    Committed {
        /// Its index in the log.
        index: u64,
        /// What applying it gave.
        applied: Box<Applied>,
    },
    /// Not even written: this member does not lead.
    NotLeader,
    /// Not written: a member of the group is too old for it.
    NotYet {
        /// The level that it needs.
        needs: u16,
        /// That of the group.
        group: u16,
    },
    /// Written, and then not heard of.
    Unknown,
}

/// Where a linearizable read may look from.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReadIndex {
    /// From the state at this index on.
    From(u64),
    /// This member does not lead, or a majority does not confirm that it does.
    NotLeader,
}

/// Writes a command as the leader.
pub(super) async fn write(core: &Core, levels: &Levels, command: Arc<Command>, within: Duration) -> Submitted {
    let (needs, group) = (command.version, levels.of_group(core));
    if needs > group {
        return Submitted::NotYet { needs, group };
    }
    match timeout(within, core.client_write(Request(command))).await {
        Ok(Ok(written)) => Submitted::Committed {
            index: written.log_id.index,
            applied: Box::new(written.data.0.expect("the answer to a command is what applying it gave")),
        },
        Ok(Err(CoreError::APIError(ClientWriteError::ForwardToLeader(_)))) => Submitted::NotLeader,
        Ok(Err(error)) => {
            tracing::warn!("a command was written and lost sight of: {error}");
            Submitted::Unknown
        }
        Err(_) => Submitted::Unknown,
    }
}

/// Asks a majority whether this member still leads, or trusts that its lease lasts: everything committed before the call
/// is at or below the index.
pub(super) async fn read_index(core: &Core, freshness: Freshness, within: Duration) -> ReadIndex {
    let policy = match freshness {
        Freshness::ReadIndex => ReadPolicy::ReadIndex,
        Freshness::Lease => ReadPolicy::LeaseRead,
    };
    match timeout(within, core.get_read_linearizer(policy)).await {
        Ok(Ok(linearizer)) => ReadIndex::From(linearizer.read_log_id().index()),
        Ok(Err(_)) | Err(_) => ReadIndex::NotLeader,
    }
}
