//! From a configuration to a running member.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use openraft::storage::RaftLogStorage as _;
use openraft::{BasicNode, SnapshotPolicy};
use sha2::{Digest, Sha256};

use super::acquaintance::Acquaintance;
use super::begin::First;
use super::errand::Errands;
use super::handle::Inner;
use super::identity;
use super::level::Levels;
use super::machine::{Machine, Replica};
use super::membership::Turn;
use super::network::Peers;
use super::purge;
use super::rpc;
use super::runtime::random_bits;
use super::store::{Disk, Identity, Loaded, Store};
use super::transport::{Http, Transport};
use super::types::{Core, SnapshotMeta};
use super::{FatalHook, Raft};
use crate::domain::{MemberId, hex};
use crate::state::{COMMAND_VERSION, State};

/// How a member is started.
#[derive(Clone)]
pub struct Config {
    /// Where its store is; one process at a time.
    pub data_dir: PathBuf,
    /// Its id. Without one: the id that `initial_members` gives its address, or 1 when that is empty.
    pub member_id: Option<MemberId>,
    /// The members of a new group with the `host:port` of their peer listeners; the same on each of them. Empty: a
    /// group of this member alone.
    pub initial_members: BTreeMap<MemberId, String>,
    /// `host:port` at which the others reach this member's peer listener.
    pub peer_address: String,
    /// What a member that joins a group was told; not looked at once there is a store.
    pub join: Option<Join>,
    /// The newest commands that this version understands. Only tests, which play a member of a version to come, set
    /// another than [`COMMAND_VERSION`].
    pub level: u16,
    /// Timing and snapshots.
    pub tuning: Tuning,
    /// Called, once, when this member cannot go on: the store cannot be written, an invariant is broken.
    pub on_fatal: FatalHook,
}

/// What a process is told that joins a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// The group.
    pub group_id: String,
    /// The number that was made for it.
    pub member_id: MemberId,
    /// The members with their peer addresses.
    pub members: BTreeMap<MemberId, String>,
}

/// Timing and snapshots; see `docs/decisions` for how the values were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// How often the leader says that it is there. A follower's fsync must fit into 3/4 of it.
    pub heartbeat_ms: u64,
    /// Shortest silence after which a follower stands for election.
    pub election_min_ms: u64,
    /// Longest such silence.
    pub election_max_ms: u64,
    /// Entries between snapshots.
    pub snapshot_every: u64,
    /// Entries kept although a snapshot has them, for followers that are not far behind.
    pub entries_kept: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            heartbeat_ms: 100,
            election_min_ms: 300,
            election_max_ms: 600,
            snapshot_every: 10_000,
            entries_kept: 10_000,
        }
    }
}

impl Tuning {
    /// For members on one fast network with fast disks: a new leader in half the time.
    #[must_use]
    pub fn fast_lan() -> Self {
        Self { heartbeat_ms: 50, election_min_ms: 150, election_max_ms: 300, ..Self::default() }
    }
}

