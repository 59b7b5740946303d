//! Nodes.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Fault, PlanRef, Revision, Text, schema};
use crate::domain::{Address, Host, Node, NodeId, NodeState, ShardId, Weight, Zone};

/// What a node is within its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    /// Serves the shard's slots.
    Primary,
    /// Copies the primary.
    Replica,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeView {
    /// Its id.
    #[schema(value_type = schema::Name)]
    pub id: NodeId,
    /// Where clients reach it.
    #[schema(value_type = schema::HostText)]
    pub host: Host,
    /// Port for clients.
    pub port: u16,
    /// Failure domain.
    #[schema(value_type = Option<schema::Name>)]
    pub zone: Option<Zone>,
    /// Desired state.
    #[schema(schema_with = schema::node_state)]
    pub state: NodeState,
    /// Its shard.
    #[schema(value_type = schema::Name)]
    pub shard: ShardId,
    /// What it is there.
    pub role: NodeRole,
    /// Revision of the node.
    pub revision: Revision,
}

/// A node to add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Its id; a fresh one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub name: Option<NodeId>,
    /// Where clients reach it.
    #[schema(value_type = schema::HostText)]
    pub host: Host,
    /// Port for clients.
    #[schema(value_type = u16, minimum = 1, maximum = 65535)]
    pub port: NonZeroU16,
    /// Failure domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub zone: Option<Zone>,
    /// Weight of its new shard; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::WeightNumber>)]
    pub weight: Option<Weight>,
    /// Id of its new shard; the node's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub shard: Option<ShardId>,
    /// The shard it is to be a replica of, instead of getting one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub replica_of: Option<ShardId>,
}

/// Add a node: a [`NodeSpec`], and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeAdd {
    /// Its id; a fresh one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub name: Option<NodeId>,
    /// Where clients reach it.
    #[schema(value_type = schema::HostText)]
    pub host: Host,
    /// Port for clients.
    #[schema(value_type = u16, minimum = 1, maximum = 65535)]
    pub port: NonZeroU16,
    /// Failure domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub zone: Option<Zone>,
    /// Weight of its new shard; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::WeightNumber>)]
    pub weight: Option<Weight>,
    /// Id of its new shard; the node's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub shard: Option<ShardId>,
    /// The shard it is to be a replica of, instead of getting one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub replica_of: Option<ShardId>,
    /// Whether to propose a plan as well; true when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propose: Option<bool>,
    /// Why; kept in the audit and the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// Change a node; what is absent stays as it is, `null` clears the zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodePatch {
    /// New host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::HostText>)]
    pub host: Option<Host>,
    /// New port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u16>, minimum = 1, maximum = 65535)]
    pub port: Option<NonZeroU16>,
    /// New zone.
    #[serde(default, deserialize_with = "super::patch::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub zone: Option<Option<Zone>>,
    /// Why; kept in the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// Drain a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// It is dead: its slots are assigned anew without reading them.
    #[serde(default)]
    pub lost: bool,
    /// Whether to propose a plan as well; true when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propose: Option<bool>,
    /// Why; kept in the audit and the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// A node after a write, and the plan proposed for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeAnswer {
    /// Generation afterwards.
    pub generation: u64,
    /// Epoch afterwards.
    pub epoch: u64,
    /// The node.
    pub node: NodeView,
    /// Its shard.
    #[schema(value_type = schema::Name)]
    pub shard: ShardId,
    /// The plan proposed; `null` when none was asked for or nothing is to move.
    pub plan: Option<PlanRef>,
    /// Why there is no plan though one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_because: Option<String>,
    /// What a person should know of the server, where its driver asked it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A node was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeRemoved {
    /// Generation afterwards.
    pub generation: u64,
    /// Epoch afterwards.
    pub epoch: u64,
    /// The node that is gone.
    #[schema(value_type = schema::Name)]
    pub removed: NodeId,
    /// What is left to do, where its driver asked the nodes to forget it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Where a new node goes, with the ids it named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The primary of a new shard: its id, when named, and weight.
    NewShard(Option<ShardId>, Weight),
    /// A replica of this shard.
    ReplicaOf(ShardId),
}

impl NodeSpec {
    /// Where it is.
    #[must_use]
    pub fn address(&self) -> Address {
        Address { host: self.host.clone(), port: self.port.get() }
    }

    /// Where the node goes; `at` is the path of this value in the request, empty or ending in a dot.
    ///
    /// # Errors
    /// [`Fault`] when it is to be a replica and have a shard of its own.
    pub fn placement(&self, at: &str) -> Result<Placement, Fault> {
        match (&self.replica_of, &self.shard, self.weight) {
            (None, shard, weight) => Ok(Placement::NewShard(shard.clone(), weight.unwrap_or(Weight::ONE))),
            (Some(shard), None, None) => Ok(Placement::ReplicaOf(shard.clone())),
            (Some(_), Some(_), _) => Err(Fault::new(format!("{at}replica_of"), "excludes shard")),
            (Some(_), None, Some(_)) => {
                Err(Fault::new(format!("{at}weight"), "a replica has no weight: it belongs to the shard"))
            }
        }
    }

    /// The node, active, under this id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Node {
        let (host, port, zone) = (self.host.clone(), self.port.get(), self.zone.clone());
        Node { id, host, port, zone, state: NodeState::Active }
    }
}

impl From<NodeAdd> for NodeSpec {
    fn from(add: NodeAdd) -> Self {
        let NodeAdd { name, host, port, zone, weight, shard, replica_of, propose: _, reason: _ } = add;
        Self { name, host, port, zone, weight, shard, replica_of }
    }
}
