//! The parts of a plan's JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::{
    ActionId, CheckLevel, ClusterId, Digest, Fingerprint, LoadMetric, NodeId, PrincipalName, ShardId, ShardState, Slot,
    SlotRange, Weight, Window,
};
use crate::wire::schema;
use crate::wire::timestamp::Timestamp;

/// Why a plan was made: the difference between the desired and the actual cluster, and the goal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IntentView {
    /// The goal.
    pub goal: GoalView,
    /// Shards that own nothing yet and are to get their share.
    pub add: Vec<ShardWeight>,
    /// Shards to be emptied.
    #[schema(value_type = Vec<String>)]
    pub drain: Vec<ShardId>,
    /// Shards with a new weight.
    pub reweight: Vec<ShardWeight>,
    /// The operator's words; may be empty.
    pub reason: String,
    /// The copies every active shard is to have, where asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<super::PlacementGoalView>,
}

/// A shard and its weight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShardWeight {
    /// The shard.
    #[schema(value_type = String)]
    pub shard: ShardId,
    /// Its weight, `0..=10000`.
    #[schema(value_type = u32, maximum = 10000)]
    pub weight: Weight,
}

/// What a plan is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum GoalView {
    /// Fewest moves that bring every shard inside its band; with tolerance 0: to its quota.
    Balance {
        /// Half-width of the band in parts per million of the quota: 1 % is 10000.
        #[serde(default, skip_serializing_if = "is_zero")]
        #[schema(maximum = 1_000_000)]
        tolerance_ppm: u32,
    },
    /// As `redis-cli --cluster-threshold`: nothing while no shard is farther from its quota than so much of what it
    /// owns; else every shard to its quota.
    BalanceAbove {
        /// The distance that sets it off, in parts per million of what a shard owns: 1 % is 10000.
        #[schema(maximum = 1_000_000)]
        trigger_ppm: u32,
    },
    /// Empty the draining shards, touch nothing else.
    DrainOnly {},
    /// The best balance reachable in so many moves.
    Budget {
        /// Most slots that may move.
        #[schema(maximum = 16384)]
        max_moves: u32,
    },
    /// Balance keys, bytes or operations instead of slot counts.
    BalanceLoad {
        /// What to balance.
        #[schema(schema_with = schema::load_metric)]
        metric: LoadMetric,
        /// Half-width of the band in parts per million: 1 % is 10000.
        #[serde(default)]
        #[schema(maximum = 1_000_000)]
        tolerance_ppm: u32,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What a plan was computed from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BaseView {
    /// Which cluster.
    #[schema(value_type = String)]
    pub cluster_id: ClusterId,
    /// Its generation then.
    pub generation: u64,
    /// Its epoch then.
    pub epoch: u64,
    /// SHA-256 of what must not change until the start.
    #[schema(value_type = String)]
    pub fingerprint: Fingerprint,
}

/// Whether the plan still stands on what it was computed from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FreshnessView {
    /// It does.
    pub fresh: bool,
    /// Epoch now.
    pub epoch: u64,
    /// What changed, a sentence each.
    pub changes: Vec<String>,
}

/// The figures to look at first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SummaryView {
    /// Slots that change their owner.
    pub slots: u32,
    /// Unassigned slots that get an owner.
    #[serde(default)]
    pub assigned: u32,
    /// Contiguous ranges now.
    pub ranges_before: u32,
    /// Contiguous ranges afterwards.
    pub ranges_after: u32,
    /// No plan for this goal moves fewer slots.
    pub lower_bound: u32,
    /// `slots` equals `lower_bound`.
    pub minimal: bool,
    /// Number of waves.
    pub waves: u32,
    /// No order of these actions within the limits needs fewer.
    pub waves_lower_bound: u32,
    /// Keys in the moved slots, where known.
    pub keys_est: Option<u64>,
    /// Bytes in the moved slots, where known.
    pub bytes_est: Option<u64>,
    /// Shortest and longest expected duration in seconds, where it can be told.
    #[schema(value_type = Option<Vec<u64>>)]
    pub eta_seconds: Option<(u64, u64)>,
    /// Slots by which the worst shard is away from its quota; negative: too few.
    pub worst_deviation: DeviationView,
}

/// A figure before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviationView {
    /// Now.
    pub before: i64,
    /// Afterwards.
    pub after: i64,
}

/// Why no plan moves fewer slots: `max(A, B - unassigned, 0)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CertificateView {
    /// Slots above their shard's upper bound.
    #[serde(rename = "A")]
    pub surplus: u32,
    /// Slots missing below their shard's lower bound.
    #[serde(rename = "B")]
    pub deficit: u32,
    /// Slots without an owner.
    pub unassigned: u32,
    /// The bounds of every shard, ascending by id.
    pub bands: Vec<BandView>,
}

/// Bounds on the slots of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BandView {
    /// The shard.
    #[schema(value_type = String)]
    pub shard: ShardId,
    /// Fewest slots.
    pub lo: u32,
    /// Most slots.
    pub hi: u32,
}

