//! A rollout: an approved plan being carried out. Its life is one table of transitions.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::{ActionId, Instant, PlanId, Principal, PrincipalName, ShardId, SharedMap};

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
    pub actions: RolloutActions,
}

/// Progress of every action that was begun, and which of them are in flight: what a batch costs must not grow with what
/// was done before it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "SharedMap<ActionId, ActionProgress>", into = "SharedMap<ActionId, ActionProgress>")]
pub struct RolloutActions {
    all: SharedMap<ActionId, ActionProgress>,
    /// Derived from `all`.
    in_flight: SharedMap<ActionId, ActionState>,
}

impl ActionState {
    /// Whether somebody works on it.
    #[must_use]
    pub const fn is_in_flight(self) -> bool {
        matches!(self, Self::Begun | Self::Reverting)
    }
}

impl RolloutActions {
    /// Sets the progress of an action.
    pub fn insert(&mut self, id: ActionId, progress: ActionProgress) {
        if progress.state.is_in_flight() {
            self.in_flight.insert(id, progress.state);
        } else {
            self.in_flight.remove(&id);
        }
        self.all.insert(id, progress);
    }

    /// Makes the actions that failed pending again.
    pub fn forget_failed(&mut self) {
        self.all.retain(|_, progress| progress.state != ActionState::Failed);
    }
}

impl Deref for RolloutActions {
    type Target = SharedMap<ActionId, ActionProgress>;
    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl PartialEq for RolloutActions {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for RolloutActions {}

impl FromIterator<(ActionId, ActionProgress)> for RolloutActions {
    fn from_iter<I: IntoIterator<Item = (ActionId, ActionProgress)>>(actions: I) -> Self {
        actions.into_iter().collect::<SharedMap<_, _>>().into()
    }
}

impl From<SharedMap<ActionId, ActionProgress>> for RolloutActions {
    fn from(all: SharedMap<ActionId, ActionProgress>) -> Self {
        let states = all.iter().map(|(id, progress)| (*id, progress.state));
        let in_flight = states.filter(|(_, state)| state.is_in_flight()).collect();
        Self { all, in_flight }
    }
}

impl From<RolloutActions> for SharedMap<ActionId, ActionProgress> {
    fn from(actions: RolloutActions) -> Self {
        actions.all
    }
}

impl Rollout {
    /// Where an action is; none while it is pending.
    #[must_use]
    pub fn state_of(&self, action: ActionId) -> Option<ActionState> {
        self.actions.get(&action).map(|progress| progress.state)
    }

    /// Ids of the actions in one of the states, ascending.
    pub fn in_state(&self, states: &[ActionState]) -> impl Iterator<Item = ActionId> {
        let in_flight = states.iter().all(|state| state.is_in_flight());
        let few = in_flight.then(|| self.actions.in_flight.iter().map(|(id, state)| (*id, *state)));
        let all = (!in_flight).then(|| self.actions.all.iter().map(|(id, progress)| (*id, progress.state)));
        let found = few.into_iter().flatten().chain(all.into_iter().flatten());
        found.filter(move |(_, state)| states.contains(state)).map(|(id, _)| id)
    }

    /// Ids of the actions in flight (begun or reverting), ascending.
    pub fn in_flight(&self) -> impl Iterator<Item = ActionId> {
        self.in_state(&[ActionState::Begun, ActionState::Reverting])
    }
}
