//! A search with a fixed number of steps for plans above their bound. Each trial takes back what some shards give and take, sends one
//! slot another way (a large one to a shard that has to make room for it, or one that fits), levels again, and keeps what
//! comes of it unless it is worse. The dice are seeded: the same table gives the same plan.

use super::repair;
use super::solve::Book;

/// Slots that may change hands in all, and what a trial counts for beside those.
const HANDS_MAX: usize = 24_000;
const TRIAL: usize = 24;

/// Largest slots of a shard that are tried elsewhere, and how many shards each.
const SLOTS_TRIED: usize = 4;
const TAKERS_TRIED: usize = 4;

/// Searches until the plan is as good as its bound, or the steps are spent.
pub(super) fn improve(book: &mut Book<'_>, bound: u32) {
    let mut search = Search { spent: 0, dice: 0x9E37_79B9_7F4A_7C15, bound };
    while search.goes_on(book) && search.large_slots(book) {}
    while search.goes_on(book) {
        search.at_random(book);
    }
}

struct Search {
    spent: usize,
    dice: u64,
    bound: u32,
}

impl Search {
    fn goes_on(&self, book: &Book<'_>) -> bool {
        let (outside, moves) = book.cost();
        self.spent < HANDS_MAX && moves > 0 && (outside > 0 || moves > self.bound)
    }

    /// xorshift*.
    fn below(&mut self, n: usize) -> usize {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        let n = u64::try_from(n).expect("a few");
        usize::try_from((self.dice.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % n).expect("below n")
    }

    /// The large slots of the shards that give most slots, to whom they cost least. Whether one was worth it.
    fn large_slots(&mut self, book: &mut Book<'_>) -> bool {
        let mut given = vec![0_u32; book.load.len()];
        for (slot, _) in moved(book) {
            if let Some(home) = book.home(slot) {
                given[home] += 1;
            }
        }
        let mut givers: Vec<usize> = (0..given.len()).filter(|&shard| given[shard] > 1).collect();
        givers.sort_by_key(|&shard| (std::cmp::Reverse(given[shard]), shard));
        for giver in givers {
            let largest: Vec<u16> = book.own[giver].iter().rev().take(SLOTS_TRIED).map(|(_, slot)| *slot).collect();
            for slot in largest {
                for taker in cheapest_takers(book, giver, slot) {
                    if !self.goes_on(book) {
                        return false;
                    }
                    let before = book.cost();
                    if self.trial(book, &[giver, taker], |_, _| Some((slot, taker))) && book.cost() < before {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// One slot of a shard that gives some already, to another shard.
    fn at_random(&mut self, book: &mut Book<'_>) {
        let moved = moved(book);
        let (slot, now) = moved[self.below(moved.len())];
        let (other, taker) = moved[self.below(moved.len())];
        let Some(giver) = book.home(slot) else { return self.spent += 1 };
        let mut shards = vec![giver, now, taker];
        if self.below(2) == 0 {
            shards.extend(book.home(other));
        }
        let (fits, back) = (self.below(4) > 0, self.below(4));
        let taker = if giver == taker { now } else { taker };
        self.trial(book, &shards, |book, giver_slots| {
            let most = book.may_give(giver)?.min(book.may_take(taker)?);
            let end = if fits { giver_slots.partition_point(|(load, _)| *load <= most) } else { giver_slots.len() };
            let slot = giver_slots[..end].iter().rev().nth(back)?.1;
            Some((slot, taker))
        });
    }

    /// Takes back what these shards give and take, sends a slot of the first where it is told, levels, and keeps that unless it
    /// is worse.
    fn trial(
        &mut self,
        book: &mut Book<'_>,
        shards: &[usize],
        first: impl FnOnce(&Book<'_>, &[(u64, u16)]) -> Option<(u16, usize)>,
    ) -> bool {
        let (before, mark) = (book.cost(), book.journal.len());
        for (slot, now) in moved(book) {
            if let Some(home) = book.home(slot).filter(|home| shards.contains(home) || shards.contains(&now)) {
                if !repair::is_fixed(book, slot) {
                    book.hand(slot, home);
                }
            }
        }
        if let Some((slot, to)) = first(book, &book.own[shards[0]]) {
            book.hand(slot, to);
        }
        book.level();
        repair::swaps(book);
        repair::undo(book);
        self.spent += book.journal.len() - mark + TRIAL;
        let kept = book.cost() <= before;
        if !kept {
            book.revert(mark);
        }
        kept
    }
}

/// Slots that are not where they were, and who has them.
fn moved(book: &Book<'_>) -> Vec<(u16, usize)> {
    let slots = (0_u16..).zip(book.owner.iter().zip(&book.survey.owners));
    slots.filter(|(_, (now, before))| now != before).map(|(slot, (now, _))| (slot, usize::from(*now))).collect()
}

/// To whom a slot costs the fewest moves beside its own.
fn cheapest_takers(book: &Book<'_>, giver: usize, slot: u16) -> Vec<usize> {
    let load = book.loads[usize::from(slot)];
    let cost = |shard: usize| {
        let (mut above, mut count) = ((book.load[shard] + load).saturating_sub(book.bands.hi[shard]), 0_u32);
        for (part, _) in book.own[shard].iter().rev() {
            if above == 0 {
                break;
            }
            above = above.saturating_sub(*part);
            count += 1;
        }
        (count, above, book.load[shard], shard)
    };
    let takers = (0..book.load.len()).filter(|&shard| shard != giver && book.may_take(shard).is_some());
    let mut costs: Vec<_> = takers.map(cost).collect();
    costs.sort_unstable();
    costs.into_iter().take(TAKERS_TRIED).map(|(.., shard)| shard).collect()
}
