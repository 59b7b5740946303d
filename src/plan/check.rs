//! The independent checker: recomputes every claim of a body from the input. It shares no code with the planner; where
//! both need a number, it is found by another method.

use std::fmt;

use crate::domain::{ActionKind, Goal, Limits, PlanBody, ShardId, ShardState, Slot, SlotRange, UNASSIGNED};

use super::Input;

mod bands;
mod budget;
mod figures;
mod load;
mod placement;
mod replay;
pub(super) mod share;
mod waves;

use bands::Expected;
use replay::Replay;
use share::Share;

pub use placement::check_placement;

/// Checks a body against the input, the goal and the limits it was made for: that each slot moves at most once, from its
/// owner, pinned ones not at all; that every shard ends within its band; that no plan moves fewer slots; that the
/// certificate, the figures and the waves are true. Actions without slots may lead in waves of their own.
///
/// # Errors
/// Every fault found, a sentence each.
pub fn check(input: &Input<'_>, goal: Goal, limits: &Limits, body: &PlanBody) -> Result<(), Vec<String>> {
    let mut faults = Faults::default();
    if let Some((replay, shares)) = look(input, limits, body, &mut faults) {
        let expected = Expected::of(goal, input, &replay, &shares, &mut faults);
        if let Goal::Budget { max_moves } = goal {
            budget::check(input, &replay, &shares, max_moves, &mut faults);
        }
        if !expected.by_load {
            replay.both.iter().for_each(|id| faults.add(format_args!("{id} both gives and takes slots")));
        }
        if goal == Goal::DrainOnly {
            only_draining_give(input, &replay, &mut faults);
        }
        if let Goal::BalanceLoad { metric, tolerance } = goal {
            load::check(metric, tolerance, input, &replay, body, &mut faults);
        }
        if let Some(costs) = &body.figures.costs {
            figures::cheapest(input, &replay, &expected.bands, costs, &mut faults);
        }
        figures::curve(goal, &replay, &shares, &body.figures.curve, &mut faults);
        certificate(input, &replay, &expected, body, &mut faults);
    }
    faults.verdict()
}

/// Checks a body made by [`revert`](super::revert): that exactly the slots go back which the original moved and whose owner
/// is still its target, and everything else as [`check`] does.
///
/// # Errors
/// Every fault found, a sentence each.
pub fn check_revert(
    input: &Input<'_>,
    original: &PlanBody,
    limits: &Limits,
    body: &PlanBody,
) -> Result<(), Vec<String>> {
    let mut faults = Faults::default();
    if let Some((replay, _)) = look(input, limits, body, &mut faults) {
        let mut after = input.table.clone();
        for action in &original.actions {
            let ActionKind::MoveSlots { from, to, ranges } = &action.kind else { continue };
            for slot in ranges.iter().flat_map(|range| range.slots()) {
                let stays = replay::pinned(input, slot) || input.table.owner(slot) != Some(to);
                if !stays && after.assign(SlotRange::single(slot), Some(from)).is_err() {
                    faults.add(format_args!("slot {slot} would go back to {from}, which is no shard of the cluster"));
                }
            }
        }
        if let Some(slot) = Slot::all().find(|slot| after.owner(*slot) != replay.after.owner(*slot)) {
            let name = |owner: Option<&ShardId>| owner.map_or("nobody".to_owned(), ToString::to_string);
            let (wanted, got) = (name(after.owner(slot)), name(replay.after.owner(slot)));
            faults.add(format_args!("slot {slot} should belong to {wanted} after the way back, but belongs to {got}"));
        }
        let expected = Expected::counts(&replay);
        certificate(input, &replay, &expected, body, &mut faults);
    }
    faults.verdict()
}

/// Checks a body made by [`repair`](super::repair): that it does nothing but close slots, each once, for the shard that
/// owns it by the table, and everything else as [`check`] does.
///
/// # Errors
/// Every fault found, a sentence each.
pub fn check_repair(input: &Input<'_>, limits: &Limits, body: &PlanBody) -> Result<(), Vec<String>> {
    let mut faults = Faults::default();
    let mut seen = std::collections::BTreeSet::new();
    for action in &body.actions {
        match &action.kind {
            ActionKind::RepairSlot { slot, owner } if input.table.owner(*slot) == Some(owner) => {
                if !seen.insert(*slot) {
                    faults.add(format_args!("slot {slot} is repaired twice"));
                }
            }
            ActionKind::RepairSlot { slot, owner } => {
                faults.add(format_args!("{}: slot {slot} is not owned by {owner}", action.id));
            }
            _ => faults.add(format_args!("{} does something else than repair a slot", action.id)),
        }
    }
    if let Some((replay, _)) = look(input, limits, body, &mut faults) {
        certificate(input, &replay, &Expected::counts(&replay), body, &mut faults);
    }
    faults.verdict()
}

