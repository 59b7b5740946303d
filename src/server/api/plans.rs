//! Plans: propose, list, show, compare.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::placing::Inspected;
use super::{ClusterPath, ListQuery, PlanPath, ReadQuery, WriteHeaders, tagged};
use crate::controller::{Caller, Candidate, Change, Changed, Choice, Cluster, PlanRecord, Propose, Subject};
use crate::domain::{ClusterName, Goal, Invalid, PlanId, Rejection, ShardId, Slot, SlotSet, Statistics, Tolerance};
use crate::server::error::ApiError;
use crate::server::input::{Input, Json as Body};
use crate::server::page::page;
use crate::server::query::{At, Consistency, Fresh, Read, number};
use crate::server::{App, Shared, views};
use crate::wire::plan::MoveView;
use crate::wire::{
    Fault, Page, PlanAnswer, PlanDiff, PlanExplainView, PlanItem, PlanRequest, PlanView, ShardCount, schema,
};

/// How a plan is proposed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ProposeQuery {
    /// Compute everything and store nothing.
    #[serde(default)]
    #[param(required = false)]
    pub dry_run: bool,
}

/// Two plans in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct PairPath {
    /// The cluster's name.
    #[param(value_type = schema::Name, inline)]
    pub cluster: ClusterName,
    /// The first plan's id.
    #[param(value_type = schema::Name, inline)]
    pub plan: PlanId,
    /// The second plan's id.
    #[param(value_type = schema::Name, inline)]
    pub other: PlanId,
}

/// What of a plan is to be explained: a slot or a shard.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExplainQuery {
    /// A slot.
    #[serde(default, deserialize_with = "number")]
    #[param(maximum = 16383)]
    pub slot: Option<u16>,
    /// A shard.
    #[param(value_type = Option<schema::Name>)]
    pub shard: Option<ShardId>,
    /// How fresh the answer must be; `linearizable` when absent.
    #[serde(default)]
    #[param(inline)]
    pub consistency: Consistency,
}

impl Fresh for ExplainQuery {
    fn consistency(&self) -> Consistency {
        self.consistency
    }
}

/// The changes that a request asks for, in order, and the servers of nodes that are new.
async fn desired(
    app: &App,
    caller: &Caller,
    cluster: &ClusterName,
    request: &PlanRequest,
) -> Result<(Vec<Change>, Vec<Candidate>), ApiError> {
    let path = |index: usize| format!("add[{index}].");
    let asked = request.add.iter().enumerate().map(|(index, spec)| (spec, path(index))).collect();
    let Inspected { specs, candidates } = app.inspect(caller, cluster, asked).await?;
    let asked: Vec<_> = specs.iter().enumerate().map(|(index, spec)| (spec, path(index))).collect();
    let mut changes = app.place(cluster, &asked)?;
    changes.extend(request.drain.iter().map(|node| Change::DrainNode { node: node.clone(), lost: false }));
    changes.extend(request.drain_shards.iter().map(|shard| Change::DrainShard { shard: shard.clone() }));
    changes.extend(request.reweight.iter().map(|(shard, weight)| Change::SetShard {
        shard: shard.clone(),
        if_match: None,
        weight: Some(*weight),
        min_slots: None,
        max_slots: None,
        pinned: None,
    }));
    Ok((changes, candidates))
}

/// What a request proposes.
fn proposal(request: &PlanRequest, cluster: &Cluster) -> Result<Propose, ApiError> {
    let goal = match request.goal {
        None => Goal::Balance { tolerance: Tolerance(0) },
        Some(goal) => Goal::try_from(goal)
            .map_err(|invalid: Invalid| Fault::in_field(format!("goal.{}", invalid.what), &invalid))?,
    };
    let limits = match &request.limits {
        None => None,
        Some(patch) => Some(patch.apply("limits", &cluster.policy.limits)?),
    };
    let reason = request.reason.as_ref().map_or_else(String::new, |text| text.as_str().to_owned());
    let statistics = request.statistics.as_ref().map(|view| {
        Statistics::try_from(view).map_err(|invalid| Fault::in_field(format!("statistics.{}", invalid.what), &invalid))
    });
    let statistics = statistics.transpose()?.map(Arc::new);
    let choice = Choice { objective: request.objective.unwrap_or_default(), statistics };
    let placement = request.placement.map(TryInto::try_into).transpose();
    let placement =
        placement.map_err(|invalid: Invalid| Fault::in_field(format!("placement.{}", invalid.what), &invalid))?;
    let (reverts, repair) = (request.revert.clone(), request.repair);
    Ok(Propose { goal, reason, limits, choice, supersedes: None, reverts, placement, repair })
}

