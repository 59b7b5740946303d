//! Shards.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Fault, PlanRef, Revision, Text, schema};
use crate::domain::{NodeId, Shard, ShardId, ShardState, SlotRange, SlotSet, SlotTable, Weight};

/// A shard: one primary node and its replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShardView {
    /// Its id.
    #[schema(value_type = schema::Name)]
    pub id: ShardId,
    /// Relative share of the slots.
    #[schema(value_type = schema::WeightNumber)]
    pub weight: Weight,
    /// Desired state.
    #[schema(schema_with = schema::shard_state)]
    pub state: ShardState,
    /// The node that serves its slots.
    #[schema(value_type = schema::Name)]
    pub primary: NodeId,
    /// The nodes that copy it.
    #[schema(value_type = Vec<schema::Name>)]
    pub replicas: Vec<NodeId>,
    /// Number of slots it owns.
    pub slots: u32,
    /// The slots it owns.
    #[schema(value_type = Vec<schema::SlotPair>)]
    pub ranges: Vec<SlotRange>,
    /// Never own fewer slots than this while active.
    pub min_slots: Option<u16>,
    /// Never own more slots than this.
    pub max_slots: Option<u16>,
    /// Slots that must not leave the shard while it owns them.
    #[schema(value_type = Vec<schema::SlotPair>)]
    pub pinned: Vec<SlotRange>,
    /// Revision of the shard.
    pub revision: Revision,
}

/// Change a shard; what is absent stays as it is, `null` lifts a bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShardPatch {
    /// New weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::WeightNumber>)]
    pub weight: Option<Weight>,
    /// New lower bound.
    #[serde(default, deserialize_with = "super::patch::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u16>, maximum = 16384)]
    pub min_slots: Option<Option<u16>>,
    /// New upper bound.
    #[serde(default, deserialize_with = "super::patch::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u16>, maximum = 16384)]
    pub max_slots: Option<Option<u16>>,
    /// New pins, all of them; they must not overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::SlotPair>>)]
    pub pinned: Option<Vec<SlotRange>>,
    /// Whether to propose a plan as well; true when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propose: Option<bool>,
    /// Why; kept in the audit and the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// Drain a whole shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShardDrainRequest {
    /// Whether to propose a plan as well; true when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propose: Option<bool>,
    /// Why; kept in the audit and the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// A shard after a write, and the plan proposed for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShardAnswer {
    /// Generation afterwards.
    pub generation: u64,
    /// Epoch afterwards.
    pub epoch: u64,
    /// The shard.
    pub shard: ShardView,
    /// The plan proposed; `null` when none was asked for or nothing is to move.
    pub plan: Option<PlanRef>,
    /// Why there is no plan though one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_because: Option<String>,
}

impl ShardView {
    /// A shard as it stands in a table.
    #[must_use]
    pub fn new(shard: &Shard, revision: u64, table: &SlotTable) -> Self {
        Self {
            id: shard.id.clone(),
            weight: shard.weight,
            state: shard.state,
            primary: shard.primary.clone(),
            replicas: shard.replicas.clone(),
            slots: table.count_of(&shard.id),
            ranges: table.ranges_of(&shard.id),
            min_slots: shard.min_slots,
            max_slots: shard.max_slots,
            pinned: shard.pinned.ranges(),
            revision: Revision(revision),
        }
    }
}

impl ShardPatch {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// [`Fault`] naming the field: overlapping pins, a bound above 16384, bounds that cross.
    pub fn validate(&self) -> Result<(), Fault> {
        if let Some(pinned) = &self.pinned {
            SlotSet::from_ranges(pinned.iter().copied()).map_err(|invalid| Fault::in_field("pinned", &invalid))?;
        }
        for (field, bound) in [("min_slots", self.min_slots), ("max_slots", self.max_slots)] {
            if bound.flatten().is_some_and(|slots| slots > 16384) {
                return Err(Fault::new(field, "is not in 0..=16384"));
            }
        }
        match (self.min_slots.flatten(), self.max_slots.flatten()) {
            (Some(min), Some(max)) if min > max => Err(Fault::new("min_slots", "is above max_slots")),
            _ => Ok(()),
        }
    }
}
