//! For caches: ownership changes and nothing is moved, so there is nothing to do on a node and nothing to verify.

use futures::future::{BoxFuture, ready};

use super::{Driver, DriverError, Job};
use crate::domain::{DriverKind, Topology};

/// The driver of kind `flip`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flip;

impl Driver for Flip {
    fn kind(&self) -> DriverKind {
        DriverKind::Flip
    }

    fn execute<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), DriverError>> {
        let refused = || DriverError::Pause(format!("driver flip cannot carry out action {}", job.action.id));
        Box::pin(ready(if self.supports(&job.action.kind) { Ok(()) } else { Err(refused()) }))
    }

    fn verify<'a>(&'a self, _topology: &'a Topology) -> BoxFuture<'a, Result<(), DriverError>> {
        Box::pin(ready(Ok(())))
    }
}
