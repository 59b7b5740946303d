//! Values: slots, shards, topologies, plans. No IO, no clock, no randomness, no async; imports no other room.

mod address;
mod advice;
mod comparison;
mod digest;
mod epoch;
mod figures;
mod goal;
mod ids;
mod instant;
mod invalid;
mod node;
mod placement;
mod plan;
mod plan_state;
mod policy;
mod principal;
mod rejection;
mod rollout;
mod shard;
mod shared_map;
mod slot;
mod slot_range;
mod slot_set;
mod slot_table;
mod statistics;
mod topology;
pub mod tree;
mod window;
mod zone_pattern;

#[cfg(test)]
mod tests;

pub use address::Address;
pub use advice::{advised, split_advice};
pub use comparison::{
    Balance, Comparison, CopyFigures, Evenness, Family, FamilyFigures, HotKeys, Millionths, MissCurve, Outcome,
    PlacedNode, Takeover, ViewFigures,
};
pub use digest::{Digest, Fingerprint, hex};
pub use epoch::{Epoch, Generation, Version};
pub use figures::{Cost, Costs, CurvePoint, Figures, HotSlot, LoadFigures, Objective, ShardLoad};
pub use goal::{Goal, Intent, LoadMetric, Tolerance};
pub use ids::{
    ActionId, ClusterId, ClusterName, MemberId, NAME_MAX_BYTES, NodeId, PlanId, PrincipalName, ShardId, TokenId, Zone,
    is_peer_address, is_plain_number,
};
pub use instant::Instant;
pub use invalid::Invalid;
pub use node::{Host, Node, NodeState};
pub use placement::{PlacedHost, PlacedShard, Placement, PlacementGoal, Spread};
pub use plan::{
    Action, ActionKind, Band, Base, Certificate, Check, CheckLevel, PairMove, Plan, PlanBody, Quota, ShardBounds,
    ShardChange, Summary,
};
pub use plan_state::{PlanState, PlanVerb};
pub use policy::{DriverKind, Limits, Policy};
pub use principal::{Permission, Principal, Role};
pub use rejection::Rejection;
pub use rollout::{ActionProgress, ActionState, Rollout, RolloutActions, RolloutState, RolloutVerb};
pub use shard::{Shard, ShardState, Weight};
pub use shared_map::SharedMap;
pub use slot::{SLOT_COUNT, Slot, hash_tag};
pub use slot_range::SlotRange;
pub use slot_set::{SlotSet, ranges_of};
pub use slot_table::{SlotTable, UNASSIGNED};
pub use statistics::Statistics;
pub use topology::{Moving, Serving, Topology, TopologyShard};
pub use window::{WINDOWS_MAX, Window, are_within, is_open, opens_at};
pub use zone_pattern::ZonePattern;
