//! What it costs the taker of a slot to make room, and its giver to fill the gap: the prices of the lower bound, and the
//! parts that slots count as.

use std::cmp::Reverse;

use super::bound::Ground;

/// No slot has a higher price where it arrives, and where it leaves none has one above the most slots of a shard that may
/// leave it, within these bounds: it stands for any price above.
const PRICE_MAX: usize = 40;
const LEAVING_PRICE_MAX: usize = 2000;

/// Prices rise as those of others do. What two rounds find is a bound, and nearly all there is.
const ROUNDS: u32 = 2;

/// The parts that a shard may count with, largest first.
pub(super) trait Parts {
    /// The next part at a place, and the place after it.
    fn next(&self, shard: usize, at: usize) -> Option<(u64, usize)>;
}

/// A slot that may move.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub load: u64,
    pub price: u32,
    pub owner: u16,
}

impl Item {
    /// The slot as `price + 1` parts, rounded up.
    fn parts(self) -> impl Iterator<Item = u64> {
        let count = self.price as usize + 1;
        std::iter::repeat_n(self.load.div_ceil(count as u64), if self.load > 0 { count } else { 0 })
    }
}

/// Slots by the shard that they leave.
pub(super) struct Leaving {
    pub items: Vec<Vec<Item>>,
    parts: Vec<Vec<u64>>,
}

impl Leaving {
    pub fn new(ground: &Ground<'_>) -> Self {
        let of = |shard: usize| ground.ranking.movable[shard].iter().map(|&slot| ground.item(slot)).collect();
        let items: Vec<Vec<Item>> = (0..ground.survey.shards.len()).map(of).collect();
        let parts = items.iter().map(|items| parts(items)).collect();
        Self { items, parts }
    }

    /// What it takes to empty a shard.
    pub fn all(&self, shard: usize) -> u32 {
        self.items[shard].iter().map(|item| item.price + 1).sum()
    }

    /// Finds prices; whether there are any.
    pub fn price(&mut self, ground: &Ground<'_>) -> bool {
        let mut any = false;
        for _ in 0..ROUNDS {
            let levels = self.levels(ground);
            if levels.is_empty() {
                break;
            }
            for (items, parts_of) in self.items.iter_mut().zip(&mut self.parts) {
                let mut dearer = false;
                for item in items.iter_mut().take_while(|item| item.load >= levels[0].1.max(1)) {
                    let price = levels.partition_point(|level| level.of(item.owner) <= item.load);
                    let price = u32::try_from(price).expect("at most the highest").max(item.price);
                    dearer |= price > item.price;
                    item.price = price;
                }
                if dearer {
                    *parts_of = parts(items);
                    any = true;
                }
            }
        }
        any
    }

    /// From which load on a slot has the price 1, 2 and so on.
    fn levels(&self, ground: &Ground<'_>) -> Vec<Level> {
        let largest = self.items.iter().filter_map(|items| items.first()).map(|item| item.load).max().unwrap_or(0);
        // One above its band begins after the parts that it has to give anyway.
        let taker = |i: usize| {
            let (mut spare, mut at) = (ground.room[i], 0);
            let mut covered = 0;
            while covered < ground.excess[i]
                && let Some(part) = self.parts[i].get(at)
            {
                (covered, at) = (covered + part, at + 1);
                spare = covered.saturating_sub(ground.excess[i]);
            }
            (i, spare, at)
        };
        let mut takers: Vec<(usize, u64, usize)> =
            (0..self.items.len()).filter(|&i| ground.takes(i)).map(taker).collect();
        let most = takers.iter().map(|(shard, ..)| self.items[*shard].len()).max().unwrap_or(0);
        let mut levels = Vec::new();
        for _ in 0..most.clamp(PRICE_MAX, LEAVING_PRICE_MAX) {
            let mut level = Level(0, 0, None);
            for (shard, load, at) in &mut takers {
                // A shard that has nothing left to give can make no more room.
                let parts = &self.parts[*shard];
                *load += parts.get(*at).copied().unwrap_or(u64::from(*at == parts.len()));
                *at += 1;
                level.note(*load, *shard);
            }
            if level.1 > largest || takers.is_empty() {
                break;
            }
            levels.push(level);
        }
        levels
    }
}

impl Parts for Leaving {
    fn next(&self, shard: usize, at: usize) -> Option<(u64, usize)> {
        self.parts[shard].get(at).map(|&part| (part, at + 1))
    }
}

