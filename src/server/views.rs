//! From the controller's records to the public JSON.

use std::sync::Arc;

use crate::controller::{AuditRecord, Cluster, Member, Membership, PlanRecord, Receipt, Revised, Status, Token};
use crate::domain::{
    ClusterName, Instant, Moving, Node, NodeId, Rollout, RolloutState, Shard, ShardId, Slot, SlotRange, Version,
    opens_at,
};
use crate::wire::plan::{ApprovalView, EndedView, FreshnessView, PlanLife};
use crate::wire::{
    AuditView, ClusterView, MemberStanding, MemberView, MovingBody, NodeAddress, NodeRole, NodeView, PlanItem, PlanRef,
    PlanView, ProgressBody, Revision, RolloutAction, RolloutView, ShardView, SlotView, TokenView,
};

/// A cluster.
pub fn cluster(cluster: &Cluster) -> ClusterView {
    ClusterView {
        name: cluster.name.clone(),
        id: cluster.id.clone(),
        generation: cluster.generation.0,
        epoch: cluster.epoch.0,
        revision: Revision(cluster.revision),
        created_at: cluster.created_at.into(),
        driver: cluster.driver,
        policy: (&cluster.policy).into(),
        nodes: count(cluster.nodes.len()),
        shards: count(cluster.shards.len()),
        unassigned: count(cluster.table.unassigned_count()),
        active_plan: cluster.active.clone(),
    }
}

/// The version after a write; that of the cluster where nothing was committed.
pub fn version_after(receipt: Option<&Receipt>, cluster: &Cluster) -> Version {
    receipt.and_then(|receipt| receipt.version).unwrap_or_else(|| cluster.version())
}

/// A node of a cluster; none when it is not there.
pub fn node(cluster: &Cluster, id: &NodeId) -> Option<NodeView> {
    let Revised { revision, value } = &**cluster.nodes.get(id)?;
    let Node { id, host, port, zone, state } = value.clone();
    let shard = &cluster.shard_of(&id).expect("every node belongs to a shard").value;
    let role = if shard.primary == id { NodeRole::Primary } else { NodeRole::Replica };
    Some(NodeView { id, host, port, zone, state, shard: shard.id.clone(), role, revision: Revision(*revision) })
}

/// A shard of a cluster; none when it is not there.
pub fn shard(cluster: &Cluster, id: &ShardId) -> Option<ShardView> {
    let Revised { revision, value } = &**cluster.shards.get(id)?;
    Some(ShardView::new(value, *revision, &cluster.table))
}

/// A plan with its life.
pub fn plan(cluster: &Cluster, record: &PlanRecord) -> PlanView {
    let approval =
        |a: &crate::controller::Approval| ApprovalView { by: a.by.name.clone(), at: a.at.into(), digest: a.digest };
    let ended = record.ended.as_ref().map(|ended| EndedView {
        by: ended.by.name.clone(),
        at: ended.at.into(),
        reason: ended.reason.clone(),
        reverted: ended.reverted.clone(),
        kept: ended.kept.clone(),
    });
    // A plan that is under way or over stands on nothing any more.
    let waits = matches!(record.state, crate::domain::PlanState::Proposed | crate::domain::PlanState::Approved);
    let changes = if waits { cluster.stale_because(&record.plan) } else { Vec::new() };
    let life = PlanLife {
        state: record.state,
        digest: record.digest,
        freshness: FreshnessView { fresh: changes.is_empty(), epoch: cluster.epoch.0, changes },
        approvals: record.approvals.iter().map(approval).collect(),
        acks: record.acks.iter().cloned().collect(),
        ended,
        superseded_by: record.superseded_by.clone(),
        rollout_state: record.rollout.as_ref().map(|rollout| rollout.state),
        revision: Some(record.revision),
    };
    PlanView::new(&record.plan, life)
}

/// A plan in a list.
pub fn plan_item(record: &PlanRecord) -> PlanItem {
    let plan = &record.plan;
    PlanItem {
        id: plan.id.clone(),
        state: record.state,
        digest: record.digest,
        goal: plan.intent.goal.into(),
        reason: plan.intent.reason.clone(),
        slots: plan.body.summary.slots,
        minimal: plan.body.summary.slots == plan.body.summary.lower_bound,
        base_epoch: plan.base.version.epoch.0,
        approvals: count(record.approvals.len()),
        approvals_required: plan.approvals_required,
        author: plan.author.name.clone(),
        created_at: plan.created_at.into(),
        expires_at: plan.expires_at.into(),
        rollout_state: record.rollout.as_ref().map(|rollout| rollout.state),
        revision: Revision(record.revision),
    }
}

