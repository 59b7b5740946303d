//! What can be asked of the replicated state. A command is complete: time, principal and every id come in
//! with it, so that applying it needs no clock and no randomness.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::{
    ActionId, ClusterId, ClusterName, Digest, DriverKind, Host, Instant, MemberId, Node, NodeId, Plan, PlanId, Policy,
    Principal, PrincipalName, Role, Shard, ShardId, SlotRange, SlotTable, TokenId, Weight, Zone,
};

/// Version of the commands this member writes. An apply rule never changes for a version that was released.
pub const COMMAND_VERSION: u16 = 1;

/// One entry of the raft log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Version of its meaning: [`COMMAND_VERSION`] when it was written.
    pub version: u16,
    /// When it was submitted; apply never lets time go back.
    pub at: Instant,
    /// Who submitted it.
    pub by: Principal,
    /// Why, in the operator's words.
    pub reason: Option<String>,
    /// Makes a retry safe.
    pub idempotency: Option<Idempotency>,
    /// What is asked.
    pub op: Op,
}

/// An `Idempotency-Key` and a hash of the request it came with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Idempotency {
    /// The key, at most 128 bytes; scoped by the principal's name.
    pub key: String,
    /// SHA-256 (hex) of method, path and body: the same key with another hash is refused.
    pub request: String,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "op")]
pub enum Op {
    /// Create an empty cluster. Its generation becomes max(highest ever + 1, Unix seconds).
    CreateCluster {
        /// Its name.
        name: ClusterName,
        /// Its identity, random.
        id: ClusterId,
        /// How its slots move.
        driver: DriverKind,
        /// Review and pace.
        policy: Policy,
    },
    /// Change a cluster's driver or policy.
    ConfigureCluster {
        /// Which.
        name: ClusterName,
        /// The revision it must have.
        if_match: Option<u64>,
        /// New driver.
        driver: Option<DriverKind>,
        /// New policy, whole.
        policy: Option<Policy>,
    },
    /// Delete a cluster; refused while a rollout runs.
    DeleteCluster {
        /// Which.
        name: ClusterName,
        /// The revision it must have.
        if_match: Option<u64>,
    },
    /// Change what is desired of a cluster, all or nothing, and propose a plan for it in the same step.
    Change {
        /// Which.
        cluster: ClusterName,
        /// In this order.
        changes: Vec<Change>,
        /// The plan, computed from the state after the changes.
        plan: Option<Arc<Plan>>,
    },
    /// Approve a plan by its digest.
    Approve {
        /// Which cluster.
        cluster: ClusterName,
        /// Which plan.
        plan: PlanId,
        /// Its digest, as the reviewer saw it.
        digest: Digest,
        /// Codes or names of the warnings acknowledged.
        acks: BTreeSet<String>,
    },
    /// Reject a plan.
    Reject {
        /// Which cluster.
        cluster: ClusterName,
        /// Which plan.
        plan: PlanId,
        /// Whether the desired state goes back too: what came with the plan and no other open plan asks for.
        revert_intent: bool,
    },
    /// Withdraw a plan.
    Withdraw {
        /// Which cluster.
        cluster: ClusterName,
        /// Which plan.
        plan: PlanId,
        /// As in `Reject`.
        revert_intent: bool,
    },
    /// Start an approved plan.
    Start {
        /// Which cluster.
        cluster: ClusterName,
        /// Which plan.
        plan: PlanId,
    },
    /// Steer a rollout as an operator: pause, resume, abort, roll back.
    Steer {
        /// Which cluster.
        cluster: ClusterName,
        /// Which plan.
        plan: PlanId,
        /// What to do.
        verb: SteerVerb,
        /// Acknowledgements, such as `stale-cache` for rolling a flip back.
        acks: BTreeSet<String>,
    },
    /// Lower the pace of a rollout, or (none) return to the approved one.
    Throttle {
        /// Which cluster.
        cluster: ClusterName,
        /// Which plan.
        plan: PlanId,
        /// Slots per second, at most the plan's.
        slots_per_second: Option<u32>,
    },
    /// Commit the intent to carry out actions (or, while rolling back, to undo them), as one batch.
    Begin {
        /// Which cluster.
        cluster: ClusterName,
        /// Which plan.
        plan: PlanId,
        /// Which actions.
        actions: Vec<ActionId>,
    },
    /// Commit that actions are done (or undone), as one batch.
    Finish {
        /// Which cluster.
        cluster: ClusterName,
        /// Which plan.
        plan: PlanId,
        /// Which actions.
        actions: Vec<ActionId>,
    },
    /// Commit that an action failed; its slots stay where they are.
    Fail {
        /// Which cluster.
        cluster: ClusterName,
        /// Which plan.
        plan: PlanId,
        /// Which action.
        action: ActionId,
        /// Why.
        error: String,
    },
    /// The executor says what a rollout waits for that goes on, or that it waits no more.
    Tell {
        /// Which cluster.
        cluster: ClusterName,
        /// Which plan.
        plan: PlanId,
        /// Why, naming the node or shard.
        cause: Option<String>,
    },
    /// The executor can do nothing more by itself.
    Block {
        /// Which cluster.
        cluster: ClusterName,
        /// Which plan.
        plan: PlanId,
        /// Why, naming the node or shard.
        cause: String,
    },
    /// Every action is done and the nodes agree.
    Complete {
        /// Which cluster.
        cluster: ClusterName,
        /// Which plan.
        plan: PlanId,
    },
    /// Follow what the nodes of a cluster did by themselves: another node of a shard is its primary. No slot moves.
    Observe {
        /// Which cluster.
        cluster: ClusterName,
        /// What happened.
        failovers: Vec<Failover>,
    },
    /// Plans and idempotency keys whose time is over end; submitted by the leader.
    Expire,
    /// Change who belongs to the raft group. raft's own entries carry the change itself; this is what must outlive them.
    Member {
        /// How.
        change: MemberChange,
    },
    /// Keep in the audit what was asked of the group and changes nothing in the state.
    Note {
        /// What.
        what: Noted,
    },
    /// Fence: from here on nothing is accepted that an executor of an earlier term submits.
    Lead {
        /// The term of the new leader.
        term: u64,
    },
    /// Another operation, submitted by the executor of one term: refused once a later term's has begun.
    InTerm {
        /// The term.
        term: u64,
        /// What is asked.
        what: Box<Op>,
    },
    /// Create a token.
    CreateToken {
        /// Its id.
        id: TokenId,
        /// Whose it is.
        name: PrincipalName,
        /// What it may do.
        role: Role,
        /// SHA-256 (hex) of the secret.
        secret_sha256: String,
        /// When it stops working.
        expires_at: Option<Instant>,
    },
    /// Revoke a token.
    RevokeToken {
        /// Which.
        id: TokenId,
        /// Whether it may be the last one of an admin that works: nobody could create another after it.
        #[serde(default = "may_be_last")]
        may_be_last: bool,
    },
}

