//! Which nodes hold the copies of which shard: what an operator asks for, and what a plan promises.

use serde::{Deserialize, Serialize};

use super::{NodeId, ShardId, Zone};

/// What the copies of a shard must not share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// A zone, as far as there are enough of them, and never a host.
    Zone,
    /// A host.
    Host,
}

impl Spread {
    /// The name as it is written in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Zone => "zone",
            Self::Host => "host",
        }
    }
}

/// The copies that every active shard is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PlacementGoal {
    /// Copies beside the primary, at least 1.
    pub replicas: u16,
    /// Where they must not meet.
    pub spread: Spread,
}

/// Where every copy is when the plan is done, and why no other placement changes fewer nodes: `changes` is the cost of a
/// flow that nothing improves, which anyone can test by looking for a cycle of negative cost in what is left of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// What was asked.
    pub goal: PlacementGoal,
    /// Nodes that get another shard.
    pub changes: u32,
    /// No placement of the goal changes fewer.
    pub lower_bound: u32,
    /// Shards that get another primary.
    pub failovers: u32,
    /// No choice of primaries that is spread as evenly needs fewer.
    pub failovers_lower_bound: u32,
    /// Most copies of one shard in one zone.
    pub per_zone: u32,
    /// Nodes of active shards that count for nothing, since they are draining or lost; ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<NodeId>,
    /// Every active shard, ascending by id.
    pub shards: Vec<PlacedShard>,
    /// Every host with copies, ascending by zone and name.
    pub hosts: Vec<PlacedHost>,
}

/// The copies of one shard that count; further replicas stay where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedShard {
    /// The shard.
    pub shard: ShardId,
    /// Its primary afterwards.
    pub primary: NodeId,
    /// The other copies, ascending.
    pub replicas: Vec<NodeId>,
}

/// The copies on one host: the nodes of one address in one zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedHost {
    /// Its zone.
    pub zone: Option<Zone>,
    /// Its address.
    pub host: super::Host,
    /// Copies afterwards.
    pub copies: u32,
    /// Primaries afterwards.
    pub primaries: u32,
    /// Fewest primaries of an even spread: `⌊copies / (1 + replicas)⌋`.
    pub lo: u32,
    /// Most: `⌈copies / (1 + replicas)⌉`.
    pub hi: u32,
}

impl PlacedShard {
    /// The primary and the replicas.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeId> {
        std::iter::once(&self.primary).chain(&self.replicas)
    }
}
