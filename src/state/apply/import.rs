//! Adopting a running cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{Cluster, Revised};
use super::change::Touched;
use super::nodes::{check_port, check_shard_bounds};
use crate::domain::{Node, NodeId, NodeState, Rejection, Shard, ShardId, ShardState, SlotTable};

/// A shard is draining exactly when none of its nodes is active: where the import says only one of the two, the other
/// follows.
pub(super) fn import(
    cluster: &mut Cluster,
    nodes: &[Node],
    shards: &[Shard],
    table: &SlotTable,
    touched: &mut Touched,
) -> Result<(), Rejection> {
    if !cluster.shards.is_empty() {
        return Err(Rejection::conflict(format!(
            "cluster {} has {} shards already: import needs an empty one",
            cluster.name,
            cluster.shards.len()
        )));
    }
    if shards.is_empty() {
        return Err(Rejection::invalid("shards", &"there are none"));
    }
    let mut addresses = BTreeSet::new();
    for node in nodes {
        check_port(&node.id, node.port)?;
        if !addresses.insert((&node.host, node.port)) {
            return Err(Rejection::Exists { what: "address".to_owned(), id: node.to_string() });
        }
        if cluster.nodes.insert(Revised::first(node.clone())) {
            return Err(Rejection::Exists { what: "node".to_owned(), id: node.id.to_string() });
        }
    }
    let mut placed: BTreeMap<NodeId, ShardId> = BTreeMap::new();
    for shard in shards {
        let shard = complete(cluster, shard, table)?;
        for node in shard.nodes() {
            if let Some(other) = placed.insert(node.clone(), shard.id.clone()) {
                let why = format!("node {node} is in shard {other} and in shard {}", shard.id);
                return Err(Rejection::invalid("shards", &why));
            }
        }
        let id = shard.id.clone();
        if cluster.shards.insert(Revised::first(shard)) {
            return Err(Rejection::Exists { what: "shard".to_owned(), id: id.to_string() });
        }
    }
    if let Some(node) = cluster.nodes.keys().find(|id| !placed.contains_key(*id)) {
        return Err(Rejection::invalid("nodes", &format!("node {node} is in no shard")));
    }
    if !cluster.shards.keys().eq(table.shards()) {
        return Err(Rejection::invalid("table", &"it does not list the same shards as `shards`"));
    }
    cluster.table = table.clone();
    let unassigned = table.unassigned_count();
    touched.sentences.push(format!(
        "imported {} shards with {} nodes, {} slots owned, {unassigned} unassigned",
        shards.len(),
        nodes.len(),
        crate::domain::SLOT_COUNT - unassigned
    ));
    Ok(())
}

fn complete(cluster: &mut Cluster, shard: &Shard, table: &SlotTable) -> Result<Shard, Rejection> {
    let mut shard = shard.clone();
    shard.replicas.sort();
    check_shard_bounds(&shard, table)?;
    let mut active = 0;
    for id in shard.nodes() {
        let mut node = cluster.nodes.get(id).ok_or_else(|| Rejection::not_found("node", id))?.value.clone();
        if shard.state == ShardState::Draining && node.state == NodeState::Active {
            node.state = NodeState::Draining;
            cluster.nodes.insert(Revised::first(node.clone()));
        }
        active += usize::from(node.state == NodeState::Active);
    }
    shard.state = if active == 0 { ShardState::Draining } else { ShardState::Active };
    Ok(shard)
}
