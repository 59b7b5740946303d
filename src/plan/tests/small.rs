//! The core on small tables, compared with brute force over everything that could be.

use proptest::prelude::*;

use crate::domain::Tolerance;
use crate::plan::layout::{self, Flow};
use crate::plan::quota::{Bounds, Shares, water_fill};
use crate::plan::targets::{Bands, choose};
use crate::plan::waves::{Edge, colour};

/// Shards with their counts; what is left of `total` has no owner.
#[derive(Clone, Debug)]
struct Small {
    total: u32,
    counts: Vec<u32>,
    bounds: Vec<Bounds>,
}

impl Small {
    fn unassigned(&self) -> u32 {
        self.total - self.counts.iter().sum::<u32>()
    }
}

fn small() -> impl Strategy<Value = Small> {
    let owners = prop::collection::vec(0_usize..6, 1..=12);
    let limits = prop::collection::vec((0_u32..=5, 0_u32..=4, 0_u32..=12), 1..=5);
    (owners, limits).prop_filter_map("infeasible", |(owners, limits)| {
        let total = u32::try_from(owners.len()).unwrap();
        let mut counts = vec![0; limits.len()];
        owners.iter().filter(|&&owner| owner < limits.len()).for_each(|&owner| counts[owner] += 1);
        let bound = |(weight, lb, room): &(u32, u32, u32)| Bounds {
            weight: *weight,
            lb: *lb,
            ub: if *weight == 0 { *lb } else { (lb + room).min(total).max(*lb) },
        };
        let bounds: Vec<Bounds> = limits.iter().map(bound).collect();
        let sum = |of: fn(&Bounds) -> u32| bounds.iter().map(of).sum::<u32>();
        (sum(|b| b.lb) <= total && total <= sum(|b| b.ub)).then_some(Small { total, counts, bounds })
    })
}

/// Every way to give `total` slots to so many shards.
fn compositions(total: u32, shards: usize) -> Vec<Vec<u32>> {
    if shards == 1 {
        return vec![vec![total]];
    }
    let with_first = |first: u32| {
        compositions(total - first, shards - 1).into_iter().map(move |mut rest| {
            rest.insert(0, first);
            rest
        })
    };
    (0..=total).flat_map(with_first).collect()
}

fn moves(counts: &[u32], targets: &[u32]) -> u32 {
    counts.iter().zip(targets).map(|(c, t)| c.saturating_sub(*t)).sum()
}

/// Σ(t−q)², in square units.
fn distance(shares: &Shares, targets: &[u32]) -> i64 {
    targets.iter().enumerate().map(|(i, &t)| shares.deviation(i, t).pow(2)).sum()
}

