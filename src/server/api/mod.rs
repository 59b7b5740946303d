//! The handlers: a file per resource. They translate, the controller decides.

mod actions;
mod audit;
mod clusters;
mod comparisons;
mod drift;
mod health;
mod import;
mod members;
mod nodes;
mod placing;
mod plans;
mod review;
mod rollouts;
mod shards;
mod slots;
mod statistics;
mod snapshots;
mod tokens;
mod topology;
mod whoami;

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::ETAG;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::error::ApiError;
use super::query::{ListQuery, ReadQuery};
use super::routes::Route;
use super::{App, Shared};
use crate::controller::{Cluster, ControlError, PlanRecord};
use crate::domain::{ClusterName, NodeId, PlanId, Rejection, ShardId};
use crate::wire::{Revision, schema};

/// Every route, for the document and the router alike.
pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(health::index))
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(health::openapi_json))
        .routes(routes!(whoami::whoami))
        .routes(routes!(members::status))
        .routes(routes!(members::list_members, members::add_member))
        .routes(routes!(members::remove_member))
        .routes(routes!(members::promote_member))
        .routes(routes!(members::transfer_leadership))
        .routes(routes!(members::join))
        .routes(routes!(audit::list_audit))
        .routes(routes!(tokens::list_tokens, tokens::create_token))
        .routes(routes!(tokens::revoke_token))
        .routes(routes!(snapshots::take_snapshot))
        .routes(routes!(snapshots::download_snapshot))
        .routes(routes!(comparisons::compare_families))
        .routes(routes!(clusters::list_clusters, clusters::create_cluster))
        .routes(routes!(clusters::show_cluster, clusters::configure_cluster, clusters::delete_cluster))
        .routes(routes!(import::import_cluster))
        .routes(routes!(drift::show_drift))
        .routes(routes!(statistics::show_statistics))
        .routes(routes!(nodes::list_nodes, nodes::add_node))
        .routes(routes!(nodes::show_node, nodes::change_node, nodes::remove_node))
        .routes(routes!(nodes::drain_node, nodes::undrain_node))
        .routes(routes!(shards::list_shards))
        .routes(routes!(shards::show_shard, shards::change_shard))
        .routes(routes!(shards::drain_shard, shards::undrain_shard))
        .routes(routes!(plans::list_plans, plans::propose_plan))
        .routes(routes!(plans::show_plan))
        .routes(routes!(plans::compare_plans))
        .routes(routes!(plans::explain_plan))
        .routes(routes!(review::approve_plan))
        .routes(routes!(review::reject_plan))
        .routes(routes!(review::withdraw_plan))
        .routes(routes!(review::refresh_plan))
        .routes(routes!(rollouts::show_rollout, rollouts::start_rollout))
        .routes(routes!(rollouts::pause_rollout))
        .routes(routes!(rollouts::resume_rollout))
        .routes(routes!(rollouts::abort_rollout))
        .routes(routes!(rollouts::roll_back_rollout))
        .routes(routes!(rollouts::throttle_rollout))
        .routes(routes!(actions::begin_action))
        .routes(routes!(actions::finish_action))
        .routes(routes!(actions::fail_action))
        .routes(routes!(topology::topology))
        .routes(routes!(slots::show_slot))
        .routes(routes!(slots::explain_slot))
        .routes(routes!(slots::key_slot))
}

/// The answer to a request that may take a route, where it needs no handler: what nearly every request asks for.
pub fn at_once(app: &App, route: &Route, request: &Request) -> Option<Response> {
    if route.path == topology::PATH { app.topology_at_once(request) } else { None }
}

/// A cluster in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct ClusterPath {
    /// The cluster's name.
    #[param(value_type = schema::Name, inline)]
    pub cluster: ClusterName,
}

/// A node in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct NodePath {
    /// The cluster's name.
    #[param(value_type = schema::Name, inline)]
    pub cluster: ClusterName,
    /// The node's id.
    #[param(value_type = schema::Name, inline)]
    pub node: NodeId,
}

/// A shard in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct ShardPath {
    /// The cluster's name.
    #[param(value_type = schema::Name, inline)]
    pub cluster: ClusterName,
    /// The shard's id.
    #[param(value_type = schema::Name, inline)]
    pub shard: ShardId,
}

/// A plan in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct PlanPath {
    /// The cluster's name.
    #[param(value_type = schema::Name, inline)]
    pub cluster: ClusterName,
    /// The plan's id.
    #[param(value_type = schema::Name, inline)]
    pub plan: PlanId,
}

/// The headers of a write.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes the headers; the extractor reads them")]
pub struct WriteHeaders {
    /// Makes a retry safe: the same key with the same request is answered once more, and nothing is done again.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 128, pattern = "^[ -~]+$")]
    idempotency_key: Option<String>,
}

/// The headers of a write that names the revision it changes.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes the headers; the extractor reads them")]
pub struct ConditionalHeaders {
    /// The resource's revision as its `ETag` says it.
    #[param(rename = "If-Match", pattern = "^\"r(0|[1-9][0-9]{0,18})\"$", example = "\"r1\"")]
    if_match: String,
    /// Makes a retry safe: the same key with the same request is answered once more, and nothing is done again.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 128, pattern = "^[ -~]+$")]
    idempotency_key: Option<String>,
}

/// A resource with the entity tag of its revision.
fn tagged<T: Serialize>(status: StatusCode, revision: u64, body: T) -> Response {
    (status, [(ETAG, Revision(revision).etag())], Json(body)).into_response()
}

impl App {
    /// A plan of a cluster.
    fn plan(&self, path: &PlanPath) -> Result<(Arc<Cluster>, Arc<PlanRecord>), ApiError> {
        let cluster = self.controller.cluster(&path.cluster)?;
        let record = cluster.plans.get(&path.plan).cloned();
        let record = record.ok_or_else(|| Rejection::not_found("plan", &path.plan))?;
        Ok((cluster, record))
    }

    /// A refusal beside the version of the cluster it was about.
    fn refuse(&self, cluster: &ClusterName, error: ControlError) -> ApiError {
        ApiError::from(error).beside(self.controller.cluster(cluster).ok().as_deref())
    }
}
