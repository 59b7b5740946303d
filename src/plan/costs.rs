//! Which slots move under each objective, and what either costs.

use super::aim::Aim;
use super::body::{self, moved, ranges};
use super::cheapest;
use super::survey::Survey;
use crate::domain::{Cost, Costs, LoadMetric, Objective, Slot};

/// The owners afterwards. Bytes may be cheaper with other donors, within the bands: `aim` follows.
pub(super) fn owners(survey: &Survey<'_>, aim: &mut Aim, objective: Objective) -> Vec<u16> {
    let bytes = survey.statistics.and_then(|statistics| statistics.of(LoadMetric::Bytes));
    match (objective, bytes) {
        (Objective::Bytes, Some(bytes)) => {
            let moving = cheapest::slots(survey, aim, bytes);
            body::owners(survey, aim, |slot| moving[slot])
        }
        _ => body::owners(survey, aim, |slot| !survey.pinned.contains(Slot::at(slot))),
    }
}

/// The costs of the chosen owners and of what the other objective would choose from the same aim; none where bytes are not
/// known.
pub(super) fn both(survey: &Survey<'_>, aim: &Aim, objective: Objective, after: &[u16]) -> Option<Costs> {
    let cost = |after: &[u16]| {
        let bytes = moved(survey, after, LoadMetric::Bytes)?;
        Some(Cost { ranges: ranges(after, survey.nobody), bytes })
    };
    let chosen = cost(after)?;
    let other = match objective {
        Objective::Ranges => Objective::Bytes,
        Objective::Bytes => Objective::Ranges,
    };
    let other = cost(&owners(survey, &mut aim.clone(), other))?;
    Some(Costs { objective, chosen, other })
}
