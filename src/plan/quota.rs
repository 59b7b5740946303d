//! Exact shares: `q_i = clamp(λ·w_i, lb_i, ub_i)` with one level λ such that the shares add up to the total.

use crate::domain::Quota;

/// What limits one shard's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Relative share; 0 stays at `lb`.
    pub weight: u32,
    /// Fewest slots.
    pub lb: u32,
    /// Most slots.
    pub ub: u32,
}

/// The shares of all shards as fractions with one denominator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// The denominator, at least 1.
    pub unit: i64,
    /// The numerators.
    pub nums: Vec<i64>,
}

/// Finds the level by sorting the breakpoints `lb/w` and `ub/w`: O(n log n).
///
/// Needs `Σlb ≤ total ≤ Σub`, where a weight of 0 counts with `ub = lb`.
pub(super) fn water_fill(bounds: &[Bounds], total: u32) -> Shares {
    let (level, unit) = plain_level(bounds, total).unwrap_or_else(|| sorted_level(bounds, total));
    let share = |b: &Bounds| match b.weight {
        0 => i64::from(b.lb) * unit,
        weight => (level * i64::from(weight)).clamp(i64::from(b.lb) * unit, i64::from(b.ub) * unit),
    };
    let nums: Vec<i64> = bounds.iter().map(share).collect();
    assert_eq!(nums.iter().sum::<i64>(), i64::from(total) * unit, "shares must add up to the total");
    Shares { unit, nums }
}

/// The level when no bound cuts in: the common case, without sorting.
fn plain_level(bounds: &[Bounds], total: u32) -> Option<(i64, i64)> {
    let unit: i64 = bounds.iter().map(|b| i64::from(b.weight)).sum();
    let resting: i64 = bounds.iter().filter(|b| b.weight == 0).map(|b| i64::from(b.lb)).sum();
    let level = i64::from(total) - resting;
    let fits = |b: &Bounds| {
        let share = level * i64::from(b.weight);
        b.weight == 0 || (i64::from(b.lb) * unit <= share && share <= i64::from(b.ub) * unit)
    };
    (unit > 0 && bounds.iter().all(fits)).then_some((level, unit))
}

/// Where a shard starts (`lb/w`) or stops (`ub/w`) to grow with the level.
struct Breakpoint {
    at: u64,
    weight: u64,
    starts: bool,
}

fn sorted_level(bounds: &[Bounds], total: u32) -> (i64, i64) {
    let mut points: Vec<Breakpoint> = Vec::with_capacity(2 * bounds.len());
    for b in bounds.iter().filter(|b| b.weight > 0) {
        let weight = u64::from(b.weight);
        points.push(Breakpoint { at: b.lb.into(), weight, starts: true });
        points.push(Breakpoint { at: b.ub.into(), weight, starts: false });
    }
    points.sort_unstable_by(|a, b| (a.at * b.weight).cmp(&(b.at * a.weight)));
    let total = i64::from(total);
    let mut fixed: i64 = bounds.iter().map(|b| i64::from(b.lb)).sum();
    let mut slope = 0_i64;
    let mut last = (0, 1);
    for point in &points {
        let (at, weight) = (signed(point.at), signed(point.weight));
        if slope * at + fixed * weight >= total * weight {
            return if slope == 0 { (at, weight) } else { (total - fixed, slope) };
        }
        if point.starts {
            slope += weight;
            fixed -= at;
        } else {
            slope -= weight;
            fixed += at;
        }
        last = (at, weight);
    }
    last
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).expect("slots and weights are small")
}

impl Shares {
    /// `⌊q⌋`.
    pub fn floor(&self, shard: usize) -> u32 {
        u32::try_from(self.nums[shard] / self.unit).expect("a share is at most the total")
    }

    /// `⌈q⌉`.
    pub fn ceil(&self, shard: usize) -> u32 {
        self.floor(shard) + u32::from(self.remainder(shard) > 0)
    }

    /// `q − ⌊q⌋`, in units.
    pub fn remainder(&self, shard: usize) -> i64 {
        self.nums[shard] % self.unit
    }

    /// `count − q`, in units.
    pub fn deviation(&self, shard: usize, count: u32) -> i64 {
        i64::from(count) * self.unit - self.nums[shard]
    }

    /// The share in lowest terms.
    pub fn quota(&self, shard: usize) -> Quota {
        let (num, unit) = (self.nums[shard].unsigned_abs(), self.unit.unsigned_abs());
        let divisor = gcd(num, unit);
        Quota { numerator: num / divisor, denominator: unit / divisor }
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
