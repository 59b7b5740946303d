//! The handle that the rest of the process holds.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::{BasicNode, Instant as _, RaftMetrics, ServerState};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::acquaintance::Acquaintance;
use super::begin::{First, begin, greet, leave};
use super::errand::Errands;
use super::leader::{self, ReadIndex, Submitted};
use super::machine::Replica;
use super::membership::{self, Turn};
use super::network::{PeerError, Peers};
use super::rounds::Rounds;
use super::rpc::{Contact, Member};
use super::store::Store;
use super::types::{Core, Types};
use super::{COMMAND_MAX_BYTES, Committed, FatalHook, RaftError, Standing, Status, codec};
use crate::domain::MemberId;
use crate::state::{Applied, AuditRecord, Command, State};

/// How long a leader is sought, and how long its answer is waited for.
const WITHIN: Duration = Duration::from_secs(2);
pub(super) const FIND_LEADER_WITHIN: Duration = WITHIN;
/// How long one round of asking for a read index may take: shorter, so that readers get to ask another leader.
const ROUND_WITHIN: Duration = Duration::from_secs(1);
/// How long to wait before looking for a leader again.
pub(super) const RETRY: Duration = Duration::from_millis(20);

/// How a read is confirmed to see everything committed before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Freshness {
    /// The leader asks a majority whether it still leads.
    #[default]
    ReadIndex,
    /// The leader trusts that nobody else can lead before its lease is over: as good as the clocks of the members run
    /// alike, and a round trip faster.
    Lease,
}

/// A member of the group. Cheap to clone.
#[derive(Clone)]
pub struct Raft {
    pub(super) inner: Arc<Inner>,
}

/// What every clone of a handle shares.
pub(super) struct Inner {
    pub(super) core: Core,
    pub(super) store: Store,
    pub(super) replica: Arc<Replica>,
    pub(super) peers: Peers,
    acquaintance: Arc<Acquaintance>,
    contact: Arc<Contact>,
    pub(super) turn: Turn,
    pub(super) errands: Errands,
    leading: watch::Sender<Option<u64>>,
    recovered: watch::Sender<bool>,
    /// By [`Freshness`].
    rounds: [Arc<Rounds>; 2],
    stopping: AtomicBool,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Inner {
    /// Shares with the peer listener what it needs.
    pub(super) fn new(store: Store, member: Member) -> Self {
        let Member { core, acquaintance, contact, peers, replica, turn, errands } = member;
        Self {
            core,
            turn,
            errands,
            store,
            replica,
            peers,
            acquaintance,
            contact,
            leading: watch::Sender::new(None),
            recovered: watch::Sender::new(false),
            rounds: Default::default(),
            stopping: AtomicBool::new(false),
            tasks: Mutex::default(),
        }
    }
}

impl Raft {
    /// Commits a command: here when this member leads, otherwise forwarded to the leader. Returns when it is applied on
    /// this member as well (or after 2 s behind a leader that answered).
    ///
    /// # Errors
    /// [`RaftError`]; a [`Rejection`](crate::domain::Rejection) is an answer, in [`Committed::applied`].
    pub async fn submit(&self, command: Command) -> Result<Committed, RaftError> {
        let bytes = codec::bytes(&command).map_err(|error| RaftError::Fatal(error.to_string()))?;
        if bytes > COMMAND_MAX_BYTES {
            return Err(RaftError::TooLarge { bytes });
        }
        let command = Arc::new(command);
        let deadline = Instant::now() + WITHIN;
        loop {
            match self.submit_once(&command, deadline).await? {
                Submitted::Committed { index, applied } => return self.committed(index, *applied).await,
                Submitted::Unknown => return Err(RaftError::Timeout),
                Submitted::NotYet { needs, group } => return Err(RaftError::NotYet { needs, group }),
                Submitted::NotLeader => self.retry_until(deadline).await?,
            }
        }
    }

