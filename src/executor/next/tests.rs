//! The decision by itself: a record and a hand in, a step out, time as a number.

use std::sync::Arc;

use super::*;
use crate::domain::{ActionProgress, ClusterName, Digest, Plan, PlanState};
use crate::state::State;
use crate::state::fixture::{command, create, id, import, plan, principal};

fn ids(numbers: impl IntoIterator<Item = u32>) -> Vec<ActionId> {
    numbers.into_iter().map(ActionId).collect()
}

/// A running rollout of these actions, a wave each.
fn record(kinds: Vec<ActionKind>, limits: impl FnOnce(&mut Limits)) -> PlanRecord {
    let mut state = State::default();
    for op in [create("main", DriverKind::Manual), import("main", &[("a", "0-8191"), ("b", "8192-16383"), ("c", "")])] {
        state.apply(&command(0, op)).outcome.unwrap();
    }
    let cluster = &state.clusters[&id::<ClusterName>("main")];
    let mut plan = plan(cluster, "p-1", &[]);
    plan.body.actions = (1..).zip(kinds).map(|(number, kind)| Action { id: ActionId(number), kind }).collect();
    plan.body.waves = plan.body.actions.iter().map(|action| vec![action.id]).collect();
    limits(&mut plan.limits);
    running(plan)
}

fn running(plan: Plan) -> PlanRecord {
    let rollout = Rollout {
        plan: plan.id.clone(),
        state: RolloutState::Running,
        cause: None,
        started_by: principal("root", crate::domain::Role::Admin),
        started_at: plan.created_at,
        ended_at: None,
        slots_per_second: None,
        actions: crate::domain::RolloutActions::default(),
    };
    PlanRecord {
        digest: Digest::of_plan(&plan),
        plan: Arc::new(plan),
        sequence: 0,
        revision: 1,
        brought: Arc::<crate::state::Brought>::default(),
        state: PlanState::Running,
        approvals: Vec::new(),
        acks: BTreeSet::new(),
        ended: None,
        superseded_by: None,
        rollout: Some(rollout),
    }
}

fn shift(from: &str, to: &str, range: &str) -> ActionKind {
    ActionKind::MoveSlots { from: id(from), to: id(to), ranges: vec![id(range)] }
}

fn promote(shard: &str) -> ActionKind {
    ActionKind::Promote { shard: id(shard), from: id("old"), to: id("new") }
}

/// Puts actions into a state, since the time 0.
fn put(record: &mut PlanRecord, state: ActionState, actions: impl IntoIterator<Item = u32>) {
    let (since, error) = (record.plan.created_at, (state == ActionState::Failed).then(|| "node-a: busy".to_owned()));
    let rollout = record.rollout.as_mut().unwrap();
    for action in ids(actions) {
        let progress = ActionProgress { state, since, attempts: 1, error: error.clone(), came_from: None, by: None };
        rollout.actions.insert(action, progress);
    }
}

fn set(record: &mut PlanRecord, state: RolloutState) {
    record.rollout.as_mut().unwrap().state = state;
}

/// The step of a leader that has just looked.
fn step(record: &PlanRecord, hand: &mut Hand, now_ms: u64) -> Step {
    hand.observe(record.rollout.as_ref().unwrap(), now_ms, record.plan.created_at.plus_ms(now_ms));
    next(record, DriverKind::Manual, true, hand, now_ms, Instant(0))
}

#[test]
fn an_entry_has_at_most_64_slots_unless_one_action_has_more() {
    let five =
        |size: usize| (0..5).map(|n| shift("a", "c", &format!("{}-{}", n * 1000, n * 1000 + size - 1))).collect();
    let wide = |limits: &mut Limits| (limits.moves_per_source, limits.moves_per_target) = (99, 99);
    for (size, batch) in [(64, 1), (30, 2), (21, 3), (13, 4), (12, 5), (500, 1)] {
        let mut record = record(five(size), wide);
        assert_eq!(step(&record, &mut Hand::new(0), 0), Step::Begin(ids(1..=batch)), "{size} slots an action");
        put(&mut record, ActionState::Begun, 1..=5);
        let mut hand = Hand::new(0);
        hand.executed = ids(1..=5).into_iter().map(|id| (id, 0)).collect();
        assert_eq!(step(&record, &mut hand, 0), Step::Finish(ids(1..=batch)));
    }
}

