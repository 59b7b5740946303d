//! What clients see of a cluster, and whether two states of it look the same to them.

use sha2::{Digest as _, Sha256};

use super::{Cluster, State};
use crate::domain::{Epoch, NodeId, Shard, Topology, TopologyShard, hex};

impl Cluster {
    /// What clients see.
    #[must_use]
    pub fn topology(&self) -> Topology {
        let node = |id: &NodeId| self.nodes[id].value.clone();
        let shard = |shard: &Shard| TopologyShard {
            id: shard.id.clone(),
            weight: shard.weight,
            state: shard.state,
            primary: node(&shard.primary),
            replicas: shard.replicas.iter().map(node).collect(),
        };
        Topology {
            cluster_id: self.id.clone(),
            version: self.version(),
            shards: self.shards.values().map(|revised| shard(&revised.value)).collect(),
            table: self.table.clone(),
            moving: self.moving.clone(),
        }
    }

    /// Sets the epoch: one above `before` when clients see a difference, otherwise the same. True when it moved.
    pub(super) fn seal(&mut self, before: &Self) -> bool {
        let changed = !self.looks_like(before);
        self.epoch = Epoch(before.epoch.0 + u64::from(changed));
        changed
    }

    /// Whether the topologies are equal but for the epoch; compares in place, since it runs with every command.
    fn looks_like(&self, other: &Self) -> bool {
        fn seen(shard: &Shard) -> impl PartialEq {
            (&shard.id, shard.weight, shard.state, &shard.primary, &shard.replicas)
        }
        self.table == other.table
            && self.moving == other.moving
            && self.nodes.values().map(|node| &node.value).eq(other.nodes.values().map(|node| &node.value))
            && self.shards.len() == other.shards.len()
            && self.shards.values().zip(other.shards.values()).all(|(a, b)| seen(&a.value) == seen(&b.value))
    }
}

impl State {
    /// SHA-256 (hex) of the whole state in its serialised form: equal on members that applied the same commands.
    ///
    /// # Panics
    /// Never: every key of the state's maps is text or a number.
    #[must_use]
    pub fn hash(&self) -> String {
        hex(&Sha256::digest(serde_json::to_vec(self).expect("the state serialises")))
    }
}
