//! Who gets what: slots without a home first, hottest to coldest; then the most loaded gives to the least loaded, the
//! largest slot that fits, or the one nearest half the gap where one move is enough for both.

use std::collections::BTreeSet;

use super::bands::LoadBands;
use super::{pairs, repair, search};
use crate::domain::Slot;
use crate::plan::survey::Survey;

/// Most partners that are looked at before a shard counts as stuck.
const PARTNERS_MAX: usize = 24;

/// Loads, counts and owners while they change.
pub(super) struct Book<'a> {
    pub survey: &'a Survey<'a>,
    pub loads: &'a [u64],
    pub bands: &'a LoadBands,
    pub owner: Vec<u16>,
    pub load: Vec<u64>,
    pub count: Vec<u32>,
    /// The slots of each shard that may leave it and have not moved: ascending by load.
    pub own: Vec<Vec<(u64, u16)>>,
    /// Shards above their band, by how much.
    over: BTreeSet<(u64, usize)>,
    /// Shards below it, by how much.
    under: BTreeSet<(u64, usize)>,
    /// What each shard may still take, where it may.
    rooms: BTreeSet<(u64, usize)>,
    /// The largest slot that each shard may give, where there is one.
    gifts: BTreeSet<(u64, usize)>,
    /// Every slot that changed hands, and who had it.
    pub journal: Vec<(u16, u16)>,
    /// Slots that are not where they were; those that nobody had too, once they are somewhere.
    pub moved: BTreeSet<u16>,
}

/// The owners afterwards; a plan above its bound is searched for a better one, where no slot is hotter than a band.
pub(super) fn owners(survey: &Survey<'_>, loads: &[u64], bands: &LoadBands, bound: u32) -> Vec<u16> {
    let mut book = Book::new(survey, loads, bands);
    book.place_hot();
    book.place_homeless();
    book.level();
    repair::swaps(&mut book);
    repair::counts(&mut book);
    repair::undo(&mut book, |_, _| true);
    let (slots, outside, moves) = book.cost();
    let is_best = slots == 0 && outside == 0 && moves <= (bound + survey.unassigned) as usize;
    if bands.hot.is_empty() && !is_best {
        pairs::join(&mut book);
        repair::undo(&mut book, |_, _| true);
        search::improve(&mut book, bound);
        pairs::join(&mut book);
        repair::undo(&mut book, |_, _| true);
    }
    book.owner
}

impl<'a> Book<'a> {
    /// The load of each shard under these owners.
    pub fn loads(survey: &Survey<'_>, loads: &[u64], owners: &[u16]) -> Vec<u64> {
        let mut of = vec![0_u64; survey.shards.len() + 1];
        owners.iter().zip(loads).for_each(|(&owner, load)| of[usize::from(owner)] += load);
        of.truncate(survey.shards.len());
        of
    }

    fn new(survey: &'a Survey<'a>, loads: &'a [u64], bands: &'a LoadBands) -> Self {
        let mut own: Vec<Vec<(u64, u16)>> = vec![Vec::new(); survey.shards.len()];
        let mut stays = vec![false; survey.owners.len()];
        for &(slot, shard) in &bands.hot {
            stays[usize::from(slot)] = survey.owners[usize::from(slot)] == shard;
        }
        for (slot, &owner) in (0_u16..).zip(&survey.owners) {
            let index = usize::from(slot);
            if owner != survey.nobody && !survey.pinned.contains(Slot::at(index)) && !stays[index] {
                own[usize::from(owner)].push((loads[index], slot));
            }
        }
        for slots in &mut own {
            slots.sort_unstable();
        }
        let (empty, empty_slots) = (BTreeSet::new, BTreeSet::new());
        let mut book = Self {
            survey,
            loads,
            bands,
            owner: survey.owners.clone(),
            load: Self::loads(survey, loads, &survey.owners),
            count: survey.counts.clone(),
            own,
            over: empty(),
            under: empty(),
            rooms: empty(),
            gifts: empty(),
            journal: Vec::new(),
            moved: empty_slots,
        };
        (0..survey.shards.len()).for_each(|shard| book.note(shard, true));
        book
    }

    /// Whether the shard takes part: the others are only emptied.
    pub fn takes_part(&self, shard: usize) -> bool {
        self.survey.bounds[shard].weight > 0
    }

    /// What a shard may give and stay within its band; none when it may give no slot.
    pub fn may_give(&self, shard: usize) -> Option<u64> {
        let may = self.takes_part(shard) && self.count[shard] > self.survey.bounds[shard].lb;
        may.then(|| self.load[shard].checked_sub(self.bands.lo[shard])).flatten()
    }

    /// What a shard may take and stay within its band; none when it may take no slot.
    pub fn may_take(&self, shard: usize) -> Option<u64> {
        let may = self.takes_part(shard) && self.count[shard] < self.survey.bounds[shard].ub;
        may.then(|| self.bands.hi[shard].checked_sub(self.load[shard])).flatten()
    }

