//! Shards: list, show, reweight, bound, pin, drain.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::nodes::{UndrainQuery, balance};
use super::{ClusterPath, ConditionalHeaders, ListQuery, ReadQuery, ShardPath, WriteHeaders, tagged};
use crate::controller::{Caller, Change, Propose};
use crate::domain::{Rejection, ShardId};
use crate::server::error::ApiError;
use crate::server::input::{Input, Json as Body, MaybeJson, Nothing};
use crate::server::page::page;
use crate::server::query::{At, Read};
use crate::server::{App, Shared, views};
use crate::wire::{Page, Problem, ShardAnswer, ShardDrainRequest, ShardPatch, ShardView};

impl App {
    async fn change_shard(
        &self,
        caller: &Caller,
        path: &ShardPath,
        change: Change,
        propose: Option<Propose>,
    ) -> Result<ShardAnswer, ApiError> {
        let changed = self.controller.change(caller, &path.cluster, vec![change], propose, false).await;
        let changed = changed.map_err(|error| self.refuse(&path.cluster, error))?;
        let cluster = &changed.cluster;
        let version = changed.version;
        let shard = views::shard(cluster, &path.shard);
        Ok(ShardAnswer {
            generation: version.generation.0,
            epoch: version.epoch.0,
            shard: shard.ok_or_else(|| Rejection::not_found("shard", &path.shard))?,
            plan: changed.plan.as_ref().map(|record| views::plan_ref(&cluster.name, record)),
            empty_because: changed.empty_because,
        })
    }
}

/// List shards.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/shards", tag = "shards", params(ClusterPath, ListQuery),
    responses((status = 200, description = "Shards, ascending by id.", body = Page<ShardView>)))]
pub async fn list_shards(
    State(app): State<Shared>,
    At(path): At<ClusterPath>,
    Read(query): Read<ListQuery>,
) -> Result<Json<Page<ShardView>>, ApiError> {
    let cluster = app.controller.cluster(&path.cluster)?;
    let show = |id: &ShardId| views::shard(&cluster, id).expect("listed above");
    page(&query, cluster.shards.keys(), |id| id.as_str(), show).map(Json)
}

/// Show a shard.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/shards/{shard}", tag = "shards", params(ShardPath, ReadQuery),
    responses((status = 200, description = "The shard.", body = ShardView, headers(("ETag" = String)))))]
pub async fn show_shard(State(app): State<Shared>, At(path): At<ShardPath>, _: Read) -> Result<Response, ApiError> {
    let cluster = app.controller.cluster(&path.cluster)?;
    let shard = views::shard(&cluster, &path.shard).ok_or_else(|| Rejection::not_found("shard", &path.shard))?;
    Ok(tagged(StatusCode::OK, shard.revision.0, shard))
}

/// Change a shard's weight, bounds or pins, and propose the plan for it.
#[utoipa::path(patch, path = "/v1/clusters/{cluster}/shards/{shard}", tag = "shards",
    params(ShardPath, ConditionalHeaders), request_body = ShardPatch,
    responses(
        (status = 200, description = "Changed; no slot has moved yet.", body = ShardAnswer, headers(("ETag" = String))),
        (status = 412, description = "It has another revision.", body = Problem, content_type = "application/problem+json"),
        (status = 428, description = "`If-Match` is missing.", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn change_shard(
    State(app): State<Shared>,
    At(path): At<ShardPath>,
    input: Input<Body<ShardPatch>>,
) -> Result<Response, ApiError> {
    let Body(wanted) = &input.body;
    let if_match = Some(input.if_match()?);
    wanted.validate()?;
    let change = Change::SetShard {
        shard: path.shard.clone(),
        if_match,
        weight: wanted.weight,
        min_slots: wanted.min_slots,
        max_slots: wanted.max_slots,
        pinned: wanted.pinned.clone(),
    };
    let propose = balance(wanted.propose, wanted.reason.as_ref());
    let answer = app.change_shard(&input.caller(wanted.reason.as_ref()), &path, change, propose).await?;
    Ok(tagged(StatusCode::OK, answer.shard.revision.0, answer))
}

/// Mark a whole shard to be emptied, and propose the plan that does it.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/shards/{shard}/drain", tag = "shards",
    params(ShardPath, WriteHeaders), request_body = Option<ShardDrainRequest>,
    responses((status = 200, description = "Marked; no slot has moved yet.", body = ShardAnswer)))]
pub async fn drain_shard(
    State(app): State<Shared>,
    At(path): At<ShardPath>,
    input: Input<MaybeJson<ShardDrainRequest>>,
) -> Result<Json<ShardAnswer>, ApiError> {
    let MaybeJson(drain) = &input.body;
    let change = Change::DrainShard { shard: path.shard.clone() };
    let propose = balance(drain.propose, drain.reason.as_ref());
    app.change_shard(&input.caller(drain.reason.as_ref()), &path, change, propose).await.map(Json)
}

/// Take a drain back, and propose the plan that restores the balance where slots have moved already.
#[utoipa::path(delete, path = "/v1/clusters/{cluster}/shards/{shard}/drain", tag = "shards",
    params(ShardPath, UndrainQuery, WriteHeaders),
    responses((status = 200, description = "No longer marked.", body = ShardAnswer)))]
pub async fn undrain_shard(
    State(app): State<Shared>,
    At(path): At<ShardPath>,
    input: Input<Nothing, UndrainQuery>,
) -> Result<Json<ShardAnswer>, ApiError> {
    let query = &input.query;
    let change = Change::UndrainShard { shard: path.shard.clone() };
    let propose = balance(query.propose, query.reason.as_ref());
    app.change_shard(&input.caller(query.reason.as_ref()), &path, change, propose).await.map(Json)
}
