//! Whether one more action may begin: the limits per source and per target, and what has to come first.

use std::collections::{BTreeMap, BTreeSet};

use super::View;
use super::roles::Roles;
use crate::domain::{Action, ActionKind, ActionState, Limits, ShardId};

/// What is in flight at each shard, and which shards wait for a new primary.
pub(super) struct Lanes<'a> {
    limits: &'a Limits,
    leaving: BTreeMap<&'a ShardId, u32>,
    entering: BTreeMap<&'a ShardId, u32>,
    /// Shards with a promotion that must come first.
    promoting: BTreeSet<&'a ShardId>,
    /// Shards with moves that must be taken back before their promotion is.
    moved: BTreeSet<&'a ShardId>,
    /// Which roles wait for which.
    roles: Roles<'a>,
}

impl<'a> Lanes<'a> {
    pub(super) fn of(view: &View<'a>) -> Self {
        let (leaving, entering) = (BTreeMap::new(), BTreeMap::new());
        let (promoting, moved) = (BTreeSet::new(), BTreeSet::new());
        let roles = Roles::of(view.body, view.rollout);
        let mut lanes = Self { limits: view.limits, leaving, entering, promoting, moved, roles };
        for action in &view.body.actions {
            let state = view.rollout.state_of(action.id);
            match (&action.kind, state) {
                (ActionKind::Promote { shard, .. }, None | Some(ActionState::Begun | ActionState::Failed)) => {
                    lanes.promoting.insert(shard);
                }
                (ActionKind::Promote { .. }, _) => {}
                (kind, Some(ActionState::Begun | ActionState::Done | ActionState::Reverting)) => {
                    lanes.moved.extend(kind.source().into_iter().chain(kind.target()));
                }
                _ => {}
            }
            match state {
                Some(ActionState::Begun) => lanes.occupy(&action.kind, false),
                Some(ActionState::Reverting) => lanes.occupy(&action.kind, true),
                _ => {}
            }
        }
        lanes
    }

    fn occupy(&mut self, kind: &'a ActionKind, back: bool) {
        let (from, to) = if back { (kind.target(), kind.source()) } else { (kind.source(), kind.target()) };
        if let Some(from) = from {
            *self.leaving.entry(from).or_default() += 1;
        }
        if let Some(to) = to {
            *self.entering.entry(to).or_default() += 1;
        }
    }

    /// Takes a place for the action, if the limits have one.
    pub(super) fn admit(&mut self, action: &'a Action, back: bool) -> bool {
        let kind = &action.kind;
        if self.roles.waits(kind, back) {
            return false;
        }
        if let ActionKind::Promote { shard, .. } = kind {
            return !(back && self.moved.contains(shard));
        }
        let (from, to) = if back { (kind.target(), kind.source()) } else { (kind.source(), kind.target()) };
        let waits = |shard: &ShardId| !back && self.promoting.contains(shard);
        let full = |lane: &BTreeMap<&ShardId, u32>, shard: Option<&ShardId>, most: u32| {
            shard.is_some_and(|shard| lane.get(shard).is_some_and(|count| *count >= most))
        };
        if from.is_some_and(waits)
            || to.is_some_and(waits)
            || full(&self.leaving, from, self.limits.moves_per_source)
            || full(&self.entering, to, self.limits.moves_per_target)
        {
            return false;
        }
        self.occupy(kind, back);
        true
    }
}
