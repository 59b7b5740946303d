//! What apply gives back: the answer, the events for the rest of the process, and the audit record.

use serde::{Deserialize, Serialize};

use crate::domain::{
    ClusterName, Instant, MemberId, NodeId, PlanId, PlanState, Principal, Rejection, RolloutState, ShardId, TokenId,
    Version,
};

/// What applying one command gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The answer.
    pub outcome: Result<Receipt, Rejection>,
    /// What happened; empty after a rejection.
    pub events: Vec<Event>,
    /// The audit record; none after a rejection, a repeated request, or a command that changed nothing: an `Expire` that
    /// ended no plan, a `Begin` or `Finish` of what is begun or done already.
    pub audit: Option<AuditRecord>,
}

/// The answer to an accepted command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Version of the cluster afterwards.
    pub version: Option<Version>,
    /// Revision of the resource changed.
    pub revision: Option<u64>,
    /// The plan proposed, reviewed or steered.
    pub plan: Option<PlanId>,
    /// The node added or changed.
    pub node: Option<NodeId>,
    /// Its shard.
    pub shard: Option<ShardId>,
    /// The token created or revoked.
    pub token: Option<TokenId>,
    /// The member of the raft group added, promoted or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberId>,
    /// Whether this answers a repeated request: nothing was changed again.
    #[serde(default)]
    pub repeated: bool,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// Clients see a new version of a cluster.
    TopologyChanged {
        /// Which.
        cluster: ClusterName,
        /// The new version.
        version: Version,
    },
    /// A cluster is gone.
    ClusterDeleted {
        /// Which.
        cluster: ClusterName,
    },
    /// A plan got to a new state (or was proposed).
    PlanChanged {
        /// Which cluster.
        cluster: ClusterName,
        /// Which plan.
        plan: PlanId,
        /// Its state now.
        state: PlanState,
    },
    /// A rollout got to a new state, or an action of it did.
    RolloutChanged {
        /// Which cluster.
        cluster: ClusterName,
        /// Which plan.
        plan: PlanId,
        /// The rollout's state now.
        state: RolloutState,
    },
}

/// One link of the audit chain: `hash` is the SHA-256 (hex) of `previous` and every other field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// From 1, without gaps.
    pub seq: u64,
    /// When.
    pub at: Instant,
    /// Who.
    pub by: Principal,
    /// What: the name of the operation, such as `plan.approve`.
    pub action: String,
    /// On which cluster.
    pub cluster: Option<ClusterName>,
    /// On what within it: a plan, node, shard or token.
    pub subject: Option<String>,
    /// What changed, a sentence.
    pub summary: String,
    /// Why, in the operator's words.
    pub reason: Option<String>,
    /// Version of the cluster afterwards.
    pub version: Option<Version>,
    /// Hash of the record before; empty for the first.
    pub previous: String,
    /// Hash of this one.
    pub hash: String,
}