    /// What a shard has above its band.
    pub fn excess(&self, shard: usize) -> u64 {
        self.load[shard].saturating_sub(self.bands.hi[shard])
    }

    /// What a shard has below it.
    pub fn deficit(&self, shard: usize) -> u64 {
        self.bands.lo[shard].saturating_sub(self.load[shard])
    }

    /// Enters a shard in the queues, or takes it out before it changes.
    fn note(&mut self, shard: usize, enter: bool) {
        if !self.takes_part(shard) {
            return;
        }
        let gift = self.may_give(shard).and_then(|most| self.largest(shard, most)).map(|(load, _)| load);
        let entries = [Some(self.excess(shard)), Some(self.deficit(shard)), self.may_take(shard), gift];
        let queues = [&mut self.over, &mut self.under, &mut self.rooms, &mut self.gifts];
        for (queue, amount) in queues.into_iter().zip(entries) {
            if let Some(amount) = amount.filter(|amount| *amount > 0) {
                if enter {
                    queue.insert((amount, shard));
                } else {
                    queue.remove(&(amount, shard));
                }
            }
        }
    }

    /// The largest slot of a shard up to a load.
    pub fn largest(&self, shard: usize, most: u64) -> Option<(u64, u16)> {
        let slots = &self.own[shard];
        let end = slots.partition_point(|(load, _)| *load <= most);
        slots[..end].last().copied().filter(|(load, _)| *load > 0)
    }

    /// The slot of a shard between two loads that is nearest to a third.
    fn nearest(&self, shard: usize, need: u64, most: u64, wanted: u64) -> Option<(u64, u16)> {
        let slots = &self.own[shard];
        let end = slots.partition_point(|(load, _)| *load < wanted);
        let above = slots.get(end).copied();
        let below = end.checked_sub(1).map(|at| slots[at]);
        let fits = |(load, _): &(u64, u16)| (need..=most).contains(load) && *load > 0;
        [above, below].into_iter().flatten().filter(fits).min_by_key(|(load, slot)| (load.abs_diff(wanted), *slot))
    }

    /// Gives a slot to a shard, from wherever it is.
    pub fn hand(&mut self, slot: u16, to: usize) {
        let (index, load) = (usize::from(slot), self.loads[usize::from(slot)]);
        let from = usize::from(self.owner[index]);
        let with_owner = from < self.load.len();
        self.note(to, false);
        if with_owner {
            self.note(from, false);
            self.load[from] -= load;
            self.count[from] -= 1;
            if let Ok(at) = self.own[from].binary_search(&(load, slot)) {
                self.own[from].remove(at);
            }
        }
        self.journal.push((slot, self.owner[index]));
        if usize::from(self.survey.owners[index]) == to {
            self.moved.remove(&slot);
        } else {
            self.moved.insert(slot);
        }
        self.load[to] += load;
        self.count[to] += 1;
        self.owner[index] = u16::try_from(to).expect("at most 16384 shards");
        if self.survey.owners[index] == self.owner[index] && !self.survey.pinned.contains(Slot::at(index)) {
            let at = self.own[to].binary_search(&(load, slot)).unwrap_or_else(|at| at);
            self.own[to].insert(at, (load, slot));
        }
        self.note(to, true);
        if with_owner {
            self.note(from, true);
        }
    }

    /// Takes back all that was handed since the journal was so long.
    pub fn revert(&mut self, length: usize) {
        while self.journal.len() > length {
            let (slot, from) = self.journal.pop().expect("longer");
            self.hand(slot, usize::from(from));
            self.journal.pop();
        }
    }

    /// How much is wrong: slots beyond `min_slots` and `max_slots`, then load outside the bands, then slots that moved.
    pub fn cost(&self) -> (u32, u64, usize) {
        let wrong = |(shard, &count): (usize, &u32)| {
            let bounds = &self.survey.bounds[shard];
            let counts = self.takes_part(shard);
            if counts { count.saturating_sub(bounds.ub) + bounds.lb.saturating_sub(count) } else { 0 }
        };
        let sum = |of: &BTreeSet<(u64, usize)>| of.iter().map(|(load, _)| load).sum::<u64>();
        let slots = self.count.iter().enumerate().map(wrong).sum();
        (slots, sum(&self.over) + sum(&self.under), self.moved.len())
    }

    /// The shard that a slot may go back to.
    pub fn home(&self, slot: u16) -> Option<usize> {
        let before = self.survey.owners[usize::from(slot)];
        Some(usize::from(before)).filter(|&shard| before != self.survey.nobody && self.takes_part(shard))
    }

    fn place_hot(&mut self) {
        for &(slot, shard) in &self.bands.hot {
            if self.owner[usize::from(slot)] != shard {
                self.hand(slot, usize::from(shard));
            }
        }
    }

