//! Which map replaces which: a higher epoch of the same generation, or a higher generation; never another cluster's.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use tokio::sync::watch;

use crate::client::{ClientError, Routes};
use crate::domain::{ClusterId, Topology, Version};

/// The map held. Read without a lock; replaced under one.
#[derive(Debug)]
pub(super) struct Held {
    routes: ArcSwapOption<Routes>,
    replacing: Mutex<()>,
    versions: watch::Sender<Option<Version>>,
}

/// What became of a map that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// It is held now.
    Taken(Version),
    /// It is not above the one held, whose version this is.
    Ignored(Version),
}

/// Why the cache could not take a newer map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// The request was not answered as asked.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The answer is of another cluster than the one followed: it was created anew, or the endpoint is another group's.
    #[error("the controller now serves cluster {offered}, not {held}, under this name: the map held stays")]
    OtherCluster {
        /// The cluster followed.
        held: ClusterId,
        /// The cluster of the answer.
        offered: ClusterId,
    },
    /// A controller answered a long poll with a map that is not above the version asked for.
    #[error("{endpoint} answered with version {offered}, which is not above {held}")]
    NotNewer {
        /// Who answered.
        endpoint: String,
        /// The version held.
        held: Version,
        /// The version of the answer.
        offered: Version,
    },
}

impl Offer {
    /// The version held afterwards.
    pub(super) const fn held(self) -> Version {
        match self {
            Self::Taken(version) | Self::Ignored(version) => version,
        }
    }
}

impl Default for Held {
    fn default() -> Self {
        let (routes, replacing) = (ArcSwapOption::empty(), Mutex::new(()));
        Self { routes, replacing, versions: watch::Sender::new(None) }
    }
}

impl Held {
    pub(super) fn routes(&self) -> Option<Arc<Routes>> {
        self.routes.load_full()
    }

    #[inline]
    pub(super) fn with<R>(&self, look: impl FnOnce(&Routes) -> Option<R>) -> Option<R> {
        self.routes.load().as_deref().and_then(look)
    }

    pub(super) fn watch(&self) -> watch::Receiver<Option<Version>> {
        self.versions.subscribe()
    }

    /// Takes a map if it is above the one held.
    pub(super) fn offer(&self, topology: Topology) -> Result<Offer, CacheError> {
        let _replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = self.routes() {
            if *held.cluster_id() != topology.cluster_id {
                return Err(CacheError::OtherCluster { held: held.cluster_id().clone(), offered: topology.cluster_id });
            }
            if topology.version <= held.version() {
                return Ok(Offer::Ignored(held.version()));
            }
        }
        let version = topology.version;
        self.routes.store(Some(Arc::new(Routes::new(topology))));
        self.versions.send_replace(Some(version));
        Ok(Offer::Taken(version))
    }
}
