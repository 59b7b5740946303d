//! The changes of single nodes and shards. A shard is draining exactly when none of its nodes is active.

use super::super::cluster::REMOVED_MAX;
use super::super::{Change, Cluster, Place, Revised};
use super::change::Touched;
use super::{check_revision, count};
use crate::domain::{
    DriverKind, Host, Node, NodeId, NodeState, Rejection, SLOT_COUNT, Shard, ShardId, ShardState, SlotSet, SlotTable,
    Zone,
};

pub(super) fn add(cluster: &mut Cluster, node: &Node, place: &Place, touched: &mut Touched) -> Result<(), Rejection> {
    if cluster.nodes.contains_key(&node.id) {
        return Err(Rejection::Exists { what: "node".to_owned(), id: node.id.to_string() });
    }
    check_address(cluster, &node.id, &node.host, node.port)?;
    if node.state != NodeState::Active {
        return Err(Rejection::invalid("node.state", &"a new node is active"));
    }
    let (shard, role) = match place {
        Place::NewShard { shard, weight } => {
            if cluster.shards.contains_key(shard) {
                return Err(Rejection::Exists { what: "shard".to_owned(), id: shard.to_string() });
            }
            let value = Shard::new(shard.clone(), node.id.clone(), *weight);
            cluster.shards.insert(Revised::first(value));
            if cluster.table.shards().len() < SLOT_COUNT {
                cluster.table.insert_shard(shard.clone());
            }
            (shard, format!("primary of the new shard {shard} with weight {}", weight.get()))
        }
        Place::ReplicaOf { shard } => {
            let owner = shard_of(cluster, shard)?;
            if owner.value.state == ShardState::Draining {
                return Err(Rejection::conflict(format!("shard {shard} is draining: it takes no new replica")));
            }
            let mut value = owner.value.clone();
            value.replicas.push(node.id.clone());
            value.replicas.sort();
            cluster.shards.set(value);
            (shard, format!("replica of shard {shard}"))
        }
    };
    cluster.nodes.insert(Revised::first(node.clone()));
    touched.sentences.push(format!("node {} at {node} added as {role}", node.id));
    note(touched, Some(&node.id), Some(shard), 1);
    Ok(())
}

pub(super) fn set(
    cluster: &mut Cluster,
    id: &NodeId,
    if_match: Option<u64>,
    (host, port, zone): (Option<&Host>, Option<u16>, Option<&Option<Zone>>),
    touched: &mut Touched,
) -> Result<(), Rejection> {
    let current = node_of(cluster, id)?;
    check_revision("node", id, current.revision, if_match)?;
    let mut value = current.value.clone();
    if let Some(host) = host {
        value.host.clone_from(host);
    }
    value.port = port.unwrap_or(value.port);
    if let Some(zone) = zone {
        value.zone.clone_from(zone);
    }
    check_address(cluster, id, &value.host, value.port)?;
    let zone = value.zone.as_ref().map_or("none", |zone| zone.as_str());
    touched.sentences.push(format!("node {id} is at {value}, zone {zone}"));
    let revision = cluster.nodes.set(value);
    let shard = cluster.shard_of(id).map(|shard| shard.value.id.clone());
    note(touched, Some(id), shard.as_ref(), revision);
    Ok(())
}

pub(super) fn drain(cluster: &mut Cluster, id: &NodeId, lost: bool, touched: &mut Touched) -> Result<(), Rejection> {
    let state = if lost { NodeState::Lost } else { NodeState::Draining };
    let revision = set_state(cluster, id, state)?;
    let shard = follow_nodes(cluster, id);
    let what = if lost { "lost" } else { "draining" };
    let slots = count(cluster.table.count_of(&shard.id) as usize, "slot");
    touched.sentences.push(match shard.state {
        ShardState::Draining => format!("node {id} is {what} and with it shard {} of {slots}", shard.id),
        ShardState::Active => format!("node {id} of shard {} is {what}", shard.id),
    });
    note(touched, Some(id), Some(&shard.id), revision);
    Ok(())
}

pub(super) fn undrain(cluster: &mut Cluster, id: &NodeId, touched: &mut Touched) -> Result<(), Rejection> {
    let revision = set_state(cluster, id, NodeState::Active)?;
    let shard = follow_nodes(cluster, id);
    touched.sentences.push(format!("node {id} of shard {} is active again", shard.id));
    note(touched, Some(id), Some(&shard.id), revision);
    Ok(())
}

