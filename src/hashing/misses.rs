//! What a warm cache misses because keys changed their node: expected misses over time, and the peak that the source
//! behind has to bear.
//!
//! Every request is drawn from the trace, so a key with c of T requests stays unasked for by r requests with the chance
//! (1 − c/T)^r. Powers in fixed point: the same everywhere.

use std::collections::BTreeMap;

use super::question::Question;
use super::sample::Sample;
use crate::domain::{MissCurve, SLOT_COUNT};

/// Steps of a curve.
pub(super) const STEPS: u32 = 40;
/// 1 in fixed point.
const ONE_BITS: u32 = 62;

/// Length of one step. All curves of a comparison are as long: half as long again as a rollout of the fewest slots, or up to four
/// times as long where that shows how the keys come back.
pub(super) fn step_ms(question: &Question, sample: &Sample, least_keys: u64) -> u64 {
    let keys = u128::try_from(sample.len()).expect("fits in memory");
    let slots = u128::from(least_keys) * 16_384 / keys;
    let rollout_ms = slots * 1000 / u128::from(question.terms.slots_per_second);
    let pass_ms = u128::from(sample.requests) * 1000 / u128::from(question.terms.requests_per_second);
    let horizon = pass_ms.clamp(rollout_ms * 3 / 2, rollout_ms * 4).clamp(10_000, 86_400_000);
    u64::try_from(horizon / u128::from(STEPS)).expect("at most a day")
}

/// The curve of one family. `moved_slots` in the order of their moves; none when all changes at once.
pub(super) fn curve(
    question: &Question,
    sample: &Sample,
    before: &[u16],
    after: &[u16],
    moved_slots: &[u16],
    step_ms: u64,
) -> MissCurve {
    let starts = starts(moved_slots, question.terms.slots_per_second, step_ms);
    // Keys that go cold alike: so many requests, and from this step on.
    let mut alike: BTreeMap<(u64, u32), u64> = BTreeMap::new();
    for (index, key) in sample.keys.iter().enumerate().filter(|(index, _)| before[*index] != after[*index]) {
        let start = starts.as_ref().map_or(0, |starts| starts[usize::from(key.slot)]);
        *alike.entry((sample.counts[index], start)).or_default() += 1;
    }
    let asked = question.terms.requests_per_second * step_ms / 1000;
    let mut expected = vec![0_u128; STEPS as usize];
    let (mut of_count, mut stays) = (0, 0);
    for ((count, start), keys) in alike {
        if count != of_count {
            (of_count, stays) = (count, unasked(count, sample.requests, asked));
        }
        let mut cold = 1_u128 << ONE_BITS;
        for step in expected.iter_mut().skip(start as usize) {
            let still = (cold * stays) >> ONE_BITS;
            *step += (cold - still) * u128::from(keys);
            cold = still;
        }
    }
    let half = 1_u128 << (ONE_BITS - 1);
    let round = |misses: u128| u64::try_from((misses + half) >> ONE_BITS).expect("at most all keys");
    let peak = expected.iter().copied().max().unwrap_or(0);
    MissCurve {
        step_ms,
        peak_per_second: round(peak * 1000 / u128::from(step_ms)),
        total: round(expected.iter().sum()),
        misses: expected.into_iter().map(round).collect(),
    }
}

/// The step in which each slot goes cold.
fn starts(moved_slots: &[u16], slots_per_second: u64, step_ms: u64) -> Option<Vec<u32>> {
    if moved_slots.is_empty() {
        return None;
    }
    let mut starts = vec![0; SLOT_COUNT];
    for (order, &slot) in (0_u64..).zip(moved_slots) {
        let step = order * 1000 / slots_per_second / step_ms;
        starts[usize::from(slot)] = u32::try_from(step).unwrap_or(STEPS).min(STEPS);
    }
    Some(starts)
}

/// `(1 − count/total)^requests` in fixed point.
fn unasked(count: u64, total: u64, mut requests: u64) -> u128 {
    let mut base = (u128::from(total - count) << ONE_BITS) / u128::from(total);
    let mut power = 1_u128 << ONE_BITS;
    while requests > 0 {
        if requests & 1 == 1 {
            power = (power * base) >> ONE_BITS;
        }
        base = (base * base) >> ONE_BITS;
        requests >>= 1;
    }
    power
}
