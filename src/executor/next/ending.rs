//! What a rollout waits for, and whether one that is aborted or rolled back has come to its end.

use super::{Hand, Step, View};
use crate::domain::{ActionState, RolloutState};

impl View<'_> {
    /// What a running rollout waits for, where that is not what was told: once for each action that waits.
    pub(super) fn tell(&self, hand: &Hand) -> Option<Step> {
        let told = self.rollout.cause.as_ref();
        match (&hand.waits, self.rollout.state) {
            (Some((id, why)), RolloutState::Running) => {
                let about = format!("action {id}: ");
                let is_told = told.is_some_and(|told| told.starts_with(&about));
                (!is_told).then(|| Step::Tell(Some(about + why)))
            }
            (None, RolloutState::Running) => told.map(|_| Step::Tell(None)),
            (Some((id, why)), RolloutState::Aborting | RolloutState::RollingBack) => {
                let about = format!("action {id}: ");
                let is_told = hand.told.as_ref().is_some_and(|told| told.starts_with(&about));
                (!is_told).then(|| Step::Block(about + why))
            }
            _ => None,
        }
    }

    /// Whether it is aborted or rolled back, and nothing is left to wait for.
    pub(super) fn is_at_its_end(&self) -> bool {
        let undone = || self.rollout.in_state(&[ActionState::Done]).next().is_none();
        self.rollout.in_flight().next().is_none()
            && match self.rollout.state {
                RolloutState::Aborting => true,
                RolloutState::RollingBack => undone(),
                _ => false,
            }
    }
}
