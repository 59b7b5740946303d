//! Redis and Valkey servers: what is sent to them, in which order, and what their answers mean.
//!
//! [`protocol`] decides, from what both ends of a move say, what comes next; it is pure, and the model in its tests
//! drives it through every crash. The other files do what it says.

mod advice;
pub mod atomic;
mod claim;
mod classic;
mod drain;
mod failpoints;
mod fence;
mod keys;
mod link;
mod links;
mod nodes;
mod pace;
pub mod protocol;
mod roles;
mod settings;
mod sight;
mod steps;
mod stream;
mod tasks;
mod value;
mod verify;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;

use self::claim::{Claim, What};
use self::classic::Mover;
use self::pace::Bucket;
use self::tasks::{Ran, Spoken, Whole};
use crate::domain::{
    ActionKind, ClusterName, DriverKind, PlanId, ShardId, Slot, SlotRange, SlotSet, Topology, TopologyShard,
};
use crate::driver::{Direction, Driver, DriverError, Job, Lease, Nodes};

pub use self::failpoints::Failpoints;
pub use self::link::{Link, LinkError, Refusal, Reply};
pub use self::links::{Links, Own};
pub use self::nodes::Servers;
pub use self::settings::{Credentials, Network, Networks, Secret, Settings, Tls};
pub use self::sight::{Fault, Sight, member_ids, members, primaries, primary};

/// Moves slots with their data between Redis or Valkey servers.
#[derive(Debug)]
pub struct Redis {
    links: Arc<Links>,
    servers: Servers,
    spoken: Spoken,
    /// The pace of each plan, shared by its jobs; only the last one of a cluster is kept.
    buckets: Mutex<BTreeMap<ClusterName, (PlanId, Arc<Bucket>)>>,
}

impl Redis {
    /// A driver with these connections.
    #[must_use]
    pub fn new(links: Arc<Links>) -> Self {
        Self {
            servers: Servers::new(Arc::clone(&links)),
            links,
            spoken: Spoken::default(),
            buckets: Mutex::new(BTreeMap::new()),
        }
    }

    async fn carry_out(&self, job: &Job) -> Result<(), DriverError> {
        let named = |id: &ShardId| shard(&job.topology, id);
        let back = job.direction == Direction::Back;
        match &job.action.kind {
            ActionKind::MoveSlots { from, to, ranges } => {
                let (from, to) = if back { (to, from) } else { (from, to) };
                let (ends, slots) = ((named(from)?, named(to)?), slots_of(ranges));
                // Whatever hinders a look is met again, and waited for, in the classic way.
                if let Ok(Some(dialect)) = self.spoken.dialect(&self.links, job, ends).await {
                    let (links, (from, to)) = (&self.links, ends);
                    let whole = Whole { links, job, from, to, dialect, bucket: self.bucket(job) };
                    if whole.run(&slots).await? == Ran::Whole {
                        return Ok(());
                    }
                }
                Mover::new(&self.links, job, ends, self.bucket(job)).run(&slots).await
            }
            ActionKind::AssignSlots { .. } | ActionKind::RepairSlot { .. } if back => {
                Err(DriverError::Halt("what it replaced is not there any more".to_owned()))
            }
            ActionKind::AssignSlots { from, to, ranges } => {
                let lost = from.as_ref().map(named).transpose()?;
                self.claim(job, named(to)?, lost).run(What::Assign(&slots_of(ranges))).await
            }
            ActionKind::RepairSlot { slot, owner } => {
                self.claim(job, named(owner)?, None).run(What::Repair(*slot)).await
            }
            ActionKind::Promote { shard: id, from, to } => {
                roles::promote(&self.links, job, named(id)?, if back { from } else { to }).await
            }
            ActionKind::SetReplicaOf { node, shard: id } => {
                let home = if back { job.came_from.as_ref() } else { Some(id) };
                let home =
                    home.ok_or_else(|| DriverError::Halt(format!("whose replica {node} was before is not known")))?;
                roles::follow(&self.links, job, node, named(home)?).await
            }
        }
    }

    fn claim<'a>(&'a self, job: &'a Job, to: &'a TopologyShard, lost: Option<&'a TopologyShard>) -> Claim<'a> {
        Claim { links: &self.links, job, to, lost, bucket: self.bucket(job) }
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

    fn fence<'a>(
        &'a self,
        cluster: &'a ClusterName,
        topology: &'a Topology,
        lease: &'a Lease,
    ) -> BoxFuture<'a, Result<(), DriverError>> {
        Box::pin(fence::fence(&self.links, cluster, topology, lease))
    }

    fn step_down(&self) {
        self.links.step_down();
    }

    fn execute<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), DriverError>> {
        Box::pin(async move { self.carry_out(job).await.map_err(|error| advice::and_then(job, error)) })
    }

    fn nodes(&self) -> Option<&dyn Nodes> {
        Some(&self.servers)
    }

    fn closed<'a>(&'a self, topology: &'a Topology, slots: &'a SlotSet) -> BoxFuture<'a, Result<(), DriverError>> {
        Box::pin(async move { Ok(verify::closed(&self.links, topology, slots).await?) })
    }

    fn verify<'a>(&'a self, topology: &'a Topology) -> BoxFuture<'a, Result<(), DriverError>> {
        Box::pin(async move { Ok(verify::verify(&self.links, topology).await?) })
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
