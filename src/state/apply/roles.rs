//! Who serves and who copies which shard: before an action may begin, and step by step through a plan that has not started.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Cluster;
use super::effect::Way;
use crate::domain::{
    Action, ActionKind, ActionState, DriverKind, NodeId, NodeState, Placement, PlanBody, Rollout, ShardId, ShardState,
};

/// The roles as they would be after some of a plan's actions, in the order of their ids.
pub(super) struct Roles<'a> {
    cluster: &'a Cluster,
    shard_of: BTreeMap<&'a NodeId, &'a ShardId>,
    primary: BTreeMap<&'a ShardId, &'a NodeId>,
    /// Active nodes of each shard.
    active: BTreeMap<&'a ShardId, BTreeSet<&'a NodeId>>,
}

impl<'a> Roles<'a> {
    pub fn of(cluster: &'a Cluster) -> Self {
        let (mut shard_of, mut primary, mut active) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (id, shard) in &cluster.shards {
            primary.insert(id, &shard.value.primary);
            shard_of.extend(shard.value.nodes().map(|node| (node, id)));
            let is_active = |node: &&NodeId| cluster.nodes[*node].value.state == NodeState::Active;
            active.insert(id, shard.value.nodes().filter(is_active).collect());
        }
        Self { cluster, shard_of, primary, active }
    }

    /// Why a replica cannot take over its shard; otherwise it has.
    pub fn promote(&mut self, shard: &'a ShardId, from: &NodeId, to: &'a NodeId) -> Option<String> {
        let Some(now) = self.primary.get(shard) else {
            return Some(format!("shard {shard} does not exist"));
        };
        if *now != from {
            return Some(format!("the primary of shard {shard} is {now}, not {from}"));
        }
        if self.shard_of.get(to) != Some(&shard) {
            return Some(format!("node {to} is no replica of shard {shard}"));
        }
        if self.cluster.nodes[to].value.state == NodeState::Lost {
            return Some(format!("node {to} is lost"));
        }
        self.primary.insert(shard, to);
        None
    }

    /// Why a node cannot become a replica of a shard; otherwise it has.
    pub fn move_replica(&mut self, node: &'a NodeId, shard: &'a ShardId) -> Option<String> {
        let Some(now) = self.shard_of.get(node).copied() else {
            return Some(format!("node {node} does not exist"));
        };
        if self.primary[now] == node {
            return Some(format!("node {node} is the primary of shard {now}"));
        }
        if now == shard {
            return Some(format!("node {node} is a replica of shard {shard} already"));
        }
        match self.cluster.shards.get(shard) {
            None => return Some(format!("shard {shard} does not exist")),
            Some(shard) if shard.value.state == ShardState::Draining => {
                return Some(format!("shard {} is draining", shard.value.id));
            }
            Some(_) => {}
        }
        let is_active = self.active[now].contains(node);
        if is_active && self.active[now].len() == 1 {
            return Some(format!("node {node} is the last active node of shard {now}"));
        }
        if is_active {
            self.active.get_mut(now).expect("looked up before").remove(node);
            self.active.get_mut(shard).expect("looked up before").insert(node);
        }
        self.shard_of.insert(node, shard);
        None
    }

    /// What of a plan's placement is not as it was when it was computed: asked after all of its actions.
    pub fn misplaced(&self, placement: &Placement) -> Option<String> {
        let mut found: BTreeMap<_, (u32, u32)> = BTreeMap::new();
        for placed in &placement.shards {
            let shard = &placed.shard;
            for node in placed.nodes() {
                let Some(now) = self.cluster.nodes.get(node).map(|node| &node.value) else {
                    return Some(format!("node {node} does not exist"));
                };
                if self.shard_of.get(node) != Some(&shard) {
                    return Some(format!("node {node} is not in shard {shard}, where the placement counts on it"));
                }
                if now.state != NodeState::Active {
                    return Some(format!("node {node} is not active any more"));
                }
                let counts = found.entry((now.zone.as_ref(), &now.host)).or_default();
                counts.0 += 1;
                counts.1 += u32::from(*node == placed.primary);
            }
            if self.primary.get(shard) != Some(&&placed.primary) {
                return Some(format!("the primary of shard {shard} would not be {}", placed.primary));
            }
        }
        let hosts =
            placement.hosts.iter().map(|host| ((host.zone.as_ref(), &host.host), (host.copies, host.primaries)));
        (!found.into_iter().eq(hosts)).then(|| "a node of the placement has another zone or address".to_owned())
    }
}

/// Why an action about roles may not begin now: the nodes are not as it needs them, or an action in flight is about one of
/// them. What has begun can then always finish.
pub(super) fn hindrance(
    cluster: &Cluster,
    body: &PlanBody,
    rollout: &Rollout,
    action: &Action,
    way: Way,
) -> Option<String> {
    let nodes = nodes_of(&action.kind);
    if nodes.is_empty() {
        return None;
    }
    let in_flight = rollout.in_state(&[ActionState::Begun, ActionState::Reverting]);
    for other in in_flight.filter(|id| *id != action.id).filter_map(|id| body.action(id)) {
        if let Some(node) = nodes_of(&other.kind).into_iter().find(|node| nodes.contains(node)) {
            return Some(format!("it waits for {}, which is about node {node} too", other.id));
        }
    }
    let shard_of = |node: &NodeId| cluster.shard_of(node).map(|shard| &shard.value);
    match &action.kind {
        ActionKind::Promote { shard, from, to } => {
            let (from, to) = if way == Way::Back { (to, from) } else { (from, to) };
            let now = &cluster.shards[shard].value;
            // The nodes did it by themselves, and that was followed.
            if now.primary == *to && now.replicas.contains(from) && cluster.driver == DriverKind::Redis {
                return None;
            }
            if now.primary != *from {
                return Some(format!("the primary of shard {shard} is {}, not {from}", now.primary));
            }
            (!now.replicas.contains(to)).then(|| format!("node {to} is no replica of shard {shard} now"))
        }
        ActionKind::SetReplicaOf { node, shard } => {
            let now = shard_of(node)?;
            if now.primary == *node {
                return Some(format!("node {node} is the primary of shard {} now", now.id));
            }
            let should_be_there = way == Way::Back;
            ((now.id == *shard) != should_be_there).then(|| format!("node {node} is a replica of shard {} now", now.id))
        }
        _ => None,
    }
}

/// The nodes whose role an action changes.
pub(super) fn nodes_of(kind: &ActionKind) -> Vec<&NodeId> {
    match kind {
        ActionKind::Promote { from, to, .. } => vec![from, to],
        ActionKind::SetReplicaOf { node, .. } => vec![node],
        _ => Vec::new(),
    }
}
