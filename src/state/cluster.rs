//! The replicated state itself: values only, in fixed order. How it changes is in `apply`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Answers, Brought, Members, Nodes, Receipt, Shards};
use crate::domain::{
    ClusterId, ClusterName, Digest, DriverKind, Epoch, Generation, Instant, Moving, NodeId, Plan, PlanId, PlanState,
    Policy, Principal, PrincipalName, Role, Rollout, Shard, SharedMap, SlotTable, TokenId, Version,
};

/// Most clusters of one controller.
pub const CLUSTERS_MAX: usize = 256;
/// Most finished plans kept of one cluster; the oldest go first.
pub const FINISHED_PLANS_MAX: usize = 100;
/// Most plans of one cluster that are not finished.
pub const OPEN_PLANS_MAX: usize = 32;
/// Most shards of one cluster.
pub const SHARDS_MAX: usize = 4096;
/// Most nodes of one cluster.
pub const NODES_MAX: usize = 8192;
/// Most removed nodes remembered of one cluster; the oldest go first.
pub const REMOVED_MAX: usize = 256;
/// Most tokens of one controller.
pub const TOKENS_MAX: usize = 1024;
/// Most idempotency keys kept; the oldest go first.
pub const IDEMPOTENCY_KEYS_MAX: usize = 4096;
/// How long an idempotency key is kept.
pub const IDEMPOTENCY_TTL_MS: u64 = 24 * 3600 * 1000;

/// Everything the controllers agree on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The latest time of any command.
    pub now: Instant,
    /// Clusters by name; shared with readers, copied when changed.
    pub clusters: BTreeMap<ClusterName, Arc<Cluster>>,
    /// The highest generation ever given.
    pub generation_high: Generation,
    /// Tokens by id.
    pub tokens: SharedMap<TokenId, Token>,
    /// Answers to requests with an `Idempotency-Key`, by `principal/key`.
    pub remembered: Answers,
    /// End of the audit chain.
    pub audit_head: AuditHead,
    /// Numbers of the raft group's members; absent while there were only first members.
    #[serde(default, skip_serializing_if = "Members::is_empty")]
    pub members: Members,
    /// The newest term whose executor began: what an earlier one submits is refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub executor_term: u64,
}

/// One named slot table with all that belongs to it. A copy costs little: it shares what is not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its identity.
    pub id: ClusterId,
    /// Its name.
    pub name: ClusterName,
    /// See [`Generation`].
    pub generation: Generation,
    /// See [`Epoch`].
    pub epoch: Epoch,
    /// Revision of name, driver and policy.
    pub revision: u64,
    /// When it was created.
    pub created_at: Instant,
    /// How its slots move.
    pub driver: DriverKind,
    /// Review and pace.
    pub policy: Policy,
    /// Nodes by id.
    pub nodes: Nodes,
    /// Shards by id: the same ids as `table.shards()`.
    pub shards: Shards,
    /// Owner of each slot.
    pub table: SlotTable,
    /// Ranges in flight, ascending and disjoint.
    pub moving: Vec<Moving>,
    /// Plans by id.
    pub plans: SharedMap<PlanId, Arc<PlanRecord>>,
    /// Number of plans ever proposed: the next record's `sequence`.
    pub plans_proposed: u64,
    /// The plan whose rollout is under way.
    pub active: Option<PlanId>,
    /// Nodes that were removed and must not come back unnoticed, the last one last; kept where the nodes are seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<NodeId>,
}

/// A value and the revision of it that `If-Match` names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revised<T> {
    /// From 1, +1 per change.
    pub revision: u64,
    /// The value.
    pub value: T,
}

/// A plan and its life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// The plan itself, never changed.
    pub plan: Arc<Plan>,
    /// Its digest.
    pub digest: Digest,
    /// Order of proposal within the cluster, from 0.
    pub sequence: u64,
    /// From 1, +1 per change of the record.
    pub revision: u64,
    /// What came into the desired state with it.
    #[serde(default, skip_serializing_if = "Brought::is_empty")]
    pub brought: Arc<Brought>,
    /// Where it is.
    pub state: PlanState,
    /// Who approved it.
    pub approvals: Vec<Approval>,
    /// Warnings acknowledged with the approvals.
    pub acks: BTreeSet<String>,
    /// Who ended it and why, when it was rejected or withdrawn.
    pub ended: Option<Ended>,
    /// The plan that replaced it.
    pub superseded_by: Option<PlanId>,
    /// Its rollout, once started.
    pub rollout: Option<Rollout>,
}

/// One approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Who.
    pub by: Principal,
    /// When.
    pub at: Instant,
    /// The digest as approved.
    pub digest: Digest,
}

/// How a plan ended before it started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Who.
    pub by: Principal,
    /// When.
    pub at: Instant,
    /// Why.
    pub reason: Option<String>,
    /// What of the desired state went back with it, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverted: Vec<String>,
    /// What was asked to go back and did not, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

/// A token; its secret is kept by nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// Whose it is.
    pub name: PrincipalName,
    /// What it may do.
    pub role: Role,
    /// SHA-256 (hex) of the secret.
    pub secret_sha256: String,
    /// When it was created.
    pub created_at: Instant,
    /// When it stops working.
    pub expires_at: Option<Instant>,
}

/// The answer given to a request with an `Idempotency-Key`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// Hash of the request.
    pub request: String,
    /// The answer.
    pub receipt: Receipt,
    /// When it was given.
    pub at: Instant,
}

/// The last record of the audit chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    /// Its number; 0 before the first.
    pub seq: u64,
    /// Its hash, hex; empty before the first.
    pub hash: String,
}

impl Cluster {
    /// Generation and epoch.
    #[must_use]
    pub const fn version(&self) -> Version {
        Version { generation: self.generation, epoch: self.epoch }
    }

    /// The record of the running rollout's plan.
    #[must_use]
    pub fn active_plan(&self) -> Option<&Arc<PlanRecord>> {
        self.plans.get(self.active.as_ref()?)
    }

    /// The shard a node belongs to.
    #[must_use]
    pub fn shard_of(&self, node: &NodeId) -> Option<&Revised<Shard>> {
        self.shards.get(self.shards.home(node)?).map(AsRef::as_ref)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape serde asks for")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
