//! Clusters.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{ClusterPath, ConditionalHeaders, ListQuery, ReadQuery, WriteHeaders, tagged};
use crate::controller::Op;
use crate::domain::Policy;
use crate::server::Shared;
use crate::server::error::ApiError;
use crate::server::input::{Input, Json as Body, Nothing};
use crate::server::page::page;
use crate::server::query::{At, Read};
use crate::server::views;
use crate::wire::{ClusterAnswer, ClusterCreate, ClusterPatch, ClusterView, Page, Receipt, Text};

/// Why something is removed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RemovalQuery {
    /// Why; kept in the audit.
    #[param(value_type = Option<String>, max_length = 1024)]
    pub reason: Option<Text>,
}

/// List clusters.
#[utoipa::path(get, path = "/v1/clusters", tag = "clusters", params(ListQuery),
    responses((status = 200, description = "Clusters, ascending by name.", body = Page<ClusterView>)))]
pub async fn list_clusters(
    State(app): State<Shared>,
    Read(query): Read<ListQuery>,
) -> Result<Json<Page<ClusterView>>, ApiError> {
    let clusters = app.controller.clusters();
    page(&query, &clusters, |cluster| cluster.name.as_str(), |cluster| views::cluster(cluster)).map(Json)
}

/// Create a cluster.
#[utoipa::path(post, path = "/v1/clusters", tag = "clusters", params(WriteHeaders), request_body = ClusterCreate,
    responses((status = 201, description = "Created, without shards.", body = ClusterAnswer)))]
pub async fn create_cluster(
    State(app): State<Shared>,
    input: Input<Body<ClusterCreate>>,
) -> Result<Response, ApiError> {
    let Body(create) = &input.body;
    // With one principal for everybody nobody else could approve.
    let mut policy = Policy { author_may_approve: app.config.insecure_dev, ..Policy::default_for(create.driver) };
    if let Some(patch) = &create.policy {
        policy = patch.apply("policy", &policy)?;
    }
    let (name, driver) = (create.name.clone(), create.driver);
    let op = Op::CreateCluster { name: name.clone(), id: app.controller.fresh_cluster_id(), driver, policy };
    let caller = input.caller(create.reason.as_ref());
    let receipt = app.controller.submit(&caller, op).await.map_err(|error| app.refuse(&name, error))?;
    let cluster = app.controller.cluster(&name)?;
    let version = views::version_after(Some(&receipt), &cluster);
    let view = views::cluster(&cluster);
    let body = ClusterAnswer { generation: version.generation.0, epoch: version.epoch.0, cluster: view };
    Ok(tagged(StatusCode::CREATED, cluster.revision, body))
}

/// Show a cluster.
#[utoipa::path(get, path = "/v1/clusters/{cluster}", tag = "clusters", params(ClusterPath, ReadQuery),
    responses((status = 200, description = "The cluster.", body = ClusterView, headers(("ETag" = String)))))]
pub async fn show_cluster(State(app): State<Shared>, At(path): At<ClusterPath>, _: Read) -> Result<Response, ApiError> {
    let cluster = app.controller.cluster(&path.cluster)?;
    Ok(tagged(StatusCode::OK, cluster.revision, views::cluster(&cluster)))
}

/// Change a cluster's driver or policy.
#[utoipa::path(patch, path = "/v1/clusters/{cluster}", tag = "clusters", params(ClusterPath, ConditionalHeaders),
    request_body = ClusterPatch,
    responses(
        (status = 200, description = "Changed.", body = ClusterAnswer, headers(("ETag" = String))),
        (status = 412, description = "It has another revision.", body = crate::wire::Problem, content_type = "application/problem+json"),
        (status = 428, description = "`If-Match` is missing.", body = crate::wire::Problem, content_type = "application/problem+json"),
    ))]
pub async fn configure_cluster(
    State(app): State<Shared>,
    At(ClusterPath { cluster: name }): At<ClusterPath>,
    input: Input<Body<ClusterPatch>>,
) -> Result<Response, ApiError> {
    let Body(patch) = &input.body;
    let if_match = Some(input.if_match()?);
    // A patch of the policy is merged into what this member sees; the revision keeps it from overwriting a newer one.
    app.controller.linearize().await?;
    let policy = match &patch.policy {
        Some(policy) => Some(policy.apply("policy", &app.controller.cluster(&name)?.policy)?),
        None => None,
    };
    let op = Op::ConfigureCluster { name: name.clone(), if_match, driver: patch.driver, policy };
    let caller = input.caller(patch.reason.as_ref());
    let receipt = app.controller.submit(&caller, op).await.map_err(|error| app.refuse(&name, error))?;
    let cluster = app.controller.cluster(&name)?;
    let version = views::version_after(Some(&receipt), &cluster);
    let view = views::cluster(&cluster);
    let body = ClusterAnswer { generation: version.generation.0, epoch: version.epoch.0, cluster: view };
    Ok(tagged(StatusCode::OK, cluster.revision, body))
}

/// Delete a cluster with everything in it.
#[utoipa::path(delete, path = "/v1/clusters/{cluster}", tag = "clusters",
    params(ClusterPath, RemovalQuery, ConditionalHeaders),
    responses(
        (status = 200, description = "Deleted; its last version.", body = Receipt),
        (status = 412, description = "It has another revision.", body = crate::wire::Problem, content_type = "application/problem+json"),
        (status = 428, description = "`If-Match` is missing.", body = crate::wire::Problem, content_type = "application/problem+json"),
    ))]
pub async fn delete_cluster(
    State(app): State<Shared>,
    At(ClusterPath { cluster: name }): At<ClusterPath>,
    input: Input<Nothing, RemovalQuery>,
) -> Result<Json<Receipt>, ApiError> {
    let if_match = Some(input.if_match()?);
    let before = app.controller.cluster(&name).ok();
    let caller = input.caller(input.query.reason.as_ref());
    let op = Op::DeleteCluster { name: name.clone(), if_match };
    let receipt = app.controller.submit(&caller, op).await.map_err(|error| app.refuse(&name, error))?;
    let version = receipt.version.or(before.map(|cluster| cluster.version())).unwrap_or_default();
    Ok(Json(Receipt { generation: version.generation.0, epoch: version.epoch.0 }))
}