impl Config {
    /// A group of one member with its store in a directory; a fatal error ends the process with exit code 10.
    #[must_use]
    pub fn new(data_dir: &Path, peer_address: &str) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            member_id: None,
            initial_members: BTreeMap::new(),
            join: None,
            peer_address: peer_address.to_owned(),
            level: COMMAND_VERSION,
            tuning: Tuning::default(),
            on_fatal: FatalHook::exit(),
        }
    }

    fn member_id(&self) -> Result<MemberId, OpenError> {
        if let Some(join) = &self.join {
            return Ok(join.member_id);
        }
        let listed = self.initial_members.iter().find(|(_, address)| **address == self.peer_address);
        let id = match (self.member_id, listed) {
            (Some(id), Some((&listed, _))) if id != listed => {
                let address = &self.peer_address;
                return Err(OpenError::Config(format!(
                    "{address} is member {listed} of the initial members, not {id}"
                )));
            }
            (Some(id), _) => id,
            (None, Some((&listed, _))) => listed,
            (None, None) if self.initial_members.is_empty() => 1,
            (None, None) => {
                let address = &self.peer_address;
                return Err(OpenError::Config(format!(
                    "the peer address {address} is not among the initial members, and no member id is given"
                )));
            }
        };
        if !self.initial_members.is_empty() && !self.initial_members.contains_key(&id) {
            return Err(OpenError::Config(format!("member {id} is not among the initial members")));
        }
        Ok(id)
    }

    /// What to begin with: a member that joins, or has joined, makes no group of its own.
    fn first(&self, identity: &Identity) -> First {
        let join = self.join.iter().flat_map(|join| &join.members);
        First {
            members: if identity.joined { BTreeMap::new() } else { self.first_members(identity.member_id) },
            known: join.map(|(id, address)| (*id, BasicNode::new(address))).collect(),
            own_address: Some(self.peer_address.clone())
                .filter(|_| !identity.joined && self.initial_members.is_empty()),
        }
    }

    /// The members that a new group starts with.
    fn first_members(&self, id: MemberId) -> BTreeMap<MemberId, BasicNode> {
        if self.initial_members.is_empty() {
            return BTreeMap::from([(id, BasicNode::new(&self.peer_address))]);
        }
        self.initial_members.iter().map(|(&id, address)| (id, BasicNode::new(address))).collect()
    }

    /// Identity of a new group. Members that start apart must come to the same one without talking, so it is made of
    /// the list they share: two groups started with one list would not be told apart by it, but are by the
    /// incarnations of their members. A group of one has nobody to agree with and takes a random one.
    fn new_group_id(&self) -> String {
        if self.initial_members.is_empty() {
            return random_id();
        }
        let list: Vec<String> = self.initial_members.iter().map(|(id, address)| format!("{id}={address}")).collect();
        hex(&Sha256::digest(list.join("\n"))[..16])
    }

    fn core(&self) -> Result<openraft::Config, OpenError> {
        let tuning = &self.tuning;
        let config = openraft::Config {
            cluster_name: "slotkeeper".to_owned(),
            heartbeat_interval: tuning.heartbeat_ms,
            election_timeout_min: tuning.election_min_ms,
            election_timeout_max: tuning.election_max_ms,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(tuning.snapshot_every),
            // `purge` says what goes, and when.
            max_in_snapshot_log_to_keep: u64::MAX,
            replication_lag_threshold: 2 * tuning.snapshot_every,
            max_payload_entries: 512,
            install_snapshot_timeout: 10_000,
            enable_pre_vote: Some(true),
            // A leader that goes on leading after a restart would answer reads before it has its state back.
            enable_leader_restore: Some(false),
            // At least the lease and one election: less can deadlock five members in a partial partition.
            quorum_loss_probe_interval: Some(1300.max(2 * tuning.election_max_ms + tuning.heartbeat_ms)),
            backoff: "50ms 100ms 200ms ...500ms".to_owned(),
            ..openraft::Config::default()
        };
        config.validate().map_err(|error| OpenError::Config(error.to_string()))
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("data_dir", &self.data_dir)
            .field("member_id", &self.member_id)
            .field("initial_members", &self.initial_members)
            .field("peer_address", &self.peer_address)
            .field("tuning", &self.tuning)
            .finish_non_exhaustive()
    }
}

/// Why a member does not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration contradicts itself.
    #[error("{0}")]
    Config(String),
    /// The data directory cannot be used.
    #[error("data directory {}: {source}", path.display())]
    Directory {
        /// The directory or a file in it.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Another process uses the data directory.
    #[error("data directory {} is in use by another process", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// A newer version wrote the store.
    #[error("{} has schema version {found}; this version knows up to {known}", path.display())]
    NewerSchema {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest known.
        known: usize,
    },
    /// The store is of another member or group.
    #[error("the store in {} is of {stored}, not of {configured}", path.display())]
    OtherIdentity {
        /// The data directory.
        path: PathBuf,
        /// Whose it is.
        stored: String,
        /// Whose it should be.
        configured: String,
    },
    /// Something in the store is not as it was written.
    #[error("{}, {place}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// The group will not hear of this store again.
    #[error("{} is not to be used any more: {why}", path.display())]
    Refused {
        /// The database.
        path: PathBuf,
        /// Who refused it, and why.
        why: String,
    },
    /// raft refused what the store holds, or did not start.
    #[error("raft does not start: {0}")]
    Start(String),
}

impl OpenError {
    /// The exit code of a process that ends with it: 2 for what a configuration can mend, 10 for a bad store.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Directory { .. } | Self::Locked { .. } => 2,
            Self::NewerSchema { .. }
            | Self::OtherIdentity { .. }
            | Self::Damaged { .. }
            | Self::Refused { .. }
            | Self::Start(_) => 10,
        }
    }

    pub(super) fn damaged(path: &Path, place: &str, why: &dyn fmt::Display) -> Self {
        Self::Damaged { path: path.to_owned(), place: place.to_owned(), why: why.to_string() }
    }

    pub(super) fn sqlite(path: &Path, error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        match error.sqlite_error_code() {
            Some(Code::CannotOpen | Code::ReadOnly | Code::PermissionDenied | Code::DiskFull) => {
                Self::Directory { path: path.to_owned(), source: std::io::Error::other(error) }
            }
            _ => Self::damaged(path, "the database file", &error),
        }
    }
}

impl Raft {
    /// Opens the store and starts the member. Returns the handle and the routes of its peer listener, which the caller
    /// serves at the peer address. The order is free: this returns before there is a leader, and a member of several
    /// finds the others, or is found, once both listeners are there.
    ///
    /// # Errors
    /// [`OpenError`]; nothing runs then.
    pub async fn open(config: Config) -> Result<(Self, Router), OpenError> {
        let id = config.member_id()?;
        let core_config = Arc::new(config.core()?);
        let (dir, hook) = (config.data_dir.clone(), config.on_fatal.clone());
        let (store, loaded) = tokio::task::spawn_blocking(move || Store::open(&dir, hook))
            .await
            .map_err(|error| OpenError::Start(error.to_string()))??;
        let marked = Some(config.data_dir.clone());
        let (kept, transport) = (store.clone(), Arc::new(Http::new()));
        let started = Self::with_store(config, id, core_config, store, loaded, transport, marked).await;
        if started.is_err() {
            kept.close().await;
        }
        started
    }

