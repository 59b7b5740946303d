//! The lower bound on moves. Two ways of counting, and the larger number holds: every move is counted where its slot
//! leaves, or where it arrives.
//!
//! *Leaves.* With `k` moves a shard gives at most its `k` largest slots, and no more than it may without falling out of its
//! band. So a shard above its band needs so many moves to shed its excess, and all of them together so many to give what
//! the shards below their bands lack. *Arrives*: the same with the largest slots there are, and what shards have room for.
//!
//! *Prices.* A slot for which no shard has room makes its taker give something away first. Such a slot has a price: the
//! fewest moves that it costs its taker, whoever that is. Its giver is charged 1 + price, its taker −price: over all shards
//! that adds up to the number of moves still. Let `F(v)` be the least charge, in fractions of slots, at which a shard
//! gives the load `v`; it is convex and 0 up to 0. A taker of slots `I` with room `r` for its net gift `v ≥ −r` is charged at
//! least `F(v + l(I)) − price(I)`, which is `F(v)` at least, as long as `price(s) ≤ F(l(s) − r)` for each: convexity lets
//! the increments add up. Prices raise `F`, pointwise and in every increment (what covers a load is nowhere cheaper), so
//! prices found with lower ones hold. Who is above the band to begin with has `v ≥` the excess instead: its increments begin
//! there, at the parts that it has to give anyway. Prices are whole numbers, so that a charge is one and may be rounded up. A
//! slot at the price `p` counts as `p + 1` parts, rounded up, at the charge 1 each: that is `F` or less. Arrivals likewise: a
//! slot that leaves its owner below the band costs it the moves that fill the gap, beyond those that it needs anyway.
//! `whole` looks at shards with large slots more closely.
//!
//! Nothing here relies on where slots hotter than a band are to go: other owners may be within the bands as well.
//! What `min_slots` and `max_slots` force is counted with prices of 0 only.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::bands::LoadBands;
use super::price::{Arriving, Leaving, Parts};
use super::whole::Offers;
use crate::domain::Slot;
use crate::plan::survey::Survey;

/// The slots, hottest first, then by number; those that are not pinned by owner as well.
pub(super) struct Ranking {
    pub slots: Vec<u16>,
    /// By shard, and then those without an owner.
    pub movable: Vec<Vec<u16>>,
    /// The load of each shard, and of nobody.
    pub load: Vec<u64>,
}

impl Ranking {
    pub fn new(survey: &Survey<'_>, loads: &[u64]) -> Self {
        let mut ranked: Vec<(Reverse<u64>, u16)> =
            (0_u16..).zip(&loads[..survey.owners.len()]).map(|(slot, &load)| (Reverse(load), slot)).collect();
        ranked.sort_unstable();
        let slots: Vec<u16> = ranked.into_iter().map(|(_, slot)| slot).collect();
        let mut movable = vec![Vec::new(); survey.shards.len() + 1];
        for &slot in slots.iter().filter(|&&slot| !survey.pinned.contains(Slot::at(usize::from(slot)))) {
            movable[usize::from(survey.owners[usize::from(slot)])].push(slot);
        }
        let mut load = vec![0_u64; survey.shards.len() + 1];
        survey.owners.iter().zip(loads).for_each(|(&owner, load_of)| load[usize::from(owner)] += load_of);
        Self { slots, movable, load }
    }
}

/// The bound and its parts.
pub(super) struct Bound {
    /// Moves that are counted where they leave.
    pub shed: Vec<u32>,
    /// Moves that are counted where they arrive; slots without an owner among them.
    pub fill: Vec<u32>,
    /// `max(Σ shed, Σ fill − unassigned)`.
    pub moves: u32,
}

impl Bound {
    pub fn of(survey: &Survey<'_>, loads: &[u64], ranking: &Ranking, bands: &LoadBands) -> Self {
        let ground = Ground::new(survey, loads, ranking, bands);
        let mut leaving = Leaving::new(&ground);
        let mut arriving = Arriving::new(&ground);
        let sum = |of: &[u32]| of.iter().sum::<u32>();
        let larger = |a: Vec<u32>, b: Vec<u32>| if sum(&b) > sum(&a) { b } else { a };
        let plain = (ground.shed(&leaving, true), ground.fill(&arriving, true));
        let shed = if leaving.price(&ground) { larger(plain.0, ground.shed(&leaving, false)) } else { plain.0 };
        let fill = if arriving.price(&ground) { larger(plain.1, ground.fill(&arriving, false)) } else { plain.1 };
        let moves = sum(&shed).max(sum(&fill).saturating_sub(survey.unassigned));
        Self { shed, fill, moves }
    }
}

