//! Adopting a running cluster: from what one of its nodes printed, or from the nodes themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Caller, Change, Cluster, ControlError, Controller, Op, Receipt};
use crate::domain::{Address, ClusterName, DriverKind, Host, Node, Policy, Rejection, Zone, ZonePattern};
use crate::driver::nodes::Discovery;
use crate::nodes_text::{self, Adopted, NodesTextError};

/// A cluster that was adopted.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The receipt.
    pub receipt: Receipt,
    /// The cluster afterwards.
    pub cluster: Arc<Cluster>,
    /// What a person should know of the cluster, a sentence each.
    pub notes: Vec<String>,
}

/// Where nodes stand: what neither the text nor the nodes tell.
#[derive(Clone, Debug, Default)]
pub struct Zones {
    /// By node id, `host:port` or host, in this order.
    pub named: BTreeMap<String, Zone>,
    /// By the host's name, where it is named nowhere.
    pub pattern: Option<ZonePattern>,
}

impl Zones {
    /// Gives every node its zone; remarks on what fits nothing.
    fn give(&self, nodes: &mut [Node]) -> Vec<String> {
        if self.named.is_empty() && self.pattern.is_none() {
            return Vec::new();
        }
        let (mut used, mut without) = (BTreeSet::new(), Vec::new());
        for node in nodes {
            let told_by = [node.id.to_string(), Address::from(&*node).to_string(), node.host.to_string()];
            let named = told_by.iter().find_map(|name| self.named.get_key_value(name.as_str()));
            used.extend(named.map(|(name, _)| name.as_str()));
            let by_host = self.pattern.as_ref().and_then(|pattern| pattern.zone_of(&node.host));
            node.zone = named.map(|(_, zone)| zone.clone()).or(by_host);
            if node.zone.is_none() {
                without.push(node.to_string());
            }
        }
        let mut remarks = Vec::new();
        if !without.is_empty() {
            remarks.push(format!("no zone is told of {}", without.join(", ")));
        }
        let unused: Vec<&str> = self.named.keys().map(String::as_str).filter(|name| !used.contains(name)).collect();
        if !unused.is_empty() {
            remarks.push(format!("zones are told of what is no node: {}", unused.join(", ")));
        }
        remarks
    }
}

impl Controller {
    /// Adopts the nodes, shards and slots that a text of `CLUSTER NODES` tells of, as one new epoch. The cluster must
    /// have no shards yet. `dialled` fills in for a node that does not know its own host.
    ///
    /// # Errors
    /// [`Rejection::Invalid`] naming the line of a malformed text, [`Rejection::Conflict`] while a slot is open, and
    /// what [`Controller::change`] gives.
    pub async fn import_nodes_text(
        &self,
        caller: &Caller,
        cluster: &ClusterName,
        text: &[u8],
        dialled: Option<&Host>,
        zones: &Zones,
    ) -> Result<Imported, ControlError> {
        let adopted = nodes_text::adopt(text, dialled).map_err(|error| match error {
            NodesTextError::Malformed { .. } => Rejection::invalid("nodes_text", &error),
            NodesTextError::OpenSlot { .. } => Rejection::conflict(error.to_string()),
        })?;
        self.adopt(caller, cluster, adopted, zones).await
    }

    /// The same from the nodes themselves, which any of them leads to: the views of all masters must agree. A cluster that
    /// is still empty becomes one of driver redis.
    ///
    /// # Errors
    /// [`Rejection::Conflict`] saying what does not answer or agree, and what [`Controller::change`] gives.
    pub async fn import_seed(
        &self,
        caller: &Caller,
        cluster: &ClusterName,
        seed: &Address,
        zones: &Zones,
    ) -> Result<Imported, ControlError> {
        if let Some(receipt) = self.remembered(caller)? {
            return Ok(Imported { receipt, cluster: self.cluster(cluster)?, notes: Vec::new() });
        }
        self.linearize().await?;
        let before = self.cluster(cluster)?;
        if !before.shards.is_empty() {
            let (name, shards) = (&before.name, before.shards.len());
            let why = format!("cluster {name} has {shards} shards already: import needs an empty one");
            return Err(Rejection::conflict(why).into());
        }
        let Some(eyes) = self.eyes(DriverKind::Redis) else {
            return Err(Rejection::conflict("this controller has no driver that asks nodes").into());
        };
        let Discovery { mut adopted, keys } = eyes.nodes().discover(seed).await?;
        adopted.notes.push(format!("the masters hold {keys} keys"));
        if before.driver != DriverKind::Redis {
            adopted.notes.push(format!("the driver is redis now, and was {}", before.driver.as_str()));
            let caller = Caller { idempotency: None, ..caller.clone() };
            self.submit(&caller, as_redis(&before)).await?;
        }
        self.adopt(caller, cluster, adopted, zones).await
    }

    async fn adopt(
        &self,
        caller: &Caller,
        cluster: &ClusterName,
        adopted: Adopted,
        zones: &Zones,
    ) -> Result<Imported, ControlError> {
        let Adopted { mut nodes, shards, table, mut notes } = adopted;
        notes.extend(zones.give(&mut nodes));
        let change = Change::Import { nodes, shards, table };
        let changed = self.change(caller, cluster, vec![change], None, false).await?;
        let receipt = changed.receipt.expect("a change that is no dry run is committed");
        Ok(Imported { receipt, cluster: changed.cluster, notes })
    }
}

/// Makes an empty cluster one of driver redis; a pace that was the other driver's default becomes this one's.
fn as_redis(cluster: &Cluster) -> Op {
    let driver = DriverKind::Redis;
    let untouched = cluster.policy.limits == cluster.driver.default_limits();
    let policy = untouched.then(|| Policy { limits: driver.default_limits(), ..cluster.policy.clone() });
    let (name, if_match) = (cluster.name.clone(), Some(cluster.revision));
    Op::ConfigureCluster { name, if_match, driver: Some(driver), policy }
}
