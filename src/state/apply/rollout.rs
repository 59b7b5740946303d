//! The life of a rollout but for its actions: start, steering, blocking, completion, and its ends.

use std::collections::BTreeSet;

use super::super::{Cluster, Event, PlanRecord, SteerVerb};
use super::fresh::{check_fit, refuse_state};
use super::review::plan_step;
use super::{Context, Step, TEXT_MAX_BYTES, count, cut};
use crate::domain::{
    ActionState, DriverKind, PlanId, PlanState, PlanVerb, Rejection, Rollout, RolloutActions, RolloutState, RolloutVerb,
};

/// The warning that undoing a flip must acknowledge: the source may still hold what it cached before.
const STALE_CACHE: &str = "stale-cache";

pub(super) fn start(cluster: &mut Cluster, context: &Context<'_>, id: &PlanId) -> Result<Step, Rejection> {
    let record = cluster.record(id)?;
    cluster.refuse_while_active()?;
    let state = record.state.after(PlanVerb::Start).ok_or_else(|| refuse_state(id, record.state, "start"))?;
    check_fit(cluster, &record.plan, context.now, "start")?;
    let record = cluster.record_mut(id)?;
    record.state = state;
    record.rollout = Some(Rollout {
        plan: id.clone(),
        state: RolloutState::Running,
        cause: None,
        started_by: context.by.clone(),
        started_at: context.now,
        ended_at: None,
        slots_per_second: None,
        actions: RolloutActions::default(),
    });
    let body = &record.plan.body;
    let slots = body.actions.iter().map(|action| action.kind.touched()).sum();
    let summary = format!("rollout started: {}, {}", count(body.actions.len(), "action"), count(slots, "slot"));
    cluster.active = Some(id.clone());
    let mut step = rollout_step(cluster, id, summary);
    step.events.insert(0, cluster.plan_changed(id));
    Ok(step)
}

pub(super) fn steer(
    cluster: &mut Cluster,
    context: &Context<'_>,
    id: &PlanId,
    verb: SteerVerb,
    acks: &BTreeSet<String>,
) -> Result<Step, Rejection> {
    let (verb, name, done) = match verb {
        SteerVerb::Pause => (RolloutVerb::Pause, "pause", "paused"),
        SteerVerb::Resume => (RolloutVerb::Resume, "resume", "resumed"),
        SteerVerb::Abort => (RolloutVerb::Abort, "abort", "aborting"),
        SteerVerb::RollBack => (RolloutVerb::RollBack, "roll back", "rolling back"),
    };
    let rollout = running(cluster, id, name)?;
    let state = rollout.state.after(verb).ok_or_else(|| refuse_rollout(rollout, name))?;
    let touched = rollout.in_state(&[ActionState::Begun, ActionState::Done, ActionState::Reverting]).next().is_some();
    if verb == RolloutVerb::RollBack && cluster.driver == DriverKind::Flip && touched && !acks.contains(STALE_CACHE) {
        let missing = vec![STALE_CACHE.to_owned()];
        return Err(Rejection::AcknowledgementMissing { plan: id.to_string(), missing });
    }
    let cause = context.reason.filter(|_| verb != RolloutVerb::Resume).map(str::to_owned);
    let rollout = running_mut(cluster, id)?;
    rollout.state = state;
    rollout.cause = cause;
    if verb == RolloutVerb::Resume {
        // Pending again: an action without an entry. What went wrong stands in the audit.
        rollout.actions.forget_failed();
    }
    let in_flight = rollout.in_flight().count();
    let summary = format!("rollout {done}, {} in flight", count(in_flight, "action"));
    Ok(end_when_idle(cluster, context, id, summary))
}

pub(super) fn throttle(cluster: &mut Cluster, id: &PlanId, pace: Option<u32>) -> Result<Step, Rejection> {
    running(cluster, id, "throttle")?;
    let most = cluster.plans[id].plan.limits.slots_per_second;
    if let Some(pace) = pace {
        if pace == 0 {
            return Err(Rejection::invalid("slots_per_second", &"0 is not a pace: pause the rollout instead"));
        }
        if let Some(most) = most.filter(|&most| pace > most) {
            let why = format!("{pace} is more than the {most} that were approved");
            return Err(Rejection::invalid("slots_per_second", &why));
        }
    }
    running_mut(cluster, id)?.slots_per_second = pace;
    let shown = |pace: Option<u32>| pace.map_or_else(|| "no limit".to_owned(), |pace| format!("{pace} slots/s"));
    let summary = match pace {
        Some(_) => format!("pace lowered to {}", shown(pace)),
        None => format!("pace back to the approved one: {}", shown(most)),
    };
    Ok(rollout_step(cluster, id, summary))
}

pub(super) fn block(cluster: &mut Cluster, id: &PlanId, cause: &str) -> Result<Step, Rejection> {
    let rollout = running(cluster, id, "block")?;
    // One that is ending goes on with that: only why it cannot is kept.
    let ends = matches!(rollout.state, RolloutState::Aborting | RolloutState::RollingBack);
    let state = if ends { Some(rollout.state) } else { rollout.state.after(RolloutVerb::Block) };
    let state = state.ok_or_else(|| refuse_rollout(rollout, "block"))?;
    let rollout = running_mut(cluster, id)?;
    rollout.state = state;
    rollout.cause = Some(cut(cause, TEXT_MAX_BYTES));
    let verb = if ends { "held up" } else { "blocked" };
    let summary = format!("rollout {verb}: {}", cut(cause, TEXT_MAX_BYTES));
    Ok(rollout_step(cluster, id, summary))
}