#[test]
fn a_full_shard_is_overtaken_but_the_pace_is_not() {
    let kinds = || vec![shift("a", "c", "0-3"), shift("a", "c", "4-7"), shift("b", "c", "9000-9003")];
    let tight = record(kinds(), |limits| (limits.moves_per_source, limits.moves_per_target) = (1, 2));
    assert_eq!(step(&tight, &mut Hand::new(0), 0), Step::Begin(ids([1, 3])));
    let paced = record(kinds(), |limits| (limits.moves_per_source, limits.slots_per_second) = (9, Some(8)));
    let mut hand = Hand::new(0);
    assert_eq!(step(&paced, &mut hand, 0), Step::Wait(Some(500)), "4 slots at 8 a second");
    assert_eq!(step(&paced, &mut hand, 500), Step::Begin(ids([1])));
    let mut throttled = paced;
    throttled.rollout.as_mut().unwrap().slots_per_second = Some(2);
    assert_eq!(step(&throttled, &mut Hand::new(0), 0), Step::Wait(Some(2000)));
}

#[test]
fn a_promotion_comes_before_the_moves_of_its_shard_and_goes_back_after_them() {
    let wide = |limits: &mut Limits| limits.moves_per_source = 9;
    let mut record = record(vec![promote("a"), shift("a", "c", "0-3"), shift("b", "c", "9000-9003")], wide);
    assert_eq!(step(&record, &mut Hand::new(0), 0), Step::Begin(ids([1, 3])));
    put(&mut record, ActionState::Done, [1]);
    assert_eq!(step(&record, &mut Hand::new(0), 0), Step::Begin(ids([2, 3])));
    put(&mut record, ActionState::Done, [2]);
    set(&mut record, RolloutState::RollingBack);
    assert_eq!(step(&record, &mut Hand::new(0), 0), Step::Begin(ids([2])));
    put(&mut record, ActionState::Reverted, [2]);
    assert_eq!(step(&record, &mut Hand::new(0), 0), Step::Begin(ids([1])));
}

#[test]
fn a_rollback_goes_against_the_waves_and_within_the_limits() {
    let kinds =
        vec![shift("a", "c", "0-3"), shift("a", "c", "4-7"), shift("a", "c", "8-11"), shift("b", "c", "9000-9003")];
    let mut record = record(kinds, |limits| (limits.moves_per_source, limits.moves_per_target) = (2, 1));
    put(&mut record, ActionState::Done, [1, 2]);
    put(&mut record, ActionState::Begun, [3]);
    put(&mut record, ActionState::Failed, [4]);
    set(&mut record, RolloutState::RollingBack);
    let mut hand = Hand::new(0);
    assert_eq!(step(&record, &mut hand, 0), Step::Execute(ids([3])), "what is in flight is finished first");
    hand.executing.extend(ids([3]));
    assert_eq!(step(&record, &mut hand, 0), Step::Begin(ids([2])), "one at a time enters a");
}

#[test]
fn a_driver_is_asked_five_times_with_growing_pauses() {
    let mut record = record(vec![shift("a", "c", "0-3")], |_| {});
    put(&mut record, ActionState::Begun, [1]);
    let (mut hand, mut now, mut pauses) = (Hand::new(0), 0, Vec::new());
    loop {
        match step(&record, &mut hand, now) {
            Step::Execute(_) => hand.retry_later(ActionId(1), "node-a: busy", now),
            Step::Wait(Some(ms)) => {
                pauses.push(ms);
                now += ms;
            }
            other => {
                assert_eq!(other, Step::Fail(ActionId(1), "node-a: busy (5 attempts)".to_owned()));
                break;
            }
        }
    }
    assert_eq!(pauses, [250, 500, 1000, 2000]);
    put(&mut record, ActionState::Failed, [1]);
    let Step::Block(cause) = step(&record, &mut hand, now) else { panic!("not blocked") };
    assert_eq!(cause, "nothing else can proceed: 1 failed, first action a-1 (a -> c): node-a: busy");
}

#[test]
fn blocked_only_when_nothing_else_can_proceed() {
    let mut record = record(vec![shift("a", "c", "0-3"), shift("b", "c", "9000-9003")], |_| {});
    put(&mut record, ActionState::Failed, [1]);
    assert_eq!(step(&record, &mut Hand::new(0), 0), Step::Begin(ids([2])));
    put(&mut record, ActionState::Begun, [2]);
    let mut hand = Hand::new(0);
    hand.executing.extend(ids([2]));
    assert_eq!(step(&record, &mut hand, 0), Step::Wait(None));
    put(&mut record, ActionState::Done, [2]);
    assert!(matches!(step(&record, &mut hand, 0), Step::Block(_)));
}

#[test]
fn what_waits_for_a_failed_promotion_does_not_keep_it_from_being_blocked() {
    let mut record = record(vec![promote("a"), shift("a", "c", "0-3")], |_| {});
    put(&mut record, ActionState::Failed, [1]);
    let Step::Block(cause) = step(&record, &mut Hand::new(0), 0) else { panic!("not blocked") };
    assert!(cause.contains("a-1 (promote new in a)"), "{cause}");
}

