//! Why there is no plan: every refusal names the shard, the numbers, and what would make the goal feasible.

use super::remedy::{Remedy, Setting};
use crate::domain::{Invalid, LoadMetric, ShardId, Slot};

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Statistics are needed and none were given.
    #[error(
        "{needed_by} needs the {} of each slot: give statistics with the columns slot and {}",
        .metric.as_str(), .metric.as_str()
    )]
    StatisticsMissing {
        /// What is needed.
        metric: LoadMetric,
        /// By whom.
        needed_by: &'static str,
    },
    /// The statistics have no such column.
    #[error("{needed_by} needs the {} of each slot, and the statistics have no column {}", .metric.as_str(), .metric.as_str())]
    ColumnMissing {
        /// What is needed.
        metric: LoadMetric,
        /// By whom.
        needed_by: &'static str,
    },
    /// The statistics do not cover the slots that have an owner.
    #[error(
        "the statistics list {listed} slots and leave out {missing} that have an owner, first slot {first}; list every \
         one, with 0 where there is nothing"
    )]
    SlotsMissing {
        /// Slots with an owner that are not listed.
        missing: usize,
        /// Slots listed.
        listed: usize,
        /// The first that is missing.
        first: Slot,
    },
    /// Load balancing chooses the slots by their load.
    #[error(
        "the objective bytes says which slots move when a goal counts slots; the goal balance_load chooses them by load"
    )]
    ObjectiveMismatch,
    /// The copies of the shards cannot be placed.
    #[error("placement: {0}")]
    Placement(#[from] super::PlacementError),
    /// A limit is out of its bounds.
    #[error("limits: {0}")]
    Limits(#[source] Invalid),
    /// The list of shards is not the one of the slot table.
    #[error(
        "the shards and the slot table differ: {shard} {fault}; give every shard of the table once, ascending by id"
    )]
    ShardsDiffer {
        /// The first shard that differs.
        shard: ShardId,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A lost shard must be a draining shard of the cluster.
    #[error("{shard} is listed as lost but {fault}; only a draining shard of the cluster can be lost")]
    LostMismatch {
        /// The shard.
        shard: ShardId,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// Nobody can take slots.
    #[error(
        "none of the {shards} shards is active with a weight above 0, so nobody can own the {homeless} slots that have \
         to go somewhere; add a shard or cancel a drain{}",
        or(.remedy)
    )]
    NoActiveShard {
        /// Number of shards.
        shards: usize,
        /// Slots that find no owner.
        homeless: u32,
        /// What would help.
        remedy: Remedy,
    },
    /// `min_slots` above `max_slots`.
    #[error("{shard} has min_slots {min} above max_slots {max}; lower min_slots to {max} or raise max_slots to {min}")]
    MinAboveMax {
        /// The shard.
        shard: ShardId,
        /// Its `min_slots`.
        min: u32,
        /// Its `max_slots`.
        max: u32,
    },
    /// More pinned slots than `max_slots`.
    #[error(
        "{shard} owns {pinned} pinned slots above its max_slots {max}; unpin {} slots or raise max_slots to {pinned}",
        .pinned - .max
    )]
    PinsAboveMax {
        /// The shard.
        shard: ShardId,
        /// Pinned slots it owns.
        pinned: u32,
        /// Its `max_slots`.
        max: u32,
    },
    /// The lower bounds add up to more than there is.
    #[error(
        "min_slots and pins ask for {required} slots, but there are {total} ({}); lower them by {} in all{}",
        list(.bounds), .required - .total, or_such_as(.remedy)
    )]
    TooManyRequired {
        /// Sum of the lower bounds.
        required: u32,
        /// Slots there are.
        total: u32,
        /// The shards with a lower bound above 0, largest first.
        bounds: Vec<(ShardId, u32)>,
        /// What would help.
        remedy: Remedy,
    },
    /// The upper bounds add up to less than there is.
    #[error(
        "the shards may own only {room} of {total} slots ({2}); raise max_slots by {0} in all, or add room for {0} slots{1}",
        .total - .room, or_such_as(.remedy), list(.bounds)
    )]
    TooLittleRoom {
        /// Sum of the upper bounds.
        room: u32,
        /// Slots there are.
        total: u32,
        /// The upper bound of each shard that is not draining, smallest first.
        bounds: Vec<(ShardId, u32)>,
        /// What would help.
        remedy: Remedy,
    },
    /// The draining shards own more than the others may take.
    #[error(
        "the draining shards give {slots} slots, but the others have room for {room} ({2}); raise max_slots by {0} in \
         all, or add room for {0} slots{1}",
        .slots - .room, or_such_as(.remedy), list(.bounds)
    )]
    NoRoomForDrain {
        /// Slots to give away.
        slots: u32,
        /// Slots the others may take.
        room: u32,
        /// The room of each shard that may take slots, smallest first.
        bounds: Vec<(ShardId, u32)>,
        /// What would help.
        remedy: Remedy,
    },
    /// A plan cannot be undone because a source does not exist any more, or is lost.
    #[error("{slots} slots would go back to {shard}, which {fault}; plan a balance instead")]
    NoWayBack {
        /// The source of the original plan.
        shard: ShardId,
        /// Slots that it gave and whose owner is still the one it gave them to.
        slots: u32,
        /// Why it cannot take them.
        fault: &'static str,
    },
}

fn or(remedy: &Remedy) -> String {
    if remedy.0.is_empty() { String::new() } else { format!(", or {remedy}") }
}

fn or_such_as(remedy: &Remedy) -> String {
    if remedy.0.is_empty() { String::new() } else { format!(": {remedy}") }
}

impl PlanError {
    /// The smallest change that makes the goal feasible, where settings of shards are in the way.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::NoActiveShard { remedy, .. }
            | Self::TooManyRequired { remedy, .. }
            | Self::TooLittleRoom { remedy, .. }
            | Self::NoRoomForDrain { remedy, .. } => Some(remedy.clone()).filter(|remedy| !remedy.0.is_empty()),
            Self::MinAboveMax { shard, min, .. } => Some(Remedy::one(shard, Setting::MaxSlots, *min)),
            Self::PinsAboveMax { shard, max, .. } => Some(Remedy::one(shard, Setting::Pins, *max)),
            _ => None,
        }
    }

    /// What of a proposal cannot be reached.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        if matches!(self, Self::Placement(_)) { "placement" } else { "goal" }
    }
}

/// At most five entries, so that a text stays readable with a thousand shards.
fn list(bounds: &[(ShardId, u32)]) -> String {
    let shown: Vec<String> = bounds.iter().take(5).map(|(shard, slots)| format!("{shard} {slots}")).collect();
    let rest = bounds.len().saturating_sub(5);
    if rest == 0 { shown.join(", ") } else { format!("{} and {rest} more", shown.join(", ")) }
}
