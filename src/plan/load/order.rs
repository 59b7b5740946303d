//! Which move first: steepest descent of Σ(load − share)²/weight; slots nobody serves, and shards to be emptied, before.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::bands::LoadBands;
use super::solve::Book;
use crate::plan::actions::{Step, Urgency, pairs};
use crate::plan::survey::Survey;

/// The steps from the owners now to these.
pub(super) fn steps(
    survey: &Survey<'_>,
    loads: &[u64],
    bands: &LoadBands,
    after: &[u16],
    slots_per_step: u32,
) -> Vec<Step> {
    let mut load = Book::loads(survey, loads, &survey.owners);
    let mut pairs = pairs(&survey.owners, after, slots_per_step);
    let gain = |load: &[u64], step: &Step| Gain::of(survey, loads, bands, load, step);
    let mut queue = BinaryHeap::with_capacity(pairs.len());
    for (pair, steps) in pairs.iter_mut().enumerate() {
        steps.reverse();
        queue.push((gain(&load, &steps[steps.len() - 1]), Reverse(pair)));
    }
    let mut ordered = Vec::new();
    while let Some((seen, Reverse(pair))) = queue.pop() {
        let steps = &mut pairs[pair];
        let step = steps.last().expect("queued while a step is left");
        let now = gain(&load, step);
        // Gains fall as loads come nearer to their shares: what has not fallen is the largest.
        if now < seen {
            queue.push((now, Reverse(pair)));
            continue;
        }
        let amount = amount(loads, step);
        if step.from != survey.nobody {
            load[usize::from(step.from)] -= amount;
        }
        load[usize::from(step.to)] += amount;
        ordered.push(steps.pop().expect("looked at above"));
        if let Some(next) = steps.last() {
            queue.push((gain(&load, next), Reverse(pair)));
        }
    }
    ordered
}

fn amount(loads: &[u64], step: &Step) -> u64 {
    step.pieces.iter().flat_map(|&(first, last)| &loads[first as usize..=last as usize]).sum()
}

/// By how much a step lowers Σ(load − share)²/weight, after the urgency of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gain {
    urgency: Urgency,
    num: i128,
    den: i128,
}

impl Ord for Gain {
    fn cmp(&self, other: &Self) -> Ordering {
        // Differences of loads are below 2^54, so that the quotient is exact enough and the products fit.
        let quotient = |gain: &Self| gain.num.div_euclid(gain.den);
        self.urgency.cmp(&other.urgency).then_with(|| quotient(self).cmp(&quotient(other)))
    }
}

impl PartialOrd for Gain {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Gain {
    fn of(survey: &Survey<'_>, loads: &[u64], bands: &LoadBands, load: &[u64], step: &Step) -> Self {
        let moved = i128::from(amount(loads, step));
        let away = |shard: usize| i128::from(load[shard]) - i128::from(bands.mid[shard]);
        let weight = |shard: usize| i128::from(survey.bounds[shard].weight.max(1));
        // Of 2·d·a ∓ a² only the part that an amount of one unit gives: per unit of load moved.
        let to = usize::from(step.to);
        let cost = 2 * away(to) + moved;
        if step.from == survey.nobody {
            return Self { urgency: Urgency::Unserved, num: -cost, den: weight(to) };
        }
        let from = usize::from(step.from);
        let saved = 2 * away(from) - moved;
        Self {
            urgency: survey.urgency(from),
            num: saved * weight(to) - cost * weight(from),
            den: weight(from) * weight(to),
        }
    }
}
