//! What can be asked about one cluster: nodes, shards, topology, slots. Its plans are in `plans`.

use std::time::Duration;

use super::send::Failure;
use super::{Client, PlanHandle, Received, Request};
use crate::client::ClientError;
use crate::domain::{ClusterName, NodeId, PlanId, ShardId, Slot, Topology, Version};
use crate::wire::{
    ClusterAnswer, ClusterPatch, ClusterView, DrainRequest, DriftView, ExplainView, ImportAnswer, ImportRequest,
    KeySlotView, MeasuredView, NodeAdd, NodeAnswer, NodePatch, NodeRemoved, NodeView, PlanAnswer, PlanItem,
    PlanRequest, Receipt, Revision, ShardAnswer, ShardDrainRequest, ShardPatch, ShardView, SlotView, Text,
    TopologyBody,
};

/// One cluster of a controller.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(super) client: Client,
    name: ClusterName,
    reason: Option<Text>,
}

/// The answer to a long poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PollAnswer {
    /// A topology of a version above the one named, or whatever there is when none was named.
    Newer(Box<Topology>),
    /// None came within the wait; the version the member has, where it said so.
    Unchanged(Option<Version>),
}

impl Cluster {
    pub(super) const fn new(client: Client, name: ClusterName) -> Self {
        Self { client, name, reason: None }
    }

    /// The same cluster, with a reason for what is deleted or undrained through this handle: those requests have no body
    /// to carry one.
    #[must_use]
    pub fn because(&self, reason: Text) -> Self {
        Self { reason: Some(reason), ..self.clone() }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &ClusterName {
        &self.name
    }

    pub(super) fn path(&self, rest: &str) -> String {
        format!("/v1/clusters/{}{rest}", self.name)
    }

    fn deletion(&self, rest: &str) -> Request {
        let request = Request::delete(self.path(rest));
        match &self.reason {
            Some(reason) => request.query("reason", reason.as_str()),
            None => request,
        }
    }

    /// One of its plans.
    #[must_use]
    pub fn plan(&self, id: &PlanId) -> PlanHandle {
        PlanHandle::new(self.clone(), id.clone())
    }

    /// The cluster's configuration and state.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn show(&self) -> Result<ClusterView, ClientError> {
        self.client.call(Request::get(self.path(""))).await
    }

