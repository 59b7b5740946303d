//! Whether a plan still stands on what it was computed from.

use super::super::Cluster;
use super::roles::Roles;
use crate::domain::{
    Action, ActionKind, CheckLevel, Fingerprint, Instant, NodeState, Plan, PlanId, PlanState, Rejection, ShardBounds,
    ShardChange, ShardId, ShardState, SlotRange, SlotSet,
};

/// Most sentences about one plan: the first ones tell enough.
const SENTENCES_MAX: usize = 20;

impl Cluster {
    /// Whether a plan still stands on what it was computed from: an empty list when it does, otherwise what changed,
    /// a sentence each. Asked of a plan that has not started; a rollout itself moves its slots away from the base.
    #[must_use]
    pub fn stale_because(&self, plan: &Plan) -> Vec<String> {
        if plan.base.cluster_id != self.id || plan.base.version.generation != self.generation {
            return vec![format!(
                "the plan is for cluster {} of generation {}, and this is {} of generation {}",
                plan.base.cluster_id, plan.base.version.generation, self.id, self.generation
            )];
        }
        let moved = plan.body.moved_slots();
        let same = self.fingerprint(&moved) == plan.base.fingerprint;
        let mut changes = if same { Vec::new() } else { self.changes_of_shards(plan) };
        changes.extend(plan.body.shards.iter().filter_map(|then| self.changed_bounds(then)));
        changes.extend(self.unmet_actions(plan));
        if !same && changes.is_empty() {
            changes.push("the primary of a shard, or the set of shards, is not what it was".to_owned());
        }
        changes.truncate(SENTENCES_MAX);
        changes
    }

    /// The fingerprint of the cluster as it is, for a plan that moves these slots.
    #[must_use]
    pub fn fingerprint(&self, moved: &SlotSet) -> Fingerprint {
        Fingerprint::of(&self.table, self.shards.values().map(|shard| &shard.value), moved)
    }

    fn changes_of_shards(&self, plan: &Plan) -> Vec<String> {
        let mut changes = Vec::new();
        for then in &plan.body.shards {
            let id = &then.id;
            match self.shards.get(id).map(|shard| &shard.value) {
                None => changes.push(format!("shard {id} is gone")),
                Some(now) => {
                    if now.weight != then.weight {
                        let (then, now) = (then.weight.get(), now.weight.get());
                        changes.push(format!("shard {id} had weight {then} and has {now}"));
                    }
                    if now.state != then.state {
                        let draining = now.state == ShardState::Draining;
                        let now = if draining { "is draining now" } else { "is no longer draining" };
                        changes.push(format!("shard {id} {now}"));
                    }
                }
            }
        }
        let known = |id: &ShardId| plan.body.shards.iter().any(|then| then.id == *id);
        changes.extend(self.shards.keys().filter(|id| !known(id)).map(|id| format!("shard {id} was added")));
        changes
    }

    /// Bounds are not in the fingerprint, and a plan made for others would not keep to them.
    fn changed_bounds(&self, then: &ShardChange) -> Option<String> {
        let now = ShardBounds::from(&self.shards.get(&then.id)?.value);
        let (then, id) = (&then.bounds, &then.id);
        let shown = |bound: Option<u16>| bound.map_or_else(|| "none".to_owned(), |bound| bound.to_string());
        [("min_slots", then.min_slots, now.min_slots), ("max_slots", then.max_slots, now.max_slots)]
            .into_iter()
            .find(|(_, then, now)| then != now)
            .map(|(name, then, now)| format!("shard {id} had {name} {} and has {}", shown(then), shown(now)))
    }

    /// Why actions cannot be carried out one after another on the cluster as it is, and what the placement counts on in
    /// vain.
    fn unmet_actions(&self, plan: &Plan) -> Vec<String> {
        let about_roles =
            |action: &Action| matches!(action.kind, ActionKind::Promote { .. } | ActionKind::SetReplicaOf { .. });
        let placement = plan.body.placement.as_ref();
        let needed = placement.is_some() || plan.body.actions.iter().any(about_roles);
        let mut roles = needed.then(|| Roles::of(self));
        let mut unmet: Vec<String> =
            plan.body.actions.iter().filter_map(|action| self.unmet(action, roles.as_mut())).collect();
        if let (Some(placement), Some(roles)) = (placement, &roles)
            && unmet.is_empty()
        {
            unmet.extend(roles.misplaced(placement));
        }
        unmet
    }

