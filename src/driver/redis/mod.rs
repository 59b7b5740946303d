//! Redis and Valkey servers: what is sent to them, in which order, and what their answers mean.
//!
//! [`protocol`] decides, from what both ends of a move say, what comes next; it is pure, and the model in its tests
//! drives it through every crash. The other files do what it says.

mod classic;
mod drain;
mod failpoints;
mod keys;
mod link;
mod links;
mod pace;
pub mod protocol;
mod settings;
mod sight;
mod steps;
mod value;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;

use self::classic::Mover;
use self::pace::Bucket;
use crate::domain::{ActionKind, ClusterName, DriverKind, PlanId, ShardId, Slot, SlotRange, Topology, TopologyShard};
use crate::driver::{Direction, Driver, DriverError, Job};

pub use self::failpoints::Failpoints;
pub use self::link::{Link, LinkError, Refusal, Reply};
pub use self::links::{Links, Own};
pub use self::settings::{Credentials, Network, Networks, Secret, Settings, Tls};
pub use self::sight::{Fault, Sight, member_ids, members, primary};

/// Moves slots with their data between Redis or Valkey servers.
#[derive(Debug)]
pub struct Redis {
    links: Arc<Links>,
    /// The pace of each plan, shared by its jobs; only the last one of a cluster is kept.
    buckets: Mutex<BTreeMap<ClusterName, (PlanId, Arc<Bucket>)>>,
}

impl Redis {
    /// A driver with these connections.
    #[must_use]
    pub const fn new(links: Arc<Links>) -> Self {
        Self { links, buckets: Mutex::new(BTreeMap::new()) }
    }

    async fn carry_out(&self, job: &Job) -> Result<(), DriverError> {
        match &job.action.kind {
            ActionKind::MoveSlots { from, to, ranges } => {
                let (from, to) = match job.direction {
                    Direction::Forward => (from, to),
                    Direction::Back => (to, from),
                };
                let ends = (shard(&job.topology, from)?, shard(&job.topology, to)?);
                Mover::new(&self.links, job, ends, self.bucket(job)).run(&slots_of(ranges)).await
            }
            _ => Err(DriverError::Pause("not in this version".to_owned())),
        }
    }

    fn bucket(&self, job: &Job) -> Arc<Bucket> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        match buckets.get(&job.cluster) {
            Some((plan, bucket)) if *plan == job.plan => Arc::clone(bucket),
            _ => {
                let bucket = Arc::new(Bucket::new());
                buckets.insert(job.cluster.clone(), (job.plan.clone(), Arc::clone(&bucket)));
                bucket
            }
        }
    }
}

impl Driver for Redis {
    fn kind(&self) -> DriverKind {
        DriverKind::Redis
    }

    fn step_down(&self) {
        self.links.step_down();
    }

    fn execute<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), DriverError>> {
        Box::pin(self.carry_out(job))
    }

    fn verify<'a>(&'a self, _topology: &'a Topology) -> BoxFuture<'a, Result<(), DriverError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn shard<'a>(topology: &'a Topology, id: &ShardId) -> Result<&'a TopologyShard, DriverError> {
    let found = topology.shards.iter().find(|shard| shard.id == *id);
    found.ok_or_else(|| DriverError::Halt(format!("the cluster has no shard {id}")))
}

fn slots_of(ranges: &[SlotRange]) -> Vec<Slot> {
    ranges.iter().flat_map(|range| range.slots()).collect()
}

#[cfg(test)]
mod tests;