#[test]
fn a_failure_that_only_waits_for_the_pace_is_no_block() {
    let kinds = vec![shift("a", "c", "0-3"), shift("b", "c", "9000-9003")];
    let mut record = record(kinds, |limits| limits.slots_per_second = Some(1));
    put(&mut record, ActionState::Failed, [1]);
    assert_eq!(step(&record, &mut Hand::new(0), 0), Step::Wait(Some(4000)));
}

#[test]
fn the_overlap_counts_from_the_begin_whoever_leads_and_whatever_the_clock_does() {
    let mut record = record(vec![shift("a", "c", "0-3")], |limits| limits.overlap_ms = 1000);
    put(&mut record, ActionState::Begun, [1]);
    let begun = record.plan.created_at;
    let ask = |record: &PlanRecord, hand: &mut Hand, now_ms, now| {
        hand.observe(record.rollout.as_ref().unwrap(), now_ms, now);
        hand.executed.insert(ActionId(1), now_ms);
        next(record, DriverKind::Flip, true, hand, now_ms, Instant(0))
    };
    let mut hand = Hand::new(0);
    assert_eq!(ask(&record, &mut hand, 5_000, begun.plus_ms(400)), Step::Wait(Some(600)), "an earlier leader began it");
    // The wall clock goes back a day and then forth: only the monotonic one counts from now on.
    assert_eq!(ask(&record, &mut hand, 5_300, Instant(begun.0 - 86_400_000)), Step::Wait(Some(300)));
    assert_eq!(ask(&record, &mut hand, 5_600, begun), Step::Finish(ids([1])));
}

#[test]
fn an_outside_mover_is_left_alone_until_everything_is_done() {
    let mut record = record(vec![shift("a", "c", "0-3"), shift("b", "c", "9000-9003")], |_| {});
    let ask = |record: &PlanRecord| next(record, DriverKind::Manual, false, &mut Hand::new(0), 0, Instant(0));
    assert_eq!(ask(&record), Step::Wait(None));
    put(&mut record, ActionState::Begun, [1, 2]);
    assert_eq!(ask(&record), Step::Wait(None));
    put(&mut record, ActionState::Failed, [1]);
    put(&mut record, ActionState::Done, [2]);
    assert!(matches!(ask(&record), Step::Block(cause) if cause.starts_with("the mover gave up")));
    put(&mut record, ActionState::Done, [1]);
    assert_eq!(ask(&record), Step::Complete);
    set(&mut record, RolloutState::Paused);
    assert_eq!(ask(&record), Step::Wait(None));
}

#[test]
fn paused_blocked_and_aborting_begin_nothing() {
    for state in [RolloutState::Paused, RolloutState::Blocked, RolloutState::Aborting] {
        let mut record = record(vec![shift("a", "c", "0-3"), shift("b", "c", "9000-9003")], |_| {});
        set(&mut record, state);
        assert_eq!(step(&record, &mut Hand::new(0), 0), Step::Wait(None));
        put(&mut record, ActionState::Begun, [1]);
        assert_eq!(step(&record, &mut Hand::new(0), 0), Step::Execute(ids([1])), "what is in flight is finished");
    }
}

#[test]
fn actions_start_inside_the_time_windows_only_and_are_undone_at_any_time() {
    // 1970-01-01 was a Thursday.
    let window = || vec!["thu 10:00-11:00".parse().unwrap()];
    let mut record = record(vec![shift("a", "c", "0-3"), shift("b", "c", "9000-9003")], |l| l.windows = window());
    let at = |hour: u64, minute: u64| Instant((hour * 60 + minute) * 60_000);
    let ask = |record: &PlanRecord, now| next(record, DriverKind::Manual, true, &mut Hand::new(0), 0, now);
    assert_eq!(ask(&record, at(9, 0)), Step::Wait(Some(WINDOW_LOOK_MS)), "the wall clock may be set meanwhile");
    assert_eq!(ask(&record, Instant(at(9, 59).0 + 55_000)), Step::Wait(Some(5_000)));
    assert_eq!(ask(&record, at(10, 0)), Step::Begin(ids([1, 2])));
    assert_eq!(ask(&record, at(11, 0)), Step::Wait(Some(WINDOW_LOOK_MS)));
    put(&mut record, ActionState::Begun, [1]);
    assert_eq!(ask(&record, at(11, 0)), Step::Execute(ids([1])), "what is in flight goes on");
    put(&mut record, ActionState::Done, [1]);
    put(&mut record, ActionState::Failed, [2]);
    assert!(matches!(ask(&record, at(11, 0)), Step::Block(_)), "nothing waits for the window");
    record.rollout.as_mut().unwrap().state = RolloutState::RollingBack;
    assert_eq!(ask(&record, at(11, 0)), Step::Begin(ids([1])));
}
