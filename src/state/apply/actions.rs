//! Actions begun, finished and failed. Each of the three is safe to repeat where the repetition can be told from a new
//! request: what is so already is accepted and changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Cluster;
use super::effect::{Way, arrive, depart, give_up};
use super::fresh::refuse_state;
use super::roles::hindrance;
use super::rollout::{end_when_idle, running, running_mut};
use super::{Context, Step, TEXT_MAX_BYTES, count, cut};
use crate::domain::{
    Action, ActionId, ActionProgress, ActionState, DriverKind, PlanId, Rejection, Role, Rollout, RolloutState, ShardId,
    opens_at,
};

pub(super) fn begin(
    cluster: &mut Cluster,
    context: &Context<'_>,
    id: &PlanId,
    ids: &[ActionId],
) -> Result<Step, Rejection> {
    use ActionState as S;
    let (actions, rollout) = look_up(cluster, context, id, ids, "begin")?;
    let back = rollout.state == RolloutState::RollingBack;
    // The executor repeats itself after a change of leader; a mover that is told "begun" would move the data again.
    let so_already: &[S] = match (back, cluster.driver == DriverKind::Manual) {
        (false, false) => &[S::Begun, S::Done],
        (false, true) => &[S::Begun],
        (true, false) => &[S::Reverting, S::Reverted],
        (true, true) => &[S::Reverting],
    };
    let todo: Vec<_> = actions.iter().filter(|a| !is_in(rollout, a.id, so_already)).collect();
    if todo.is_empty() {
        return Ok(nothing(id));
    }
    running(cluster, id, "begin")?;
    let way = match rollout.state {
        RolloutState::Running => Way::Forward,
        RolloutState::RollingBack => Way::Back,
        state => return Err(refuse(todo[0].id, format!("the rollout is {}", state.as_str()))),
    };
    for action in &todo {
        let why = match (way, rollout.state_of(action.id)) {
            (Way::Forward, None | Some(S::Failed)) | (Way::Back, Some(S::Done)) => continue,
            (Way::Back, Some(S::Begun)) => "it is in flight: finish it before it is undone",
            (Way::Back, Some(S::Reverted)) => "it is undone already",
            (Way::Back, _) => "it was not done: there is nothing to undo",
            (Way::Forward, Some(S::Done)) => "it is done already",
            (Way::Forward, _) => "it is being undone",
        };
        return Err(refuse(action.id, why.to_owned()));
    }
    let limits = &cluster.plans[id].plan.limits;
    // Undoing is never made to wait.
    if let Some(opens) = opens_at(&limits.windows, context.now).filter(|_| way == Way::Forward) {
        let minutes = usize::try_from(opens.since_ms(context.now).div_ceil(60_000)).expect("within a week");
        return Err(refuse(
            todo[0].id,
            format!("outside of the plan's time windows; they open in {}", count(minutes, "minute")),
        ));
    }
    let overlap_ms = limits.overlap_ms;
    let mut load = Load::of(cluster, id);
    let mut landed = 0;
    for action in &todo {
        let record = &cluster.plans[id];
        let rollout = record.rollout.as_ref().expect("looked up before");
        if let Some(why) = hindrance(cluster, &record.plan.body, rollout, action, way) {
            return Err(refuse(action.id, why));
        }
        load.admit(action, way)?;
        let at_once = depart(cluster, action, way, overlap_ms);
        let state = if way == Way::Back { S::Reverting } else { S::Begun };
        update(cluster, context, id, action.id, state, |progress| {
            progress.attempts += u32::from(way == Way::Forward);
            progress.by = Some(context.by.name.clone());
        })?;
        if at_once {
            land(cluster, context, id, action, way)?;
            load.release(action, way);
            landed += 1;
        }
    }
    let verb = match (way, landed == todo.len()) {
        (Way::Forward, false) => "begun",
        (Way::Forward, true) => "done",
        (Way::Back, false) => "undoing",
        (Way::Back, true) => "undone",
    };
    Ok(end_when_idle(cluster, context, id, format!("{verb} {}", describe(&todo))))
}

