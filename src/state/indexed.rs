//! Collections with what is looked up in them: whose an address is, in which shard a node is, which answer is the
//! oldest. The indexes are derived, never stored, and nothing but this file changes what they are derived from.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Remembered, Revised};
use crate::domain::{Host, Instant, Node, NodeId, Shard, ShardId, SharedMap};

type NodeMap = SharedMap<NodeId, Arc<Revised<Node>>>;
type ShardMap = SharedMap<ShardId, Arc<Revised<Shard>>>;
type AnswerMap = SharedMap<String, Remembered>;

/// The nodes of a cluster by id.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "NodeMap", into = "NodeMap")]
pub struct Nodes {
    all: NodeMap,
    /// Who is where.
    addresses: SharedMap<(Host, u16), NodeId>,
}

/// The shards of a cluster by id.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "ShardMap", into = "ShardMap")]
pub struct Shards {
    all: ShardMap,
    /// The shard of each node.
    homes: SharedMap<NodeId, ShardId>,
}

/// Answers to requests with an `Idempotency-Key`, by `principal/key`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "AnswerMap", into = "AnswerMap")]
pub struct Answers {
    all: AnswerMap,
    by_age: SharedMap<(Instant, String), ()>,
}

impl Nodes {
    /// The node at an address.
    #[must_use]
    pub fn at(&self, host: &Host, port: u16) -> Option<&NodeId> {
        self.addresses.get(&(host.clone(), port))
    }

    /// Puts a node in, in place of the one with its id; false when there was none.
    pub(super) fn insert(&mut self, node: Revised<Node>) -> bool {
        let value = &node.value;
        let (id, address) = (value.id.clone(), (value.host.clone(), value.port));
        if let Some(old) = self.all.get(&id).filter(|old| old.value.host != address.0 || old.value.port != address.1) {
            let old = (old.value.host.clone(), old.value.port);
            forget(&mut self.addresses, &old, &id);
        }
        self.addresses.insert(address, id.clone());
        self.all.insert(id, Arc::new(node)).is_some()
    }

    /// Changes a node that is there; its revision, which moves only when the value does.
    pub(super) fn set(&mut self, value: Node) -> u64 {
        let current = self.all.get(&value.id).expect("the node was looked up before");
        let next = current.after(value);
        let revision = next.as_ref().map_or(current.revision, |next| next.revision);
        if let Some(next) = next {
            self.insert(next);
        }
        revision
    }

    pub(super) fn remove(&mut self, id: &NodeId) {
        if let Some(old) = self.all.remove(id) {
            forget(&mut self.addresses, &(old.value.host.clone(), old.value.port), id);
        }
    }

    /// Whether the index is what the nodes say.
    pub(super) fn is_sound(&self) -> bool {
        self.addresses == Self::from(self.all.clone()).addresses
    }
}

impl Shards {
    /// The shard a node is in.
    #[must_use]
    pub fn home(&self, node: &NodeId) -> Option<&ShardId> {
        self.homes.get(node)
    }

    /// Puts a shard in, in place of the one with its id; false when there was none.
    pub(super) fn insert(&mut self, shard: Revised<Shard>) -> bool {
        let id = shard.value.id.clone();
        let old = self.all.get(&id).cloned();
        if old.as_ref().is_none_or(|old| !old.value.nodes().eq(shard.value.nodes())) {
            for node in old.iter().flat_map(|old| old.value.nodes()) {
                forget(&mut self.homes, node, &id);
            }
            for node in shard.value.nodes() {
                self.homes.insert(node.clone(), id.clone());
            }
        }
        self.all.insert(id, Arc::new(shard)).is_some()
    }

    /// Changes a shard that is there; its revision, which moves only when the value does.
    pub(super) fn set(&mut self, value: Shard) -> u64 {
        let current = self.all.get(&value.id).expect("the shard was looked up before");
        let next = current.after(value);
        let revision = next.as_ref().map_or(current.revision, |next| next.revision);
        if let Some(next) = next {
            self.insert(next);
        }
        revision
    }

    pub(super) fn remove(&mut self, id: &ShardId) {
        if let Some(old) = self.all.remove(id) {
            for node in old.value.nodes() {
                forget(&mut self.homes, node, id);
            }
        }
    }

    /// Whether the index is what the shards say.
    pub(super) fn is_sound(&self) -> bool {
        self.homes == Self::from(self.all.clone()).homes
    }
}

impl Answers {
    pub(super) fn insert(&mut self, key: String, answer: Remembered) {
        self.remove(&key);
        self.by_age.insert((answer.at, key.clone()), ());
        self.all.insert(key, answer);
    }

    /// The oldest answer's time and key; of several the one with the lowest key.
    #[must_use]
    pub fn oldest(&self) -> Option<&(Instant, String)> {
        self.by_age.keys().next()
    }

    pub(super) fn remove(&mut self, key: &str) {
        if let Some(old) = self.all.remove(key) {
            self.by_age.remove(&(old.at, key.to_owned()));
        }
    }

    /// Whether the index is what the answers say.
    pub(super) fn is_sound(&self) -> bool {
        self.by_age == Self::from(self.all.clone()).by_age
    }
}

/// Removes an entry if it says this: another may have taken its place.
fn forget<K: Ord + Clone, V: Eq + Clone>(index: &mut SharedMap<K, V>, key: &K, value: &V) {
    if index.get(key) == Some(value) {
        index.remove(key);
    }
}

impl From<NodeMap> for Nodes {
    fn from(all: NodeMap) -> Self {
        let address = |node: &Arc<Revised<Node>>| (node.value.host.clone(), node.value.port);
        let addresses = all.iter().map(|(id, node)| (address(node), id.clone())).collect();
        Self { all, addresses }
    }
}

impl From<ShardMap> for Shards {
    fn from(all: ShardMap) -> Self {
        let nodes = |shard: &Arc<Revised<Shard>>| shard.value.nodes().cloned().collect::<Vec<_>>();
        let homes = all.iter().flat_map(|(id, shard)| nodes(shard).into_iter().map(|node| (node, id.clone())));
        let homes = homes.collect();
        Self { all, homes }
    }
}

impl From<AnswerMap> for Answers {
    fn from(all: AnswerMap) -> Self {
        let by_age = all.iter().map(|(key, answer)| ((answer.at, key.clone()), ())).collect();
        Self { all, by_age }
    }
}

macro_rules! map_of {
    ($name:ident, $map:ident, $key:ty, $value:ty) => {
        impl Deref for $name {
            type Target = $map;
            fn deref(&self) -> &$map {
                &self.all
            }
        }

        impl From<$name> for $map {
            fn from(indexed: $name) -> Self {
                indexed.all
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.all == other.all
            }
        }

        impl Eq for $name {}

        impl<'a> IntoIterator for &'a $name {
            type Item = (&'a $key, &'a $value);
            type IntoIter = <&'a $map as IntoIterator>::IntoIter;
            fn into_iter(self) -> Self::IntoIter {
                self.all.into_iter()
            }
        }
    };
}

map_of!(Nodes, NodeMap, NodeId, Arc<Revised<Node>>);
map_of!(Shards, ShardMap, ShardId, Arc<Revised<Shard>>);
map_of!(Answers, AnswerMap, String, Remembered);
