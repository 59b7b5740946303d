//! A plan that balances load: shares, bands, loads and the lower bound, computed anew and in other ways than the planner
//! does: per shard and from scratch at each step, where the planner keeps one ranking and running sums.

use super::{Faults, Input, Replay, figures, replay};
use crate::domain::{HotSlot, LoadFigures, LoadMetric, PlanBody, SLOT_COUNT, ShardState, Slot, Tolerance, UNASSIGNED};

mod bound;
mod whole;

use bound::{Bound, bound as least};

const MILLION: u128 = 1_000_000;

/// What is looked at.
struct Looked<'a> {
    input: &'a Input<'a>,
    loads: &'a [u64],
    /// 0 for a shard that is only emptied.
    weights: Vec<u128>,
    /// Whether each slot may leave its owner.
    movable: Vec<bool>,
    /// Those that may, hottest first.
    hottest: Vec<usize>,
}

/// Least and most load of each shard.
struct Bands {
    lo: Vec<u64>,
    hi: Vec<u64>,
}

pub(super) fn check(
    metric: LoadMetric,
    asked: Tolerance,
    input: &Input<'_>,
    replay: &Replay,
    body: &PlanBody,
    faults: &mut Faults,
) {
    let Some(shown) = &body.figures.load else { return faults.add("load: its figures are missing") };
    let Some(loads) = input.statistics.and_then(|statistics| statistics.of(metric)) else {
        return faults.add("loads cannot be checked without the statistics that the plan was made with");
    };
    if (shown.metric, shown.asked) != (metric, asked) {
        faults.add("load: metric or tolerance are not those of the goal");
    }
    let looked = Looked::new(input, loads);
    let (bands, bound) = match looked.bands(asked.0, &shown.hot, true) {
        Ok(bands) => {
            let bound = least(&looked, &bands);
            (bands, bound)
        }
        Err(why) => return faults.add(why),
    };
    faults.differ("summary: lower_bound", body.summary.lower_bound, bound.moves);
    if body.summary.slots < bound.moves && shown.unreached.is_none() {
        faults.add(format_args!("{} slots move, fewer than the lower bound {}", body.summary.slots, bound.moves));
    }
    looked.loads(replay, shown, &bands, &bound, faults);
    let points = |ppm| looked.bands(ppm, &[], false).map_or(u32::MAX, |bands| least(&looked, &bands).moves);
    figures::points(&body.figures.curve, points, faults);
}

impl<'a> Looked<'a> {
    fn new(input: &'a Input<'a>, loads: &'a [u64]) -> Self {
        let weight = |shard: &crate::domain::Shard| match shard.state {
            ShardState::Active => u128::from(shard.weight.get()),
            ShardState::Draining => 0,
        };
        let movable: Vec<bool> = Slot::all().map(|slot| !replay::pinned(input, slot)).collect();
        let mut hottest: Vec<usize> = (0..SLOT_COUNT).filter(|&slot| movable[slot]).collect();
        hottest.sort_by(|&a, &b| loads[b].cmp(&loads[a]).then(a.cmp(&b)));
        Self { input, loads, weights: input.shards.iter().map(weight).collect(), movable, hottest }
    }

    fn owner(&self, slot: usize) -> Option<usize> {
        let owner = self.input.table.owners()[slot];
        (owner != UNASSIGNED).then(|| usize::from(owner))
    }

    /// The load that must stay with each shard.
    fn held(&self, home: &[Option<usize>]) -> Vec<u64> {
        let mut held = vec![0; self.weights.len()];
        for (slot, home) in home.iter().enumerate() {
            let at = if self.movable[slot] { *home } else { self.owner(slot) };
            if let Some(at) = at {
                held[at] += self.loads[slot];
            }
        }
        held
    }