/// Keeps what a running rollout waits for, or forgets it: it goes on either way.
pub(super) fn tell(cluster: &mut Cluster, id: &PlanId, cause: Option<&str>) -> Result<Step, Rejection> {
    let rollout = running(cluster, id, "tell of")?;
    if rollout.state != RolloutState::Running {
        return Err(refuse_rollout(rollout, "tell of"));
    }
    let summary = cause
        .map_or_else(|| "rollout goes on".to_owned(), |cause| format!("rollout waits: {}", cut(cause, TEXT_MAX_BYTES)));
    running_mut(cluster, id)?.cause = cause.map(|cause| cut(cause, TEXT_MAX_BYTES));
    Ok(rollout_step(cluster, id, summary))
}

/// Ends a rollout whose every action is done and whose slots are where the plan wants them.
pub(super) fn complete(cluster: &mut Cluster, context: &Context<'_>, id: &PlanId) -> Result<Step, Rejection> {
    let rollout = running(cluster, id, "complete")?;
    if let Some((verb, plan_verb, done)) = end_of(rollout) {
        finish_rollout(cluster, context, id, verb, plan_verb);
        return Ok(rollout_step(cluster, id, format!("rollout {done}")));
    }
    if rollout.state.after(RolloutVerb::Succeed).is_none() {
        return Err(refuse_rollout(rollout, "complete"));
    }
    let plan = &cluster.plans[id].plan;
    let actions = &plan.body.actions;
    let open = actions.iter().filter(|action| rollout.state_of(action.id) != Some(ActionState::Done)).count();
    if open > 0 {
        let all = actions.len();
        return Err(Rejection::conflict(format!("{open} of {all} actions of plan {id} are not done")));
    }
    for action in actions {
        let misplaced = |to| {
            let mut slots = action.kind.ranges().iter().flat_map(|range| range.slots());
            slots.find(|slot| cluster.table.owner(*slot) != Some(to))
        };
        if let Some(slot) = action.kind.target().and_then(misplaced) {
            return Err(Rejection::conflict(format!("slot {slot} is not where {} of plan {id} wants it", action.id)));
        }
    }
    let summary = format!("rollout complete: {}", count(actions.len(), "action"));
    finish_rollout(cluster, context, id, RolloutVerb::Succeed, PlanVerb::Succeed);
    Ok(rollout_step(cluster, id, summary))
}

/// After an abort or a rollback the rollout ends as soon as nothing is left to wait for; where nodes can be asked, the executor
/// asks them before it completes it.
pub(super) fn end_when_idle(cluster: &mut Cluster, context: &Context<'_>, id: &PlanId, summary: String) -> Step {
    let rollout = cluster.plans[id].rollout.as_ref().expect("called for a rollout");
    let Some((verb, plan_verb, done)) = end_of(rollout).filter(|_| !cluster.driver.asks_nodes()) else {
        return rollout_step(cluster, id, summary);
    };
    finish_rollout(cluster, context, id, verb, plan_verb);
    rollout_step(cluster, id, format!("{summary}; rollout {done}"))
}

/// How a rollout that is aborted or rolled back ends, once nothing is left to wait for.
fn end_of(rollout: &Rollout) -> Option<(RolloutVerb, PlanVerb, &'static str)> {
    let idle = rollout.in_flight().next().is_none();
    let undone = rollout.in_state(&[ActionState::Done]).next().is_none();
    match rollout.state {
        RolloutState::Aborting if idle => Some((RolloutVerb::EndAbort, PlanVerb::Abort, "aborted")),
        RolloutState::RollingBack if idle && undone => {
            Some((RolloutVerb::EndRollBack, PlanVerb::RollBack, "rolled back"))
        }
        _ => None,
    }
}

fn finish_rollout(cluster: &mut Cluster, context: &Context<'_>, id: &PlanId, verb: RolloutVerb, plan_verb: PlanVerb) {
    let record = cluster.record_mut(id).expect("looked up before");
    record.state = record.state.after(plan_verb).expect("its rollout runs");
    let rollout = record.rollout.as_mut().expect("its rollout runs");
    rollout.state = rollout.state.after(verb).expect("checked before");
    rollout.ended_at = Some(context.now);
    cluster.active = None;
}

/// The rollout, unless it has not started or has ended.
pub(super) fn running<'a>(cluster: &'a Cluster, id: &PlanId, verb: &str) -> Result<&'a Rollout, Rejection> {
    let record = cluster.record(id)?;
    match &record.rollout {
        Some(rollout) if record.state == PlanState::Running => Ok(rollout),
        Some(rollout) => Err(refuse_rollout(rollout, verb)),
        None => Err(refuse_state(id, record.state, verb)),
    }
}

pub(super) fn running_mut<'a>(cluster: &'a mut Cluster, id: &PlanId) -> Result<&'a mut Rollout, Rejection> {
    let record: &mut PlanRecord = cluster.record_mut(id)?;
    Ok(record.rollout.as_mut().expect("looked up before"))
}

pub(super) fn refuse_rollout(rollout: &Rollout, verb: &str) -> Rejection {
    let (plan, state) = (rollout.plan.to_string(), rollout.state.as_str().to_owned());
    Rejection::RolloutState { plan, state, verb: verb.to_owned() }
}

/// What every step about one rollout has.
pub(super) fn rollout_step(cluster: &Cluster, id: &PlanId, summary: String) -> Step {
    let mut step = plan_step(cluster, id, summary);
    let state = cluster.plans[id].rollout.as_ref().expect("called for a rollout").state;
    let changed = Event::RolloutChanged { cluster: cluster.name.clone(), plan: id.clone(), state };
    if state.is_final() {
        step.events.push(changed);
    } else {
        step.events = vec![changed];
    }
    step
}
