//! Shares of the load, the bands around them, and how near anything can come to them.

use super::bound::Ranking;
use crate::domain::{Slot, Tolerance};
use crate::plan::survey::Survey;

const WHOLE: u128 = 1_000_000;

/// Where every shard's load is to be.
///
/// A shard whose pins, or one slot hotter than a whole band, exceed its share has those as its share; the others share
/// what is left. A shard that is to be emptied keeps what is pinned to it.
pub(super) struct LoadBands {
    /// Least load of each shard.
    pub lo: Vec<u64>,
    /// Most load of each shard.
    pub hi: Vec<u64>,
    /// The share, rounded down.
    pub mid: Vec<u64>,
    /// Slots hotter than a whole band, hottest first, and the shard that has to have each.
    pub hot: Vec<(u16, u16)>,
    /// No owners bring every shard nearer than this.
    pub floor: Tolerance,
    /// Shares in proportion to the weights: `num / unit`.
    nums: Vec<u128>,
    unit: u128,
}

/// What is still shared: this load by these weights.
struct Rest {
    load: u128,
    weight: u128,
    clamped: Vec<bool>,
}

impl Rest {
    /// `load > (1 + ε)·share` of a shard of this weight.
    fn exceeds(&self, load: u64, weight: u32, ppm: u128) -> bool {
        u128::from(load) * self.weight * WHOLE > self.load * u128::from(weight) * (WHOLE + ppm)
    }

    fn clamp(&mut self, shard: usize, load: u64, weight: u32) {
        self.clamped[shard] = true;
        self.load = self.load.saturating_sub(u128::from(load));
        self.weight -= u128::from(weight);
    }
}

impl LoadBands {
    pub fn new(survey: &Survey<'_>, loads: &[u64], ranking: &Ranking, tolerance: Tolerance) -> Self {
        let shards = survey.shards.len();
        let weight = |shard: usize| survey.bounds[shard].weight;
        let ppm = u128::from(tolerance.0).min(WHOLE);
        let mut base = vec![0_u64; shards];
        for slot in survey.pinned.iter() {
            base[usize::from(survey.owners[slot.index()])] += loads[slot.index()];
        }
        let resting: u64 = (0..shards).filter(|&i| weight(i) == 0).map(|i| base[i]).sum();
        let load = u128::from(loads.iter().sum::<u64>() - resting);
        let unit: u128 = (0..shards).map(|i| u128::from(weight(i))).sum();
        let nums: Vec<u128> = (0..shards).map(|i| load * u128::from(weight(i))).collect();
        let floor = floor(survey, loads, ranking, &base, &nums, unit);
        let mut rest = Rest { load, weight: unit, clamped: (0..shards).map(|i| weight(i) == 0).collect() };
        let mut hot = Vec::new();
        let mut hottest = ranking.slots.iter().copied().filter(|&s| !survey.pinned.contains(Slot::at(usize::from(s))));
        let mut next = hottest.next();
        // What a shard holds changes only when it is clamped: whoever exceeds its share first, and whoever takes the next hot
        // slot, is the first in its order that is still open.
        let (by_burden, by_room) = orders(&base, weight);
        let (mut by_burden, mut by_room) = (by_burden.into_iter().peekable(), by_room.into_iter().peekable());
        while rest.weight > 0 {
            while by_burden.next_if(|&i| rest.clamped[i]).is_some() {}
            if let Some(i) = by_burden.next_if(|&i| rest.exceeds(base[i], weight(i), ppm)) {
                rest.clamp(i, base[i], weight(i));
                continue;
            }
            let Some(slot) = next else { break };
            while by_room.next_if(|&i| rest.clamped[i]).is_some() {}
            let &first = by_room.peek().expect("some weight is left");
            let load = loads[usize::from(slot)];
            if !rest.exceeds(load, weight(first), ppm) {
                break;
            }
            let owner = usize::from(survey.owners[usize::from(slot)]);
            let stays = owner < shards && !rest.clamped[owner] && weight(owner) == weight(first);
            let home = if stays { owner } else { first };
            base[home] += load;
            hot.push((slot, u16::try_from(home).expect("at most 16384 shards")));
            rest.clamp(home, base[home], weight(home));
            next = hottest.next();
        }
        let mut bands = Self { lo: base.clone(), hi: base.clone(), mid: base, hot, floor, nums, unit: unit.max(1) };
        bands.widen(survey, &rest, ppm);
        bands
    }

