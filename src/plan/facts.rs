//! What was seen of the nodes when a plan was made: the input of the preflight checks.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::{NodeId, Slot};

/// What was seen of a cluster's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Each node of the cluster.
    pub nodes: BTreeMap<NodeId, NodeFacts>,
    /// Where nodes and table, or nodes among each other, disagree.
    pub drift: Vec<DriftFact>,
    /// What a sample of the slots tells of their keys.
    pub sample: SampleFacts,
    /// From this size on a key is a big one.
    pub big_key_bytes: u64,
}

/// What was seen of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its address.
    pub address: String,
    /// Why nothing was heard of it; nothing below counts then.
    pub silent: Option<String>,
    /// Whether it was given up before.
    pub lost: bool,
    /// The version of the server.
    pub version: String,
    /// What a crash can lose, in the words of its configuration; none when it loses nothing.
    pub lossy: Option<String>,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Most bytes it may use; 0 without a bound.
    pub max_bytes: u64,
    /// How far its replication has come.
    pub offset: u64,
    /// Whether its link to its primary is up; none of a primary.
    pub link_up: Option<bool>,
    /// `cluster-allow-replica-migration`.
    pub replica_migration: Option<bool>,
    /// `cluster-node-timeout`.
    pub node_timeout_ms: Option<u64>,
    /// The user it takes the controller for.
    pub user: Option<String>,
    /// Commands of a move that this user may not give.
    pub denied: Vec<String>,
}

/// One disagreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftFact {
    /// Its kind, such as `open-slot`.
    pub kind: String,
    /// A sentence.
    pub what: String,
    /// The slots it is about.
    pub slots: BTreeSet<Slot>,
}

/// What a sample tells of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleFacts {
    /// Keys of each slot that was asked for.
    pub keys: BTreeMap<Slot, u64>,
    /// Keys whose size was asked, and their bytes.
    pub measured: (u64, u64),
    /// The largest of them, with slot, name and bytes; the largest first.
    pub largest: Vec<(Slot, String, u64)>,
    /// Why a shard could not be sampled, a sentence each.
    pub faults: Vec<String>,
}

impl SampleFacts {
    /// Keys in these slots; none when they were not counted.
    #[must_use]
    pub fn keys_in(&self, slots: impl IntoIterator<Item = Slot>) -> Option<u64> {
        slots.into_iter().map(|slot| self.keys.get(&slot).copied()).sum()
    }

    /// Bytes that so many keys take, as the sample has it.
    #[must_use]
    pub fn bytes_of(&self, keys: u64) -> Option<u64> {
        let (measured, bytes) = self.measured;
        match (keys, measured) {
            (0, _) => Some(0),
            (_, 0) => None,
            _ => u64::try_from(u128::from(keys) * u128::from(bytes) / u128::from(measured)).ok(),
        }
    }
}