/// One shard before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShardChangeView {
    /// The shard.
    #[schema(value_type = String)]
    pub id: ShardId,
    /// Its weight.
    #[schema(value_type = u32, maximum = 10000)]
    pub weight: Weight,
    /// Desired state.
    #[schema(schema_with = schema::shard_state)]
    pub state: ShardState,
    /// Its exact share as a fraction in lowest terms.
    #[schema(example = "16384/5")]
    pub quota: String,
    /// Slots now.
    pub before: u32,
    /// Slots when every action is done.
    pub after: u32,
    /// Slots the plan aims at.
    pub target: u32,
    /// Fewest slots it may own, where set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_slots: Option<u16>,
    /// Most slots it may own, where set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_slots: Option<u16>,
    /// Slots that must not leave it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<[u16; 2]>)]
    pub pinned: Vec<SlotRange>,
}

/// All moves between one pair of shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MoveView {
    /// Owner before; none for slots that had none.
    #[schema(value_type = Option<String>)]
    pub from: Option<ShardId>,
    /// Owner after.
    #[schema(value_type = String)]
    pub to: ShardId,
    /// The slots, as maximal ranges, both ends included.
    #[schema(value_type = Vec<[u16; 2]>)]
    pub ranges: Vec<SlotRange>,
    /// How many.
    pub slots: u32,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActionView {
    /// `a-N`, from 1.
    #[schema(value_type = String, example = "a-1")]
    pub id: ActionName,
    /// What it does.
    #[serde(flatten)]
    pub kind: ActionKindView,
}

/// The kinds of steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ActionKindView {
    /// Move slots with their data.
    MoveSlots {
        /// Owner before.
        #[schema(value_type = String)]
        from: ShardId,
        /// Owner after.
        #[schema(value_type = String)]
        to: ShardId,
        /// The slots: ascending and disjoint.
        #[schema(value_type = Vec<[u16; 2]>)]
        ranges: Vec<SlotRange>,
    },
    /// Give slots an owner without reading a source.
    AssignSlots {
        /// The lost shard that owned them; none when they were unassigned.
        #[schema(value_type = Option<String>)]
        from: Option<ShardId>,
        /// Owner after.
        #[schema(value_type = String)]
        to: ShardId,
        /// The slots: ascending and disjoint.
        #[schema(value_type = Vec<[u16; 2]>)]
        ranges: Vec<SlotRange>,
    },
    /// Make a replica the primary of its shard.
    Promote {
        /// The shard.
        #[schema(value_type = String)]
        shard: ShardId,
        /// The primary before.
        #[schema(value_type = String)]
        from: NodeId,
        /// The primary after.
        #[schema(value_type = String)]
        to: NodeId,
    },
    /// Make a node a replica of a shard.
    SetReplicaOf {
        /// The node.
        #[schema(value_type = String)]
        node: NodeId,
        /// Its shard after.
        #[schema(value_type = String)]
        shard: ShardId,
    },
    /// Close an open slot so that this shard owns it.
    RepairSlot {
        /// The slot.
        #[schema(value_type = u16, maximum = 16383)]
        slot: Slot,
        /// The owner after.
        #[schema(value_type = String)]
        owner: ShardId,
    },
}

/// An [`ActionId`] written as `a-N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ActionName(pub ActionId);

/// A check that came with the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckView {
    /// Unique within the plan; a warning is acknowledged by it or by its name.
    pub code: String,
    /// Stable name.
    pub name: String,
    /// How serious.
    #[schema(schema_with = schema::check_level)]
    pub level: CheckLevel,
    /// One sentence that names what it is about.
    #[serde(default)]
    pub text: String,
    /// Whether an approval must acknowledge it.
    #[serde(default)]
    pub needs_ack: bool,
}

/// How fast a rollout may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsView {
    /// Actions in flight that leave one shard.
    #[schema(minimum = 1, maximum = 1024)]
    pub moves_per_source: u32,
    /// Actions in flight that enter one shard.
    #[schema(minimum = 1, maximum = 1024)]
    pub moves_per_target: u32,
    /// Slots of one action.
    #[schema(minimum = 1, maximum = 1024)]
    pub slots_per_move: u32,
    /// Slots per second of the whole rollout; no limit when null.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub slots_per_second: Option<u32>,
    /// Bytes per second of the whole rollout; no limit when null.
    #[schema(minimum = 1)]
    pub bytes_per_second: Option<u64>,
    /// How long a flipped range stays listed as moving.
    #[schema(maximum = 86_400_000)]
    pub overlap_ms: u64,
    /// Weekly times, in UTC, in which actions may start; any time when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::WindowText>, max_items = 32)]
    pub windows: Vec<Window>,
}

/// One approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalView {
    /// Who.
    #[schema(value_type = String)]
    pub by: PrincipalName,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// The digest as approved.
    #[schema(value_type = String)]
    pub digest: Digest,
}

/// How a plan ended before it started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndedView {
    /// Who ended it.
    #[schema(value_type = String)]
    pub by: PrincipalName,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Why.
    pub reason: Option<String>,
    /// With `revert_intent`: what of the desired state went back, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverted: Vec<String>,
    /// With `revert_intent`: what did not go back, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}