pub(super) fn remove(
    cluster: &mut Cluster,
    id: &NodeId,
    if_match: Option<u64>,
    touched: &mut Touched,
) -> Result<(), Rejection> {
    check_revision("node", id, node_of(cluster, id)?.revision, if_match)?;
    let shard = cluster.shard_of(id).expect("every node is in a shard").value.clone();
    let in_use = |why: String| Err(Rejection::InUse { what: "node".to_owned(), id: id.to_string(), why });
    if shard.primary != *id {
        let mut left = shard.clone();
        left.replicas.retain(|replica| replica != id);
        if shard.state == ShardState::Active && !has_active_node(cluster, &left) {
            return in_use(format!("it is the last active node of shard {}", shard.id));
        }
        cluster.shards.set(left);
        touched.sentences.push(format!("node {id} removed, a replica of shard {}", shard.id));
    } else if !shard.replicas.is_empty() {
        return in_use(format!("it is the primary of shard {}: promote a replica first", shard.id));
    } else {
        let slots = cluster.table.count_of(&shard.id);
        if slots > 0 {
            return in_use(format!("its shard {} owns {}", shard.id, count(slots as usize, "slot")));
        }
        cluster.shards.remove(&shard.id);
        cluster.table.remove_shard(&shard.id).expect("listed and empty");
        touched.sentences.push(format!("node {id} removed and its empty shard {}", shard.id));
    }
    cluster.nodes.remove(id);
    (touched.node, touched.shard, touched.revision) = (Some(id.clone()), Some(shard.id), None);
    Ok(())
}

/// Remembers a node that was removed, where it could be seen to come back.
pub(super) fn bury(cluster: &mut Cluster, node: &NodeId) {
    if cluster.driver != DriverKind::Redis {
        return;
    }
    cluster.removed.push(node.clone());
    let surplus = cluster.removed.len().saturating_sub(REMOVED_MAX);
    cluster.removed.drain(..surplus);
}

pub(super) fn set_shard(cluster: &mut Cluster, change: &Change, touched: &mut Touched) -> Result<(), Rejection> {
    let Change::SetShard { shard: id, if_match, weight, min_slots, max_slots, pinned } = change else {
        unreachable!("called for SetShard alone")
    };
    let current = shard_of(cluster, id)?;
    check_revision("shard", id, current.revision, *if_match)?;
    let mut value = current.value.clone();
    value.weight = weight.unwrap_or(value.weight);
    value.min_slots = min_slots.unwrap_or(value.min_slots);
    value.max_slots = max_slots.unwrap_or(value.max_slots);
    if let Some(ranges) = pinned {
        value.pinned = SlotSet::from_ranges(ranges.iter().copied())
            .map_err(|invalid| Rejection::invalid("pinned", &invalid.why))?;
        check_pins(&value, &cluster.table)?;
    }
    check_bounds(&value)?;
    touched.sentences.push(describe(&cluster.shards[id].value, &value));
    let revision = cluster.shards.set(value);
    note(touched, None, Some(id), revision);
    Ok(())
}

pub(super) fn drain_shard(cluster: &mut Cluster, id: &ShardId, touched: &mut Touched) -> Result<(), Rejection> {
    let nodes: Vec<_> = shard_of(cluster, id)?.value.nodes().cloned().collect();
    for node in &nodes {
        if cluster.nodes[node].value.state == NodeState::Active {
            set_state(cluster, node, NodeState::Draining)?;
        }
    }
    follow_nodes(cluster, &nodes[0]);
    let slots = count(cluster.table.count_of(id) as usize, "slot");
    touched.sentences.push(format!("shard {id} of {slots} is draining"));
    note(touched, None, Some(id), cluster.shards[id].revision);
    Ok(())
}

/// Draining nodes are active again; lost ones stay lost.
pub(super) fn undrain_shard(cluster: &mut Cluster, id: &ShardId, touched: &mut Touched) -> Result<(), Rejection> {
    let nodes: Vec<_> = shard_of(cluster, id)?.value.nodes().cloned().collect();
    for node in &nodes {
        if cluster.nodes[node].value.state == NodeState::Draining {
            set_state(cluster, node, NodeState::Active)?;
        }
    }
    if follow_nodes(cluster, &nodes[0]).state == ShardState::Draining {
        return Err(Rejection::conflict(format!("every node of shard {id} is lost: undrain the node that is back")));
    }
    touched.sentences.push(format!("shard {id} is active again"));
    note(touched, None, Some(id), cluster.shards[id].revision);
    Ok(())
}

/// Gives a node this state, and its shard the one that follows.
pub(super) fn give_state(cluster: &mut Cluster, id: &NodeId, state: NodeState) {
    set_state(cluster, id, state).expect("looked up before");
    follow_nodes(cluster, id);
}