fn in_bands(bands: &Bands, targets: &[u32]) -> bool {
    targets.iter().zip(bands.lo.iter().zip(&bands.hi)).all(|(t, (lo, hi))| (lo..=hi).contains(&t))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn shares_agree_with_the_checker_s_method(case in small()) {
        let shares = water_fill(&case.bounds, case.total);
        let wanted = case.bounds.iter().map(|b| (b.weight, b.lb..=b.ub)).collect();
        let other = crate::plan::check::share::solve(wanted, case.total).unwrap();
        for (i, share) in other.iter().enumerate() {
            prop_assert_eq!(shares.quota(i), share.quota());
        }
    }

    /// Whatever is within the bounds and adds up, the shares are nearer to the weights: Σq²/w is least.
    #[test]
    fn shares_are_the_best_within_the_bounds(case in small()) {
        let shares = water_fill(&case.bounds, case.total);
        let growing: Vec<usize> = (0..case.bounds.len()).filter(|&i| case.bounds[i].weight > 0).collect();
        // All weights divide 60, so Σ t²·(60/w) is a whole number.
        let cost = |of: &dyn Fn(usize) -> i64| growing.iter().map(|&i| of(i).pow(2) * 60 / i64::from(case.bounds[i].weight)).sum::<i64>();
        let best = cost(&|i| shares.nums[i]);
        for counts in compositions(case.total, case.counts.len()) {
            if counts.iter().zip(&case.bounds).all(|(t, b)| (b.lb..=b.ub).contains(t)) {
                prop_assert!(best <= cost(&|i| i64::from(counts[i]) * shares.unit));
            }
        }
    }

    #[test]
    fn targets_need_the_fewest_moves_and_are_nearest(case in small(), ppm in prop::sample::select(vec![0, 5_000, 100_000, 500_000, 1_000_000])) {
        let shares = water_fill(&case.bounds, case.total);
        let bands = if ppm == 0 { Bands::exact(&shares) } else { Bands::tolerant(&shares, &case.bounds, Tolerance(ppm)) };
        let targets = choose(&case.counts, &bands, &shares, case.unassigned(), case.total);
        let all: Vec<Vec<u32>> =
            compositions(case.total, case.counts.len()).into_iter().filter(|t| in_bands(&bands, t)).collect();
        let fewest = all.iter().map(|t| moves(&case.counts, t)).min().unwrap();
        prop_assert!(in_bands(&bands, &targets));
        prop_assert_eq!(targets.iter().sum::<u32>(), case.total);
        prop_assert_eq!(moves(&case.counts, &targets), fewest);
        prop_assert_eq!(bands.lower_bound(&case.counts, case.unassigned()).moves, fewest);
        let minimal = all.iter().filter(|t| moves(&case.counts, t) == fewest);
        prop_assert_eq!(distance(&shares, &targets), minimal.map(|t| distance(&shares, t)).min().unwrap());
    }

    /// Slots go from givers to takers only, pinned ones stay, the counts are the targets, and the ranges are few.
    #[test]
    fn layouts_keep_to_the_flow(
        owners in prop::collection::vec(0_u16..4, 1..=11),
        pins in prop::collection::vec(prop::bool::weighted(0.1), 11),
        shift in prop::collection::vec(0_u32..12, 3),
    ) {
        // The owner 3 stands for nobody and gives everything; shards 0..3 aim at what the shifts make of the total.
        let total = u32::try_from(owners.len()).unwrap();
        let count = |shard: u16| u32::try_from(owners.iter().filter(|&&o| o == shard).count()).unwrap();
        let pinned = |slot: usize| pins[slot] && owners[slot] < 3;
        let held: Vec<u32> = (0..3).map(|shard| u32::try_from((0..owners.len()).filter(|&s| owners[s] == shard && pinned(s)).count()).unwrap()).collect();
        let mut targets = held.clone();
        let mut left = total - held.iter().sum::<u32>();
        for (target, more) in targets.iter_mut().zip(&shift) {
            let more = (*more).min(left);
            *target += more;
            left -= more;
        }
        targets[0] += left;
        let mut give: Vec<u32> = (0..3).map(|s| count(s).saturating_sub(targets[usize::from(s)])).collect();
        let mut take: Vec<u32> = (0..3).map(|s| targets[usize::from(s)].saturating_sub(count(s))).collect();
        give.push(count(3));
        take.push(0);
        let after = layout::choose(&owners, pinned, &Flow { give: give.clone(), take: take.clone() });
        for (shard, target) in targets.iter().enumerate() {
            let got = after.iter().filter(|&&o| usize::from(o) == shard).count();
            prop_assert_eq!(u32::try_from(got).unwrap(), *target);
        }
        for slot in 0..owners.len() {
            let (from, to) = (usize::from(owners[slot]), usize::from(after[slot]));
            prop_assert!(from == to || (give[from] > 0 && take[to] > 0 && !pinned(slot)));
        }
        let ranges = |table: &[u16]| table.chunk_by(|a, b| a == b).count();
        let best = fewest_ranges(&owners, &pinned, &give, &take);
        prop_assert!(ranges(&after) <= best + 1, "{:?} -> {:?}: {} ranges, {} are possible", owners, after, ranges(&after), best);
    }

    #[test]
    fn waves_reach_their_bound(
        pairs in prop::collection::vec((prop::option::weighted(0.9, 0_u16..6), 6_u16..12), 0..120),
        per_source in 1_u32..5,
        per_target in 1_u32..5,
    ) {
        let edges: Vec<Edge> = pairs.iter().map(|&(from, to)| Edge { from, to }).collect();
        let (waves, rounds) = colour(&edges, 12, per_source, per_target);
        let worst = |of: &dyn Fn(&Edge) -> Option<u16>, edges: &[Edge]| {
            (0..12).map(|shard| edges.iter().filter(|e| of(e) == Some(shard)).count()).max().unwrap_or(0)
        };
        let (out, into) = (worst(&|e| e.from, &edges), worst(&|e| Some(e.to), &edges));
        prop_assert_eq!(rounds as usize, out.div_ceil(per_source as usize).max(into.div_ceil(per_target as usize)));
        prop_assert!(waves.iter().all(|wave| *wave < rounds));
        for wave in 0..rounds {
            let at_once: Vec<Edge> = edges.iter().zip(&waves).filter(|(_, w)| **w == wave).map(|(e, _)| *e).collect();
            prop_assert!(worst(&|e| e.from, &at_once) <= per_source as usize);
            prop_assert!(worst(&|e| Some(e.to), &at_once) <= per_target as usize);
        }
    }
}

