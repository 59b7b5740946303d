//! Exact shares by fixing variables, after Bitran and Hax ("Disaggregation and resource allocation using convex knapsack
//! problems with bounded variables", 1981): no sorting, no breakpoints.

use std::ops::RangeInclusive;

use super::{Input, replay::pinned};
use crate::domain::{Quota, SLOT_COUNT, Shard, ShardState, Slot};

/// A share as a fraction, and the bounds it was cut by.
#[derive(Clone, Debug)]
pub(in crate::plan) struct Share {
    pub num: i128,
    /// At least 1.
    pub den: i128,
    /// Relative share; 0 when the shard keeps to its lower bound.
    pub weight: i128,
    /// Fewest and most slots.
    pub bounds: RangeInclusive<u32>,
}

impl Share {
    pub fn floor(&self) -> u32 {
        u32::try_from(self.num.div_euclid(self.den)).expect("a share is at most the total")
    }

    pub fn ceil(&self) -> u32 {
        u32::try_from(-(-self.num).div_euclid(self.den)).expect("a share is at most the total")
    }

    /// `count − share` times the denominator.
    pub fn away(&self, count: u32) -> i128 {
        i128::from(count) * self.den - self.num
    }

    pub fn quota(&self) -> Quota {
        let (mut divisor, mut rest) = (self.den, self.num);
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        let part = |number: i128| u64::try_from(number / divisor).expect("a share is at most the total");
        Quota { numerator: part(self.num), denominator: part(self.den) }
    }
}

/// The share of each shard when all of them together own every slot.
pub(super) fn balanced(input: &Input<'_>) -> Result<Vec<Share>, String> {
    let total = u32::try_from(SLOT_COUNT).expect("16384");
    let bounds = |shard: &Shard| {
        let held = |slot: &Slot| input.table.owner(*slot) == Some(&shard.id) && pinned(input, *slot);
        let held = shard.pinned.iter().filter(held).count();
        let held = u32::try_from(held).expect("at most 16384");
        let draining = shard.state == ShardState::Draining;
        let least = if draining { held } else { held.max(shard.min_slots.unwrap_or(0).into()) };
        let most = shard.max_slots.map_or(total, u32::from);
        let grows = !draining && shard.weight.get() > 0;
        (if grows { shard.weight.get() } else { 0 }, least..=if grows { most.min(total) } else { least.min(most) })
    };
    solve(input.shards.iter().map(bounds).collect(), total)
}

/// `clamp(λ·w, lb, ub)` of each shard with the one λ that makes the sum `total`.
pub(in crate::plan) fn solve(wanted: Vec<(u32, RangeInclusive<u32>)>, total: u32) -> Result<Vec<Share>, String> {
    let least: u32 = wanted.iter().map(|(_, bounds)| *bounds.start()).sum();
    let most: u32 = wanted.iter().map(|(_, bounds)| *bounds.end()).sum();
    if wanted.iter().any(|(_, bounds)| bounds.is_empty()) || !(least..=most).contains(&total) {
        return Err(format!(
            "no counts within the bounds of the shards add up to {total}: {least}..={most} are possible"
        ));
    }
    let mut shares: Vec<Share> = wanted
        .into_iter()
        .map(|(weight, bounds)| Share { num: (*bounds.start()).into(), den: 1, weight: weight.into(), bounds })
        .collect();
    let mut free: Vec<usize> = (0..shares.len()).filter(|&i| shares[i].weight > 0).collect();
    let mut left = i128::from(total) - shares.iter().filter(|s| s.weight == 0).map(|s| s.num).sum::<i128>();
    loop {
        let weights: i128 = free.iter().map(|&i| shares[i].weight).sum();
        let short = |s: &Share| i128::from(*s.bounds.start()) * weights - left * s.weight;
        let over = |s: &Share| left * s.weight - i128::from(*s.bounds.end()) * weights;
        let lows: i128 = free.iter().map(|&i| short(&shares[i]).max(0)).sum();
        let highs: i128 = free.iter().map(|&i| over(&shares[i]).max(0)).sum();
        if lows == 0 && highs == 0 {
            for &i in &free {
                (shares[i].num, shares[i].den) = (left * shares[i].weight, weights);
            }
            return Ok(shares);
        }
        // Cutting at both ends adds `lows` and takes `highs`: whichever is larger is cut for good.
        let cut_low = lows >= highs;
        let (cut, rest): (Vec<usize>, Vec<usize>) =
            free.iter().partition(|&&i| if cut_low { short(&shares[i]) > 0 } else { over(&shares[i]) > 0 });
        for i in cut {
            let bound = if cut_low { *shares[i].bounds.start() } else { *shares[i].bounds.end() };
            shares[i].num = bound.into();
            left -= i128::from(bound);
        }
        free = rest;
    }
}

/// How far the farthest shards are from their share, rounded toward zero: one entry, or several that are equally far.
pub(super) fn farthest(shares: &[Share], counts: &[u32]) -> Vec<i64> {
    let away: Vec<(i128, i128)> =
        shares.iter().zip(counts).map(|(share, &count)| (share.away(count), share.den)).collect();
    let less = |a: &(i128, i128), b: &(i128, i128)| (a.0.abs() * b.1).cmp(&(b.0.abs() * a.1));
    let Some(most) = away.iter().copied().max_by(less) else { return Vec::new() };
    let equal = away.iter().filter(|a| less(a, &most).is_eq());
    equal.map(|(num, den)| i64::try_from(num / den).expect("at most the total")).collect()
}
