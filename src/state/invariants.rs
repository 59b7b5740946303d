//! What must hold after every command, whatever it was. A broken invariant is a defect: the process ends, before the
//! defect is written anywhere.
//!
//! Here stands what must hold, for a state as a whole: asked when one comes from outside, and after every command in
//! builds with debug assertions. After a command it is enough to look at what the command changed: see `step`.

mod step;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::cluster::{
    CLUSTERS_MAX, FINISHED_PLANS_MAX, IDEMPOTENCY_KEYS_MAX, NODES_MAX, OPEN_PLANS_MAX, SHARDS_MAX, TOKENS_MAX,
};
use super::{Cluster, PlanRecord, State};
use crate::domain::{
    Action, ActionKind, ActionState, ClusterName, DriverKind, Moving, Node, NodeId, NodeState, PlanId, PlanState,
    Rollout, SLOT_COUNT, Serving, Shard, ShardId, ShardState, SlotRange, UNASSIGNED,
};

impl State {
    /// What must hold of every state and does not of this one, which came from elsewhere.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let check = || {
            assert_bounds(self);
            assert!(self.remembered.is_sound(), "the index of the idempotency keys is not what it is of");
            self.clusters.values().for_each(|cluster| assert_cluster(cluster));
        };
        let panic = catch_unwind(AssertUnwindSafe(check)).err()?;
        Some(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "an invariant is broken".to_owned()))
    }
}

/// What must hold of the state after a command that touched at most this cluster.
pub(super) fn assert_bounds_after(state: &State, touched: Option<&ClusterName>) {
    assert_sizes(state);
    if let Some((name, cluster)) = touched.and_then(|name| state.clusters.get_key_value(name)) {
        assert_kept(state, name, cluster);
    }
    if cfg!(debug_assertions) {
        assert_bounds(state);
    }
}

/// What must hold of a cluster after a command, when it held before.
pub(super) fn assert_cluster_after(before: &Cluster, after: &Cluster) {
    step::assert_step(before, after);
    if cfg!(debug_assertions) {
        assert_cluster(after);
    }
}

/// The bounds of the whole state.
pub(super) fn assert_bounds(state: &State) {
    assert_sizes(state);
    for (name, cluster) in &state.clusters {
        assert_kept(state, name, cluster);
    }
}

fn assert_sizes(state: &State) {
    assert!(state.clusters.len() <= CLUSTERS_MAX, "more than {CLUSTERS_MAX} clusters");
    assert!(state.tokens.len() <= TOKENS_MAX, "more than {TOKENS_MAX} tokens");
    assert!(state.remembered.len() <= IDEMPOTENCY_KEYS_MAX, "more than {IDEMPOTENCY_KEYS_MAX} idempotency keys");
}

fn assert_kept(state: &State, name: &ClusterName, cluster: &Cluster) {
    assert!(*name == cluster.name, "cluster {} is kept under the name {name}", cluster.name);
    assert!(cluster.generation <= state.generation_high, "cluster {name} is ahead of the highest generation");
}

/// Everything that must hold of one cluster.
pub(super) fn assert_cluster(cluster: &Cluster) {
    assert_counts(cluster);
    assert_table(cluster);
    assert_shards(cluster);
    assert_plans(cluster);
    assert_moving(cluster);
    if let Some(record) = cluster.active_plan() {
        assert_actions(cluster, record);
    }
}

fn assert_counts(cluster: &Cluster) {
    let name = &cluster.name;
    assert!(cluster.epoch.0 >= 1 && cluster.revision >= 1, "cluster {name} counts from 1");
    assert!(cluster.shards.len() <= SHARDS_MAX, "more than {SHARDS_MAX} shards in {name}");
    assert!(cluster.nodes.len() <= NODES_MAX, "more than {NODES_MAX} nodes in {name}");
}

/// S1: every slot has one owner that exists, or explicitly none.
fn assert_table(cluster: &Cluster) {
    let name = &cluster.name;
    let shards = cluster.table.shards();
    assert!(cluster.table.owners().len() == SLOT_COUNT, "the table of {name} has not 16384 entries");
    assert!(shards.iter().eq(cluster.shards.keys()), "the table of {name} lists other shards than the cluster");
    let owned_by_a_shard = |owner: &u16| *owner == UNASSIGNED || usize::from(*owner) < shards.len();
    assert!(cluster.table.owners().iter().all(owned_by_a_shard), "a slot of {name} has an owner that does not exist");
}

fn assert_shards(cluster: &Cluster) {
    let name = &cluster.name;
    let mut placed = BTreeSet::new();
    for (id, shard) in &cluster.shards {
        for node in shard.value.nodes() {
            assert!(placed.insert(node), "node {node} of {name} is in two shards");
        }
        assert_shard(cluster, id, &shard.value);
    }
    let mut addresses = BTreeSet::new();
    for (id, node) in &cluster.nodes {
        let node = &node.value;
        assert_node(cluster, id, node);
        assert!(placed.contains(id), "node {id} of {name} is in no shard");
        assert!(addresses.insert((&node.host, node.port)), "two nodes of {name} share the address {node}");
    }
    assert!(cluster.shards.is_sound() && cluster.nodes.is_sound(), "an index of {name} is not what it is of");
}

/// What must hold of a shard by itself, and with its nodes.
fn assert_shard(cluster: &Cluster, id: &ShardId, shard: &Shard) {
    let name = &cluster.name;
    assert!(shard.id == *id, "shard {} of {name} is kept as {id}", shard.id);
    assert!(shard.replicas.is_sorted_by(|a, b| a < b), "the replicas of shard {id} of {name} are not ascending");
    let mut active = false;
    for node in shard.nodes() {
        let Some(node) = cluster.nodes.get(node) else { panic!("node {node} of shard {id} of {name} is not there") };
        active |= node.value.state == NodeState::Active;
    }
    assert!(
        active == (shard.state == ShardState::Active),
        "shard {id} of {name} is {:?}, its nodes say otherwise",
        shard.state
    );
    let (min, max) = (shard.min_slots.unwrap_or(0), shard.max_slots.unwrap_or(u16::MAX));
    assert!(min <= max, "shard {id} of {name} has min_slots above max_slots");
}