/// Tables on which the steps before the last leave three ranges more than the fewest. With a
/// thousand slots for each the fewest are the same: the last step looks at ranges, not at slots.
#[test]
fn ranges_that_only_exchanges_save() {
    type Case = (&'static [u16], &'static [u32], &'static [u32], usize);
    let cases: [Case; 4] = [
        (&[0, 0, 2, 0, 2, 0, 2], &[2, 0, 3, 0], &[0, 5, 0, 0], 2),
        (&[0, 1, 0, 3, 0, 1, 1, 1, 0, 0], &[2, 1, 0, 1], &[0, 0, 4, 0], 4),
        (&[1, 1, 0, 0, 3, 1, 0, 1], &[1, 2, 0, 1], &[0, 0, 4, 0], 3),
        (&[2, 0, 2, 0, 4, 2, 4, 0, 0, 0, 2, 2, 0], &[3, 0, 4, 0, 2], &[0, 2, 0, 7, 0], 4),
    ];
    for (owners, give, take, fewest) in cases {
        assert_eq!(fewest_ranges(owners, &|_| false, give, take), fewest, "{owners:?}");
        for times in [1, 1000] {
            let owners: Vec<u16> = owners.iter().flat_map(|&owner| std::iter::repeat_n(owner, times)).collect();
            let all = |counts: &[u32]| counts.iter().map(|count| count * u32::try_from(times).unwrap()).collect();
            let after = layout::choose(&owners, |_| false, &Flow { give: all(give), take: all(take) });
            assert_eq!(after.chunk_by(|a, b| a == b).count(), fewest, "{owners:?}");
        }
    }
}

/// The fewest ranges that any choice of slots reaches, by trying all.
pub(super) fn fewest_ranges(owners: &[u16], pinned: &dyn Fn(usize) -> bool, give: &[u32], take: &[u32]) -> usize {
    struct Search<'a> {
        owners: &'a [u16],
        pinned: &'a dyn Fn(usize) -> bool,
        give: Vec<u32>,
        take: Vec<u32>,
    }
    impl Search<'_> {
        fn from(&mut self, slot: usize, last: u16, ranges: usize, best: &mut usize) {
            if ranges >= *best {
                return;
            }
            let Some(&owner) = self.owners.get(slot) else {
                if self.give.iter().all(|g| *g == 0) {
                    *best = ranges;
                }
                return;
            };
            let mut go = |search: &mut Self, to: u16| search.from(slot + 1, to, ranges + usize::from(to != last), best);
            go(self, owner);
            let from = usize::from(owner);
            if self.give[from] == 0 || (self.pinned)(slot) {
                return;
            }
            self.give[from] -= 1;
            for to in 0..u16::try_from(self.take.len()).unwrap() {
                if self.take[usize::from(to)] > 0 {
                    self.take[usize::from(to)] -= 1;
                    go(self, to);
                    self.take[usize::from(to)] += 1;
                }
            }
            self.give[from] += 1;
        }
    }
    let mut best = usize::MAX;
    Search { owners, pinned, give: give.to_vec(), take: take.to_vec() }.from(0, u16::MAX, 0, &mut best);
    best
}