pub(super) fn finish(
    cluster: &mut Cluster,
    context: &Context<'_>,
    id: &PlanId,
    ids: &[ActionId],
) -> Result<Step, Rejection> {
    use ActionState as S;
    let (actions, rollout) = look_up(cluster, context, id, ids, "finish")?;
    let todo: Vec<_> = actions.iter().filter(|a| !is_in(rollout, a.id, &[S::Done, S::Reverted])).collect();
    if todo.is_empty() {
        return Ok(nothing(id));
    }
    let rollout = running(cluster, id, "finish")?;
    let mut steps = Vec::new();
    for action in &todo {
        match rollout.state_of(action.id) {
            Some(S::Begun) => steps.push((*action, Way::Forward)),
            Some(S::Reverting) => steps.push((*action, Way::Back)),
            _ => return Err(refuse(action.id, "it is not in flight".to_owned())),
        }
    }
    for (action, way) in &steps {
        land(cluster, context, id, action, *way)?;
    }
    let summary = [(Way::Forward, "done"), (Way::Back, "undone")].into_iter().filter_map(|(way, verb)| {
        let actions: Vec<_> = steps.iter().filter(|step| step.1 == way).map(|step| step.0).collect();
        (!actions.is_empty()).then(|| format!("{verb} {}", describe(&actions)))
    });
    let summary = summary.collect::<Vec<_>>().join("; ");
    Ok(end_when_idle(cluster, context, id, summary))
}

pub(super) fn fail(
    cluster: &mut Cluster,
    context: &Context<'_>,
    id: &PlanId,
    action: ActionId,
    error: &str,
) -> Result<Step, Rejection> {
    let (actions, _) = look_up(cluster, context, id, &[action], "fail")?;
    let action = &actions[0];
    let rollout = running(cluster, id, "fail")?;
    let (way, state) = match rollout.state_of(action.id) {
        Some(ActionState::Begun) => (Way::Forward, ActionState::Failed),
        Some(ActionState::Reverting) => (Way::Back, ActionState::Done),
        _ => return Err(refuse(action.id, "it is not in flight".to_owned())),
    };
    give_up(cluster, action, way);
    update(cluster, context, id, action.id, state, |progress| progress.error = Some(cut(error, TEXT_MAX_BYTES)))?;
    let what = if way == Way::Back { "could not be undone" } else { "failed" };
    let summary =
        format!("{} {what} ({}): {}", action.id, count(action.kind.slots(), "slot"), cut(error, TEXT_MAX_BYTES));
    Ok(end_when_idle(cluster, context, id, summary))
}

/// The actions named, each once, and the rollout they belong to; also of one that has ended.
fn look_up<'a>(
    cluster: &'a Cluster,
    context: &Context<'_>,
    id: &PlanId,
    ids: &[ActionId],
    verb: &str,
) -> Result<(Vec<Action>, &'a Rollout), Rejection> {
    let record = cluster.record(id)?;
    if context.by.role == Role::Mover && cluster.driver != DriverKind::Manual {
        let action = format!("{verb} actions of the driver {}", cluster.driver.as_str());
        return Err(Rejection::Forbidden { role: context.by.role.to_string(), action });
    }
    let rollout = record.rollout.as_ref().ok_or_else(|| refuse_state(id, record.state, verb))?;
    let unique: BTreeSet<_> = ids.iter().collect();
    if ids.is_empty() || unique.len() != ids.len() {
        return Err(Rejection::invalid("actions", &"there are none, or one stands twice"));
    }
    for (id, progress) in ids.iter().filter_map(|id| Some((id, rollout.actions.get(id)?))) {
        let in_flight = matches!(progress.state, ActionState::Begun | ActionState::Reverting);
        let other = progress.by.as_ref().filter(|by| **by != context.by.name);
        if let (Role::Mover, true, Some(other)) = (context.by.role, in_flight, other) {
            return Err(refuse(*id, format!("it is in flight: {other} has begun it")));
        }
    }
    let find = |id: &ActionId| record.plan.body.action(*id).cloned().ok_or_else(|| Rejection::not_found("action", id));
    Ok((ids.iter().map(find).collect::<Result<_, _>>()?, rollout))
}

/// An action in flight comes to its end.
fn land(cluster: &mut Cluster, context: &Context<'_>, id: &PlanId, action: &Action, way: Way) -> Result<(), Rejection> {
    let came_from = running(cluster, id, "finish")?.actions[&action.id].came_from.clone();
    let came_from = arrive(cluster, action, way, came_from.as_ref());
    let state = if way == Way::Back { ActionState::Reverted } else { ActionState::Done };
    update(cluster, context, id, action.id, state, |progress| {
        progress.came_from = came_from;
        progress.error = None;
    })
}