    /// The same on a simulated disk and network; the data directory is not used.
    ///
    /// # Errors
    /// [`OpenError`]; nothing runs then.
    pub async fn open_simulated(
        config: Config,
        disk: Disk,
        transport: Arc<dyn Transport>,
    ) -> Result<(Self, Router), OpenError> {
        let id = config.member_id()?;
        let core_config = Arc::new(config.core()?);
        let (store, loaded) = Store::simulated(disk, config.on_fatal.clone())?;
        Self::with_store(config, id, core_config, store, loaded, transport, None).await
    }

    async fn with_store(
        config: Config,
        id: MemberId,
        core_config: Arc<openraft::Config>,
        store: Store,
        loaded: Loaded,
        transport: Arc<dyn Transport>,
        marked: Option<PathBuf>,
    ) -> Result<(Self, Router), OpenError> {
        let Loaded { identity, starts, refusal, peers, snapshot, .. } = loaded;
        let path = config.data_dir.join(super::store::DATABASE);
        if let Some(why) = refusal {
            return Err(OpenError::Refused { path, why });
        }
        if let Some(dir) = &marked {
            identity::check_marker(dir, &path, identity.as_ref(), &starts)?;
        }
        let identity = match identity {
            Some(stored) => check_identity(&config, id, stored)?,
            None => new_identity(&config, id, &store).await?,
        };
        let starts = starts.and(random_id()[..8].to_owned());
        let unwritable = |source| OpenError::Directory { path: config.data_dir.clone(), source };
        store.save_starts(&starts).await.map_err(unwritable)?;
        if let Some(dir) = &marked {
            identity::write_marker(dir, &identity, &starts)?;
        }
        let id = identity.member_id;
        let first = config.first(&identity);
        let replica = Arc::new(Replica::new(snapshot.as_ref()));
        let on_fatal = config.on_fatal.clone();
        let at_start = last_index(&store, snapshot.as_ref()).await;
        let acquaintance = Acquaintance::new(identity, &starts, at_start, store.clone(), peers, on_fatal);
        let acquaintance = Arc::new(acquaintance);
        let levels = Arc::new(Levels::new(config.level));
        let network = Peers::new(Arc::clone(&acquaintance), levels, transport);
        let machine = Machine::new(Arc::clone(&replica), store.clone(), snapshot, config.on_fatal.clone());
        let core = Core::new(id, core_config, network.clone(), store.clone(), machine)
            .await
            .map_err(|error| OpenError::Start(error.to_string()))?;
        let member = rpc::Member {
            core: core.clone(),
            acquaintance,
            contact: Arc::default(),
            peers: network.clone(),
            replica,
            turn: Turn::default(),
            errands: Errands::default(),
        };
        let purging = purge::tend(core, Arc::clone(&network.outgoing), config.tuning.entries_kept);
        let raft = Self::start(Inner::new(store, member.clone()), first, config.on_fatal);
        raft.spawn(purging);
        Ok((raft, rpc::router(member)))
    }
}

/// Index of the last entry that a store has, in its log or in its snapshot.
async fn last_index(store: &Store, snapshot: Option<&(SnapshotMeta, State)>) -> u64 {
    let log = store.clone().get_log_state().await.ok().and_then(|log| log.last_log_id);
    let ends = [log, snapshot.and_then(|(meta, _)| meta.last_log_id)];
    ends.into_iter().flatten().map(|id| id.index).max().unwrap_or(0)
}

fn check_identity(config: &Config, id: MemberId, stored: Identity) -> Result<Identity, OpenError> {
    let other = |stored: String, configured: String| {
        Err(OpenError::OtherIdentity { path: config.data_dir.clone(), stored, configured })
    };
    let told = config.member_id.is_some() || !config.initial_members.is_empty();
    if told && stored.member_id != id {
        return other(format!("member {}", stored.member_id), format!("member {id}"));
    }
    let group = config.new_group_id();
    if !config.initial_members.is_empty() && !stored.made && stored.group_id != group {
        return other(format!("group {}", stored.group_id), format!("group {group}, which these initial members make"));
    }
    Ok(stored)
}

async fn new_identity(config: &Config, id: MemberId, store: &Store) -> Result<Identity, OpenError> {
    let group_id = config.join.as_ref().map_or_else(|| config.new_group_id(), |join| join.group_id.clone());
    let joined = config.join.is_some();
    let identity = Identity { member_id: id, group_id, incarnation: random_id(), joined, made: false };
    store
        .save_identity(&identity)
        .await
        .map_err(|source| OpenError::Directory { path: config.data_dir.clone(), source })?;
    Ok(identity)
}

pub(super) fn random_id() -> String {
    hex(&random_bits())
}
