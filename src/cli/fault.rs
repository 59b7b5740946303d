//! How a command ends when it does not end well: a message for people and an exit code for scripts.

use std::fmt;
use std::process::ExitCode;

use crate::domain::Invalid;

/// The exit codes, as documented. 0 is success, 2 also what a wrong usage ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Something went wrong that is none of the others.
    Error = 1,
    /// Wrong usage or invalid input.
    Invalid = 2,
    /// Stale, or in conflict with what is.
    Conflict = 3,
    /// No token, or a role that may not.
    Denied = 4,
    /// What was named is not there.
    NotFound = 5,
    /// No controller answered, or not in time; or a node that it asked did not.
    Unavailable = 6,
    /// The rollout ended aborted or rolled back, or is blocked.
    RolloutStopped = 7,
    /// The prompt was answered with no, or there is no terminal to ask on.
    Declined = 8,
    /// There is something to do; only with `--detailed-exitcode`.
    NotEmpty = 10,
    /// Ctrl-C while watching.
    Interrupted = 130,
}

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub enum Fault {
    /// A message (empty: nothing more to say) and a code.
    Exit(Exit, String),
    /// Nobody reads the output any more: end quietly.
    ClosedPipe,
}

impl Fault {
    /// Invalid input.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Exit(Exit::Invalid, message.into())
    }

    /// A conflict.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::Exit(Exit::Conflict, message.into())
    }

    /// Any other error.
    pub fn error(message: impl Into<String>) -> Self {
        Self::Exit(Exit::Error, message.into())
    }

    /// Puts what it is about before the message.
    #[must_use]
    pub fn about(self, what: impl fmt::Display) -> Self {
        match self {
            Self::Exit(exit, message) => Self::Exit(exit, format!("{what}: {message}")),
            Self::ClosedPipe => Self::ClosedPipe,
        }
    }

    /// Says why on stderr and gives the exit code.
    #[must_use]
    pub fn report(self) -> ExitCode {
        match self {
            Self::ClosedPipe => ExitCode::SUCCESS,
            Self::Exit(exit, message) => {
                if !message.is_empty() {
                    super::output::warn_line(&format!("error: {message}"));
                }
                ExitCode::from(exit as u8)
            }
        }
    }
}

impl From<Invalid> for Fault {
    fn from(invalid: Invalid) -> Self {
        Self::invalid(invalid.to_string())
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe { Self::ClosedPipe } else { Self::error(error.to_string()) }
    }
}
