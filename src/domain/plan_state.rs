//! The life of a plan as one table of transitions.

use serde::{Deserialize, Serialize};

/// Where a plan is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// Waits for approvals.
    Proposed,
    /// May start.
    Approved,
    /// Its rollout is under way.
    Running,
    /// Carried out.
    Succeeded,
    /// Refused by a reviewer.
    Rejected,
    /// Taken back by an operator.
    Withdrawn,
    /// Waited too long.
    Expired,
    /// Replaced by another plan.
    Superseded,
    /// Its rollout was stopped; moved slots stay where they are.
    Aborted,
    /// Its rollout was undone.
    RolledBack,
}

/// What can happen to a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanVerb {
    /// The last approval needed came in.
    Approve,
    /// A reviewer says no.
    Reject,
    /// An operator takes it back.
    Withdraw,
    /// Its time is over.
    Expire,
    /// A successor was proposed.
    Supersede,
    /// The rollout starts.
    Start,
    /// The rollout ended well.
    Succeed,
    /// The rollout ended aborted.
    Abort,
    /// The rollout ended rolled back.
    RollBack,
}

impl PlanState {
    /// The life of a plan, whole: what is not listed is refused.
    pub const TRANSITIONS: [(Self, PlanVerb, Self); 13] = [
        (Self::Proposed, PlanVerb::Approve, Self::Approved),
        (Self::Proposed, PlanVerb::Reject, Self::Rejected),
        (Self::Proposed, PlanVerb::Withdraw, Self::Withdrawn),
        (Self::Proposed, PlanVerb::Expire, Self::Expired),
        (Self::Proposed, PlanVerb::Supersede, Self::Superseded),
        (Self::Approved, PlanVerb::Reject, Self::Rejected),
        (Self::Approved, PlanVerb::Withdraw, Self::Withdrawn),
        (Self::Approved, PlanVerb::Expire, Self::Expired),
        (Self::Approved, PlanVerb::Supersede, Self::Superseded),
        (Self::Approved, PlanVerb::Start, Self::Running),
        (Self::Running, PlanVerb::Succeed, Self::Succeeded),
        (Self::Running, PlanVerb::Abort, Self::Aborted),
        (Self::Running, PlanVerb::RollBack, Self::RolledBack),
    ];

    /// The state after the verb, or none when it is not possible here.
    #[must_use]
    pub fn after(self, verb: PlanVerb) -> Option<Self> {
        Self::TRANSITIONS.iter().find(|(from, by, _)| (*from, *by) == (self, verb)).map(|(_, _, to)| *to)
    }

    /// Whether nothing can happen to the plan any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        !Self::TRANSITIONS.iter().any(|(from, _, _)| *from == self)
    }

    /// The name as it is written in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Approved => "approved",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Rejected => "rejected",
            Self::Withdrawn => "withdrawn",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Aborted => "aborted",
            Self::RolledBack => "rolled_back",
        }
    }
}
