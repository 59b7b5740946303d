//! What to do next in a rollout, decided from the replicated record and what this leader has in hand. Pure: the loop
//! around it does what it says, and asks again.

use std::collections::{BTreeMap, BTreeSet};

use self::lanes::Lanes;
use super::pace::Pace;
use crate::controller::PlanRecord;
use crate::domain::{
    Action, ActionId, ActionKind, ActionState, DriverKind, Instant, Limits, PlanBody, Rollout, RolloutState,
    RolloutVerb, advised, opens_at, split_advice,
};

/// Most slots of one raft entry, unless a single action has more.
const BATCH_SLOTS_MAX: usize = 64;
/// Times a driver is asked for one action before it is given up.
pub const ATTEMPTS_MAX: u32 = 5;
/// Pause before the second attempt; doubled for each further one.
const RETRY_MS: u64 = 250;
/// The same for beginning to take back anew what could not be taken back, and the most it becomes.
const HOLD_MS: u64 = 1_000;
const HOLD_MS_MAX: u64 = 30_000;

/// Longest wait for a time window between two looks at the wall clock, which may be set.
const WINDOW_LOOK_MS: u64 = 30_000;

/// What a leader remembers of a rollout and does not share. Times are milliseconds of a monotonic clock.
#[derive(Debug)]
pub struct Hand {
    pub pace: Pace,
    /// Asked of the driver, no answer yet.
    pub executing: BTreeSet<ActionId>,
    /// The driver is done, since when; its outcome is not committed.
    pub executed: BTreeMap<ActionId, u64>,
    /// The driver could not: how often, and when it is asked again.
    pub retries: BTreeMap<ActionId, Retry>,
    /// Given up, and why; not committed.
    pub given_up: BTreeMap<ActionId, String>,
    /// Could not be taken back: how often, and when that is begun again. A rollback does not end by itself.
    pub held: BTreeMap<ActionId, Retry>,
    /// And why.
    pub held_why: BTreeMap<ActionId, String>,
    /// A person must look, and why.
    pub cause: Option<String>,
    /// Between two states, by what the driver said last, and why.
    pub open: BTreeMap<ActionId, String>,
    /// Why the rollout is held up, as it was committed last.
    pub told: Option<String>,
    /// What an action in flight waits for, by its driver's word.
    pub waits: Option<(ActionId, String)>,
    /// The state of the rollout when it was last looked at.
    seen: Option<RolloutState>,
    /// Going on would do harm, and why.
    pub abort: Option<String>,
    /// When each action in flight was first seen in flight, less the time it had been by then.
    since_ms: BTreeMap<ActionId, u64>,
}

/// A driver's failed attempts at an action.
#[derive(Clone, Debug)]
pub struct Retry {
    pub attempts: u32,
    pub not_before_ms: u64,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask the driver for these.
    Execute(Vec<ActionId>),
    /// Commit the intent for these.
    Begin(Vec<ActionId>),
    /// Commit the outcome of these.
    Finish(Vec<ActionId>),
    /// Commit that this failed.
    Fail(ActionId, String),
    /// Commit that nothing can proceed.
    Block(String),
    /// Commit what it waits for while it goes on, or that it waits no more.
    Tell(Option<String>),
    /// Commit that the rollout is to end where it is.
    Abort(String),
    /// Verify, then commit the end.
    Complete,
    /// Nothing until something changes, or for so many milliseconds.
    Wait(Option<u64>),
}

impl Hand {
    /// An empty hand at the start of a term.
    pub const fn new(now_ms: u64) -> Self {
        Self {
            pace: Pace::new(now_ms),
            executing: BTreeSet::new(),
            executed: BTreeMap::new(),
            retries: BTreeMap::new(),
            given_up: BTreeMap::new(),
            held: BTreeMap::new(),
            held_why: BTreeMap::new(),
            cause: None,
            open: BTreeMap::new(),
            told: None,
            waits: None,
            seen: None,
            abort: None,
            since_ms: BTreeMap::new(),
        }
    }