/// A plan, briefly.
pub fn plan_ref(cluster: &ClusterName, record: &PlanRecord) -> PlanRef {
    PlanRef {
        id: record.plan.id.clone(),
        digest: record.digest,
        href: format!("/v1/clusters/{cluster}/plans/{}", record.plan.id),
        slots: record.plan.body.summary.slots,
    }
}

/// A rollout, with those of its actions that `shown` picks.
pub fn rollout(
    record: &PlanRecord,
    rollout: &Rollout,
    now: Instant,
    shown: impl Fn(&RolloutAction) -> bool,
) -> RolloutView {
    let plan = &record.plan;
    let progress = ProgressBody::new(&plan.body, rollout);
    let pace = rollout.slots_per_second.or(plan.limits.slots_per_second);
    let remaining = match rollout.state {
        RolloutState::Running => progress.slots_total - progress.slots_done,
        RolloutState::RollingBack => progress.slots_done + progress.slots_in_flight,
        _ => 0,
    };
    let eta_ms = pace.filter(|_| remaining > 0).map(|pace| u64::from(remaining) * 1000 / u64::from(pace.max(1)));
    let runs = rollout.state == RolloutState::Running;
    let waits_until = opens_at(&plan.limits.windows, now).filter(|_| runs).map(Into::into);
    let actions = plan.body.actions.iter().map(|action| RolloutAction::new(action, rollout)).filter(shown).collect();
    let (cause, advice) = crate::wire::told(rollout.cause.as_deref(), rollout);
    RolloutView {
        plan: plan.id.clone(),
        state: rollout.state,
        cause,
        advice,
        started_by: (&rollout.started_by).into(),
        started_at: rollout.started_at.into(),
        ended_at: rollout.ended_at.map(Into::into),
        slots_per_second: rollout.slots_per_second,
        slots_per_second_max: plan.limits.slots_per_second,
        eta_ms,
        waits_until,
        progress,
        actions,
    }
}

/// One slot of a cluster.
pub fn slot(cluster: &Cluster, slot: Slot) -> SlotView {
    let shard = cluster.table.owner(slot).cloned();
    let primary = shard.as_ref().and_then(|id| cluster.shards.get(id)).map(|shard: &Arc<Revised<Shard>>| {
        let node = cluster.nodes.get(&shard.value.primary).expect("a primary is a node of its cluster");
        NodeAddress::from(&node.value)
    });
    let covers = |moving: &&Moving| SlotRange::contains(moving.range, slot);
    SlotView {
        generation: cluster.generation.0,
        epoch: cluster.epoch.0,
        slot,
        shard,
        primary,
        moving: cluster.moving.iter().find(covers).map(MovingBody::from),
    }
}

/// A token.
pub fn token(token: &Token) -> TokenView {
    TokenView {
        id: token.id.clone(),
        name: token.name.clone(),
        role: token.role,
        created_at: token.created_at.into(),
        expires_at: token.expires_at.map(Into::into),
    }
}

/// An audit record.
pub fn audit(record: AuditRecord) -> AuditView {
    AuditView {
        seq: record.seq,
        at: record.at.into(),
        by: (&record.by).into(),
        action: record.action,
        cluster: record.cluster,
        subject: record.subject,
        summary: record.summary,
        reason: record.reason,
        generation: record.version.map(|version| version.generation.0),
        epoch: record.version.map(|version| version.epoch.0),
        previous: record.previous,
        hash: record.hash,
    }
}

/// The members as the answering one knows them by itself.
pub fn known_members(status: &Status) -> Vec<MemberView> {
    let member = |(id, address): &(u64, String)| MemberView {
        id: *id,
        peer_address: address.clone(),
        leader: status.leader == Some(*id),
        standing: if status.voters.contains(id) { MemberStanding::Voter } else { MemberStanding::Learner },
        matched: None,
        lag: None,
        last_contact_ms: None,
    };
    status.members.iter().map(member).collect()
}

/// A member.
pub fn member(member: Member) -> MemberView {
    MemberView {
        id: member.id,
        peer_address: member.address,
        leader: member.leader,
        standing: match member.standing {
            Membership::Voter => MemberStanding::Voter,
            Membership::Learner => MemberStanding::Learner,
            Membership::Invited => MemberStanding::Invited,
        },
        matched: member.matched,
        lag: member.lag,
        last_contact_ms: member.last_contact_ms,
    }
}

/// A number of things that are bounded far below 2^32.
pub fn count(number: usize) -> u32 {
    u32::try_from(number).expect("bounded by the state machine")
}
