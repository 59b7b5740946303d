//! The leader's look at the nodes: it follows failovers inside a shard, and tells everything else that is not as the table
//! has it. A node never changes the table by what it says, but for that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use tracing::{info, warn};

use super::{Caller, ControlError, Controller, Failover, Op, seen};
use crate::domain::{ClusterName, NodeId, ShardId};
use crate::driver::drift::{self, Drift, DriftKind};
use crate::driver::nodes::Depth;

/// What a difference is about; its sentence may change while it stands.
type Key = (DriftKind, Option<ShardId>, Option<NodeId>);

/// The differences of a cluster as of the last look.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// All of them: one that is gone at the next look was gossip on its way.
    last: BTreeSet<Key>,
    /// Those that stood at two looks in a row, which were told.
    told: BTreeMap<Key, String>,
}

impl Controller {
    /// Looks at the nodes of a cluster once, as the leader in a term.
    ///
    /// # Errors
    /// [`ControlError`] when what was seen could not be committed.
    pub async fn observe(&self, term: u64, cluster: &ClusterName) -> Result<(), ControlError> {
        let Ok(before) = self.cluster(cluster) else { return Ok(()) };
        let Some(eyes) = self.eyes(before.driver).filter(|_| !before.shards.is_empty()) else { return Ok(()) };
        let survey = eyes.nodes().survey(&before.topology(), Depth::Views).await;
        let Ok(after) = self.cluster(cluster) else { return Ok(()) };
        let topology = after.topology();
        let drift = drift::drift(&topology, &survey, &seen::settled_between(&before, &after));
        self.tell(cluster, &drift);
        let failovers: Vec<Failover> = drift::failovers(&topology, &survey)
            .into_iter()
            .map(|failover| Failover { shard: failover.shard, from: failover.from, to: failover.to })
            .collect();
        let caller = Caller::system("observer");
        // Each by itself: one that an action in flight stands against does not keep the others.
        for failover in failovers {
            let op = Op::Observe { cluster: cluster.clone(), failovers: vec![failover.clone()] };
            let Failover { shard, from, to } = failover;
            match self.submit_in(term, &caller, Op::InTerm { term, what: Box::new(op) }).await {
                Ok(_) => info!(%cluster, %shard, %from, %to, "a failover is followed"),
                Err(ControlError::Rejected(why)) => warn!(%cluster, %shard, %why, "a failover is not followed now"),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The differences between nodes and tables that stand, by cluster and kind: what the leader last saw.
    #[must_use]
    pub fn observed(&self) -> BTreeMap<(ClusterName, &'static str), u64> {
        let observed = self.inner.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = BTreeMap::new();
        for (cluster, observed) in &*observed {
            for (kind, ..) in observed.told.keys() {
                *counts.entry((cluster.clone(), kind.as_str())).or_default() += 1;
            }
        }
        counts
    }

    /// Forgets what was seen of clusters: of one that is gone, or of all when this member leads no more.
    pub fn forget_observed(&self, keep: impl Fn(&ClusterName) -> bool) {
        self.inner.observed.lock().unwrap_or_else(PoisonError::into_inner).retain(|cluster, _| keep(cluster));
    }

    /// Logs what is new and what is over.
    fn tell(&self, cluster: &ClusterName, drift: &[Drift]) {
        let key = |drift: &Drift| (drift.kind, drift.shard.clone(), drift.node.clone());
        let mut observed = self.inner.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let observed = observed.entry(cluster.clone()).or_default();
        let now: BTreeSet<Key> = drift.iter().map(key).collect();
        observed.told.retain(|key, what| {
            let stands = now.contains(key);
            if !stands {
                info!(%cluster, kind = key.0.as_str(), was = what, "the nodes are as the table has it again");
            }
            stands
        });
        for drift in drift.iter().filter(|drift| observed.last.contains(&key(drift))) {
            if observed.told.insert(key(drift), drift.what.clone()).is_none() {
                let (kind, what, advice) = (drift.kind.as_str(), &drift.what, &drift.advice);
                warn!(%cluster, kind, what, %advice, "the nodes are not as the table has it");
            }
        }
        observed.last = now;
    }
}