    /// Notes which actions are in flight, and drops what is known of others. `now` is the wall clock: it tells how long
    /// an action has been in flight that an earlier leader began, and nothing else.
    pub fn observe(&mut self, rollout: &Rollout, now_ms: u64, now: Instant) {
        let flying: BTreeMap<ActionId, Instant> =
            rollout.in_flight().map(|id| (id, rollout.actions[&id].since)).collect();
        self.since_ms.retain(|id, _| flying.contains_key(id));
        self.executed.retain(|id, _| flying.contains_key(id));
        self.retries.retain(|id, _| flying.contains_key(id));
        self.given_up.retain(|id, _| flying.contains_key(id));
        self.open.retain(|id, _| flying.contains_key(id));
        self.held_why.retain(|id, _| rollout.state_of(*id) != Some(ActionState::Reverted));
        // A person lets it go on: what is open gets another chance at once.
        if self.seen.replace(rollout.state) != Some(rollout.state) && rollout.state == RolloutState::Running {
            for id in std::mem::take(&mut self.open).into_keys() {
                self.retries.remove(&id);
            }
        }
        for (id, since) in flying {
            self.since_ms.entry(id).or_insert_with(|| now_ms.saturating_sub(now.since_ms(since)));
        }
    }

    /// The driver answered that it may work later.
    pub fn retry_later(&mut self, id: ActionId, why: &str, now_ms: u64) {
        let attempts = self.retries.get(&id).map_or(0, |retry| retry.attempts) + 1;
        if attempts >= ATTEMPTS_MAX {
            let (why, advice) = split_advice(why);
            self.given_up.insert(id, advised(&format!("{why} ({attempts} attempts)"), advice.unwrap_or_default()));
        } else {
            let not_before_ms = now_ms + (RETRY_MS << (attempts - 1));
            self.retries.insert(id, Retry { attempts, not_before_ms });
        }
    }

    /// The driver answered that it stays between two states: asked again, however often.
    pub fn leave_open(&mut self, id: ActionId, why: String, now_ms: u64) {
        self.open.insert(id, why);
        let attempts = self.retries.get(&id).map_or(0, |retry| retry.attempts) + 1;
        let not_before_ms = now_ms + (HOLD_MS << (attempts - 1).min(5)).min(HOLD_MS_MAX);
        self.retries.insert(id, Retry { attempts, not_before_ms });
    }

    /// It was committed that an action could not be taken back.
    pub fn hold(&mut self, id: ActionId, why: String, now_ms: u64) {
        self.held_why.insert(id, why);
        let attempts = self.held.get(&id).map_or(0, |held| held.attempts) + 1;
        let not_before_ms = now_ms + (HOLD_MS << (attempts - 1).min(5)).min(HOLD_MS_MAX);
        self.held.insert(id, Retry { attempts, not_before_ms });
    }
}

