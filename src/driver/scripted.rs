//! A driver that does what a test tells it, and keeps what it was asked.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;

use super::{Direction, Driver, DriverError, Job};
use crate::domain::{ActionId, DriverKind, SlotSet, Topology};

/// What a call answers; called with the job and the number of earlier calls for the same action and direction.
pub type Script = dyn Fn(&Job, usize) -> BoxFuture<'static, Result<(), DriverError>> + Send + Sync;

/// The driver. Cheap to clone; clones share the script and what was asked.
#[derive(Clone)]
pub struct Scripted {
    kind: DriverKind,
    script: Arc<Script>,
    asked: Arc<Mutex<Vec<(ActionId, Direction)>>>,
    verdict: Arc<Mutex<Result<(), DriverError>>>,
    closed: Arc<Mutex<Result<(), DriverError>>>,
}

impl Scripted {
    /// A driver that stands in for one of this kind and answers by the script.
    pub fn new(
        kind: DriverKind,
        script: impl Fn(&Job, usize) -> BoxFuture<'static, Result<(), DriverError>> + Send + Sync + 'static,
    ) -> Self {
        let verdict = || Arc::new(Mutex::new(Ok(())));
        Self { kind, script: Arc::new(script), asked: Arc::default(), verdict: verdict(), closed: verdict() }
    }

    /// What `verify` answers from now on.
    pub fn set_verdict(&self, verdict: Result<(), DriverError>) {
        *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) = verdict;
    }

    /// What `closed` answers from now on.
    pub fn set_closed(&self, closed: Result<(), DriverError>) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = closed;
    }

    /// Every call so far.
    #[must_use]
    pub fn asked(&self) -> Vec<(ActionId, Direction)> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Driver for Scripted {
    fn kind(&self) -> DriverKind {
        self.kind
    }

    fn execute<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), DriverError>> {
        let call = (job.action.id, job.direction);
        let earlier = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.push(call);
            asked.iter().filter(|earlier| **earlier == call).count() - 1
        };
        (self.script)(job, earlier)
    }

    fn closed<'a>(&'a self, _topology: &'a Topology, _slots: &'a SlotSet) -> BoxFuture<'a, Result<(), DriverError>> {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(std::future::ready(closed))
    }

    fn verify<'a>(&'a self, _topology: &'a Topology) -> BoxFuture<'a, Result<(), DriverError>> {
        let verdict = self.verdict.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(std::future::ready(verdict))
    }
}
