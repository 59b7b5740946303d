//! Exact minimal slot moves: from a topology and a goal to a plan body. Pure: no clock, no IO, no randomness, integers only.
//!
//! In reading order: `survey` (the input by index), `quota` (exact shares), `targets` (bands, lower bound, counts
//! afterwards), `aim` (what each goal makes of them), `layout` and `runs` (which slots), `cheapest` (which slots when bytes
//! count), `load` (balancing keys, bytes or operations), `actions` (cut and ordered), `waves`, `body`, `costs` and `curve`
//! (figures), `revert`, `repair` (slots the nodes have otherwise), and `check`, which trusts none of these; `review` is what a person should know, `facts` what was seen of the nodes and `preflight` what they say against a plan, `eta` how long it
//! takes, `remedy` what makes an infeasible goal feasible. `memory` brings slots back to their earlier owners, `placement`
//! says which node copies which shard (both by `flow`), `explain` says why in sentences.

use std::collections::BTreeSet;

use crate::domain::{Goal, Limits, LoadMetric, Objective, PlanBody, Shard, ShardId, SlotTable, Statistics, Tolerance};

mod survey;
mod quota;
mod targets;
mod aim;
mod layout;
mod runs;
mod cheapest;
mod load;
mod actions;
mod waves;
mod body;
mod costs;
mod curve;
mod revert;
mod check;
mod facts;
mod preflight;
mod repair;
mod review;
mod eta;
mod explain;
mod flow;
mod memory;
mod placement;
mod error;
mod remedy;

pub use check::{check, check_placement, check_repair, check_revert};
pub use error::PlanError;
pub use eta::eta_seconds;
pub use explain::{Known, explain_shard, explain_slot};
pub use facts::{DriftFact, Facts, NodeFacts, SampleFacts};
pub use memory::Memory;
pub use placement::{Placed, PlacementError, PlacementInput, place};
pub use preflight::obstacles;
pub use remedy::{Change, Remedy, Setting};
pub use repair::repair;
pub use revert::{revert, with_leading_actions, with_leading_waves};
pub use review::{Looked, checks};

use aim::Aim;
use survey::Survey;

/// What the planner looks at.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Owners now.
    pub table: &'a SlotTable,
    /// Every shard of the table, ascending by id, with its desired state.
    pub shards: &'a [Shard],
    /// Draining shards that are dead: their slots are assigned anew without reading them, pinned ones too.
    pub lost: &'a BTreeSet<ShardId>,
    /// What is known of each slot, where anything is.
    pub statistics: Option<&'a Statistics>,
}

/// Computes the fewest slot moves that reach the goal, which slots, and in which waves.
///
/// Slots of lost shards count as moved, though they are assigned; slots that had no owner do not. [`Goal::DrainOnly`]
/// leaves unassigned slots alone and gives the drained ones to the shards with a weight that own least of their share;
/// [`Goal::Budget`] counts no assignment, and is the first part of the exact plan, steepest descent of Σ(t−q)²/w first.
/// Actions come in that order too, as far as the waves allow.
///
/// # Errors
/// [`PlanError`] naming the shard or bound that makes the goal infeasible.
pub fn plan(input: &Input<'_>, goal: Goal, limits: &Limits) -> Result<PlanBody, PlanError> {
    plan_for(input, goal, Objective::Ranges, limits)
}

/// As [`plan`], with the slots chosen for few bytes moved, or for few ranges. Neither changes how many move.
///
/// # Errors
/// Those of [`plan`]; and where statistics are needed and missing, or the goal chooses the slots itself.
pub fn plan_for(input: &Input<'_>, goal: Goal, objective: Objective, limits: &Limits) -> Result<PlanBody, PlanError> {
    plan_remembering(input, goal, objective, limits, &Memory::default())
}

/// As [`plan_for`], with slots going back to their earlier owners as far as that costs no move more. Only ranges come
/// after that: with the objective bytes, and with a goal that counts load, nothing is remembered.
///
/// # Errors
/// Those of [`plan_for`].
pub fn plan_remembering(
    input: &Input<'_>,
    goal: Goal,
    objective: Objective,
    limits: &Limits,
    memory: &Memory,
) -> Result<PlanBody, PlanError> {
    limits.validate().map_err(PlanError::Limits)?;
    let survey = Survey::new(input)?;
    if let Goal::BalanceLoad { metric, tolerance } = goal {
        return match objective {
            Objective::Ranges => load::plan(&survey, metric, tolerance, limits),
            Objective::Bytes => Err(PlanError::ObjectiveMismatch),
        };
    }
    if objective == Objective::Bytes {
        survey.figures_of(LoadMetric::Bytes, "the objective bytes")?;
    }
    let aimed = Aim::of(goal, &survey)?;
    let mut aim = aimed.clone();
    let remembered =
        if objective == Objective::Ranges { memory::owners(&survey, &mut aim, goal, memory) } else { None };
    let after = remembered.unwrap_or_else(|| costs::owners(&survey, &mut aim, objective));
    let mut body = body::between(&survey, &aim, &after, limits);
    body.figures.costs = costs::both(&survey, &aimed, objective, &after);
    body.figures.curve = curve::of(goal, &survey);
    if body.actions.is_empty() {
        body.empty_because = Some(why_empty(goal, &survey, &aim));
    }
    Ok(body)
}

fn why_empty(goal: Goal, survey: &Survey<'_>, aim: &Aim) -> String {
    match goal {
        Goal::DrainOnly => {
            let pinned: u32 = body::draining_shards(survey).map(|i| survey.counts[i]).sum();
            match (body::draining_shards(survey).count(), pinned) {
                (0, _) => "no shard is draining".to_owned(),
                (_, 0) => "the draining shards own no slots any more".to_owned(),
                (_, pinned) => format!("the draining shards own only {pinned} pinned slots, which stay"),
            }
        }
        Goal::Budget { max_moves: 0 } if survey.counts.iter().zip(&aim.targets).all(|(c, t)| c == t) => {
            let exact = targets::Bands::exact(&survey.shares).lower_bound(&survey.counts, survey.unassigned).moves;
            match exact {
                0 => "every shard owns its exact share already".to_owned(),
                moves => format!("max_moves is 0; {moves} moves would reach the exact balance"),
            }
        }
        Goal::Balance { tolerance } if tolerance > Tolerance(0) => {
            format!("every shard is within {} % of its share already", tolerance.percent())
        }
        Goal::BalanceAbove { trigger } if !aim::is_triggered(survey, trigger) => {
            format!("no shard is farther than {} % of its slots from its share", trigger.percent())
        }
        Goal::Balance { .. } | Goal::BalanceAbove { .. } | Goal::Budget { .. } | Goal::BalanceLoad { .. } => {
            "every shard owns its exact share already".to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
