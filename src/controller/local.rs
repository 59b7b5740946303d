//! A group of one member that keeps its state in memory and nothing else: for tests and benchmarks of the rooms above
//! raft. It applies commands at once, in order, and forgets everything at the end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;

use super::group::Group;
use crate::raft::{
    Backup, Committed, ErrandRunner, Freshness, GroupChange, GroupError, MemberStatus, RaftError, Standing, Status,
};
use crate::state::{AuditRecord, Command, State};

/// The group. Cheap to clone; clones are the same group.
#[derive(Clone)]
pub struct Local {
    inner: Arc<Inner>,
}

struct Inner {
    machine: Mutex<Machine>,
    applied: watch::Sender<u64>,
    leading: watch::Sender<Option<u64>>,
    recovered: AtomicBool,
    stale_ms: AtomicU64,
    errands: OnceLock<ErrandRunner>,
}

#[derive(Default)]
struct Machine {
    state: State,
    audit: Vec<AuditRecord>,
    log: Vec<Command>,
    /// Applied right before the next command, as if another member had been faster.
    ahead: Vec<Command>,
}

impl Machine {
    fn apply(&mut self, command: Command) -> Committed {
        let applied = self.state.apply(&command);
        self.audit.extend(applied.audit.clone());
        self.log.push(command);
        Committed { index: self.log.len() as u64, applied }
    }
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

impl Local {
    /// A group with an empty state that leads in term 1.
    #[must_use]
    pub fn new() -> Self {
        let (applied, leading) = (watch::Sender::new(0), watch::Sender::new(Some(1)));
        let (recovered, stale_ms) = (AtomicBool::new(true), AtomicU64::new(0));
        Self {
            inner: Arc::new(Inner {
                machine: Mutex::default(),
                applied,
                leading,
                recovered,
                stale_ms,
                errands: OnceLock::new(),
            }),
        }
    }

    /// Makes the member lead in a term, or not.
    pub fn set_leading(&self, term: Option<u64>) {
        self.inner.leading.send_replace(term);
    }

    /// Makes the member know, or not, that it has caught up since it started.
    pub fn set_recovered(&self, recovered: bool) {
        self.inner.recovered.store(recovered, Ordering::Relaxed);
    }

    /// Makes the member not have heard of its leader, or of a majority, for so long.
    pub fn set_stale_ms(&self, stale_ms: u64) {
        self.inner.stale_ms.store(stale_ms, Ordering::Relaxed);
    }

    /// Applies a command right before the next one that is submitted.
    pub fn slip_in(&self, command: Command) {
        self.machine().ahead.push(command);
    }

    /// Every command so far.
    #[must_use]
    pub fn log(&self) -> Vec<Command> {
        self.machine().log.clone()
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.inner.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Group for Local {
    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Committed, RaftError>> {
        Box::pin(async move {
            if self.inner.leading.borrow().is_none() {
                return Err(RaftError::NoLeader);
            }
            let committed = {
                let mut machine = self.machine();
                for ahead in std::mem::take(&mut machine.ahead) {
                    machine.apply(ahead);
                }
                machine.apply(command)
            };
            self.inner.applied.send_replace(committed.index);
            Ok(committed)
        })
    }

    fn submit_in(&self, term: u64, command: Command) -> BoxFuture<'_, Result<Committed, RaftError>> {
        if *self.inner.leading.borrow() == Some(term) {
            return self.submit(command);
        }
        Box::pin(std::future::ready(Err(RaftError::NoLeader)))
    }

    fn read(&self, look: &mut dyn FnMut(&State)) {
        look(&self.machine().state);
    }

    fn change_group(&self, change: GroupChange) -> BoxFuture<'_, Result<(), GroupError>> {
        let why = format!("this group lives in memory alone: {change:?}");
        Box::pin(std::future::ready(Err(GroupError::Refused(why))))
    }

    fn run_errands(&self, runner: ErrandRunner) {
        drop(self.inner.errands.set(runner));
    }

    fn errand(&self, errand: String, _: Duration) -> BoxFuture<'_, Result<String, RaftError>> {
        Box::pin(async move {
            let runner = self.inner.errands.get().ok_or(RaftError::NoLeader)?;
            runner(errand).await.ok_or(RaftError::NoLeader)
        })
    }

    fn members(&self) -> BoxFuture<'_, Vec<MemberStatus>> {
        let leader = self.inner.leading.borrow().is_some();
        let address = "127.0.0.1:1".to_owned();
        let alone =
            MemberStatus { id: 1, address, voter: true, leader, matched: None, lag: None, last_contact_ms: None };
        Box::pin(std::future::ready(vec![alone]))
    }

    fn hand_over(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn catch_up(&self, _: Freshness) -> BoxFuture<'_, Result<(), RaftError>> {
        let leads = self.inner.leading.borrow().is_some();
        Box::pin(std::future::ready(if leads { Ok(()) } else { Err(RaftError::NoLeader) }))
    }

    fn applied(&self) -> watch::Receiver<u64> {
        self.inner.applied.subscribe()
    }

    fn leading(&self) -> watch::Receiver<Option<u64>> {
        self.inner.leading.subscribe()
    }

    fn standing(&self) -> Standing {
        let leads = self.inner.leading.borrow().is_some();
        Standing {
            leader: leads.then_some(1),
            role: if leads { "leader" } else { "follower" },
            stale_ms: leads.then(|| self.inner.stale_ms.load(Ordering::Relaxed)),
            recovered: self.inner.recovered.load(Ordering::Relaxed),
        }
    }

    fn status(&self) -> Status {
        let term = *self.inner.leading.borrow();
        let Standing { leader, role, stale_ms, recovered } = self.standing();
        let applied = *self.inner.applied.borrow();
        Status {
            id: 1,
            group_id: "local".to_owned(),
            leader,
            role,
            term: term.unwrap_or(0),
            committed: applied,
            applied,
            members: vec![(1, "127.0.0.1:1".to_owned())],
            voters: [1].into(),
            stale_ms,
            recovered,
        }
    }

    fn audit(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<Vec<AuditRecord>, RaftError>> {
        let found = self.machine().audit.iter().filter(|record| record.seq > after).take(limit).cloned().collect();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn state_hash(&self) -> (u64, String) {
        let machine = self.machine();
        (machine.log.len() as u64, machine.state.hash())
    }

    fn take_snapshot(&self) -> BoxFuture<'_, Result<u64, RaftError>> {
        Box::pin(std::future::ready(Ok(self.machine().log.len() as u64)))
    }

    fn backup(&self) -> BoxFuture<'_, Result<Backup, RaftError>> {
        let machine = self.machine();
        let backup = Backup::of_state(machine.log.len() as u64, &machine.state, &machine.audit);
        Box::pin(std::future::ready(backup.map_err(|error| RaftError::Fatal(error.to_string()))))
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