/// What to do next. `ours` is false for a driver whose actions an outside mover begins and finishes. `now` is the wall
/// clock that the plan's time windows are told by.
pub fn next(record: &PlanRecord, driver: DriverKind, ours: bool, hand: &mut Hand, now_ms: u64, now: Instant) -> Step {
    let Some(rollout) = record.rollout.as_ref().filter(|rollout| !rollout.state.is_final()) else {
        return Step::Wait(None);
    };
    let view = View { body: &record.plan.body, limits: &record.plan.limits, rollout };
    let mut soonest = Soonest(None);
    if ours {
        if let Some((id, why)) = hand.given_up.iter().next() {
            return Step::Fail(*id, why.clone());
        }
        if let Some(why) = hand.abort.clone().filter(|_| rollout.state.after(RolloutVerb::Abort).is_some()) {
            return Step::Abort(why);
        }
        if let Some(step) = view.carry_on(driver, hand, now_ms, &mut soonest) {
            return step;
        }
        let open = || hand.open.iter().next().map(|(id, why)| format!("action {id}: {why}"));
        if let Some(cause) = hand.cause.clone().or_else(open).filter(|_| rollout.state == RolloutState::Running) {
            return Step::Block(cause);
        }
        let is_ending = matches!(rollout.state, RolloutState::Aborting | RolloutState::RollingBack);
        let held_up =
            hand.open.iter().next().or(hand.held_why.iter().next()).map(|(id, why)| format!("action {id}: {why}"));
        if let Some(cause) = held_up.filter(|cause| is_ending && hand.told.as_ref() != Some(cause)) {
            return Step::Block(cause);
        }
        if let Some(step) = view.tell(hand) {
            return step;
        }
        let opens = opens_at(&record.plan.limits.windows, now).filter(|_| rollout.state == RolloutState::Running);
        if let Some(opens) = opens.filter(|_| view.has_pending()) {
            soonest.at(now_ms + opens.since_ms(now).min(WINDOW_LOOK_MS));
        } else if let Some(step) = view.begin(hand, now_ms, &mut soonest) {
            return step;
        }
    }
    if rollout.state == RolloutState::Running
        && rollout.in_flight().next().is_none()
        && let Some(step) = view.end(ours, soonest.0.is_some())
    {
        return match step {
            Step::Block(cause) if driver.asks_nodes() && split_advice(&cause).1.is_none() => {
                Step::Block(advised(&cause, "rollout resume tries it again, rollout abort ends where it is"))
            }
            step => step,
        };
    }
    if ours && driver.asks_nodes() && view.is_at_its_end() {
        return Step::Complete;
    }
    Step::Wait(soonest.0.map(|at| at.saturating_sub(now_ms)))
}

/// The earliest time at which anything could change by itself.
struct Soonest(Option<u64>);

impl Soonest {
    fn at(&mut self, ms: u64) {
        self.0 = Some(self.0.map_or(ms, |soonest| soonest.min(ms)));
    }
}

struct View<'a> {
    body: &'a PlanBody,
    limits: &'a Limits,
    rollout: &'a Rollout,
}

