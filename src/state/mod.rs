//! The replicated machine: the same commands in the same order give the same state on every member, to the byte.
//! No IO, no clock, no randomness; imports `domain` alone.

mod cluster;
mod command;
mod event;

pub use cluster::{
    Approval, AuditHead, CLUSTERS_MAX, Cluster, Ended, FINISHED_PLANS_MAX, IDEMPOTENCY_KEYS_MAX, IDEMPOTENCY_TTL_MS,
    NODES_MAX, OPEN_PLANS_MAX, PlanRecord, Remembered, Revised, SHARDS_MAX, State, TOKENS_MAX, Token,
};
pub use command::{COMMAND_VERSION, Change, Command, Idempotency, Op, Place, SteerVerb};
pub use event::{Applied, AuditRecord, Event, Receipt};

impl State {
    /// Applies one command: checks everything, then changes; a rejection leaves the state as it was.
    pub fn apply(&mut self, _command: &Command) -> Applied {
        unimplemented!("src/state/apply")
    }
}

impl Cluster {
    /// The cluster after these changes of the desired state, as `apply` would leave it; for planning ahead.
    ///
    /// # Errors
    /// The rejection that `apply` would give.
    pub fn with_changes(&self, _changes: &[Change]) -> Result<Self, crate::domain::Rejection> {
        unimplemented!("src/state/apply")
    }

    /// Whether a plan still stands on what it was computed from: an empty list when it does, otherwise what changed,
    /// a sentence each.
    #[must_use]
    pub fn stale_because(&self, _plan: &crate::domain::Plan) -> Vec<String> {
        unimplemented!("src/state/apply")
    }

    /// What clients see.
    #[must_use]
    pub fn topology(&self) -> crate::domain::Topology {
        unimplemented!("src/state")
    }
}
