//! A rollout: an approved plan being carried out. Its life is one table of transitions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ActionId, Instant, PlanId, Principal, PrincipalName, ShardId};

/// Where a rollout is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RolloutState {
    /// Starts actions.
    Running,
    /// Starts none; those in flight finish.
    Paused,
    /// Cannot go on by itself; the cause is kept.
    Blocked,
    /// Ends after the actions in flight.
    Aborting,
    /// Undoes what was done.
    RollingBack,
    /// Ended: every action done and checked.
    Succeeded,
    /// Ended: moved slots stay where they are.
    Aborted,
    /// Ended: every action undone.
    RolledBack,
}

/// What can happen to a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RolloutVerb {
    /// An operator stops it for a while.
    Pause,
    /// An operator lets it go on; failed actions are tried again.
    Resume,
    /// The executor can do nothing more by itself.
    Block,
    /// An operator ends it where it is.
    Abort,
    /// An operator wants everything back.
    RollBack,
    /// Everything is done and checked.
    Succeed,
    /// The last action in flight ended after an abort.
    EndAbort,
    /// The last action was undone.
    EndRollBack,
}

impl RolloutState {
    /// The life of a rollout, whole: what is not listed is refused.
    pub const TRANSITIONS: [(Self, RolloutVerb, Self); 15] = [
        (Self::Running, RolloutVerb::Pause, Self::Paused),
        (Self::Running, RolloutVerb::Block, Self::Blocked),
        (Self::Running, RolloutVerb::Abort, Self::Aborting),
        (Self::Running, RolloutVerb::RollBack, Self::RollingBack),
        (Self::Running, RolloutVerb::Succeed, Self::Succeeded),
        (Self::Paused, RolloutVerb::Resume, Self::Running),
        (Self::Paused, RolloutVerb::Abort, Self::Aborting),
        (Self::Paused, RolloutVerb::RollBack, Self::RollingBack),
        (Self::Blocked, RolloutVerb::Resume, Self::Running),
        (Self::Blocked, RolloutVerb::Abort, Self::Aborting),
        (Self::Blocked, RolloutVerb::RollBack, Self::RollingBack),
        (Self::Aborting, RolloutVerb::EndAbort, Self::Aborted),
        (Self::Aborting, RolloutVerb::RollBack, Self::RollingBack),
        (Self::RollingBack, RolloutVerb::EndRollBack, Self::RolledBack),
        (Self::RollingBack, RolloutVerb::Abort, Self::Aborting),
    ];

    /// The state after the verb, or none when it is not possible here.
    #[must_use]
    pub fn after(self, verb: RolloutVerb) -> Option<Self> {
        Self::TRANSITIONS.iter().find(|(from, by, _)| (*from, *by) == (self, verb)).map(|(_, _, to)| *to)
    }

    /// Whether the rollout has ended.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Aborted | Self::RolledBack)
    }

    /// The name as it is written in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Blocked => "blocked",
            Self::Aborting => "aborting",
            Self::RollingBack => "rolling_back",
            Self::Succeeded => "succeeded",
            Self::Aborted => "aborted",
            Self::RolledBack => "rolled_back",
        }
    }
}

/// Where one action is. An action without an entry is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionState {
    /// The intent is committed; the driver works on it.
    Begun,
    /// Done.
    Done,
    /// The driver gave up; the slots stay with their source.
    Failed,
    /// Being undone.
    Reverting,
    /// Undone.
    Reverted,
}

/// Progress of one action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionProgress {
    /// Where it is.
    pub state: ActionState,
    /// When it got there.
    pub since: Instant,
    /// Times it was begun.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// Of a done `SetReplicaOf`: the shard the node left, to undo it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub came_from: Option<ShardId>,
    /// Who began it: while it is in flight no other mover may take it.
    #[serde(default)]
    pub by: Option<PrincipalName>,
}

/// A rollout. Which actions there are stands in its plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    /// The plan carried out.
    pub plan: PlanId,
    /// Where it is.
    pub state: RolloutState,
    /// Why it is blocked, paused or aborted, in words for the operator.
    pub cause: Option<String>,
    /// Who started it.
    pub started_by: Principal,
    /// When.
    pub started_at: Instant,
    /// When it ended.
    pub ended_at: Option<Instant>,
    /// A lower pace than the plan's.
    pub slots_per_second: Option<u32>,
    /// Progress of every action that was begun.
    pub actions: BTreeMap<ActionId, ActionProgress>,
}

impl Rollout {
    /// Where an action is; none while it is pending.
    #[must_use]
    pub fn state_of(&self, action: ActionId) -> Option<ActionState> {
        self.actions.get(&action).map(|progress| progress.state)
    }

    /// Ids of the actions in one of the states, ascending.
    pub fn in_state(&self, states: &[ActionState]) -> impl Iterator<Item = ActionId> {
        self.actions.iter().filter(move |(_, progress)| states.contains(&progress.state)).map(|(id, _)| *id)
    }

    /// Ids of the actions in flight (begun or reverting), ascending.
    pub fn in_flight(&self) -> impl Iterator<Item = ActionId> {
        self.in_state(&[ActionState::Begun, ActionState::Reverting])
    }
}
