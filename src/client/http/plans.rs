//! What can be asked about one plan: review, rollout, and the actions of an outside mover.

use super::{Cluster, Request};
use crate::client::ClientError;
use crate::domain::{ActionId, PlanId, ShardId, Slot};
use crate::wire::{
    ApprovalRequest, EndRequest, FailedRequest, PlanAnswer, PlanDiff, PlanExplainView, PlanView, ReasonRequest,
    RolloutAnswer, RolloutView, SteerRequest, ThrottleRequest,
};

/// One plan of a cluster.
#[derive(Clone, Debug)]
pub struct PlanHandle {
    cluster: Cluster,
    id: PlanId,
}

/// How a rollout is steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Steer {
    /// Start no more actions for now.
    Pause,
    /// Go on; failed actions are tried again.
    Resume,
    /// End after the actions in flight.
    Abort,
    /// Undo what was done.
    RollBack,
}

impl PlanHandle {
    pub(super) const fn new(cluster: Cluster, id: PlanId) -> Self {
        Self { cluster, id }
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> &PlanId {
        &self.id
    }

    fn path(&self, rest: &str) -> String {
        self.cluster.path(&format!("/plans/{}{rest}", self.id))
    }

    /// The plan with its life.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn show(&self) -> Result<PlanView, ClientError> {
        self.cluster.client.call(Request::get(self.path(""))).await
    }

    /// How it differs from another plan of the cluster.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn diff(&self, other: &PlanId) -> Result<PlanDiff, ClientError> {
        self.cluster.client.call(Request::get(self.path(&format!("/diff/{other}")))).await
    }

    /// Why it moves a slot or leaves it, or why a shard gives, takes or neither: exactly one of them is given.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn explain(&self, slot: Option<Slot>, shard: Option<&ShardId>) -> Result<PlanExplainView, ClientError> {
        let mut request = Request::get(self.path("/explain"));
        if let Some(slot) = slot {
            request = request.query("slot", slot.to_string());
        }
        if let Some(shard) = shard {
            request = request.query("shard", shard.as_str());
        }
        self.cluster.client.call(request).await
    }

    /// Approves it by its digest.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn approve(&self, body: &ApprovalRequest) -> Result<PlanAnswer, ClientError> {
        self.cluster.client.call(Request::post(self.path("/approvals"), body)).await
    }

    /// Rejects it as a reviewer.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn reject(&self, body: &EndRequest) -> Result<PlanAnswer, ClientError> {
        self.cluster.client.call(Request::post(self.path("/rejection"), body)).await
    }

    /// Takes it back as an operator.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn withdraw(&self, body: &EndRequest) -> Result<PlanAnswer, ClientError> {
        self.cluster.client.call(Request::post(self.path("/withdrawal"), body)).await
    }

    /// Proposes a successor, computed from the cluster as it is now.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn refresh(&self, body: &ReasonRequest) -> Result<PlanAnswer, ClientError> {
        self.cluster.client.call(Request::post(self.path("/refresh"), body)).await
    }

    /// Starts its rollout.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn start(&self, body: &ReasonRequest) -> Result<RolloutAnswer, ClientError> {
        self.cluster.client.call(Request::post(self.path("/rollout"), body)).await
    }

    /// Its rollout: progress, and the actions in flight and failed.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn rollout(&self) -> Result<RolloutView, ClientError> {
        self.cluster.client.call(Request::get(self.path("/rollout"))).await
    }

    /// Its rollout with every action of the plan.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn rollout_in_full(&self) -> Result<RolloutView, ClientError> {
        self.cluster.client.call(Request::get(self.path("/rollout")).query("actions", "all")).await
    }

    /// Pauses, resumes, aborts or rolls back its rollout.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn steer(&self, steer: Steer, body: &SteerRequest) -> Result<RolloutAnswer, ClientError> {
        let verb = match steer {
            Steer::Pause => "pause",
            Steer::Resume => "resume",
            Steer::Abort => "abort",
            Steer::RollBack => "rollback",
        };
        self.cluster.client.call(Request::post(self.path(&format!("/rollout/{verb}")), body)).await
    }

    /// Lowers the pace of its rollout, or returns to the approved one.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn throttle(&self, body: &ThrottleRequest) -> Result<RolloutAnswer, ClientError> {
        self.cluster.client.call(Request::post(self.path("/rollout/throttle"), body)).await
    }

    /// Takes an action as an outside mover.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn begin_action(&self, action: ActionId) -> Result<RolloutAnswer, ClientError> {
        self.action(action, "begin", &serde_json::json!({})).await
    }

    /// Acknowledges that an action is done, as an outside mover.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn finish_action(&self, action: ActionId) -> Result<RolloutAnswer, ClientError> {
        self.action(action, "done", &serde_json::json!({})).await
    }

    /// Tells that an action failed, as an outside mover.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn fail_action(&self, action: ActionId, body: &FailedRequest) -> Result<RolloutAnswer, ClientError> {
        self.action(action, "failed", body).await
    }

    async fn action(
        &self,
        action: ActionId,
        verb: &str,
        body: &impl serde::Serialize,
    ) -> Result<RolloutAnswer, ClientError> {
        self.cluster.client.call(Request::post(self.path(&format!("/rollout/actions/{action}/{verb}")), body)).await
    }
}
