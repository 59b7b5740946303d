//! The newest topology of a cluster, kept up to date in the background.
//!
//! A task long-polls one endpoint after another. Readers take the map as it is, without waiting: a controller that is
//! away changes nothing for them. The map never goes back; which map replaces which is in `held`.

mod follow;
mod held;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{Client, ClientError, Cluster, Routes};
use crate::domain::{ClusterName, Node, Version};

pub use held::CacheError;
use held::{Held, Offer};

/// Shortest time between two refreshes.
const REFRESH_EVERY: Duration = Duration::from_millis(200);

/// The newest topology of one cluster. Cheap to clone; the background task ends with the last clone.
#[derive(Clone, Debug)]
pub struct TopologyCache {
    shared: Arc<Shared>,
    _task: Arc<Task>,
}

/// How a cache follows its cluster.
#[derive(Clone, Copy, Debug)]
pub struct CacheOptions {
    /// How long one long poll waits, at most 55 s.
    pub wait: Duration,
}

/// How the cache fares.
#[derive(Clone, Debug, Default)]
pub struct CacheStatus {
    /// The version held.
    pub version: Option<Version>,
    /// The endpoint asked last.
    pub endpoint: String,
    /// When a controller last answered as it should: the map was the newest it had then.
    pub confirmed: Option<Instant>,
    /// Attempts that failed since.
    pub failures: u64,
    /// Why the last attempt failed, or its answer was refused; none after one that was well.
    pub error: Option<CacheError>,
}

#[derive(Debug)]
struct Shared {
    cluster: Cluster,
    endpoints: Vec<String>,
    held: Held,
    status: std::sync::Mutex<CacheStatus>,
    /// The last refresh; the lock is held while one is in flight.
    refresh: Mutex<Option<Refreshed>>,
}

/// A refresh that ended.
#[derive(Debug)]
struct Refreshed {
    started: Instant,
    outcome: Result<Version, CacheError>,
}

#[derive(Debug)]
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { wait: Duration::from_secs(30) }
    }
}

impl TopologyCache {
    /// Starts to follow a cluster. Returns at once; [`TopologyCache::ready`] waits for the first map.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn start(client: &Client, cluster: &ClusterName, options: CacheOptions) -> Self {
        let shared = Arc::new(Shared {
            cluster: client.cluster(cluster),
            endpoints: client.endpoints().to_vec(),
            held: Held::default(),
            status: std::sync::Mutex::default(),
            refresh: Mutex::default(),
        });
        let task = tokio::spawn(follow::follow(Arc::clone(&shared), options.wait));
        Self { shared, _task: Arc::new(Task(task.abort_handle())) }
    }

    /// The newest map; none before the first came.
    #[inline]
    #[must_use]
    pub fn routes(&self) -> Option<Arc<Routes>> {
        self.shared.held.routes()
    }

    /// The node that serves a key; none when nobody owns its slot, or before the first map came.
    #[inline]
    #[must_use]
    pub fn route(&self, key: &[u8]) -> Option<Arc<Node>> {
        self.shared.held.with(|routes| routes.route(key).cloned())
    }

    /// Where to read a hot key: [`Routes::read_path`] of the newest map; empty before the first came.
    #[must_use]
    pub fn read_path(&self, key: &[u8]) -> Vec<Arc<Node>> {
        self.routes().map_or_else(Vec::new, |routes| routes.read_path(key))
    }

    /// The version held.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.shared.held.with(|routes| Some(routes.version()))
    }

    /// The version held, as it changes. A receiver that is slow sees the newest, not each.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Option<Version>> {
        self.shared.held.watch()
    }

    /// Waits for the first map.
    ///
    /// # Errors
    /// The last fault, or a timeout, when none came in time.
    pub async fn ready(&self, limit: Duration) -> Result<Arc<Routes>, CacheError> {
        let mut versions = self.watch();
        let came = tokio::time::timeout(limit, versions.wait_for(Option::is_some)).await;
        match (came, self.routes()) {
            (Ok(Ok(_)), Some(routes)) => Ok(routes),
            _ => Err(self.status().error.unwrap_or_else(|| {
                let endpoint = self.shared.endpoints.join(", ");
                CacheError::Client(ClientError::Timeout { endpoint, after: limit })
            })),
        }
    }

    /// How the cache fares.
    #[must_use]
    pub fn status(&self) -> CacheStatus {
        let version = self.version();
        CacheStatus { version, ..self.shared.status.lock().expect("nothing panics under this lock").clone() }
    }

    /// Asks for the map now: after a node answered that a key is elsewhere. Callers share one request, sent at most
    /// every 200 ms: each gets a map that is newer than the one held when it called, or what came of a request that
    /// started after that.
    ///
    /// # Errors
    /// [`CacheError`]; the map held stays.
    pub async fn refresh(&self) -> Result<Version, CacheError> {
        let (called, held) = (Instant::now(), self.version());
        let mut last = self.shared.refresh.lock().await;
        if let Some(newer) = self.version().filter(|version| Some(*version) > held) {
            return Ok(newer);
        }
        if let Some(done) = last.as_ref() {
            if done.started >= called {
                return done.outcome.clone();
            }
            tokio::time::sleep_until(done.started + REFRESH_EVERY).await;
        }
        let started = Instant::now();
        let outcome = match self.shared.cluster.topology().await {
            Ok(topology) => self.shared.held.offer(topology).map(Offer::held),
            Err(error) => Err(error.into()),
        };
        *last = Some(Refreshed { started, outcome: outcome.clone() });
        outcome
    }
}

impl Shared {
    fn note(&self, endpoint: &str, outcome: Result<(), CacheError>) {
        let mut status = self.status.lock().expect("nothing panics under this lock");
        endpoint.clone_into(&mut status.endpoint);
        match outcome {
            Ok(()) => {
                status.confirmed = Some(Instant::now());
                status.failures = 0;
                status.error = None;
            }
            Err(error) => {
                status.failures += 1;
                status.error = Some(error);
            }
        }
    }
}