impl View<'_> {
    /// For actions in flight: ask the driver, or commit what it did.
    fn carry_on(&self, driver: DriverKind, hand: &Hand, now_ms: u64, soonest: &mut Soonest) -> Option<Step> {
        let overlap_ms = if driver == DriverKind::Flip { self.limits.overlap_ms } else { 0 };
        let (mut execute, mut finish) = (Vec::new(), Vec::new());
        for id in self.rollout.in_flight() {
            if hand.executing.contains(&id) {
                continue;
            }
            if hand.executed.contains_key(&id) {
                let over_ms = hand.since_ms.get(&id).map_or(now_ms, |since| since + overlap_ms);
                if over_ms <= now_ms { finish.push(id) } else { soonest.at(over_ms) }
            } else if let Some(retry) = hand.retries.get(&id).filter(|retry| retry.not_before_ms > now_ms) {
                soonest.at(retry.not_before_ms);
            } else {
                execute.push(id);
            }
        }
        if !execute.is_empty() {
            return Some(Step::Execute(execute));
        }
        (!finish.is_empty()).then(|| Step::Finish(self.batch(finish)))
    }

    /// The actions to begin: in the order of the waves (or against it, when rolling back), as far as limits and pace
    /// allow. Later ones may overtake one that a limit holds back, but not one that waits for the pace.
    fn begin(&self, hand: &mut Hand, now_ms: u64, soonest: &mut Soonest) -> Option<Step> {
        let forward: &mut dyn Iterator<Item = &ActionId> = match self.rollout.state {
            RolloutState::Running => &mut self.body.waves.iter().flatten(),
            RolloutState::RollingBack => &mut self.body.waves.iter().rev().flat_map(|wave| wave.iter().rev()),
            _ => return None,
        };
        let wanted = if self.rollout.state == RolloutState::Running { None } else { Some(ActionState::Done) };
        let per_second = self.per_second();
        let mut lanes = Lanes::of(self);
        let (mut chosen, mut slots, mut filled) = (Vec::new(), 0, false);
        for id in forward {
            if self.rollout.state_of(*id) != wanted {
                continue;
            }
            let action = self.action(*id);
            let size = action.kind.slots();
            if !chosen.is_empty() && slots + size > BATCH_SLOTS_MAX {
                break;
            }
            let back = wanted.is_some();
            if let Some(held) = hand.held.get(id).filter(|held| back && held.not_before_ms > now_ms) {
                soonest.at(held.not_before_ms);
                continue;
            }
            if !lanes.admit(action, back) {
                continue;
            }
            if !filled {
                hand.pace.fill(now_ms, per_second, size);
                filled = true;
            }
            if hand.pace.allowance(per_second) < (slots + size) as u64 {
                if chosen.is_empty() {
                    soonest.at(now_ms + hand.pace.wait_ms(per_second, size).max(1));
                }
                break;
            }
            chosen.push(*id);
            slots += size;
        }
        (!chosen.is_empty()).then_some(Step::Begin(chosen))
    }

    /// The end of a running rollout with nothing in flight and nothing to begin now, if it is one. `paced`: something
    /// only waits for the pace.
    fn end(&self, ours: bool, paced: bool) -> Option<Step> {
        let (mut failed, mut pending) = (None, false);
        for action in &self.body.actions {
            match self.rollout.state_of(action.id) {
                Some(ActionState::Done) => {}
                Some(ActionState::Failed) => failed = failed.or(Some(action)),
                _ => pending = true,
            }
        }
        // An outside mover may still take what is pending; what waits for a failed promotion goes no further.
        if pending && (!ours || paced || failed.is_none()) {
            return None;
        }
        let Some(failed) = failed else { return Some(Step::Complete) };
        let error = self.rollout.actions[&failed.id].error.as_deref().unwrap_or("no reason given");
        let count = self.rollout.in_state(&[ActionState::Failed]).count();
        let who = if ours { "nothing else can proceed" } else { "the mover gave up" };
        Some(Step::Block(format!(
            "{who}: {count} failed, first action {} ({}): {error}",
            failed.id,
            ends(&failed.kind)
        )))
    }

    /// Whether an action waits to be begun for the first time.
    fn has_pending(&self) -> bool {
        self.body.actions.iter().any(|action| self.rollout.state_of(action.id).is_none())
    }

    fn per_second(&self) -> Option<u32> {
        match (self.limits.slots_per_second, self.rollout.slots_per_second) {
            (Some(plan), Some(throttle)) => Some(plan.min(throttle)),
            (plan, throttle) => plan.or(throttle),
        }
    }

    /// As many of the actions, in order, as go into one raft entry.
    fn batch(&self, ids: Vec<ActionId>) -> Vec<ActionId> {
        let mut slots = 0;
        let fits = |id: &ActionId| {
            let before = slots;
            slots += self.action(*id).kind.slots();
            before == 0 || slots <= BATCH_SLOTS_MAX
        };
        ids.into_iter().take_while(fits).collect()
    }

    fn action(&self, id: ActionId) -> &Action {
        self.body.action(id).expect("a plan's waves and rollout name its own actions")
    }
}

fn ends(kind: &ActionKind) -> String {
    match (kind.source(), kind.target()) {
        (Some(from), Some(to)) => format!("{from} -> {to}"),
        (None, Some(to)) => format!("to {to}"),
        _ => match kind {
            ActionKind::Promote { shard, to, .. } => format!("promote {to} in {shard}"),
            ActionKind::SetReplicaOf { node, shard } => format!("{node} copies {shard}"),
            _ => "repair".to_owned(),
        },
    }
}

mod ending;
mod lanes;
mod roles;
#[cfg(test)]
mod tests;
