//! How far a rollout is: figures for people, from the replicated record alone.

use crate::domain::{Action, ActionId, ActionKind, ActionProgress, ActionState, Instant, Rollout, RolloutState};
use crate::state::PlanRecord;

/// How far back the rate looks.
const RATE_WINDOW_MS: u64 = 10_000;
/// An action in flight for longer than this (and the overlap) is stuck.
const STUCK_AFTER_MS: u64 = 30_000;
/// Most sentences of [`Progress::stuck`].
const STUCK_MAX: usize = 16;

/// Number of actions in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActionCounts {
    /// Not begun.
    pub pending: u32,
    /// In flight.
    pub begun: u32,
    /// Done.
    pub done: u32,
    /// Given up.
    pub failed: u32,
    /// On the way back.
    pub reverting: u32,
    /// Taken back.
    pub reverted: u32,
}

/// How far a rollout is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Where it is in its life.
    pub state: RolloutState,
    /// Slots whose action is done; while rolling back: whose action is undone.
    pub slots_done: u32,
    /// Slots of the whole plan; while rolling back: of the actions that were carried out.
    pub slots_total: u32,
    /// Actions by state.
    pub actions: ActionCounts,
    /// Actions in flight, ascending.
    pub in_flight: Vec<ActionId>,
    /// Slots per second over the last seconds; none while nothing was done.
    pub slots_per_second: Option<u64>,
    /// Seconds to the end at that rate, else at the pace allowed; none when it cannot be told, or nothing goes on.
    pub eta_seconds: Option<u64>,
    /// What does not go on and why, a sentence each.
    pub stuck: Vec<String>,
}

/// How far the rollout of a plan is; none when it was not started.
#[must_use]
pub fn progress(record: &PlanRecord, now: Instant) -> Option<Progress> {
    let rollout = record.rollout.as_ref()?;
    let until = rollout.ended_at.unwrap_or(now);
    let (actions, slots) = counts(record, rollout, until);
    let window_ms = until.since_ms(rollout.started_at).clamp(1000, RATE_WINDOW_MS);
    let slots_per_second = (slots.recent > 0).then(|| (u64::from(slots.recent) * 1000).div_ceil(window_ms));
    let paces = [record.plan.limits.slots_per_second, rollout.slots_per_second];
    let allowed = paces.into_iter().flatten().min().map(u64::from);
    let goes_on = matches!(rollout.state, RolloutState::Running | RolloutState::RollingBack);
    let left = u64::from(slots.total - slots.done);
    let rate = slots_per_second.or(allowed).filter(|rate| goes_on && *rate > 0);
    Some(Progress {
        state: rollout.state,
        slots_done: slots.done,
        slots_total: slots.total,
        actions,
        in_flight: rollout.in_flight().collect(),
        slots_per_second,
        eta_seconds: rate.map(|rate| left.div_ceil(rate)),
        stuck: stuck(record, rollout, until),
    })
}

#[derive(Default)]
struct Slots {
    done: u32,
    total: u32,
    recent: u32,
}

fn counts(record: &PlanRecord, rollout: &Rollout, until: Instant) -> (ActionCounts, Slots) {
    use ActionState as S;
    let back = matches!(rollout.state, RolloutState::RollingBack | RolloutState::RolledBack);
    let end = if back { S::Reverted } else { S::Done };
    let (mut counts, mut slots) = (ActionCounts::default(), Slots::default());
    for action in &record.plan.body.actions {
        let progress = rollout.actions.get(&action.id);
        let size = u32::try_from(action.kind.touched()).expect("at most 16384");
        let carried_out = progress.is_some_and(|p| !matches!(p.state, S::Begun | S::Failed));
        if !back || carried_out {
            slots.total += size;
        }
        if let Some(progress) = progress.filter(|progress| progress.state == end) {
            slots.done += size;
            slots.recent += if until.since_ms(progress.since) <= RATE_WINDOW_MS { size } else { 0 };
        }
        *match progress.map(|progress| progress.state) {
            None => &mut counts.pending,
            Some(S::Begun) => &mut counts.begun,
            Some(S::Done) => &mut counts.done,
            Some(S::Failed) => &mut counts.failed,
            Some(S::Reverting) => &mut counts.reverting,
            Some(S::Reverted) => &mut counts.reverted,
        } += 1;
    }
    (counts, slots)
}

/// What keeps the rollout: the cause of a block first, then action by action.
fn stuck(record: &PlanRecord, rollout: &Rollout, until: Instant) -> Vec<String> {
    let cause = rollout.cause.iter().filter(|_| rollout.state == RolloutState::Blocked).cloned();
    let late_ms = STUCK_AFTER_MS + record.plan.limits.overlap_ms;
    let tells = |(id, progress): (&ActionId, &ActionProgress)| {
        let action = record.plan.body.action(*id)?;
        let waited_ms = until.since_ms(progress.since);
        match (progress.state, &progress.error) {
            (ActionState::Failed, error) => {
                let why = error.as_deref().unwrap_or("no reason given");
                Some(format!("action {id} ({}) failed: {why}", ends(action)))
            }
            (ActionState::Done, Some(error)) => {
                Some(format!("action {id} ({}) could not be taken back: {error}", ends(action)))
            }
            (ActionState::Begun | ActionState::Reverting, error)
                if waited_ms > late_ms && !rollout.state.is_final() =>
            {
                let last = error.as_ref().map_or_else(String::new, |error| format!("; before: {error}"));
                Some(format!("action {id} ({}) has been in flight for {} s{last}", ends(action), waited_ms / 1000))
            }
            _ => None,
        }
    };
    cause.chain(rollout.actions.iter().filter_map(tells)).take(STUCK_MAX).collect()
}

/// `shard-a -> shard-b`, as far as the action has ends.
fn ends(action: &Action) -> String {
    match &action.kind {
        ActionKind::MoveSlots { from, to, .. } => format!("{from} -> {to}"),
        ActionKind::AssignSlots { to, .. } => format!("to {to}"),
        ActionKind::Promote { shard, to, .. } => format!("promote {to} in {shard}"),
        ActionKind::SetReplicaOf { node, shard } => format!("{node} copies {shard}"),
        ActionKind::RepairSlot { slot, owner } => format!("slot {slot} to {owner}"),
    }
}
