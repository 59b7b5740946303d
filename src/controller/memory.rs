//! Earlier owners of slots, from the plans that were carried out: the latest first, as many as are kept.

use super::{Cluster, PlanRecord};
use crate::domain::{ActionKind, ActionState};
use crate::plan::Memory;

/// What the finished plans of a cluster tell of earlier owners.
pub fn remembered(cluster: &Cluster) -> Memory {
    let mut finished: Vec<&PlanRecord> = cluster
        .plans
        .values()
        .map(|record| &**record)
        .filter(|record| record.state.is_final() && record.rollout.is_some())
        .collect();
    let ended = |record: &PlanRecord| (record.rollout.as_ref().and_then(|rollout| rollout.ended_at), record.sequence);
    finished.sort_by_key(|record| std::cmp::Reverse(ended(record)));
    let mut memory = Memory::default();
    for record in finished {
        let rollout = record.rollout.as_ref().expect("filtered above");
        for action in record.plan.body.actions.iter().rev() {
            if let (ActionKind::MoveSlots { .. } | ActionKind::AssignSlots { .. }, Some(ActionState::Done)) =
                (&action.kind, rollout.state_of(action.id))
                && let (Some(from), Some(to)) = (action.kind.source(), action.kind.target())
            {
                memory.remember(from, to, action.kind.ranges());
            }
        }
    }
    memory
}
