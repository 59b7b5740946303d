//! The types this room gives to openraft, and short names for those it gets back.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::state::{Applied, Command};

/// A command as an entry of the log; shared, because the log, the network and the state machine all hold it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Request(pub(super) Arc<Command>);

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command of {} at {}", self.0.by.name, self.0.at.0)
    }
}

/// What applying an entry gave; none for the entries that raft writes for itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Response(pub(super) Option<Applied>);

// One leader per term: fencing compares terms, so two leaders in one term, which openraft's default leader id
// allows, must be impossible.
openraft::declare_raft_types!(
    pub(super) Types:
        D = Request,
        R = Response,
        Node = openraft::BasicNode,
        AsyncRuntime = super::runtime::Runtime,
        LeaderId = openraft::impls::leader_id_std::LeaderId<Self::Term, Self::NodeId>,
);

pub(super) type Entry = openraft::alias::EntryOf<Types>;
pub(super) type LogId = openraft::alias::LogIdOf<Types>;
pub(super) type Vote = openraft::alias::VoteOf<Types>;
pub(super) type StoredMembership = openraft::alias::StoredMembershipOf<Types>;
pub(super) type SnapshotMeta = openraft::alias::SnapshotMetaOf<Types>;
pub(super) type Snapshot = openraft::alias::SnapshotOf<Types, super::machine::SnapshotContent>;
pub(super) type Core = openraft::Raft<Types, super::machine::Machine>;
