//! Damaged bodies: the checker must refuse each of them, naming the fault.

use super::{BALANCE, Cluster, id, limits, range, weight};
use crate::domain::{
    Action, ActionId, ActionKind, Goal, Limits, LoadMetric, Objective, PlanBody, Quota, ShardState, Slot, SlotRange,
    Statistics,
};
use crate::plan::{Input, check, plan, plan_for};

/// Ten shards, the fifth draining, an eleventh new, a pin and a bound.
fn cluster() -> Cluster {
    let mut cluster = Cluster::equal(10);
    cluster.add(1);
    cluster.drain(4);
    cluster.shards[1].pinned.insert_range(range(1700, 1800));
    cluster.shards[2].max_slots = Some(1500);
    cluster
}

fn ranges(action: &mut Action) -> &mut Vec<SlotRange> {
    match &mut action.kind {
        ActionKind::MoveSlots { ranges, .. } | ActionKind::AssignSlots { ranges, .. } => ranges,
        other => panic!("{other:?} has no ranges"),
    }
}

fn faults(cluster: &Cluster, goal: Goal, limits: &Limits, body: &PlanBody) -> String {
    let input: Input<'_> = cluster.input();
    check(&input, goal, limits, body).expect_err("the body is damaged").join("\n")
}

#[test]
fn each_damage_is_named() {
    type Damage = (&'static str, fn(&mut PlanBody));
    let damages: [Damage; 34] = [
        ("the number of an action", |b| b.actions[0].id = ActionId(7)),
        ("changes its owner twice", |b| {
            let again = ranges(&mut b.actions[0])[0];
            ranges(&mut b.actions[1]).push(again);
        }),
        ("belongs to s-", |b| b.actions[0].kind = moving(id(3), id(10), range(16000, 16001))),
        ("is pinned to s-0001", |b| b.actions[0].kind = moving(id(1), id(10), range(1700, 1701))),
        ("which is no shard of the cluster", |b| b.actions[0].kind = moving(id(4), id(77), range(6600, 6601))),
        ("stays with s-0004", |b| b.actions[0].kind = moving(id(4), id(4), range(6600, 6601))),
        ("which is not lost", |b| {
            let ActionKind::MoveSlots { from, to, ranges } = b.actions[0].kind.clone() else { panic!() };
            b.actions[0].kind = ActionKind::AssignSlots { from: Some(from), to, ranges };
        }),
        ("not to nobody", |b| {
            let ActionKind::MoveSlots { to, ranges, .. } = b.actions[0].kind.clone() else { panic!() };
            b.actions[0].kind = ActionKind::AssignSlots { from: None, to, ranges };
        }),
        ("both gives and takes", |b| b.actions[0].kind = moving(id(0), id(10), range(0, 1))),
        ("1..=64 are allowed", |b| ranges(&mut b.actions[0]).clear()),
        ("1..=64 are allowed", |b| ranges(&mut b.actions[0])[0] = range(6554, 7000)),
        ("not ascending and disjoint", |b| {
            let ranges = ranges(&mut b.actions[0]);
            let whole = ranges.pop().unwrap();
            ranges.push(SlotRange::single(whole.last()));
            ranges.push(SlotRange::single(whole.first()));
        }),
        ("outside its band", |b| ranges(&mut b.actions[0]).truncate(0)),
        ("slots move, but", |b| ranges(&mut b.actions[0]).truncate(0)),
        ("certificate: surplus", |b| b.certificate.surplus += 1),
        ("certificate: deficit", |b| b.certificate.deficit -= 1),
        ("certificate: unassigned", |b| b.certificate.unassigned = 1),
        ("the bands are not those", |b| b.certificate.bands[3].hi += 1),
        ("the bands are not those", |b| b.certificate.bands.truncate(10)),
        ("does not list every shard", |b| b.shards.swap(0, 1)),
        ("s-0003: slots before", |b| b.shards[3].before += 1),
        ("s-0003: slots after", |b| b.shards[3].after -= 1),
        ("s-0003: weight", |b| b.shards[3].weight = weight(9)),
        ("s-0003: its state", |b| b.shards[3].state = ShardState::Draining),
        ("s-0003: its state or its bounds", |b| b.shards[3].bounds.max_slots = Some(1)),
        ("s-0003: quota", |b| b.shards[3].quota = Quota { numerator: 3277, denominator: 2 }),
        ("summary: slots", |b| b.summary.slots += 1),
        ("summary: assigned", |b| b.summary.assigned += 1),
        ("summary: ranges_after", |b| b.summary.ranges_after -= 1),
        ("summary: lower_bound", |b| b.summary.lower_bound -= 1),
        ("summary: worst_before", |b| b.summary.worst_before += 1),
        ("summary: waves", |b| b.summary.waves += 1),
        ("empty_because", |b| b.empty_because = Some("nothing to do".into())),
        ("each action exactly once", |b| b.waves[0].truncate(1)),
    ];
    let cluster = cluster();
    let sound = cluster.plan(BALANCE);
    for (fault, damage) in damages {
        let mut body = sound.clone();
        damage(&mut body);
        let found = faults(&cluster, BALANCE, &limits(), &body);
        assert!(found.contains(fault), "expected {fault:?} in:\n{found}");
    }
}

/// A plan for few bytes: costs, estimates, and the choice itself.
#[test]
fn damaged_costs_are_named() {
    type Damage = (&'static str, fn(&mut PlanBody));
    let mut cluster = cluster();
    let mut statistics = Statistics::new(&[LoadMetric::Bytes, LoadMetric::Keys], None).unwrap();
    (0..16384).for_each(|slot| statistics.add(Slot::at(slot), &[slot as u64 * 7919 % 1000, 3]).unwrap());
    cluster.statistics = Some(statistics);
    let sound = plan_for(&cluster.input(), BALANCE, Objective::Bytes, &limits()).unwrap();
    check(&cluster.input(), BALANCE, &limits(), &sound).unwrap();
    let damages: [Damage; 6] = [
        ("summary: keys_est", |b| b.summary.keys_est = Some(1)),
        ("summary: bytes_est", |b| b.summary.bytes_est = None),
        ("costs: bytes", |b| b.figures.costs.as_mut().unwrap().chosen.bytes -= 1),
        ("costs: ranges", |b| b.figures.costs.as_mut().unwrap().chosen.ranges -= 1),
        ("curve: moves at 0 %", |b| b.figures.curve[0].moves -= 1),
        ("curve: it is missing", |b| b.figures.curve.clear()),
    ];
    for (fault, damage) in damages {
        let mut body = sound.clone();
        damage(&mut body);
        let found = faults(&cluster, BALANCE, &limits(), &body);
        assert!(found.contains(fault), "expected {fault:?} in:\n{found}");
    }
}

/// Within a tolerance another donor could give cheaper slots: every figure of the plan is true, but its choice is not the best.
#[test]
fn bytes_of_a_dearer_donor_are_named() {
    let mut cluster = Cluster::equal(3);
    cluster.add(1);
    let mut statistics = Statistics::new(&[LoadMetric::Bytes], None).unwrap();
    (0..16384).for_each(|slot| statistics.add(Slot::at(slot), &[if slot < 5462 { 1 } else { 9 }]).unwrap());
    cluster.statistics = Some(statistics);
    let goal = Goal::Balance { tolerance: crate::domain::Tolerance(100_000) };
    let mut body = plan(&cluster.input(), goal, &limits()).unwrap();
    body.figures.costs.as_mut().unwrap().objective = Objective::Bytes;
    let found = faults(&cluster, goal, &limits(), &body);
    assert!(found.contains("more bytes than one that another could give instead"), "{found}");
    let best = plan_for(&cluster.input(), goal, Objective::Bytes, &limits()).unwrap();
    check(&cluster.input(), goal, &limits(), &best).unwrap();
    assert!(best.summary.bytes_est < body.summary.bytes_est);
}

fn moving(from: crate::domain::ShardId, to: crate::domain::ShardId, slots: SlotRange) -> ActionKind {
    ActionKind::MoveSlots { from, to, ranges: vec![slots] }
}

#[test]
fn waves_beyond_the_limits_are_named() {
    let cluster = cluster();
    let sound = cluster.plan(BALANCE);
    let mut body = sound.clone();
    let second = body.waves.remove(1);
    body.waves[0].extend(second);
    let found = faults(&cluster, BALANCE, &limits(), &body);
    assert!(found.contains("actions leave s-") && found.contains("the limit is 1"), "{found}");
    // One wave more than needed.
    let mut body = sound;
    let last = body.waves[0].pop().unwrap();
    body.waves.push(vec![last]);
    body.summary.waves += 1;
    let found = faults(&cluster, BALANCE, &limits(), &body);
    assert!(found.contains("are enough and needed"), "{found}");
}

/// A plan that is sound for one goal claims too much for another.
#[test]
fn another_goal_is_refused() {
    let cluster = cluster();
    let balance = cluster.plan(BALANCE);
    assert!(faults(&cluster, Goal::DrainOnly, &limits(), &balance).contains("is not draining but gives"));
    let drain = cluster.plan(Goal::DrainOnly);
    assert!(faults(&cluster, BALANCE, &limits(), &drain).contains("outside its band"));
    let tight = Limits { slots_per_move: 16, ..limits() };
    assert!(faults(&cluster, BALANCE, &tight, &balance).contains("1..=16 are allowed"));
    let budget = cluster.plan(Goal::Budget { max_moves: 100 });
    assert!(faults(&cluster, Goal::Budget { max_moves: 101 }, &limits(), &budget).contains("moves within the budget"));
}

/// A budget that is spent on the wrong shard is not the best it can reach, though every figure is true.
#[test]
fn a_budget_spent_badly_is_refused() {
    let mut cluster = Cluster::equal(4);
    for (shard, (first, last)) in [(0, 8191), (8192, 14999), (15000, 15999), (16000, 16383)].into_iter().enumerate() {
        cluster.table.assign(range(first, last), Some(&id(shard))).unwrap();
    }
    let goal = Goal::Budget { max_moves: 64 };
    let mut body = cluster.plan(goal);
    assert_eq!(body.actions.len(), 1);
    assert_eq!(body.actions[0].kind, moving(id(0), id(3), range(0, 63)));
    body.actions[0].kind = moving(id(1), id(3), range(14936, 14999));
    let found = faults(&cluster, goal, &limits(), &body);
    assert!(found.contains("worth more to give"), "{found}");
}