    /// Follows the hot slots as the plan lists them: each must be the hottest left, too hot for every shard that is
    /// left, and go to one of those with the largest weight. Without a list, to any such.
    fn bands(&self, ppm: u32, listed: &[HotSlot], follow: bool) -> Result<Bands, String> {
        let ppm = u128::from(ppm).min(MILLION);
        let mut home: Vec<Option<usize>> = vec![None; SLOT_COUNT];
        let mut fixed: Vec<bool> = self.weights.iter().map(|weight| *weight == 0).collect();
        let (mut hot, mut listed) = (self.hottest.iter().copied(), listed.iter());
        loop {
            let held = self.held(&home);
            let kept: u128 = (0..fixed.len()).filter(|&i| fixed[i]).map(|i| u128::from(held[i])).sum();
            let total: u128 = self.loads.iter().map(|load| u128::from(*load)).sum();
            let left = total.saturating_sub(kept);
            let weight: u128 = (0..fixed.len()).filter(|&i| !fixed[i]).map(|i| self.weights[i]).sum();
            let too_much = |load: u64, of: u128| u128::from(load) * weight * MILLION > left * of * (MILLION + ppm);
            let heavy: Vec<usize> =
                (0..fixed.len()).filter(|&i| !fixed[i] && too_much(held[i], self.weights[i])).collect();
            if !heavy.is_empty() {
                for i in heavy {
                    fixed[i] = true;
                }
                continue;
            }
            let largest = (0..fixed.len()).filter(|&i| !fixed[i]).map(|i| self.weights[i]).max();
            let next = hot.next().filter(|&slot| largest.is_some_and(|largest| too_much(self.loads[slot], largest)));
            let Some(slot) = next else {
                if follow && listed.next().is_some() {
                    return Err("load: a slot is listed as too hot that is not".to_owned());
                }
                return Ok(self.around(&fixed, &held, left, weight, ppm));
            };
            let at = if follow {
                let shown = listed.next().filter(|shown| shown.slot.index() == slot && shown.load == self.loads[slot]);
                let shown = shown.ok_or_else(|| format!("load: slot {slot} is too hot and not listed in its place"))?;
                let at = self.input.table.index_of(&shown.shard).map(usize::from);
                let fits = at.filter(|&at| !fixed[at] && Some(self.weights[at]) == largest);
                fits.ok_or_else(|| format!("load: slot {slot} is too hot to go to {}", shown.shard))?
            } else {
                let open = (0..fixed.len()).filter(|&i| !fixed[i] && Some(self.weights[i]) == largest);
                let first = open.min_by_key(|&i| (self.owner(slot) != Some(i), held[i]));
                first.expect("one has the largest weight")
            };
            home[slot] = Some(at);
            fixed[at] = true;
        }
    }

    fn around(&self, fixed: &[bool], held: &[u64], left: u128, weight: u128, ppm: u128) -> Bands {
        let number = |load: u128| u64::try_from(load).expect("at most twice the total");
        let band = |i: usize| {
            let share = left * self.weights[i];
            match (fixed[i], weight) {
                (true, 0) => (held[i], held[i]),
                (true, _) => (held[i], held[i] + number(share * ppm / (weight * MILLION))),
                (false, _) => {
                    let lo = (share * (MILLION - ppm)).div_ceil(weight * MILLION).min(share / weight);
                    let hi = (share * (MILLION + ppm) / (weight * MILLION)).max(share.div_ceil(weight));
                    (number(lo), number(hi))
                }
            }
        };
        let (lo, hi) = (0..fixed.len()).map(band).unzip();
        Bands { lo, hi }
    }

