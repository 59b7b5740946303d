//! Actions: the moves of each pair of shards, cut to size and ordered by how much each improves the balance.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::quota::Shares;

/// Slots `first..=last` of one pair, as numbers.
pub(super) type Piece = (u32, u32);

/// A step that moves at most `slots_per_move` slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The index of the source; the number of shards stands for nobody.
    pub from: u16,
    /// The index of the target.
    pub to: u16,
    /// Ascending and disjoint.
    pub pieces: Vec<Piece>,
}

/// How urgently a shard's slots should leave it: an owner that does not serve them first, then one to be emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    Balance,
    Empty,
    Unserved,
}

/// Up to so many pairs of shards the order is steepest descent exactly.
const EXACT_PAIRS_MAX: usize = 256;

/// What the order looks at. `weights` are at least 1; `counts` and `urgency` have an entry for nobody at the end.
pub(super) struct Scale<'a> {
    pub shares: &'a Shares,
    pub weights: &'a [u32],
    pub urgency: &'a [Urgency],
}

/// The steps that turn one table into the other, steepest descent of Σ(t−q)²/w first.
pub(super) fn steps(
    before: &[u16],
    after: &[u16],
    counts: &[u32],
    slots_per_step: u32,
    scale: &Scale<'_>,
) -> Vec<Step> {
    let mut counts = counts.to_vec();
    let mut pairs = pairs(before, after, slots_per_step);
    // The heap holds little more than the gains: it is shuffled far more often than a pair is touched.
    let mut queue: BinaryHeap<Next> = BinaryHeap::with_capacity(pairs.len());
    for (pair, steps) in pairs.iter_mut().enumerate() {
        steps.reverse();
        queue.push(Next { gain: scale.gain(&counts, steps[0].from, steps[0].to), pair: Reverse(pair) });
    }
    let few = pairs.len() <= EXACT_PAIRS_MAX;
    let mut ordered = Vec::new();
    while let Some(next) = queue.pop() {
        let Reverse(pair) = next.pair;
        let steps = &mut pairs[pair];
        let (from, to) = steps.last().map(|step| (step.from, step.to)).expect("queued while a step is left");
        // Gains only fall as the counts come nearer to the shares, so a gain that still holds is the largest. Of many
        // pairs, one that has fallen by less than an eighth counts too: else every step of a shard would shuffle all of
        // its pairs.
        let now = scale.gain(&counts, from, to);
        if now < if few { next.gain } else { next.gain.reduced() } {
            queue.push(Next { gain: now, ..next });
            continue;
        }
        let step = steps.pop().expect("queued while a step is left");
        let slots: u32 = step.pieces.iter().map(|(first, last)| last - first + 1).sum();
        counts[usize::from(from)] -= slots;
        counts[usize::from(to)] += slots;
        ordered.push(step);
        if !steps.is_empty() {
            queue.push(Next { gain: scale.gain(&counts, from, to), ..next });
        }
    }
    ordered
}

/// The changes of owner by pair, ascending, each cut into steps in slot order.
pub(super) fn pairs(before: &[u16], after: &[u16], slots_per_step: u32) -> Vec<Vec<Step>> {
    let mut changes: Vec<(u16, u16, Piece)> = Vec::new();
    for (slot, (&from, &to)) in (0_u32..).zip(before.iter().zip(after)) {
        if from == to {
            continue;
        }
        match changes.last_mut() {
            Some((f, t, (_, last))) if (*f, *t, *last + 1) == (from, to, slot) => *last = slot,
            _ => changes.push((from, to, (slot, slot))),
        }
    }
    changes.sort_unstable();
    let of_pair = |a: &(u16, u16, Piece), b: &(u16, u16, Piece)| (a.0, a.1) == (b.0, b.1);
    changes.chunk_by(of_pair).map(|changes| cut(changes, slots_per_step)).collect()
}

fn cut(changes: &[(u16, u16, Piece)], slots_per_step: u32) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut room = 0;
    for &(from, to, (mut first, last)) in changes {
        while first <= last {
            if room == 0 {
                steps.push(Step { from, to, pieces: Vec::new() });
                room = slots_per_step;
            }
            let count = room.min(last - first + 1);
            steps.last_mut().expect("pushed above").pieces.push((first, first + count - 1));
            first += count;
            room -= count;
        }
    }
    steps
}

/// A pair that has a step left, by its gain; the first pair where gains are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Next {
    gain: Gain,
    pair: Reverse<usize>,
}

/// By how much one slot from here to there lowers Σ(t−q)²/w: a fraction, after the urgency of the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gain {
    urgency: Urgency,
    num: i128,
    den: i128,
}

impl Ord for Gain {
    fn cmp(&self, other: &Self) -> Ordering {
        self.urgency.cmp(&other.urgency).then_with(|| (self.num * other.den).cmp(&(other.num * self.den)))
    }
}

impl PartialOrd for Gain {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Gain {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Gain {}

impl Gain {
    fn reduced(self) -> Self {
        Self { num: self.num - self.num.abs() / 8, ..self }
    }
}

impl Scale<'_> {
    fn gain(&self, counts: &[u32], from: u16, to: u16) -> Gain {
        let (from, to) = (usize::from(from), usize::from(to));
        let unit = self.shares.unit;
        let cost = i128::from(2 * self.shares.deviation(to, counts[to]) + unit);
        let weight = i128::from(self.weights[to]);
        let Some(&giver) = self.weights.get(from) else {
            return Gain { urgency: self.urgency[from], num: -cost, den: weight };
        };
        let saved = i128::from(2 * self.shares.deviation(from, counts[from]) - unit);
        let giver = i128::from(giver);
        Gain { urgency: self.urgency[from], num: saved * weight - cost * giver, den: giver * weight }
    }
}
