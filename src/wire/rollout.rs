//! Rollouts and their actions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::plan::ActionView;
use super::{PrincipalBody, Text, Timestamp, schema};
use crate::domain::{Action, ActionState, PlanBody, PlanId, Rollout, RolloutState, split_advice};

/// Where an action is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActionStatus {
    /// Not begun.
    Pending,
    /// The driver works on it.
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

/// One action and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RolloutAction {
    /// The action.
    #[serde(flatten)]
    pub action: ActionView,
    /// Where it is.
    pub state: ActionStatus,
    /// When it got there; absent while pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Times it was begun.
    pub attempts: u32,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What to do about that, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// How far a rollout is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProgressBody {
    /// Actions of the plan.
    pub actions_total: u32,
    /// Actions done (and not undone).
    pub actions_done: u32,
    /// Actions the driver works on.
    pub actions_in_flight: u32,
    /// Actions that failed.
    pub actions_failed: u32,
    /// Slots that change their owner, or are repaired.
    pub slots_total: u32,
    /// Of those, done (and not undone).
    pub slots_done: u32,
    /// Of those, in flight.
    pub slots_in_flight: u32,
}

/// A plan being carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RolloutView {
    /// The plan.
    #[schema(value_type = schema::Name)]
    pub plan: PlanId,
    /// Where it is.
    #[schema(schema_with = schema::rollout_state)]
    pub state: RolloutState,
    /// Why it is blocked, paused or aborted, or what it waits for.
    pub cause: Option<String>,
    /// What to do about the cause, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Who started it.
    pub started_by: PrincipalBody,
    /// When.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// A lower pace than the plan's, set by a throttle.
    pub slots_per_second: Option<u32>,
    /// The plan's own pace.
    pub slots_per_second_max: Option<u32>,
    /// Milliseconds still needed at the pace in force; absent where none is set or nothing remains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_ms: Option<u64>,
    /// When the next of its time windows opens, while it runs outside of them: no action starts before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_until: Option<Timestamp>,
    /// How far it is.
    pub progress: ProgressBody,
    /// Its actions: those in flight and failed, or what `actions` asked for.
    pub actions: Vec<RolloutAction>,
}

/// A rollout after a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RolloutAnswer {
    /// Generation afterwards.
    pub generation: u64,
    /// Epoch afterwards.
    pub epoch: u64,
    /// The rollout.
    pub rollout: RolloutView,
}

/// Steer a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SteerRequest {
    /// Warnings acknowledged, such as `stale-cache` for rolling a flip back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    pub acks: Vec<Text>,
    /// Why; kept in the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// A request that says nothing but why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonRequest {
    /// Why; kept in the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// Lower the pace of a rollout, or (`null`) return to the approved one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ThrottleRequest {
    /// Slots per second, at most the plan's.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub slots_per_second: Option<u32>,
    /// Why; kept in the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// An action failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailedRequest {
    /// What went wrong.
    pub error: Text,
}

impl ThrottleRequest {
    /// Checks the bounds.
    ///
    /// # Errors
    /// [`super::Fault`] naming the field.
    pub fn validate(&self) -> Result<(), super::Fault> {
        match self.slots_per_second {
            Some(pace) if !(1..=1_000_000).contains(&pace) => {
                Err(super::Fault::new("slots_per_second", "is not in 1..=1000000"))
            }
            _ => Ok(()),
        }
    }
}

/// A reason, and what to do about it: of a rollout that has ended nothing that is done with one that is under way.
#[must_use]
pub fn told(reason: Option<&str>, rollout: &Rollout) -> (Option<String>, Option<String>) {
    let Some((why, advice)) = reason.map(split_advice) else { return (None, None) };
    let advice = advice.filter(|advice| !(rollout.state.is_final() && advice.contains("rollout ")));
    (Some(why.to_owned()), advice.map(str::to_owned))
}

impl RolloutAction {
    /// An action of a plan, with its progress in the rollout.
    #[must_use]
    pub fn new(action: &Action, rollout: &Rollout) -> Self {
        let progress = rollout.actions.get(&action.id);
        let (error, advice) = told(progress.and_then(|progress| progress.error.as_deref()), rollout);
        Self {
            action: action.into(),
            state: progress.map_or(ActionStatus::Pending, |progress| progress.state.into()),
            since: progress.map(|progress| progress.since.into()),
            attempts: progress.map_or(0, |progress| progress.attempts),
            error,
            advice,
        }
    }
}

impl ProgressBody {
    /// How far the rollout of a plan is.
    #[must_use]
    pub fn new(body: &PlanBody, rollout: &Rollout) -> Self {
        let mut progress = Self::default();
        for action in &body.actions {
            let slots = u32::try_from(action.kind.touched()).expect("at most 16384");
            progress.actions_total += 1;
            progress.slots_total += slots;
            match rollout.state_of(action.id) {
                Some(ActionState::Done) => {
                    progress.actions_done += 1;
                    progress.slots_done += slots;
                }
                Some(ActionState::Begun | ActionState::Reverting) => {
                    progress.actions_in_flight += 1;
                    progress.slots_in_flight += slots;
                }
                Some(ActionState::Failed) => progress.actions_failed += 1,
                Some(ActionState::Reverted) | None => {}
            }
        }
        progress
    }
}

impl From<ActionState> for ActionStatus {
    fn from(state: ActionState) -> Self {
        match state {
            ActionState::Begun => Self::Begun,
            ActionState::Done => Self::Done,
            ActionState::Failed => Self::Failed,
            ActionState::Reverting => Self::Reverting,
            ActionState::Reverted => Self::Reverted,
        }
    }
}
