//! The one facade of the controller: validates against the current state, stamps time and ids, submits, reads.
//! The HTTP server, the RESP listener and the executor talk to nothing else.

mod background;
mod change;
mod draft;
mod error;
mod explain;
mod fresh;
mod group;
mod import;
mod life;
mod local;
mod measure;
mod members;
mod memory;
mod observe;
mod progress;
mod seen;
mod tokens;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use crate::domain::{
    ClusterId, ClusterName, Goal, Instant, Limits, NodeId, Objective, PlacementGoal, PlanId, Principal, Rejection,
    ShardId, Slot, Statistics, TokenId, Version,
};
use crate::driver::Lease;
use crate::publish::Publisher;
use crate::raft::{RaftError, off_thread};
use crate::state::{COMMAND_VERSION, Command, Noted, State};

pub use self::background::FirstStart;
pub use self::error::ControlError;
pub use self::explain::Subject;
pub use self::group::Group;
pub use self::import::{Imported, Zones};
pub use self::local::Local;
pub use self::measure::{Measured, MeasuredSlot};
pub use self::members::{Invitation, Joined, Member, Membership, Removal};
pub use self::progress::{ActionCounts, Progress, progress};
pub use self::seen::{DriftReport, Drivers};
pub use self::tokens::Bearer;
pub use crate::driver::nodes::Candidate;
pub use crate::raft::{Backup, Freshness, Standing, Status};
pub use crate::state::{
    Approval, AuditRecord, Change, Cluster, Failover, Idempotency, Op, Place, PlanRecord, Receipt, Revised, SteerVerb,
    Token,
};

/// A leader that was not heard of for longer is taken for gone: more than three times the longest silence after which
/// followers elect another. What the member remembers after that is a hint for finding its group, not a leader.
pub const LEADER_SILENCE_MAX_MS: u64 = 2_000;

/// The facade. Cheap to clone.
#[derive(Clone)]
pub struct Controller {
    inner: Arc<Inner>,
}

struct Inner {
    group: Box<dyn Group>,
    publisher: Publisher,
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    random: Box<dyn Fn() -> fresh::Bits + Send + Sync>,
    /// The tokens as they were last looked at.
    tokens: watch::Sender<Vec<TokenId>>,
    /// What asks the nodes.
    drivers: OnceLock<Drivers>,
    /// What was last seen of the nodes, by cluster.
    observed: Mutex<BTreeMap<ClusterName, observe::Observed>>,
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
    /// Which slots move, and what is known of them.
    pub choice: Choice,
    /// Refresh: the plan this one replaces.
    pub supersedes: Option<PlanId>,
    /// Undo: the finished plan whose moves go back; the goal is then ignored.
    pub reverts: Option<PlanId>,
    /// The copies that every active shard is to have; none: nodes stay in their shards.
    pub placement: Option<PlacementGoal>,
    /// Repair: bring what the nodes have otherwise to where the table has it, and move nothing; the goal is then ignored.
    pub repair: bool,
}

/// Which slots a plan moves once it is settled how many.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// What they are chosen for.
    pub objective: Objective,
    /// What is known of each slot.
    pub statistics: Option<Arc<Statistics>>,
}

/// The answer to a change of what is desired.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The receipt; none for a dry run, or when there was neither a change nor a plan to commit.
    pub receipt: Option<Receipt>,
    /// The cluster afterwards (or as it would be).
    pub cluster: Arc<Cluster>,
    /// The version that was committed; that of the cluster as it is where nothing was.
    pub version: Version,
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

