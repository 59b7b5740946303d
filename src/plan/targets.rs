//! Bands, the lower bound on moves, and the target count of each shard inside the box of optimal targets.

use std::cmp::Reverse;

use super::quota::{Bounds, Shares};
use crate::domain::Tolerance;

/// Fewest and most slots of each shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bands {
    pub lo: Vec<u32>,
    pub hi: Vec<u32>,
}

/// `M* = max(A, B − u, 0)` and what it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LowerBound {
    /// `A`.
    pub surplus: u32,
    /// `B`.
    pub deficit: u32,
    /// `M*`.
    pub moves: u32,
}

impl Bands {
    /// `⌊q⌋..⌈q⌉`.
    pub fn exact(shares: &Shares) -> Self {
        let all = 0..shares.nums.len();
        Self { lo: all.clone().map(|i| shares.floor(i)).collect(), hi: all.map(|i| shares.ceil(i)).collect() }
    }

    /// `min(⌈(1−ε)q⌉, ⌊q⌋) ..= max(⌊(1+ε)q⌋, ⌈q⌉)`, within the shard's own bounds.
    pub fn tolerant(shares: &Shares, bounds: &[Bounds], tolerance: Tolerance) -> Self {
        const WHOLE: i128 = 1_000_000;
        let ppm = i128::from(tolerance.0).min(WHOLE);
        let unit = i128::from(shares.unit) * WHOLE;
        let slots = |count: i128| u32::try_from(count).expect("at most twice the total");
        let band = |(i, b): (usize, &Bounds)| {
            let share = i128::from(shares.nums[i]);
            let lo = slots((share * (WHOLE - ppm) + unit - 1) / unit).min(shares.floor(i)).max(b.lb);
            let hi = slots(share * (WHOLE + ppm) / unit).max(shares.ceil(i)).min(b.ub);
            if b.weight == 0 { (shares.floor(i), shares.floor(i)) } else { (lo, hi) }
        };
        let (lo, hi) = bounds.iter().enumerate().map(band).unzip();
        Self { lo, hi }
    }

    /// `lo = hi`: these counts and no others.
    pub fn fixed(counts: &[u32]) -> Self {
        Self { lo: counts.to_vec(), hi: counts.to_vec() }
    }

    /// The lower bound on moves from these counts.
    pub fn lower_bound(&self, counts: &[u32], unassigned: u32) -> LowerBound {
        let surplus = counts.iter().zip(&self.hi).map(|(c, hi)| c.saturating_sub(*hi)).sum();
        let deficit: u32 = counts.iter().zip(&self.lo).map(|(c, lo)| lo.saturating_sub(*c)).sum();
        LowerBound { surplus, deficit, moves: deficit.saturating_sub(unassigned).max(surplus) }
    }

    /// The bands of the targets that a minimal plan can reach: nobody gives more than forced, or nobody takes more.
    pub fn optimal_box(&self, counts: &[u32], unassigned: u32) -> Self {
        let nearest: Vec<u32> =
            counts.iter().zip(self.lo.iter().zip(&self.hi)).map(|(c, (lo, hi))| *c.clamp(lo, hi)).collect();
        let bound = self.lower_bound(counts, unassigned);
        if bound.surplus + unassigned >= bound.deficit {
            Self { lo: nearest, hi: self.hi.clone() }
        } else {
            Self { lo: self.lo.clone(), hi: nearest }
        }
    }
}

/// The targets that add up to `total` with the fewest moves; among those the ones nearest to the shares (largest
/// remainder, ties to the lower id).
///
/// A level `m` puts every shard at `⌊q⌋ + m` as far as its box allows; the remainders decide the rest.
pub(super) fn choose(counts: &[u32], bands: &Bands, shares: &Shares, unassigned: u32, total: u32) -> Vec<u32> {
    let bounds = bands.optimal_box(counts, unassigned);
    let at = |i: usize, level: i64| {
        let wanted = (i64::from(shares.floor(i)) + level).clamp(bounds.lo[i].into(), bounds.hi[i].into());
        u32::try_from(wanted).expect("clamped between two counts")
    };
    let sum = |level: i64| (0..counts.len()).map(|i| at(i, level)).sum::<u32>();
    let (mut below, mut above) = (-i64::from(total) - 1, i64::from(total) + 1);
    assert!(sum(below) <= total && total <= sum(above), "the box must hold the total");
    // The common case first: with exact bands the level is 0.
    for guess in [0, 1] {
        if sum(guess) <= total { below = below.max(guess) } else { above = above.min(guess) }
    }
    while above - below > 1 {
        let middle = below.midpoint(above);
        if sum(middle) <= total { below = middle } else { above = middle }
    }
    let mut targets: Vec<u32> = (0..counts.len()).map(|i| at(i, below)).collect();
    let mut left = total - targets.iter().sum::<u32>();
    if left > 0 {
        let mut next: Vec<usize> = (0..counts.len()).filter(|&i| at(i, below + 1) > targets[i]).collect();
        next.sort_by_key(|&i| Reverse(shares.remainder(i)));
        for i in next {
            if left == 0 {
                break;
            }
            targets[i] += 1;
            left -= 1;
        }
    }
    assert_eq!(left, 0, "the box must hold the total");
    targets
}
