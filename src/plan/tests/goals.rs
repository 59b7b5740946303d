//! What each goal does with whole tables, every plan checked; and what is refused.

use proptest::prelude::*;

use super::{BALANCE, Cluster, id, limits, range, weight};
use crate::domain::{ActionKind, Goal, Limits, NodeId, PlanBody, Slot, SlotRange, SlotSet, Tolerance};
use crate::plan::{check, check_revert, plan, revert, with_leading_actions};

fn refusal(cluster: &Cluster, goal: Goal) -> String {
    plan(&cluster.input(), goal, &limits()).unwrap_err().to_string()
}

/// Shards at 0-3999, 4000-8256, 8257-12229, 12230-16383 and an empty fifth: the design's plan screen.
#[test]
fn the_screen_of_the_design() {
    let mut cluster = Cluster::equal(4);
    for (shard, (first, last)) in [(0, 3999), (4000, 8256), (8257, 12229), (12230, 16383)].into_iter().enumerate() {
        cluster.table.assign(range(first, last), Some(&id(shard))).unwrap();
    }
    cluster.add(1);
    let limits = Limits { slots_per_move: 4, ..limits() };
    let body = cluster.plan_within(BALANCE, &limits);
    let moves: Vec<String> =
        body.moves().iter().map(|m| format!("{}->{} {}", m.from.as_ref().unwrap(), m.to, m.slots)).collect();
    assert_eq!(
        moves,
        [
            "s-0001->s-0004 4000-4979",
            "s-0003->s-0004 12230-13106",
            "s-0000->s-0004 3277-3999",
            "s-0002->s-0004 11534-12229"
        ]
    );
    let s = &body.summary;
    assert_eq!((s.slots, s.lower_bound, s.ranges_before, s.ranges_after), (3276, 3276, 4, 6));
    assert_eq!((s.waves, s.waves_lower_bound, s.worst_before, s.worst_after), (245, 245, -3276, 0));
    // The fullest shard gives first.
    assert_eq!(body.actions[0].kind, ActionKind::MoveSlots { from: id(1), to: id(4), ranges: vec![range(4000, 4003)] });
    assert_eq!(body.shards[0].quota.to_string(), "16384/5");
}

#[test]
fn unassigned_slots_are_assigned_and_not_counted_as_moves() {
    let mut cluster = Cluster::new();
    (0..4).for_each(|_| cluster.add(1));
    let body = cluster.plan(BALANCE);
    assert_eq!((body.summary.slots, body.summary.assigned, body.summary.ranges_after), (0, 16384, 4));
    assert!(body.actions.iter().all(|a| matches!(a.kind, ActionKind::AssignSlots { from: None, .. })));
    cluster.table.assign(range(0, 9999), Some(&id(0))).unwrap();
    let body = cluster.plan(BALANCE);
    // Shard 0 is 5904 above its share; the 6384 slots without an owner fill part of the others.
    assert_eq!((body.summary.slots, body.summary.assigned), (5904, 6384));
    let none = cluster.plan(Goal::DrainOnly);
    assert_eq!(none.empty_because.as_deref(), Some("no shard is draining"));
}

#[test]
fn lost_shards_are_assigned_anew_pins_or_not() {
    let mut cluster = Cluster::equal(4);
    cluster.drain(2);
    cluster.shards[2].pinned.insert_range(range(8192, 8200));
    assert_eq!(cluster.plan(Goal::DrainOnly).summary.slots, 4096 - 9, "pinned slots stay on a live shard");
    cluster.lost.insert(id(2));
    for goal in [BALANCE, Goal::DrainOnly, Goal::Budget { max_moves: 4096 }] {
        let body = cluster.plan(goal);
        assert_eq!(body.summary.slots, 4096);
        let anew =
            |kind: &ActionKind| matches!(kind, ActionKind::AssignSlots { from: Some(from), .. } if *from == id(2));
        assert!(body.actions.iter().all(|action| anew(&action.kind)));
    }
}

