//! Why a slot is where it is, and why a plan moves it or not, in sentences.

use super::{Cluster, ControlError, Controller, Explanation, PlanRecord, memory};
use crate::domain::{ActionState, ClusterName, PlanId, PlanState, Rejection, Serving, ShardId, Slot};
use crate::plan::{self, Known};

/// What of a plan is to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Why a slot moves or stays.
    Slot(Slot),
    /// Why a shard gives, takes or neither.
    Shard(ShardId),
}

impl Controller {
    /// Why the slot is where it is, and what the open plan does with it.
    ///
    /// # Errors
    /// [`crate::domain::Rejection::NotFound`].
    pub fn explain(&self, cluster: &ClusterName, slot: Slot) -> Result<Explanation, ControlError> {
        Ok(explain(&*self.cluster(cluster)?, slot))
    }

    /// Why one plan moves a slot or leaves it, or why a shard of it gives, takes or neither.
    ///
    /// # Errors
    /// [`crate::domain::Rejection::NotFound`].
    pub fn explain_plan(
        &self,
        cluster: &ClusterName,
        plan: &PlanId,
        subject: &Subject,
    ) -> Result<Vec<String>, ControlError> {
        let cluster = self.cluster(cluster)?;
        let record = cluster.plans.get(plan).ok_or_else(|| Rejection::not_found("plan", plan))?;
        match subject {
            Subject::Slot(slot) => Ok(in_plan(&cluster, record, *slot)),
            Subject::Shard(shard) => {
                let said = plan::explain_shard(&record.plan, shard);
                Ok(said.ok_or_else(|| Rejection::not_found("shard", shard))?)
            }
        }
    }
}

fn explain(cluster: &Cluster, slot: Slot) -> Explanation {
    let owner = cluster.table.owner(slot).cloned();
    let record = cluster.active_plan().or_else(|| newest_open(cluster));
    let mut because = vec![match &owner {
        None => format!("slot {slot} has no owner"),
        Some(owner) => {
            let shard = &cluster.shards[owner].value;
            let address =
                cluster.nodes.get(&shard.primary).map_or_else(String::new, |node| format!(" at {}", node.value));
            format!("slot {slot} belongs to shard {owner}, served by node {}{address}", shard.primary)
        }
    }];
    let shard = owner.as_ref().map(|owner| &cluster.shards[owner].value);
    if shard.is_some_and(|shard| shard.pinned.contains(slot)) {
        because.push("it is pinned there: no plan moves it while the shard owns it".to_owned());
    }
    if let Some(moving) = cluster.moving.iter().find(|moving| moving.range.contains(slot)) {
        let who = match moving.serving {
            Serving::From => "the source serves it until it has arrived",
            Serving::To => "the target serves it already, and the source may still hold cached values",
        };
        because.push(format!("range {} is on its way from {} to {}: {who}", moving.range, moving.from, moving.to));
    }
    match record {
        None => because.push("no plan is open".to_owned()),
        Some(record) => {
            because.push(format!("plan {} is {}:", record.plan.id, record.state.as_str()));
            because.extend(in_plan(cluster, record, slot));
        }
    }
    Explanation { slot, owner, plan: record.map(|record| record.plan.id.clone()), because }
}

fn newest_open(cluster: &Cluster) -> Option<&std::sync::Arc<PlanRecord>> {
    let open = |record: &&std::sync::Arc<PlanRecord>| matches!(record.state, PlanState::Proposed | PlanState::Approved);
    cluster.plans.values().filter(open).max_by_key(|record| record.sequence)
}

/// What the plan does with the slot and why, and how far it has come with that.
fn in_plan(cluster: &Cluster, record: &PlanRecord, slot: Slot) -> Vec<String> {
    let memory = memory::remembered(cluster);
    let mut said = plan::explain_slot(&record.plan, &Known { table: &cluster.table, memory: &memory }, slot);
    let mut actions = record.plan.body.actions.iter();
    let action = actions.find(|action| action.kind.ranges().iter().any(|range| range.contains(slot)));
    if let (Some(action), Some(rollout)) = (action, &record.rollout) {
        let stage = match rollout.state_of(action.id) {
            None => "pending",
            Some(ActionState::Begun) => "in flight",
            Some(ActionState::Done) => "done",
            Some(ActionState::Failed) => "failed",
            Some(ActionState::Reverting) => "on its way back",
            Some(ActionState::Reverted) => "taken back",
        };
        said.push(format!("action {} is {stage}", action.id));
    }
    said
}
