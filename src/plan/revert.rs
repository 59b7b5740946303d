//! The way back: undoes the moves of a plan, and puts actions without slots before the others.

use super::aim::Aim;
use super::survey::Survey;
use super::targets::Bands;
use super::{Input, PlanError, body};
use crate::domain::{Action, ActionId, ActionKind, Limits, PlanBody, ShardId, Slot};

/// The body that gives every slot a plan has moved back to its source, as far as the plan's target still owns it.
///
/// Only moves go back: a slot that was assigned, because it had no owner or its owner was lost, stays, and so does one
/// that is pinned where it is. The bands of the certificate are the counts that result. Checked by
/// [`check_revert`](super::check_revert).
///
/// # Errors
/// [`PlanError::NoWayBack`] when a source is gone or lost; the refusals of [`plan`](super::plan) about bounds.
pub fn revert(input: &Input<'_>, original: &PlanBody, limits: &Limits) -> Result<PlanBody, PlanError> {
    limits.validate().map_err(PlanError::Limits)?;
    let survey = Survey::new(input)?;
    let mut after = survey.owners.clone();
    let mut moved = false;
    for action in &original.actions {
        let ActionKind::MoveSlots { from, to, ranges } = &action.kind else { continue };
        moved = true;
        let Some(to) = input.table.index_of(to) else { continue };
        let slots = ranges.iter().flat_map(|range| range.slots());
        let returning: Vec<Slot> =
            slots.filter(|&slot| survey.owners[slot.index()] == to && !survey.pinned.contains(slot)).collect();
        if !returning.is_empty() {
            let from = home(input, from, returning.len())?;
            for slot in returning {
                after[slot.index()] = from;
            }
        }
    }
    let mut targets = vec![0; survey.shards.len()];
    for &owner in after.iter().filter(|&&owner| owner != survey.nobody) {
        targets[usize::from(owner)] += 1;
    }
    let aim = Aim { bands: Bands::fixed(&targets), targets, left_unassigned: survey.unassigned };
    let mut body = body::between(&survey, &aim, &after, limits);
    if body.actions.is_empty() {
        let why =
            if moved { "no slot that the plan moved is still where it put it" } else { "the plan moved no slots" };
        body.empty_because = Some(why.to_owned());
    }
    Ok(body)
}

/// The index of a source that can take its slots back.
fn home(input: &Input<'_>, shard: &ShardId, slots: usize) -> Result<u16, PlanError> {
    let slots = u32::try_from(slots).expect("at most 16384");
    let no_way = |fault| PlanError::NoWayBack { shard: shard.clone(), slots, fault };
    let index = input.table.index_of(shard).ok_or_else(|| no_way("is not a shard of the cluster any more"))?;
    if input.lost.contains(shard) { Err(no_way("is lost")) } else { Ok(index) }
}

/// Puts actions that move no slots, such as promotions, before the others, as a wave of their own.
///
/// # Panics
/// When one of them moves slots: a defect in the caller.
#[must_use]
pub fn with_leading_actions(body: PlanBody, leading: Vec<ActionKind>) -> PlanBody {
    with_leading_waves(body, vec![leading])
}

/// The same with several waves; empty ones are left out.
///
/// # Panics
/// When one of the actions moves slots: a defect in the caller.
#[must_use]
pub fn with_leading_waves(mut body: PlanBody, leading: Vec<Vec<ActionKind>>) -> PlanBody {
    for kinds in leading.into_iter().rev().filter(|kinds| !kinds.is_empty()) {
        assert!(kinds.iter().all(|kind| kind.slots() == 0), "leading actions move no slots");
        let shift = u32::try_from(kinds.len()).expect("at most one action a node");
        for action in &mut body.actions {
            action.id.0 += shift;
        }
        for id in body.waves.iter_mut().flatten() {
            id.0 += shift;
        }
        let first: Vec<Action> = (1..).zip(kinds).map(|(id, kind)| Action { id: ActionId(id), kind }).collect();
        body.waves.insert(0, first.iter().map(|action| action.id).collect());
        body.actions.splice(0..0, first);
        body.summary.waves += 1;
        body.summary.waves_lower_bound += 1;
        body.empty_because = None;
    }
    body
}
