//! Earlier owners: drained and added back, a shard finds its slots again, and no plan moves more for it.

use super::{BALANCE, Cluster, limits};
use crate::domain::{ActionKind, Goal, Objective, PlanBody, ShardState, Slot, SlotTable, Tolerance};
use crate::plan::{Memory, check, plan, plan_remembering};

fn note(memory: &mut Memory, body: &PlanBody) {
    for action in &body.actions {
        if let ActionKind::MoveSlots { from, to, ranges } = &action.kind {
            memory.remember(from, to, ranges);
        }
    }
}

impl Cluster {
    /// The plan with a memory: checked, and no dearer than the one without.
    fn plan_remembering(&self, goal: Goal, memory: &Memory) -> PlanBody {
        let body = plan_remembering(&self.input(), goal, Objective::Ranges, &limits(), memory).unwrap();
        check(&self.input(), goal, &limits(), &body).unwrap_or_else(|faults| panic!("{faults:#?}"));
        let without = plan(&self.input(), goal, &limits()).unwrap();
        assert_eq!(without.summary.slots, body.summary.slots);
        body
    }
}

/// Slots with another owner.
fn apart(one: &SlotTable, other: &SlotTable) -> usize {
    Slot::all().filter(|&slot| one.owner(slot) != other.owner(slot)).count()
}

#[test]
fn a_shard_that_is_drained_and_comes_back_owns_again_what_it_owned() {
    let mut away = 0;
    for shards in [2, 4, 8, 64] {
        let mut cluster = Cluster::equal(shards);
        let before = cluster.table.clone();
        cluster.drain(1);
        let mut memory = Memory::default();
        let body = cluster.plan_remembering(BALANCE, &memory);
        cluster.apply(&body);
        note(&mut memory, &body);
        cluster.shards[1].state = ShardState::Active;
        let without = plan(&cluster.input(), BALANCE, &limits()).unwrap();
        let body = cluster.plan_remembering(BALANCE, &memory);
        let mut forgetful = cluster.clone();
        forgetful.apply(&without);
        cluster.apply(&body);
        assert_eq!(0, apart(&before, &cluster.table), "{shards} shards");
        away += apart(&before, &forgetful.table);
    }
    assert!(away > 0, "without the memory slots would be elsewhere");
}

/// What was lent to a shard and came back is not that shard's own.
#[test]
fn shards_that_are_drained_in_turn_own_again_what_they_owned() {
    let mut cluster = Cluster::equal(4);
    let before = cluster.table.clone();
    let mut carried_out = Vec::new();
    for shard in [1, 3, 3, 0, 2, 1] {
        for state in [ShardState::Draining, ShardState::Active] {
            let mut memory = Memory::default();
            carried_out.iter().rev().for_each(|body| note(&mut memory, body));
            cluster.shards[shard].state = state;
            let body = cluster.plan_remembering(BALANCE, &memory);
            cluster.apply(&body);
            carried_out.push(body);
        }
        assert_eq!(0, apart(&before, &cluster.table), "after shard {shard} came back");
    }
}

#[test]
fn where_the_shares_are_no_whole_numbers_only_what_costs_a_move_more_stays_away() {
    for shards in [3, 5, 10, 100] {
        for drained in [0, 2] {
            let mut cluster = Cluster::equal(shards);
            let (before, owned) = (cluster.table.clone(), cluster.table.counts()[drained]);
            cluster.drain(drained);
            let mut memory = Memory::default();
            let body = cluster.plan_remembering(BALANCE, &memory);
            cluster.apply(&body);
            note(&mut memory, &body);
            cluster.shards[drained].state = ShardState::Active;
            let body = cluster.plan_remembering(BALANCE, &memory);
            cluster.apply(&body);
            let missing = owned - body.summary.slots;
            assert!(missing <= 1);
            assert_eq!(missing as usize, apart(&before, &cluster.table), "{shards} shards, {drained} drained");
        }
    }
}

#[test]
fn a_memory_never_costs_a_move() {
    let mut state = 3_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % below).unwrap()
    };
    let goals = [
        BALANCE,
        BALANCE,
        Goal::Balance { tolerance: Tolerance(20_000) },
        Goal::DrainOnly,
        Goal::Budget { max_moves: 700 },
    ];
    let (mut home, mut cases) = (0, 0);
    for _ in 0..40 {
        let mut weights: Vec<u32> = (0..3 + random(10)).map(|_| 1 + u32::try_from(random(4)).unwrap()).collect();
        weights[0] = 2;
        let mut cluster = Cluster::contiguous(&weights);
        let (mut memory, mut carried_out) = (Memory::default(), Vec::new());
        for _ in 0..6 {
            let shard = random(weights.len() as u64);
            let draining = cluster.shards[shard].state == ShardState::Draining;
            let others = cluster.shards.iter().filter(|s| s.state == ShardState::Active).count();
            if draining {
                cluster.shards[shard].state = ShardState::Active;
            } else if others > 2 {
                cluster.drain(shard);
            }
            let goal = goals[random(5)];
            let body = cluster.plan_remembering(goal, &memory);
            let goes_home = |action: &crate::domain::Action| {
                let slots = action.kind.ranges().iter().flat_map(|range| range.slots());
                slots.filter(|&slot| memory.earlier(slot) == action.kind.target()).count()
            };
            home += body.actions.iter().map(goes_home).sum::<usize>();
            cases += 1;
            cluster.apply(&body);
            carried_out.push(body);
            memory = Memory::default();
            carried_out.iter().rev().for_each(|body| note(&mut memory, body));
        }
    }
    assert!(cases == 240 && home > 10_000, "{home} slots went home in {cases} plans");
}
