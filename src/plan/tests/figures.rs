//! The reference figures of the design: the minimum number of moves and the ranges afterwards.

use super::{BALANCE, Cluster, weight};
use crate::domain::{Goal, PlanBody, Tolerance};

/// Adds shards to equal ones.
fn grow(from: usize, to: usize) -> PlanBody {
    let mut cluster = Cluster::equal(from);
    (from..to).for_each(|_| cluster.add(1));
    cluster.plan(BALANCE)
}

#[test]
fn scale_out_moves_the_minimum() {
    for (from, to, moves) in [(3, 4, 4096), (10, 11, 1489), (100, 101, 162), (1000, 1001, 16), (4, 20, 13104)] {
        let body = grow(from, to);
        assert_eq!(body.summary.slots, moves, "{from} -> {to}");
        assert_eq!(body.summary.lower_bound, moves, "{from} -> {to}");
    }
}

#[test]
fn scale_out_keeps_ranges_few() {
    // The optimum adds ⌈n/2⌉ ranges for one receiver; four to twenty at once needs a range a shard.
    for (from, to, ranges) in [(10, 11, 15), (100, 101, 150), (1000, 1001, 1008), (4, 20, 20)] {
        assert_eq!(grow(from, to).summary.ranges_after, ranges, "{from} -> {to}");
    }
}

#[test]
fn drain_the_fifth_of_ten() {
    let mut cluster = Cluster::equal(10);
    cluster.drain(4);
    for goal in [BALANCE, Goal::DrainOnly] {
        let body = cluster.plan(goal);
        assert_eq!(body.summary.slots, 1638);
        // Two neighbours absorb their part, seven others get a range each.
        assert_eq!(body.summary.ranges_after, 16);
    }
}

#[test]
fn weights_add_three() {
    let mut cluster = Cluster::contiguous(&[1, 1, 2, 4, 8]);
    cluster.add(3);
    assert_eq!(cluster.plan(BALANCE).summary.slots, 2586);
}

#[test]
fn reweight_the_fifth_of_ten() {
    let mut cluster = Cluster::equal(10);
    cluster.shards[4].weight = weight(2);
    assert_eq!(cluster.plan(BALANCE).summary.slots, 1340);
}

#[test]
fn twenty_add_two_drain_one() {
    let mut cluster = Cluster::equal(20);
    cluster.add(1);
    cluster.add(1);
    cluster.drain(4);
    assert_eq!(cluster.plan(BALANCE).summary.slots, 1560);
}

#[test]
fn four_to_twenty_one_at_a_time() {
    let mut cluster = Cluster::equal(4);
    let mut moves = 0;
    for _ in 4..20 {
        cluster.add(1);
        let body = cluster.plan(BALANCE);
        moves += body.summary.slots;
        cluster.apply(&body);
    }
    assert_eq!(moves, 24806);
    assert!(cluster.table.range_count() <= 112, "{} ranges", cluster.table.range_count());
}

#[test]
fn tolerance_curve_of_ten_to_eleven() {
    let mut cluster = Cluster::equal(10);
    cluster.add(1);
    for (percent, moves) in [("0", 1489), ("0.5", 1483), ("1", 1475), ("2", 1460), ("5", 1415), ("10", 1341)] {
        let tolerance = Tolerance::from_percent(percent).unwrap();
        let body = cluster.plan(Goal::Balance { tolerance });
        assert_eq!(body.summary.slots, moves, "{percent} %");
        assert_eq!(body.summary.lower_bound, moves, "{percent} %");
    }
}

/// 16384 slots owned at random by 1000 shards with new weights: the worst case for the number of runs.
#[test]
fn random_owners_and_weights_are_planned_exactly() {
    let mut cluster = Cluster::equal(1000);
    let mut state = 1_u64;
    let mut random = |below: u64| {
        // Knuth's MMIX generator: any spread will do.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % below).unwrap()
    };
    for slot in 0..16384 {
        cluster.table.assign(super::range(slot, slot), Some(&super::id(random(1000)))).unwrap();
    }
    for shard in &mut cluster.shards {
        shard.weight = weight(1 + u32::try_from(random(10)).unwrap());
    }
    let body = cluster.plan(BALANCE);
    assert_eq!(body.summary.slots, body.summary.lower_bound);
    assert!(body.summary.ranges_after < body.summary.ranges_before);
}

/// A thousand shards in ranges, a thousand and first comes: every donor and the receiver end at a rounded share.
#[test]
fn weights_up_to_the_maximum_stay_exact() {
    let mut cluster = Cluster::contiguous(&[10_000, 1, 9_999, 3]);
    cluster.add(10_000);
    let body = cluster.plan(BALANCE);
    assert_eq!(body.shards[0].quota.to_string(), "163840000/30003");
    assert_eq!(body.summary.slots, body.summary.lower_bound);
}
