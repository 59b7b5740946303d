//! Problems (RFC 9457), and faults in a request that name their field.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::Invalid;

/// What stands before the code in [`Problem::kind`].
pub const PROBLEM_TYPE_PREFIX: &str = "urn:slotkeeper:problem:";

/// Why a request was not answered as asked: the body of every answer above 399, as `application/problem+json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:slotkeeper:problem:` and the code. Stable.
    #[serde(rename = "type")]
    #[schema(example = "urn:slotkeeper:problem:plan-stale")]
    pub kind: String,
    /// The code in words. The same for every occurrence.
    pub title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// What happened this time, for a person.
    pub detail: String,
    /// Stable, for programs.
    #[schema(example = "plan-stale")]
    pub code: String,
    /// The `x-request-id` of the answer.
    pub request_id: String,
    /// The field, header or parameter at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The cluster's generation now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The cluster's epoch now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// What changed under a stale plan, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// Warnings still to be acknowledged, or checks that fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The plan it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The state that does not allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The plan's digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The resource's revision now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// A fault in a well-formed request: which field, and why it cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Fault {
    /// The field, as a path such as `add[1].port`.
    pub field: String,
    /// Why it cannot be.
    pub why: String,
}

impl Fault {
    /// A fault in this field.
    #[must_use]
    pub fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { field: field.into(), why: why.into() }
    }

    /// A value of domain that cannot be, found in this field.
    #[must_use]
    pub fn in_field(field: impl Into<String>, invalid: &Invalid) -> Self {
        Self::new(field, invalid.why.clone())
    }
}