#[test]
fn drain_only_levels_the_receivers_and_leaves_others_alone() {
    let mut cluster = Cluster::equal(4);
    for (shard, (first, last)) in [(0, 8191), (8192, 12287), (12288, 14335), (14336, 16383)].into_iter().enumerate() {
        cluster.table.assign(range(first, last), Some(&id(shard))).unwrap();
    }
    cluster.drain(1);
    let body = cluster.plan(Goal::DrainOnly);
    // 4096 slots lift the two small shards to the same level; the large one neither gives nor takes.
    assert_eq!(body.shards.iter().map(|s| s.after).collect::<Vec<_>>(), [8192, 0, 4096, 4096]);
}

#[test]
fn a_budget_is_the_steepest_descent() {
    let mut cluster = Cluster::equal(4);
    for (shard, (first, last)) in [(0, 8191), (8192, 14999), (15000, 15999), (16000, 16383)].into_iter().enumerate() {
        cluster.table.assign(range(first, last), Some(&id(shard))).unwrap();
    }
    let mut counts = [8192_u32, 6808, 1000, 384];
    for max_moves in 0..2000 {
        if max_moves % 97 == 0 {
            let body = cluster.plan(Goal::Budget { max_moves });
            let after: Vec<u32> = body.shards.iter().map(|s| s.after).collect();
            let square = |counts: &[u32]| counts.iter().map(|c| i64::from(*c) * i64::from(*c)).sum::<i64>();
            assert_eq!((square(&after), body.summary.slots), (square(&counts), max_moves), "{after:?} {counts:?}");
        }
        // With equal weights the best single move is from the fullest to the emptiest.
        *counts.iter_mut().max().unwrap() -= 1;
        *counts.iter_mut().min().unwrap() += 1;
    }
    let enough = cluster.plan(Goal::Budget { max_moves: 16384 });
    assert_eq!(enough.summary, cluster.plan(BALANCE).summary);
    let nothing = cluster.plan(Goal::Budget { max_moves: 0 });
    assert_eq!(nothing.empty_because.as_deref(), Some("max_moves is 0; 6808 moves would reach the exact balance"));
}

#[test]
fn empty_plans_say_why() {
    let mut cluster = Cluster::equal(3);
    let why = |cluster: &Cluster, goal| cluster.plan(goal).empty_because.unwrap();
    assert_eq!(why(&cluster, BALANCE), "every shard owns its exact share already");
    let tolerance = Tolerance::from_percent("2.50").unwrap();
    assert_eq!(why(&cluster, Goal::Balance { tolerance }), "every shard is within 2.5 % of its share already");
    assert_eq!(why(&cluster, Goal::DrainOnly), "no shard is draining");
    cluster.add(1);
    cluster.drain(3);
    assert_eq!(why(&cluster, Goal::DrainOnly), "the draining shards own no slots any more");
    cluster.drain(0);
    cluster.shards[0].pinned = cluster.table.ranges_of(&id(0)).into_iter().flat_map(SlotRange::slots).collect();
    assert_eq!(why(&cluster, Goal::DrainOnly), "the draining shards own only 5462 pinned slots, which stay");
}

#[test]
fn infeasible_goals_are_refused_by_name() {
    let mut cluster = Cluster::equal(3);
    cluster.shards[0].min_slots = Some(9000);
    cluster.shards[2].min_slots = Some(8000);
    assert_eq!(
        refusal(&cluster, BALANCE),
        "min_slots and pins ask for 17000 slots, but there are 16384 (s-0000 9000, s-0002 8000); lower them by 616 in all: \
         lower min_slots of s-0000 to 8384"
    );
    cluster.shards[0].max_slots = Some(8000);
    assert_eq!(
        refusal(&cluster, BALANCE),
        "s-0000 has min_slots 9000 above max_slots 8000; lower min_slots to 8000 or raise max_slots to 9000"
    );
    cluster.shards[0].pinned.insert_range(range(0, 4999));
    cluster.shards[0].max_slots = Some(4000);
    assert_eq!(
        refusal(&cluster, BALANCE),
        "s-0000 owns 5000 pinned slots above its max_slots 4000; unpin 1000 slots or raise max_slots to 5000"
    );
    let mut cluster = Cluster::equal(3);
    cluster.shards[0].max_slots = Some(4000);
    cluster.shards[1].max_slots = Some(5000);
    cluster.drain(2);
    assert_eq!(
        refusal(&cluster, BALANCE),
        "the shards may own only 9000 of 16384 slots (s-0000 4000, s-0001 5000); raise max_slots by 7384 in all, or add \
         room for 7384 slots: raise max_slots of s-0000 to 11384"
    );
    for shard in 0..3 {
        cluster.drain(shard);
    }
    assert!(refusal(&cluster, BALANCE).starts_with("none of the 3 shards is active with a weight above 0"));
    assert!(refusal(&Cluster::new(), BALANCE).starts_with("none of the 0 shards is active"));
}

