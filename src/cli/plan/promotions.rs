//! Promotions in a plan: they move no slot, so the planner and its checker know nothing of them.

use crate::domain::{Action, ActionId, ActionKind, PlanBody};

/// Puts promotions before everything else: they need no slot to move first. They go into the first wave.
pub fn with(body: PlanBody, promotions: Vec<ActionKind>) -> PlanBody {
    if promotions.is_empty() {
        return body;
    }
    let count = u32::try_from(promotions.len()).expect("at most one promotion of each shard");
    let numbered = (1..).zip(promotions).map(|(number, kind)| Action { id: ActionId(number), kind });
    let moved = body.actions.into_iter().map(|action| Action { id: ActionId(action.id.0 + count), ..action });
    let actions = numbered.chain(moved).collect();
    let mut waves: Vec<Vec<ActionId>> =
        body.waves.into_iter().map(|wave| wave.into_iter().map(|id| ActionId(id.0 + count)).collect()).collect();
    let mut summary = body.summary;
    if waves.is_empty() {
        waves.push(Vec::new());
        (summary.waves, summary.waves_lower_bound) = (1, 1);
    }
    waves[0].splice(0..0, (1..=count).map(ActionId));
    PlanBody { actions, waves, summary, empty_because: None, ..body }
}

/// The body as the planner made it, without promotions.
pub fn without(body: &PlanBody) -> PlanBody {
    let stays = |action: &&Action| !matches!(action.kind, ActionKind::Promote { .. });
    let kept: Vec<&Action> = body.actions.iter().filter(stays).collect();
    let new_id = |id: ActionId| {
        let index = kept.iter().position(|action| action.id == id)?;
        Some(ActionId(u32::try_from(index + 1).expect("at most as many as before")))
    };
    let mut waves: Vec<Vec<ActionId>> =
        body.waves.iter().map(|wave| wave.iter().copied().filter_map(new_id).collect()).collect();
    let mut summary = body.summary.clone();
    if kept.is_empty() {
        waves.clear();
        (summary.waves, summary.waves_lower_bound) = (0, 0);
    }
    let actions = (1..).zip(&kept).map(|(number, action)| Action { id: ActionId(number), kind: action.kind.clone() });
    PlanBody { actions: actions.collect(), waves, summary, ..body.clone() }
}
