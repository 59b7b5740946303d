//! The manual driver: an outside mover takes actions and acknowledges them.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;

use super::{PlanPath, WriteHeaders};
use crate::controller::{Caller, Op};
use crate::domain::{ActionId, ClusterName, DriverKind, PlanId, Rejection};
use crate::server::error::ApiError;
use crate::server::input::{Input, Json as Body, MaybeJson};
use crate::server::query::At;
use crate::server::{App, Shared};
use crate::wire::{FailedRequest, ReasonRequest, RolloutAnswer, schema};

/// An action in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct ActionPath {
    /// The cluster's name.
    #[param(value_type = schema::Name, inline)]
    pub cluster: ClusterName,
    /// The plan's id.
    #[param(value_type = schema::Name, inline)]
    pub plan: PlanId,
    /// The action's id: `a-` and its number.
    #[param(value_type = String, pattern = "^a-(0|[1-9][0-9]{0,8})$", example = "a-1")]
    #[serde(deserialize_with = "action_id")]
    pub action: ActionId,
}

fn action_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ActionId, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

impl App {
    /// Commits what a mover says of an action, and shows that action.
    async fn acknowledge(&self, caller: &Caller, path: ActionPath, op: Op) -> Result<Json<RolloutAnswer>, ApiError> {
        let driver = self.controller.cluster(&path.cluster)?.driver;
        if driver != DriverKind::Manual {
            let why = format!("cluster {} moves its slots by itself: driver {}", path.cluster, driver.as_str());
            return Err(self.refuse(&path.cluster, Rejection::conflict(why).into()));
        }
        let id = path.action.to_string();
        let plan = PlanPath { cluster: path.cluster, plan: path.plan };
        let is_asked = |action: &crate::wire::RolloutAction| action.action.id.0.to_string() == id;
        self.steer(caller, &plan, op, is_asked).await.map(Json)
    }

    /// Commits what needs no more than the action's name.
    async fn acknowledge_by(
        &self,
        path: ActionPath,
        input: &Input<MaybeJson<ReasonRequest>>,
        op: impl FnOnce(ClusterName, PlanId, Vec<ActionId>) -> Op,
    ) -> Result<Json<RolloutAnswer>, ApiError> {
        let caller = input.caller(input.body.0.reason.as_ref());
        let op = op(path.cluster.clone(), path.plan.clone(), vec![path.action]);
        self.acknowledge(&caller, path, op).await
    }
}

/// Take an action: from now on the mover works on it. While the rollout rolls back: take it to undo it.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/plans/{plan}/rollout/actions/{action}/begin", tag = "rollouts",
    params(ActionPath, WriteHeaders), request_body = Option<ReasonRequest>,
    responses((status = 200, description = "Begun; the rollout with this action.", body = RolloutAnswer)))]
pub async fn begin_action(
    State(app): State<Shared>,
    At(path): At<ActionPath>,
    input: Input<MaybeJson<ReasonRequest>>,
) -> Result<Json<RolloutAnswer>, ApiError> {
    app.acknowledge_by(path, &input, |cluster, plan, actions| Op::Begin { cluster, plan, actions }).await
}

/// Acknowledge an action: its slots are where they belong.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/plans/{plan}/rollout/actions/{action}/done", tag = "rollouts",
    params(ActionPath, WriteHeaders), request_body = Option<ReasonRequest>,
    responses((status = 200, description = "Done; the rollout with this action.", body = RolloutAnswer)))]
pub async fn finish_action(
    State(app): State<Shared>,
    At(path): At<ActionPath>,
    input: Input<MaybeJson<ReasonRequest>>,
) -> Result<Json<RolloutAnswer>, ApiError> {
    app.acknowledge_by(path, &input, |cluster, plan, actions| Op::Finish { cluster, plan, actions }).await
}

/// Give an action up: its slots are where they were.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/plans/{plan}/rollout/actions/{action}/failed", tag = "rollouts",
    params(ActionPath, WriteHeaders), request_body = FailedRequest,
    responses((status = 200, description = "Failed; the rollout with this action.", body = RolloutAnswer)))]
pub async fn fail_action(
    State(app): State<Shared>,
    At(path): At<ActionPath>,
    input: Input<Body<FailedRequest>>,
) -> Result<Json<RolloutAnswer>, ApiError> {
    let (caller, error) = (input.caller(None), input.body.0.error.as_str().to_owned());
    let op = Op::Fail { cluster: path.cluster.clone(), plan: path.plan.clone(), action: path.action, error };
    app.acknowledge(&caller, path, op).await
}
