//! Asking Redis and Valkey servers who they are and how they stand, and changing who belongs to a cluster.

mod agreement;
mod ask;
mod discover;
mod facts;
mod join;
mod leave;
mod sample;
mod slot_stats;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream;
use tokio::time::timeout;

use self::ask::Server;
use super::links::Links;
use crate::domain::{Address, NodeId, SlotSet, Topology};
use crate::driver::nodes::{
    Answer, Candidate, Depth, Discovery, Forgotten, Mandate, Nodes, NodesError, Sample, Survey, Surveyed,
};

/// How long one server may take to be connected to and to say what it sees.
const SURVEY_TIME: Duration = Duration::from_millis(1_500);
/// Servers that are asked at the same time.
const TOGETHER: usize = 64;

/// The servers of clusters.
#[derive(Debug)]
pub struct Servers {
    links: Arc<Links>,
}

impl Servers {
    /// Asks by these connections.
    #[must_use]
    pub const fn new(links: Arc<Links>) -> Self {
        Self { links }
    }

    fn at<'a>(&'a self, address: &'a Address) -> Server<'a> {
        Server::new(&self.links, address)
    }

    async fn survey_of(&self, topology: &Topology, depth: Depth) -> Survey {
        let nodes: Vec<_> = nodes_of(topology).map(|(id, address)| (id.clone(), address)).collect();
        let asked = nodes.into_iter().map(|(id, address)| async move {
            let asked = async { self.at(&address).answer(depth).await.map_err(|error| error.to_string()) };
            let late = || Err(format!("no answer within {} ms", SURVEY_TIME.as_millis()));
            let answer: Result<Answer, String> = timeout(SURVEY_TIME, asked).await.unwrap_or_else(|_| late());
            (id, Surveyed { address, answer })
        });
        Survey { nodes: stream::iter(asked).buffer_unordered(TOGETHER).collect().await }
    }
}

impl Nodes for Servers {
    fn big_key_bytes(&self) -> u64 {
        self.links.settings().big_key_bytes
    }

    fn discover<'a>(&'a self, seed: &'a Address) -> BoxFuture<'a, Result<Discovery, NodesError>> {
        Box::pin(discover::discover(self, seed))
    }

    fn survey<'a>(&'a self, topology: &'a Topology, depth: Depth) -> BoxFuture<'a, Survey> {
        Box::pin(self.survey_of(topology, depth))
    }

    fn sample<'a>(&'a self, topology: &'a Topology, slots: &'a SlotSet) -> BoxFuture<'a, Sample> {
        Box::pin(sample::sample(self, topology, slots))
    }

    fn inspect<'a>(
        &'a self,
        topology: &'a Topology,
        address: &'a Address,
    ) -> BoxFuture<'a, Result<Candidate, NodesError>> {
        Box::pin(join::inspect(self, topology, address))
    }

    fn admit<'a>(
        &'a self,
        mandate: &'a Mandate,
        topology: &'a Topology,
        candidate: &'a Candidate,
        replica_of: Option<&'a NodeId>,
    ) -> BoxFuture<'a, Result<(), NodesError>> {
        Box::pin(join::admit(self, mandate, topology, candidate, replica_of))
    }

    fn forget<'a>(
        &'a self,
        mandate: &'a Mandate,
        topology: &'a Topology,
        node: &'a NodeId,
    ) -> BoxFuture<'a, Result<Forgotten, NodesError>> {
        Box::pin(leave::forget(self, mandate, topology, node))
    }
}

/// Every node of a cluster, primaries first in each shard.
fn nodes_of(topology: &Topology) -> impl Iterator<Item = (&NodeId, Address)> {
    let nodes = topology.shards.iter().flat_map(|shard| std::iter::once(&shard.primary).chain(&shard.replicas));
    nodes.map(|node| (&node.id, Address::from(node)))
}
