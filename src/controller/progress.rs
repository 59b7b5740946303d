//! How far a rollout is: figures for people, from the replicated record alone.

use crate::domain::{Action, ActionId, ActionState, Instant, RolloutState};
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
    /// Slots that have their new owner; while rolling back: that are back.
    pub slots_done: u32,
    /// Slots of the whole rollout; while rolling back: that have to go back, the ones that are back included.
    pub slots_total: u32,
    /// Actions by state.
    pub actions: ActionCounts,
    /// Actions in flight, ascending.
    pub in_flight: Vec<ActionId>,
    /// Slots per second over the last seconds; none while nothing was done.
    pub slots_per_second: Option<u64>,
    /// Seconds to the end at that rate, or at the pace allowed; none when it cannot be told or nothing runs.
    pub eta_seconds: Option<u64>,
    /// What does not go on and why, a sentence each.
    pub stuck: Vec<String>,
}

/// How far the rollout of a plan is; none when it was not started.
#[must_use]
pub fn progress(record: &PlanRecord, now: Instant) -> Option<Progress> {
    let rollout = record.rollout.as_ref()?;
    let body = &record.plan.body;
    let back = matches!(rollout.state, RolloutState::RollingBack | RolloutState::RolledBack);
    let until = rollout.ended_at.unwrap_or(now);
    let mut actions = ActionCounts::default();
    let (mut slots_done, mut slots_total, mut recent) = (0, 0, 0);
    let mut first_recent = until;
    let mut stuck: Vec<String> = Vec::new();
    for action in &body.actions {
        let progress = rollout.actions.get(&action.id);
        let state = progress.map(|progress| progress.state);
        *counter(&mut actions, state) += 1;
        let slots = u64::try_from(action.kind.slots()).expect("at most 16384");
        let ended = if back { ActionState::Reverted } else { ActionState::Done };
        if !back || matches!(state, Some(ActionState::Done | ActionState::Reverting | ActionState::Reverted)) {
            slots_total += slots;
        }
        if state == Some(ended) {
            slots_done += slots;
        }
        if let Some(progress) =
            progress.filter(|progress| progress.state == ended && until.since_ms(progress.since) <= RATE_WINDOW_MS)
        {
            recent += slots;
            first_recent = first_recent.min(progress.since);
        }
        stuck.extend(progress.and_then(|progress| {
            let waited = until.since_ms(progress.since);
            match progress.state {
                ActionState::Failed => {
                    let why = progress.error.as_deref().unwrap_or("no reason given");
                    Some(format!("action {} ({}) failed: {why}", action.id, between(action)))
                }
                ActionState::Begun | ActionState::Reverting
                    if !rollout.state.is_final() && waited > STUCK_AFTER_MS + record.plan.limits.overlap_ms =>
                {
                    Some(format!("action {} ({}) is in flight for {} s", action.id, between(action), waited / 1000))
                }
                _ => None,
            }
        }));
    }
    stuck.truncate(STUCK_MAX);
    if let (RolloutState::Blocked, Some(cause)) = (rollout.state, &rollout.cause) {
        stuck.insert(0, cause.clone());
    }
    let window_ms = until.since_ms(rollout.started_at).clamp(1000, RATE_WINDOW_MS);
    let slots_per_second = (recent > 0).then(|| (recent * 1000).div_ceil(window_ms));
    let allowed =
        record.plan.limits.slots_per_second.map(|most| rollout.slots_per_second.map_or(most, |l| l.min(most)));
    let rate = slots_per_second.or(allowed.or(rollout.slots_per_second).map(u64::from)).filter(|rate| *rate > 0);
    let runs = matches!(rollout.state, RolloutState::Running | RolloutState::RollingBack);
    let eta_seconds = rate.filter(|_| runs).map(|rate| (slots_total - slots_done).div_ceil(rate));
    Some(Progress {
        state: rollout.state,
        slots_done: u32::try_from(slots_done).expect("at most 16384"),
        slots_total: u32::try_from(slots_total).expect("at most 16384"),
        actions,
        in_flight: rollout.in_flight().collect(),
        slots_per_second,
        eta_seconds,
        stuck,
    })
}

fn counter(counts: &mut ActionCounts, state: Option<ActionState>) -> &mut u32 {
    match state {
        None => &mut counts.pending,
        Some(ActionState::Begun) => &mut counts.begun,
        Some(ActionState::Done) => &mut counts.done,
        Some(ActionState::Failed) => &mut counts.failed,
        Some(ActionState::Reverting) => &mut counts.reverting,
        Some(ActionState::Reverted) => &mut counts.reverted,
    }
}

/// `shard-a -> shard-b`, as far as the action has ends.
fn between(action: &Action) -> String {
    use crate::domain::ActionKind as K;
    match &action.kind {
        K::MoveSlots { from, to, .. } => format!("{from} -> {to}"),
        K::AssignSlots { to, .. } => format!("to {to}"),
        K::Promote { shard, to, .. } => format!("promote {to} in {shard}"),
        K::SetReplicaOf { node, shard } => format!("{node} copies {shard}"),
        K::RepairSlot { slot, owner } => format!("slot {slot} to {owner}"),
    }
}
