//! Approving, rejecting and withdrawing plans.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::{Approval, Cluster, Ended, Receipt};
use super::fresh::{check_fit, refuse_state};
use super::revert::{Reverted, revert};
use super::{Context, Step};
use crate::domain::{Digest, Plan, PlanId, PlanState, PlanVerb, Rejection};

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

/// Rejects or withdraws a plan. With `revert_intent` what came with it goes back as far as it can: see [`revert`].
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
    let plan = Arc::clone(&record.plan);
    let mut back = Reverted::default();
    if revert_intent {
        cluster.refuse_while_active()?;
        back = revert(cluster, &plan)?;
    }
    let summary = [done]
        .into_iter()
        .chain(back.reverted.iter().chain(&back.kept).map(String::as_str))
        .collect::<Vec<_>>()
        .join("; ");
    let record = cluster.record_mut(id)?;
    record.state = state;
    record.ended = Some(Ended {
        by: context.by.clone(),
        at: context.now,
        reason: context.reason.map(str::to_owned),
        reverted: back.reverted,
        kept: back.kept,
    });
    Ok(plan_step(cluster, id, summary))
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