fn assert_node(cluster: &Cluster, id: &NodeId, node: &Node) {
    assert!(node.id == *id && node.port > 0, "node {id} of {} is malformed", cluster.name);
}

fn assert_plans(cluster: &Cluster) {
    for (id, record) in &cluster.plans {
        assert_record(cluster, id, record);
    }
    assert_plan_counts(cluster);
}

fn assert_record(cluster: &Cluster, id: &PlanId, record: &PlanRecord) {
    let (name, state) = (&cluster.name, record.state.as_str());
    assert!(record.plan.id == *id, "plan {} of {name} is kept as {id}", record.plan.id);
    assert!(record.sequence < cluster.plans_proposed, "plan {id} of {name} was never counted");
    let running = record.state == PlanState::Running;
    assert!(running == (cluster.active.as_ref() == Some(id)), "plan {id} of {name} is {state}, against `active`");
    let started =
        matches!(record.state, PlanState::Running | PlanState::Succeeded | PlanState::Aborted | PlanState::RolledBack);
    assert!(started == record.rollout.is_some(), "plan {id} of {name} is {state}, against its rollout");
    if let Some(rollout) = &record.rollout {
        assert!(rollout.state.is_final() != running, "the rollout of {id} of {name} ended without its plan");
        assert!(rollout.state.is_final() == rollout.ended_at.is_some(), "plan {id} of {name}: end without a time");
        assert!(running || rollout.in_flight().next().is_none(), "plan {id} of {name} ended with actions in flight");
    }
}

fn assert_plan_counts(cluster: &Cluster) {
    let name = &cluster.name;
    let finished = cluster.plans.values().filter(|record| record.state.is_final()).count();
    let open = cluster.plans.len() - finished;
    assert!(open <= OPEN_PLANS_MAX, "more than {OPEN_PLANS_MAX} open plans in {name}");
    assert!(finished <= FINISHED_PLANS_MAX, "more than {FINISHED_PLANS_MAX} finished plans in {name}");
    if let Some(active) = &cluster.active {
        assert!(cluster.plans.contains_key(active), "the active plan {active} of {name} is not there");
    }
}

/// Moving ranges are ascending and disjoint, served by their owner, and each belongs to an action in flight.
fn assert_moving(cluster: &Cluster) {
    cluster.moving.iter().for_each(|moving| assert_served(cluster, moving));
    let in_flight = |record: &PlanRecord, rollout: &Rollout| {
        rollout.in_flight().filter_map(|id| record.plan.body.action(id)).map(listed).sum()
    };
    let expected: usize = cluster
        .active_plan()
        .and_then(|record| record.rollout.as_ref().map(|rollout| in_flight(record, rollout)))
        .unwrap_or(0);
    assert_moving_count(cluster, expected);
}

/// How many ranges an action lists as moving while it is in flight.
fn listed(action: &Action) -> usize {
    if matches!(action.kind, ActionKind::MoveSlots { .. }) { action.kind.ranges().len() } else { 0 }
}

fn assert_served(cluster: &Cluster, moving: &Moving) {
    let name = &cluster.name;
    let (range, serving) = (moving.range, if moving.serving == Serving::To { &moving.to } else { &moving.from });
    assert!(moving.from != moving.to, "range {range} of {name} moves to where it is");
    assert!(owned_by(cluster, &[range], Some(serving)), "moving range {range} of {name} is not served by its owner");
}

fn assert_moving_count(cluster: &Cluster, expected: usize) {
    let name = &cluster.name;
    let disjoint = |a: &Moving, b: &Moving| a.range.last() < b.range.first();
    assert!(cluster.moving.is_sorted_by(disjoint), "moving ranges of {name} overlap or are not ascending");
    assert!(cluster.moving.len() == expected, "moving ranges of {name} are not those of the actions in flight");
}

/// The slots of the running plan are where the state of their action says.
fn assert_actions(cluster: &Cluster, record: &PlanRecord) {
    let rollout = record.rollout.as_ref().expect("a running plan has a rollout");
    record.plan.body.actions.iter().for_each(|action| assert_action(cluster, rollout, action));
}

fn assert_action(cluster: &Cluster, rollout: &Rollout, action: &Action) {
    let flip = cluster.driver == DriverKind::Flip;
    let at_target = match rollout.state_of(action.id) {
        None | Some(ActionState::Failed | ActionState::Reverted) => false,
        Some(ActionState::Done) => true,
        Some(ActionState::Begun) => flip,
        Some(ActionState::Reverting) => !flip,
    };
    let owner = if at_target { action.kind.target() } else { action.kind.source() };
    assert!(
        owned_by(cluster, action.kind.ranges(), owner),
        "slots of {} of plan {} of {} are not where its state says",
        action.id,
        rollout.plan,
        cluster.name
    );
}

fn owned_by(cluster: &Cluster, ranges: &[SlotRange], owner: Option<&ShardId>) -> bool {
    let index = match owner {
        None => UNASSIGNED,
        Some(id) => cluster.table.index_of(id).unwrap_or_else(|| panic!("shard {id} of {} is gone", cluster.name)),
    };
    let owners = cluster.table.owners();
    ranges.iter().all(|range| owners[range.first().index()..=range.last().index()].iter().all(|&o| o == index))
}

#[cfg(test)]
mod tests;