    /// Changes driver or policy.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn configure(&self, revision: Revision, body: &ClusterPatch) -> Result<ClusterAnswer, ClientError> {
        self.client.call(Request::patch(self.path(""), revision, body)).await
    }

    /// Deletes the cluster.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn delete(&self, revision: Revision) -> Result<Receipt, ClientError> {
        self.client.call(self.deletion("").if_match(revision)).await
    }

    /// Adopts a running cluster, from the text of `CLUSTER NODES` or by the address of one of its nodes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn import(&self, body: &ImportRequest) -> Result<ImportAnswer, ClientError> {
        self.client.call(Request::post(self.path("/import"), body)).await
    }

    /// Where the nodes are not as the table has it, asked of the nodes now.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn drift(&self) -> Result<DriftView, ClientError> {
        self.client.call(Request::get(self.path("/drift"))).await
    }

    /// What the nodes count of each slot, asked of the nodes now.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn statistics(&self) -> Result<MeasuredView, ClientError> {
        self.client.call(Request::get(self.path("/statistics"))).await
    }

    /// Every node, ascending by id.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn nodes(&self) -> Result<Vec<NodeView>, ClientError> {
        self.client.list(Request::get(self.path("/nodes"))).await
    }

    /// One node.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn node(&self, id: &NodeId) -> Result<NodeView, ClientError> {
        self.client.call(Request::get(self.path(&format!("/nodes/{id}")))).await
    }

    /// Adds a node and, unless told otherwise, proposes the plan for it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn add_node(&self, body: &NodeAdd) -> Result<NodeAnswer, ClientError> {
        self.client.call(Request::post(self.path("/nodes"), body)).await
    }

    /// Changes a node's address or zone.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn set_node(&self, id: &NodeId, revision: Revision, body: &NodePatch) -> Result<NodeAnswer, ClientError> {
        self.client.call(Request::patch(self.path(&format!("/nodes/{id}")), revision, body)).await
    }

    /// Removes a node that serves nothing.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn remove_node(&self, id: &NodeId, revision: Revision) -> Result<NodeRemoved, ClientError> {
        self.client.call(self.deletion(&format!("/nodes/{id}")).if_match(revision)).await
    }

    /// Marks a node to be emptied and, unless told otherwise, proposes the plan for it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn drain_node(&self, id: &NodeId, body: &DrainRequest) -> Result<NodeAnswer, ClientError> {
        self.client.call(Request::post(self.path(&format!("/nodes/{id}/drain")), body)).await
    }

    /// Takes that back.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn undrain_node(&self, id: &NodeId) -> Result<NodeAnswer, ClientError> {
        self.client.call(self.deletion(&format!("/nodes/{id}/drain"))).await
    }

    /// Every shard, ascending by id.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn shards(&self) -> Result<Vec<ShardView>, ClientError> {
        self.client.list(Request::get(self.path("/shards"))).await
    }

    /// One shard.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn shard(&self, id: &ShardId) -> Result<ShardView, ClientError> {
        self.client.call(Request::get(self.path(&format!("/shards/{id}")))).await
    }

    /// Changes a shard's weight, bounds or pins.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn set_shard(
        &self,
        id: &ShardId,
        revision: Revision,
        body: &ShardPatch,
    ) -> Result<ShardAnswer, ClientError> {
        self.client.call(Request::patch(self.path(&format!("/shards/{id}")), revision, body)).await
    }

    /// Marks a shard to be emptied and, unless told otherwise, proposes the plan for it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn drain_shard(&self, id: &ShardId, body: &ShardDrainRequest) -> Result<ShardAnswer, ClientError> {
        self.client.call(Request::post(self.path(&format!("/shards/{id}/drain")), body)).await
    }

    /// Takes that back.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn undrain_shard(&self, id: &ShardId) -> Result<ShardAnswer, ClientError> {
        self.client.call(self.deletion(&format!("/shards/{id}/drain"))).await
    }

    /// Every plan that is kept, in the order of the controller.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn plans(&self) -> Result<Vec<PlanItem>, ClientError> {
        self.client.list(Request::get(self.path("/plans"))).await
    }

    /// Changes what is desired and proposes the plan for it in one step; a dry run computes and stores nothing.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn propose(&self, body: &PlanRequest, dry_run: bool) -> Result<PlanAnswer, ClientError> {
        let request = Request::post(self.path("/plans"), body);
        self.client.call(if dry_run { request.query("dry_run", "true") } else { request }).await
    }

    /// The topology now.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn topology(&self) -> Result<Topology, ClientError> {
        let received = self.client.send(Request::get(self.path("/topology"))).await?;
        read_topology(&received)
    }

    /// The topology with everything committed before the question: asks the leader, and waits until it is published.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn topology_linearizable(&self) -> Result<Topology, ClientError> {
        let request = Request::get(self.path("/topology")).query("consistency", "linearizable");
        read_topology(&self.client.send(request).await?)
    }

    /// The topology as JSON, unchanged.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn topology_body(&self) -> Result<TopologyBody, ClientError> {
        self.client.call(Request::get(self.path("/topology"))).await
    }

    /// Waits until there is a topology above this version, at most `wait` (the controller allows 55 s); one endpoint,
    /// one attempt. Use [`crate::client::TopologyCache`] to follow a cluster.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn wait_topology(&self, after: Option<Version>, wait: Duration) -> Result<PollAnswer, ClientError> {
        self.poll(0, after, wait).await.map_err(Failure::into_error)
    }

    /// A long poll of one endpoint; without a version, an ordinary read.
    pub(in crate::client) async fn poll(
        &self,
        endpoint: usize,
        after: Option<Version>,
        wait: Duration,
    ) -> Result<PollAnswer, Failure> {
        let mut request = Request::get(self.path("/topology"));
        let mut limit = self.client.inner.timeout;
        if let Some(after) = after {
            request = request.query("after", after.to_string()).query("wait", format!("{}ms", wait.as_millis()));
            limit += wait;
        }
        let received = self.client.attempt(endpoint, &request, limit).await?;
        if received.status == 200 {
            let topology = read_topology(&received).map_err(Failure::Final)?;
            return Ok(PollAnswer::Newer(Box::new(topology)));
        }
        let number = |name: &str| received.headers.get(name)?.to_str().ok();
        let version = number("slotkeeper-generation").zip(number("slotkeeper-epoch"));
        Ok(PollAnswer::Unchanged(version.and_then(|(g, e)| format!("{g}.{e}").parse().ok())))
    }

    /// One slot: its owner and where that is.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn slot(&self, slot: Slot) -> Result<SlotView, ClientError> {
        self.client.call(Request::get(self.path(&format!("/slots/{slot}")))).await
    }

    /// Why a slot is where it is, and what the open plan does with it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn explain(&self, slot: Slot) -> Result<ExplainView, ClientError> {
        self.client.call(Request::get(self.path(&format!("/slots/{slot}/explain")))).await
    }

    /// The slot of a key, any bytes, as the controller computes it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn key_slot(&self, key: &[u8]) -> Result<KeySlotView, ClientError> {
        self.client.call(Request::get(self.path("/keyslot")).query("key", key)).await
    }
}

fn read_topology(received: &Received) -> Result<Topology, ClientError> {
    let body: TopologyBody = received.read()?;
    Topology::try_from(body).map_err(|invalid| ClientError::Protocol {
        endpoint: received.endpoint.clone(),
        why: format!("the topology is not sound: {invalid}"),
    })
}