/// The largest load that some shard takes at less than a price, that of any other shard, and who the first is.
struct Level(u64, u64, Option<usize>);

impl Level {
    fn note(&mut self, load: u64, shard: usize) {
        if self.2.is_none() || load > self.0 {
            *self = Self(load, self.0, Some(shard));
        } else {
            self.1 = self.1.max(load);
        }
    }

    /// The same for the slots of a shard, which cannot go to it.
    fn of(&self, owner: u16) -> u64 {
        if self.2 == Some(usize::from(owner)) { self.1 } else { self.0 }
    }
}

/// Slots by where they may arrive.
pub(super) struct Arriving {
    items: Vec<Item>,
    parts: Vec<(u64, u16)>,
}

impl Arriving {
    pub fn new(ground: &Ground<'_>) -> Self {
        let mut items: Vec<Item> = Vec::with_capacity(ground.ranking.slots.len());
        let pinned = |slot: u16| ground.survey.pinned.contains(crate::domain::Slot::at(usize::from(slot)));
        items.extend(ground.ranking.slots.iter().filter(|&&slot| !pinned(slot)).map(|&slot| ground.item(slot)));
        let mut arriving = Self { items, parts: Vec::new() };
        arriving.cut();
        arriving
    }

    fn cut(&mut self) {
        let parts = self.items.iter().flat_map(|item| item.parts().map(|part| (part, item.owner)));
        self.parts = parts.collect();
        if self.items.iter().any(|item| item.price > 0) {
            self.parts.sort_by_key(|(part, ..)| Reverse(*part));
        }
    }

    /// Finds prices; whether there are any.
    pub fn price(&mut self, ground: &Ground<'_>) -> bool {
        let mut any = false;
        for _ in 0..ROUNDS {
            let mut levels: Vec<Option<Vec<u64>>> = vec![None; ground.survey.shards.len()];
            let mut prices = Vec::new();
            for (index, item) in self.items.iter().enumerate() {
                let Some(&gift) = ground.gift.get(usize::from(item.owner)).filter(|&&gift| item.load > gift) else {
                    continue;
                };
                let owner = usize::from(item.owner);
                // The first slot of an owner is its largest.
                let levels =
                    levels[owner].get_or_insert_with(|| self.levels(owner, gift, ground.deficit[owner], item.load));
                let price = levels.partition_point(|level| *level <= item.load);
                prices.push((index, u32::try_from(price).expect("at most the highest")));
            }
            let mut dearer = false;
            for (index, price) in prices {
                let item = &mut self.items[index];
                dearer |= price > item.price;
                item.price = item.price.max(price);
            }
            if !dearer {
                break;
            }
            self.cut();
            any = true;
        }
        any
    }

    /// From which load on a slot of this owner has the price 1, 2 and so on; the last is above all.
    fn levels(&self, owner: usize, gift: u64, deficit: u64, largest: u64) -> Vec<u64> {
        let (mut levels, mut load, mut at) = (Vec::new(), gift, 0);
        // An owner below its band begins after the parts that it has to take anyway.
        let mut covered = 0;
        while covered < deficit
            && let Some((part, next)) = self.next(owner, at)
        {
            (covered, at) = (covered + part, next);
            load = covered.saturating_sub(deficit);
        }
        while levels.len() < PRICE_MAX && load <= largest {
            (load, at) = self.next(owner, at).map_or((u64::MAX, at), |(part, next)| (load + part, next));
            levels.push(load);
        }
        levels
    }
}

impl Parts for Arriving {
    fn next(&self, shard: usize, at: usize) -> Option<(u64, usize)> {
        let mut rest = self.parts.iter().enumerate().skip(at);
        rest.find(|(_, (_, owner))| usize::from(*owner) != shard).map(|(index, (part, _))| (*part, index + 1))
    }
}

impl Ground<'_> {
    fn item(&self, slot: u16) -> Item {
        let slot = usize::from(slot);
        Item { load: self.loads[slot], price: 0, owner: self.survey.owners[slot] }
    }
}

/// The parts of these slots, largest first.
pub(super) fn parts(items: &[Item]) -> Vec<u64> {
    let mut parts: Vec<u64> = items.iter().flat_map(|item| item.parts()).collect();
    if items.iter().any(|item| item.price > 0) {
        parts.sort_unstable_by_key(|part| Reverse(*part));
    }
    parts
}
