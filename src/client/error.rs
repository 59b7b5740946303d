//! Why a request to a controller was not answered as asked.

use std::time::Duration;

use crate::wire::Problem;

/// Why a request was not answered as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The controller answered with a problem: refused, not found, or unavailable everywhere.
    #[error("{} ({})", .0.detail, .0.code)]
    Problem(Box<Problem>),
    /// No endpoint could be reached. Nothing was carried out, unless a connection broke after the request was sent.
    #[error("no controller could be reached: {}", tried.join("; "))]
    Unreachable {
        /// Each endpoint with the last fault.
        tried: Vec<String>,
    },
    /// No answer in time: the outcome of a write is unknown.
    #[error("no answer from {endpoint} within {} ms", after.as_millis())]
    Timeout {
        /// The endpoint asked last.
        endpoint: String,
        /// The time limit.
        after: Duration,
    },
    /// The answer is not one of this API.
    #[error("{endpoint} does not answer as a slotkeeper controller: {why}")]
    Protocol {
        /// Who answered.
        endpoint: String,
        /// What is wrong with it.
        why: String,
    },
    /// The client was configured with something that cannot be.
    #[error("{what}: {why}")]
    Config {
        /// Which setting.
        what: &'static str,
        /// Why it cannot be.
        why: String,
    },
}

impl ClientError {
    /// The HTTP status of a problem.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        if let Self::Problem(problem) = self { Some(problem.status) } else { None }
    }

    /// The stable code of a problem, such as `plan-stale`.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        if let Self::Problem(problem) = self { Some(&problem.code) } else { None }
    }
}
