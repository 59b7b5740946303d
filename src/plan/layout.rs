//! Which slots move: few contiguous ranges afterwards, given how many slots each shard gives or takes.
//!
//! The fewest ranges are strongly NP-hard to find with several receivers, so this is a heuristic in four steps:
//! receivers absorb the pieces beside them; whole runs go to the receiver they fit best; one piece over the junction of
//! two donors serves both; what is left comes from the ends of runs. After every piece its new neighbours are absorbed
//! again. Heaps and sorted sets, no rescans. Small tables are improved by `exchange` then.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::exchange;
use super::runs::{Runs, Side};

/// How many slots each shard gives and takes. One entry more than shards: the last stands for nobody.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub give: Vec<u32>,
    pub take: Vec<u32>,
}

/// Above so many runs a table is laid out once only: there are enough pieces then for one way to be as good as another.
const TRIED_RUNS_MAX: usize = 256;

/// Up to so many runs pieces are exchanged afterwards: in larger tables a range more or less counts little.
const EXCHANGED_RUNS_MAX: usize = 64;

/// The owner of every slot afterwards. `owners` may hold `flow.give.len() − 1` for nobody; `pinned` slots stay.
///
/// Needs Σgive = Σtake, nobody doing both, and at least `give` slots of each shard that are not pinned. Tries the steps
/// in other orders too, from either end of the table, and keeps what has the fewest ranges.
pub(super) fn choose(owners: &[u16], pinned: impl Fn(usize) -> bool, flow: &Flow) -> Vec<u16> {
    assert_eq!(flow.give.iter().sum::<u32>(), flow.take.iter().sum::<u32>(), "what is given is taken");
    let mut tried = vec![lay_out(owners, &pinned, flow.clone(), Order::AbsorbFirst)];
    let runs = ranges(owners);
    if runs <= TRIED_RUNS_MAX {
        tried.push(lay_out(owners, &pinned, flow.clone(), Order::WholeFirst));
        let mirrored: Vec<u16> = owners.iter().rev().copied().collect();
        let from_behind = |slot: usize| pinned(owners.len() - 1 - slot);
        for order in [Order::AbsorbFirst, Order::WholeFirst] {
            let mut after = lay_out(&mirrored, &from_behind, flow.clone(), order);
            after.reverse();
            tried.push(after);
        }
    }
    if runs <= EXCHANGED_RUNS_MAX {
        return exchange::fewest_ranges(owners, &pinned, flow, &tried);
    }
    // The first of several.
    tried.into_iter().min_by_key(|after| ranges(after)).expect("one way is tried always")
}

fn ranges(owners: &[u16]) -> usize {
    owners.chunk_by(|a, b| a == b).count()
}

/// Which step is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    AbsorbFirst,
    WholeFirst,
}

fn lay_out(owners: &[u16], pinned: &impl Fn(usize) -> bool, flow: Flow, order: Order) -> Vec<u16> {
    let slots = owners.iter().enumerate();
    // A pin matters only where the owner gives something away.
    let runs = Runs::new(slots.map(|(slot, &owner)| (owner, flow.give[usize::from(owner)] > 0 && pinned(slot))));
    let mut layout = Layout { runs, flow, takers: BTreeSet::new(), queue: BinaryHeap::new() };
    let takers = |layout: &Layout| {
        let left = (0_u16..).zip(&layout.flow.take).filter(|(_, take)| **take > 0);
        left.map(|(shard, &take)| (take, Reverse(shard))).collect()
    };
    if order == Order::WholeFirst {
        layout.takers = takers(&layout);
        layout.hand_out_whole_runs();
    }
    let all: Vec<u32> = layout.runs.alive().collect();
    layout.queue = all.iter().filter_map(|&run| layout.absorption(run)).map(Reverse).collect();
    layout.absorb();
    layout.takers = takers(&layout);
    layout.hand_out_whole_runs();
    layout.bridge_junctions();
    layout.cut_ends();
    layout.runs.owners(owners.len())
}

/// A run that a receiver beside it can take, most valuable first: between two runs of the receiver, then whole, then
/// in part; then short before long (in part: many slots before few).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Absorption {
    class: u8,
    size: u32,
    run: u32,
}

struct Layout {
    runs: Runs,
    flow: Flow,
    /// `(take, shard)` of every shard that still takes, once the first absorption is over.
    takers: BTreeSet<(u32, Reverse<u16>)>,
    queue: BinaryHeap<Reverse<Absorption>>,
}

impl Layout {
    fn give_of(&self, run: u32) -> u32 {
        let run = self.runs.get(run);
        if run.len == 0 || run.fixed { 0 } else { self.flow.give[usize::from(run.owner)] }
    }

    fn take_of(&self, run: u32) -> u32 {
        self.flow.take[usize::from(self.runs.get(run).owner)]
    }

