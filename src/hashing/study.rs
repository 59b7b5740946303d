//! Studies each family by itself, so that a caller can study several at once, and puts the comparison together.

use super::advice::advice;
use super::error::HashingError;
use super::event::describe;
use super::key::Key;
use super::placement::{Member, Placement};
use super::question::Question;
use super::sample::Sample;
use super::{build, hot, measure, misses};
use crate::domain::{Comparison, Evenness, Family, FamilyFigures, Millionths, Outcome, PlacedNode, SLOT_COUNT};

/// Keys for what is looked up many times: so many, and fewer with many nodes.
const TAKEOVER_KEYS: usize = 50_000;
const TAKEOVER_WORK: usize = 2_000_000;

/// What one family makes of the event. `clock` gives nanoseconds from any start.
#[must_use]
pub fn study(question: &Question, sample: &Sample, family: Family, clock: &dyn Fn() -> u64) -> Outcome {
    let figures = figures(question, sample, family, clock).map_err(|error| error.to_string());
    Outcome { family, figures }
}

fn figures(
    question: &Question,
    sample: &Sample,
    family: Family,
    clock: &dyn Fn() -> u64,
) -> Result<FamilyFigures, HashingError> {
    let before = build(family, &question.before, question.terms.tuning, question.table.as_ref())?;
    let after = before.changed(&question.after)?;
    let then = before.place(&sample.keys);
    let now = after.place(&sample.keys);
    let (keys_moved, stray_moves) = measure::moves(question, &then, &now);
    let least = measure::least_moves(question, sample.len());
    let tally = measure::tally(&now, None, question.universe);
    let asked = measure::tally(&now, Some(&sample.counts), question.universe);
    let thinned = sample.thinned((TAKEOVER_WORK / question.universe).min(TAKEOVER_KEYS));
    let few = sample.thinned(measure::COPY_KEYS);
    let step_ms = misses::step_ms(question, sample, least);
    Ok(FamilyFigures {
        keys_moved,
        moved_to_least: (least > 0).then(|| Millionths::ratio(keys_moved, least)),
        stray_moves,
        balance: measure::balance(&question.after, &tally),
        heaviest_requests: measure::heaviest(&question.after, &asked),
        views: measure::views(question, &*after, &few),
        takeover: measure::takeover(question, &*before, &thinned),
        copies: measure::copies(question, &*before, &*after, &few),
        lookup_ps: lookup_ps(&*before, &few, clock),
        memory_bytes: after.memory_bytes(),
        metadata_bytes: list_bytes(&question.after) + after.metadata_bytes(),
        misses: misses::curve(question, sample, &then, &now, after.moved_slots(), step_ms),
    })
}

/// Picoseconds of a look-up: the best of a few rounds, so that what else the machine does is not counted.
fn lookup_ps(placement: &dyn Placement, keys: &[Key], clock: &dyn Fn() -> u64) -> u64 {
    const ROUNDS: usize = 8;
    let round = |_| {
        let started = clock();
        std::hint::black_box(placement.place(std::hint::black_box(keys)));
        clock().saturating_sub(started)
    };
    let best_ns = (0..ROUNDS).map(round).min().expect("some rounds");
    best_ns * 1000 / u64::try_from(keys.len()).expect("few keys")
}

/// Bytes of the list of nodes: each name, its end and its weight.
fn list_bytes(members: &[Member]) -> u64 {
    members.iter().map(|member| u64::try_from(member.name().len()).expect("short") + 3).sum()
}

/// Puts the outcomes together, whatever order they come in.
#[must_use]
pub fn conclude(question: &Question, sample: &Sample, mut outcomes: Vec<Outcome>) -> Comparison {
    outcomes.sort_unstable_by_key(|outcome| outcome.family);
    let nodes = |members: &[Member]| -> Vec<PlacedNode> { members.iter().map(|member| member.node.clone()).collect() };
    let (before, after) = (nodes(&question.before), nodes(&question.after));
    let mut comparison = Comparison {
        event: describe(&before, &after),
        before,
        after,
        keys: u64::try_from(sample.len()).expect("fits in memory"),
        requests: sample.requests,
        requests_per_second: question.terms.requests_per_second,
        slots_per_second: question.terms.slots_per_second,
        least_keys: measure::least_moves(question, sample.len()),
        outcomes,
        evenness: evenness(question, sample),
        hot: hot::relief(question, sample),
        advice: Vec::new(),
    };
    comparison.advice = advice(&comparison);
    comparison
}

/// χ² over degrees of freedom: of the slots, and of the shards before the event against the slots that each has.
fn evenness(question: &Question, sample: &Sample) -> Evenness {
    let mut counts = vec![0_u64; SLOT_COUNT];
    sample.keys.iter().for_each(|key| counts[usize::from(key.slot)] += 1);
    let slots = vec![1_u64; SLOT_COUNT];
    let per_shard = build(Family::Slots, &question.before, question.terms.tuning, question.table.as_ref())
        .ok()
        .and_then(|placement: Box<dyn Placement>| {
            let (mut keys, mut sizes) = (vec![0; question.universe], vec![0; question.universe]);
            for (slot, count) in (0_u16..).zip(&counts) {
                let owner = usize::from(placement.owner(&Key { hash: 0, ketama: 0, slot }));
                keys[owner] += count;
                sizes[owner] += 1;
            }
            chi(&keys, &sizes)
        });
    Evenness { per_slot: chi(&counts, &slots).expect("many slots"), per_shard }
}

/// `Σ (count − expected)² / expected / (classes − 1)`, the expected counts in proportion to the sizes; classes of size 0 do not
/// count.
fn chi(counts: &[u64], sizes: &[u64]) -> Option<Millionths> {
    let total: u128 = counts.iter().map(|&count| u128::from(count)).sum();
    let whole: u128 = sizes.iter().map(|&size| u128::from(size)).sum();
    let classes = sizes.iter().filter(|&&size| size > 0).count();
    let freedom = u128::try_from(classes.checked_sub(1)?).expect("few classes");
    // (c − e)²/e with e = total·size/whole is (c·whole − total·size)² / (total·size·whole).
    let term = |(&count, &size): (&u64, &u64)| {
        let (seen, expected) = (u128::from(count) * whole, total * u128::from(size));
        let difference = seen.abs_diff(expected);
        // In thousandths of a millionth, so that what is cut off does not show.
        difference * difference / (expected * whole).max(1) * 1_000_000_000
            + difference * difference % (expected * whole).max(1) * 1_000_000_000 / (expected * whole).max(1)
    };
    let sum: u128 = counts.iter().zip(sizes).filter(|(_, size)| **size > 0).map(term).sum();
    Some(Millionths(u64::try_from((sum.checked_div(freedom)? + 500) / 1000).unwrap_or(u64::MAX)))
}
