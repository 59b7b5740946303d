//! Few bytes, budgets of moves and triggers on small tables against brute force, and the curve.

use proptest::prelude::*;

use super::{BALANCE, Cluster, id, limits, range, weight};
use crate::domain::{CurvePoint, Goal, LoadMetric, NodeId, Objective, Shard, Slot, SlotSet, Statistics, Tolerance};
use crate::plan::aim::Aim;
use crate::plan::cheapest;
use crate::plan::quota::{Bounds, water_fill};
use crate::plan::survey::Survey;
use crate::plan::{Memory, check, memory, plan, plan_for};

/// A survey of a small table without bounds; the owner after the last shard is nobody.
fn survey<'a>(shards: &'a [Shard], owners: &[u16], pinned: SlotSet) -> Survey<'a> {
    let total = u32::try_from(owners.len()).unwrap();
    let mut counts = vec![0; shards.len() + 1];
    for owner in owners {
        counts[usize::from(*owner)] += 1;
    }
    let unassigned = counts.pop().unwrap();
    let pins =
        |i: usize| (0..owners.len()).filter(|&s| usize::from(owners[s]) == i && pinned.contains(Slot::at(s))).count();
    let bound = |(i, shard): (usize, &Shard)| {
        let lb = u32::try_from(pins(i)).unwrap();
        Bounds { weight: shard.weight.get(), lb, ub: if shard.weight.get() == 0 { lb } else { total } }
    };
    let bounds: Vec<Bounds> = shards.iter().enumerate().map(bound).collect();
    Survey {
        shards,
        lost: vec![false; shards.len()],
        owners: owners.to_vec(),
        nobody: u16::try_from(shards.len()).unwrap(),
        counts,
        unassigned,
        total,
        pinned,
        shares: water_fill(&bounds, total),
        bounds,
        statistics: None,
    }
}

fn shards(weights: &[u32]) -> Vec<Shard> {
    let shard = |(i, w): (usize, &u32)| Shard::new(id(i), NodeId::new(id(i).as_str()).unwrap(), weight(*w));
    weights.iter().enumerate().map(shard).collect()
}

