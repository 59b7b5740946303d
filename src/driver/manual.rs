//! Somebody outside moves the slots: takes actions over REST and acknowledges them. The executor only ends the rollout.

use futures::future::{BoxFuture, ready};

use super::{Driver, DriverError, Job};
use crate::domain::{DriverKind, Topology};

/// The driver of kind `manual`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manual;

impl Driver for Manual {
    fn kind(&self) -> DriverKind {
        DriverKind::Manual
    }

    fn is_ours(&self) -> bool {
        false
    }

    fn execute<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), DriverError>> {
        let id = job.action.id;
        Box::pin(ready(Err(DriverError::Pause(format!("action {id} is for an outside mover to carry out")))))
    }

    fn verify<'a>(&'a self, _topology: &'a Topology) -> BoxFuture<'a, Result<(), DriverError>> {
        Box::pin(ready(Ok(())))
    }
}
