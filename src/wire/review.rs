//! Review of plans.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Text, schema};
use crate::domain::Digest;

/// Approve a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRequest {
    /// The plan's digest, as it was reviewed.
    #[schema(value_type = schema::DigestText)]
    pub digest: Digest,
    /// Codes or names of the warnings acknowledged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    pub acks: Vec<Text>,
    /// Why; kept in the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// Reject or withdraw a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EndRequest {
    /// Whether the desired state goes back too: undrain, and remove nodes that own nothing and were added.
    #[serde(default)]
    pub revert_intent: bool,
    /// Why; kept in the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}
