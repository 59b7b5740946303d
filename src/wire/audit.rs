//! The audit: who did what, when and why.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Timestamp, schema};
use crate::domain::{ClusterName, Principal, PrincipalName, Role, TokenId};

/// Who acted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PrincipalBody {
    /// The name of the token, or of a part of the controller.
    #[schema(value_type = schema::Name)]
    pub name: PrincipalName,
    /// The role it acted in.
    #[schema(schema_with = schema::role)]
    pub role: Role,
    /// The token used, if any.
    #[schema(value_type = Option<schema::Name>)]
    pub token: Option<TokenId>,
}

/// One link of the audit chain: `hash` is the SHA-256 of `previous` and every other field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditView {
    /// From 1, without gaps.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: PrincipalBody,
    /// What: the name of the operation.
    #[schema(example = "plan.approve")]
    pub action: String,
    /// On which cluster.
    #[schema(value_type = Option<schema::Name>)]
    pub cluster: Option<ClusterName>,
    /// On what within it: a plan, node, shard or token.
    pub subject: Option<String>,
    /// What changed, a sentence.
    pub summary: String,
    /// Why, in the operator's words.
    pub reason: Option<String>,
    /// The cluster's generation afterwards.
    pub generation: Option<u64>,
    /// The cluster's epoch afterwards.
    pub epoch: Option<u64>,
    /// Hash of the record before; empty for the first.
    pub previous: String,
    /// Hash of this one.
    pub hash: String,
}

impl From<&Principal> for PrincipalBody {
    fn from(principal: &Principal) -> Self {
        Self { name: principal.name.clone(), role: principal.role, token: principal.token.clone() }
    }
}
