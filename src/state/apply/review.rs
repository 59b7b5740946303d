//! Approving, rejecting and withdrawing plans.

use std::collections::BTreeSet;

use super::super::{Approval, Cluster, Ended, Receipt};
use super::change::{Touched, check_some_active, check_some_weight};
use super::fresh::{check_fit, refuse_state};
use super::{Context, Step, nodes};
use crate::domain::{Digest, Plan, PlanId, PlanState, PlanVerb, Rejection, ShardState};

/// How a plan ends before it started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Rejected,
    Withdrawn,
}

pub(super) fn approve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    id: &PlanId,
    digest: Digest,
    acks: &BTreeSet<String>,
) -> Result<Step, Rejection> {
    let record = cluster.record(id)?;
    if record.state != PlanState::Proposed {
        return Err(refuse_state(id, record.state, "approve"));
    }
    if record.digest != digest {
        return Err(Rejection::DigestMismatch { plan: id.to_string(), actual: record.digest.to_string() });
    }
    let plan = &record.plan;
    let who = &context.by.name;
    let refused =
        |why: &str| Err(Rejection::ApprovalRefused { plan: id.to_string(), who: who.to_string(), why: why.to_owned() });
    if record.approvals.iter().any(|approval| approval.by.name == *who) {
        return refused("has approved it already");
    }
    if plan.author.name == *who && !plan.author_may_approve {
        return refused("is its author");
    }
    check_fit(cluster, plan, context.now, "approve")?;
    let mut all_acks = record.acks.clone();
    all_acks.extend(acks.iter().cloned());
    check_acks(plan, &all_acks)?;

    let record = cluster.record_mut(id)?;
    record.acks = all_acks;
    record.approvals.push(Approval { by: context.by.clone(), at: context.now, digest });
    let (given, needed) = (record.approvals.len(), record.plan.approvals_required);
    if given >= usize::from(needed) {
        record.state = record.state.after(PlanVerb::Approve).expect("proposed plans can be approved");
    }
    let acks: Vec<_> = acks.iter().map(String::as_str).collect();
    let acks = if acks.is_empty() { String::new() } else { format!(", acknowledging {}", acks.join(", ")) };
    let summary = format!("approval {given} of {}{acks}, {digest}", needed.max(1));
    Ok(plan_step(cluster, id, summary))
}

/// Every warning that needs it is acknowledged by its code or name, and nothing else is.
fn check_acks(plan: &Plan, acks: &BTreeSet<String>) -> Result<(), Rejection> {
    if let Some(ack) =
        acks.iter().find(|ack| !plan.checks.iter().any(|check| check.code == **ack || check.name == **ack))
    {
        let shown: String = ack.chars().take(64).collect();
        return Err(Rejection::invalid("acks", &format!("plan {} has no check {shown:?}", plan.id)));
    }
    let missing: Vec<_> = plan
        .checks
        .iter()
        .filter(|check| check.needs_ack && !acks.contains(&check.code) && !acks.contains(&check.name))
        .map(|check| format!("{} ({})", check.code, check.name))
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Rejection::AcknowledgementMissing { plan: plan.id.to_string(), missing })
    }
}

/// Rejects or withdraws a plan. With `revert_intent` the desired state goes back as far as it can: see [`revert`].
pub(super) fn end(
    cluster: &mut Cluster,
    context: &Context<'_>,
    id: &PlanId,
    how: How,
    revert_intent: bool,
) -> Result<Step, Rejection> {
    let (verb, name, done) = match how {
        How::Rejected => (PlanVerb::Reject, "reject", "rejected"),
        How::Withdrawn => (PlanVerb::Withdraw, "withdraw", "withdrawn"),
    };
    let record = cluster.record(id)?;
    let state = record.state.after(verb).ok_or_else(|| refuse_state(id, record.state, name))?;
    let plan = record.plan.clone();
    let mut said = vec![done.to_owned()];
    if revert_intent {
        cluster.refuse_while_active()?;
        said.extend(revert(cluster, &plan)?);
    }
    let record = cluster.record_mut(id)?;
    record.state = state;
    record.ended = Some(Ended { by: context.by.clone(), at: context.now, reason: context.reason.map(str::to_owned) });
    Ok(plan_step(cluster, id, said.join("; ")))
}

/// Takes back what can be taken back of a plan's intent: draining shards are active again (lost nodes stay lost), and
/// added shards that own nothing go with their nodes. An earlier weight is not known any more and stays.
fn revert(cluster: &mut Cluster, plan: &Plan) -> Result<Vec<String>, Rejection> {
    let mut touched = Touched::default();
    for id in &plan.intent.drain {
        let Some(shard) = cluster.shards.get(id) else { continue };
        let any_back =
            shard.value.nodes().any(|node| cluster.nodes[node].value.state != crate::domain::NodeState::Lost);
        match (shard.value.state, any_back) {
            (ShardState::Draining, true) => nodes::undrain_shard(cluster, id, &mut touched)?,
            (ShardState::Draining, false) => touched.sentences.push(format!("shard {id} stays draining: it is lost")),
            (ShardState::Active, _) => {}
        }
    }
    for (id, _) in &plan.intent.add {
        let Some(shard) = cluster.shards.get(id).filter(|_| cluster.table.count_of(id) == 0) else { continue };
        for node in shard.value.nodes() {
            cluster.nodes.remove(node);
        }
        cluster.shards.remove(id);
        cluster.table.remove_shard(id).expect("listed and empty");
        touched.sentences.push(format!("empty shard {id} removed with its nodes"));
    }
    touched
        .sentences
        .extend(plan.intent.reweight.iter().map(|(id, weight)| format!("shard {id} keeps weight {}", weight.get())));
    check_some_active(cluster)?;
    check_some_weight(cluster)?;
    Ok(touched.sentences)
}

/// What every step about one plan has.
pub(super) fn plan_step(cluster: &Cluster, id: &PlanId, summary: String) -> Step {
    Step {
        subject: Some(id.to_string()),
        summary,
        receipt: Receipt { plan: Some(id.clone()), ..Receipt::default() },
        events: vec![cluster.plan_changed(id)],
        ..Step::default()
    }
}