/// What the bound is made of, by shard.
pub(super) struct Ground<'a> {
    pub survey: &'a Survey<'a>,
    pub loads: &'a [u64],
    pub ranking: &'a Ranking,
    /// What is above the band, and below.
    pub excess: Vec<u64>,
    pub deficit: Vec<u64>,
    /// What may go, and come, without another slot the other way.
    pub gift: Vec<u64>,
    pub room: Vec<u64>,
}

impl<'a> Ground<'a> {
    fn new(survey: &'a Survey<'a>, loads: &'a [u64], ranking: &'a Ranking, bands: &LoadBands) -> Self {
        let each = |of: &dyn Fn(usize, u64) -> u64| (0..survey.shards.len()).map(|i| of(i, ranking.load[i])).collect();
        Self {
            survey,
            loads,
            ranking,
            excess: each(&|i, load| load.saturating_sub(bands.hi[i])),
            deficit: each(&|i, load| bands.lo[i].saturating_sub(load)),
            gift: each(&|i, load| load.saturating_sub(bands.lo[i])),
            room: each(&|i, load| bands.hi[i].saturating_sub(load)),
        }
    }

    /// Whether a shard may take anything that has load.
    pub fn takes(&self, shard: usize) -> bool {
        self.survey.bounds[shard].weight > 0
    }

    fn shed(&self, leaving: &Leaving, counts: bool) -> Vec<u32> {
        let unowned = *self.ranking.load.last().expect("nobody has an entry");
        let need = self.deficit.iter().sum::<u64>().saturating_sub(unowned);
        let offers = (!counts).then(|| Offers::new(leaving));
        fewest(leaving, &self.excess, &self.gift, need, |i| {
            let surplus = self.survey.counts[i].saturating_sub(self.survey.bounds[i].ub);
            match (counts, self.survey.draining(i)) {
                (true, _) => surplus,
                (false, true) => leaving.all(i),
                (false, false) => offers.as_ref().map_or(0, |offers| offers.least(leaving, self, i)),
            }
        })
    }

    fn fill(&self, arriving: &Arriving, counts: bool) -> Vec<u32> {
        let unowned = *self.ranking.load.last().expect("nobody has an entry");
        let need = self.excess.iter().sum::<u64>() + unowned;
        fewest(arriving, &self.deficit, &self.room, need, |i| {
            if counts { self.survey.bounds[i].lb.saturating_sub(self.survey.counts[i]) } else { 0 }
        })
    }
}

/// The fewest parts of each shard that are worth its own amount at least, and `need` in all where no shard counts for
/// more than its most: what is forced, then the largest gains.
fn fewest(parts: &impl Parts, own: &[u64], most: &[u64], need: u64, least: impl Fn(usize) -> u32) -> Vec<u32> {
    struct Taken {
        count: u32,
        sum: u64,
        at: usize,
    }
    let forced = |i: usize| {
        let (least, mut taken) = (least(i), Taken { count: 0, sum: 0, at: 0 });
        while taken.sum < own[i] || taken.count < least {
            let Some((part, at)) = parts.next(i, taken.at) else {
                taken.count = taken.count.max(least);
                break;
            };
            taken = Taken { count: taken.count + 1, sum: taken.sum + part, at };
        }
        taken
    };
    let mut taken: Vec<Taken> = (0..own.len()).map(forced).collect();
    let mut covered: u64 = taken.iter().zip(most).map(|(taken, most)| taken.sum.min(*most)).sum();
    let gain = |i: usize, taken: &Taken| {
        let (part, at) = parts.next(i, taken.at).filter(|_| taken.sum < most[i])?;
        Some((part.min(most[i] - taken.sum), Reverse(i), part, at))
    };
    let mut gains = BinaryHeap::new();
    if covered < need {
        gains.extend(taken.iter().enumerate().filter_map(|(i, taken)| gain(i, taken)));
    }
    while covered < need
        && let Some((gained, Reverse(i), part, at)) = gains.pop()
    {
        covered += gained;
        taken[i] = Taken { count: taken[i].count + 1, sum: taken[i].sum + part, at };
        gains.extend(gain(i, &taken[i]));
    }
    taken.into_iter().map(|taken| taken.count).collect()
}
