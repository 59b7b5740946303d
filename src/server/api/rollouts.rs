//! Rollouts: start, show, steer, throttle.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{PlanPath, WriteHeaders};
use crate::controller::{Caller, Op, PlanRecord, SteerVerb};
use crate::domain::{Instant, Rejection};
use crate::server::error::ApiError;
use crate::server::input::{Input, Json as Body, MaybeJson};
use crate::server::query::{At, Consistency, Fresh, Read};
use crate::server::{App, Shared, views};
use crate::wire::{
    ActionStatus, ReasonRequest, RolloutAction, RolloutAnswer, RolloutView, SteerRequest, ThrottleRequest,
};

/// Which actions are shown with a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// Those in flight and those that failed.
    #[default]
    Open,
    /// Every one.
    All,
    /// None.
    None,
}

/// A read of a rollout.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RolloutQuery {
    /// Which actions to show; `open` when absent.
    #[serde(default)]
    #[param(inline)]
    pub actions: Shown,
    /// How fresh the answer must be; `linearizable` when absent.
    #[serde(default)]
    #[param(inline)]
    pub consistency: Consistency,
}

impl Fresh for RolloutQuery {
    fn consistency(&self) -> Consistency {
        self.consistency
    }
}

impl Shown {
    fn shows(self, action: &RolloutAction) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Open => {
                matches!(action.state, ActionStatus::Begun | ActionStatus::Failed | ActionStatus::Reverting)
            }
        }
    }
}

/// The rollout of a plan, with some of its actions.
fn view(record: &PlanRecord, now: Instant, shown: impl Fn(&RolloutAction) -> bool) -> Result<RolloutView, ApiError> {
    let rollout = record.rollout.as_ref();
    let rollout = rollout.ok_or_else(|| Rejection::not_found("rollout", &record.plan.id))?;
    Ok(views::rollout(record, rollout, now, shown))
}

impl App {
    /// Commits an operation on a rollout and shows the rollout afterwards.
    pub async fn steer(
        &self,
        caller: &Caller,
        path: &PlanPath,
        op: Op,
        shown: impl Fn(&RolloutAction) -> bool,
    ) -> Result<RolloutAnswer, ApiError> {
        let receipt = match op {
            // Beside the state, the nodes are asked.
            Op::Start { cluster, plan } => self.controller.start(caller, &cluster, &plan).await,
            op => self.controller.submit(caller, op).await,
        };
        let receipt = receipt.map_err(|error| self.refuse(&path.cluster, error))?;
        let (cluster, record) = self.plan(path)?;
        let version = views::version_after(Some(&receipt), &cluster);
        let rollout = view(&record, self.controller.now(), shown)?;
        Ok(RolloutAnswer { generation: version.generation.0, epoch: version.epoch.0, rollout })
    }

    async fn steer_by(
        &self,
        path: &PlanPath,
        input: &Input<MaybeJson<SteerRequest>>,
        verb: SteerVerb,
    ) -> Result<Json<RolloutAnswer>, ApiError> {
        let MaybeJson(request) = &input.body;
        let acks = request.acks.iter().map(|ack| ack.as_str().to_owned()).collect();
        let op = Op::Steer { cluster: path.cluster.clone(), plan: path.plan.clone(), verb, acks };
        let caller = input.caller(request.reason.as_ref());
        self.steer(&caller, path, op, |action| Shown::Open.shows(action)).await.map(Json)
    }
}

/// Show a rollout.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/plans/{plan}/rollout", tag = "rollouts",
    params(PlanPath, RolloutQuery),
    responses((status = 200, description = "The rollout.", body = RolloutView)))]
pub async fn show_rollout(
    State(app): State<Shared>,
    At(path): At<PlanPath>,
    Read(query): Read<RolloutQuery>,
) -> Result<Json<RolloutView>, ApiError> {
    let (_, record) = app.plan(&path)?;
    view(&record, app.controller.now(), |action| query.actions.shows(action)).map(Json)
}