pub(super) fn check_port(node: &NodeId, port: u16) -> Result<(), Rejection> {
    if port == 0 { Err(Rejection::invalid("port", &format!("node {node}: 0 is not in 1..=65535"))) } else { Ok(()) }
}

/// No two nodes may share an address.
fn check_address(cluster: &Cluster, id: &NodeId, host: &Host, port: u16) -> Result<(), Rejection> {
    check_port(id, port)?;
    match cluster.nodes.at(host, port).filter(|other| *other != id) {
        None => Ok(()),
        Some(other) => {
            Err(Rejection::Exists { what: "address".to_owned(), id: cluster.nodes[other].value.to_string() })
        }
    }
}

pub(super) fn check_shard_bounds(shard: &Shard, table: &SlotTable) -> Result<(), Rejection> {
    check_bounds(shard)?;
    check_pins(shard, table)
}

fn check_bounds(shard: &Shard) -> Result<(), Rejection> {
    for (field, bound) in [("min_slots", shard.min_slots), ("max_slots", shard.max_slots)] {
        if let Some(bound) = bound.filter(|&bound| usize::from(bound) > SLOT_COUNT) {
            return Err(Rejection::invalid(field, &format!("{bound} is not in 0..={SLOT_COUNT}")));
        }
    }
    match (shard.min_slots, shard.max_slots) {
        (Some(min), Some(max)) if min > max => {
            Err(Rejection::invalid("min_slots", &format!("{min} is above max_slots {max}")))
        }
        _ => Ok(()),
    }
}

fn check_pins(shard: &Shard, table: &SlotTable) -> Result<(), Rejection> {
    match shard.pinned.iter().find(|slot| table.owner(*slot) != Some(&shard.id)) {
        None => Ok(()),
        Some(slot) => Err(Rejection::invalid("pinned", &format!("slot {slot} is not owned by shard {}", shard.id))),
    }
}

fn node_of<'a>(cluster: &'a Cluster, id: &NodeId) -> Result<&'a Revised<Node>, Rejection> {
    cluster.nodes.get(id).map(AsRef::as_ref).ok_or_else(|| Rejection::not_found("node", id))
}

fn shard_of<'a>(cluster: &'a Cluster, id: &ShardId) -> Result<&'a Revised<Shard>, Rejection> {
    cluster.shards.get(id).map(AsRef::as_ref).ok_or_else(|| Rejection::not_found("shard", id))
}

fn set_state(cluster: &mut Cluster, id: &NodeId, state: NodeState) -> Result<u64, Rejection> {
    let value = Node { state, ..node_of(cluster, id)?.value.clone() };
    Ok(cluster.nodes.set(value))
}

pub(super) fn has_active_node(cluster: &Cluster, shard: &Shard) -> bool {
    shard.nodes().any(|id| cluster.nodes[id].value.state == NodeState::Active)
}

/// Sets the state of a node's shard after the states of its nodes.
fn follow_nodes(cluster: &mut Cluster, node: &NodeId) -> Shard {
    let shard = cluster.shard_of(node).expect("every node is in a shard").value.clone();
    let state = if has_active_node(cluster, &shard) { ShardState::Active } else { ShardState::Draining };
    let shard = Shard { state, ..shard };
    cluster.shards.set(shard.clone());
    shard
}

/// What is different, in words.
pub(super) fn describe(before: &Shard, after: &Shard) -> String {
    let mut said = Vec::new();
    if before.weight != after.weight {
        said.push(format!("weight {} -> {}", before.weight.get(), after.weight.get()));
    }
    let bound = |bound: Option<u16>| bound.map_or_else(|| "none".to_owned(), |bound| bound.to_string());
    for (name, old, new) in
        [("min_slots", before.min_slots, after.min_slots), ("max_slots", before.max_slots, after.max_slots)]
    {
        if old != new {
            said.push(format!("{name} {} -> {}", bound(old), bound(new)));
        }
    }
    if before.pinned != after.pinned {
        said.push(format!("pinned {} -> {}", before.pinned.len(), count(after.pinned.len(), "slot")));
    }
    let said = if said.is_empty() { "as it was".to_owned() } else { said.join(", ") };
    format!("shard {}: {said}", after.id)
}

fn note(touched: &mut Touched, node: Option<&NodeId>, shard: Option<&ShardId>, revision: u64) {
    (touched.node, touched.shard, touched.revision) = (node.cloned(), shard.cloned(), Some(revision));
}
