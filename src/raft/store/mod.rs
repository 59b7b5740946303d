//! The durable half of a member: one SQLite file for log, vote and audit, and snapshots in files beside it. The log is kept in memory as
//! well, so that an entry can be read as soon as it is appended; it is short, because snapshots purge it.

mod offline;
mod outgoing;
mod queue;
mod schema;
mod simulated;
mod snapshots;
mod verify;
mod wal;
mod writer;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogReader, RaftLogStorage};
use openraft::{LogState, OptionalSend};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

pub(super) use offline::{Offline, begin_anew};
use queue::{Queue, Way};
pub(super) use schema::DATABASE;
pub use simulated::Disk;
pub(super) use verify::{Identity, Loaded};
use writer::{Deferred, Job, Sweep, Writer, signed};

use super::archive::Archive;
use super::identity::Starts;
use super::patience::Pause;
use super::runtime::off_thread;
use super::types::{Entry, LogId, SnapshotMeta, Types, Vote};
use super::{FatalHook, OpenError, codec};
use crate::domain::MemberId;
use crate::state::{AuditRecord, State};

/// Most bytes of entries sent to a follower in one request; one entry is sent whatever its size.
const REPLICATION_MAX_BYTES: usize = 4 << 20;

/// A handle to the store. The writer behind it ends when the last handle is gone, or with [`Store::close`].
#[derive(Clone)]
pub(super) struct Store {
    log: Arc<Mutex<Log>>,
    jobs: Arc<Queue>,
    dir: Arc<Path>,
    /// The group that snapshots are marked with; held while one is written.
    snapshots: Arc<Mutex<String>>,
    on_fatal: FatalHook,
    /// After a vote that took long to write.
    pub(super) pause: Arc<Pause>,
}

/// The log as it will be on the disk when the queue is written.
#[derive(Default)]
struct Log {
    entries: BTreeMap<u64, (Entry, usize)>,
    purged: Option<LogId>,
    vote: Option<Vote>,
    committed: Option<LogId>,
}