/// The checks that every body passes, whatever its goal.
fn look(input: &Input<'_>, limits: &Limits, body: &PlanBody, faults: &mut Faults) -> Option<(Replay, Vec<Share>)> {
    if !input.shards.iter().map(|shard| &shard.id).eq(input.table.shards()) {
        faults.add("the shards are not those of the slot table");
        return None;
    }
    let replay = Replay::of(input, limits, body, faults);
    let shares = match share::balanced(input) {
        Ok(shares) => shares,
        Err(why) => {
            faults.add(why);
            return None;
        }
    };
    shards(input, &replay, &shares, body, faults);
    summary(input, &replay, &shares, body, faults);
    figures::check(input, &replay, body, faults);
    waves::check(limits, body, faults);
    if body.empty_because.is_some() != body.actions.is_empty() {
        faults.add("empty_because must be given exactly when there are no actions");
    }
    Some((replay, shares))
}

fn shards(input: &Input<'_>, replay: &Replay, shares: &[Share], body: &PlanBody, faults: &mut Faults) {
    if !body.shards.iter().map(|change| &change.id).eq(input.table.shards()) {
        return faults.add("the plan does not list every shard once, ascending by id");
    }
    for (i, (change, shard)) in body.shards.iter().zip(input.shards).enumerate() {
        let id = &shard.id;
        faults.differ(format_args!("{id}: slots before"), change.before, replay.count_before[i]);
        faults.differ(format_args!("{id}: slots after"), change.after, replay.count_after[i]);
        faults.differ(format_args!("{id}: weight"), change.weight.get(), shard.weight.get());
        if (change.state, &change.bounds) != (shard.state, &shard.into()) {
            faults.add(format_args!("{id}: its state or its bounds are not those of the cluster"));
        }
        faults.differ(format_args!("{id}: quota"), change.quota, shares[i].quota());
    }
}

fn summary(input: &Input<'_>, replay: &Replay, shares: &[Share], body: &PlanBody, faults: &mut Faults) {
    let summary = &body.summary;
    faults.differ("summary: slots", summary.slots, replay.moved);
    faults.differ("summary: assigned", summary.assigned, replay.assigned);
    faults.differ("summary: ranges_before", summary.ranges_before as usize, input.table.range_count());
    faults.differ("summary: ranges_after", summary.ranges_after as usize, replay.after.range_count());
    for (what, shown, counts) in [
        ("summary: worst_before", summary.worst_before, &replay.count_before),
        ("summary: worst_after", summary.worst_after, &replay.count_after),
    ] {
        let worst: Vec<i64> = share::farthest(shares, counts);
        // Two shards may be equally far away, one above and one below.
        let true_without_shards = worst.is_empty() && shown == 0;
        if !worst.contains(&shown) && !true_without_shards {
            faults.add(format_args!("{what} says {shown}, but the farthest shard is away by {worst:?}"));
        }
    }
}

fn only_draining_give(input: &Input<'_>, replay: &Replay, faults: &mut Faults) {
    for (i, shard) in input.shards.iter().enumerate().filter(|(_, shard)| shard.state != ShardState::Draining) {
        if replay.gave[i] > 0 {
            faults.add(format_args!("{} is not draining but gives {} slots", shard.id, replay.gave[i]));
        }
    }
}

/// Bands, lower bound and minimality.
fn certificate(input: &Input<'_>, replay: &Replay, expected: &Expected, body: &PlanBody, faults: &mut Faults) {
    let shown = &body.certificate;
    let unassigned = input.table.owners().iter().filter(|owner| **owner == UNASSIGNED).count();
    faults.differ("certificate: unassigned", shown.unassigned as usize, unassigned);
    let (mut surplus, mut deficit) = (0, 0);
    for (i, band) in expected.bands.iter().enumerate() {
        surplus += replay.count_before[i].saturating_sub(*band.end());
        deficit += band.start().saturating_sub(replay.count_before[i]);
        let after = replay.count_after[i];
        if !band.contains(&after) {
            let (lo, hi, id) = (band.start(), band.end(), &input.shards[i].id);
            faults.add(format_args!("{id} ends with {after} slots, outside its band {lo}..={hi}"));
        }
    }
    faults.differ("certificate: surplus", shown.surplus, surplus);
    faults.differ("certificate: deficit", shown.deficit, deficit);
    let bands = expected.bands.iter().zip(input.shards);
    if !bands
        .map(|(band, shard)| (&shard.id, *band.start(), *band.end()))
        .eq(shown.bands.iter().map(|band| (&band.shard, band.lo, band.hi)))
    {
        faults.add("certificate: the bands are not those of the goal, one of each shard, ascending");
    }
    let unassigned = u32::try_from(unassigned).expect("at most 16384");
    if !expected.by_load {
        let bound = surplus.max(deficit.saturating_sub(unassigned));
        faults.differ("summary: lower_bound", body.summary.lower_bound, bound);
        if replay.moved != bound {
            faults.add(format_args!("{} slots move, but {bound} are enough and needed", replay.moved));
        }
    }
    let stay = if expected.assigns { 0 } else { unassigned };
    faults.differ("unassigned slots that get an owner", replay.assigned, unassigned - stay);
}

/// Faults, in the order found.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn add(&mut self, fault: impl fmt::Display) {
        self.0.push(fault.to_string());
    }

    fn differ<T: PartialEq + fmt::Display + Copy>(&mut self, what: impl fmt::Display, shown: T, computed: T) {
        if shown != computed {
            self.add(format_args!("{what}: the plan says {shown}, but it is {computed}"));
        }
    }

    fn verdict(self) -> Result<(), Vec<String>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}
