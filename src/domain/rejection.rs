//! Refusals: why a command changed nothing. Exhaustive, with stable codes.

use serde::{Deserialize, Serialize};

/// Why a well-formed command was refused. Serialised with its code; a code never changes its meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "code")]
pub enum Rejection {
    /// Something the command names is not there.
    #[error("{what} {id:?} does not exist")]
    NotFound {
        /// Its kind: `cluster`, `node`, `shard`, `plan`, `action`, `token`.
        what: String,
        /// Its name.
        id: String,
    },
    /// Something with that name, or that address, is there already.
    #[error("{what} {id:?} exists already")]
    Exists {
        /// Its kind.
        what: String,
        /// Its name.
        id: String,
    },
    /// The resource has another revision than `If-Match` says.
    #[error("{what} {id:?} has revision {actual}, not {expected}")]
    RevisionMismatch {
        /// Its kind.
        what: String,
        /// Its name.
        id: String,
        /// Revision in the request.
        expected: u64,
        /// Revision now.
        actual: u64,
    },
    /// The plan stands on something that changed since.
    #[error("the plan is stale: {}", changes.join("; "))]
    PlanStale {
        /// Epoch now.
        epoch: u64,
        /// What changed, a sentence each.
        changes: Vec<String>,
    },
    /// The digest is not that of the plan.
    #[error("the digest given is not that of plan {plan}: it is {actual}")]
    DigestMismatch {
        /// The plan.
        plan: String,
        /// Its digest.
        actual: String,
    },
    /// The plan's state does not allow it.
    #[error("plan {plan} is {state}: cannot {verb}")]
    PlanState {
        /// The plan.
        plan: String,
        /// Its state.
        state: String,
        /// What was asked.
        verb: String,
    },
    /// The rollout's state does not allow it.
    #[error("the rollout of {plan} is {state}: cannot {verb}")]
    RolloutState {
        /// The plan.
        plan: String,
        /// The rollout's state.
        state: String,
        /// What was asked.
        verb: String,
    },
    /// A rollout of the cluster is under way.
    #[error("the rollout of {plan} is under way in cluster {cluster}")]
    RolloutActive {
        /// The cluster.
        cluster: String,
        /// The plan that runs.
        plan: String,
    },
    /// The author may not approve, or has approved already.
    #[error("{who} may not approve plan {plan}: {why}")]
    ApprovalRefused {
        /// The plan.
        plan: String,
        /// Who tried.
        who: String,
        /// Why not.
        why: String,
    },
    /// A warning must be acknowledged by name first.
    #[error("plan {plan} needs acknowledgement of {}", missing.join(", "))]
    AcknowledgementMissing {
        /// The plan.
        plan: String,
        /// Codes and names of the warnings.
        missing: Vec<String>,
    },
    /// A check of the plan fails.
    #[error("plan {plan} cannot start: {}", failed.join("; "))]
    ChecksFailed {
        /// The plan.
        plan: String,
        /// The failing checks, a sentence each.
        failed: Vec<String>,
    },
    /// The node or shard still owns slots, or is in use.
    #[error("{what} {id:?} is in use: {why}")]
    InUse {
        /// Its kind.
        what: String,
        /// Its name.
        id: String,
        /// How.
        why: String,
    },
    /// The action's state, or the rollout's limits, do not allow it now.
    #[error("action {action}: {why}")]
    ActionRefused {
        /// The action.
        action: String,
        /// Why not.
        why: String,
    },
    /// The state does not allow it, for the reason given.
    #[error("{why}")]
    Conflict {
        /// Why.
        why: String,
    },
    /// A field is well-formed but cannot be.
    #[error("{field}: {why}")]
    Invalid {
        /// The field.
        field: String,
        /// Why not.
        why: String,
    },
    /// A bound of the controller would be exceeded.
    #[error("at most {most} {what}")]
    LimitExceeded {
        /// Of what.
        what: String,
        /// The bound.
        most: u64,
    },
    /// The idempotency key was used for another request.
    #[error("idempotency key {key:?} was used for another request")]
    IdempotencyMismatch {
        /// The key.
        key: String,
    },
    /// The role does not grant it.
    #[error("role {role} may not {action}")]
    Forbidden {
        /// The role.
        role: String,
        /// What was tried.
        action: String,
    },
    /// Without this token nobody could administer the controller any more, or only until the others expire.
    #[error("token {token} is the last of an admin that works and does not expire: create another such one first")]
    LastAdminToken {
        /// The token's id.
        token: String,
    },
    /// The command's version is newer than this member knows.
    #[error("command version {version} is not known to this member")]
    UnknownVersion {
        /// The version.
        version: u16,
    },
}

impl Rejection {
    /// The stable code, as in `type` and `code` of a problem.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not-found",
            Self::Exists { .. } => "exists",
            Self::RevisionMismatch { .. } => "revision-mismatch",
            Self::PlanStale { .. } => "plan-stale",
            Self::DigestMismatch { .. } => "digest-mismatch",
            Self::PlanState { .. } => "plan-state",
            Self::RolloutState { .. } => "rollout-state",
            Self::RolloutActive { .. } => "rollout-active",
            Self::ApprovalRefused { .. } => "approval-refused",
            Self::AcknowledgementMissing { .. } => "acknowledgement-missing",
            Self::ChecksFailed { .. } => "checks-failed",
            Self::InUse { .. } => "in-use",
            Self::ActionRefused { .. } => "action-refused",
            Self::Conflict { .. } => "conflict",
            Self::Invalid { .. } => "invalid",
            Self::LimitExceeded { .. } => "limit-exceeded",
            Self::IdempotencyMismatch { .. } => "idempotency-mismatch",
            Self::Forbidden { .. } => "forbidden",
            Self::LastAdminToken { .. } => "last-admin-token",
            Self::UnknownVersion { .. } => "unknown-version",
        }
    }

    /// A missing thing.
    pub fn not_found(what: &str, id: &dyn std::fmt::Display) -> Self {
        Self::NotFound { what: what.to_owned(), id: id.to_string() }
    }

    /// A conflict, in words.
    pub fn conflict(why: impl Into<String>) -> Self {
        Self::Conflict { why: why.into() }
    }

    /// A field that cannot be.
    pub fn invalid(field: &str, why: &dyn std::fmt::Display) -> Self {
        Self::Invalid { field: field.to_owned(), why: why.to_string() }
    }
}
