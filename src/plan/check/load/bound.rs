//! The lower bound of a load plan, slot by slot and shard by shard from its definition (`plan/load/bound.rs` proves it): the
//! price of each slot by looking at everyone who could take it, what is forced from sorted lists, the rest from one
//! sorted list of all gains.

use super::super::Input;
use super::whole::{self, Giver, Priced};
use super::{Bands, Looked};
use crate::domain::{SLOT_COUNT, ShardState};

/// Prices above count as this; those of slots that leave, as the most slots that a taker may give, between the two.
const PRICE_MAX: usize = 40;
const LEAVING_PRICE_MAX: usize = 2000;
const ROUNDS: usize = 2;

/// Charges where slots leave, where they arrive, and the fewest moves.
pub(super) struct Bound {
    pub shed: Vec<u32>,
    pub fill: Vec<u32>,
    pub moves: u32,
}

/// Loads and counts as they are.
struct Now<'a> {
    looked: &'a Looked<'a>,
    bands: &'a Bands,
    owner: Vec<Option<usize>>,
    load: Vec<u64>,
    count: Vec<u32>,
    pinned: Vec<u32>,
    unowned: (u32, u64),
}

pub(super) fn bound(looked: &Looked<'_>, bands: &Bands) -> Bound {
    let now = Now::new(looked, bands);
    let total = |of: &[u32]| of.iter().sum::<u32>();
    let mut shed = now.shed(&vec![0; SLOT_COUNT], true);
    let mut fill = now.fill(&vec![0; SLOT_COUNT], true);
    let (mut leaving, mut arriving) = (vec![0; SLOT_COUNT], vec![0; SLOT_COUNT]);
    for _ in 0..ROUNDS {
        leaving = now.prices_to_leave(&leaving);
        arriving = now.prices_to_arrive(&arriving);
    }
    let larger = |a: Vec<u32>, b: Vec<u32>| if total(&b) > total(&a) { b } else { a };
    if leaving.iter().any(|price| *price > 0) {
        shed = larger(shed, now.shed(&leaving, false));
    }
    if arriving.iter().any(|price| *price > 0) {
        fill = larger(fill, now.fill(&arriving, false));
    }
    let moves = total(&shed).max(total(&fill).saturating_sub(now.unowned.0));
    Bound { shed, fill, moves }
}

impl<'a> Now<'a> {
    fn new(looked: &'a Looked<'a>, bands: &'a Bands) -> Self {
        let shards = looked.weights.len();
        let owner: Vec<Option<usize>> = (0..SLOT_COUNT).map(|slot| looked.owner(slot)).collect();
        let (mut load, mut count, mut pinned) = (vec![0; shards], vec![0; shards], vec![0; shards]);
        let mut unowned = (0, 0);
        for slot in 0..SLOT_COUNT {
            if let Some(owner) = owner[slot] {
                load[owner] += looked.loads[slot];
                count[owner] += 1;
                pinned[owner] += u32::from(!looked.movable[slot]);
            } else {
                unowned = (unowned.0 + 1, unowned.1 + looked.loads[slot]);
            }
        }
        Self { looked, bands, owner, load, count, pinned, unowned }
    }

    fn shards(&self) -> std::ops::Range<usize> {
        0..self.load.len()
    }

    fn room(&self, shard: usize) -> u64 {
        self.bands.hi[shard].saturating_sub(self.load[shard])
    }

    fn gift(&self, shard: usize) -> u64 {
        self.load[shard].saturating_sub(self.bands.lo[shard])
    }

    fn excess(&self, shard: usize) -> u64 {
        self.load[shard].saturating_sub(self.bands.hi[shard])
    }

    fn deficit(&self, shard: usize) -> u64 {
        self.bands.lo[shard].saturating_sub(self.load[shard])
    }

    fn is_draining(&self, shard: usize) -> bool {
        self.looked.input.shards[shard].state == ShardState::Draining
    }

    /// Fewest and most slots of a shard.
    fn counts(&self, shard: usize) -> (u32, u32) {
        let Input { shards, .. } = self.looked.input;
        let held = self.pinned[shard];
        let least = shards[shard].min_slots.map_or(0, u32::from).max(held);
        match (self.is_draining(shard), self.looked.weights[shard]) {
            (true, _) => (held, held),
            (false, 0) => (least, least),
            (false, _) => (least, shards[shard].max_slots.map_or(16384, u32::from)),
        }
    }

