//! Rendered topology snapshots: one per epoch, swapped in whole, waited for. Never renders inside apply.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::domain::{ClusterName, Topology, Version};
use crate::wire;

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
    /// The headers that go with `json`: what it is, its tag and its version, and places for [`FILLED_IN`].
    pub headers: HeaderMap,
    /// The headers that go with `json_gzip`.
    pub headers_gzip: HeaderMap,
}

/// What the answering member says of itself and of the request: among the headers from the first, so that a copy of them
/// needs no more room.
pub const FILLED_IN: [HeaderName; 4] = [ROLE, LEADER, STALE_MS, HeaderName::from_static("x-request-id")];

/// What the member is in its group.
pub const ROLE: HeaderName = HeaderName::from_static("slotkeeper-role");
/// Number of the leader.
pub const LEADER: HeaderName = HeaderName::from_static("slotkeeper-leader");
/// Milliseconds since a leader was last heard of.
pub const STALE_MS: HeaderName = HeaderName::from_static("slotkeeper-stale-ms");
const CLUSTER: HeaderName = HeaderName::from_static("slotkeeper-cluster");
const GENERATION: HeaderName = HeaderName::from_static("slotkeeper-generation");
const EPOCH: HeaderName = HeaderName::from_static("slotkeeper-epoch");

impl Snapshot {
    /// Renders a topology.
    #[must_use]
    pub fn render(topology: Topology) -> Self {
        let body = wire::TopologyBody::from(&topology);
        let json = serde_json::to_vec(&body).expect("a topology body has string keys only");
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let json_gzip = encoder.write_all(&json).and_then(|()| encoder.finish()).expect("a Vec takes every write");
        let (etag, etag_gzip) = (entity_tag(&json), entity_tag(&json_gzip));
        let headers = headers(&topology, &etag, &json);
        let mut headers_gzip = self::headers(&topology, &etag_gzip, &json_gzip);
        headers_gzip.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let (json, json_gzip) = (json.into(), json_gzip.into());
        Self { topology, json, json_gzip, etag, etag_gzip, headers, headers_gzip }
    }
}

fn headers(topology: &Topology, etag: &str, body: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(16);
    let text = |value: &str| HeaderValue::from_str(value).expect("names and tags are ASCII");
    headers.insert(CONTENT_LENGTH, body.len().into());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ETAG, text(etag));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    headers.insert(CLUSTER, text(topology.cluster_id.as_str()));
    headers.insert(GENERATION, topology.version.generation.0.into());
    headers.insert(EPOCH, topology.version.epoch.0.into());
    headers.extend(FILLED_IN.map(|name| (name, HeaderValue::from_static(""))));
    headers
}

/// A strong entity tag: equal bytes have equal tags, also on other members and after a restart.
fn entity_tag(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let prefix = u128::from_be_bytes(*hash.first_chunk().expect("32 bytes"));
    format!("\"{prefix:032x}\"")
}

/// The newest snapshot of every cluster. Cheap to clone.
#[derive(Clone, Default)]
pub struct Publisher {
    inner: Arc<Inner>,
}

/// One channel per cluster; dropping it wakes those who wait for it.
type Channels = BTreeMap<ClusterName, watch::Sender<Arc<Snapshot>>>;

struct Inner {
    channels: RwLock<Channels>,
    /// Counts the channels ever made: wakes those who wait for a cluster that is not published yet.
    made: watch::Sender<u64>,
    waiting: AtomicUsize,
}

impl Default for Inner {
    fn default() -> Self {
        Self { channels: RwLock::default(), made: watch::Sender::new(0), waiting: AtomicUsize::new(0) }
    }
}

impl Publisher {
    /// The newest snapshot of a cluster; none when there is no such cluster (or it is not published yet).
    #[must_use]
    pub fn newest(&self, cluster: &ClusterName) -> Option<Arc<Snapshot>> {
        self.with_channels(|channels| channels.get(cluster).map(|channel| channel.borrow().clone()))
    }

    /// Waits until the newest snapshot's version exceeds `than`, at most `wait`; none at the end of the wait, and when
    /// the cluster is deleted meanwhile. Subscribes first, then compares.
    pub async fn wait_newer(&self, cluster: &ClusterName, than: Version, wait: Duration) -> Option<Arc<Snapshot>> {
        let _waiting = Waiting::enter(&self.inner.waiting);
        timeout(wait, async {
            let mut channel = self.subscribe(cluster).await;
            let found = channel.wait_for(|snapshot| snapshot.topology.version > than).await;
            found.ok().map(|snapshot| Arc::clone(&snapshot))
        })
        .await
        .ok()
        .flatten()
    }

    /// Renders a topology and swaps it in, unless its version is not above the one published: never backwards.
    pub fn publish(&self, cluster: &ClusterName, topology: Topology) {
        let version = topology.version;
        if self.version(cluster).is_some_and(|published| published >= version) {
            return;
        }
        let snapshot = Arc::new(Snapshot::render(topology));
        let known = self.with_channels(|channels| {
            channels.get(cluster).is_some_and(|channel| {
                swap_if_newer(channel, &snapshot);
                true
            })
        });
        if !known {
            let mut channels = self.inner.channels.write().unwrap_or_else(PoisonError::into_inner);
            // Another publication may have made the channel between the two locks.
            let channel = channels.entry(cluster.clone()).or_insert_with(|| watch::Sender::new(Arc::clone(&snapshot)));
            swap_if_newer(channel, &snapshot);
            drop(channels);
            self.inner.made.send_modify(|made| *made += 1);
        }
    }

    /// Forgets a deleted cluster and wakes those who wait for it.
    pub fn forget(&self, cluster: &ClusterName) {
        self.inner.channels.write().unwrap_or_else(PoisonError::into_inner).remove(cluster);
    }

    /// Number of requests waiting now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.inner.waiting.load(Ordering::Relaxed)
    }

    /// The version published of a cluster.
    #[must_use]
    pub fn version(&self, cluster: &ClusterName) -> Option<Version> {
        self.with_channels(|channels| channels.get(cluster).map(|channel| channel.borrow().topology.version))
    }

    /// The names of the published clusters, ascending.
    #[must_use]
    pub fn published(&self) -> Vec<ClusterName> {
        self.with_channels(|channels| channels.keys().cloned().collect())
    }

    /// The cluster's channel, as soon as there is one.
    async fn subscribe(&self, cluster: &ClusterName) -> watch::Receiver<Arc<Snapshot>> {
        let mut made = self.inner.made.subscribe();
        loop {
            made.borrow_and_update();
            if let Some(channel) = self.with_channels(|channels| channels.get(cluster).map(watch::Sender::subscribe)) {
                return channel;
            }
            made.changed().await.expect("the publisher holds the sender");
        }
    }

    fn with_channels<R>(&self, look: impl FnOnce(&Channels) -> R) -> R {
        look(&self.inner.channels.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn swap_if_newer(channel: &watch::Sender<Arc<Snapshot>>, snapshot: &Arc<Snapshot>) {
    channel.send_if_modified(|published| {
        let newer = snapshot.topology.version > published.topology.version;
        if newer {
            *published = Arc::clone(snapshot);
        }
        newer
    });
}

/// Counts one waiting request for as long as it lives, also when the request is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
