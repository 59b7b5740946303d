//! The order of promotions and changes of shard among each other: a node must have come before it can take over, and must
//! have handed over before it can leave; on the way back the other way round.

use std::collections::BTreeSet;

use crate::domain::{ActionKind, ActionState, NodeId, PlanBody, Rollout, ShardId};

/// What is not there yet, and what is not taken back yet.
#[derive(Default)]
pub(super) struct Roles<'a> {
    /// Nodes on their way to another shard.
    coming: BTreeSet<&'a NodeId>,
    /// Nodes that have come, or are coming.
    came: BTreeSet<&'a NodeId>,
    /// Primaries that have not handed over.
    stepping_down: BTreeSet<&'a NodeId>,
    /// Nodes that have taken over, or are about to.
    took_over: BTreeSet<&'a NodeId>,
    /// Shards whose primary hands over to a node that is there already: who comes to copy it waits for that.
    handing_over: BTreeSet<&'a ShardId>,
}

impl<'a> Roles<'a> {
    pub fn of(body: &'a PlanBody, rollout: &Rollout) -> Self {
        let mut roles = Self::default();
        let mut newcomers = BTreeSet::new();
        for action in &body.actions {
            let state = rollout.state_of(action.id);
            let on = matches!(state, Some(ActionState::Begun | ActionState::Done | ActionState::Reverting));
            let done = state == Some(ActionState::Done);
            match &action.kind {
                ActionKind::SetReplicaOf { node, .. } => {
                    newcomers.insert(node);
                    _ = on && roles.came.insert(node);
                    _ = !done && roles.coming.insert(node);
                }
                ActionKind::Promote { from, to, .. } => {
                    _ = on && roles.took_over.insert(to);
                    _ = !done && roles.stepping_down.insert(from);
                }
                _ => {}
            }
        }
        for action in &body.actions {
            if let ActionKind::Promote { shard, from, to } = &action.kind
                && roles.stepping_down.contains(from)
                && !newcomers.contains(to)
            {
                roles.handing_over.insert(shard);
            }
        }
        roles
    }

    /// Whether an action has to wait for another one.
    pub fn waits(&self, kind: &ActionKind, back: bool) -> bool {
        match (kind, back) {
            (ActionKind::Promote { to, .. }, false) => self.coming.contains(to),
            (ActionKind::Promote { from, .. }, true) => self.came.contains(from),
            (ActionKind::SetReplicaOf { node, shard }, false) => {
                self.stepping_down.contains(node) || self.handing_over.contains(shard)
            }
            (ActionKind::SetReplicaOf { node, .. }, true) => self.took_over.contains(node),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Action, ActionId, ActionProgress, Instant, RolloutState};
    use crate::state::fixture::{id, principal};

    /// For each action in order, its state: what may begin forward, and what backward.
    fn free(kinds: &[ActionKind], states: &[Option<ActionState>]) -> (Vec<bool>, Vec<bool>) {
        let cluster = {
            let mut state = crate::state::State::default();
            let create = crate::state::fixture::create("main", crate::domain::DriverKind::Manual);
            state.apply(&crate::state::fixture::command(0, create)).outcome.unwrap();
            state.clusters[&id::<crate::domain::ClusterName>("main")].clone()
        };
        let mut plan = crate::state::fixture::plan(&cluster, "p-1", &[]);
        plan.body.actions =
            (1..).zip(kinds).map(|(number, kind)| Action { id: ActionId(number), kind: kind.clone() }).collect();
        let progress =
            |state| ActionProgress { state, since: Instant(0), attempts: 1, error: None, came_from: None, by: None };
        let actions = (1..).zip(states).filter_map(|(number, state)| Some((ActionId(number), progress((*state)?))));
        let rollout = Rollout {
            plan: plan.id.clone(),
            state: RolloutState::Running,
            cause: None,
            started_by: principal("root", crate::domain::Role::Admin),
            started_at: Instant(0),
            ended_at: None,
            slots_per_second: None,
            actions: actions.collect(),
        };
        let roles = Roles::of(&plan.body, &rollout);
        let may = |back| kinds.iter().map(|kind| !roles.waits(kind, back)).collect();
        (may(false), may(true))
    }

    fn comes(node: &str, shard: &str) -> ActionKind {
        ActionKind::SetReplicaOf { node: id(node), shard: id(shard) }
    }

    fn promote(shard: &str, from: &str, to: &str) -> ActionKind {
        ActionKind::Promote { shard: id(shard), from: id(from), to: id(to) }
    }

    #[test]
    fn a_node_comes_before_it_takes_over_and_hands_over_before_it_goes_back() {
        use ActionState as S;
        let kinds = [comes("n", "s"), promote("s", "p", "n")];
        assert_eq!(vec![true, false], free(&kinds, &[None, None]).0);
        assert_eq!(vec![true, false], free(&kinds, &[Some(S::Begun), None]).0);
        assert!(free(&kinds, &[Some(S::Done), None]).0[1]);
        assert_eq!(vec![false, true], free(&kinds, &[Some(S::Done), Some(S::Done)]).1);
        assert_eq!(vec![false, true], free(&kinds, &[Some(S::Done), Some(S::Reverting)]).1);
        assert!(free(&kinds, &[Some(S::Done), Some(S::Reverted)]).1[0]);
    }

    #[test]
    fn a_dead_primary_is_replaced_before_anybody_comes_to_copy_it() {
        use ActionState as S;
        let kinds = [promote("s", "dead", "heir"), comes("n", "s"), comes("m", "t")];
        assert_eq!(vec![true, false, true], free(&kinds, &[None, None, None]).0);
        assert_eq!(vec![true, true], free(&kinds, &[Some(S::Done), None, None]).0[1..].to_vec());
    }

    #[test]
    fn a_primary_hands_over_before_it_leaves_and_comes_back_before_it_takes_over() {
        use ActionState as S;
        let kinds = [promote("s", "n", "p"), comes("n", "t")];
        assert_eq!(vec![true, false], free(&kinds, &[None, None]).0);
        assert!(free(&kinds, &[Some(S::Done), None]).0[1]);
        assert_eq!(vec![false, true], free(&kinds, &[Some(S::Done), Some(S::Done)]).1);
        assert!(free(&kinds, &[Some(S::Done), Some(S::Reverted)]).1[0]);
    }
}