    /// The receiver beside a run with what it still takes.
    fn receiver(&self, run: u32, side: Side) -> Option<(u16, u32)> {
        let neighbour = self.runs.beside(run, side)?;
        let take = self.take_of(neighbour);
        (take > 0).then_some((self.runs.get(neighbour).owner, take))
    }

    fn absorption(&self, run: u32) -> Option<Absorption> {
        let give = self.give_of(run);
        if give == 0 {
            return None;
        }
        let len = self.runs.get(run).len;
        let sides = [self.receiver(run, Side::Left), self.receiver(run, Side::Right)];
        let most = sides.iter().flatten().map(|(_, take)| *take).max()?;
        let whole = len <= give && len <= most;
        let class = match sides {
            [Some((left, _)), Some((right, _))] if whole && left == right => 0,
            _ if whole => 1,
            _ => 2,
        };
        Some(Absorption { class, size: if whole { len } else { u32::MAX - give.min(most) }, run })
    }

    fn enqueue(&mut self, run: Option<u32>) {
        if let Some(absorption) = run.and_then(|run| self.absorption(run)) {
            self.queue.push(Reverse(absorption));
        }
    }

    /// Receivers take what lies beside them until nothing does.
    fn absorb(&mut self) {
        while let Some(Reverse(seen)) = self.queue.pop() {
            let Some(now) = self.absorption(seen.run) else { continue };
            if now > seen {
                self.queue.push(Reverse(now));
                continue;
            }
            let sides = [Side::Left, Side::Right].map(|side| self.receiver(seen.run, side).map(|taker| (taker, side)));
            let ((owner, take), side) =
                sides.into_iter().flatten().max_by_key(|((_, take), side)| (*take, *side == Side::Left)).expect("seen");
            let count = self.give_of(seen.run).min(take).min(self.runs.get(seen.run).len);
            self.hand(seen.run, side, count, owner);
        }
    }

    /// Gives `count` slots at one end of a run to a receiver and queues the runs that lie beside the piece then.
    fn hand(&mut self, run: u32, side: Side, count: u32, to: u16) {
        let old = self.runs.get(run);
        assert!(0 < count && count <= old.len, "a piece lies within its run");
        self.flow.give[usize::from(old.owner)] -= count;
        let take = &mut self.flow.take[usize::from(to)];
        if self.takers.remove(&(*take, Reverse(to))) && *take > count {
            self.takers.insert((*take - count, Reverse(to)));
        }
        *take -= count;
        let piece =
            if count == old.len { self.runs.give_whole(run, to) } else { self.runs.give_end(run, side, count, to) };
        let (before, after) = (self.runs.beside(piece, Side::Left), self.runs.beside(piece, Side::Right));
        self.enqueue(before);
        self.enqueue(after);
        if count < old.len {
            // What is left may have another receiver on its other side, also when it has none on this side any more.
            self.enqueue(Some(run));
        }
    }

    /// The receiver that fits best: the one with the least to take that takes it all.
    fn best_fit(&self, count: u32) -> Option<u16> {
        let (take, _) = *self.takers.range((count, Reverse(u16::MAX))..).next()?;
        let lowest = self.takers.range(..=(take, Reverse(0))).next_back();
        lowest.map(|(_, Reverse(shard))| *shard)
    }

    /// Long runs first, each whole to the receiver it fits best.
    fn hand_out_whole_runs(&mut self) {
        let is_whole = |&run: &u32| self.runs.get(run).len <= self.give_of(run);
        let mut whole: Vec<u32> = self.runs.alive().filter(is_whole).collect();
        whole.sort_by_key(|&run| (Reverse(self.runs.get(run).len), self.runs.get(run).first));
        for run in whole {
            let len = self.runs.get(run).len;
            // A run of length 0 was merged into another meanwhile.
            if len > 0
                && self.give_of(run) >= len
                && let Some(to) = self.best_fit(len)
            {
                self.hand(run, Side::Left, len, to);
                self.absorb();
            }
        }
    }

    /// One piece over the junction of two donors takes all that both have left to give. Donors with the fewest partners
    /// choose first, so that few are left alone.
    fn bridge_junctions(&mut self) {
        let mut junctions = Junctions::new(self);
        while let Some((left, right)) = junctions.next(self) {
            let (a, b) = (self.give_of(left), self.give_of(right));
            let Some(to) = self.best_fit(a + b) else { continue };
            self.hand(left, Side::Right, a, to);
            // The absorption takes the other half: it lies beside the piece now.
            self.absorb();
        }
    }

    fn bridgeable(&self, left: u32, right: u32) -> bool {
        let (a, b) = (self.give_of(left), self.give_of(right));
        a > 0
            && b > 0
            && a < self.runs.get(left).len
            && b < self.runs.get(right).len
            && self.runs.beside(left, Side::Right) == Some(right)
            && self.best_fit(a + b).is_some()
    }

