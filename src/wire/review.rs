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
    /// Whether the desired state goes back too: what came in one step with the plan, as far as it was not changed since
    /// and no other open plan asks for it; and what else of its intent no open plan is for. `ended` in the answer says
    /// what went back and what did not, and why.
    #[serde(default)]
    pub revert_intent: bool,
    /// Why; kept in the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}
