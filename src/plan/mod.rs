//! Exact minimal slot moves: from a topology and a goal to a plan body. Pure: no clock, no IO, no randomness, integers only.

use std::collections::BTreeSet;

use crate::domain::{Goal, Limits, PlanBody, Shard, ShardId, SlotTable};

/// What the planner looks at.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Owners now.
    pub table: &'a SlotTable,
    /// Every shard of the table, ascending by id, with its desired state.
    pub shards: &'a [Shard],
    /// Draining shards that are dead: their slots are assigned anew without reading them.
    pub lost: &'a BTreeSet<ShardId>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// To be filled in.
    #[error("unsupported goal")]
    Unsupported,
}

/// Computes the fewest slot moves that reach the goal, which slots, and in which waves.
///
/// # Errors
/// [`PlanError`] naming the shard or bound that makes the goal infeasible.
pub fn plan(_input: &Input<'_>, _goal: Goal, _limits: &Limits) -> Result<PlanBody, PlanError> {
    unimplemented!("src/plan")
}

/// The independent checker: recomputes every claim of a body against the input; shares no code with the planner.
///
/// # Errors
/// Every fault found, a sentence each.
pub fn check(_input: &Input<'_>, _goal: Goal, _limits: &Limits, _body: &PlanBody) -> Result<(), Vec<String>> {
    unimplemented!("src/plan/check.rs")
}
