//! What the facade needs of a raft group, so that it can be driven without one.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::raft::{
    Backup, Committed, ErrandRunner, Freshness, GroupChange, GroupError, MemberStatus, Raft, RaftError, Standing,
    Status,
};
use crate::state::{AuditRecord, Command, State};

/// A replicated state machine as seen from one member. See [`Raft`] for what each method promises.
pub trait Group: Send + Sync {
    /// Commits a command, through the leader, and returns when it is applied here too.
    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Committed, RaftError>>;
    /// Commits a command on this member, if it leads in this term.
    fn submit_in(&self, term: u64, command: Command) -> BoxFuture<'_, Result<Committed, RaftError>>;
    /// Looks at the applied state, briefly.
    fn read(&self, look: &mut dyn FnMut(&State));
    /// Returns when everything committed before the call is applied here.
    fn catch_up(&self, freshness: Freshness) -> BoxFuture<'_, Result<(), RaftError>>;
    /// Changes who belongs to the group.
    fn change_group(&self, change: GroupChange) -> BoxFuture<'_, Result<(), GroupError>>;
    /// Sets what runs errands on this member while it leads.
    fn run_errands(&self, runner: ErrandRunner);
    /// Has the leader run an errand.
    fn errand(&self, errand: String, within: Duration) -> BoxFuture<'_, Result<String, RaftError>>;
    /// The members as the leader knows them.
    fn members(&self) -> BoxFuture<'_, Vec<MemberStatus>>;
    /// Hands the lead to another member, when this one leads and there is one.
    fn hand_over(&self) -> BoxFuture<'_, ()>;
    /// Index of the last applied entry, as it grows.
    fn applied(&self) -> watch::Receiver<u64>;
    /// The term in which this member leads, as it changes.
    fn leading(&self) -> watch::Receiver<Option<u64>>;
    /// What this member knows of its group.
    fn status(&self) -> Status;
    /// The part of the status that is looked at with every request.
    fn standing(&self) -> Standing;
    /// Audit records with `after < seq`, ascending, at most `limit`.
    fn audit(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<Vec<AuditRecord>, RaftError>>;
    /// Applied index and SHA-256 (hex) of the state there.
    fn state_hash(&self) -> (u64, String);
    /// Makes this member write a snapshot of what it has applied; its index.
    fn take_snapshot(&self) -> BoxFuture<'_, Result<u64, RaftError>>;
    /// A snapshot of what this member has applied, to carry away.
    fn backup(&self) -> BoxFuture<'_, Result<Backup, RaftError>>;
    /// Stops.
    fn shutdown(&self) -> BoxFuture<'_, ()>;
}

impl Group for Raft {
    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Committed, RaftError>> {
        Box::pin(Self::submit(self, command))
    }

    fn submit_in(&self, term: u64, command: Command) -> BoxFuture<'_, Result<Committed, RaftError>> {
        Box::pin(Self::submit_in(self, term, command))
    }

    fn read(&self, look: &mut dyn FnMut(&State)) {
        Self::read(self, look);
    }

    fn catch_up(&self, freshness: Freshness) -> BoxFuture<'_, Result<(), RaftError>> {
        Box::pin(Self::catch_up(self, freshness))
    }

    fn change_group(&self, change: GroupChange) -> BoxFuture<'_, Result<(), GroupError>> {
        Box::pin(Self::change_group(self, change))
    }

    fn run_errands(&self, runner: ErrandRunner) {
        Self::run_errands(self, runner);
    }

    fn errand(&self, errand: String, within: Duration) -> BoxFuture<'_, Result<String, RaftError>> {
        Box::pin(Self::errand(self, errand, within))
    }

    fn members(&self) -> BoxFuture<'_, Vec<MemberStatus>> {
        Box::pin(Self::group_members(self))
    }

    fn hand_over(&self) -> BoxFuture<'_, ()> {
        Box::pin(Self::hand_over(self))
    }

    fn applied(&self) -> watch::Receiver<u64> {
        Self::applied(self)
    }

    fn leading(&self) -> watch::Receiver<Option<u64>> {
        Self::leading(self)
    }

    fn status(&self) -> Status {
        Self::status(self)
    }

    fn standing(&self) -> Standing {
        Self::standing(self)
    }

    fn audit(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<Vec<AuditRecord>, RaftError>> {
        Box::pin(Self::audit(self, after, limit))
    }

    fn state_hash(&self) -> (u64, String) {
        Self::state_hash(self)
    }

    fn take_snapshot(&self) -> BoxFuture<'_, Result<u64, RaftError>> {
        Box::pin(Self::take_snapshot(self))
    }

    fn backup(&self) -> BoxFuture<'_, Result<Backup, RaftError>> {
        Box::pin(Self::backup(self))
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(Self::shutdown(self))
    }
}
