//! Nodes come and go: where the cluster's driver can ask them, a server is made a member before it is one in the table, and
//! is forgotten by all before it is gone from the table. What stops halfway is repeated.

use super::{Caller, Change, Changed, ControlError, Controller, Op, Place};
use crate::domain::{Address, ClusterName, NodeId, Rejection};
use crate::driver::nodes::{Candidate, NodesError};

impl From<NodesError> for ControlError {
    fn from(error: NodesError) -> Self {
        match error {
            NodesError::Refused(why) => Rejection::conflict(why).into(),
            NodesError::Unavailable(why) => Self::NodeUnreachable(why),
        }
    }
}

impl Controller {
    /// A server that is to become a node, as it says itself; none where the driver asks no nodes, or where the request was
    /// answered before.
    ///
    /// # Errors
    /// [`Rejection::Conflict`] when it cannot join, and why.
    pub async fn candidate(
        &self,
        caller: &Caller,
        cluster: &ClusterName,
        address: &Address,
    ) -> Result<Option<Candidate>, ControlError> {
        let now = self.cluster(cluster)?;
        let Some(eyes) = self.eyes(now.driver) else { return Ok(None) };
        if self.remembered(caller)?.is_some() {
            return Ok(None);
        }
        if let Some(other) = now.nodes.at(&address.host, address.port) {
            return Err(Rejection::Exists { what: "address".to_owned(), id: format!("{address} ({other})") }.into());
        }
        Ok(Some(eyes.nodes().inspect(&now.topology(), address).await?))
    }

    /// Makes servers members, each with the change that adds it, unless those changes would be refused.
    ///
    /// # Errors
    /// [`Rejection::Conflict`] when nodes do not come to know one in time: the same request again goes on from there.
    pub async fn admit(
        &self,
        caller: &Caller,
        cluster: &ClusterName,
        changes: &[Change],
        candidates: &[Candidate],
    ) -> Result<(), ControlError> {
        let now = self.cluster(cluster)?;
        let Some(eyes) = self.eyes(now.driver).filter(|_| !candidates.is_empty()) else { return Ok(()) };
        self.try_out(caller, Op::Change { cluster: cluster.clone(), changes: changes.to_vec(), plan: None })?;
        let topology = now.topology();
        if topology.shards.is_empty() {
            // The first node has nobody to meet.
            return Ok(());
        }
        for candidate in candidates {
            let primary = changes.iter().find_map(|change| match change {
                Change::AddNode { node, place: Place::ReplicaOf { shard } } if node.id == candidate.id => {
                    now.shards.get(shard).map(|shard| &shard.value.primary)
                }
                _ => None,
            });
            eyes.nodes().admit(&topology, candidate, primary).await?;
        }
        Ok(())
    }

    /// Removes a node that serves nothing; where the driver can ask the nodes, all of them forget it before. Remarks on
    /// what is left to do, a sentence each.
    ///
    /// # Errors
    /// [`ControlError`]; a conflict when a node could not be told: the same request again goes on from there.
    pub async fn remove_node(
        &self,
        caller: &Caller,
        cluster: &ClusterName,
        node: &NodeId,
        if_match: Option<u64>,
    ) -> Result<(Changed, Vec<String>), ControlError> {
        let change = Change::RemoveNode { node: node.clone(), if_match };
        let mut notes = Vec::new();
        if let Some(eyes) = self.eyes(self.cluster(cluster)?.driver)
            && self.remembered(caller)?.is_none()
        {
            self.linearize().await?;
            let now = self.cluster(cluster)?;
            let op = Op::Change { cluster: cluster.clone(), changes: vec![change.clone()], plan: None };
            self.try_out(caller, op)?;
            notes = eyes.nodes().forget(&now.topology(), node).await?.notes;
        }
        Ok((self.change(caller, cluster, vec![change], None, false).await?, notes))
    }
}
