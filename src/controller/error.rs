//! Why the controller did not do what was asked.

use crate::domain::Rejection;
use crate::plan::PlanError;
use crate::raft::{COMMAND_MAX_BYTES, RaftError};

/// Why a request could not be answered as asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Refused; nothing changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The planner cannot reach the goal.
    #[error(transparent)]
    Planning(#[from] PlanError),
    /// No leader, or this member does not know enough yet: try again.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// A node does not answer, or nodes did not come to agree in time; nothing changed here.
    #[error("{0}")]
    NodeUnreachable(String),
    /// No answer in time: the outcome is unknown; retry with the same idempotency key.
    #[error("timed out; the outcome is unknown")]
    Timeout,
    /// The checker found a fault in the planner's own plan: a defect, nothing was proposed.
    #[error("the plan did not pass its own check: {}", .0.join("; "))]
    PlanDefect(Vec<String>),
}

impl From<RaftError> for ControlError {
    fn from(error: RaftError) -> Self {
        match error {
            RaftError::NoLeader => Self::Unavailable("no leader of the raft group is known".to_owned()),
            RaftError::Timeout => Self::Timeout,
            RaftError::TooLarge { .. } => {
                Rejection::LimitExceeded { what: "bytes of one change".to_owned(), most: COMMAND_MAX_BYTES as u64 }
                    .into()
            }
            error @ RaftError::NotYet { .. } => Rejection::conflict(error.to_string()).into(),
            RaftError::Fatal(why) => Self::Unavailable(why),
        }
    }
}