    /// Commits a command here and nowhere else, if this member leads in this term: what a leader has decided must not
    /// be carried to its successor, which has looked for itself.
    ///
    /// # Errors
    /// [`RaftError::NoLeader`] when it does not, or not any more; otherwise as [`Self::submit`].
    pub async fn submit_in(&self, term: u64, command: Command) -> Result<Committed, RaftError> {
        if *self.inner.leading.borrow() != Some(term) {
            return Err(RaftError::NoLeader);
        }
        match leader::write(&self.inner.core, &self.inner.peers.levels, Arc::new(command), WITHIN).await {
            Submitted::Committed { index, applied } => self.committed(index, *applied).await,
            Submitted::NotLeader => Err(RaftError::NoLeader),
            Submitted::Unknown => Err(RaftError::Timeout),
            Submitted::NotYet { needs, group } => Err(RaftError::NotYet { needs, group }),
        }
    }

    /// Looks at the applied state. The closure must be short: applying waits for it.
    pub fn read<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        self.inner.replica.look(|state, _| look(state))
    }

    /// Returns when this member has applied everything that was committed before the call (read index).
    ///
    /// # Errors
    /// [`RaftError`] when no leader confirms within 2 s.
    pub async fn linearize(&self) -> Result<(), RaftError> {
        self.catch_up(Freshness::ReadIndex).await
    }

    /// The same, confirmed in the way given.
    ///
    /// # Errors
    /// [`RaftError`] when no leader confirms within 2 s.
    pub async fn catch_up(&self, freshness: Freshness) -> Result<(), RaftError> {
        let deadline = Instant::now() + WITHIN;
        let mut recovered = self.inner.recovered.subscribe();
        let index = loop {
            match timeout_at(deadline, self.read_index(freshness)).await.map_err(|_| RaftError::NoLeader)?? {
                ReadIndex::From(index) => break index,
                ReadIndex::NotLeader => self.retry_until(deadline).await?,
            }
        };
        let caught_up = async {
            self.wait_applied(index).await;
            let _ = recovered.wait_for(|&recovered| recovered).await;
        };
        timeout_at(deadline, caught_up).await.map_err(|_| RaftError::NoLeader)
    }

    /// Index of the last applied entry, as it grows.
    #[must_use]
    pub fn applied(&self) -> watch::Receiver<u64> {
        self.inner.replica.applied()
    }

    /// The term in which this member leads, as it changes; none while it does not lead.
    #[must_use]
    pub fn leading(&self) -> watch::Receiver<Option<u64>> {
        self.inner.leading.subscribe()
    }

    /// Whether this member has applied up to a commit index that a leader told it since it started.
    #[must_use]
    pub fn recovered(&self) -> watch::Receiver<bool> {
        self.inner.recovered.subscribe()
    }

    /// What this member knows of its group.
    #[must_use]
    pub fn status(&self) -> Status {
        let metrics = self.metrics();
        let Standing { leader, role, stale_ms, recovered } = self.standing_of(&metrics);
        let identity = &self.inner.acquaintance.identity;
        Status {
            id: identity.member_id,
            group_id: identity.group_id.clone(),
            leader,
            role,
            term: metrics.current_term,
            committed: metrics.local_committed.map_or(0, |id| id.index),
            applied: self.inner.replica.look(|_, index| index),
            members: members(&metrics).map(|(id, node)| (id, node.addr.clone())).collect(),
            voters: metrics.membership_config.voter_ids().collect(),
            stale_ms,
            recovered,
        }
    }

