//! Nodes: add, list, show, change, drain, remove.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::clusters::RemovalQuery;
use super::placing::Inspected;
use super::{ClusterPath, ConditionalHeaders, ListQuery, NodePath, ReadQuery, WriteHeaders, tagged};
use crate::controller::{Caller, Change, Changed, Choice, Propose};
use crate::domain::{ClusterName, Goal, NodeId, Rejection, Tolerance};
use crate::server::error::ApiError;
use crate::server::input::{Input, Json as Body, MaybeJson, Nothing};
use crate::server::page::page;
use crate::server::query::{At, Read};
use crate::server::{App, Shared, views};
use crate::wire::{DrainRequest, NodeAdd, NodeAnswer, NodePatch, NodeRemoved, NodeSpec, NodeView, Page, Problem, Text};

/// What goes with taking a drain back.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UndrainQuery {
    /// Whether to propose a plan as well; true when absent.
    pub propose: Option<bool>,
    /// Why; kept in the audit and the plan.
    #[param(value_type = Option<String>, max_length = 1024)]
    pub reason: Option<Text>,
}

/// What is proposed after a change of what is desired: balance, for the reason given.
pub fn balance(propose: Option<bool>, reason: Option<&Text>) -> Option<Propose> {
    propose.unwrap_or(true).then(|| Propose {
        goal: Goal::Balance { tolerance: Tolerance(0) },
        reason: reason.map_or_else(String::new, |text| text.as_str().to_owned()),
        limits: None,
        choice: Choice::default(),
        supersedes: None,
        reverts: None,
        placement: None,
        repair: false,
    })
}

impl App {
    async fn change_node(
        &self,
        caller: &Caller,
        (cluster, node): (&ClusterName, &NodeId),
        change: Change,
        propose: Option<Propose>,
    ) -> Result<NodeAnswer, ApiError> {
        let changed = self.controller.change(caller, cluster, vec![change], propose, false).await;
        let changed = changed.map_err(|error| self.refuse(cluster, error))?;
        // A request that is answered once more gave the node its name the first time.
        let node = changed.receipt.as_ref().and_then(|receipt| receipt.node.clone()).unwrap_or_else(|| node.clone());
        node_answer(&changed, &node)
    }
}

fn node_answer(changed: &Changed, node: &NodeId) -> Result<NodeAnswer, ApiError> {
    let cluster = &changed.cluster;
    let node = views::node(cluster, node).ok_or_else(|| Rejection::not_found("node", node))?;
    let version = changed.version;
    Ok(NodeAnswer {
        generation: version.generation.0,
        epoch: version.epoch.0,
        shard: node.shard.clone(),
        node,
        plan: changed.plan.as_ref().map(|record| views::plan_ref(&cluster.name, record)),
        empty_because: changed.empty_because.clone(),
        notes: Vec::new(),
    })
}

/// List nodes.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/nodes", tag = "nodes", params(ClusterPath, ListQuery),
    responses((status = 200, description = "Nodes, ascending by id.", body = Page<NodeView>)))]
pub async fn list_nodes(
    State(app): State<Shared>,
    At(path): At<ClusterPath>,
    Read(query): Read<ListQuery>,
) -> Result<Json<Page<NodeView>>, ApiError> {
    let cluster = app.controller.cluster(&path.cluster)?;
    let show = |id: &NodeId| views::node(&cluster, id).expect("listed above");
    page(&query, cluster.nodes.keys(), |id| id.as_str(), show).map(Json)
}

/// Add a node, as the primary of a new shard or as a replica, and propose the plan that gives it slots.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/nodes", tag = "nodes", params(ClusterPath, WriteHeaders),
    request_body = NodeAdd,
    responses((status = 201, description = "Added; no slot has moved yet.", body = NodeAnswer,
        headers(("ETag" = String), ("Location" = String)))))]
pub async fn add_node(
    State(app): State<Shared>,
    At(ClusterPath { cluster: name }): At<ClusterPath>,
    input: Input<Body<NodeAdd>>,
) -> Result<Response, ApiError> {
    let Body(add) = &input.body;
    app.controller.linearize().await?;
    let caller = input.caller(add.reason.as_ref());
    let spec = NodeSpec::from(add.clone());
    let Inspected { specs, candidates } = app.inspect(&caller, &name, vec![(&spec, String::new())]).await?;
    let change = app.place(&name, &[(&specs[0], String::new())])?.remove(0);
    let Change::AddNode { node, .. } = &change else { unreachable!("placing adds nodes") };
    let id = node.id.clone();
    let admitted = app.controller.admit(&caller, &name, std::slice::from_ref(&change), &candidates).await;
    admitted.map_err(|error| app.refuse(&name, error))?;
    let propose = balance(add.propose, add.reason.as_ref());
    let mut answer = app.change_node(&caller, (&name, &id), change, propose).await?;
    answer.notes = candidates.into_iter().flat_map(|candidate| candidate.notes).collect();
    let location = format!("/v1/clusters/{name}/nodes/{}", answer.node.id);
    let revision = answer.node.revision.0;
    Ok(([(LOCATION, location)], tagged(StatusCode::CREATED, revision, answer)).into_response())
}

