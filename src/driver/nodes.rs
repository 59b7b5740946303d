//! What is asked of real nodes beside moving slots: who they are, what each of them sees, how it stands, and that it
//! comes and goes. A driver whose nodes can be asked answers [`super::Driver::nodes`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::Lease;
use crate::domain::{Address, ClusterName, NodeId, SlotSet, Topology};
use crate::nodes_text::{Adopted, View};

/// Real nodes, as far as they can be asked. Every call has a bound on its time and on what it reads.
pub trait Nodes: Send + Sync {
    /// From this size on a key is a big one: its move blocks both its servers.
    fn big_key_bytes(&self) -> u64;

    /// A running cluster, from the address of any of its nodes: the views of all its masters must agree.
    fn discover<'a>(&'a self, seed: &'a Address) -> BoxFuture<'a, Result<Discovery, NodesError>>;

    /// What every node of a cluster says. A node that does not answer is part of the answer.
    fn survey<'a>(&'a self, topology: &'a Topology, depth: Depth) -> BoxFuture<'a, Survey>;

    /// What keys the slots hold at the primaries of their shards, as far as a sample tells.
    fn sample<'a>(&'a self, topology: &'a Topology, slots: &'a SlotSet) -> BoxFuture<'a, Sample>;

    /// A server that is to join the cluster: it must be empty, in cluster mode, and know nobody else. Changes nothing.
    fn inspect<'a>(
        &'a self,
        topology: &'a Topology,
        address: &'a Address,
    ) -> BoxFuture<'a, Result<Candidate, NodesError>>;

    /// Makes a server that was inspected a member, and waits until every node knows it. Safe to repeat.
    fn admit<'a>(
        &'a self,
        mandate: &'a Mandate,
        topology: &'a Topology,
        candidate: &'a Candidate,
        replica_of: Option<&'a NodeId>,
    ) -> BoxFuture<'a, Result<(), NodesError>>;

    /// Makes every node forget one, and that one forget the others where it can be reached. Safe to repeat.
    fn forget<'a>(
        &'a self,
        mandate: &'a Mandate,
        topology: &'a Topology,
        node: &'a NodeId,
    ) -> BoxFuture<'a, Result<Forgotten, NodesError>>;
}

/// By whose right nodes are commanded: the leader's of a term, as long as it leads.
#[derive(Clone, Debug)]
pub struct Mandate {
    /// The cluster.
    pub cluster: ClusterName,
    /// Asked before every command that changes something.
    pub lease: Lease,
}

/// How long a lease that is not held is waited for: a majority is late, or there is a new leader.
const HELD_WITHIN: Duration = Duration::from_secs(2);

impl Mandate {
    /// Waits until it holds, for a moment.
    ///
    /// # Errors
    /// [`NodesError::Unavailable`] when it does not.
    pub async fn holds(&self) -> Result<(), NodesError> {
        let late = |_| {
            let why = "this member leads no more, or no majority says that it does: nothing more was sent; ask again";
            NodesError::Unavailable(why.to_owned())
        };
        timeout(HELD_WITHIN, self.lease.held()).await.map_err(late)
    }
}

/// Why nodes did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodesError {
    /// What was asked cannot be done with the server at this address, or the cluster as it is.
    #[error("{0}")]
    Refused(String),
    /// A server does not answer, or nodes did not come to agree in time: it may work later.
    #[error("{0}")]
    Unavailable(String),
}

/// How much is asked of each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only what it sees: [`Facts`] are left empty.
    Views,
    /// How it stands as well.
    Whole,
}

/// A running cluster, as its nodes tell it.
#[derive(Clone, Debug)]
pub struct Discovery {
    /// Nodes, shards and slots, with remarks.
    pub adopted: Adopted,
    /// Keys of all masters together.
    pub keys: u64,
}

/// What every node of a cluster says.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// One of each node of the topology.
    pub nodes: BTreeMap<NodeId, Surveyed>,
}

/// What one node says.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// Where it was asked.
    pub address: Address,
    /// What it says, or why nothing was heard of it.
    pub answer: Result<Answer, String>,
}

/// The answer of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The cluster as it sees it.
    pub view: View,
    /// How it stands.
    pub facts: Facts,
}

/// How a server stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Random, new with every start of the server.
    pub run_id: String,
    /// `redis` or `valkey`.
    pub server: String,
    /// Its version.
    pub version: String,
    /// Whether it is in cluster mode.
    pub cluster: bool,
    /// Whether it is still reading its data from disk.
    pub loading: bool,
    /// Keys it holds.
    pub keys: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Most bytes it may use; 0 without a bound.
    pub max_bytes: u64,
    /// How far its replication has come.
    pub offset: u64,
    /// Whether its link to its primary is up; none of a primary.
    pub link_up: Option<bool>,
    /// What a crash can lose.
    pub durability: Durability,
    /// `cluster-allow-replica-migration`; none where it cannot be told.
    pub replica_migration: Option<bool>,
    /// `cluster-node-timeout`; none where it cannot be told.
    pub node_timeout_ms: Option<u64>,
    /// The user it takes this controller for.
    pub user: Option<String>,
    /// Commands that a move needs and this user may not give.
    pub denied: Vec<String>,
}

/// What a crash of a server can lose of what it acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing is written to disk.
    #[default]
    None,
    /// Everything since the last snapshot.
    Snapshots,
    /// What the system had not written yet.
    System,
    /// The last second.
    EverySecond,
    /// Nothing.
    Always,
}

impl Durability {
    /// As the server's configuration says it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "no persistence",
            Self::Snapshots => "snapshots only",
            Self::System => "appendfsync no",
            Self::EverySecond => "appendfsync everysec",
            Self::Always => "appendfsync always",
        }
    }
}

/// What a sample tells of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Keys in each slot asked for.
    pub keys: BTreeMap<u16, u64>,
    /// About how many bytes the keys of each slot take, where any was measured on their server.
    pub slot_bytes: BTreeMap<u16, u64>,
    /// Microseconds of processor time that each slot took since its server counts them, where it does.
    pub slot_busy_us: BTreeMap<u16, u64>,
    /// Keys whose size was asked.
    pub measured: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The largest ones, the largest first.
    pub largest: Vec<LargeKey>,
    /// Why a shard could not be sampled, a sentence each.
    pub faults: Vec<String>,
}

/// A key and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeKey {
    /// Its slot.
    pub slot: u16,
    /// Its name, escaped and cut.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
}

/// A server that may become a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The id it gave itself.
    pub id: NodeId,
    /// Where clients reach it.
    pub address: Address,
    /// Where other nodes reach its bus, when that is not the default.
    pub bus_port: Option<u16>,
    /// What a person should know of it, a sentence each.
    pub notes: Vec<String>,
}

/// How a node was forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// What a person should know, a sentence each.
    pub notes: Vec<String>,
}

impl Survey {
    /// The answers, by node.
    pub fn answers(&self) -> impl Iterator<Item = (&NodeId, &Answer)> {
        self.nodes.iter().filter_map(|(id, node)| Some((id, node.answer.as_ref().ok()?)))
    }

    /// What a node answered.
    #[must_use]
    pub fn answer(&self, node: &NodeId) -> Option<&Answer> {
        self.nodes.get(node)?.answer.as_ref().ok()
    }

    /// The nodes that were not heard of.
    #[must_use]
    pub fn silent(&self) -> BTreeSet<&NodeId> {
        self.nodes.iter().filter(|(_, node)| node.answer.is_err()).map(|(id, _)| id).collect()
    }
}
