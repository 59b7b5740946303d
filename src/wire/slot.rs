//! Single slots: owner, key look-up, explanation.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{MovingBody, schema};
use crate::domain::{Host, Node, NodeId, PlanId, ShardId, Slot, Zone};

/// Where a node is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeAddress {
    /// Its id.
    #[schema(value_type = schema::Name)]
    pub id: NodeId,
    /// Host.
    #[schema(value_type = schema::HostText)]
    pub host: Host,
    /// Port.
    pub port: u16,
    /// Failure domain.
    #[schema(value_type = Option<schema::Name>)]
    pub zone: Option<Zone>,
}

/// One slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotView {
    /// Generation this is of.
    pub generation: u64,
    /// Epoch this is of.
    pub epoch: u64,
    /// The slot.
    #[schema(value_type = schema::SlotNumber)]
    pub slot: Slot,
    /// Its owner; `null` when it is unassigned.
    #[schema(value_type = Option<schema::Name>)]
    pub shard: Option<ShardId>,
    /// The owner's primary.
    pub primary: Option<NodeAddress>,
    /// The move it is in, if any.
    pub moving: Option<MovingBody>,
}

/// The slot of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeySlotView {
    /// The key; bytes that are not UTF-8 are shown as U+FFFD.
    pub key: String,
    /// The part of it that is hashed.
    pub hash_tag: String,
    /// Where that slot is.
    pub slot: SlotView,
}

/// Why a slot is where it is, and what the open plan does with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExplainView {
    /// The slot.
    #[schema(value_type = schema::SlotNumber)]
    pub slot: Slot,
    /// Its owner.
    #[schema(value_type = Option<schema::Name>)]
    pub owner: Option<ShardId>,
    /// The plan looked at.
    #[schema(value_type = Option<schema::Name>)]
    pub plan: Option<PlanId>,
    /// Sentences, in order.
    pub because: Vec<String>,
}

/// Why a plan moves a slot or leaves it, or why a shard of it gives, takes or neither.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanExplainView {
    /// The plan.
    #[schema(value_type = schema::Name)]
    pub plan: PlanId,
    /// The slot, when one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::SlotNumber>)]
    pub slot: Option<Slot>,
    /// The shard, when one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub shard: Option<ShardId>,
    /// Sentences, in order.
    pub because: Vec<String>,
}

impl From<&Node> for NodeAddress {
    fn from(node: &Node) -> Self {
        Self { id: node.id.clone(), host: node.host.clone(), port: node.port, zone: node.zone.clone() }
    }
}