    /// The part of the status that is looked at with every request.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing_of(&self.inner.core.metrics().borrow_watched())
    }

    fn standing_of(&self, metrics: &RaftMetrics<Types>) -> Standing {
        let leads = metrics.state == ServerState::Leader;
        Standing {
            leader: metrics.current_leader,
            role: match metrics.state {
                ServerState::Leader => "leader",
                ServerState::Candidate => "candidate",
                ServerState::Learner => "learner",
                ServerState::Follower | ServerState::Shutdown => "follower",
            },
            stale_ms: if leads { Some(self.unconfirmed_ms(metrics)) } else { self.inner.contact.ago().map(millis) },
            recovered: *self.inner.recovered.borrow(),
        }
    }

    /// Audit records with `after < seq`, ascending, at most `limit`.
    ///
    /// # Errors
    /// [`RaftError::Fatal`] when the store cannot be read.
    pub async fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditRecord>, RaftError> {
        self.inner.store.audit(after, limit).await.map_err(|error| RaftError::Fatal(error.to_string()))
    }

    /// SHA-256 (hex) of the applied state and the index it stands at: equal on members at the same index.
    ///
    /// # Panics
    /// When the state cannot be written as JSON: a defect.
    #[must_use]
    pub fn state_hash(&self) -> (u64, String) {
        self.inner.replica.state_hash()
    }

    /// Hands the lead to another member; does nothing when this one does not lead.
    ///
    /// # Errors
    /// [`RaftError::Fatal`] when raft has stopped.
    pub async fn transfer_leader(&self, to: MemberId) -> Result<(), RaftError> {
        self.inner.core.trigger().transfer_leader(to).await.map_err(|error| RaftError::Fatal(error.to_string()))
    }

    /// Stops: writes what is pending, closes the store.
    pub async fn shutdown(&self) {
        self.inner.stopping.store(true, Ordering::Release);
        for task in self.inner.tasks.lock().expect("held for a moment only").drain(..) {
            task.abort();
        }
        self.inner.leading.send_replace(None);
        if let Err(error) = self.inner.core.shutdown().await {
            tracing::warn!("raft ended badly: {error}");
        }
        self.inner.store.close().await;
    }

    /// A handle, with the tasks that follow raft started.
    pub(super) fn start(inner: Inner, first: First, on_fatal: FatalHook) -> Self {
        let raft = Self { inner: Arc::new(inner) };
        // The tasks hold what they need and not the handle: a handle dropped without shutdown does not live on in them.
        let (core, peers, id) = (raft.inner.core.clone(), raft.inner.peers.clone(), raft.id());
        let mut others = first.members.clone();
        others.extend(first.known);
        others.extend(members(&raft.metrics()).map(|(id, node)| (id, node.clone())));
        others.remove(&id);
        raft.spawn(greet(peers, core.clone(), Arc::clone(&raft.inner.replica), others));
        raft.spawn(begin(core.clone(), first.members));
        raft.spawn(membership::tend(core.clone(), raft.inner.turn.clone(), first.own_address));
        let replica = Arc::clone(&raft.inner.replica);
        raft.spawn(leave(id, replica, core.clone(), Arc::clone(&raft.inner.acquaintance)));
        raft.spawn(follow(Arc::downgrade(&raft.inner), core.clone(), on_fatal));
        let recovered = raft.inner.recovered.clone();
        raft.spawn(async move {
            if core.wait_for_recovery(None).await.is_ok() {
                recovered.send_replace(true);
            }
        });
        raft
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.lock().expect("held for a moment only").push(tokio::spawn(task));
    }

    async fn submit_once(&self, command: &Arc<Command>, deadline: Instant) -> Result<Submitted, RaftError> {
        let within = deadline - Instant::now();
        match self.leader()? {
            Some((id, _)) if id == self.id() => {
                Ok(leader::write(&self.inner.core, &self.inner.peers.levels, command.clone(), within).await)
            }
            Some((id, address)) => match self.inner.peers.forward((id, &address), "submit", command, within).await {
                Ok(answer) => Ok(answer),
                Err(PeerError::Connect(_) | PeerError::Refused { .. }) => Ok(Submitted::NotLeader),
                Err(PeerError::Unknown(why)) => {
                    tracing::warn!("no answer from leader {id} to a command: {why}");
                    Ok(Submitted::Unknown)
                }
            },
            None => Ok(Submitted::NotLeader),
        }
    }

    /// A read index of a round that begins after this call.
    async fn read_index(&self, freshness: Freshness) -> Result<ReadIndex, RaftError> {
        let raft = self.clone();
        let ask = move || {
            let raft = raft.clone();
            async move { raft.read_index_once(freshness).await }
        };
        self.inner.rounds[freshness as usize].next(ask).await
    }

    async fn read_index_once(&self, freshness: Freshness) -> Result<ReadIndex, RaftError> {
        match self.leader()? {
            Some((id, _)) if id == self.id() => Ok(leader::read_index(&self.inner.core, freshness, ROUND_WITHIN).await),
            Some((id, address)) => {
                let answer = self.inner.peers.forward((id, &address), "read-index", &freshness, ROUND_WITHIN).await;
                Ok(answer.unwrap_or(ReadIndex::NotLeader))
            }
            None => Ok(ReadIndex::NotLeader),
        }
    }

    /// The leader and its peer address.
    pub(super) fn leader(&self) -> Result<Option<(MemberId, String)>, RaftError> {
        // Borrowed for a moment only: see `metrics`. A copy is a dozen allocations, and this is asked with every write.
        let metrics = self.inner.core.metrics();
        let metrics = metrics.borrow_watched();
        if let Err(error) = &metrics.running_state {
            return Err(RaftError::Fatal(error.to_string()));
        }
        let found = metrics.current_leader.and_then(|leader| members(&metrics).find(|(id, _)| *id == leader));
        Ok(found.map(|(id, node)| (id, node.addr.clone())))
    }

    pub(super) async fn retry_until(&self, deadline: Instant) -> Result<(), RaftError> {
        if Instant::now() + RETRY >= deadline {
            return Err(RaftError::NoLeader);
        }
        sleep(RETRY).await;
        Ok(())
    }

    /// The answer to a command that is committed, once this member has it too: whoever is answered may look here next.
    /// One that is behind for long does not know it yet, and asking again finds the answer.
    async fn committed(&self, index: u64, applied: Applied) -> Result<Committed, RaftError> {
        let caught_up = timeout_at(Instant::now() + WITHIN, self.wait_applied(index)).await;
        caught_up.map(|()| Committed { index, applied }).map_err(|_| RaftError::Timeout)
    }

    async fn wait_applied(&self, index: u64) {
        // The sender lives as long as this handle.
        let _ = self.applied().wait_for(|&applied| applied >= index).await;
    }

    /// A copy: while the watched value is borrowed, raft waits.
    pub(super) fn metrics(&self) -> RaftMetrics<Types> {
        self.inner.core.metrics().borrow_watched().clone()
    }

    pub(super) fn id(&self) -> MemberId {
        self.inner.acquaintance.identity.member_id
    }

    /// How long a leader has gone without a majority, beyond its lease.
    fn unconfirmed_ms(&self, metrics: &RaftMetrics<Types>) -> u64 {
        if members(metrics).count() == 1 {
            return 0;
        }
        let lease = Duration::from_millis(self.inner.core.config().election_timeout_max);
        let ago = metrics.last_quorum_acked.as_ref().map(|acked| (**acked).elapsed());
        ago.filter(|&ago| ago > lease).map_or(0, millis)
    }
}

