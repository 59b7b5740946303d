//! What came into the desired state in one step with a plan: what rejecting or withdrawing the plan may take back.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Change, Cluster};
use crate::domain::{NodeId, NodeState, Shard, ShardId, SlotSet, Weight};

/// What a plan's own step, and the steps of the plans it replaces, made of the desired state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brought {
    /// Nodes added.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub nodes: BTreeSet<NodeId>,
    /// States that nodes were given; also where a node had that state already.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub states: BTreeMap<NodeId, Step<NodeState>>,
    /// What shards were given; also where a shard had it already.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shards: BTreeMap<ShardId, Settings>,
}

/// A value before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step<T> {
    /// Before.
    pub from: T,
    /// After.
    pub to: T,
}

/// The settings of a shard that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Its weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Step<Weight>>,
    /// Its lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_slots: Option<Step<Option<u16>>>,
    /// Its upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_slots: Option<Step<Option<u16>>>,
    /// Its pins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Step<SlotSet>>,
}

impl Brought {
    /// What these changes made of a cluster. An import is no intent: nothing of it is taken back.
    pub(super) fn of(changes: &[Change], before: &Cluster, after: &Cluster) -> Self {
        let mut brought = Self::default();
        for change in changes {
            match change {
                Change::AddNode { node, .. } => {
                    brought.nodes.insert(node.id.clone());
                }
                Change::DrainNode { node, .. } | Change::UndrainNode { node } => brought.state(node, before, after),
                Change::DrainShard { shard } | Change::UndrainShard { shard } => {
                    let nodes = before.shards.get(shard).into_iter().flat_map(|shard| shard.value.nodes());
                    nodes.for_each(|node| brought.state(node, before, after));
                }
                Change::SetShard { shard, weight, min_slots, max_slots, pinned, .. } => {
                    let asked = [weight.is_some(), min_slots.is_some(), max_slots.is_some(), pinned.is_some()];
                    brought.settings(shard, asked, before, after);
                }
                Change::Import { .. } | Change::SetNode { .. } | Change::RemoveNode { .. } => {}
            }
        }
        brought
    }

    fn state(&mut self, node: &NodeId, before: &Cluster, after: &Cluster) {
        if let (Some(from), Some(to)) = (before.nodes.get(node), after.nodes.get(node)) {
            self.states.insert(node.clone(), Step { from: from.value.state, to: to.value.state });
        }
    }

    fn settings(&mut self, id: &ShardId, asked: [bool; 4], before: &Cluster, after: &Cluster) {
        let (Some(from), Some(to)) = (before.shards.get(id), after.shards.get(id)) else { return };
        let (from, to) = (&from.value, &to.value);
        let [weight, min_slots, max_slots, pinned] = asked;
        let settings = self.shards.entry(id.clone()).or_default();
        settings.weight = step(weight, from, to, |shard| shard.weight).or(settings.weight.take());
        settings.min_slots = step(min_slots, from, to, |shard| shard.min_slots).or(settings.min_slots.take());
        settings.max_slots = step(max_slots, from, to, |shard| shard.max_slots).or(settings.max_slots.take());
        settings.pinned = step(pinned, from, to, |shard| shard.pinned.clone()).or(settings.pinned.take());
    }

    /// What a plan brought together with the plan it replaces: from before the first to after the last.
    pub(super) fn after(self, earlier: Self) -> Self {
        let Self { mut nodes, mut states, mut shards } = earlier;
        nodes.extend(self.nodes);
        for (node, step) in self.states {
            states.entry(node).and_modify(|first| first.to = step.to).or_insert(step);
        }
        for (shard, later) in self.shards {
            let settings = shards.entry(shard).or_default();
            join(&mut settings.weight, later.weight);
            join(&mut settings.min_slots, later.min_slots);
            join(&mut settings.max_slots, later.max_slots);
            join(&mut settings.pinned, later.pinned);
        }
        Self { nodes, states, shards }
    }

    /// Whether nothing came with the plan.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.states.is_empty() && self.shards.is_empty()
    }
}

fn step<T>(asked: bool, from: &Shard, to: &Shard, of: impl Fn(&Shard) -> T) -> Option<Step<T>> {
    asked.then(|| Step { from: of(from), to: of(to) })
}

fn join<T>(first: &mut Option<Step<T>>, later: Option<Step<T>>) {
    match (first, later) {
        (Some(first), Some(later)) => first.to = later.to,
        (first @ None, later) => *first = later,
        (Some(_), None) => {}
    }
}