/// Brings an action to a state, and changes what else is known of its progress.
fn update(
    cluster: &mut Cluster,
    context: &Context<'_>,
    plan: &PlanId,
    action: ActionId,
    state: ActionState,
    change: impl FnOnce(&mut ActionProgress),
) -> Result<(), Rejection> {
    let actions = &mut running_mut(cluster, plan)?.actions;
    let mut progress = actions.get(&action).cloned().unwrap_or_else(|| new_progress(context));
    change(&mut progress);
    (progress.state, progress.since) = (state, context.now);
    actions.insert(action, progress);
    Ok(())
}

/// Actions in flight by the shard they leave and by the shard they enter.
struct Load {
    leaving: BTreeMap<ShardId, u32>,
    entering: BTreeMap<ShardId, u32>,
    per_source: u32,
    per_target: u32,
}

impl Load {
    fn of(cluster: &Cluster, id: &PlanId) -> Self {
        let record = &cluster.plans[id];
        let limits = &record.plan.limits;
        let mut load = Self {
            leaving: BTreeMap::new(),
            entering: BTreeMap::new(),
            per_source: limits.moves_per_source,
            per_target: limits.moves_per_target,
        };
        let rollout = record.rollout.as_ref().expect("looked up before");
        for (state, way) in [(ActionState::Begun, Way::Forward), (ActionState::Reverting, Way::Back)] {
            for action in rollout.in_state(&[state]).filter_map(|id| record.plan.body.action(id)) {
                load.count(action, way, 1);
            }
        }
        load
    }

    /// Counts an action in, unless a limit of the plan stands against it.
    fn admit(&mut self, action: &Action, way: Way) -> Result<(), Rejection> {
        self.count(action, way, 1);
        let (source, target) = way.ends(&action.kind);
        let over = |counts: &BTreeMap<ShardId, u32>, shard: Option<&ShardId>, most| {
            shard.filter(|shard| counts.get(*shard).is_some_and(|&now| now > most)).cloned()
        };
        if let Some(shard) = over(&self.leaving, source, self.per_source) {
            return Err(refuse(
                action.id,
                format!("{} in flight from shard {shard} already", count(self.per_source as usize, "action")),
            ));
        }
        if let Some(shard) = over(&self.entering, target, self.per_target) {
            return Err(refuse(
                action.id,
                format!("{} in flight to shard {shard} already", count(self.per_target as usize, "action")),
            ));
        }
        Ok(())
    }

    fn release(&mut self, action: &Action, way: Way) {
        self.count(action, way, -1);
    }

    fn count(&mut self, action: &Action, way: Way, by: i32) {
        let (source, target) = way.ends(&action.kind);
        for (counts, shard) in [(&mut self.leaving, source), (&mut self.entering, target)] {
            if let Some(shard) = shard {
                let now = counts.entry(shard.clone()).or_default();
                *now = now.saturating_add_signed(by);
            }
        }
    }
}

fn is_in(rollout: &Rollout, action: ActionId, states: &[ActionState]) -> bool {
    rollout.state_of(action).is_some_and(|state| states.contains(&state))
}

fn new_progress(context: &Context<'_>) -> ActionProgress {
    ActionProgress {
        state: ActionState::Begun,
        since: context.now,
        attempts: 0,
        error: None,
        came_from: None,
        by: None,
    }
}

/// An accepted step that changes nothing.
fn nothing(id: &PlanId) -> Step {
    let mut step = Step::default();
    step.receipt.plan = Some(id.clone());
    step
}

fn refuse(action: ActionId, why: String) -> Rejection {
    Rejection::ActionRefused { action: action.to_string(), why }
}

/// `3 actions (48 slots): a-1, a-2, a-3`.
fn describe(actions: &[&Action]) -> String {
    const SHOWN: usize = 16;
    let slots = actions.iter().map(|action| action.kind.slots()).sum();
    let mut ids: Vec<_> = actions.iter().take(SHOWN).map(|action| action.id.to_string()).collect();
    if actions.len() > SHOWN {
        ids.push("…".to_owned());
    }
    format!("{} ({}): {}", count(actions.len(), "action"), count(slots, "slot"), ids.join(", "))
}
