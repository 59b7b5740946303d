//! Adopting a running cluster.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ClusterView, Text, schema};
use crate::domain::Host;

/// Adopt a running cluster from the text of `CLUSTER NODES`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportRequest {
    /// The text, as a node printed it.
    pub nodes_text: String,
    /// The host that was asked: fills in for nodes printed with an empty one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::HostText>)]
    pub dialled: Option<Host>,
    /// Why; kept in the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// The cluster adopted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportAnswer {
    /// Generation afterwards.
    pub generation: u64,
    /// Epoch afterwards.
    pub epoch: u64,
    /// The cluster.
    pub cluster: ClusterView,
    /// What a person should know: nodes left out, failing nodes, slots not covered.
    pub notes: Vec<String>,
}
