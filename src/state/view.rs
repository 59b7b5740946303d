//! What clients see of a cluster, and whether two states of it look the same to them.

use std::io;
use std::sync::Arc;

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
        let nodes = self.nodes.differences(&other.nodes, |a, b| Arc::ptr_eq(a, b) || a.value == b.value);
        let shards =
            self.shards.differences(&other.shards, |a, b| Arc::ptr_eq(a, b) || seen(&a.value) == seen(&b.value));
        self.table == other.table && self.moving == other.moving && nodes.count() == 0 && shards.count() == 0
    }
}

impl State {
    /// SHA-256 (hex) of the whole state in its serialised form: equal on members that applied the same commands.
    ///
    /// # Panics
    /// Never: every key of the state's maps is text or a number.
    #[must_use]
    pub fn hash(&self) -> String {
        struct Hasher(Sha256);
        impl io::Write for Hasher {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.update(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut out = io::BufWriter::new(Hasher(Sha256::new()));
        serde_json::to_writer(&mut out, self).expect("the state serialises");
        let Ok(hasher) = out.into_inner() else { unreachable!("hashing takes every write") };
        hex(&hasher.0.finalize())
    }
}
