//! What clients see of a cluster at one version: shards, their nodes, and the slot table.

use serde::{Deserialize, Serialize};

use super::{ClusterId, Node, ShardId, ShardState, SlotRange, SlotTable, Version, Weight};

/// A snapshot for clients. Two snapshots of one version are equal on every member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Which cluster; a client refuses another one.
    pub cluster_id: ClusterId,
    /// Generation and epoch.
    pub version: Version,
    /// The shards, ascending by id; the same ids as `table.shards()`.
    pub shards: Vec<TopologyShard>,
    /// The owner of each slot.
    pub table: SlotTable,
    /// Ranges in flight, ascending and disjoint.
    pub moving: Vec<Moving>,
}

/// A shard as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyShard {
    /// Its id.
    pub id: ShardId,
    /// Relative share of the slots.
    pub weight: Weight,
    /// Desired state.
    pub state: ShardState,
    /// The node that serves its slots.
    pub primary: Node,
    /// The nodes that copy it.
    pub replicas: Vec<Node>,
}

/// Which end of a move serves the slots now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Serving {
    /// The source, until an epoch gives the slots to the target.
    From,
    /// The target already; the source may still hold cached values.
    To,
}

/// A range of slots on its way from one shard to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moving {
    /// The slots.
    pub range: SlotRange,
    /// The shard they leave.
    pub from: ShardId,
    /// The shard they go to.
    pub to: ShardId,
    /// Who serves them at this epoch; equals the owner in the slot table.
    pub serving: Serving,
}
