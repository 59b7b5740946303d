//! Taking back what came with a plan that is rejected or withdrawn: exactly that, as far as nobody changed it since and
//! no other open plan asks for it.
//!
//! What was desired before the plan and is only part of its intent (a shard that an ended plan had drained, a node that
//! was added without a plan) goes back too, unless another open plan is for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::{Brought, Cluster, PlanRecord, Settings, Step};
use super::change::{Touched, check_some_active, check_some_weight};
use super::nodes;
use crate::domain::{NodeId, NodeState, Plan, PlanId, Rejection, Shard, ShardId, ShardState};

/// Most sentences kept of each kind.
const SENTENCES_MAX: usize = 64;

/// What was taken back and what was not, a sentence each.
#[derive(Default)]
pub(super) struct Reverted {
    pub reverted: Vec<String>,
    pub kept: Vec<String>,
}

/// Takes back what can be taken back of a plan's intent.
pub(super) fn revert(cluster: &mut Cluster, plan: &Plan) -> Result<Reverted, Rejection> {
    let own = Brought::clone(&cluster.record(&plan.id)?.brought);
    let others = cluster.plans.values().filter(|record| record.plan.id != plan.id && !record.state.is_final());
    let mut back = Back { plan, own, others: others.cloned().collect(), said: Reverted::default() };
    back.states(cluster);
    back.settings(cluster);
    back.nodes(cluster);
    back.hand_over(cluster);
    check_some_active(cluster)?;
    check_some_weight(cluster)?;
    let Reverted { reverted, kept } = back.said;
    Ok(Reverted { reverted: bounded(reverted), kept: bounded(kept) })
}

fn bounded(mut sentences: Vec<String>) -> Vec<String> {
    let more = sentences.len().saturating_sub(SENTENCES_MAX);
    sentences.truncate(SENTENCES_MAX);
    if more > 0 {
        sentences.push(format!("and {more} more"));
    }
    sentences
}

struct Back<'a> {
    plan: &'a Plan,
    own: Brought,
    /// The other plans that are not finished.
    others: Vec<Arc<PlanRecord>>,
    said: Reverted,
}

