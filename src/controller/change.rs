//! Changing what is desired and proposing the plan for it, in one commit; replans when the state moved meanwhile.

use std::sync::Arc;

use super::draft::{self, Draft};
use super::seen::Seen;
use super::{Caller, Change, Changed, Cluster, ControlError, Controller, Op, PlanRecord, Propose, Receipt};
use crate::domain::{ClusterName, Digest, Plan, PlanState, Rejection};
use crate::state::Brought;

/// Times a plan is computed anew because the state moved between computing and committing it.
const REPLANS_MAX: u32 = 3;

/// What is to be committed: the changes, the cluster with them, and the plan.
struct Drafted {
    changes: Vec<Change>,
    after: Cluster,
    draft: Draft,
}

impl Drafted {
    /// Whether there is nothing to commit.
    const fn is_idle(&self) -> bool {
        self.changes.is_empty() && self.draft.plan.is_none()
    }
}

impl Controller {
    /// Changes what is desired and, when asked, proposes the plan for it in the same step. With `dry_run` everything is
    /// computed and nothing stored. Replans when the state moved under it.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn change(
        &self,
        caller: &Caller,
        cluster: &ClusterName,
        changes: Vec<Change>,
        propose: Option<Propose>,
        dry_run: bool,
    ) -> Result<Changed, ControlError> {
        // What is committed is judged by the newest state, whatever this member has: no need to ask for it first. A plan,
        // and an answer without a commit, must not come from a state older than what the client has seen elsewhere.
        let (mut is_current, mut replans) = (propose.is_some(), 0);
        if is_current {
            self.linearize().await?;
        }
        let propose = match (propose, self.remembered(caller)?) {
            (Some(propose), None) => Some(self.measured(&*self.cluster(cluster)?, propose).await),
            (propose, _) => propose,
        };
        let seen = match (&propose, self.remembered(caller)?) {
            (Some(propose), None) => self.seen(caller, &*self.cluster(cluster)?, &changes, propose).await,
            _ => None,
        };
        loop {
            if let Some(receipt) = self.remembered(caller)? {
                return self.changed(cluster, receipt, None, None);
            }
            let drafted = self.cluster(cluster).and_then(|before| {
                let drafted = self.drafted(caller, &before, &changes, propose.as_ref(), (dry_run, seen.as_ref()))?;
                Ok((before, drafted))
            });
            let is_committed = drafted.as_ref().is_ok_and(|(_, drafted)| !dry_run && !drafted.is_idle());
            if !is_committed && !is_current {
                self.linearize().await?;
                is_current = true;
                continue;
            }
            let (before, drafted) = drafted?;
            let idle = drafted.is_idle();
            let Drafted { changes, after, draft } = drafted;
            let (plan, empty_because) = (draft.plan.map(Arc::new), draft.empty_because);
            let op = Op::Change { cluster: cluster.clone(), changes, plan: plan.clone() };
            if dry_run && !idle {
                // Refused exactly where the real request would be.
                self.try_out(caller, op.clone())?;
            }
            let proposed = plan.map(|plan| as_proposed(&after, plan));
            if dry_run || idle {
                let version = before.version();
                return Ok(Changed { receipt: None, cluster: Arc::new(after), version, plan: proposed, empty_because });
            }
            match self.submit(caller, op).await {
                Err(ControlError::Rejected(Rejection::PlanStale { .. })) if replans < REPLANS_MAX => replans += 1,
                Err(error) => return Err(error),
                Ok(receipt) => return self.changed(cluster, receipt, proposed, empty_because),
            }
        }
    }

    /// The plan for a cluster as it will be. Undoing a plan brings back, in the same step, what that plan drained; where
    /// nothing is to move, nothing is brought back either.
    fn drafted(
        &self,
        caller: &Caller,
        before: &Cluster,
        changes: &[Change],
        propose: Option<&Propose>,
        (dry_run, seen): (bool, Option<&Seen>),
    ) -> Result<Drafted, ControlError> {
        let mut changes = changes.to_vec();
        let asked = changes.len();
        if let Some(reverts) = propose.and_then(|propose| propose.reverts.as_ref()) {
            changes.extend(draft::undrains(before, reverts)?);
        }
        let mut after = before.with_changes(&changes)?;
        if dry_run {
            // Nothing is committed: the plan stands on the epoch there is.
            after.epoch = before.epoch;
        }
        let draft = match propose {
            Some(propose) => draft::draft(&after, &changes, propose, caller, self.now(), &*self.inner.random, seen)?,
            None => Draft::default(),
        };
        if draft.plan.is_none() && changes.len() > asked {
            changes.truncate(asked);
            return Ok(Drafted { after: before.with_changes(&changes)?, changes, draft });
        }
        Ok(Drafted { changes, after, draft })
    }

    /// The receipt of an earlier request with the same idempotency key: asked before anything is validated, since what
    /// the first request did would make the second one look wrong.
    pub(super) fn remembered(&self, caller: &Caller) -> Result<Option<Receipt>, ControlError> {
        let Some(idempotency) = &caller.idempotency else { return Ok(None) };
        let key = format!("{}/{}", caller.principal.name, idempotency.key);
        match self.read(|state| state.remembered.get(&key).cloned()) {
            None => Ok(None),
            Some(first) if first.request == idempotency.request => {
                Ok(Some(Receipt { repeated: true, ..first.receipt }))
            }
            Some(_) => Err(Rejection::IdempotencyMismatch { key: idempotency.key.clone() }.into()),
        }
    }

    /// The answer, from the state after the commit; `record` stands in where this member has not applied it yet.
    fn changed(
        &self,
        cluster: &ClusterName,
        receipt: Receipt,
        record: Option<Arc<PlanRecord>>,
        empty_because: Option<String>,
    ) -> Result<Changed, ControlError> {
        let cluster = self.cluster(cluster)?;
        let version = receipt.version.unwrap_or_else(|| cluster.version());
        let stored = receipt.plan.as_ref().and_then(|plan| cluster.plans.get(plan).cloned());
        let plan = if receipt.plan.is_some() { stored.or(record) } else { None };
        Ok(Changed { receipt: Some(receipt), cluster, version, plan, empty_because })
    }
}

/// The record a plan gets when it is proposed.
fn as_proposed(cluster: &Cluster, plan: Arc<Plan>) -> Arc<PlanRecord> {
    Arc::new(PlanRecord {
        digest: Digest::of_plan(&plan),
        plan,
        sequence: cluster.plans_proposed,
        revision: 1,
        brought: Arc::<Brought>::default(),
        state: PlanState::Proposed,
        approvals: Vec::new(),
        acks: std::collections::BTreeSet::new(),
        ended: None,
        superseded_by: None,
        rollout: None,
    })
}