/// The answer to a proposal.
pub fn answer(changed: &Changed) -> PlanAnswer {
    let cluster = &changed.cluster;
    let version = changed.version;
    let mut plan = changed.plan.as_ref().map(|record| views::plan(cluster, record));
    if let (None, Some(plan)) = (&changed.receipt, &mut plan) {
        // Looked at beside the cluster as it would be, whose epoch there is not.
        plan.freshness.epoch = version.epoch.0;
    }
    PlanAnswer {
        generation: version.generation.0,
        epoch: version.epoch.0,
        plan,
        empty_because: changed.empty_because.clone(),
    }
}

/// 201 where a plan was stored, 200 where there is none, or it was only computed.
pub fn respond(changed: &Changed, dry_run: bool) -> Response {
    let body = answer(changed);
    match changed.plan.as_deref() {
        Some(record) if !dry_run => {
            let location = format!("/v1/clusters/{}/plans/{}", changed.cluster.name, record.plan.id);
            ([(LOCATION, location)], tagged(StatusCode::CREATED, record.revision, body)).into_response()
        }
        _ => (StatusCode::OK, Json(body)).into_response(),
    }
}

/// Propose a plan, changing what is desired of the cluster in the same step.
#[utoipa::path(post, path = "/v1/clusters/{cluster}/plans", tag = "plans",
    params(ClusterPath, ProposeQuery, WriteHeaders), request_body = PlanRequest,
    responses(
        (status = 201, description = "Proposed; no slot moves before it is approved and started.", body = PlanAnswer,
            headers(("ETag" = String), ("Location" = String))),
        (status = 200, description = "Nothing is to move, or it was a dry run.", body = PlanAnswer),
    ))]
pub async fn propose_plan(
    State(app): State<Shared>,
    At(ClusterPath { cluster: name }): At<ClusterPath>,
    input: Input<Body<PlanRequest>, ProposeQuery>,
) -> Result<Response, ApiError> {
    let Body(request) = &input.body;
    request.validate()?;
    app.controller.linearize().await?;
    let cluster = app.controller.cluster(&name)?;
    let propose = proposal(request, &cluster)?;
    let caller = input.caller(request.reason.as_ref());
    let (desired, candidates) = desired(&app, &caller, &name, request).await?;
    if !input.query.dry_run {
        let admitted = app.controller.admit(&caller, &name, &desired, &candidates).await;
        admitted.map_err(|error| app.refuse(&name, error))?;
    }
    let changed = app.controller.change(&caller, &name, desired, Some(propose), input.query.dry_run).await;
    let changed = changed.map_err(|error| app.refuse(&name, error))?;
    Ok(respond(&changed, input.query.dry_run))
}

/// List plans.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/plans", tag = "plans", params(ClusterPath, ListQuery),
    responses((status = 200, description = "Plans, the newest first.", body = Page<PlanItem>)))]
pub async fn list_plans(
    State(app): State<Shared>,
    At(path): At<ClusterPath>,
    Read(query): Read<ListQuery>,
) -> Result<Json<Page<PlanItem>>, ApiError> {
    let cluster = app.controller.cluster(&path.cluster)?;
    // Counted down, so that the newest has the smallest key and the key of a plan never changes.
    let mut records: Vec<(String, &PlanRecord)> =
        cluster.plans.values().map(|record| (format!("{:020}", u64::MAX - record.sequence), &**record)).collect();
    records.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    page(&query, records, |(key, _)| key, |(_, record)| views::plan_item(record)).map(Json)
}

