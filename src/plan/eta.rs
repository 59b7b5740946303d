//! How long a rollout takes at its pace.

use crate::domain::{Limits, PlanBody};

/// What committing a wave may add to a rollout's duration.
const WAVE_MS_MAX: u64 = 100;

/// Shortest and longest duration at the pace, where there is one.
#[must_use]
pub fn eta_seconds(body: &PlanBody, limits: &Limits) -> Option<(u64, u64)> {
    let pace = u64::from(limits.slots_per_second?);
    let slots = u64::from(body.summary.slots + body.summary.assigned);
    let shortest = slots.div_ceil(pace);
    let more_ms = limits.overlap_ms + WAVE_MS_MAX * u64::from(body.summary.waves);
    Some((shortest, shortest + more_ms.div_ceil(1000)))
}
