//! A topology as the hot path reads it: one array look-up from slot to node.

use std::sync::Arc;

use super::slot_of_key;
use crate::domain::tree::Tree;
use crate::domain::{ClusterId, Node, Serving, Slot, Topology, TopologyShard, Version};

/// An immutable topology, laid out for routing.
#[derive(Debug)]
pub struct Routes {
    topology: Topology,
    /// By the index of their shard: the primaries.
    primaries: Vec<Arc<Node>>,
}

impl Routes {
    /// The routes of a topology.
    #[must_use]
    pub fn new(topology: Topology) -> Self {
        assert!(
            topology.shards.iter().map(|shard| &shard.id).eq(topology.table.shards()),
            "a topology and its table list the same shards"
        );
        let primaries = topology.shards.iter().map(|shard| Arc::new(shard.primary.clone())).collect();
        Self { topology, primaries }
    }

    /// Which cluster.
    #[must_use]
    pub const fn cluster_id(&self) -> &ClusterId {
        &self.topology.cluster_id
    }

    /// Generation and epoch.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.topology.version
    }

    /// The whole topology.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The node that serves a key; none when nobody owns its slot.
    #[inline]
    #[must_use]
    pub fn route(&self, key: &[u8]) -> Option<&Arc<Node>> {
        self.node(slot_of_key(key))
    }

    /// The node that serves a slot.
    #[inline]
    #[must_use]
    pub fn node(&self, slot: Slot) -> Option<&Arc<Node>> {
        self.primaries.get(usize::from(self.topology.table.owners()[slot.index()]))
    }

    /// Where to read a hot key: the nodes from a random leaf of its tree up to its owner, each once; the first that has a
    /// copy answers, and those before it take one. Everybody with one topology climbs the same tree. Empty when nobody owns the
    /// key's slot.
    #[must_use]
    pub fn read_path(&self, key: &[u8]) -> Vec<Arc<Node>> {
        self.path_from(key, rand::random())
    }

    /// The path from the leaf that a draw picks.
    fn path_from(&self, key: &[u8], draw: u32) -> Vec<Arc<Node>> {
        let Some(owner) = self.route(key) else { return Vec::new() };
        let positions = u32::try_from(self.primaries.len()).expect("at most as many shards as slots");
        let tree = Tree::new(positions, Tree::ARITY).expect("somebody owns a slot");
        let mut path: Vec<Arc<Node>> = Vec::new();
        for position in tree.path(tree.leaf(draw % tree.leaves())) {
            let Some(node) = self.node(Tree::slot(key, position)) else { continue };
            if !path.iter().any(|seen| Arc::ptr_eq(seen, node)) {
                path.push(Arc::clone(node));
            }
            // Whatever is above has no more than the owner.
            if Arc::ptr_eq(node, owner) {
                break;
            }
        }
        path
    }

    /// The shard that owns a slot, with its replicas.
    #[must_use]
    pub fn shard(&self, slot: Slot) -> Option<&TopologyShard> {
        self.topology.shards.get(usize::from(self.topology.table.owners()[slot.index()]))
    }

    /// The node that served a slot until just now and may still hold its cached values: ask it after a miss, before the
    /// origin. Only while the slot is listed as moving and its new owner serves it already.
    #[must_use]
    pub fn previous_node(&self, slot: Slot) -> Option<&Arc<Node>> {
        let moving = &self.topology.moving;
        let at = moving.partition_point(|moving| moving.range.last() < slot);
        let moving = moving.get(at).filter(|moving| moving.range.contains(slot) && moving.serving == Serving::To)?;
        self.primaries.get(usize::from(self.topology.table.index_of(&moving.from)?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::TopologyBody;

    fn routes() -> Routes {
        let node = |id: &str, port: u16| json!({"id": id, "host": "10.0.0.1", "port": port, "zone": null});
        let body: TopologyBody = serde_json::from_value(json!({
            "kind": "full", "cluster_id": "c", "generation": 1, "epoch": 2, "slots": 16384,
            "key_hash": "crc16-xmodem", "hash_tag": "{}",
            "shards": [
                {"id": "b", "weight": 1, "state": "active", "primary": node("n2", 2), "replicas": [],
                 "ranges": [[8000, 12738], [12740, 16000]]},
                {"id": "a", "weight": 1, "state": "active", "primary": node("n1", 1), "replicas": [node("n3", 3)],
                 "ranges": [[0, 7999], [12739, 12739]]},
            ],
            "unassigned": [[16001, 16383]],
            "moving": [{"range": [10, 19], "from": "a", "to": "b", "serving": "from"},
                       {"range": [30, 39], "from": "b", "to": "a", "serving": "to"},
                       {"range": [9000, 9000], "from": "a", "to": "b", "serving": "to"}],
        }))
        .unwrap();
        Routes::new(Topology::try_from(body).unwrap())
    }

    #[test]
    fn every_slot_leads_to_its_owners_primary() {
        let routes = routes();
        for (slot, port) in [(0, 1), (7999, 1), (8000, 2), (12738, 2), (12739, 1), (12740, 2), (16000, 2)] {
            assert_eq!(routes.node(Slot::at(slot)).map(|node| node.port), Some(port), "slot {slot}");
        }
        assert_eq!(routes.node(Slot::at(16001)), None);
        assert_eq!(routes.route(b"123456789").unwrap().port, 1, "its slot is 12739");
        assert_eq!(routes.shard(Slot::at(5)).unwrap().replicas[0].port, 3);
    }

    #[test]
    fn a_read_path_climbs_from_a_random_leaf_to_the_owner() {
        let ids: Vec<String> = (0..40).map(|n| format!("s{n:02}")).collect();
        let shard = |(n, id): (u16, &String)| {
            let node = json!({"id": id, "host": "10.0.0.1", "port": n + 1, "zone": null});
            let last = if n == 39 { 16383 } else { n * 409 + 408 };
            json!({"id": id, "weight": 1, "state": "active", "primary": node, "replicas": [], "ranges": [[n * 409, last]]})
        };
        let body: TopologyBody = serde_json::from_value(json!({
            "kind": "full", "cluster_id": "c", "generation": 1, "epoch": 2, "slots": 16384,
            "key_hash": "crc16-xmodem", "hash_tag": "{}",
            "shards": (0..).zip(&ids).map(shard).collect::<Vec<_>>(), "unassigned": [], "moving": [],
        }))
        .unwrap();
        let routes = Routes::new(Topology::try_from(body).unwrap());
        let mut leaves = std::collections::BTreeSet::new();
        for draw in 0..30 {
            let path = routes.path_from(b"hot", draw);
            assert_eq!(path.last(), routes.route(b"hot"), "the owner is asked last");
            // 40 positions, four children each: a leaf is two or three steps below the root.
            assert!(path.len() <= 4, "{path:?}");
            let nodes: std::collections::BTreeSet<&str> = path.iter().map(|node| node.id.as_str()).collect();
            assert_eq!(nodes.len(), path.len(), "each node once: {path:?}");
            leaves.insert(path[0].id.to_string());
        }
        assert!(leaves.len() > 10, "30 leaves on 40 nodes: {leaves:?}");
        assert_eq!(routes.read_path(b"hot").last(), routes.route(b"hot"));
        let few = self::routes();
        let unowned = (0..100_000).map(|n| format!("k{n}")).find(|key| few.route(key.as_bytes()).is_none()).unwrap();
        assert_eq!(few.read_path(unowned.as_bytes()), Vec::new());
    }

    #[test]
    fn the_previous_node_is_told_only_after_a_flip() {
        let routes = routes();
        let previous = |slot| routes.previous_node(Slot::at(slot)).map(|node| node.port);
        assert_eq!([29, 30, 39, 40].map(previous), [None, Some(2), Some(2), None]);
        assert_eq!(previous(9000), Some(1));
        assert_eq!(previous(15), None, "the source still serves it");
        assert_eq!(previous(16383), None);
    }
}
