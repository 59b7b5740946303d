//! A shard: one primary node, its replicas, and what the operator wants of it.

use serde::{Deserialize, Serialize};

use super::{Invalid, NodeId, ShardId, SlotSet};

/// Share of the slots a shard should own, relative to the other weights: `0..=10000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Weight(u32);

impl Weight {
    /// Weight 1, the default.
    pub const ONE: Self = Self(1);
    /// The largest weight.
    pub const MAX: Self = Self(10_000);

    /// Checks a weight.
    ///
    /// # Errors
    /// [`Invalid`] above 10000.
    pub fn new(weight: u32) -> Result<Self, Invalid> {
        if weight <= Self::MAX.0 {
            Ok(Self(weight))
        } else {
            Err(Invalid::new("weight", format!("{weight} is not in 0..=10000")))
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for Weight {
    type Error = Invalid;
    fn try_from(weight: u32) -> Result<Self, Invalid> {
        Self::new(weight)
    }
}

impl From<Weight> for u32 {
    fn from(weight: Weight) -> Self {
        weight.0
    }
}

/// What the operator wants of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardState {
    /// Owns its share of the slots.
    Active,
    /// To be emptied.
    Draining,
}

/// A shard and its desired state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Its id, unique in the cluster.
    pub id: ShardId,
    /// Relative share of the slots.
    pub weight: Weight,
    /// Desired state.
    pub state: ShardState,
    /// The node that serves the shard's slots.
    pub primary: NodeId,
    /// The nodes that copy it, ascending.
    pub replicas: Vec<NodeId>,
    /// Never own fewer slots than this while active.
    pub min_slots: Option<u16>,
    /// Never own more slots than this.
    pub max_slots: Option<u16>,
    /// Slots that must not leave the shard while it owns them.
    pub pinned: SlotSet,
}

impl Shard {
    /// An active shard of one node, without bounds or pins.
    #[must_use]
    pub fn new(id: ShardId, primary: NodeId, weight: Weight) -> Self {
        let (state, pinned) = (ShardState::Active, SlotSet::new());
        Self { id, weight, state, primary, replicas: Vec::new(), min_slots: None, max_slots: None, pinned }
    }

    /// The primary and the replicas.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeId> {
        std::iter::once(&self.primary).chain(&self.replicas)
    }
}
