//! Why a slot is where it is, and why a plan moves it or not, in sentences.

use super::{Cluster, ControlError, Controller, Explanation, PlanRecord};
use crate::domain::{Action, ActionKind, ActionState, ClusterName, PlanState, Serving, Shard, Slot};

impl Controller {
    /// Why the slot is where it is, and what the open plan does with it.
    ///
    /// # Errors
    /// [`crate::domain::Rejection::NotFound`].
    pub fn explain(&self, cluster: &ClusterName, slot: Slot) -> Result<Explanation, ControlError> {
        Ok(explain(&*self.cluster(cluster)?, slot))
    }
}

fn explain(cluster: &Cluster, slot: Slot) -> Explanation {
    let owner = cluster.table.owner(slot).cloned();
    let record = cluster.active_plan().or_else(|| newest_open(cluster));
    let mut because = vec![match &owner {
        None => format!("slot {slot} has no owner"),
        Some(owner) => {
            let shard = &cluster.shards[owner].value;
            let address =
                cluster.nodes.get(&shard.primary).map_or_else(String::new, |node| format!(" at {}", node.value));
            format!("slot {slot} belongs to shard {owner}, served by node {}{address}", shard.primary)
        }
    }];
    let shard = owner.as_ref().map(|owner| &cluster.shards[owner].value);
    if shard.is_some_and(|shard| shard.pinned.contains(slot)) {
        because.push("it is pinned there: no plan moves it while the shard owns it".to_owned());
    }
    if let Some(moving) = cluster.moving.iter().find(|moving| moving.range.contains(slot)) {
        let who = match moving.serving {
            Serving::From => "the source serves it until it has arrived",
            Serving::To => "the target serves it already, and the source may still hold cached values",
        };
        because.push(format!("range {} is on its way from {} to {}: {who}", moving.range, moving.from, moving.to));
    }
    match record {
        None => because.push("no plan is open".to_owned()),
        Some(record) => because.push(in_plan(record, shard, slot)),
    }
    Explanation { slot, owner, plan: record.map(|record| record.plan.id.clone()), because }
}

fn newest_open(cluster: &Cluster) -> Option<&std::sync::Arc<PlanRecord>> {
    let open = |record: &&std::sync::Arc<PlanRecord>| matches!(record.state, PlanState::Proposed | PlanState::Approved);
    cluster.plans.values().filter(open).max_by_key(|record| record.sequence)
}

/// What the plan does with the slot, or why nothing.
fn in_plan(record: &PlanRecord, shard: Option<&Shard>, slot: Slot) -> String {
    let (plan, body) = (&record.plan.id, &record.plan.body);
    let touches = |action: &&Action| action.kind.ranges().iter().any(|range| range.contains(slot));
    if let Some(action) = body.actions.iter().find(touches) {
        let wave = body.waves.iter().position(|wave| wave.contains(&action.id)).map_or(0, |index| index + 1);
        let to = action.kind.target().map_or("", |to| to.as_str());
        let verb = if matches!(action.kind, ActionKind::AssignSlots { .. }) { "gives it to" } else { "moves it to" };
        let waves = body.waves.len();
        return format!(
            "plan {plan} {verb} {to} in action {} (wave {wave} of {waves}, {})",
            action.id,
            stage(record, action)
        );
    }
    let Some(shard) = shard else { return format!("plan {plan} leaves it without an owner") };
    if shard.pinned.contains(slot) {
        return format!("plan {plan} leaves it: it is pinned");
    }
    let id = &shard.id;
    let Some(change) = body.shards.iter().find(|change| change.id == *id) else {
        return format!("plan {plan} does not know shard {id}");
    };
    let given: usize =
        body.actions.iter().filter(|action| action.kind.source() == Some(id)).map(|action| action.kind.slots()).sum();
    if let Some(undone) = &record.plan.reverts {
        return format!("plan {plan} leaves it: plan {undone}, which it undoes, did not bring it to {id}");
    }
    if given > 0 {
        let (before, kept) = (change.before, u64::from(change.before).saturating_sub(given as u64));
        return format!(
            "plan {plan} leaves it: {id} gives {given} of its {before} slots and keeps {kept}; which ones is the planner's \
             choice, for few ranges"
        );
    }
    match body.certificate.bands.iter().find(|band| band.shard == *id) {
        Some(band) if (band.lo..=band.hi).contains(&change.before) => format!(
            "plan {plan} leaves it: {id} has {} slots, within its band {}..={}, and gives none",
            change.before, band.lo, band.hi
        ),
        Some(band) if change.before < band.lo => format!(
            "plan {plan} leaves it: {id} has {} slots, below its band {}..={}, and gives none",
            change.before, band.lo, band.hi
        ),
        _ => format!("plan {plan} leaves it: {id} is not a donor"),
    }
}

fn stage(record: &PlanRecord, action: &Action) -> &'static str {
    match record.rollout.as_ref().and_then(|rollout| rollout.state_of(action.id)) {
        None => "pending",
        Some(ActionState::Begun) => "in flight",
        Some(ActionState::Done) => "done",
        Some(ActionState::Failed) => "failed",
        Some(ActionState::Reverting) => "on its way back",
        Some(ActionState::Reverted) => "taken back",
    }
}
