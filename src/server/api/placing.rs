//! From nodes as they are asked for to changes of the cluster: fills in the names that were left open.

use crate::controller::{Caller, Candidate, Change, Place};
use crate::domain::{ClusterName, NodeId, ShardId};
use crate::server::App;
use crate::server::error::ApiError;
use crate::wire::{NodeSpec, Placement};

/// A node to add, and its path in the request: empty, or ending in a dot.
pub type Asked<'a> = (&'a NodeSpec, String);

impl App {
    /// The changes that add nodes to a cluster, in order.
    pub fn place(&self, cluster: &ClusterName, asked: &[Asked<'_>]) -> Result<Vec<Change>, ApiError> {
        let names = asked.iter().filter_map(|(spec, _)| spec.name.as_ref()).map(NodeId::as_str);
        let shards = asked.iter().filter_map(|(spec, _)| spec.shard.as_ref()).map(ShardId::as_str);
        let taken: Vec<&str> = names.chain(shards).collect();
        let unnamed = asked.iter().filter(|(spec, _)| spec.name.is_none()).count();
        let mut fresh = self.controller.fresh_names_for(cluster, unnamed, &taken)?.into_iter();
        asked.iter().map(|(spec, at)| add(spec, at, || fresh.next().expect("one for each that has none"))).collect()
    }
}

/// Nodes to add as their servers tell who they are, and the servers.
pub struct Inspected {
    pub specs: Vec<NodeSpec>,
    pub candidates: Vec<Candidate>,
}

impl App {
    /// Asks the servers of nodes that are to be added, where the cluster's driver can: a server has its own id, which is
    /// then the node's.
    pub async fn inspect(
        &self,
        caller: &Caller,
        cluster: &ClusterName,
        asked: Vec<Asked<'_>>,
    ) -> Result<Inspected, ApiError> {
        let mut inspected = Inspected { specs: Vec::new(), candidates: Vec::new() };
        for (spec, at) in asked {
            let candidate = self.controller.candidate(caller, cluster, &spec.address()).await;
            let mut spec = spec.clone();
            if let Some(candidate) = candidate.map_err(|error| self.refuse(cluster, error))? {
                if let Some(name) = spec.name.filter(|name| *name != candidate.id) {
                    let why = format!("the server's own id is {}, not {name}: leave the name out", candidate.id);
                    return Err(ApiError::invalid(format!("{at}name"), &why));
                }
                spec.name = Some(candidate.id.clone());
                inspected.candidates.push(candidate);
            }
            inspected.specs.push(spec);
        }
        Ok(inspected)
    }
}

fn add(spec: &NodeSpec, at: &str, fresh: impl FnOnce() -> (NodeId, ShardId)) -> Result<Change, ApiError> {
    let placement = spec.placement(at)?;
    let (id, own_shard) = match &spec.name {
        // A shard that was not named is called like its first node, unless both names were left open.
        Some(name) => (name.clone(), ShardId::new(name.as_str()).expect("node and shard ids have the same form")),
        None => fresh(),
    };
    let place = match placement {
        Placement::ReplicaOf(shard) => Place::ReplicaOf { shard },
        Placement::NewShard(shard, weight) => Place::NewShard { shard: shard.unwrap_or(own_shard), weight },
    };
    Ok(Change::AddNode { node: spec.node(id), place })
}
