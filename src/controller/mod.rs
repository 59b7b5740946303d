//! The one facade of the controller: validates against the current state, stamps time and ids, submits, reads.
//! The HTTP server, the RESP listener and the executor talk to nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::{
    ClusterName, Goal, Instant, Limits, NodeId, Plan, PlanId, Principal, PrincipalName, Rejection, Role, ShardId, Slot,
};
use crate::plan::PlanError;
use crate::publish::Publisher;
pub use crate::raft::Status;
pub use crate::state::{
    Approval, AuditRecord, Change, Cluster, Idempotency, Op, Place, PlanRecord, Receipt, Revised, SteerVerb, Token,
};

/// The facade. Cheap to clone.
#[derive(Clone)]
pub struct Controller {
    _inner: Arc<()>,
}

/// Who calls, and what goes with every write.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The authenticated principal.
    pub principal: Principal,
    /// `reason` of the request.
    pub reason: Option<String>,
    /// `Idempotency-Key` and request hash.
    pub idempotency: Option<Idempotency>,
}

/// What a plan is to be made for.
#[derive(Clone, Debug)]
pub struct Propose {
    /// The goal.
    pub goal: Goal,
    /// The operator's words.
    pub reason: String,
    /// Other limits than the policy's.
    pub limits: Option<Limits>,
    /// Refresh: the plan this one replaces.
    pub supersedes: Option<PlanId>,
    /// Undo: the finished plan whose moves go back; the goal is then ignored.
    pub reverts: Option<PlanId>,
}

/// The answer to a change of what is desired.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The receipt; none for a dry run, or when there was neither a change nor a plan to commit.
    pub receipt: Option<Receipt>,
    /// The cluster afterwards (or as it would be).
    pub cluster: Arc<Cluster>,
    /// The plan proposed (or as it would be); none when `propose` was not asked for or nothing is to move: then
    /// `empty_because` says why.
    pub plan: Option<Arc<PlanRecord>>,
    /// Why there is no plan though one was asked for.
    pub empty_because: Option<String>,
}

/// Why a slot is where it is, and why a plan moves it or not.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The slot.
    pub slot: Slot,
    /// Its owner.
    pub owner: Option<ShardId>,
    /// The plan looked at: the active one, else the newest open one.
    pub plan: Option<PlanId>,
    /// Sentences, in order.
    pub because: Vec<String>,
}

/// Why a request could not be answered as asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Refused; nothing changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The planner cannot reach the goal.
    #[error(transparent)]
    Planning(#[from] PlanError),
    /// No leader, or this member does not know enough yet: try again.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// No answer in time: the outcome is unknown; retry with the same idempotency key.
    #[error("timed out; the outcome is unknown")]
    Timeout,
    /// The checker found a fault in the planner's own plan: a defect, nothing was proposed.
    #[error("the plan did not pass its own check: {}", .0.join("; "))]
    PlanDefect(Vec<String>),
}

impl Controller {
    /// This member may answer reads: it has applied up to a commit index a leader told it since it started.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] until then.
    pub fn ready(&self) -> Result<(), ControlError> {
        unimplemented!("src/controller")
    }

    /// Waits until this member has everything committed before the call.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] without a leader for 2 s.
    pub async fn linearize(&self) -> Result<(), ControlError> {
        unimplemented!("src/controller")
    }

    /// Every cluster, ascending by name.
    #[must_use]
    pub fn clusters(&self) -> Vec<Arc<Cluster>> {
        unimplemented!("src/controller")
    }

    /// One cluster.
    ///
    /// # Errors
    /// [`Rejection::NotFound`].
    pub fn cluster(&self, _name: &ClusterName) -> Result<Arc<Cluster>, ControlError> {
        unimplemented!("src/controller")
    }

    /// Published topologies.
    #[must_use]
    pub fn publisher(&self) -> &Publisher {
        unimplemented!("src/controller")
    }

    /// Every token, ascending by id.
    #[must_use]
    pub fn tokens(&self) -> Vec<Token> {
        unimplemented!("src/controller")
    }

    /// The principal of a bearer token `sk_<id>_<secret>`; none when it is unknown, revoked, expired or malformed.
    /// Compares in constant time.
    #[must_use]
    pub fn authenticate(&self, _bearer: &str) -> Option<Principal> {
        unimplemented!("src/controller")
    }

    /// Audit records with `after < seq`, ascending.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] when the store cannot be read.
    pub async fn audit(&self, _after: u64, _limit: usize) -> Result<Vec<AuditRecord>, ControlError> {
        unimplemented!("src/controller")
    }

    /// This member and its group.
    #[must_use]
    pub fn status(&self) -> Status {
        unimplemented!("src/controller")
    }

    /// Applied index and state hash.
    #[must_use]
    pub fn state_hash(&self) -> (u64, String) {
        unimplemented!("src/controller")
    }

    /// Commits one operation, stamped with time and caller. For everything but `Op::Change` and `Op::CreateToken`.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn submit(&self, _caller: &Caller, _op: Op) -> Result<Receipt, ControlError> {
        unimplemented!("src/controller")
    }

    /// Changes what is desired and, when asked, proposes the plan for it in the same step. With `dry_run` everything is
    /// computed and nothing stored. Replans when the state moved under it.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn change(
        &self,
        _caller: &Caller,
        _cluster: &ClusterName,
        _changes: Vec<Change>,
        _propose: Option<Propose>,
        _dry_run: bool,
    ) -> Result<Changed, ControlError> {
        unimplemented!("src/controller")
    }

    /// Creates a token; the secret (`sk_<id>_<secret>`) is in the answer and nowhere else.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn create_token(
        &self,
        _caller: &Caller,
        _name: PrincipalName,
        _role: Role,
        _expires_at: Option<Instant>,
    ) -> Result<(Receipt, String), ControlError> {
        unimplemented!("src/controller")
    }

    /// Why the slot is where it is, and what the open plan does with it.
    ///
    /// # Errors
    /// [`Rejection::NotFound`].
    pub fn explain(&self, _cluster: &ClusterName, _slot: Slot) -> Result<Explanation, ControlError> {
        unimplemented!("src/controller")
    }

    /// A fresh id for a node that was added without a name, and for its shard: not in use in the cluster.
    ///
    /// # Errors
    /// [`Rejection::NotFound`].
    pub fn fresh_names(&self, _cluster: &ClusterName) -> Result<(NodeId, ShardId), ControlError> {
        unimplemented!("src/controller")
    }

    /// The current time as commands are stamped with it.
    #[must_use]
    pub fn now(&self) -> Instant {
        unimplemented!("src/controller")
    }
}

#[expect(dead_code, reason = "skeleton")]
type Unused = (BTreeSet<u8>, Plan);
