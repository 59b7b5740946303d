//! Ending what waited too long: open plans and remembered answers. Expired tokens stay, listed as such; they open
//! nothing.

use std::sync::Arc;

use super::super::cluster::IDEMPOTENCY_TTL_MS;
use super::super::{Cluster, State, invariants};
use super::{Step, count};
use crate::domain::PlanVerb;

impl State {
    pub(super) fn expire(&mut self) -> Step {
        let now = self.now;
        while let Some((at, key)) = self.remembered.oldest()
            && at.plus_ms(IDEMPOTENCY_TTL_MS) <= now
        {
            let key = key.clone();
            self.remembered.remove(&key);
        }
        let mut step = Step::default();
        let mut expired = Vec::new();
        for (name, before) in &mut self.clusters {
            let over = |record: &&Arc<super::PlanRecord>| {
                record.plan.expires_at <= now && record.state.after(PlanVerb::Expire).is_some()
            };
            let ids: Vec<_> = before.plans.values().filter(over).map(|record| record.plan.id.clone()).collect();
            if ids.is_empty() {
                continue;
            }
            let mut after = Cluster::clone(before);
            for id in ids {
                let record = after.record_mut(&id).expect("listed above");
                record.state = record.state.after(PlanVerb::Expire).expect("filtered above");
                step.events.push(after.plan_changed(&id));
                expired.push((name.clone(), id));
            }
            after.revise_records(before);
            after.forget_oldest_plans(before);
            invariants::assert_cluster_after(before, &after);
            *before = Arc::new(after);
        }
        if let [(cluster, plan)] = expired.as_slice() {
            (step.cluster, step.subject) = (Some(cluster.clone()), Some(plan.to_string()));
        }
        if !expired.is_empty() {
            let names: Vec<_> = expired.iter().take(16).map(|(cluster, plan)| format!("{cluster}/{plan}")).collect();
            step.summary = format!("{} expired: {}", count(expired.len(), "plan"), names.join(", "));
        }
        step
    }
}
