//! The replicated machine: the same commands in the same order give the same state on every member, to the byte.
//! No IO, no clock, no randomness; imports `domain` alone.

mod apply;
mod audit;
mod brought;
mod cluster;
mod command;
mod event;
#[cfg(test)]
pub(crate) mod fixture;
mod indexed;
mod invariants;
mod members;
mod op;
mod restore;
mod view;

pub use audit::BrokenChain;
pub use brought::{Brought, Settings, Step};
pub use cluster::{
    Approval, AuditHead, CLUSTERS_MAX, Cluster, Ended, FINISHED_PLANS_MAX, IDEMPOTENCY_KEYS_MAX, IDEMPOTENCY_TTL_MS,
    NODES_MAX, OPEN_PLANS_MAX, PlanRecord, REMOVED_MAX, Remembered, Revised, SHARDS_MAX, State, TOKENS_MAX, Token,
};
pub use command::{COMMAND_VERSION, Change, Command, Failover, Idempotency, MemberChange, Noted, Op, Place, SteerVerb};
pub use event::{Applied, AuditRecord, Event, Receipt};
pub use indexed::{Answers, Nodes, Shards};
pub use members::{Invited, Members};
pub use restore::Restoration;
