//! Clusters.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{LimitsPatch, PolicyBody, PolicyPatch, Revision, Text, Timestamp, schema};
use crate::domain::{ClusterId, ClusterName, DriverKind, PlanId};

/// A named slot table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterView {
    /// Its name.
    #[schema(value_type = schema::Name)]
    pub name: ClusterName,
    /// Its identity for clients.
    #[schema(value_type = schema::Name)]
    pub id: ClusterId,
    /// Raised when the cluster is created anew or restored.
    pub generation: u64,
    /// Version of what clients see.
    pub epoch: u64,
    /// Revision of driver and policy.
    pub revision: Revision,
    /// When it was created.
    pub created_at: Timestamp,
    /// How its slots move.
    #[schema(value_type = schema::Driver)]
    pub driver: DriverKind,
    /// Review and pace.
    pub policy: PolicyBody,
    /// Number of nodes.
    pub nodes: u32,
    /// Number of shards.
    pub shards: u32,
    /// Slots without an owner.
    pub unassigned: u32,
    /// The plan whose rollout is under way.
    #[schema(value_type = Option<schema::Name>)]
    pub active_plan: Option<PlanId>,
}

/// Create a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterCreate {
    /// Its name.
    #[schema(value_type = schema::Name)]
    pub name: ClusterName,
    /// How its slots move.
    #[schema(value_type = schema::Driver)]
    pub driver: DriverKind,
    /// What differs from the driver's own policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyPatch>,
    /// Why; kept in the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// Configure a cluster; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterPatch {
    /// New driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Driver>)]
    pub driver: Option<DriverKind>,
    /// Policy fields to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyPatch>,
    /// Why; kept in the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// A cluster after a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterAnswer {
    /// Generation afterwards.
    pub generation: u64,
    /// Epoch afterwards.
    pub epoch: u64,
    /// The cluster.
    pub cluster: ClusterView,
}

/// The cluster's version after a write that leaves no resource behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Receipt {
    /// Generation afterwards.
    pub generation: u64,
    /// Epoch afterwards.
    pub epoch: u64,
}

impl ClusterPatch {
    /// A patch of limits alone.
    #[must_use]
    pub fn limits(limits: LimitsPatch) -> Self {
        let policy = PolicyPatch { limits: Some(limits), ..PolicyPatch::default() };
        Self { policy: Some(policy), ..Self::default() }
    }
}