pub(super) fn members(metrics: &RaftMetrics<Types>) -> impl Iterator<Item = (MemberId, &BasicNode)> {
    metrics.membership_config.membership().nodes().map(|(id, node)| (*id, node))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Tells whether this member leads, and ends the process when raft has ended by itself.
async fn follow(weak: std::sync::Weak<Inner>, core: Core, on_fatal: FatalHook) {
    let mut metrics = core.metrics();
    loop {
        let (leads, running) = {
            let now = metrics.borrow_watched();
            let leads = now.state == ServerState::Leader && now.current_leader == Some(now.id);
            (leads.then_some(now.current_term), now.running_state.clone())
        };
        let Some(inner) = weak.upgrade() else { return };
        inner.leading.send_if_modified(|leading| std::mem::replace(leading, leads) != leads);
        if let Err(error) = running {
            inner.leading.send_replace(None);
            if !inner.stopping.load(Ordering::Acquire) {
                on_fatal.call(&error.to_string());
            }
            return;
        }
        drop(inner);
        if metrics.changed().await.is_err() {
            // A core that panicked says nothing: its end is all there is to see. Who lives on behind it only looks alive.
            if let Some(inner) = weak.upgrade().filter(|inner| !inner.stopping.load(Ordering::Acquire)) {
                inner.leading.send_replace(None);
                on_fatal.call("raft has ended without a word; the lines before this one say why");
            }
            return;
        }
    }
}
