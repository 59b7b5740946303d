//! What a plan tells beside its actions: both costs, the curve, loads. Not part of the digest; the checker recomputes it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::{
    Cost, Costs, CurvePoint, Figures, HotSlot, Invalid, LoadFigures, LoadMetric, Objective, ShardId, ShardLoad, Slot,
    Tolerance,
};
use crate::wire::schema;

/// What the slots were chosen for, and what that and the other choice cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CostsView {
    /// What the slots were chosen for.
    #[schema(schema_with = schema::objective)]
    pub objective: Objective,
    /// What this plan costs.
    pub chosen: CostView,
    /// What the other objective would have cost with as many moves.
    pub other: CostView,
}

/// What one choice of slots costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CostView {
    /// Contiguous ranges afterwards.
    pub ranges: u32,
    /// Bytes in the moved slots.
    pub bytes: u64,
}

/// The fewest moves at one tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CurvePointView {
    /// Half-width of the band in parts per million: 1 % is 10000.
    pub tolerance_ppm: u32,
    /// The fewest moves that bring every shard inside; of a load plan no fewer than these.
    pub moves: u32,
}

/// What a plan that balances load reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoadView {
    /// What is balanced.
    #[schema(schema_with = schema::load_metric)]
    pub metric: LoadMetric,
    /// All of it.
    pub total: u64,
    /// What was asked for, in parts per million of a share.
    pub asked_ppm: u32,
    /// How far the farthest shard is from its share now, rounded up.
    pub before_ppm: u32,
    /// How far it is afterwards.
    pub reached_ppm: u32,
    /// No owners of these slots bring every shard nearer than this.
    pub floor_ppm: u32,
    /// Why `reached_ppm` is above `asked_ppm`, and what would help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreached: Option<String>,
    /// Slots that alone are above the band of every shard, hottest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hot: Vec<HotSlotView>,
    /// Every shard, ascending by id: the lower bound is `max(Σ shed, Σ fill - unassigned)`.
    pub shards: Vec<ShardLoadView>,
}

/// A slot that is too hot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HotSlotView {
    /// The slot.
    #[schema(value_type = u16, maximum = 16383)]
    pub slot: Slot,
    /// Its load.
    pub load: u64,
    /// Who has it afterwards.
    #[schema(value_type = String)]
    pub shard: ShardId,
}

/// One shard's load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShardLoadView {
    /// The shard.
    #[schema(value_type = String)]
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

impl From<Costs> for CostsView {
    fn from(costs: Costs) -> Self {
        let cost = |cost: Cost| CostView { ranges: cost.ranges, bytes: cost.bytes };
        Self { objective: costs.objective, chosen: cost(costs.chosen), other: cost(costs.other) }
    }
}

impl From<CostsView> for Costs {
    fn from(costs: CostsView) -> Self {
        let cost = |cost: CostView| Cost { ranges: cost.ranges, bytes: cost.bytes };
        Self { objective: costs.objective, chosen: cost(costs.chosen), other: cost(costs.other) }
    }
}

impl From<CurvePoint> for CurvePointView {
    fn from(point: CurvePoint) -> Self {
        Self { tolerance_ppm: point.tolerance.0, moves: point.moves }
    }
}

impl From<&LoadFigures> for LoadView {
    fn from(load: &LoadFigures) -> Self {
        let hot = |hot: &HotSlot| HotSlotView { slot: hot.slot, load: hot.load, shard: hot.shard.clone() };
        let shard = |load: &ShardLoad| ShardLoadView {
            shard: load.shard.clone(),
            before: load.before,
            after: load.after,
            lo: load.lo,
            hi: load.hi,
            shed: load.shed,
            fill: load.fill,
        };
        Self {
            metric: load.metric,
            total: load.total,
            asked_ppm: load.asked.0,
            before_ppm: load.before.0,
            reached_ppm: load.reached.0,
            floor_ppm: load.floor.0,
            unreached: load.unreached.clone(),
            hot: load.hot.iter().map(hot).collect(),
            shards: load.shards.iter().map(shard).collect(),
        }
    }
}

impl From<&LoadView> for LoadFigures {
    fn from(load: &LoadView) -> Self {
        let hot = |hot: &HotSlotView| HotSlot { slot: hot.slot, load: hot.load, shard: hot.shard.clone() };
        let shard = |load: &ShardLoadView| ShardLoad {
            shard: load.shard.clone(),
            before: load.before,
            after: load.after,
            lo: load.lo,
            hi: load.hi,
            shed: load.shed,
            fill: load.fill,
        };
        Self {
            metric: load.metric,
            total: load.total,
            asked: Tolerance(load.asked_ppm),
            before: Tolerance(load.before_ppm),
            reached: Tolerance(load.reached_ppm),
            floor: Tolerance(load.floor_ppm),
            unreached: load.unreached.clone(),
            hot: load.hot.iter().map(hot).collect(),
            shards: load.shards.iter().map(shard).collect(),
        }
    }
}

/// The figures of a view.
pub(super) fn figures(
    costs: Option<CostsView>,
    curve: &[CurvePointView],
    load: Option<&LoadView>,
) -> Result<Figures, Invalid> {
    if let Some(load) = load
        && !load.shards.is_sorted_by(|a, b| a.shard < b.shard)
    {
        return Err(Invalid::new("load.shards", "a shard is listed twice or out of order"));
    }
    let point = |point: &CurvePointView| CurvePoint { tolerance: Tolerance(point.tolerance_ppm), moves: point.moves };
    Ok(Figures {
        costs: costs.map(Costs::from),
        curve: curve.iter().map(point).collect(),
        load: load.map(LoadFigures::from),
    })
}
