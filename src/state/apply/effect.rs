//! What one action does to owners, primaries and the list of moving ranges, in either direction.
//!
//! With `flip` the owner changes when the action begins and the range stays listed, served by its target, until it
//! finishes; with the other drivers the range is listed, served by its source, and the owner changes at the end.

use super::super::Cluster;
use crate::domain::{Action, ActionKind, DriverKind, Moving, NodeId, Serving, Shard, ShardId, SlotRange};

/// The direction an action is carried out in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// As the plan says.
    Forward,
    /// Undone.
    Back,
}

impl Way {
    /// The shards that slots leave and enter.
    pub(super) const fn ends(self, kind: &ActionKind) -> (Option<&ShardId>, Option<&ShardId>) {
        match self {
            Self::Forward => (kind.source(), kind.target()),
            Self::Back => (kind.target(), kind.source()),
        }
    }
}

/// Begins an action. True when nothing is left to wait for: it may finish in the same step.
pub(super) fn depart(cluster: &mut Cluster, action: &Action, way: Way, overlap_ms: u64) -> bool {
    let flip = cluster.driver == DriverKind::Flip;
    let (from, to) = way.ends(&action.kind);
    // Only a move has a source to ask: assigned slots are not read from anywhere.
    let listed = matches!(action.kind, ActionKind::MoveSlots { .. });
    if flip {
        assign(cluster, action.kind.ranges(), to);
        if !listed || overlap_ms == 0 {
            return true;
        }
    }
    if let (true, Some(from), Some(to)) = (listed, from, to) {
        let serving = if flip { Serving::To } else { Serving::From };
        for &range in action.kind.ranges() {
            let at = cluster.moving.partition_point(|moving| moving.range <= range);
            cluster.moving.insert(at, Moving { range, from: from.clone(), to: to.clone(), serving });
        }
    }
    false
}

/// Ends an action well. `came_from` is what the way forward gave, for the way back of a `SetReplicaOf`.
pub(super) fn arrive(cluster: &mut Cluster, action: &Action, way: Way, came_from: Option<&ShardId>) -> Option<ShardId> {
    unlist(cluster, action);
    assign(cluster, action.kind.ranges(), way.ends(&action.kind).1);
    match &action.kind {
        ActionKind::Promote { shard, from, to } => {
            let (from, to) = if way == Way::Back { (to, from) } else { (from, to) };
            promote(cluster, shard, from, to);
            None
        }
        ActionKind::SetReplicaOf { node, shard } => match way {
            Way::Forward => Some(move_replica(cluster, node, shard)),
            Way::Back => {
                move_replica(cluster, node, came_from.expect("it was done"));
                None
            }
        },
        // The table says already who owns a slot that is repaired.
        ActionKind::MoveSlots { .. } | ActionKind::AssignSlots { .. } | ActionKind::RepairSlot { .. } => None,
    }
}

/// Ends an action in vain: the slots are where they were before it began.
pub(super) fn give_up(cluster: &mut Cluster, action: &Action, way: Way) {
    unlist(cluster, action);
    assign(cluster, action.kind.ranges(), way.ends(&action.kind).0);
}

fn unlist(cluster: &mut Cluster, action: &Action) {
    for range in action.kind.ranges() {
        if let Ok(at) = cluster.moving.binary_search_by_key(range, |moving| moving.range) {
            cluster.moving.remove(at);
        }
    }
}

fn assign(cluster: &mut Cluster, ranges: &[SlotRange], owner: Option<&ShardId>) {
    for range in ranges {
        cluster.table.assign(*range, owner).expect("the shards of a running plan are there");
    }
}

pub(super) fn promote(cluster: &mut Cluster, shard: &ShardId, from: &NodeId, to: &NodeId) {
    edit(cluster, shard, |value| {
        if value.primary == *to {
            return;
        }
        value.primary = to.clone();
        value.replicas.retain(|replica| replica != to);
        value.replicas.push(from.clone());
    });
}

fn move_replica(cluster: &mut Cluster, node: &NodeId, to: &ShardId) -> ShardId {
    let from = cluster.shard_of(node).expect("every node is in a shard").value.id.clone();
    edit(cluster, &from, |value| value.replicas.retain(|replica| replica != node));
    edit(cluster, to, |value| value.replicas.push(node.clone()));
    from
}

fn edit(cluster: &mut Cluster, id: &ShardId, change: impl FnOnce(&mut Shard)) {
    let mut value = cluster.shards[id].value.clone();
    change(&mut value);
    value.replicas.sort();
    cluster.shards.set(value);
}