impl Store {
    /// Opens a store, or makes one, with everything in it checked.
    ///
    /// # Errors
    /// [`OpenError`] naming the place.
    pub(super) fn open(dir: &Path, on_fatal: FatalHook) -> Result<(Self, Loaded), OpenError> {
        let (writer, loaded) = Self::prepare(dir, on_fatal, schema::Sync::Full)?;
        let on_fatal = writer.on_fatal.clone();
        let (jobs, queue) = channel();
        std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || writer.run(&queue))
            .map_err(|source| OpenError::Directory { path: dir.to_owned(), source })?;
        Ok(Self::of(dir, Way::Thread(jobs), on_fatal, loaded))
    }

    /// Opens a store on a simulated disk: the same files, written by a task and synced as the disk says.
    ///
    /// # Errors
    /// [`OpenError`] naming the place.
    pub(super) fn simulated(disk: Disk, on_fatal: FatalHook) -> Result<(Self, Loaded), OpenError> {
        let dir = disk.dir().to_owned();
        let (writer, loaded) = Self::prepare(&dir, on_fatal, schema::Sync::Off)?;
        let on_fatal = writer.on_fatal.clone();
        let (jobs, queue) = mpsc::unbounded_channel();
        tokio::spawn(disk.write(writer, queue));
        Ok(Self::of(&dir, Way::Task(jobs), on_fatal, loaded))
    }

    fn prepare(dir: &Path, on_fatal: FatalHook, sync: schema::Sync) -> Result<(Writer, Loaded), OpenError> {
        let lock = schema::lock_directory(dir)?;
        wal::check_wal(&schema::wal_path(dir))?;
        let mut connection = schema::open_database(dir, sync)?;
        let path = dir.join(schema::DATABASE);
        let loaded = verify::load(&mut connection, dir, &path)?;
        // Frames left of a torn tail must not be taken for lost commits next time.
        connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(|source| OpenError::sqlite(&path, source))?;
        let log_before = loaded.purged.as_ref().map(|id| signed(id.index + 1));
        let sweep = Sweep { log_before, audit_before: None };
        Ok((Writer { connection, on_fatal, sweep, deferred: Deferred::default(), lock }, loaded))
    }

    fn of(dir: &Path, way: Way, on_fatal: FatalHook, mut loaded: Loaded) -> (Self, Loaded) {
        let log = Log {
            entries: std::mem::take(&mut loaded.entries),
            purged: loaded.purged,
            vote: loaded.vote,
            committed: loaded.committed,
        };
        let group_id = loaded.identity.as_ref().map(|identity| identity.group_id.clone()).unwrap_or_default();
        let snapshots = Arc::new(Mutex::new(group_id));
        let (log, pause) = (Arc::new(Mutex::new(log)), Arc::default());
        let jobs = Arc::new(Queue::new(way));
        (Self { log, jobs, dir: dir.into(), snapshots, on_fatal, pause }, loaded)
    }

    /// Makes whose store this is durable.
    pub(super) async fn save_identity(&self, identity: &Identity) -> io::Result<()> {
        identity.group_id.clone_into(&mut self.snapshots.lock().unwrap_or_else(PoisonError::into_inner));
        self.save("identity", writer::text_of(identity)?).await
    }

    /// Makes the starts of this store durable.
    pub(super) async fn save_starts(&self, starts: &Starts) -> io::Result<()> {
        self.save("starts", writer::text_of(starts)?).await
    }

    /// Makes durable that the group refuses this store, and why.
    pub(super) async fn save_refusal(&self, why: &str) -> io::Result<()> {
        self.save("refusal", writer::text_of(&why)?).await
    }

    /// Makes the known incarnations of the other members durable.
    pub(super) async fn save_peers(&self, peers: &BTreeMap<MemberId, String>) -> io::Result<()> {
        self.save("peers", writer::text_of(peers)?).await
    }

    /// Makes everything durable that was given to it so far.
    pub(super) async fn flush(&self) -> io::Result<()> {
        self.durable(Job::Flush).await
    }

    /// Queues the audit record of an applied entry.
    pub(super) fn add_audit(&self, record: Option<AuditRecord>) -> io::Result<()> {
        record.map_or(Ok(()), |record| self.send(Job::Audit(vec![record])))
    }

    /// Makes the applied state durable as the newest snapshot, and before it every audit record queued so far.
    pub(super) async fn save_snapshot(&self, meta: SnapshotMeta, state: State) -> io::Result<()> {
        self.durable(Job::Flush).await?;
        let saved = self.in_files(move |dir, group_id| snapshots::save(dir, group_id, &meta, &state)).await?;
        self.send(Job::AuditFrom(saved.audit_from))
    }

    /// Makes a snapshot from another member the only one: the file that it was received in, and its audit records. A
    /// start after a crash in between takes the records over from the file.
    pub(super) async fn adopt_snapshot(&self, archive: Arc<Archive>, received: PathBuf) -> io::Result<()> {
        self.in_files(move |dir, _| snapshots::adopt(dir, &received)).await?;
        self.durable(|done| Job::TakeOver { archive, done }).await
    }

    /// Where a snapshot that is being received is kept.
    pub(super) fn incoming_path(&self) -> PathBuf {
        self.dir.join(snapshots::INCOMING)
    }

    /// A snapshot with the audit records that belong to it, in a file without a name.
    pub(super) async fn archive(&self, meta: SnapshotMeta, state: State) -> io::Result<Archive> {
        self.durable(Job::Flush).await?;
        let (dir, group_id) = (Arc::clone(&self.dir), self.group_id());
        blocking(move || outgoing::archive(&dir, &group_id, &meta, &state)).await
    }

    fn group_id(&self) -> String {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does one thing with the snapshot files. What fails is not tried again: see `writer`.
    async fn in_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path, &str) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (dir, snapshots) = (Arc::clone(&self.dir), Arc::clone(&self.snapshots));
        let done = blocking(move || work(&dir, &snapshots.lock().unwrap_or_else(PoisonError::into_inner))).await;
        done.inspect_err(|error| self.on_fatal.call(&format!("a snapshot cannot be written: {error}")))
    }

    /// Audit records with `after < seq`, ascending, at most `limit`.
    pub(super) async fn audit(&self, after: u64, limit: usize) -> io::Result<Vec<AuditRecord>> {
        self.durable(Job::Flush).await?;
        let dir = Arc::clone(&self.dir);
        blocking(move || read_audit(&dir, after, limit)).await
    }

    /// Writes what is queued, closes the file and frees the directory; later writes fail.
    pub(super) async fn close(&self) {
        if let Err(error) = self.durable(Job::Close).await {
            tracing::warn!("the store was closed without its last writes: {error}");
        }
    }

    async fn save(&self, key: &'static str, text: String) -> io::Result<()> {
        self.durable(|done| Job::Meta { key, text, done }).await
    }

    async fn durable(&self, job: impl FnOnce(writer::Done) -> Job) -> io::Result<()> {
        let (done, written) = oneshot::channel();
        self.send(job(done))?;
        written.await.map_err(|_| io::Error::other("the store is closed"))?
    }

    fn send(&self, job: Job) -> io::Result<()> {
        self.jobs.send(job)
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("nothing panics while it holds the log")
    }
}