    /// The slots of each shard that may leave it, hottest first.
    fn leaving(&self) -> Vec<Vec<usize>> {
        let mut of = vec![Vec::new(); self.load.len()];
        for &slot in &self.looked.hottest {
            if let Some(owner) = self.owner[slot] {
                of[owner].push(slot);
            }
        }
        of
    }

    /// A slot at its price, as so many equal parts.
    fn parts(&self, slot: usize, price: usize) -> impl Iterator<Item = u64> + use<> {
        let load = self.looked.loads[slot];
        let parts = if load == 0 { 0 } else { price + 1 };
        (0..parts).map(move |_| load.div_ceil(price as u64 + 1))
    }

    fn parts_of(&self, slots: &[usize], prices: &[usize]) -> Vec<u64> {
        let mut parts: Vec<u64> = slots.iter().flat_map(|&slot| self.parts(slot, prices[slot])).collect();
        parts.sort_by(|a, b| b.cmp(a));
        parts
    }

    /// Of each slot, the fewest parts that whoever takes it can do without giving beside what they have room for, or beside
    /// those that they have to give anyway.
    fn prices_to_leave(&self, old: &[usize]) -> Vec<usize> {
        let leaving = self.leaving();
        let mut takers: Vec<usize> = self.shards().filter(|&i| self.looked.weights[i] > 0).collect();
        takers.sort_by_key(|&taker| std::cmp::Reverse(self.room(taker)));
        let most = takers.iter().map(|&taker| leaving[taker].len()).max().unwrap_or(0);
        let most = most.clamp(PRICE_MAX, LEAVING_PRICE_MAX);
        let sums = |&taker: &usize| {
            let parts = self.parts_of(&leaving[taker], old);
            let mut sum = 0;
            let sums: Vec<u64> = parts.into_iter().map(|part| (sum, sum += part).0 + part).collect();
            let excess = self.excess(taker);
            let forced = if excess == 0 { 0 } else { sums.partition_point(|sum| *sum < excess) + 1 };
            (sums, forced)
        };
        let sums: Vec<(Vec<u64>, usize)> = takers.iter().map(sums).collect();
        let mut prices = old.to_vec();
        for &slot in leaving.iter().flatten().filter(|&&slot| self.looked.loads[slot] > 0 && !takers.is_empty()) {
            let mut least = most;
            for (taker, (sums, forced)) in
                takers.iter().zip(&sums).filter(|(taker, _)| self.owner[slot] != Some(**taker))
            {
                let load = self.looked.loads[slot] + self.excess(*taker);
                let Some(above) = load.checked_sub(self.room(*taker)) else {
                    least = 0;
                    break;
                };
                let impossible = above > sums.last().copied().unwrap_or(0);
                let given = sums.partition_point(|sum| *sum <= above);
                least = least.min(if impossible { most } else { given.saturating_sub(*forced) });
                if least == 0 {
                    break;
                }
            }
            prices[slot] = prices[slot].max(least);
        }
        prices
    }

    /// Of each slot that leaves its owner below the band, the fewest parts that are less than the gap, beside those that
    /// have to come anyway.
    fn prices_to_arrive(&self, old: &[usize]) -> Vec<usize> {
        let parts = self.arriving(old);
        let mut prices = old.to_vec();
        for &slot in &self.looked.hottest {
            let gap = |owner: usize| self.looked.loads[slot].checked_sub(self.gift(owner)).filter(|gap| *gap > 0);
            let Some((owner, gap)) = self.owner[slot].and_then(|owner| Some((owner, gap(owner)?))) else {
                continue;
            };
            let (deficit, mut covered) = (self.deficit(owner), 0);
            let (mut sum, mut count) = (0, 0);
            for part in self.for_shard(&parts, owner) {
                if covered < deficit {
                    covered += part;
                    continue;
                }
                sum += part;
                if covered - deficit + sum > gap || count == PRICE_MAX {
                    break;
                }
                count += 1;
            }
            prices[slot] = prices[slot].max(count);
        }
        prices
    }

