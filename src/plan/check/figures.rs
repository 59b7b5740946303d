//! The figures beside the actions: keys and bytes moved, both costs, the curve.

use super::bands::within;
use super::share::Share;
use super::{Faults, Input, Replay, replay};
use crate::domain::{Costs, CurvePoint, Goal, LoadMetric, Objective, PlanBody, Slot, Statistics};

pub(super) fn check(input: &Input<'_>, replay: &Replay, body: &PlanBody, faults: &mut Faults) {
    let (summary, costs) = (&body.summary, &body.figures.costs);
    let Some(statistics) = input.statistics else {
        if summary.keys_est.is_some() || summary.bytes_est.is_some() || costs.is_some() {
            faults.add("keys and bytes cannot be checked without the statistics that the plan was made with");
        }
        return;
    };
    let sum = |metric| {
        let of = statistics.of(metric)?;
        Some(moved(input, replay).map(|slot| of[slot.index()]).sum::<u64>())
    };
    for (what, shown, computed) in [
        ("summary: keys_est", summary.keys_est, sum(LoadMetric::Keys)),
        ("summary: bytes_est", summary.bytes_est, sum(LoadMetric::Bytes)),
    ] {
        if shown != computed {
            faults.add(format_args!("{what}: the plan says {shown:?}, but it is {computed:?}"));
        }
    }
    if let Some(costs) = costs {
        faults.differ("costs: bytes", costs.chosen.bytes, sum(LoadMetric::Bytes).unwrap_or(0));
        faults.differ("costs: ranges", costs.chosen.ranges as usize, replay.after.range_count());
    }
}

/// The slots that leave an owner.
fn moved<'a>(input: &'a Input<'_>, replay: &'a Replay) -> impl Iterator<Item = Slot> + 'a {
    let leaves = |slot: &Slot| {
        let before = input.table.owner(*slot);
        before.is_some() && before != replay.after.owner(*slot)
    };
    Slot::all().filter(leaves)
}

/// A plan for few bytes: no slot that moves could be exchanged for a cheaper one. What donors may give is a matroid, so
/// that no plan with as many moves is cheaper when no exchange is.
pub(super) fn cheapest(
    input: &Input<'_>,
    replay: &Replay,
    bands: &[std::ops::RangeInclusive<u32>],
    costs: &Costs,
    faults: &mut Faults,
) {
    let bytes = input.statistics.and_then(|statistics: &Statistics| statistics.of(LoadMetric::Bytes));
    let (Some(bytes), Objective::Bytes) = (bytes, costs.objective) else { return };
    let mut dearest: Vec<Option<u64>> = vec![None; input.shards.len()];
    let mut cheapest: Vec<Option<u64>> = vec![None; input.shards.len()];
    for slot in Slot::all() {
        let Some(owner) = input.table.owner(slot) else { continue };
        let (i, cost) = (usize::from(input.table.index_of(owner).expect("an owner is listed")), bytes[slot.index()]);
        if replay.after.owner(slot) != Some(owner) {
            dearest[i] = dearest[i].max(Some(cost));
        } else if !replay::pinned(input, slot) {
            cheapest[i] = Some(cheapest[i].map_or(cost, |c| c.min(cost)));
        }
    }
    let dearer = |moves: Option<u64>, stays: Option<u64>| matches!((moves, stays), (Some(m), Some(s)) if m > s);
    let (mut less, mut more) = (Vec::new(), Vec::new());
    for (i, shard) in input.shards.iter().enumerate() {
        if dearer(dearest[i], cheapest[i]) {
            faults.add(format_args!("{} keeps a slot with fewer bytes than one it gives", shard.id));
        }
        let after = replay.count_after[i];
        if replay.gave[i] > 0 && after < *bands[i].end() {
            less.push(dearest[i]);
        }
        if after <= replay.count_before[i] && after > *bands[i].start() {
            more.push(cheapest[i]);
        }
    }
    if dearer(less.into_iter().max().flatten(), more.into_iter().flatten().min()) {
        faults.add("a shard gives a slot with more bytes than one that another could give instead");
    }
}

/// The curve: the least moves at each of its tolerances, which ascend from 0.
pub(super) fn curve(goal: Goal, replay: &Replay, shares: &[Share], curve: &[CurvePoint], faults: &mut Faults) {
    if matches!(goal, Goal::DrainOnly | Goal::BalanceLoad { .. }) {
        if goal == Goal::DrainOnly && !curve.is_empty() {
            faults.add("curve: a drain has none");
        }
        return;
    }
    let owned: u32 = replay.count_before.iter().sum();
    let bound = |ppm: u32| {
        let (mut above, mut below) = (0, 0);
        for (share, &count) in shares.iter().zip(&replay.count_before) {
            let band = within(share, ppm);
            above += count.saturating_sub(*band.end());
            below += band.start().saturating_sub(count);
        }
        above.max(below.saturating_sub(16384 - owned))
    };
    points(curve, bound, faults);
}

/// The points of any curve.
pub(super) fn points(curve: &[CurvePoint], bound: impl Fn(u32) -> u32, faults: &mut Faults) {
    if !curve.is_sorted_by(|a, b| a.tolerance < b.tolerance) || curve.first().is_some_and(|p| p.tolerance.0 > 0) {
        faults.add("curve: its tolerances do not ascend from 0");
    }
    for point in curve {
        let what = format!("curve: moves at {} %", point.tolerance.percent());
        faults.differ(what, point.moves, bound(point.tolerance.0));
    }
    if curve.is_empty() && bound(0) > 0 {
        faults.add("curve: it is missing");
    }
}
