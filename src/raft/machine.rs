//! The applied half of a member: the replicated state in memory, fed by openraft, and its snapshots.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

use futures::{Stream, TryStreamExt};
use openraft::entry::RaftPayload;
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use tokio::sync::watch;

use super::FatalHook;
use super::archive::Archive;
use super::store::Store;
use super::types::{Entry, LogId, Response, Snapshot, SnapshotMeta, StoredMembership, Types};
use crate::state::{Applied, State};

/// The applied state, shared by the state machine, which changes it, and the handles, which read it.
pub(super) struct Replica {
    held: RwLock<Held>,
    applied: watch::Sender<u64>,
    /// The last hash that was asked for, and the index it is of.
    hash: Mutex<Option<(u64, String)>>,
}

struct Held {
    state: State,
    last: Option<LogId>,
    membership: StoredMembership,
}

impl Replica {
    /// The state as a snapshot left it, or empty.
    pub(super) fn new(snapshot: Option<&(SnapshotMeta, State)>) -> Self {
        let (meta, state) = snapshot.cloned().unwrap_or_default();
        let applied = meta.last_log_id.map_or(0, |id| id.index);
        let held = Held { state, last: meta.last_log_id, membership: meta.last_membership };
        Self { held: RwLock::new(held), applied: watch::Sender::new(applied), hash: Mutex::new(None) }
    }

    /// Looks at the state and the index it stands at.
    pub(super) fn look<R>(&self, look: impl FnOnce(&State, u64) -> R) -> R {
        let held = self.held();
        look(&held.state, held.last.map_or(0, |id| id.index))
    }

    /// The state and where it stands. Cheap: clusters are shared.
    pub(super) fn snapshot(&self) -> (SnapshotMeta, State) {
        let held = self.held();
        let meta = SnapshotMeta { last_log_id: held.last, last_membership: held.membership.clone() };
        (meta, held.state.clone())
    }

    /// The hash of the state and the index it stands at. Computed once for an index, however many ask, and while the
    /// state goes on: it takes long where the state is large.
    pub(super) fn state_hash(&self) -> (u64, String) {
        let mut kept = self.hash.lock().expect("hashing a state does not fail");
        let (state, index) = self.look(|state, index| (state.clone(), index));
        match &*kept {
            Some((at, hash)) if *at == index => (index, hash.clone()),
            _ => kept.insert((index, state.hash())).clone(),
        }
    }

    /// Index of the last applied entry, as it grows.
    pub(super) fn applied(&self) -> watch::Receiver<u64> {
        self.applied.subscribe()
    }

    fn held(&self) -> RwLockReadGuard<'_, Held> {
        self.held.read().expect("a command broke an invariant of the state; this member is ending")
    }

    fn apply(&self, entry: &Entry) -> Option<Applied> {
        let mut held = self.held.write().expect("applying ends after a broken invariant");
        let applied = match &entry.payload {
            EntryPayload::Blank => None,
            EntryPayload::Normal(request) => Some(held.state.apply(&request.0)),
            EntryPayload::Membership(_) => {
                held.membership = StoredMembership::new(Some(entry.log_id), entry.payload.get_membership()?);
                None
            }
        };
        held.last = Some(entry.log_id);
        drop(held);
        self.applied.send_replace(entry.log_id.index);
        applied
    }

    fn replace(&self, meta: &SnapshotMeta, state: State) {
        let mut held = self.held.write().expect("applying ends after a broken invariant");
        *held = Held { state, last: meta.last_log_id, membership: meta.last_membership.clone() };
        drop(held);
        self.applied.send_replace(meta.last_log_id.map_or(0, |id| id.index));
    }
}

/// What a snapshot holds.
#[derive(Clone, Debug)]
pub(super) struct SnapshotContent {
    /// The state.
    pub(super) state: State,
    /// What it was received as when it comes from another member; none for this member's own.
    pub(super) received: Option<Received>,
}

/// A snapshot from another member, checked: state and audit records.
#[derive(Clone, Debug)]
pub(super) struct Received {
    pub(super) archive: Arc<Archive>,
    /// The durable file that it is in.
    pub(super) path: PathBuf,
}

/// openraft's state machine.
pub(super) struct Machine {
    replica: Arc<Replica>,
    store: Store,
    current: Arc<Mutex<Option<(SnapshotMeta, State)>>>,
    on_fatal: FatalHook,
}

impl Machine {
    /// A state machine that goes on from a snapshot of the store.
    pub(super) fn new(
        replica: Arc<Replica>,
        store: Store,
        snapshot: Option<(SnapshotMeta, State)>,
        on_fatal: FatalHook,
    ) -> Self {
        Self { replica, store, current: Arc::new(Mutex::new(snapshot)), on_fatal }
    }

    /// The state and where it stands.
    pub(super) fn snapshot(&self) -> (SnapshotMeta, State) {
        self.replica.snapshot()
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = SnapshotContent;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let held = self.replica.held();
        Ok((held.last, held.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let Ok(mut applied) = catch_unwind(AssertUnwindSafe(|| self.replica.apply(&entry))) else {
                let reason = format!("applying log entry {} broke an invariant of the state", entry.log_id.index);
                self.on_fatal.call(&reason);
                return Err(io::Error::other(reason));
            };
            // Before anybody is told: who was answered finds the record.
            self.store.add_audit(applied.as_mut().and_then(|applied| applied.audit.take()))?;
            if let Some(responder) = responder {
                responder.send(Response(applied));
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let (meta, state) = self.replica.snapshot();
        Builder { store: self.store.clone(), meta, state, current: Arc::clone(&self.current) }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, content: SnapshotContent) -> io::Result<()> {
        let SnapshotContent { state, received } = content;
        match received {
            Some(Received { archive, path }) => self.store.adopt_snapshot(archive, path).await?,
            None => self.store.save_snapshot(meta.clone(), state.clone()).await?,
        }
        self.replica.replace(meta, state.clone());
        *self.current.lock().expect("held for a moment only") = Some((meta.clone(), state));
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let current = self.current.lock().expect("held for a moment only").clone();
        Ok(current.map(|(meta, state)| Snapshot { meta, snapshot: SnapshotContent { state, received: None } }))
    }
}

/// Writes one snapshot while the state machine goes on.
pub(super) struct Builder {
    store: Store,
    meta: SnapshotMeta,
    state: State,
    current: Arc<Mutex<Option<(SnapshotMeta, State)>>>,
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = SnapshotContent;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let (meta, state) = (self.meta.clone(), self.state.clone());
        self.store.save_snapshot(meta.clone(), state.clone()).await?;
        {
            let mut current = self.current.lock().expect("held for a moment only");
            // One from the leader may have come in between.
            if current.as_ref().is_none_or(|(held, _)| held.last_log_id <= meta.last_log_id) {
                *current = Some((meta.clone(), state.clone()));
            }
        }
        Ok(Snapshot { meta, snapshot: SnapshotContent { state, received: None } })
    }
}