/// Show a node.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/nodes/{node}", tag = "nodes", params(NodePath, ReadQuery),
    responses((status = 200, description = "The node.", body = NodeView, headers(("ETag" = String)))))]
pub async fn show_node(State(app): State<Shared>, At(path): At<NodePath>, _: Read) -> Result<Response, ApiError> {
    let cluster = app.controller.cluster(&path.cluster)?;
    let node = views::node(&cluster, &path.node).ok_or_else(|| Rejection::not_found("node", &path.node))?;
    Ok(tagged(StatusCode::OK, node.revision.0, node))
}

/// Change a node's address or zone.
#[utoipa::path(patch, path = "/v1/clusters/{cluster}/nodes/{node}", tag = "nodes",
    params(NodePath, ConditionalHeaders), request_body = NodePatch,
    responses(
        (status = 200, description = "Changed.", body = NodeAnswer, headers(("ETag" = String))),
        (status = 412, description = "It has another revision.", body = Problem, content_type = "application/problem+json"),
        (status = 428, description = "`If-Match` is missing.", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn change_node(
    State(app): State<Shared>,
    At(NodePath { cluster, node }): At<NodePath>,
    input: Input<Body<NodePatch>>,
) -> Result<Response, ApiError> {
    let Body(patch) = &input.body;
    let change = Change::SetNode {
        node: node.clone(),
        if_match: Some(input.if_match()?),
        host: patch.host.clone(),
        port: patch.port.map(std::num::NonZeroU16::get),
        zone: patch.zone.clone(),
    };
    let caller = input.caller(patch.reason.as_ref());
    let answer = app.change_node(&caller, (&cluster, &node), change, None).await?;
    Ok(tagged(StatusCode::OK, answer.node.revision.0, answer))
}

/// Remove a node that serves nothing.
#[utoipa::path(delete, path = "/v1/clusters/{cluster}/nodes/{node}", tag = "nodes",
    params(NodePath, RemovalQuery, ConditionalHeaders),
    responses(
        (status = 200, description = "Removed; its shard too when it was the only node.", body = NodeRemoved),
        (status = 412, description = "It has another revision.", body = Problem, content_type = "application/problem+json"),
        (status = 428, description = "`If-Match` is missing.", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn remove_node(
    State(app): State<Shared>,
    At(NodePath { cluster, node }): At<NodePath>,
    input: Input<Nothing, RemovalQuery>,
) -> Result<Json<NodeRemoved>, ApiError> {
    let (if_match, caller) = (Some(input.if_match()?), input.caller(input.query.reason.as_ref()));
    let removed = app.controller.remove_node(&caller, &cluster, &node, if_match).await;
    let (changed, notes) = removed.map_err(|error| app.refuse(&cluster, error))?;
    let version = changed.version;
    Ok(Json(NodeRemoved { generation: version.generation.0, epoch: version.epoch.0, removed: node, notes }))
}

/// Mark a node to be emptied, and propose the plan that does it: moves, or a promotion.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/nodes/{node}/drain", tag = "nodes",
    params(NodePath, WriteHeaders), request_body = Option<DrainRequest>,
    responses((status = 200, description = "Marked; no slot has moved yet.", body = NodeAnswer)))]
pub async fn drain_node(
    State(app): State<Shared>,
    At(NodePath { cluster, node }): At<NodePath>,
    input: Input<MaybeJson<DrainRequest>>,
) -> Result<Json<NodeAnswer>, ApiError> {
    let MaybeJson(drain) = &input.body;
    let change = Change::DrainNode { node: node.clone(), lost: drain.lost };
    let propose = balance(drain.propose, drain.reason.as_ref());
    let caller = input.caller(drain.reason.as_ref());
    app.change_node(&caller, (&cluster, &node), change, propose).await.map(Json)
}

/// Take a drain back, and propose the plan that restores the balance where slots have moved already.
#[utoipa::path(delete, path = "/v1/clusters/{cluster}/nodes/{node}/drain", tag = "nodes",
    params(NodePath, UndrainQuery, WriteHeaders),
    responses((status = 200, description = "No longer marked.", body = NodeAnswer)))]
pub async fn undrain_node(
    State(app): State<Shared>,
    At(NodePath { cluster, node }): At<NodePath>,
    input: Input<Nothing, UndrainQuery>,
) -> Result<Json<NodeAnswer>, ApiError> {
    let query = &input.query;
    let change = Change::UndrainNode { node: node.clone() };
    let propose = balance(query.propose, query.reason.as_ref());
    let caller = input.caller(query.reason.as_ref());
    app.change_node(&caller, (&cluster, &node), change, propose).await.map(Json)
}
