//! Proposing a plan. The planner and its checker ran before; here stands what must hold whoever wrote the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::cluster::OPEN_PLANS_MAX;
use super::super::{Brought, Cluster, Event, PlanRecord};
use super::fresh::refuse_state;
use super::{Context, count};
use crate::domain::{
    ActionKind, CheckLevel, Digest, Limits, Plan, PlanId, PlanState, PlanVerb, Rejection, SlotSet, are_within,
};

/// Stores the plan and says what it is.
pub(super) fn propose(
    cluster: &mut Cluster,
    context: &Context<'_>,
    plan: &Arc<Plan>,
    mut brought: Brought,
    events: &mut Vec<Event>,
) -> Result<String, Rejection> {
    cluster.refuse_while_active()?;
    if cluster.plans.contains_key(&plan.id) {
        return Err(Rejection::Exists { what: "plan".to_owned(), id: plan.id.to_string() });
    }
    if plan.base.version.epoch > cluster.epoch && plan.base.version.generation == cluster.generation {
        let why = format!("epoch {} is ahead of epoch {}", plan.base.version.epoch, cluster.epoch);
        return Err(Rejection::invalid("plan.base", &why));
    }
    check_actions(plan)?;
    let changes = cluster.stale_because(plan);
    if !changes.is_empty() {
        return Err(Rejection::PlanStale { epoch: cluster.epoch.0, changes });
    }
    check_author(context, plan, cluster.policy.ttl_ms)?;
    let slots = plan.body.actions.iter().map(|action| action.kind.slots()).sum::<usize>();
    let approved = check_policy(cluster, plan, slots)?;
    if let Some(reverts) = &plan.reverts {
        let state = cluster.record(reverts)?.state;
        if !matches!(state, PlanState::Succeeded | PlanState::Aborted) {
            return Err(refuse_state(reverts, state, "revert"));
        }
    }
    if let Some(old) = &plan.supersedes {
        brought = brought.after(supersede(cluster, old, &plan.id)?);
        events.push(cluster.plan_changed(old));
    }
    if cluster.plans.values().filter(|record| !record.state.is_final()).count() >= OPEN_PLANS_MAX {
        let what = "plans of a cluster that are not finished".to_owned();
        return Err(Rejection::LimitExceeded { what, most: OPEN_PLANS_MAX as u64 });
    }
    let digest = Digest::of_plan(plan);
    let record = PlanRecord {
        plan: Arc::clone(plan),
        digest,
        sequence: cluster.plans_proposed,
        revision: 1,
        brought: Arc::new(brought),
        state: if approved { PlanState::Approved } else { PlanState::Proposed },
        approvals: Vec::new(),
        acks: BTreeSet::new(),
        ended: None,
        superseded_by: None,
        rollout: None,
    };
    cluster.plans_proposed += 1;
    cluster.plans.insert(plan.id.clone(), Arc::new(record));
    events.push(cluster.plan_changed(&plan.id));
    let state = if approved { "approved by policy" } else { "proposed" };
    let replaces = plan.supersedes.as_ref().map_or_else(String::new, |old| format!(", in place of {old}"));
    let (actions, slots) = (count(plan.body.actions.len(), "action"), count(slots, "slot"));
    Ok(format!(
        "plan {} {state}: {actions}, {slots}, base epoch {}{replaces}, {digest}",
        plan.id, plan.base.version.epoch
    ))
}

/// Ends the plan that is replaced; what it brought goes on with its successor.
fn supersede(cluster: &mut Cluster, old: &PlanId, by: &PlanId) -> Result<Brought, Rejection> {
    let record = cluster.record_mut(old)?;
    record.state =
        record.state.after(PlanVerb::Supersede).ok_or_else(|| refuse_state(old, record.state, "supersede"))?;
    record.superseded_by = Some(by.clone());
    Ok(Brought::clone(&record.brought))
}

