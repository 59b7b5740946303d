//! What must hold after every command, whatever it was. A broken invariant is a defect: the process ends, before the
//! defect is written anywhere.

use std::collections::BTreeSet;

use super::cluster::{
    CLUSTERS_MAX, FINISHED_PLANS_MAX, IDEMPOTENCY_KEYS_MAX, NODES_MAX, OPEN_PLANS_MAX, SHARDS_MAX, TOKENS_MAX,
};
use super::{Cluster, PlanRecord, State};
use crate::domain::{
    Action, ActionKind, ActionState, DriverKind, Moving, NodeState, PlanState, Rollout, SLOT_COUNT, Serving, ShardId,
    ShardState, SlotRange, UNASSIGNED,
};

/// The bounds of the whole state; cheap, since every cluster is looked at when it changes.
pub(super) fn assert_bounds(state: &State) {
    assert!(state.clusters.len() <= CLUSTERS_MAX, "more than {CLUSTERS_MAX} clusters");
    assert!(state.tokens.len() <= TOKENS_MAX, "more than {TOKENS_MAX} tokens");
    assert!(state.remembered.len() <= IDEMPOTENCY_KEYS_MAX, "more than {IDEMPOTENCY_KEYS_MAX} idempotency keys");
    for (name, cluster) in &state.clusters {
        assert!(*name == cluster.name, "cluster {} is kept under the name {name}", cluster.name);
        assert!(cluster.generation <= state.generation_high, "cluster {name} is ahead of the highest generation");
    }
}

