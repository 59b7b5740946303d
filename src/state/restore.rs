//! A state that goes on in another group than the one it came from: restored from a backup, or the only copy left.

use std::sync::Arc;

use super::{AuditRecord, State, invariants};
use crate::domain::{Generation, Instant, Principal, RolloutVerb};

/// Why a state goes on elsewhere.
#[derive(Clone, Debug)]
pub struct Restoration<'a> {
    /// When.
    pub at: Instant,
    /// Who.
    pub by: &'a Principal,
    /// The operator's words.
    pub reason: &'a str,
    /// The name of the act in the audit, such as `group.restore`.
    pub action: &'static str,
    /// What it was restored from, the beginning of a sentence for the audit.
    pub from: &'a str,
}

impl State {
    /// Raises every cluster's generation above all that clients may have seen since this state was current, so that
    /// they take the map over the one they hold; pauses rollouts, because nobody knows what was done in between; and
    /// gives the audit record.
    ///
    /// # Panics
    /// When an invariant is broken: a defect.
    pub fn restore(&mut self, restoration: &Restoration<'_>) -> AuditRecord {
        self.now = self.now.max(restoration.at);
        let mut changes = vec![restoration.from.to_owned()];
        for cluster in self.clusters.values_mut() {
            let cluster = Arc::make_mut(cluster);
            let raised = Generation((cluster.generation.0 + 1).max(restoration.at.unix_seconds()));
            changes.push(format!("{}: generation {} to {raised}", cluster.name, cluster.generation));
            cluster.generation = raised;
            self.generation_high = self.generation_high.max(raised);
            let active = cluster.active.clone().and_then(|id| cluster.plans.get_mut(&id));
            if let Some(record) = active.map(Arc::make_mut)
                && let Some(rollout) = &mut record.rollout
                && let Some(paused) = rollout.state.after(RolloutVerb::Pause)
            {
                rollout.state = paused;
                rollout.cause = Some(restoration.action.to_owned());
                record.revision += 1;
                changes.push(format!("{}: rollout of {} paused", cluster.name, record.plan.id));
            }
            invariants::assert_cluster(cluster);
        }
        invariants::assert_bounds(self);
        self.audit_head.append(AuditRecord {
            seq: 0,
            at: self.now,
            by: restoration.by.clone(),
            action: restoration.action.to_owned(),
            cluster: None,
            subject: None,
            summary: super::apply::cut(&changes.join("; "), super::apply::SUMMARY_MAX_BYTES),
            reason: Some(restoration.reason.to_owned()),
            version: None,
            previous: String::new(),
            hash: String::new(),
        })
    }
}