#[test]
fn a_drain_without_room_is_refused() {
    let mut cluster = Cluster::equal(4);
    cluster.shards[0].weight = weight(0);
    cluster.shards[0].min_slots = Some(8000);
    cluster.shards[1].max_slots = Some(4200);
    cluster.shards[2].max_slots = Some(4200);
    cluster.drain(3);
    let text = refusal(&cluster, Goal::DrainOnly);
    assert_eq!(
        text,
        "the draining shards give 4096 slots, but the others have room for 208 (s-0001 104, s-0002 104); raise max_slots \
         by 3888 in all, or add room for 3888 slots: raise max_slots of s-0001 to 8088"
    );
}

#[test]
fn another_list_of_shards_is_refused() {
    let cluster = Cluster::equal(3);
    let refused = |change: fn(&mut Cluster)| {
        let mut other = cluster.clone();
        change(&mut other);
        refusal(&other, BALANCE)
    };
    assert!(refused(|c| c.shards.truncate(2)).contains("s-0002 is in the table but not among the shards"));
    assert!(refused(|c| c.shards.swap(0, 1)).contains("s-0001 is listed twice or out of order"));
    assert!(refused(|c| drop(c.shards.remove(0))).contains("s-0000 is in the table but not among the shards"));
    assert!(refused(|c| c.shards[2].id = id(7)).contains("s-0002 is in the table but not among the shards"));
    assert!(refused(|c| c.lost.extend([id(1)])).contains("s-0001 is listed as lost but is not draining"));
    assert!(refused(|c| c.lost.extend([id(9)])).contains("s-0009 is listed as lost but is not a shard"));
}

#[test]
fn a_finished_plan_can_be_undone() {
    let mut cluster = Cluster::equal(10);
    cluster.add(1);
    cluster.drain(4);
    let before = cluster.clone();
    let body = cluster.plan(BALANCE);
    cluster.apply(&body);
    let back = revert(&cluster.input(), &body, &limits()).unwrap();
    check_revert(&cluster.input(), &body, &limits(), &back).unwrap();
    assert_eq!((back.summary.slots, back.summary.lower_bound), (body.summary.slots, body.summary.slots));
    // Carried out only in part, it undoes that part.
    let mut partly = before.clone();
    for action in &body.actions[..5] {
        for range in action.kind.ranges() {
            partly.table.assign(*range, action.kind.target()).unwrap();
        }
    }
    let part = revert(&partly.input(), &body, &limits()).unwrap();
    check_revert(&partly.input(), &body, &limits(), &part).unwrap();
    partly.apply(&part);
    assert_eq!(partly.table, before.table);
    let nothing = revert(&before.input(), &body, &limits()).unwrap();
    assert_eq!(nothing.empty_because.as_deref(), Some("no slot that the plan moved is still where it put it"));
    // A slot left out, or another one in its place, is noticed.
    let mut less = back.clone();
    less.actions.pop();
    assert!(check_revert(&cluster.input(), &body, &limits(), &less).is_err());
    assert!(check(&cluster.input(), BALANCE, &limits(), &back).is_err());
    cluster.apply(&back);
    assert_eq!(cluster.table, before.table);
    // Without its source there is no way back.
    let mut gone = before;
    gone.apply(&body);
    gone.table.remove_shard(&id(4)).unwrap();
    gone.shards.remove(4);
    let text = revert(&gone.input(), &body, &limits()).unwrap_err().to_string();
    assert!(text.contains("slots would go back to s-0004, which is not a shard of the cluster any more"), "{text}");
}

