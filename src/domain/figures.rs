//! What a plan tells beside its actions: both costs, the curve of moves against tolerance, loads. Figures, not
//! decisions: the digest does not cover them, the checker recomputes every one.

use serde::{Deserialize, Serialize};

use super::{LoadMetric, ShardId, Slot, Tolerance};

/// Which slots are chosen once it is settled how many move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Few contiguous ranges afterwards.
    #[default]
    Ranges,
    /// Few bytes moved; needs statistics.
    Bytes,
}

impl Objective {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ranges => "ranges",
            Self::Bytes => "bytes",
        }
    }
}

/// What one choice of slots costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Contiguous ranges afterwards.
    pub ranges: u32,
    /// Bytes in the moved slots.
    pub bytes: u64,
}

/// Both costs of the plan, and of what the other objective would have chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// What the slots were chosen for.
    pub objective: Objective,
    /// What this plan costs.
    pub chosen: Cost,
    /// What the other objective would have cost with as many moves.
    pub other: Cost,
}

/// One step of the curve: so many moves bring every shard within the tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Half-width of the band.
    pub tolerance: Tolerance,
    /// The fewest moves; of a load plan no fewer than these.
    pub moves: u32,
}

/// One shard's load before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardLoad {
    /// The shard.
    pub shard: ShardId,
    /// Load now.
    pub before: u64,
    /// Load when every action is done.
    pub after: u64,
    /// Least load it is to have.
    pub lo: u64,
    /// Most load it is to have.
    pub hi: u64,
    /// Moves counted where they leave, at least so many whoever plans; prices included.
    pub shed: u32,
    /// Moves counted where they arrive, at least so many whoever plans; prices included.
    pub fill: u32,
}

/// A slot that alone is above the band of every shard that could have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotSlot {
    /// The slot.
    pub slot: Slot,
    /// Its load.
    pub load: u64,
    /// Who has it afterwards.
    pub shard: ShardId,
}

/// What a plan that balances load reaches, and the proof of its lower bound `max(Σ shed, Σ fill − unassigned)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadFigures {
    /// What is balanced.
    pub metric: LoadMetric,
    /// All of it.
    pub total: u64,
    /// What was asked for.
    pub asked: Tolerance,
    /// How far the farthest shard is from its share now, rounded up.
    pub before: Tolerance,
    /// How far it is afterwards.
    pub reached: Tolerance,
    /// No owners of these slots bring every shard nearer than this.
    pub floor: Tolerance,
    /// Why `reached` is above `asked`, and what would help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreached: Option<String>,
    /// Slots that are too hot, hottest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hot: Vec<HotSlot>,
    /// Every shard, ascending by id.
    pub shards: Vec<ShardLoad>,
}

/// Everything a plan tells beside its actions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Both costs, where the bytes of the slots are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// The fewest moves by tolerance, from 0 on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<CurvePoint>,
    /// The loads, where the goal is to balance them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadFigures>,
}

impl Figures {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.costs.is_none() && self.curve.is_empty() && self.load.is_none()
    }
}