/// The plan's own make-up: numbered actions, each in one wave; every slot once; no action longer than allowed.
fn check_actions(plan: &Plan) -> Result<(), Rejection> {
    let invalid = |field: &str, why: String| Err(Rejection::invalid(&format!("plan.{field}"), &why));
    let actions = &plan.body.actions;
    if actions.is_empty() {
        return invalid("actions", "there are none".to_owned());
    }
    let mut moved = SlotSet::new();
    let mut steps = BTreeSet::new();
    for (number, action) in (1..).zip(actions) {
        if action.id.0 != number {
            return invalid("actions", format!("{} stands at place {number}", action.id));
        }
        if action.kind.slots() > plan.limits.slots_per_move as usize {
            let (id, slots, most) = (action.id, action.kind.slots(), plan.limits.slots_per_move);
            return invalid("actions", format!("{id} moves {slots} slots, and slots_per_move is {most}"));
        }
        if action.kind.source().is_some() && action.kind.source() == action.kind.target() {
            return invalid("actions", format!("{} moves slots to where they are", action.id));
        }
        let in_order = action.kind.ranges().is_sorted_by(|a, b| a.last() < b.first());
        let once = action.kind.ranges().iter().flat_map(|range| range.slots()).all(|slot| moved.insert(slot));
        if !in_order || !once {
            return invalid("actions", format!("{}: a slot stands twice, or ranges are not ascending", action.id));
        }
        let step = match &action.kind {
            ActionKind::Promote { shard, .. } => format!("promote {shard}"),
            ActionKind::SetReplicaOf { node, .. } => format!("replica {node}"),
            ActionKind::RepairSlot { slot, .. } => format!("repair {slot}"),
            kind if kind.slots() == 0 => return invalid("actions", format!("{} moves no slot", action.id)),
            _ => continue,
        };
        if !steps.insert(step) {
            return invalid("actions", format!("{} does again what an earlier action does", action.id));
        }
    }
    let mut waved: BTreeMap<u32, u32> = BTreeMap::new();
    plan.body.waves.iter().flatten().for_each(|id| *waved.entry(id.0).or_default() += 1);
    let each_once = waved.len() == actions.len() && waved.values().all(|&times| times == 1);
    if !each_once || waved.keys().ne(actions.iter().map(|action| &action.id.0)) {
        return invalid("waves", "not every action stands in exactly one wave".to_owned());
    }
    Ok(())
}

/// The author is who submits it: otherwise an author could approve their own plan under another name.
fn check_author(context: &Context<'_>, plan: &Plan, ttl_ms: u64) -> Result<(), Rejection> {
    if plan.author.name != context.by.name {
        let why = format!("{} proposes a plan of {}", context.by.name, plan.author.name);
        return Err(Rejection::invalid("plan.author", &why));
    }
    if plan.expires_at <= context.now || plan.expires_at > plan.created_at.plus_ms(ttl_ms) {
        return Err(Rejection::invalid("plan.expires_at", &"is over already, or later than the policy allows"));
    }
    Ok(())
}

/// The plan may be stricter than the policy, never looser. True when it needs no approval: none is asked for, or it
/// is small, and nothing in it must be acknowledged.
fn check_policy(cluster: &Cluster, plan: &Plan, slots: usize) -> Result<bool, Rejection> {
    let policy = &cluster.policy;
    check_limits(&plan.limits, &policy.limits)?;
    let small = policy.auto_approve_max_slots.is_some_and(|most| slots <= most as usize);
    if plan.approvals_required > 2 || (plan.approvals_required < policy.approvals && !small) {
        let why = format!("{} where the policy asks for {}", plan.approvals_required, policy.approvals);
        return Err(Rejection::invalid("plan.approvals_required", &why));
    }
    if plan.author_may_approve && !policy.author_may_approve {
        return Err(Rejection::invalid("plan.author_may_approve", &"the policy does not allow it"));
    }
    let clean = plan.checks.iter().all(|check| !check.needs_ack && check.level != CheckLevel::Fail);
    Ok(clean && (plan.approvals_required == 0 || small))
}

fn check_limits(limits: &Limits, policy: &Limits) -> Result<(), Rejection> {
    let field = |name: &str| format!("plan.limits.{name}");
    limits.validate().map_err(|invalid| Rejection::invalid(&field(invalid.what), &invalid.why))?;
    let paces = [
        ("moves_per_source", Some(limits.moves_per_source.into()), Some(policy.moves_per_source.into())),
        ("moves_per_target", Some(limits.moves_per_target.into()), Some(policy.moves_per_target.into())),
        ("slots_per_move", Some(limits.slots_per_move.into()), Some(policy.slots_per_move.into())),
        ("slots_per_second", limits.slots_per_second.map(u64::from), policy.slots_per_second.map(u64::from)),
        ("bytes_per_second", limits.bytes_per_second, policy.bytes_per_second),
    ];
    for (name, asked, most) in paces {
        if let Some(most) = most.filter(|&most| asked.is_none_or(|asked| asked > most)) {
            return Err(Rejection::invalid(&field(name), &format!("is looser than the policy's {most}")));
        }
    }
    if !are_within(&limits.windows, &policy.windows) {
        return Err(Rejection::invalid(&field("windows"), &"are open at times when the policy's are not"));
    }
    Ok(())
}
