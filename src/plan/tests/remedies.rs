//! Every refusal about settings names the smallest change: with it the goal is feasible, with one less it is not.

use super::{BALANCE, Cluster, id, range, weight};
use crate::domain::{Goal, Shard, ShardState, SlotSet};
use crate::plan::{Change, PlanError, Setting, plan};

fn refusal(cluster: &Cluster, goal: Goal) -> Option<PlanError> {
    plan(&cluster.input(), goal, &super::limits()).err()
}

/// Carries a change out, or one that is smaller by so much.
fn apply(cluster: &mut Cluster, change: &Change, less: u32) {
    let shard = cluster.shards.iter_mut().find(|shard| shard.id == change.shard).unwrap();
    match change.setting {
        Setting::MinSlots => shard.min_slots = Some(u16::try_from(change.to + less).unwrap()),
        Setting::MaxSlots => shard.max_slots = Some(u16::try_from(change.to - less).unwrap()),
        Setting::Weight => shard.weight = weight(change.to - less),
        Setting::Pins => {
            let owned = cluster.table.ranges_of(&shard.id).into_iter().flat_map(crate::domain::SlotRange::slots);
            let owned: SlotSet = owned.collect();
            let kept = shard.pinned.iter().filter(|slot| owned.contains(*slot)).take((change.to + less) as usize);
            shard.pinned = kept.collect();
        }
    }
}

/// The remedy works; each of its changes by one less does not.
fn smallest(cluster: &Cluster, goal: Goal) -> String {
    let error = refusal(cluster, goal).expect("the goal is infeasible");
    let remedy = error.remedy().expect("there is a remedy");
    let mut mended = cluster.clone();
    remedy.0.iter().for_each(|change| apply(&mut mended, change, 0));
    assert_eq!(refusal(&mended, goal), None, "{remedy}");
    for (i, short) in remedy.0.iter().enumerate() {
        let mut almost = cluster.clone();
        remedy.0.iter().enumerate().for_each(|(j, change)| apply(&mut almost, change, u32::from(i == j)));
        assert!(refusal(&almost, goal).is_some(), "one less of {short:?} would do too");
    }
    assert!(error.to_string().contains(&remedy.to_string()) || remedy.0.len() == 1, "{error}");
    remedy.to_string()
}

#[test]
fn floors() {
    let mut cluster = Cluster::equal(3);
    cluster.shards[0].min_slots = Some(9000);
    cluster.shards[2].min_slots = Some(8000);
    assert_eq!(smallest(&cluster, BALANCE), "lower min_slots of s-0000 to 8384");
    // Pins are owned and cannot be lowered: the floor above them can, of one shard after the other.
    cluster.shards[0].min_slots = Some(16_000);
    cluster.shards[1].min_slots = Some(16_000);
    cluster.shards[2].min_slots = Some(16_000);
    cluster.shards[0].pinned.insert_range(range(0, 4999));
    assert_eq!(smallest(&cluster, BALANCE), "lower min_slots of s-0001 to 0 and lower min_slots of s-0002 to 384");
}

#[test]
fn caps() {
    let mut cluster = Cluster::equal(3);
    cluster.shards[0].max_slots = Some(4000);
    cluster.shards[1].max_slots = Some(5000);
    cluster.shards[1].weight = weight(2);
    cluster.shards[2].max_slots = Some(7000);
    assert_eq!(smallest(&cluster, BALANCE), "raise max_slots of s-0001 to 5384");
    cluster.drain(2);
    assert_eq!(smallest(&cluster, BALANCE), "raise max_slots of s-0001 to 12384");
    let mut cluster = Cluster::equal(4);
    cluster.shards[0].weight = weight(0);
    cluster.shards[0].min_slots = Some(8000);
    cluster.shards[1].max_slots = Some(4200);
    cluster.shards[2].max_slots = Some(4200);
    cluster.drain(3);
    assert_eq!(smallest(&cluster, Goal::DrainOnly), "raise max_slots of s-0001 to 8088");
}

