//! Repairing: slots that nodes have otherwise than the table are brought to their owners by the table, which does not change.

use std::collections::BTreeMap;

use super::aim::Aim;
use super::survey::Survey;
use super::targets::Bands;
use super::{Input, PlanError, body, with_leading_waves};
use crate::domain::{ActionKind, Limits, PlanBody, ShardId, Slot};

/// Most slots of one wave: what is repaired together.
const WAVE_SLOTS_MAX: usize = 64;

/// The body that repairs these slots, ascending, at most 64 at a time; no owner changes. Checked by
/// [`check_repair`](super::check_repair).
///
/// # Errors
/// The refusals of [`plan`](super::plan) about limits and bounds.
///
/// # Panics
/// When a slot is to go to another shard than its owner: a defect in the caller.
pub fn repair(input: &Input<'_>, slots: &BTreeMap<Slot, ShardId>, limits: &Limits) -> Result<PlanBody, PlanError> {
    limits.validate().map_err(PlanError::Limits)?;
    let survey = Survey::new(input)?;
    let targets = survey.counts.clone();
    let aim = Aim { bands: Bands::fixed(&targets), targets, left_unassigned: survey.unassigned };
    let mut body = body::between(&survey, &aim, &survey.owners, limits);
    if slots.is_empty() {
        body.empty_because = Some("no slot is open, and the nodes own what the table says".to_owned());
        return Ok(body);
    }
    assert!(slots.iter().all(|(slot, owner)| input.table.owner(*slot) == Some(owner)), "a repair changes no owner");
    let kinds: Vec<ActionKind> =
        slots.iter().map(|(slot, owner)| ActionKind::RepairSlot { slot: *slot, owner: owner.clone() }).collect();
    let waves = kinds.chunks(WAVE_SLOTS_MAX).map(<[_]>::to_vec).collect();
    Ok(with_leading_waves(body, waves))
}
