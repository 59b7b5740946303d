//! What can go wrong with a connection, and what a server may answer instead of a value.

use std::fmt;

use redis::Value;

/// An error that a server answered, as it wrote it: `ERR I'm already the owner of hash slot 7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: String,
    text: String,
}

impl Refusal {
    /// Its first word: `ERR`, `LOADING`, `MOVED`…
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The whole of it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the server will answer otherwise when it has started, or when the cluster is whole again.
    #[must_use]
    pub fn passes(&self) -> bool {
        matches!(self.code.as_str(), "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" | "BUSY" | "NOREPLICAS")
    }

    /// Whether the credentials are not good for it.
    #[must_use]
    pub fn denies(&self) -> bool {
        matches!(self.code.as_str(), "NOAUTH" | "WRONGPASS" | "NOPERM")
    }
}

impl From<&redis::ServerError> for Refusal {
    fn from(error: &redis::ServerError) -> Self {
        let code = error.code().to_owned();
        let text = error.details().map_or_else(|| code.clone(), |details| format!("{code} {details}"));
        Self { code, text }
    }
}

/// What a server wrote is printed escaped.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.escape_debug().fmt(f)
    }
}

/// What one command of a pipeline gave.
pub type Reply = Result<Value, Refusal>;

/// Why a call gave no reply. `at` is the server's `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The address must not be dialled, or the settings cannot be used: it never works.
    #[error("{at} is not dialled: {why}")]
    Address {
        /// The server.
        at: String,
        /// Why not.
        why: String,
    },
    /// No connection came about. Nothing was sent.
    #[error("{at} cannot be reached: {why}")]
    Unreachable {
        /// The server.
        at: String,
        /// What the system said.
        why: String,
    },
    /// The server does not accept the credentials.
    #[error("{at} does not accept the credentials: {why}")]
    Denied {
        /// The server.
        at: String,
        /// What it said.
        why: String,
    },
    /// The connection ended; whether the server did what was asked is not known.
    #[error("the connection to {at} ended: {why}")]
    Lost {
        /// The server.
        at: String,
        /// What the system said.
        why: String,
    },
    /// No reply in time; whether the server did, or will do, what was asked is not known.
    #[error("{at} did not answer within {timeout_ms} ms")]
    Timeout {
        /// The server.
        at: String,
        /// How long it had.
        timeout_ms: u128,
    },
    /// The term that the link belonged to is over.
    #[error("this member does not lead any more")]
    SteppedDown,
    /// The server answered with an error, where the caller asked for a value.
    #[error("{at} answered: {refusal}")]
    Answered {
        /// The server.
        at: String,
        /// The error.
        refusal: Refusal,
    },
}

impl LinkError {
    /// Whether it may work later without anybody changing anything.
    #[must_use]
    pub fn passes(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } | Self::Timeout { .. } => true,
            Self::Answered { refusal, .. } => refusal.passes(),
            Self::Address { .. } | Self::Denied { .. } | Self::SteppedDown => false,
        }
    }
}