/// What commands meant that did not say.
const fn may_be_last() -> bool {
    true
}

/// A shard whose primary changed by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failover {
    /// Which shard.
    pub shard: ShardId,
    /// Its primary before.
    pub from: NodeId,
    /// Its primary now, a replica of it before.
    pub to: NodeId,
}

/// A change of who belongs to the raft group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum MemberChange {
    /// Allocate the number of a new member, never one that was used before, and the token it joins with.
    Add {
        /// `host:port` where the others will reach it.
        address: String,
        /// The highest number that raft knows: that of a first member is recorded nowhere else.
        above: MemberId,
        /// Id of its join token.
        token: TokenId,
        /// SHA-256 (hex) of that token's secret.
        secret_sha256: String,
        /// When the token stops working.
        expires_at: Instant,
    },
    /// A learner has become a voter: its join token ends.
    Promote {
        /// Which.
        member: MemberId,
    },
    /// A member is to leave for good.
    Remove {
        /// Which.
        member: MemberId,
        /// Whether or not a majority of those that stay answers.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        forced: bool,
    },
}

/// What is asked of the group without a change of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "note")]
pub enum Noted {
    /// The lead is to go to a member.
    Transfer {
        /// To which.
        member: MemberId,
    },
    /// A snapshot is carried away, with everything in it.
    Backup,
}

/// What an operator can do with a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SteerVerb {
    /// Start no more actions for now.
    Pause,
    /// Go on; failed actions are tried again.
    Resume,
    /// End after the actions in flight.
    Abort,
    /// Undo what was done.
    RollBack,
}

/// One change of what is desired of a cluster. Moves no slot, but for `Import`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Change {
    /// Adopt a running cluster: the cluster must have no shards yet. One new epoch.
    Import {
        /// Every node.
        nodes: Vec<Node>,
        /// Every shard.
        shards: Vec<Shard>,
        /// Who owns what.
        table: SlotTable,
    },
    /// Add a node, as the primary of a new shard or as a replica.
    AddNode {
        /// The node.
        node: Node,
        /// Where.
        place: Place,
    },
    /// Change a node's address or zone.
    SetNode {
        /// Which.
        node: NodeId,
        /// The revision it must have.
        if_match: Option<u64>,
        /// New host.
        host: Option<Host>,
        /// New port.
        port: Option<u16>,
        /// New zone; `Some(None)` clears it.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "clearable")]
        zone: Option<Option<Zone>>,
    },
    /// Mark a node to be emptied; the last active node of a shard drains the shard.
    DrainNode {
        /// Which.
        node: NodeId,
        /// It is dead: nothing is read from it.
        lost: bool,
    },
    /// Take that back.
    UndrainNode {
        /// Which.
        node: NodeId,
    },
    /// Remove a node that serves nothing: a replica, or the only node of a shard without slots (the shard goes too).
    RemoveNode {
        /// Which.
        node: NodeId,
        /// The revision it must have.
        if_match: Option<u64>,
    },
    /// Change a shard's weight, bounds or pins.
    SetShard {
        /// Which.
        shard: ShardId,
        /// The revision it must have.
        if_match: Option<u64>,
        /// New weight.
        weight: Option<Weight>,
        /// New lower bound; `Some(None)` clears it.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "clearable")]
        min_slots: Option<Option<u16>>,
        /// New upper bound; `Some(None)` clears it.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "clearable")]
        max_slots: Option<Option<u16>>,
        /// New pins, whole.
        pinned: Option<Vec<SlotRange>>,
    },
    /// Mark a shard to be emptied: all its nodes.
    DrainShard {
        /// Which.
        shard: ShardId,
    },
    /// Take that back.
    UndrainShard {
        /// Which.
        shard: ShardId,
    },
}

/// Where a new node goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "place")]
pub enum Place {
    /// It becomes the primary of a new shard.
    NewShard {
        /// The shard's id.
        shard: ShardId,
        /// Its weight.
        weight: Weight,
    },
    /// It becomes a replica of a shard that is there.
    ReplicaOf {
        /// Which shard.
        shard: ShardId,
    },
}

/// A field that can be left alone, cleared or set: absent, null or a value. Serde alone reads null as absent.
mod clearable {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::option_option, clippy::ref_option, reason = "the shape serde asks for")]
    pub fn serialize<S: Serializer, T: Serialize>(field: &Option<Option<T>>, to: S) -> Result<S::Ok, S::Error> {
        field.serialize(to)
    }

    #[expect(clippy::option_option, reason = "the shape serde asks for")]
    pub fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
        Option::deserialize(from).map(Some)
    }
}