/// Does something that waits for the disk away from the threads that must not.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    off_thread(work).await?
}

fn read_audit(dir: &Path, after: u64, limit: usize) -> io::Result<Vec<AuditRecord>> {
    let read = || {
        let connection = schema::open_reader(dir)?;
        let mut statement = connection.prepare("SELECT record FROM raft_audit WHERE seq > ? ORDER BY seq LIMIT ?")?;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map([after, limit], |row| row.get::<_, String>(0))?;
        rows.collect::<rusqlite::Result<Vec<_>>>()
    };
    let rows = read().map_err(io::Error::other)?;
    rows.iter().map(|text| serde_json::from_str(text).map_err(io::Error::other)).collect()
}

impl RaftLogReader<Types> for Store {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        Ok(self.lock().entries.range(range).map(|(_, (entry, _))| entry.clone()).collect())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        let mut bytes = 0;
        let within = |size: usize| {
            let first = bytes == 0;
            bytes += size;
            first || bytes <= REPLICATION_MAX_BYTES
        };
        let log = self.lock();
        let sizes = log.entries.range(start..end).map(|(_, (_, size))| *size);
        let count = sizes.map(within).take_while(|&fits| fits).count();
        Ok(log.entries.range(start..end).take(count).map(|(_, (entry, _))| entry.clone()).collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.lock().vote)
    }
}

impl RaftLogStorage<Types> for Store {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let log = self.lock();
        let last = log.entries.last_key_value().map(|(_, (entry, _))| entry.log_id());
        Ok(LogState { last_purged_log_id: log.purged, last_log_id: last.or(log.purged) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.lock().vote = Some(*vote);
        let began = Instant::now();
        self.save("vote", writer::text_of(vote)?).await?;
        self.pause.after(began.elapsed());
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        self.lock().committed = committed;
        self.send(Job::Committed { text: writer::text_of(&committed)? })
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, flushed: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut rows = Vec::new();
        let mut kept = Vec::new();
        for entry in entries {
            let text = codec::encode_entry(&entry).map_err(io::Error::other)?;
            kept.push((entry.index(), (entry, text.len())));
            rows.push((kept.last().expect("just pushed").0, text));
        }
        self.lock().entries.extend(kept);
        self.send(Job::Append { rows, flushed })
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let after = last.map(|id| id.index);
        self.lock().entries.split_off(&after.map_or(0, |index| index + 1));
        self.send(Job::Truncate { after })
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        {
            let mut log = self.lock();
            log.entries = log.entries.split_off(&(upto.index + 1));
            log.purged = Some(upto);
        }
        self.send(Job::Purge { upto })
    }
}