    /// From the shares to bands of `ε`; a band holds a whole number above and below the share.
    fn widen(&mut self, survey: &Survey<'_>, rest: &Rest, ppm: u128) {
        let number = |load: u128| u64::try_from(load).expect("at most twice the total");
        for (i, bounds) in survey.bounds.iter().enumerate().filter(|(_, bounds)| bounds.weight > 0) {
            if rest.weight == 0 {
                continue;
            }
            let share = rest.load * u128::from(bounds.weight);
            if rest.clamped[i] {
                self.hi[i] += number(share * ppm / (rest.weight * WHOLE));
                continue;
            }
            let floor = share / rest.weight;
            let ceil = share.div_ceil(rest.weight);
            self.mid[i] = number(floor);
            self.lo[i] = number((share * (WHOLE - ppm)).div_ceil(rest.weight * WHOLE).min(floor));
            self.hi[i] = number((share * (WHOLE + ppm) / (rest.weight * WHOLE)).max(ceil));
        }
    }

    /// How far the farthest shard is from its share by weight, rounded up, and which one it is.
    pub fn farthest(&self, loads: &[u64]) -> (Tolerance, usize) {
        let mut farthest = (Tolerance(0), 0);
        for (i, (&load, &num)) in loads.iter().zip(&self.nums).enumerate().filter(|(_, (_, num))| **num > 0) {
            let away = (u128::from(load) * self.unit).abs_diff(num);
            // What is within one unit of load of the share is as near as can be.
            let away = if away < self.unit { 0 } else { away };
            let ppm = Tolerance(u32::try_from((away * WHOLE).div_ceil(num)).unwrap_or(u32::MAX));
            if ppm > farthest.0 {
                farthest = (ppm, i);
            }
        }
        farthest
    }
}

/// Shards by what they hold for their weight, most first; and by weight, largest first, then by what they hold.
fn orders(base: &[u64], weight: impl Fn(usize) -> u32) -> (Vec<usize>, Vec<usize>) {
    let mut by_burden: Vec<usize> = (0..base.len()).collect();
    let mut by_room = by_burden.clone();
    let crossed = |a: usize, b: usize| u128::from(base[a]) * u128::from(weight(b));
    by_burden.sort_by(|&a, &b| crossed(b, a).cmp(&crossed(a, b)).then(a.cmp(&b)));
    by_room.sort_by_key(|&i| (std::cmp::Reverse(weight(i)), base[i], i));
    (by_burden, by_room)
}

/// How near any owners can come: of the `j` hottest slots one belongs to a shard with no more than the `j`-th largest
/// share, or two of them share a shard; and pins stay.
fn floor(
    survey: &Survey<'_>,
    loads: &[u64],
    ranking: &Ranking,
    pinned: &[u64],
    nums: &[u128],
    unit: u128,
) -> Tolerance {
    let above = |load: u128, num: u128| match num {
        0 => 0,
        num => (load * unit * WHOLE / num).saturating_sub(WHOLE),
    };
    let pins = (0..nums.len()).map(|i| above(u128::from(pinned[i]), nums[i])).max().unwrap_or(0);
    let mut largest: Vec<u128> = nums.iter().copied().filter(|num| *num > 0).collect();
    largest.sort_unstable_by(|a, b| b.cmp(a));
    if largest.is_empty() {
        return Tolerance(u32::try_from(pins).unwrap_or(u32::MAX));
    }
    let rests = |slot: &&u16| {
        let slot = usize::from(**slot);
        survey.pinned.contains(Slot::at(slot)) && survey.bounds[usize::from(survey.owners[slot])].weight == 0
    };
    let hottest = ranking.slots.iter().filter(|slot| !rests(slot)).map(|&slot| u128::from(loads[usize::from(slot)]));
    let at_least = hottest.take(largest.len() + 1).enumerate().map(|(j, load)| {
        let together = above(2 * load, largest[0]);
        largest.get(j).map_or(together, |&share| above(load, share).min(together))
    });
    let ppm = at_least.max().unwrap_or(0).max(pins);
    Tolerance(u32::try_from(ppm).unwrap_or(u32::MAX))
}