    /// Slots without an owner, and those of shards that are to be emptied: the hottest first, each to the shard that is
    /// farthest below its share.
    fn place_homeless(&mut self) {
        let nobody = self.survey.nobody;
        let is_homeless = |&(slot, &owner): &(u16, &u16)| match owner {
            owner if owner == nobody => true,
            owner => !self.takes_part(usize::from(owner)) && !self.survey.pinned.contains(Slot::at(usize::from(slot))),
        };
        let mut homeless: Vec<u16> = (0_u16..).zip(&self.owner).filter(is_homeless).map(|(slot, _)| slot).collect();
        homeless.sort_by_key(|&slot| std::cmp::Reverse(self.loads[usize::from(slot)]));
        let key = |book: &Self, shard: usize| {
            let below = i128::from(book.bands.mid[shard]) - i128::from(book.load[shard]);
            let missing = i64::from(book.survey.shares.floor(shard)) - i64::from(book.count[shard]);
            (below, missing, std::cmp::Reverse(shard))
        };
        let has_room =
            |book: &Self, shard: usize| book.takes_part(shard) && book.count[shard] < book.survey.bounds[shard].ub;
        let open = (0..self.load.len()).filter(|&shard| has_room(self, shard));
        let mut queue: std::collections::BinaryHeap<_> = open.map(|shard| key(self, shard)).collect();
        for slot in homeless {
            let (_, _, std::cmp::Reverse(to)) = queue.pop().expect("the bounds leave room for every slot");
            self.hand(slot, to);
            if has_room(self, to) {
                queue.push(key(self, to));
            }
        }
    }

    /// Moves slots until every shard is within its band, or nothing that is left fits anywhere.
    pub fn level(&mut self) {
        let mut stuck = BTreeSet::new();
        loop {
            let over = self.over.iter().rev().find(|entry| !stuck.contains(*entry)).copied();
            let under = self.under.iter().rev().find(|entry| !stuck.contains(*entry)).copied();
            let found = match (over, under) {
                (None, None) => return,
                (Some((_, from)), _) => self.gift_of(from),
                (None, Some((_, to))) => self.gift_for(to),
            };
            match (found, over.or(under)) {
                (Some((slot, to)), _) => self.hand(slot, to),
                (None, Some(entry)) => drop(stuck.insert(entry)),
                (None, None) => unreachable!("one of them is there"),
            }
        }
    }

    /// What a shard above its band gives to whom: to one that lacks load, else to one with room.
    fn gift_of(&self, from: usize) -> Option<(u16, usize)> {
        if let Some(found) = self.both_done(from) {
            return Some(found);
        }
        let lacking = self.under.iter().rev().take(PARTNERS_MAX).map(|(_, to)| *to);
        let roomy = self.rooms.iter().rev().take(PARTNERS_MAX).map(|(_, to)| *to);
        lacking.chain(roomy).filter(|to| *to != from).find_map(|to| Some((self.fitting(from, to)?, to)))
    }

    /// A slot that brings a shard above its band into it, and another one below it too: the largest.
    fn both_done(&self, from: usize) -> Option<(u16, usize)> {
        let (need, most) = (self.excess(from), self.may_give(from)?);
        let slots = &self.own[from];
        let end = slots.partition_point(|(load, _)| *load <= most);
        let start = slots.partition_point(|(load, _)| *load < need);
        slots[start..end].iter().rev().find_map(|&(load, slot)| {
            let lacking = self.under.range(..=(load, usize::MAX)).next_back()?.1;
            self.may_take(lacking).is_some_and(|room| load <= room).then_some((slot, lacking))
        })
    }

    /// What a shard below its band gets from whom: the largest slot that somebody may give and it may take.
    fn gift_for(&self, to: usize) -> Option<(u16, usize)> {
        let room = self.may_take(to)?;
        let fits = self.gifts.range(..=(room, usize::MAX)).rev().map(|(_, from)| *from);
        let larger = self.gifts.range((room, usize::MAX)..).map(|(_, from)| *from);
        let mut donors = fits.take(1).chain(larger.take(PARTNERS_MAX)).filter(|from| *from != to);
        donors.find_map(|from| Some((self.fitting(from, to)?, to)))
    }

    /// The slot that one shard gives another.
    fn fitting(&self, from: usize, to: usize) -> Option<u16> {
        let most = self.may_give(from)?.min(self.may_take(to)?);
        let need = self.excess(from).max(self.deficit(to));
        let gap = |above: u64, below: u64| above.saturating_sub(below);
        let wanted = gap(self.load[from], self.bands.mid[from]).min(gap(self.bands.mid[to], self.load[to]));
        let both = if need <= most { self.nearest(from, need, most, wanted.clamp(need, most)) } else { None };
        both.or_else(|| self.largest(from, most)).map(|(_, slot)| slot)
    }

    /// The shards that are out of their band: above, and below.
    pub fn outside(&self) -> (Vec<usize>, Vec<usize>) {
        let shards = |of: &BTreeSet<(u64, usize)>| of.iter().rev().map(|(_, shard)| *shard).collect();
        (shards(&self.over), shards(&self.under))
    }
}