    fn arriving(&self, prices: &[usize]) -> Vec<(u64, usize)> {
        let slots = self.looked.hottest.iter();
        let mut parts: Vec<(u64, usize)> =
            slots.flat_map(|&slot| self.parts(slot, prices[slot]).map(move |part| (part, slot))).collect();
        parts.sort_by_key(|(part, _)| std::cmp::Reverse(*part));
        parts
    }

    /// What could come to a shard.
    fn for_shard<'b>(&'b self, parts: &'b [(u64, usize)], shard: usize) -> impl Iterator<Item = u64> + 'b {
        parts.iter().filter(move |(_, slot)| self.owner[*slot] != Some(shard)).map(|(part, _)| *part)
    }

    fn shed(&self, prices: &[usize], counts: bool) -> Vec<u32> {
        let leaving = self.leaving();
        let lacks: u64 = self.shards().map(|i| self.deficit(i)).sum();
        let at_price = |&slot: &usize| Priced { load: self.looked.loads[slot], price: prices[slot] };
        let mut offers: Vec<usize> = leaving.iter().flatten().copied().filter(|&slot| prices[slot] > 0).collect();
        whole::by_worth(&mut offers, at_price);
        let whole = |i: usize| {
            let slots: Vec<Priced> = leaving[i].iter().map(at_price).collect();
            let others = offers.iter().filter(|&&slot| self.owner[slot] != Some(i)).map(at_price);
            let giver = Giver { excess: self.excess(i), slots: &slots, offers: &others.collect::<Vec<_>>() };
            whole::least(&giver, |rest| self.parts_of(&leaving[i][leaving[i].len() - rest.len()..], prices))
        };
        let demand = |i: usize| {
            let all: usize = leaving[i].iter().map(|&slot| prices[slot] + 1).sum();
            let least = match (counts, self.is_draining(i)) {
                (true, _) => self.count[i].saturating_sub(self.counts(i).1),
                (false, true) => u32::try_from(all).expect("at most 2001 parts of 16384 slots"),
                (false, false) => whole(i),
            };
            let own = self.excess(i);
            Demand { least, own, most: self.gift(i), parts: self.parts_of(&leaving[i], prices) }
        };
        fewest(&self.shards().map(demand).collect::<Vec<_>>(), lacks.saturating_sub(self.unowned.1))
    }

    fn fill(&self, prices: &[usize], counts: bool) -> Vec<u32> {
        let all = self.arriving(prices);
        let above: u64 = self.shards().map(|i| self.excess(i)).sum();
        let demand = |i: usize| {
            let least = if counts { self.counts(i).0.saturating_sub(self.count[i]) } else { 0 };
            let (own, most) = (self.deficit(i), self.room(i));
            // More than these nobody looks at.
            let (mut sum, mut seen) = (0, 0);
            let wanted = |part: &u64| {
                let more = sum < most.max(own) || seen < least;
                (sum, seen) = (sum + part, seen + 1);
                more
            };
            Demand { least, own, most, parts: self.for_shard(&all, i).take_while(wanted).collect() }
        };
        fewest(&self.shards().map(demand).collect::<Vec<_>>(), above + self.unowned.1)
    }
}

/// What one shard has to count, and with what.
struct Demand {
    least: u32,
    own: u64,
    most: u64,
    parts: Vec<u64>,
}

/// What is forced, and then the largest gains until the need is covered.
fn fewest(demands: &[Demand], need: u64) -> Vec<u32> {
    let mut counts = Vec::with_capacity(demands.len());
    let (mut covered, mut gains) = (0_u64, Vec::new());
    for (shard, demand) in demands.iter().enumerate() {
        let (mut sum, mut count) = (0_u64, 0_u32);
        let mut rest = demand.parts.iter();
        while (sum < demand.own || count < demand.least)
            && let Some(part) = rest.next()
        {
            (sum, count) = (sum + part, count + 1);
        }
        covered += sum.min(demand.most);
        counts.push(count.max(demand.least));
        for part in rest {
            let gain = (sum + part).min(demand.most) - sum.min(demand.most);
            sum += part;
            if gain == 0 {
                break;
            }
            gains.push((gain, shard));
        }
    }
    gains.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    for (gain, shard) in gains {
        if covered >= need {
            break;
        }
        covered += gain;
        counts[shard] += 1;
    }
    counts
}