#[test]
fn promotions_lead_in_a_wave_of_their_own() {
    let mut cluster = Cluster::equal(3);
    let node = |name: &str| NodeId::new(name).unwrap();
    let promote = || vec![ActionKind::Promote { shard: id(0), from: node("s-0000"), to: node("r-1") }];
    let alone = with_leading_actions(cluster.plan(BALANCE), promote());
    assert_eq!((alone.summary.waves, alone.empty_because.as_ref()), (1, None));
    check(&cluster.input(), BALANCE, &limits(), &alone).unwrap();
    cluster.add(1);
    let body = with_leading_actions(cluster.plan(BALANCE), promote());
    check(&cluster.input(), BALANCE, &limits(), &body).unwrap();
    assert!(body.action(body.waves[0][0]).is_some_and(|first| first.kind == promote()[0]));
    let mut mixed = body.clone();
    let second = mixed.waves.remove(1);
    mixed.waves[0].extend(second);
    assert!(check(&cluster.input(), BALANCE, &limits(), &mixed).is_err());
    assert_eq!(with_leading_actions(body.clone(), Vec::new()), body);
}

/// Whole tables of random runs, weights, bounds, pins, drains and losses.
fn clusters() -> impl Strategy<Value = Cluster> {
    let shard = (0_u32..6, prop::bool::weighted(0.2), prop::option::weighted(0.2, 0_u16..3000));
    let more = (prop::option::weighted(0.2, 2000_u16..16384), prop::bool::weighted(0.2), prop::bool::weighted(0.3));
    let shards = prop::collection::vec((shard, more), 1..12);
    let runs = prop::collection::vec((0_usize..13, 1_usize..3000), 1..60);
    (shards, runs).prop_map(|(shards, runs)| {
        let mut cluster = Cluster::new();
        for (w, ..) in shards.iter().map(|(shard, _)| shard) {
            cluster.add(*w);
        }
        let mut first = 0;
        for (owner, len) in runs.into_iter().cycle().take(200) {
            let last = (first + len - 1).min(16383);
            let owner = cluster.shards.get(owner).map(|shard| shard.id.clone());
            cluster.table.assign(range(first, last), owner.as_ref()).unwrap();
            first = last + 1;
            if first > 16383 {
                break;
            }
        }
        for (i, ((_, draining, min), (max, lost, pins))) in shards.into_iter().enumerate() {
            let shard = &mut cluster.shards[i];
            (shard.min_slots, shard.max_slots) = (min, max);
            if pins {
                let owned = cluster.table.ranges_of(&shard.id).into_iter().flat_map(SlotRange::slots);
                shard.pinned = owned.filter(|slot| slot.get() % 17 < 3).collect::<SlotSet>();
                shard.pinned.insert(Slot::LAST);
            }
            if draining {
                cluster.drain(i);
                if lost {
                    cluster.lost.insert(id(i));
                }
            }
        }
        cluster
    })
}

fn goals() -> impl Strategy<Value = Goal> {
    prop_oneof![
        Just(BALANCE),
        (1_u32..200_000).prop_map(|ppm| Goal::Balance { tolerance: Tolerance(ppm) }),
        Just(Goal::DrainOnly),
        (0_u32..6000).prop_map(|max_moves| Goal::Budget { max_moves }),
    ]
}

fn limit_sets() -> impl Strategy<Value = Limits> {
    (1_u32..5, 1_u32..5, prop::sample::select(vec![1, 7, 64, 1024])).prop_map(|(a, b, n)| Limits {
        moves_per_source: a,
        moves_per_target: b,
        slots_per_move: n,
        ..limits()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_plan_passes_the_checker(cluster in clusters(), goal in goals(), limits in limit_sets()) {
        let Ok(body) = plan(&cluster.input(), goal, &limits) else { return Ok(()) };
        let verdict = check(&cluster.input(), goal, &limits, &body);
        prop_assert!(verdict.is_ok(), "{:#?}", verdict);
        // Carried out, nothing is left to do, except within a budget.
        let mut after = cluster.clone();
        after.apply(&body);
        if !matches!(goal, Goal::Budget { .. }) {
            let next: PlanBody = plan(&after.input(), goal, &limits).unwrap();
            prop_assert_eq!((next.summary.slots, next.summary.assigned), (0, 0));
        }
        let back = revert(&after.input(), &body, &limits).unwrap();
        let verdict = check_revert(&after.input(), &body, &limits, &back);
        prop_assert!(verdict.is_ok(), "{:#?}", verdict);
    }
}