    /// The largest receiver from the donor that fits it exactly, or else from the largest.
    fn cut_ends(&mut self) {
        let mut owned: Vec<Vec<u32>> = vec![Vec::new(); self.flow.give.len()];
        for run in self.runs.in_order().filter(|&run| self.give_of(run) > 0) {
            owned[usize::from(self.runs.get(run).owner)].push(run);
        }
        let left = (0_u16..).zip(&self.flow.give).filter(|(_, give)| **give > 0);
        // One entry of each donor, which may be out of date: absorptions lower what is left to give.
        let mut donors: BTreeSet<(u32, Reverse<u16>)> = left.map(|(shard, &give)| (give, Reverse(shard))).collect();
        while let Some(&(take, Reverse(to))) = self.takers.last() {
            let fitting = donors.range((take, Reverse(u16::MAX))..=(take, Reverse(0))).next_back();
            let donor = *fitting.or_else(|| donors.last()).expect("what is taken is given");
            donors.remove(&donor);
            let (give, Reverse(from)) = donor;
            if self.flow.give[usize::from(from)] == give {
                self.cut(&mut owned[usize::from(from)], give, take, to);
                self.absorb();
            }
            let left = self.flow.give[usize::from(from)];
            if left > 0 {
                donors.insert((left, Reverse(from)));
            }
        }
    }

    /// Takes one piece from a donor with these runs.
    fn cut(&mut self, owned: &mut Vec<u32>, give: u32, take: u32, to: u16) {
        owned.retain(|&run| self.give_of(run) == give);
        let count = give.min(take);
        let long_enough = owned.iter().filter(|&&run| self.runs.get(run).len >= count);
        let choice = long_enough.min_by_key(|&&run| self.runs.get(run).len);
        let longest = || owned.iter().max_by_key(|&&run| self.runs.get(run).len);
        let run = *choice.or_else(longest).expect("a donor has runs to give");
        let count = count.min(self.runs.get(run).len);
        let other_donor = |side| self.runs.beside(run, side).is_some_and(|beside| self.give_of(beside) > 0);
        // A receiver that goes on wants another donor beside it; one that is full leaves such a junction alone.
        let goes_on = take > count;
        let side = if other_donor(Side::Left) == goes_on { Side::Left } else { Side::Right };
        self.hand(run, side, count, to);
    }
}

/// The junctions of two donors, donors with the fewest of them first.
struct Junctions {
    /// Junctions of each donor, as pairs of runs.
    of: Vec<Vec<(u32, u32)>>,
    queue: BinaryHeap<Reverse<(usize, u16)>>,
    /// Donors that lost a junction since the last choice.
    fewer: Vec<u16>,
}

impl Junctions {
    fn new(layout: &Layout) -> Self {
        let mut of = vec![Vec::new(); layout.flow.give.len()];
        for left in layout.runs.in_order() {
            if let Some(right) = layout.runs.beside(left, Side::Right)
                && layout.bridgeable(left, right)
            {
                for run in [left, right] {
                    of[usize::from(layout.runs.get(run).owner)].push((left, right));
                }
            }
        }
        let queue = (0_u16..).zip(&of).filter(|(_, j)| !j.is_empty()).map(|(d, j)| Reverse((j.len(), d))).collect();
        Self { of, queue, fewer: Vec::new() }
    }

    fn next(&mut self, layout: &Layout) -> Option<(u32, u32)> {
        for donor in std::mem::take(&mut self.fewer) {
            let degree = self.refresh(layout, donor);
            if degree > 0 {
                self.queue.push(Reverse((degree, donor)));
            }
        }
        while let Some(Reverse((degree, donor))) = self.queue.pop() {
            let now = self.refresh(layout, donor);
            if now > 0 && now < degree {
                self.queue.push(Reverse((now, donor)));
            } else if now > 0 {
                let partner = |&junction: &(u32, u32)| self.degree_beside(layout, donor, junction);
                let chosen = self.of[usize::from(donor)].iter().copied().min_by_key(partner)?;
                for run in [chosen.0, chosen.1] {
                    let leaving = std::mem::take(&mut self.of[usize::from(layout.runs.get(run).owner)]);
                    self.fewer.extend(leaving.iter().flat_map(|&(l, r)| [l, r]).map(|run| layout.runs.get(run).owner));
                }
                return Some(chosen);
            }
        }
        None
    }

    /// Forgets the junctions of a donor that are gone; how many are left.
    fn refresh(&mut self, layout: &Layout, donor: u16) -> usize {
        let of = &mut self.of[usize::from(donor)];
        of.retain(|&(left, right)| layout.bridgeable(left, right));
        of.len()
    }

    /// How many junctions the partner of a donor has.
    fn degree_beside(&self, layout: &Layout, donor: u16, (left, right): (u32, u32)) -> usize {
        let left = layout.runs.get(left).owner;
        let partner = if left == donor { layout.runs.get(right).owner } else { left };
        self.of[usize::from(partner)].len()
    }
}