/// Every way to share so many slots.
fn counts(total: u32, shards: usize) -> Vec<Vec<u32>> {
    if shards == 1 {
        return vec![vec![total]];
    }
    let rest = |first: u32| counts(total - first, shards - 1).into_iter().map(move |rest| [vec![first], rest].concat());
    (0..=total).flat_map(rest).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Of all sets of so many slots whose leaving lets every shard end in its band, none has fewer bytes.
    #[test]
    fn bytes_are_the_fewest(
        owners in prop::collection::vec(0_u16..4, 1..=11),
        weights in prop::collection::vec(1_u32..4, 3),
        bytes in prop::collection::vec(0_u64..9, 11),
        pins in prop::collection::vec(prop::bool::weighted(0.1), 11),
        ppm in prop::sample::select(vec![0, 100_000, 400_000]),
    ) {
        let shards = shards(&weights);
        let pinned: SlotSet = (0..owners.len()).filter(|&s| pins[s] && owners[s] < 3).map(Slot::at).collect();
        let survey = survey(&shards, &owners, pinned.clone());
        let mut aim = Aim::of(Goal::Balance { tolerance: Tolerance(ppm) }, &survey).unwrap();
        let bound = aim.bands.lower_bound(&survey.counts, survey.unassigned).moves;
        let moving = cheapest::slots(&survey, &mut aim, &bytes);
        let owned = |slot: usize| owners[slot] != survey.nobody;
        let moved: Vec<usize> = (0..owners.len()).filter(|&s| moving[s] && owned(s)).collect();
        prop_assert_eq!(moved.len(), bound as usize);
        prop_assert!(moved.iter().all(|&s| !pinned.contains(Slot::at(s))));
        prop_assert_eq!(aim.targets.iter().sum::<u32>(), survey.total);
        let free: Vec<usize> = (0..owners.len()).filter(|&s| owned(s) && !pinned.contains(Slot::at(s))).collect();
        let best = (0_u32..1 << free.len()).filter(|set| set.count_ones() == bound).filter_map(|set| {
            let chosen: Vec<usize> = (0..free.len()).filter(|bit| set >> bit & 1 == 1).map(|bit| free[bit]).collect();
            let mut left = survey.counts.clone();
            for &slot in &chosen {
                left[usize::from(owners[slot])] -= 1;
            }
            let (lo, hi) = (&aim.bands.lo, &aim.bands.hi);
            let lacking: u32 = left.iter().zip(lo).map(|(c, lo)| lo.saturating_sub(*c)).sum();
            let room: i64 = left.iter().zip(hi).map(|(c, hi)| i64::from(*hi) - i64::from(*c)).sum();
            let placed = bound + survey.unassigned;
            let fits = left.iter().zip(hi).all(|(c, hi)| c <= hi) && lacking <= placed && i64::from(placed) <= room;
            fits.then(|| chosen.iter().map(|&s| bytes[s]).sum::<u64>())
        }).min();
        prop_assert_eq!(Some(moved.iter().map(|&s| bytes[s]).sum::<u64>()), best);
    }

    /// Of all plans with the fewest moves none brings more slots back to their earlier owners.
    #[test]
    fn as_many_slots_come_home_as_the_fewest_moves_allow(
        owners in prop::collection::vec(0_u16..4, 1..=7),
        weights in prop::collection::vec(1_u32..4, 3),
        earlier in prop::collection::vec(prop::option::weighted(0.6, 0_u16..3), 7),
    ) {
        let shards = shards(&weights);
        let survey = survey(&shards, &owners, SlotSet::new());
        let mut memory = Memory::default();
        for (slot, home) in earlier.iter().take(owners.len()).enumerate() {
            let Some(home) = home else { continue };
            memory.remember(&id(usize::from(*home)), &id(0), &[range(slot, slot)]);
        }
        let mut aim = Aim::of(BALANCE, &survey).unwrap();
        let fewest = aim.bands.lower_bound(&survey.counts, survey.unassigned).moves;
        let at_home = |after: &[u16]| (0..owners.len()).filter(|&s| after[s] != owners[s] && earlier[s] == Some(after[s])).count();
        let moved = |after: &[u16]| (0..owners.len()).filter(|&s| after[s] != owners[s] && owners[s] != survey.nobody).count();
        let within = |after: &[u16]| (0..3_u16).all(|shard| {
            let count = u32::try_from(after.iter().filter(|owner| **owner == shard).count()).unwrap();
            (aim.bands.lo[usize::from(shard)]..=aim.bands.hi[usize::from(shard)]).contains(&count)
        });
        let ways = 3_usize.pow(u32::try_from(owners.len()).unwrap());
        let all = (0..ways).map(|mut way| -> Vec<u16> {
            owners.iter().map(|_| { let owner = u16::try_from(way % 3).unwrap(); way /= 3; owner }).collect()
        });
        let best = all.filter(|after| within(after) && moved(after) == fewest as usize).map(|after| at_home(&after)).max();
        let bands = aim.bands.clone();
        match memory::owners(&survey, &mut aim, BALANCE, &memory) {
            None => prop_assert_eq!(best, Some(0)),
            Some(after) => {
                prop_assert_eq!(moved(&after), fewest as usize);
                prop_assert!((0..3_usize).all(|i| (bands.lo[i]..=bands.hi[i]).contains(&aim.targets[i])));
                prop_assert_eq!(Some(at_home(&after)), best, "{:?} -> {:?}", owners, after);
            }
        }
    }

    /// After any number of moves no state that so many could have reached is nearer to the shares: Σ(t−q)²/w. Shares are
    /// whole here, so that nothing is left to rounding.
    #[test]
    fn a_budget_reaches_the_best_state_of_all(
        owners in prop::collection::vec(0_u16..4, 12),
        weights in prop::sample::select(vec![[1, 1, 1], [1, 2, 1], [1, 2, 3], [3, 2, 1], [4, 1, 1]]),
    ) {
        let owners: Vec<u16> = owners;
        let shards = shards(&weights);
        let survey = survey(&shards, &owners, SlotSet::new());
        let cost = |of: &[u32]| (0..3).map(|i| survey.shares.deviation(i, of[i]).pow(2) * 12 / i64::from(weights[i])).sum::<i64>();
        let moves = |of: &[u32]| survey.counts.iter().zip(of).map(|(c, t)| c.saturating_sub(*t)).sum::<u32>();
        let all = counts(12, 3);
        let mut before: Option<Vec<u32>> = None;
        for max_moves in 0..=12 {
            let aim = Aim::of(Goal::Budget { max_moves }, &survey).unwrap();
            prop_assert!(moves(&aim.targets) <= max_moves);
            let best = all.iter().filter(|t| moves(t) <= max_moves).map(|t| cost(t)).min().unwrap();
            prop_assert_eq!(cost(&aim.targets), best, "{} moves: {:?}", max_moves, &aim.targets);
            // Each state is on the way to the next, so that stopping early costs nothing.
            if let Some(before) = before.filter(|_| survey.unassigned == 0) {
                let step: u32 = before.iter().zip(&aim.targets).map(|(b, t)| b.abs_diff(*t)).sum();
                prop_assert!(step <= 2, "{:?} is not on the way to {:?}", before, &aim.targets);
            }
            before = Some(aim.targets);
        }
    }
}

