//! Where the nodes are not as the table has it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::schema;
use crate::domain::{NodeId, ShardId, SlotRange};

/// What the nodes say against the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftView {
    /// Generation of the table that the nodes were compared with.
    pub generation: u64,
    /// Its epoch.
    pub epoch: u64,
    /// Nodes that were asked.
    pub asked: u64,
    /// Those of them that answered.
    pub answered: u64,
    /// The differences, the most urgent first; empty when there are none.
    pub drift: Vec<DriftItem>,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftItem {
    /// Its kind: `uncovered`, `two-owners`, `foreign-claim`, `open-slot`, `unreachable`, `other-node`, `failover`,
    /// `replica-elsewhere`, `unknown-node`, `missing-node`, `disagreement`.
    pub kind: String,
    /// The node it is about, where it is about one.
    #[schema(value_type = Option<schema::Name>)]
    pub node: Option<NodeId>,
    /// Its shard, or the shard that should own the slots.
    #[schema(value_type = Option<schema::Name>)]
    pub shard: Option<ShardId>,
    /// The slots it is about.
    #[schema(value_type = Vec<schema::SlotPair>)]
    pub ranges: Vec<SlotRange>,
    /// What is so.
    pub what: String,
    /// What to do.
    pub advice: String,
}