/// Start an approved plan.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/plans/{plan}/rollout", tag = "rollouts",
    params(PlanPath, WriteHeaders), request_body = Option<ReasonRequest>,
    responses((status = 201, description = "Started.", body = RolloutAnswer)))]
pub async fn start_rollout(
    State(app): State<Shared>,
    At(path): At<PlanPath>,
    input: Input<MaybeJson<ReasonRequest>>,
) -> Result<Response, ApiError> {
    let MaybeJson(request) = &input.body;
    let op = Op::Start { cluster: path.cluster.clone(), plan: path.plan.clone() };
    let caller = input.caller(request.reason.as_ref());
    let answer = app.steer(&caller, &path, op, |action| Shown::Open.shows(action)).await?;
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// Start no more actions for now; those in flight finish.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/plans/{plan}/rollout/pause", tag = "rollouts",
    params(PlanPath, WriteHeaders), request_body = Option<SteerRequest>,
    responses((status = 200, description = "Paused.", body = RolloutAnswer)))]
pub async fn pause_rollout(
    State(app): State<Shared>,
    At(path): At<PlanPath>,
    input: Input<MaybeJson<SteerRequest>>,
) -> Result<Json<RolloutAnswer>, ApiError> {
    app.steer_by(&path, &input, SteerVerb::Pause).await
}

/// Go on; failed actions are tried again.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/plans/{plan}/rollout/resume", tag = "rollouts",
    params(PlanPath, WriteHeaders), request_body = Option<SteerRequest>,
    responses((status = 200, description = "Running again.", body = RolloutAnswer)))]
pub async fn resume_rollout(
    State(app): State<Shared>,
    At(path): At<PlanPath>,
    input: Input<MaybeJson<SteerRequest>>,
) -> Result<Json<RolloutAnswer>, ApiError> {
    app.steer_by(&path, &input, SteerVerb::Resume).await
}

/// End after the actions in flight; moved slots stay where they are.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/plans/{plan}/rollout/abort", tag = "rollouts",
    params(PlanPath, WriteHeaders), request_body = Option<SteerRequest>,
    responses((status = 200, description = "Aborting.", body = RolloutAnswer)))]
pub async fn abort_rollout(
    State(app): State<Shared>,
    At(path): At<PlanPath>,
    input: Input<MaybeJson<SteerRequest>>,
) -> Result<Json<RolloutAnswer>, ApiError> {
    app.steer_by(&path, &input, SteerVerb::Abort).await
}

/// Undo what was done.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/plans/{plan}/rollout/rollback", tag = "rollouts",
    params(PlanPath, WriteHeaders), request_body = Option<SteerRequest>,
    responses((status = 200, description = "Rolling back.", body = RolloutAnswer)))]
pub async fn roll_back_rollout(
    State(app): State<Shared>,
    At(path): At<PlanPath>,
    input: Input<MaybeJson<SteerRequest>>,
) -> Result<Json<RolloutAnswer>, ApiError> {
    app.steer_by(&path, &input, SteerVerb::RollBack).await
}

/// Lower the pace, or return to the approved one.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/plans/{plan}/rollout/throttle", tag = "rollouts",
    params(PlanPath, WriteHeaders), request_body = ThrottleRequest,
    responses((status = 200, description = "The pace is changed.", body = RolloutAnswer)))]
pub async fn throttle_rollout(
    State(app): State<Shared>,
    At(path): At<PlanPath>,
    input: Input<Body<ThrottleRequest>>,
) -> Result<Json<RolloutAnswer>, ApiError> {
    let Body(request) = &input.body;
    request.validate()?;
    let slots_per_second = request.slots_per_second;
    let op = Op::Throttle { cluster: path.cluster.clone(), plan: path.plan.clone(), slots_per_second };
    let caller = input.caller(request.reason.as_ref());
    app.steer(&caller, &path, op, |action| Shown::Open.shows(action)).await.map(Json)
}