#[test]
fn the_curve_of_ten_to_eleven() {
    let mut cluster = Cluster::equal(10);
    cluster.add(1);
    let curve = cluster.plan(BALANCE).figures.curve;
    // The design's figures at 0, 0.5, 1, 2, 5 and 10 %.
    for (percent, moves) in [("0", 1489), ("0.5", 1483), ("1", 1475), ("2", 1460), ("5", 1415), ("10", 1341)] {
        let tolerance = Tolerance::from_percent(percent).unwrap();
        assert!(curve.contains(&CurvePoint { tolerance, moves }), "{percent} %: {curve:?}");
    }
    assert_eq!(cluster.plan(Goal::Budget { max_moves: 9 }).figures.curve, curve);
    assert!(Cluster::equal(4).plan(BALANCE).figures.curve.is_empty());
}

fn with_bytes(mut cluster: Cluster, bytes: impl Fn(usize) -> u64) -> Cluster {
    let mut statistics = Statistics::new(&[LoadMetric::Bytes, LoadMetric::Keys], None).unwrap();
    (0..16384).for_each(|slot| statistics.add(Slot::at(slot), &[bytes(slot), 1]).unwrap());
    cluster.statistics = Some(statistics);
    cluster
}

/// Both costs, checked; and each objective wins at its own game.
#[test]
fn ranges_or_bytes() {
    let mut cluster = Cluster::equal(10);
    cluster.add(1);
    let cluster = with_bytes(cluster, |slot| (slot as u64 * 7919) % 1000);
    let few = |objective| {
        let body = plan_for(&cluster.input(), BALANCE, objective, &limits()).unwrap();
        check(&cluster.input(), BALANCE, &limits(), &body).unwrap();
        body
    };
    let (ranges, bytes) = (few(Objective::Ranges), few(Objective::Bytes));
    assert_eq!((ranges.summary.slots, bytes.summary.slots), (1489, 1489));
    assert_eq!(ranges.summary.keys_est, Some(1489));
    let (a, b) = (ranges.figures.costs.unwrap(), bytes.figures.costs.unwrap());
    assert_eq!((a.chosen, a.other), (b.other, b.chosen));
    assert_eq!(a.chosen.ranges, 15);
    assert!(b.chosen.bytes * 5 < a.chosen.bytes && b.chosen.ranges > 1000, "{a:?}");
    // A dearer slot in place of one that moves is noticed, with every figure true.
    let mut damaged = plan(&cluster.input(), BALANCE, &limits()).unwrap();
    damaged.figures.costs.as_mut().unwrap().objective = Objective::Bytes;
    let faults = check(&cluster.input(), BALANCE, &limits(), &damaged).unwrap_err().join(" ");
    assert!(faults.contains("keeps a slot with fewer bytes than one it gives"), "{faults}");
    let mut blind = cluster.clone();
    blind.statistics = None;
    let faults = check(&blind.input(), BALANCE, &limits(), &bytes).unwrap_err().join(" ");
    assert!(faults.contains("without the statistics"), "{faults}");
}

/// redis-cli looks at |100 − 100·share/slots|, and at shards without slots that have a share above one.
#[test]
fn a_trigger_is_none_or_all() {
    let mut cluster = Cluster::equal(4);
    cluster.table.assign(range(4096, 4196), Some(&id(0))).unwrap();
    // Shard 0 owns 4197: 2.406 % of that above its share; shard 1 owns 3995, 2.528 % below.
    let above = |percent| Goal::BalanceAbove { trigger: Tolerance::from_percent(percent).unwrap() };
    assert_eq!(
        cluster.plan(above("2.5282")).empty_because.unwrap(),
        "no shard is farther than 2.5282 % of its slots from its share"
    );
    assert_eq!(cluster.plan(above("2.5282")).summary.slots, 0);
    assert_eq!(cluster.plan(above("2.528")).summary.slots, 101);
    assert_eq!(Cluster::equal(4).plan(above("0")).summary.slots, 0);
    cluster.add(1);
    assert_eq!(cluster.plan(above("100")).summary.slots, cluster.plan(BALANCE).summary.slots);
    cluster.shards[4].weight = weight(0);
    assert_eq!(cluster.plan(above("50")).summary.slots, 0);
    cluster.table.assign(range(0, 0), None).unwrap();
    assert!(cluster.plan(above("50")).summary.assigned == 1);
}