/// The wall clock, read nowhere else: commands carry its time, and nothing but display and expiry depends on it.
fn wall_clock() -> Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl Controller {
    /// The facade of a member of a group, with the wall clock.
    #[must_use]
    pub fn new(group: impl Group + 'static) -> Self {
        Self::with_clock(group, wall_clock)
    }

    /// The facade of a member of a group, with another clock.
    #[must_use]
    pub fn with_clock(group: impl Group + 'static, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self::with_sources(group, clock, rand::random)
    }

    /// The facade of a member of a group, with another clock and another source of random bits: what a simulation fixes.
    #[must_use]
    pub fn with_sources(
        group: impl Group + 'static,
        clock: impl Fn() -> Instant + Send + Sync + 'static,
        random: impl Fn() -> [u8; 32] + Send + Sync + 'static,
    ) -> Self {
        let (group, clock, random) = (Box::new(group), Box::new(clock), Box::new(random));
        let (publisher, tokens) = (Publisher::default(), watch::Sender::default());
        Self {
            inner: Arc::new(Inner {
                group,
                publisher,
                clock,
                random,
                tokens,
                drivers: OnceLock::new(),
                observed: Mutex::default(),
            }),
        }
    }

    /// This member may answer reads: it has applied up to a commit index that a leader told it since it started.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] until then.
    pub fn ready(&self) -> Result<(), ControlError> {
        if self.standing().recovered {
            Ok(())
        } else {
            Err(ControlError::Unavailable("this member has not caught up with its group since it started".to_owned()))
        }
    }

    /// Waits until this member has everything committed before the call.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] without a leader for 2 s.
    pub async fn linearize(&self) -> Result<(), ControlError> {
        self.catch_up(Freshness::ReadIndex).await
    }

    /// The same, confirmed in the way given.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] without a leader for 2 s.
    pub async fn catch_up(&self, freshness: Freshness) -> Result<(), ControlError> {
        self.inner.group.catch_up(freshness).await.map_err(|error| match error {
            // Nothing was written: there is no outcome to be unknown.
            RaftError::Timeout => ControlError::Unavailable("no leader confirmed the read".to_owned()),
            other => other.into(),
        })
    }

    /// Every cluster, ascending by name.
    #[must_use]
    pub fn clusters(&self) -> Vec<Arc<Cluster>> {
        self.read(|state| state.clusters.values().cloned().collect())
    }

    /// One cluster.
    ///
    /// # Errors
    /// [`Rejection::NotFound`].
    pub fn cluster(&self, name: &ClusterName) -> Result<Arc<Cluster>, ControlError> {
        let found = self.read(|state| state.clusters.get(name).cloned());
        found.ok_or_else(|| Rejection::not_found("cluster", name).into())
    }

    /// Published topologies.
    #[must_use]
    pub fn publisher(&self) -> &Publisher {
        &self.inner.publisher
    }

    /// Audit records with `after < seq`, ascending.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] when the store cannot be read.
    pub async fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditRecord>, ControlError> {
        Ok(self.inner.group.audit(after, limit).await?)
    }

    /// This member and its group. A leader that was not heard of for [`LEADER_SILENCE_MAX_MS`] is none.
    #[must_use]
    pub fn status(&self) -> Status {
        let status = self.inner.group.status();
        let heard = status.stale_ms.is_some_and(|stale_ms| stale_ms <= LEADER_SILENCE_MAX_MS);
        Status { leader: status.leader.filter(|_| heard), ..status }
    }

    /// The part of [`Self::status`] that goes with every answer about a topology, at less cost.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let standing = self.inner.group.standing();
        let heard = standing.stale_ms.is_some_and(|stale_ms| stale_ms <= LEADER_SILENCE_MAX_MS);
        Standing { leader: standing.leader.filter(|_| heard), ..standing }
    }

    /// Applied index and state hash.
    #[must_use]
    pub fn state_hash(&self) -> (u64, String) {
        self.inner.group.state_hash()
    }

    /// The same, computed away from the threads that answer: it takes long where the state is large.
    pub async fn state_hash_aside(&self) -> (u64, String) {
        let controller = self.clone();
        off_thread(move || controller.state_hash()).await.expect("hashing a state does not fail")
    }

    /// Index of the last entry applied here, as it grows.
    #[must_use]
    pub fn applied(&self) -> watch::Receiver<u64> {
        self.inner.group.applied()
    }

    /// The term in which this member leads, as it changes; none while it does not lead.
    #[must_use]
    pub fn leading(&self) -> watch::Receiver<Option<u64>> {
        self.inner.group.leading()
    }

    /// This member's lease in a term in which it leads: held while a majority has confirmed it lately.
    #[must_use]
    pub fn lease(&self, term: u64) -> Lease {
        let (controller, leading) = (self.clone(), self.leading());
        Lease::new(term, move || *leading.borrow() == Some(term) && controller.standing().stale_ms == Some(0))
    }

    /// Commits one operation, stamped with time and caller. For everything but `Op::Change` and `Op::CreateToken`.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn submit(&self, caller: &Caller, op: Op) -> Result<Receipt, ControlError> {
        Ok(self.inner.group.submit(self.stamped(caller, op)).await?.applied.outcome?)
    }

    /// Commits one operation that this member has decided on as the leader in a term; refused when it does not lead in
    /// it any more.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn submit_in(&self, term: u64, caller: &Caller, op: Op) -> Result<Receipt, ControlError> {
        Ok(self.inner.group.submit_in(term, self.stamped(caller, op)).await?.applied.outcome?)
    }

    /// What committing the operation would answer, tried on a copy of the applied state.
    fn try_out(&self, caller: &Caller, op: Op) -> Result<Receipt, Rejection> {
        let mut copy = self.read(State::clone);
        copy.apply(&self.stamped(caller, op)).outcome
    }

    fn stamped(&self, caller: &Caller, op: Op) -> Command {
        Command {
            version: COMMAND_VERSION,
            at: self.now(),
            by: caller.principal.clone(),
            reason: caller.reason.clone(),
            idempotency: caller.idempotency.clone(),
            op,
        }
    }

    /// A fresh id for a node that was added without a name, and for its shard: not in use in the cluster.
    ///
    /// # Errors
    /// [`Rejection::NotFound`].
    pub fn fresh_names(&self, cluster: &ClusterName) -> Result<(NodeId, ShardId), ControlError> {
        Ok(self.fresh_names_for(cluster, 1, &[])?.remove(0))
    }

    /// The same for several nodes of one request, beside the names that the request gives others.
    ///
    /// # Errors
    /// [`Rejection::NotFound`].
    pub fn fresh_names_for(
        &self,
        cluster: &ClusterName,
        count: usize,
        taken: &[&str],
    ) -> Result<Vec<(NodeId, ShardId)>, ControlError> {
        Ok(fresh::names(&*self.cluster(cluster)?, count, taken))
    }

    /// A fresh identity for a cluster about to be created.
    #[must_use]
    pub fn fresh_cluster_id(&self) -> ClusterId {
        fresh::cluster_id(&self.random())
    }

    /// The current time as commands are stamped with it: never before that of an earlier command, also when the clock
    /// went back. Apply takes the same for the time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.read(|state| state.now).max((self.inner.clock)())
    }

    /// A number from 0 to below 1, for pauses that must not end together.
    #[must_use]
    pub fn chance(&self) -> f64 {
        let [a, b, c, d, ..] = self.random();
        f64::from(u32::from_le_bytes([a, b, c, d])) / 4_294_967_296.0
    }

    /// Makes this member write a snapshot of what it has applied, so that its log can be purged; its index.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn take_snapshot(&self) -> Result<u64, ControlError> {
        Ok(self.inner.group.take_snapshot().await?)
    }

    /// A snapshot of what this member has applied, to carry away. Who took it, and when, is in the audit, also in the
    /// one that is carried away; unless it need not be `recorded`, and cannot.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn backup(&self, caller: &Caller, recorded: bool) -> Result<Backup, ControlError> {
        match self.submit(caller, Op::Note { what: Noted::Backup }).await {
            // What one member has may be all that is left: nobody can keep a record then but its log.
            Err(error) if !recorded => {
                tracing::warn!("a snapshot is carried away by {}: {error}", caller.principal.name);
            }
            noted => drop(noted?),
        }
        Ok(self.inner.group.backup().await?)
    }

    /// Ends this member's part in the group.
    pub async fn shutdown(&self) {
        self.inner.group.shutdown().await;
    }

    fn random(&self) -> fresh::Bits {
        (self.inner.random)()
    }

    fn group(&self) -> &dyn Group {
        &*self.inner.group
    }

    fn read<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        let (mut look, mut seen) = (Some(look), None);
        self.inner.group.read(&mut |state| seen = look.take().map(|look| look(state)));
        seen.expect("a group calls the closure once")
    }
}

impl Caller {
    /// A part of the controller itself, such as `executor`.
    #[must_use]
    pub fn system(name: &str) -> Self {
        Self { principal: Principal::system(name), reason: None, idempotency: None }
    }
}

#[cfg(test)]
mod tests;