#[test]
fn one_shard_s_own_bounds_and_pins() {
    let mut cluster = Cluster::equal(3);
    cluster.shards[1].min_slots = Some(5000);
    cluster.shards[1].max_slots = Some(4000);
    assert_eq!(smallest(&cluster, BALANCE), "raise max_slots of s-0001 to 5000");
    let mut cluster = Cluster::equal(3);
    cluster.shards[0].pinned.insert_range(range(0, 4999));
    cluster.shards[0].max_slots = Some(4000);
    assert_eq!(smallest(&cluster, BALANCE), "leave only 4000 slots of s-0000 pinned");
}

/// Whatever bounds, weights and drains contradict each other: a goal is refused exactly when the bounds leave no counts that add
/// up, and what the refusal asks for is enough, and nothing of it too much.
#[test]
fn any_contradiction_is_refused_with_the_smallest_change() {
    let mut state = 11_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u16::try_from((state >> 33) % below).unwrap()
    };
    let (mut refused, mut feasible) = (0, 0);
    for case in 0..600 {
        let mut cluster = Cluster::equal(1 + usize::from(random(5)));
        for shard in &mut cluster.shards {
            shard.weight = weight(u32::from(random(3)));
            shard.min_slots = (random(3) == 0).then(|| random(12_000));
            shard.max_slots = (random(2) == 0).then(|| random(12_000));
            if random(5) == 0 {
                shard.state = ShardState::Draining;
            }
        }
        let contradicts_itself = |shard: &Shard| {
            let above = shard.min_slots.zip(shard.max_slots).is_some_and(|(min, max)| min > max);
            above && shard.state == ShardState::Active
        };
        let least = |shard: &Shard| match shard.state {
            ShardState::Active => u32::from(shard.min_slots.unwrap_or(0)),
            ShardState::Draining => 0,
        };
        let most = |shard: &Shard| match (shard.state, shard.weight.get()) {
            (ShardState::Active, 1..) => u32::from(shard.max_slots.unwrap_or(16384)),
            _ => least(shard),
        };
        let itself = cluster.shards.iter().any(contradicts_itself);
        let (least, most): (u32, u32) = (cluster.shards.iter().map(least).sum(), cluster.shards.iter().map(most).sum());
        let possible = !itself && least <= 16384 && 16384 <= most;
        match refusal(&cluster, BALANCE) {
            None => {
                assert!(possible, "{case}: {:#?}", cluster.shards);
                feasible += 1;
            }
            Some(error) => {
                assert!(!possible, "{case}: {error}");
                // A shard that contradicts itself is told first; others may be wrong beside it.
                if error.remedy().is_some() && !itself {
                    smallest(&cluster, BALANCE);
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 100 && feasible > 50, "{refused} {feasible}");
}

#[test]
fn weights() {
    let mut cluster = Cluster::equal(3);
    cluster.shards.iter_mut().for_each(|shard| shard.weight = weight(0));
    assert_eq!(smallest(&cluster, BALANCE), "raise the weight of s-0000 to 1");
    cluster.shards.iter_mut().for_each(|shard| shard.max_slots = Some(1000));
    cluster.shards[1].max_slots = Some(2000);
    assert_eq!(smallest(&cluster, BALANCE), "raise the weight of s-0001 to 1 and raise max_slots of s-0001 to 16384");
    // Nobody active: only another shard or no drain helps, and that has no number.
    cluster.shards.iter_mut().for_each(|shard| shard.state = ShardState::Draining);
    let error = refusal(&cluster, BALANCE).unwrap();
    assert_eq!(error.remedy(), None);
    assert!(error.to_string().ends_with("add a shard or cancel a drain"), "{error}");
    assert!(refusal(&Cluster::new(), BALANCE).unwrap().remedy().is_none());
    let _ = id(0);
}
