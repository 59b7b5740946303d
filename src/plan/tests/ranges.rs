//! How near the choice of slots comes to the fewest ranges, counted on small tables against brute force.

use super::small::fewest_ranges;
use crate::plan::layout::{self, Flow};
use crate::plan::quota::{Bounds, water_fill};
use crate::plan::targets::{Bands, choose};

/// Knuth's MMIX generator: any spread will do, and the count must be the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(below)).unwrap()
    }
}

/// One exact balance of a small random table: ranges reached, and the fewest possible.
fn balance(dice: &mut Dice, long_runs: bool) -> (usize, usize) {
    let shards = 2 + dice.below(4);
    let owners = owners(dice, shards, long_runs);
    let total = u32::try_from(owners.len()).unwrap();
    let mut counts = vec![0_u32; shards as usize + 1];
    for owner in &owners {
        counts[usize::from(*owner)] += 1;
    }
    let unassigned = counts.pop().unwrap();
    let bounds: Vec<Bounds> = (0..shards).map(|_| Bounds { weight: 1 + dice.below(3), lb: 0, ub: total }).collect();
    let exact = water_fill(&bounds, total);
    let targets = choose(&counts, &Bands::exact(&exact), &exact, unassigned, total);
    let mut give: Vec<u32> = counts.iter().zip(&targets).map(|(c, t)| c.saturating_sub(*t)).collect();
    let mut take: Vec<u32> = counts.iter().zip(&targets).map(|(c, t)| t.saturating_sub(*c)).collect();
    give.push(unassigned);
    take.push(0);
    compare(&owners, &give, &take)
}

/// Any counts afterwards, as a drain, a budget or bounds may ask for them.
fn any_flow(dice: &mut Dice, long_runs: bool) -> (usize, usize) {
    let shards = 2 + dice.below(4);
    let owners = owners(dice, shards, long_runs);
    let mut counts = vec![0_u32; shards as usize + 1];
    for owner in &owners {
        counts[usize::from(*owner)] += 1;
    }
    let unassigned = counts.pop().unwrap();
    let mut targets = vec![0_u32; shards as usize];
    for _ in 0..owners.len() {
        targets[dice.below(shards) as usize] += 1;
    }
    let mut give: Vec<u32> = counts.iter().zip(&targets).map(|(c, t)| c.saturating_sub(*t)).collect();
    let mut take: Vec<u32> = counts.iter().zip(&targets).map(|(c, t)| t.saturating_sub(*c)).collect();
    give.push(unassigned);
    take.push(0);
    compare(&owners, &give, &take)
}

fn owners(dice: &mut Dice, shards: u32, long_runs: bool) -> Vec<u16> {
    let total = 4 + dice.below(9);
    let mut owners: Vec<u16> = Vec::new();
    while owners.len() < total as usize {
        // The index after the last shard stands for nobody.
        let with_nobody = u32::from(dice.below(4) == 0);
        let owner = u16::try_from(dice.below(shards + with_nobody)).unwrap();
        let run = if long_runs { 1 + dice.below(5) } else { 1 };
        owners.extend((0..run).map(|_| owner));
    }
    owners.truncate(total as usize);
    owners
}

/// Ranges reached, and the fewest possible.
fn compare(owners: &[u16], give: &[u32], take: &[u32]) -> (usize, usize) {
    let after = layout::choose(owners, |_| false, &Flow { give: give.to_vec(), take: take.to_vec() });
    let ranges = after.chunk_by(|a, b| a == b).count();
    (ranges, fewest_ranges(owners, &|_| false, give, take))
}

#[test]
fn nearly_all_are_optimal_and_none_is_off_by_more_than_one() {
    type Instance = fn(&mut Dice, bool) -> (usize, usize);
    let mut dice = Dice(7);
    for (what, instance) in [("balance", balance as Instance), ("any flow", any_flow)] {
        for long_runs in [false, true] {
            let (mut optimal, mut worst) = (0, 0);
            let all = 1500;
            for _ in 0..all {
                let (reached, best) = instance(&mut dice, long_runs);
                optimal += usize::from(reached == best);
                worst = worst.max(reached - best);
            }
            assert!(optimal * 1000 >= all * 999, "{what}: {optimal} of {all} are optimal (long runs: {long_runs})");
            assert!(worst <= 1, "{what}: the worst is {worst} ranges off (long runs: {long_runs})");
        }
    }
}