    /// The figures of every shard, how far the farthest is, and whether it says so when it is too far.
    fn loads(&self, replay: &Replay, shown: &LoadFigures, bands: &Bands, bound: &Bound, faults: &mut Faults) {
        let (mut before, mut after) = (vec![0_u64; self.weights.len()], vec![0_u64; self.weights.len()]);
        for slot in Slot::all() {
            for (table, sums) in [(self.input.table, &mut before), (&replay.after, &mut after)] {
                if let Some(owner) = table.owner(slot) {
                    sums[usize::from(table.index_of(owner).expect("listed"))] += self.loads[slot.index()];
                }
            }
        }
        if !shown.shards.iter().map(|load| &load.shard).eq(self.input.table.shards()) {
            return faults.add("load: it does not list every shard once, ascending by id");
        }
        let mut inside = true;
        for (i, load) in shown.shards.iter().enumerate() {
            let id = &load.shard;
            faults.differ(format_args!("load: {id} before"), load.before, before[i]);
            faults.differ(format_args!("load: {id} after"), load.after, after[i]);
            faults.differ(format_args!("load: {id} lo"), load.lo, bands.lo[i]);
            faults.differ(format_args!("load: {id} hi"), load.hi, bands.hi[i]);
            faults.differ(format_args!("load: {id} shed"), load.shed, bound.shed[i]);
            faults.differ(format_args!("load: {id} fill"), load.fill, bound.fill[i]);
            inside &= (bands.lo[i]..=bands.hi[i]).contains(&after[i]);
        }
        faults.differ("load: total", shown.total, self.loads.iter().sum());
        faults.differ("load: before, in ppm", shown.before.0, self.farthest(&before));
        let reached = self.farthest(&after);
        faults.differ("load: reached, in ppm", shown.reached.0, reached);
        if !inside && shown.unreached.is_none() {
            faults.add("load: a shard ends outside its band, and the plan does not say why");
        }
        let floor = self.floor();
        faults.differ("load: floor, in ppm", shown.floor.0, floor);
        if floor > reached {
            faults.add(format_args!("load: {floor} ppm is no floor, for {reached} ppm is reached"));
        }
    }

    fn whole(&self) -> (u128, u128) {
        let rests = |slot: usize| !self.movable[slot] && self.owner(slot).is_some_and(|owner| self.weights[owner] == 0);
        let load = (0..SLOT_COUNT).filter(|&slot| !rests(slot)).map(|slot| u128::from(self.loads[slot])).sum();
        (load, self.weights.iter().sum::<u128>().max(1))
    }

    /// How far the farthest shard is from its share by weight, in parts per million, rounded up.
    fn farthest(&self, after: &[u64]) -> u32 {
        let (load, unit) = self.whole();
        let away = |(weight, &after): (&u128, &u64)| {
            let (share, has) = (load * weight, u128::from(after) * unit);
            let gap = has.max(share) - has.min(share);
            if share == 0 || gap < unit { 0 } else { (gap * MILLION).div_ceil(share) }
        };
        u32::try_from(self.weights.iter().zip(after).map(away).max().unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// Pigeonholes: `j` slots on `j` shards, or two on one.
    fn floor(&self) -> u32 {
        let (load, unit) = self.whole();
        let mut weights: Vec<u128> = self.weights.iter().copied().filter(|weight| *weight > 0).collect();
        weights.sort_unstable();
        weights.reverse();
        if load == 0 || weights.is_empty() {
            return 0;
        }
        let above = |amount: u128, weight: u128| (amount * unit * MILLION / (load * weight)).saturating_sub(MILLION);
        let held = self.held(&vec![None; SLOT_COUNT]);
        let pins = (0..held.len()).filter(|&i| self.weights[i] > 0).map(|i| above(held[i].into(), self.weights[i]));
        let mut slots: Vec<u64> = (0..SLOT_COUNT)
            .filter(|&s| self.movable[s] || self.owner(s).is_none_or(|owner| self.weights[owner] > 0))
            .map(|s| self.loads[s])
            .collect();
        slots.sort_unstable();
        let hottest = slots.into_iter().rev().take(weights.len() + 1).enumerate();
        let crowded = hottest.map(|(j, load)| {
            let pair = above(2 * u128::from(load), weights[0]);
            weights.get(j).map_or(pair, |&weight| pair.min(above(load.into(), weight)))
        });
        u32::try_from(crowded.chain(pins).max().unwrap_or(0)).unwrap_or(u32::MAX)
    }
}
