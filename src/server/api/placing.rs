//! From nodes as they are asked for to changes of the cluster: fills in the names that were left open.

use std::collections::BTreeSet;

use crate::controller::{Change, Cluster, Place};
use crate::domain::{NodeId, ShardId};
use crate::server::error::ApiError;
use crate::wire::{NodeSpec, Placement};

/// Gives names to new nodes and their shards.
pub struct Placing {
    taken: BTreeSet<String>,
}

impl Placing {
    /// Names not in use in a cluster, nor asked for by one of the nodes to come.
    pub fn new<'a>(cluster: &Cluster, specs: impl IntoIterator<Item = &'a NodeSpec>) -> Self {
        let mut taken: BTreeSet<String> = cluster.nodes.keys().map(ToString::to_string).collect();
        taken.extend(cluster.shards.keys().map(ToString::to_string));
        for spec in specs {
            taken.extend(spec.name.as_ref().map(ToString::to_string));
            taken.extend(spec.shard.as_ref().map(ToString::to_string));
        }
        Self { taken }
    }

    /// The change that adds a node; `at` is its path in the request, empty or ending in a dot.
    pub fn add(&mut self, spec: &NodeSpec, at: &str) -> Result<Change, ApiError> {
        let placement = spec.placement(at)?;
        let fresh = if spec.name.is_none() { Some(self.fresh()) } else { None };
        let id = match (&spec.name, &fresh) {
            (Some(name), _) => name.clone(),
            (None, Some((node, _))) => node.clone(),
            (None, None) => unreachable!("a fresh name was made for a node without one"),
        };
        let place = match placement {
            Placement::ReplicaOf(shard) => Place::ReplicaOf { shard },
            Placement::NewShard(Some(shard), weight) => Place::NewShard { shard, weight },
            // A shard that was not named is called like its first node, unless both names were left open.
            Placement::NewShard(None, weight) => {
                let shard = match fresh {
                    Some((_, shard)) => shard,
                    None => ShardId::new(id.as_str()).expect("node and shard ids have the same form"),
                };
                Place::NewShard { shard, weight }
            }
        };
        Ok(Change::AddNode { node: spec.node(id), place })
    }

    /// `node-N` and `shard-N` with the lowest N of which neither is taken.
    fn fresh(&mut self) -> (NodeId, ShardId) {
        let free = (1_u32..)
            .map(|n| (format!("node-{n}"), format!("shard-{n}")))
            .find(|(node, shard)| !self.taken.contains(node) && !self.taken.contains(shard));
        let (node, shard) = free.expect("numbers do not end before names do");
        let ids = (NodeId::new(&node).expect("a valid name"), ShardId::new(&shard).expect("a valid name"));
        self.taken.extend([node, shard]);
        ids
    }
}