/// Show a plan.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/plans/{plan}", tag = "plans", params(PlanPath, ReadQuery),
    responses((status = 200, description = "The plan.", body = PlanView, headers(("ETag" = String)))))]
pub async fn show_plan(State(app): State<Shared>, At(path): At<PlanPath>, _: Read) -> Result<Response, ApiError> {
    let (cluster, record) = app.plan(&path)?;
    Ok(tagged(StatusCode::OK, record.revision, views::plan(&cluster, &record)))
}

/// Explain why a plan moves a slot or leaves it, or why a shard gives, takes or neither.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/plans/{plan}/explain", tag = "plans",
    params(PlanPath, ExplainQuery),
    responses((status = 200, description = "The reasons.", body = PlanExplainView)))]
pub async fn explain_plan(
    State(app): State<Shared>,
    At(path): At<PlanPath>,
    Read(query): Read<ExplainQuery>,
) -> Result<Json<PlanExplainView>, ApiError> {
    let subject = match (query.slot, &query.shard) {
        (Some(number), None) => {
            Subject::Slot(Slot::new(number).map_err(|invalid| ApiError::invalid("slot", &invalid.to_string()))?)
        }
        (None, Some(shard)) => Subject::Shard(shard.clone()),
        _ => return Err(ApiError::malformed("either slot or shard must be given").field("slot")),
    };
    let because = app.controller.explain_plan(&path.cluster, &path.plan, &subject)?;
    let slot = query.slot.and_then(|number| Slot::new(number).ok());
    Ok(Json(PlanExplainView { plan: path.plan, slot, shard: query.shard, because }))
}

/// Compare two plans.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/plans/{plan}/diff/{other}", tag = "plans",
    params(PairPath, ReadQuery),
    responses((status = 200, description = "What either does that the other does not.", body = PlanDiff)))]
pub async fn compare_plans(
    State(app): State<Shared>,
    At(path): At<PairPath>,
    _: Read,
) -> Result<Json<PlanDiff>, ApiError> {
    let cluster = app.controller.cluster(&path.cluster)?;
    let find = |id: &PlanId| cluster.plans.get(id).ok_or_else(|| ApiError::from(Rejection::not_found("plan", id)));
    Ok(Json(compare(find(&path.plan)?, find(&path.other)?)))
}

fn compare(first: &PlanRecord, second: &PlanRecord) -> PlanDiff {
    let mut counts: BTreeMap<&ShardId, (Option<u32>, Option<u32>)> = BTreeMap::new();
    for shard in &first.plan.body.shards {
        counts.entry(&shard.id).or_default().0 = Some(shard.after);
    }
    for shard in &second.plan.body.shards {
        counts.entry(&shard.id).or_default().1 = Some(shard.after);
    }
    PlanDiff {
        first: first.plan.id.clone(),
        second: second.plan.id.clone(),
        only_in_first: only_in(first, second),
        only_in_second: only_in(second, first),
        shards: counts
            .into_iter()
            .filter(|(_, (first, second))| first != second)
            .map(|(shard, (first, second))| ShardCount { shard: shard.clone(), first, second })
            .collect(),
    }
}

/// The moves of one plan that another has not: by source, target and slot.
fn only_in(one: &PlanRecord, other: &PlanRecord) -> Vec<MoveView> {
    let theirs = other.plan.body.moves();
    let mut moves = Vec::new();
    for pair in one.plan.body.moves() {
        let same = theirs.iter().find(|their| (&their.from, &their.to) == (&pair.from, &pair.to));
        let slots: SlotSet =
            pair.slots.iter().filter(|&slot| same.is_none_or(|their| !their.slots.contains(slot))).collect();
        if !slots.is_empty() {
            moves.push(MoveView {
                from: pair.from,
                to: pair.to,
                ranges: slots.ranges(),
                slots: views::count(slots.len()),
            });
        }
    }
    moves
}