    fn unmet<'a>(&'a self, action: &'a Action, roles: Option<&mut Roles<'a>>) -> Option<String> {
        let id = action.id;
        match &action.kind {
            ActionKind::MoveSlots { from, to, ranges } => self
                .unmet_target(to)
                .or_else(|| self.unmet_owner(ranges, Some(from)))
                .or_else(|| self.unmet_pins(ranges, from)),
            ActionKind::AssignSlots { from, to, ranges } => self
                .unmet_target(to)
                .or_else(|| self.unmet_owner(ranges, from.as_ref()))
                .or_else(|| from.as_ref().and_then(|from| self.unmet_loss(from))),
            ActionKind::Promote { shard, from, to } => roles?.promote(shard, from, to),
            ActionKind::SetReplicaOf { node, shard } => roles?.move_replica(node, shard),
            ActionKind::RepairSlot { slot, owner } => self.unmet_owner(&[SlotRange::single(*slot)], Some(owner)),
        }
        .map(|why| format!("{id}: {why}"))
    }

    fn unmet_target(&self, to: &ShardId) -> Option<String> {
        match self.shards.get(to) {
            None => Some(format!("shard {to} does not exist")),
            Some(shard) if shard.value.state == ShardState::Draining => Some(format!("shard {to} is draining")),
            Some(_) => None,
        }
    }

    fn unmet_owner(&self, ranges: &[SlotRange], owner: Option<&ShardId>) -> Option<String> {
        let name = |shard: Option<&ShardId>| shard.map_or_else(|| "nobody".to_owned(), |id| format!("shard {id}"));
        let mut slots = ranges.iter().flat_map(|range| range.slots());
        let other = slots.find(|slot| self.table.owner(*slot) != owner)?;
        Some(format!("slot {other} belongs to {}, not to {}", name(self.table.owner(other)), name(owner)))
    }

    fn unmet_pins(&self, ranges: &[SlotRange], from: &ShardId) -> Option<String> {
        let pinned = &self.shards.get(from)?.value.pinned;
        let slot = ranges.iter().flat_map(|range| range.slots()).find(|slot| pinned.contains(*slot))?;
        Some(format!("slot {slot} is pinned to shard {from}"))
    }

    /// Slots may be taken without reading them only from a shard whose primary was declared lost.
    fn unmet_loss(&self, from: &ShardId) -> Option<String> {
        let primary = &self.shards.get(from)?.value.primary;
        let lost = self.nodes[primary].value.state == NodeState::Lost;
        (!lost).then(|| format!("the primary {primary} of shard {from} is not lost"))
    }
}

/// A plan may be approved or started only while it is fresh, in time, and no check of it fails.
pub(super) fn check_fit(cluster: &Cluster, plan: &Plan, now: Instant, verb: &str) -> Result<(), Rejection> {
    if now >= plan.expires_at {
        return Err(refuse_state(&plan.id, PlanState::Expired, verb));
    }
    let changes = cluster.stale_because(plan);
    if !changes.is_empty() {
        return Err(Rejection::PlanStale { epoch: cluster.epoch.0, changes });
    }
    let failing = plan.checks.iter().filter(|check| check.level == CheckLevel::Fail);
    let failed: Vec<_> = failing.map(|check| format!("{} {}: {}", check.code, check.name, check.text)).collect();
    if failed.is_empty() { Ok(()) } else { Err(Rejection::ChecksFailed { plan: plan.id.to_string(), failed }) }
}

pub(super) fn refuse_state(plan: &PlanId, state: PlanState, verb: &str) -> Rejection {
    Rejection::PlanState { plan: plan.to_string(), state: state.as_str().to_owned(), verb: verb.to_owned() }
}
