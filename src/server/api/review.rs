//! Review of plans: approve, reject, withdraw, refresh.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::plans::respond;
use super::{PlanPath, WriteHeaders, tagged};
use crate::controller::{Caller, Choice, Op, Propose};
use crate::domain::{ActionKind, ClusterName, PlanId};
use crate::server::error::ApiError;
use crate::server::input::{Input, Json as Body, MaybeJson};
use crate::server::query::At;
use crate::server::{App, Shared, views};
use crate::wire::{ApprovalRequest, EndRequest, PlanAnswer, ReasonRequest};

impl App {
    /// Commits an operation on a plan and shows the plan afterwards.
    async fn review(&self, caller: &Caller, path: &PlanPath, op: Op) -> Result<Response, ApiError> {
        let receipt = self.controller.submit(caller, op).await;
        let receipt = receipt.map_err(|error| self.refuse(&path.cluster, error))?;
        let (cluster, record) = self.plan(path)?;
        let version = views::version_after(Some(&receipt), &cluster);
        let answer = PlanAnswer {
            generation: version.generation.0,
            epoch: version.epoch.0,
            plan: Some(views::plan(&cluster, &record)),
            empty_because: None,
        };
        Ok(tagged(StatusCode::OK, record.revision, answer))
    }

    /// Ends a plan before it started.
    async fn end(
        &self,
        path: &PlanPath,
        input: &Input<MaybeJson<EndRequest>>,
        op: impl FnOnce(ClusterName, PlanId, bool) -> Op,
    ) -> Result<Response, ApiError> {
        let MaybeJson(end) = &input.body;
        let op = op(path.cluster.clone(), path.plan.clone(), end.revert_intent);
        self.review(&input.caller(end.reason.as_ref()), path, op).await
    }
}

/// Approve a plan by its digest.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/plans/{plan}/approvals", tag = "review",
    params(PlanPath, WriteHeaders), request_body = ApprovalRequest,
    responses((status = 200, description = "Approved; it may start once it has all the approvals it needs.",
        body = PlanAnswer, headers(("ETag" = String)))))]
pub async fn approve_plan(
    State(app): State<Shared>,
    At(path): At<PlanPath>,
    input: Input<Body<ApprovalRequest>>,
) -> Result<Response, ApiError> {
    let Body(approval) = &input.body;
    let op = Op::Approve {
        cluster: path.cluster.clone(),
        plan: path.plan.clone(),
        digest: approval.digest,
        acks: approval.acks.iter().map(|ack| ack.as_str().to_owned()).collect(),
    };
    app.review(&input.caller(approval.reason.as_ref()), &path, op).await
}

/// Reject a plan.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/plans/{plan}/rejection", tag = "review",
    params(PlanPath, WriteHeaders), request_body = Option<EndRequest>,
    responses((status = 200, description = "Rejected.", body = PlanAnswer, headers(("ETag" = String)))))]
pub async fn reject_plan(
    State(app): State<Shared>,
    At(path): At<PlanPath>,
    input: Input<MaybeJson<EndRequest>>,
) -> Result<Response, ApiError> {
    app.end(&path, &input, |cluster, plan, revert_intent| Op::Reject { cluster, plan, revert_intent }).await
}

/// Withdraw a plan.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/plans/{plan}/withdrawal", tag = "review",
    params(PlanPath, WriteHeaders), request_body = Option<EndRequest>,
    responses((status = 200, description = "Withdrawn.", body = PlanAnswer, headers(("ETag" = String)))))]
pub async fn withdraw_plan(
    State(app): State<Shared>,
    At(path): At<PlanPath>,
    input: Input<MaybeJson<EndRequest>>,
) -> Result<Response, ApiError> {
    app.end(&path, &input, |cluster, plan, revert_intent| Op::Withdraw { cluster, plan, revert_intent }).await
}

/// Propose a successor of a plan from the state as it is now. Approvals do not carry over.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/plans/{plan}/refresh", tag = "review",
    params(PlanPath, WriteHeaders), request_body = Option<ReasonRequest>,
    responses(
        (status = 201, description = "Proposed; it supersedes the plan.", body = PlanAnswer,
            headers(("ETag" = String), ("Location" = String))),
        (status = 200, description = "Nothing is to move any more.", body = PlanAnswer),
    ))]
pub async fn refresh_plan(
    State(app): State<Shared>,
    At(path): At<PlanPath>,
    input: Input<MaybeJson<ReasonRequest>>,
) -> Result<Response, ApiError> {
    let MaybeJson(request) = &input.body;
    app.controller.linearize().await?;
    let (_, record) = app.plan(&path)?;
    let plan = &record.plan;
    // Statistics are not kept: a plan that needs them is proposed anew, and says so.
    let objective = plan.body.figures.costs.map(|costs| costs.objective).unwrap_or_default();
    let choice = Choice { objective, statistics: None };
    let propose = Propose {
        goal: plan.intent.goal,
        reason: plan.intent.reason.clone(),
        limits: Some(plan.limits.clone()),
        choice,
        supersedes: Some(path.plan.clone()),
        reverts: plan.reverts.clone(),
        placement: plan.intent.placement,
        repair: plan.body.actions.iter().any(|action| matches!(action.kind, ActionKind::RepairSlot { .. })),
    };
    let caller = input.caller(request.reason.as_ref());
    let changed = app.controller.change(&caller, &path.cluster, Vec::new(), Some(propose), false).await;
    let changed = changed.map_err(|error| app.refuse(&path.cluster, error))?;
    Ok(respond(&changed, false))
}