/// Everything that must hold of one cluster.
pub(super) fn assert_cluster(cluster: &Cluster) {
    let name = &cluster.name;
    assert!(cluster.epoch.0 >= 1 && cluster.revision >= 1, "cluster {name} counts from 1");
    assert_table(cluster);
    assert_shards(cluster);
    assert_plans(cluster);
    assert_moving(cluster);
    if let Some(record) = cluster.active_plan() {
        assert_actions(cluster, record);
    }
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
    assert!(cluster.shards.len() <= SHARDS_MAX, "more than {SHARDS_MAX} shards in {name}");
    assert!(cluster.nodes.len() <= NODES_MAX, "more than {NODES_MAX} nodes in {name}");
    let mut placed = BTreeSet::new();
    for (id, shard) in &cluster.shards {
        let shard = &shard.value;
        assert!(shard.id == *id, "shard {} of {name} is kept as {id}", shard.id);
        assert!(shard.replicas.is_sorted_by(|a, b| a < b), "the replicas of shard {id} of {name} are not ascending");
        let mut active = false;
        for node in shard.nodes() {
            assert!(placed.insert(node), "node {node} of {name} is in two shards");
            let Some(node) = cluster.nodes.get(node) else {
                panic!("node {node} of shard {id} of {name} is not there")
            };
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
    let mut addresses = BTreeSet::new();
    for (id, node) in &cluster.nodes {
        let node = &node.value;
        assert!(node.id == *id && node.port > 0, "node {id} of {name} is malformed");
        assert!(placed.contains(id), "node {id} of {name} is in no shard");
        assert!(addresses.insert((&node.host, node.port)), "two nodes of {name} share the address {node}");
    }
}

fn assert_plans(cluster: &Cluster) {
    let name = &cluster.name;
    let (mut open, mut finished) = (0, 0);
    for (id, record) in &cluster.plans {
        let state = record.state.as_str();
        assert!(record.plan.id == *id, "plan {} of {name} is kept as {id}", record.plan.id);
        assert!(record.sequence < cluster.plans_proposed, "plan {id} of {name} was never counted");
        let running = record.state == PlanState::Running;
        assert!(running == (cluster.active.as_ref() == Some(id)), "plan {id} of {name} is {state}, against `active`");
        let started = matches!(
            record.state,
            PlanState::Running | PlanState::Succeeded | PlanState::Aborted | PlanState::RolledBack
        );
        assert!(started == record.rollout.is_some(), "plan {id} of {name} is {state}, against its rollout");
        if let Some(rollout) = &record.rollout {
            assert!(rollout.state.is_final() != running, "the rollout of {id} of {name} ended without its plan");
            assert!(rollout.state.is_final() == rollout.ended_at.is_some(), "plan {id} of {name}: end without a time");
            assert!(
                running || rollout.in_flight().next().is_none(),
                "plan {id} of {name} ended with actions in flight"
            );
        }
        if record.state.is_final() { finished += 1 } else { open += 1 }
    }
    assert!(open <= OPEN_PLANS_MAX, "more than {OPEN_PLANS_MAX} open plans in {name}");
    assert!(finished <= FINISHED_PLANS_MAX, "more than {FINISHED_PLANS_MAX} finished plans in {name}");
    if let Some(active) = &cluster.active {
        assert!(cluster.plans.contains_key(active), "the active plan {active} of {name} is not there");
    }
}

/// Moving ranges are ascending and disjoint, served by their owner, and each belongs to an action in flight.
fn assert_moving(cluster: &Cluster) {
    let name = &cluster.name;
    let disjoint = |a: &Moving, b: &Moving| a.range.last() < b.range.first();
    assert!(cluster.moving.is_sorted_by(disjoint), "moving ranges of {name} overlap or are not ascending");
    for moving in &cluster.moving {
        let (range, serving) = (moving.range, if moving.serving == Serving::To { &moving.to } else { &moving.from });
        assert!(moving.from != moving.to, "range {range} of {name} moves to where it is");
        assert!(
            owned_by(cluster, &[range], Some(serving)),
            "moving range {range} of {name} is not served by its owner"
        );
    }
    let in_flight = |record: &PlanRecord, rollout: &Rollout| {
        let listed = |action: &&Action| matches!(action.kind, ActionKind::MoveSlots { .. });
        let actions = rollout.in_flight().filter_map(|id| record.plan.body.action(id)).filter(listed);
        actions.map(|action| action.kind.ranges().len()).sum()
    };
    let expected: usize = cluster
        .active_plan()
        .and_then(|record| record.rollout.as_ref().map(|rollout| in_flight(record, rollout)))
        .unwrap_or(0);
    assert!(cluster.moving.len() == expected, "moving ranges of {name} are not those of the actions in flight");
}

/// The slots of the running plan are where the state of their action says.
fn assert_actions(cluster: &Cluster, record: &PlanRecord) {
    let flip = cluster.driver == DriverKind::Flip;
    let rollout = record.rollout.as_ref().expect("a running plan has a rollout");
    for action in &record.plan.body.actions {
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
            record.plan.id,
            cluster.name
        );
    }
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
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::super::fixture::{command, create, id, import, plan};
    use super::super::{Cluster, Op, State};
    use super::*;
    use crate::domain::{ActionId, ClusterName, DriverKind, Epoch, PlanId, SlotTable};

    /// A cluster in the middle of a rollout: one action done, one in flight, one pending.
    fn midway() -> (State, Cluster) {
        let mut state = State::default();
        let name: ClusterName = id("main");
        let accept = |state: &mut State, op| {
            let applied = state.apply(&command(state.audit_head.seq, op));
            applied.outcome.unwrap();
        };
        accept(&mut state, create("main", DriverKind::Manual));
        accept(&mut state, import("main", &[("a", "0-8191"), ("b", "8192-16383")]));
        let moves = [("a", "b", "0-9"), ("a", "b", "10-19"), ("a", "b", "20-29")];
        let plan = plan(&state.clusters[&name], "p-1", &moves);
        accept(&mut state, Op::Change { cluster: name.clone(), changes: Vec::new(), plan: Some(Arc::new(plan)) });
        let (cluster, plan) = (name.clone(), id::<PlanId>("p-1"));
        accept(&mut state, Op::Start { cluster: cluster.clone(), plan: plan.clone() });
        for action in [1, 2] {
            let (cluster, plan, actions) = (cluster.clone(), plan.clone(), vec![ActionId(action)]);
            accept(&mut state, Op::Begin { cluster: cluster.clone(), plan: plan.clone(), actions: actions.clone() });
            if action == 1 {
                accept(&mut state, Op::Finish { cluster, plan, actions });
            }
        }
        let cluster = Cluster::clone(&state.clusters[&name]);
        (state, cluster)
    }

    fn record(cluster: &mut Cluster) -> &mut PlanRecord {
        Arc::make_mut(cluster.plans.get_mut(&id::<PlanId>("p-1")).unwrap())
    }

    #[test]
    fn every_broken_invariant_of_a_cluster_is_found_and_named() {
        type Breakage = (fn(&mut Cluster), &'static str);
        let broken: [Breakage; 18] = [
            (|c| c.epoch = Epoch(0), "counts from 1"),
            (|c| c.table = SlotTable::new(), "lists other shards"),
            (|c| assert!(c.table.insert_shard(id("zz"))), "lists other shards"),
            (|c| drop(c.nodes.remove(&id::<crate::domain::NodeId>("node-a"))), "is not there"),
            (|c| c.shards.values_mut().for_each(|s| s.value.replicas.push(id("node-a"))), "is in two shards"),
            (|c| c.shards.values_mut().for_each(|s| s.value.state = ShardState::Draining), "its nodes say otherwise"),
            (
                |c| c.shards.values_mut().for_each(|s| s.value.min_slots = s.value.max_slots.insert(1).checked_add(1)),
                "above",
            ),
            (|c| c.nodes.values_mut().for_each(|node| node.value.port = 7000), "share the address"),
            (|c| c.nodes.values_mut().for_each(|node| node.value.port = 0), "malformed"),
            (|c| c.active = None, "against `active`"),
            (|c| c.plans_proposed = 0, "never counted"),
            (|c| record(c).state = PlanState::Proposed, "against `active`"),
            (|c| record(c).rollout = None, "against its rollout"),
            (|c| c.moving.clear(), "not those of the actions in flight"),
            (|c| c.moving.extend(c.moving.clone()), "overlap"),
            (|c| c.moving[0].serving = Serving::To, "not served by its owner"),
            (|c| c.table.assign(id("0-0"), Some(&id("a"))).unwrap(), "not where its state says"),
            (|c| c.table.assign(id("29"), None).unwrap(), "not where its state says"),
        ];
        let (_, whole) = midway();
        assert_cluster(&whole);
        for (number, (breakage, expected)) in broken.into_iter().enumerate() {
            let mut cluster = whole.clone();
            breakage(&mut cluster);
            assert_panics(number, expected, || assert_cluster(&cluster));
        }
    }

    #[test]
    fn a_cluster_under_another_name_or_ahead_of_its_generation_is_found() {
        let (mut state, cluster) = midway();
        assert_bounds(&state);
        state.generation_high.0 -= 1;
        assert_panics(0, "ahead of the highest generation", || assert_bounds(&state));
        state.generation_high.0 += 1;
        state.clusters.insert(id("other"), Arc::new(cluster));
        assert_panics(1, "under the name other", || assert_bounds(&state));
    }

    fn assert_panics(number: usize, expected: &str, check: impl FnOnce()) {
        let panic = catch_unwind(AssertUnwindSafe(check)).expect_err("nothing was found");
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(text.contains(expected), "{number}: {text:?} does not say {expected:?}");
    }
}
