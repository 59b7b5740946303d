//! A search with a fixed number of steps for plans above their bound. Each trial takes back what some shards give and take, sends one
//! slot another way (a large one to a shard that has to make room for it, or one that fits), levels again, and keeps what
//! comes of it unless it is worse. The dice are seeded: the same table gives the same plan.

use super::repair;
use super::solve::Book;

/// Slots that may change hands in all, so many for each slot there is, and what a trial counts for beside those.
const HANDS_MAX: usize = 32_000;
const HANDS_A_SLOT: usize = 500;
const TRIAL: usize = 24;
const SWAPS: usize = 60;

/// Trials with large slots in vain, one after the other, before those at random.
const VAIN_MAX: u32 = 48;

/// Shards out of their bands after levelling that swaps are tried for.
const STUCK_MAX: usize = 2;

/// Largest slots of a shard that are tried elsewhere, and how many shards each.
const SLOTS_TRIED: usize = 4;
const TAKERS_TRIED: usize = 4;

/// Searches until the plan is as good as its bound, or the steps are spent.
pub(super) fn improve(book: &mut Book<'_>, bound: u32) {
    let bound = (bound + book.survey.unassigned) as usize;
    let waste = Waste::new(book);
    let most = HANDS_MAX.min(HANDS_A_SLOT * book.owner.len());
    let mut search = Search { spent: 0, most, dice: 0x9E37_79B9_7F4A_7C15, bound, waste, fresh: false };
    while search.large_slots(book) {}
    while search.goes_on(book) {
        search.at_random(book);
    }
}

struct Search {
    spent: usize,
    most: usize,
    dice: u64,
    /// Slots that move at least, and those without an owner.
    bound: usize,
    waste: Waste,
    /// Whether that is of the plan as it is.
    fresh: bool,
}

impl Search {
    fn goes_on(&self, book: &Book<'_>) -> bool {
        let (slots, outside, moves) = book.cost();
        self.spent < self.most && moves > 0 && (slots > 0 || outside > 0 || moves > self.bound)
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
        let (mut given, mut tried) = (vec![0_u32; book.load.len()], 0);
        for &slot in &book.moved {
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
                    tried += 1;
                    if !self.goes_on(book) || self.spent > self.most / 2 || tried > VAIN_MAX {
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

    /// A slot of a shard that gives more slots than it would have to, to one that takes more than it would have to; now and then
    /// any that give and take.
    fn at_random(&mut self, book: &mut Book<'_>) {
        let moved = moved(book);
        let (wasting, any) = (self.below(3) > 0, moved[self.below(moved.len())]);
        let (other, other_taker) = moved[self.below(moved.len())];
        if !self.fresh {
            self.waste.note(book);
            self.fresh = true;
        }
        let one_of = |search: &mut Self, of: fn(&Waste) -> &Vec<usize>| {
            let count = of(&search.waste).len();
            let at = (wasting && count > 0).then(|| search.below(count))?;
            Some(of(&search.waste)[at])
        };
        let giver = one_of(self, |waste| &waste.givers).or_else(|| book.home(any.0));
        let taker = one_of(self, |waste| &waste.takers).unwrap_or(other_taker);
        let Some(giver) = giver.filter(|giver| *giver != taker && book.takes_part(taker)) else {
            self.spent += 2;
            return;
        };
        let mut shards = vec![giver, taker];
        match self.below(4) {
            0 => shards.extend(book.home(other)),
            1 => shards.push(other_taker),
            _ => {}
        }
        let (fits, back) = (self.below(8) > 0, self.below(4));
        self.trial(book, &shards, |book, slots| {
            let most = book.may_give(giver)?.min(book.may_take(taker)?);
            let end = if fits { slots.partition_point(|(load, _)| *load <= most) } else { slots.len() };
            let (load, slot) = *slots[..end].iter().rev().nth(back).or(slots[..end].first())?;
            (!fits || load >= book.excess(giver).max(book.deficit(taker)) || back == 3).then_some((slot, taker))
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
            let home = book.home(slot).filter(|home| shards.contains(home) || shards.contains(&now));
            if let Some(home) = home.filter(|_| !repair::is_fixed(book, slot)) {
                book.hand(slot, home);
            }
        }
        if let Some((slot, to)) = first(book, &book.own[shards[0]]) {
            book.hand(slot, to);
        }
        book.level();
        // Swaps look at every partner: only for a few.
        let (over, under) = book.outside();
        let stuck = over.len() + under.len();
        let hopeful = before.1 > 0 || stuck <= STUCK_MAX;
        if hopeful && stuck > 0 {
            let length = book.journal.len();
            repair::swaps(book);
            self.spent += SWAPS * (stuck + book.journal.len() - length);
        }
        if hopeful {
            repair::counts(book);
            let mut touched = vec![false; book.load.len()];
            for &(slot, from) in &book.journal[mark..] {
                touched[usize::from(from)] = true;
                touched[usize::from(book.owner[usize::from(slot)])] = true;
            }
            repair::undo(book, |home, now| touched[home] || touched[now]);
        }
        self.spent += book.journal.len() - mark + TRIAL;
        let kept = hopeful && book.cost() <= before;
        if kept {
            self.fresh = false;
        } else {
            book.revert(mark);
        }
        kept
    }
}

/// Shards that give, or take, more slots than they would have to by themselves.
struct Waste {
    givers: Vec<usize>,
    takers: Vec<usize>,
    /// What each would have to give, and take.
    forced: Vec<(u32, u32)>,
}

impl Waste {
    fn new(book: &Book<'_>) -> Self {
        let before = Book::loads(book.survey, book.loads, &book.survey.owners);
        let forced = |shard: usize| {
            let mut excess = before[shard].saturating_sub(book.bands.hi[shard]);
            let mut gives = 0;
            for (load, _) in book.own[shard].iter().rev() {
                if excess == 0 {
                    break;
                }
                excess = excess.saturating_sub(*load);
                gives += 1;
            }
            (gives, u32::from(before[shard] < book.bands.lo[shard]))
        };
        Self { givers: Vec::new(), takers: Vec::new(), forced: (0..before.len()).map(forced).collect() }
    }

    fn note(&mut self, book: &Book<'_>) {
        let mut counts = vec![(0, 0); self.forced.len()];
        for (slot, now) in moved(book) {
            counts[now].1 += 1;
            if let Some(home) = book.home(slot) {
                counts[home].0 += 1;
            }
        }
        let above =
            |of: fn(&(u32, u32)) -> u32| (0..counts.len()).filter(|&i| of(&counts[i]) > of(&self.forced[i])).collect();
        (self.givers, self.takers) = (above(|c| c.0), above(|c| c.1));
    }
}

/// Slots that are not where they were, and who has them.
fn moved(book: &Book<'_>) -> Vec<(u16, usize)> {
    book.moved.iter().map(|&slot| (slot, usize::from(book.owner[usize::from(slot)]))).collect()
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
