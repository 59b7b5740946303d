//! Rendered topology snapshots: one per epoch, swapped in whole, waited for. Never renders inside apply.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::domain::{ClusterName, Topology, Version};

/// What clients get for one version of one cluster, rendered once.
#[derive(Debug)]
pub struct Snapshot {
    /// The values.
    pub topology: Topology,
    /// The JSON body (`wire::TopologyBody`), identity coding.
    pub json: Bytes,
    /// The same, gzip.
    pub json_gzip: Bytes,
    /// Strong entity tag of `json`, with its quotes.
    pub etag: String,
    /// Strong entity tag of `json_gzip`, with its quotes.
    pub etag_gzip: String,
}

/// The newest snapshot of every cluster. Cheap to clone.
#[derive(Clone, Default)]
pub struct Publisher {
    _inner: Arc<()>,
}

impl Publisher {
    /// The newest snapshot of a cluster; none when there is no such cluster (or it is not published yet).
    #[must_use]
    pub fn newest(&self, _cluster: &ClusterName) -> Option<Arc<Snapshot>> {
        unimplemented!("src/publish")
    }

    /// Waits until the newest snapshot's version exceeds `than`, at most `wait`; none at the end of the wait, and when
    /// the cluster is deleted meanwhile. Subscribes first, then compares.
    pub async fn wait_newer(&self, _cluster: &ClusterName, _than: Version, _wait: Duration) -> Option<Arc<Snapshot>> {
        unimplemented!("src/publish")
    }

    /// Renders a topology and swaps it in, unless its version is not above the one published: never backwards.
    pub fn publish(&self, _cluster: &ClusterName, _topology: Topology) {
        unimplemented!("src/publish")
    }

    /// Forgets a deleted cluster and wakes those who wait for it.
    pub fn forget(&self, _cluster: &ClusterName) {
        unimplemented!("src/publish")
    }

    /// Number of requests waiting now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        unimplemented!("src/publish")
    }
}
