//! What carries out the actions of a plan on real nodes: one driver per kind of cluster. A driver knows nothing of
//! raft, plans or pace; the executor commits the intent before it calls and the outcome after.

pub mod drift;
mod flip;
mod lease;
mod manual;
pub mod nodes;
pub mod redis;
mod scripted;
mod waits;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::domain::{Action, ActionKind, ClusterName, DriverKind, Limits, PlanId, ShardId, SlotSet, Topology};

pub use self::flip::Flip;
pub use self::lease::Lease;
pub use self::manual::Manual;
pub use self::nodes::{Mandate, Nodes};
pub use self::scripted::{Script, Scripted};
pub use self::waits::Waits;

/// One action to carry out, or to take back.
#[derive(Clone, Debug)]
pub struct Job {
    /// The cluster.
    pub cluster: ClusterName,
    /// The plan it belongs to.
    pub plan: PlanId,
    /// What to do.
    pub action: Action,
    /// Which way.
    pub direction: Direction,
    /// The cluster as it was when the intent was committed: addresses of the nodes.
    pub topology: Arc<Topology>,
    /// Of a `SetReplicaOf` that is taken back: the shard that the node had left.
    pub came_from: Option<ShardId>,
    /// How fast the plan may go.
    pub limits: Limits,
    /// Names and codes of the warnings that were acknowledged when the plan was approved.
    pub acks: Arc<BTreeSet<String>>,
    /// Whether the rollout is being ended or taken back: what cannot go on goes back to where it was.
    pub ending: bool,
    /// Whether this member may still command nodes: asked before every batch of commands.
    pub lease: Lease,
    /// Where the driver says what it waits for.
    pub waits: Waits,
}

/// Which way an action is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// As planned.
    Forward,
    /// Taken back: the rollout is rolled back.
    Back,
}

/// Why a driver did not do it, and what that means for the rollout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// It may work later: tried again with a growing pause, then given up.
    #[error("{0}")]
    Retry(String),
    /// A person has to look: the rollout is blocked.
    #[error("{0}")]
    Pause(String),
    /// Going on would do harm: the rollout ends after what is in flight.
    #[error("{0}")]
    Abort(String),
    /// This one cannot be done, and what it is about is as it was before: it is given up, the rest goes on.
    #[error("{0}")]
    Halt(String),
    /// The nodes are between two states, and cannot be brought to either now: it stays in flight and is tried again, and
    /// the rollout is blocked, so that a person looks.
    #[error("{0}")]
    Open(String),
}

/// Carries out actions. Every call may come again for the same job after a change of leader: observe first.
pub trait Driver: Send + Sync {
    /// Which kind of cluster it is for.
    fn kind(&self) -> DriverKind;

    /// Whether the executor begins and finishes actions; if not, somebody outside does, over REST.
    fn is_ours(&self) -> bool {
        true
    }

    /// Whether it can do actions of this kind.
    fn supports(&self, action: &ActionKind) -> bool {
        self.kind().can(action)
    }

    /// Makes sure that nothing of an earlier term reaches the nodes any more. Called once in a term for each cluster,
    /// before the first action; tried again until it succeeds.
    fn fence<'a>(
        &'a self,
        _cluster: &'a ClusterName,
        _topology: &'a Topology,
        _lease: &'a Lease,
    ) -> BoxFuture<'a, Result<(), DriverError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Forgets everything that belongs to a term that is over: its connections above all.
    fn step_down(&self) {}

    /// Carries out one action, whole. Cancelled when the member stops leading.
    fn execute<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), DriverError>>;

    /// The nodes themselves, where they can be asked.
    fn nodes(&self) -> Option<&dyn Nodes> {
        None
    }

    /// Whether none of these slots is open on a node that answers: asked before a rollout ends that was not carried out whole.
    fn closed<'a>(&'a self, _topology: &'a Topology, _slots: &'a SlotSet) -> BoxFuture<'a, Result<(), DriverError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whether the nodes agree with the table, and no slot is open.
    fn verify<'a>(&'a self, topology: &'a Topology) -> BoxFuture<'a, Result<(), DriverError>>;
}
