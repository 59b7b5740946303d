//! What a command changed, looked at alone: when everything held before, everything holds after. The same rules as in
//! `invariants`, which says of the same states that they are broken; a test compares the two.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{
    assert_action, assert_actions, assert_counts, assert_moving, assert_moving_count, assert_node, assert_plan_counts,
    assert_plans, assert_record, assert_served, assert_shard, assert_table, listed,
};
use crate::domain::{Action, ActionId, ActionState, Node, NodeId, Rollout, Shard, Slot, SlotSet, UNASSIGNED};
use crate::state::{Cluster, PlanRecord, Revised};

/// Everything that must hold of a cluster, when it held before.
pub(in super::super) fn assert_step(before: &Cluster, after: &Cluster) {
    assert_counts(after);
    assert_table_step(before, after);
    assert_shards_step(before, after);
    assert_plans_step(before, after);
    if let Some(running) = running_on(before, after) {
        running.assert_step(before, after);
    } else {
        assert_moving(after);
        if let Some(record) = after.active_plan() {
            assert_actions(after, record);
        }
    }
}

fn assert_table_step(before: &Cluster, after: &Cluster) {
    let mut shards = before.shards.differences(&after.shards, Arc::ptr_eq);
    let same_shards = after.table.has_shards_of(&before.table)
        && after.table.owners().len() == before.table.owners().len()
        && shards.all(|(_, old, new)| old.is_some() && new.is_some());
    if !same_shards {
        return assert_table(after);
    }
    let shards = after.table.shards().len();
    for slot in after.table.differing_slots(&before.table) {
        let owner = after.table.owners()[slot.index()];
        let owned_by_a_shard = owner == UNASSIGNED || usize::from(owner) < shards;
        assert!(owned_by_a_shard, "slot {slot} of {} has an owner that does not exist", after.name);
    }
}

/// Nodes and shards. Every node was in one shard: a node that is new in a shard without being new, and did not leave
/// another one, is in two; one that left a shard must be gone, or in another.
fn assert_shards_step(before: &Cluster, after: &Cluster) {
    let name = &after.name;
    let shards: Vec<_> = before.shards.differences(&after.shards, Arc::ptr_eq).collect();
    let nodes: Vec<_> = before.nodes.differences(&after.nodes, Arc::ptr_eq).collect();
    let members = |shard: &Arc<Revised<Shard>>| shard.value.nodes().cloned().collect::<Vec<_>>();
    let left: BTreeSet<NodeId> = shards.iter().filter_map(|(_, old, _)| *old).flat_map(members).collect();
    let mut placed = BTreeSet::new();
    for (id, shard) in shards.iter().filter_map(|(id, _, new)| Some((id, (*new)?))) {
        for node in shard.value.nodes() {
            let stays_elsewhere = !left.contains(node) && before.nodes.contains_key(node);
            assert!(placed.insert(node) && !stays_elsewhere, "node {node} of {name} is in two shards");
        }
        assert_shard(after, id, &shard.value);
    }
    for node in left.iter().filter(|node| !placed.contains(node)) {
        assert!(!after.nodes.contains_key(node), "node {node} of {name} is in no shard");
    }
    for (id, old, new) in &nodes {
        match new {
            None => assert!(left.contains(*id), "node {id} of a shard of {name} is not there"),
            Some(node) => {
                assert_node(after, id, &node.value);
                assert!(old.is_some() || placed.contains(*id), "node {id} of {name} is in no shard");
                if old.is_some_and(|old| old.value.state != node.value.state)
                    && let Some(shard) = after.shard_of(id)
                {
                    assert_shard(after, &shard.value.id, &shard.value);
                }
            }
        }
    }
    assert_addresses_step(
        before,
        after,
        &nodes.iter().filter_map(|(id, _, new)| Some((*id, &new.as_ref()?.value))).collect::<Vec<_>>(),
    );
}

/// An address was nobody's, or that of a node that has another one now.
fn assert_addresses_step(before: &Cluster, after: &Cluster, changed: &[(&NodeId, &Node)]) {
    let mut taken = BTreeSet::new();
    for (id, node) in changed {
        let shared = || format!("two nodes of {} share the address {node}", after.name);
        assert!(taken.insert((&node.host, node.port)), "{}", shared());
        if let Some(other) = before.nodes.at(&node.host, node.port).filter(|other| other != id) {
            let stays = after.nodes.get(other).is_some_and(|o| o.value.host == node.host && o.value.port == node.port);
            assert!(!stays, "{}", shared());
        }
    }
}

fn assert_plans_step(before: &Cluster, after: &Cluster) {
    if after.plans_proposed < before.plans_proposed {
        return assert_plans(after);
    }
    for (id, record) in before.plans.differences(&after.plans, Arc::ptr_eq).filter_map(|(id, _, new)| Some((id, new?)))
    {
        assert_record(after, id, record);
    }
    if after.active != before.active {
        for id in [&before.active, &after.active].into_iter().flatten() {
            if let Some(record) = after.plans.get(id) {
                assert_record(after, id, record);
            }
        }
    }
    if after.active != before.active || !after.plans.is_same(&before.plans) {
        assert_plan_counts(after);
    }
}

/// One rollout before and after.
struct Running<'a> {
    record: &'a PlanRecord,
    before: &'a Rollout,
    after: &'a Rollout,
}

/// The rollout that was under way before and still is; none when something else changed that all of it depends on.
fn running_on<'a>(before: &'a Cluster, after: &'a Cluster) -> Option<Running<'a>> {
    let (old, new) = (before.active_plan()?, after.active_plan()?);
    let same = Arc::ptr_eq(&old.plan, &new.plan)
        && before.active == after.active
        && before.driver == after.driver
        && after.table.has_shards_of(&before.table);
    let (before, after) = (old.rollout.as_ref()?, new.rollout.as_ref()?);
    same.then_some(Running { record: new, before, after })
}

impl Running<'_> {
    fn assert_step(&self, before: &Cluster, after: &Cluster) {
        let (mut touched, mut expected) = (SlotSet::new(), before.moving.len());
        for action in self.changed() {
            assert_action(after, self.after, action);
            action.kind.ranges().iter().for_each(|range| touched.insert_range(*range));
            let in_flight = |rollout: &Rollout| rollout.state_of(action.id).is_some_and(ActionState::is_in_flight);
            expected += if in_flight(self.after) { listed(action) } else { 0 };
            expected = expected.saturating_sub(if in_flight(self.before) { listed(action) } else { 0 });
        }
        let moved: Vec<Slot> = after.table.differing_slots(&before.table).collect();
        if !moved.iter().all(|slot| touched.contains(*slot)) {
            assert_actions(after, self.record);
        }
        for moving in &after.moving {
            let known = before.moving.binary_search_by_key(&moving.range, |moving| moving.range);
            let is_new = known.ok().is_none_or(|at| before.moving[at] != *moving);
            let next = moved.partition_point(|slot| *slot < moving.range.first());
            if is_new || moved.get(next).is_some_and(|slot| moving.range.contains(*slot)) {
                assert_served(after, moving);
            }
        }
        assert_moving_count(after, expected);
    }

    /// The actions that came to another state.
    fn changed(&self) -> impl Iterator<Item = &Action> {
        let changed = self.before.actions.differences(&self.after.actions, |a, b| a.state == b.state);
        changed.filter_map(|(id, ..): (&ActionId, _, _)| self.record.plan.body.action(*id))
    }
}