impl Back<'_> {
    fn kept(&mut self, what: &str, why: &str) {
        self.said.kept.push(format!("{what}: {why}"));
    }

    /// The other open plan of which this is true, as the reason for leaving something.
    fn other(&self, is_for: impl Fn(&PlanRecord) -> bool) -> Option<String> {
        self.others.iter().find(|record| is_for(record)).map(|record| asks(&record.plan.id))
    }

    /// States of nodes, and of their shards with them.
    fn states(&mut self, cluster: &mut Cluster) {
        let mut before: BTreeSet<ShardId> = BTreeSet::new();
        let steps: Vec<_> = self.own.states.iter().filter(|(_, step)| step.from != step.to).collect();
        let steps: Vec<_> = steps.into_iter().map(|(node, step)| (node.clone(), step.clone())).collect();
        for (node, step) in steps {
            let Some(now) = cluster.nodes.get(&node).map(|node| node.value.state) else { continue };
            let what = format!("node {node} stays {}", word(now));
            if now != step.to {
                self.kept(&what, "it was changed after the plan");
            } else if now == NodeState::Lost {
                self.kept(&what, "undrain it when it is back");
            } else if let Some(why) = self.other(|o| o.brought.states.get(&node).is_some_and(|s| s.to == now)) {
                self.kept(&what, &why);
            } else {
                let shard = cluster.shard_of(&node).expect("every node is in a shard").value.id.clone();
                nodes::give_state(cluster, &node, step.from);
                if cluster.shards[&shard].value.nodes().count() > 1 {
                    self.said.reverted.push(format!("node {node} is {} again", word(step.from)));
                }
                before.insert(shard);
            }
        }
        for id in before {
            let state = if cluster.shards[&id].value.state == ShardState::Active { "active" } else { "draining" };
            self.said.reverted.push(format!("shard {id} is {state} again"));
        }
        for id in &self.plan.intent.drain {
            self.undrain(cluster, id);
        }
    }

    /// A shard that is in the plan's intent, and draining still.
    fn undrain(&mut self, cluster: &mut Cluster, id: &ShardId) {
        let Some(shard) = cluster.shards.get(id).map(|shard| shard.value.clone()) else { return };
        if shard.state == ShardState::Active || shard.nodes().any(|node| self.came_draining(node)) {
            return;
        }
        let what = format!("shard {id} stays draining");
        let is_for = |o: &PlanRecord| {
            o.plan.intent.drain.contains(id) || shard.nodes().any(|node| o.brought.states.contains_key(node))
        };
        if shard.nodes().all(|node| cluster.nodes[node].value.state == NodeState::Lost) {
            self.kept(&what, "it is lost");
        } else if let Some(why) = self.other(is_for) {
            self.kept(&what, &why);
        } else {
            let mut touched = Touched::default();
            nodes::undrain_shard(cluster, id, &mut touched).expect("a node of it is not lost");
            self.said.reverted.append(&mut touched.sentences);
        }
    }

    /// Another plan asks for the same: what this one would have gone back to is that one's to go back to.
    fn hand_over(&self, cluster: &mut Cluster) {
        for other in &self.others {
            let mut brought = Brought::clone(&other.brought);
            for (node, own) in &self.own.states {
                inherit(brought.states.get_mut(node), Some(own));
            }
            for (shard, own) in &self.own.shards {
                let Some(settings) = brought.shards.get_mut(shard) else { continue };
                inherit(settings.weight.as_mut(), own.weight.as_ref());
                inherit(settings.min_slots.as_mut(), own.min_slots.as_ref());
                inherit(settings.max_slots.as_mut(), own.max_slots.as_ref());
                inherit(settings.pinned.as_mut(), own.pinned.as_ref());
            }
            if brought != *other.brought {
                let record = cluster.record_mut(&other.plan.id).expect("it is one of the cluster's");
                record.brought = Arc::new(brought);
            }
        }
    }

    /// Whether a node's draining came with this plan: then it was looked at already.
    fn came_draining(&self, node: &NodeId) -> bool {
        self.own.states.get(node).is_some_and(|step| step.from != step.to && step.to != NodeState::Active)
    }

    /// Weights, bounds and pins.
    fn settings(&mut self, cluster: &mut Cluster) {
        for (id, own) in self.own.shards.clone() {
            let Some(now) = cluster.shards.get(&id).map(|shard| shard.value.clone()) else { continue };
            let mut value = now.clone();
            let kept = [
                self.setting(&id, own.weight.as_ref(), &mut value.weight, "its weight", |s| s.weight.as_ref()),
                self.setting(&id, own.min_slots.as_ref(), &mut value.min_slots, "min_slots", |s| s.min_slots.as_ref()),
                self.setting(&id, own.max_slots.as_ref(), &mut value.max_slots, "max_slots", |s| s.max_slots.as_ref()),
                self.setting(&id, own.pinned.as_ref(), &mut value.pinned, "its pins", |s| s.pinned.as_ref()),
            ];
            if let Err(why) = nodes::check_shard_bounds(&value, &cluster.table) {
                self.kept(&format!("shard {id} stays as it is"), &why.to_string());
                continue;
            }
            for (what, why) in kept.into_iter().flatten() {
                self.kept(&what, &why);
            }
            if value != now {
                self.said.reverted.push(nodes::describe(&now, &value));
                cluster.shards.set(value);
            }
        }
    }

    /// Sets one setting back; otherwise what stays and why.
    fn setting<T: Clone + PartialEq>(
        &self,
        id: &ShardId,
        own: Option<&Step<T>>,
        value: &mut T,
        name: &str,
        of: impl Fn(&Settings) -> Option<&Step<T>>,
    ) -> Option<(String, String)> {
        let own = own.filter(|step| step.from != step.to)?;
        let what = format!("shard {id} keeps {name}");
        if *value != own.to {
            return Some((what, "it was changed after the plan".to_owned()));
        }
        let same = |o: &PlanRecord| o.brought.shards.get(id).and_then(&of).is_some_and(|step| step.to == own.to);
        if let Some(why) = self.other(same) {
            return Some((what, why));
        }
        value.clone_from(&own.from);
        None
    }

    /// Nodes that were added, and empty shards of the intent with all their nodes.
    fn nodes(&mut self, cluster: &mut Cluster) {
        let (primaries, replicas): (Vec<NodeId>, Vec<NodeId>) =
            self.own.nodes.iter().cloned().partition(|node| is_primary(cluster, node));
        for node in replicas.into_iter().chain(primaries) {
            let Some(shard) = cluster.shard_of(&node).map(|shard| shard.value.clone()) else { continue };
            let mut touched = Touched::default();
            if let Some(why) = self.needed(&node, &shard) {
                self.kept(&format!("node {node} stays"), &why);
            } else if let Err(refused) = nodes::remove(cluster, &node, None, &mut touched) {
                let why = match refused {
                    Rejection::InUse { why, .. } => why,
                    other => other.to_string(),
                };
                self.kept(&format!("node {node} stays"), &why);
            } else {
                self.said.reverted.append(&mut touched.sentences);
            }
        }
        for (id, _) in &self.plan.intent.add {
            self.remove_empty(cluster, id);
        }
    }

    /// Why a node that came with this plan is needed by another one.
    fn needed(&self, node: &NodeId, shard: &Shard) -> Option<String> {
        let is_for = |o: &PlanRecord| {
            let of_shard = shard.primary == *node && o.brought.shards.contains_key(&shard.id);
            o.brought.nodes.contains(node) || o.brought.states.contains_key(node) || of_shard
        };
        self.other(is_for)
    }

    /// A shard of the plan's intent that owns nothing and did not come with the plan.
    fn remove_empty(&mut self, cluster: &mut Cluster, id: &ShardId) {
        let Some(shard) = cluster.shards.get(id).map(|shard| shard.value.clone()) else { return };
        if shard.nodes().any(|node| self.own.nodes.contains(node)) {
            return;
        }
        let is_for = |o: &PlanRecord| {
            let of_node = |node: &NodeId| o.brought.nodes.contains(node) || o.brought.states.contains_key(node);
            let intended = o.plan.intent.add.iter().any(|(other, _)| other == id);
            intended || o.brought.shards.contains_key(id) || shard.nodes().any(of_node)
        };
        if cluster.table.count_of(id) > 0 {
            self.kept(&format!("shard {id} stays"), "it owns slots");
        } else if let Some(why) = self.other(is_for) {
            self.kept(&format!("shard {id} stays"), &why);
        } else {
            for node in shard.nodes() {
                cluster.nodes.remove(node);
            }
            cluster.shards.remove(id);
            cluster.table.remove_shard(id).expect("listed and empty");
            self.said.reverted.push(format!("empty shard {id} removed with its nodes"));
        }
    }
}

/// Where both asked for the same value and the second found it there already.
fn inherit<T: Clone + PartialEq>(second: Option<&mut Step<T>>, first: Option<&Step<T>>) {
    if let (Some(second), Some(first)) = (second, first)
        && second.from == second.to
        && second.to == first.to
    {
        second.from.clone_from(&first.from);
    }
}

fn is_primary(cluster: &Cluster, node: &NodeId) -> bool {
    cluster.shard_of(node).is_some_and(|shard| shard.value.primary == *node)
}

fn asks(plan: &PlanId) -> String {
    format!("plan {plan}, which is open, asks for it")
}

const fn word(state: NodeState) -> &'static str {
    match state {
        NodeState::Active => "active",
        NodeState::Draining => "draining",
        NodeState::Lost => "lost",
    }
}
