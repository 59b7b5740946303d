//! Comparing hash families on a scale event. Asks nothing of the group and changes nothing; bounded in nodes, keys and how
//! many run at once.

use axum::Json;
use std::time::Instant;
use tokio::sync::Semaphore;

use super::WriteHeaders;
use crate::domain::{Family, Invalid, PlacedNode};
use crate::hashing::{self, Event, Key, Question, Sample, Terms, Tuning};
use crate::server::error::ApiError;
use crate::server::input::{Input, Json as Body};
use crate::wire::{ComparisonRequest, ComparisonView};

/// Comparisons that run at once in this process.
static RUNNING: Semaphore = Semaphore::const_new(2);

const NODES_MAX: usize = 256;
const KEYS_MAX: usize = 200_000;
/// Most nodes times keys: some families look at every node for a key.
const WORK_MAX: usize = 5_000_000;
const DEFAULT_KEYS: usize = 10_000;
const VIEWS_MAX: u32 = 16;
const POINTS_MAX: u64 = 100_000;

/// Compare what one scale event costs under each way of placing keys.
#[utoipa::path(post, path = "/v1/comparisons", tag = "comparisons", params(WriteHeaders), request_body = ComparisonRequest,
    responses((status = 200, description = "The figures of each family, and which to choose.", body = ComparisonView)))]
pub async fn compare_families(input: Input<Body<ComparisonRequest>>) -> Result<Json<ComparisonView>, ApiError> {
    let request = input.body.0;
    let question = question(&request)?;
    let keys = key_count(&request, &question)?;
    let permit =
        RUNNING.try_acquire().map_err(|_| ApiError::unavailable("other comparisons are running; try again"))?;
    let compared = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        compare(&request, &question, keys)
    });
    compared.await.map_err(|_| ApiError::internal("a comparison broke off"))?.map(Json)
}

fn compare(request: &ComparisonRequest, question: &Question, keys: usize) -> Result<ComparisonView, ApiError> {
    let sample = if request.keys.is_empty() {
        let generated = hashing::generate(request.seed.unwrap_or(1), 0..keys as u64);
        Sample::of_generated(generated, request.zipf)
    } else {
        Sample::of_trace(&request.keys.iter().map(|key| Key::of(key.as_bytes())).collect::<Vec<_>>())
    };
    let sample = sample.map_err(|invalid| refuse(&invalid))?;
    let started = Instant::now();
    let clock = || u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let study = |&family: &Family| hashing::study(question, &sample, family, &clock);
    let outcomes = question.families().iter().map(study).collect();
    Ok(ComparisonView::from(&hashing::conclude(question, &sample, outcomes)))
}

/// How many keys are looked at.
fn key_count(request: &ComparisonRequest, question: &Question) -> Result<usize, ApiError> {
    let (field, keys) = match (request.keys.len(), request.sample) {
        (0, None) => ("sample", DEFAULT_KEYS),
        (0, Some(sample)) => ("sample", sample as usize),
        (keys, None) => ("keys", keys),
        (_, Some(_)) => return Err(ApiError::invalid("sample", "cannot be given beside keys")),
    };
    if !(1..=KEYS_MAX).contains(&keys) {
        return Err(ApiError::invalid(field, &format!("{keys} is not in 1..={KEYS_MAX}")));
    }
    if !request.keys.is_empty() && request.zipf {
        return Err(ApiError::invalid(
            "zipf",
            "is for generated keys; keys say themselves how often each is asked for",
        ));
    }
    let most = WORK_MAX / question.nodes();
    if keys > most {
        let why = format!("{keys} is more than {most}, which {} nodes allow", question.nodes());
        return Err(ApiError::invalid(field, &why));
    }
    Ok(keys)
}

fn question(request: &ComparisonRequest) -> Result<Question, ApiError> {
    let (before, after) = nodes(request)?;
    let default = Terms::default();
    let views = request.views.unwrap_or(default.views);
    if views > VIEWS_MAX {
        return Err(ApiError::invalid("views", &format!("{views} is not in 1..={VIEWS_MAX}")));
    }
    let families = match request.families.as_slice() {
        [] => default.families.clone(),
        some => some.iter().map(|&family| family.into()).collect(),
    };
    let terms = Terms {
        families,
        tuning: Tuning { points_max: POINTS_MAX, ..default.tuning },
        copies: request.copies.unwrap_or(default.copies),
        views,
        view_part: request.view_part.unwrap_or(default.view_part),
        requests_per_second: request.requests_per_second.unwrap_or(default.requests_per_second),
        slots_per_second: request.slots_per_second.unwrap_or(default.slots_per_second),
        arity: request.arity.unwrap_or(default.arity),
    };
    Question::new(before, after, terms, None).map_err(|invalid| refuse(&invalid))
}

/// The nodes before and after the event.
fn nodes(request: &ComparisonRequest) -> Result<(Vec<PlacedNode>, Vec<PlacedNode>), ApiError> {
    let within = |field: &str, count: usize| {
        if (1..=NODES_MAX).contains(&count) {
            return Ok(count);
        }
        Err(ApiError::invalid(field, &format!("{count} is not in 1..={NODES_MAX}")))
    };
    let to = request.to.map(|to| within("to", to as usize)).transpose()?;
    let before = match (request.nodes.is_empty(), request.count) {
        (true, Some(count)) => {
            let count = within("count", count as usize)?;
            hashing::numbered(count, to.unwrap_or(count)).map_err(|invalid| refuse(&invalid))?
        }
        (false, None) => request.nodes.iter().map(PlacedNode::from).collect(),
        (true, None) => return Err(ApiError::invalid("nodes", "is missing, and so is count")),
        (false, Some(_)) => return Err(ApiError::invalid("count", "cannot be given beside nodes")),
    };
    within("nodes", before.len())?;
    let event = Event {
        add: request.add.iter().map(PlacedNode::from).collect(),
        drain: request.drain.clone(),
        reweight: request.weights.iter().map(|(name, weight)| (name.clone(), *weight)).collect(),
    };
    let after = match to {
        None => event.apply(&before).map_err(|invalid| refuse(&invalid))?,
        Some(_) if event != Event::default() => {
            return Err(ApiError::invalid("to", "cannot be given beside add, drain or weights"));
        }
        Some(to) => hashing::resized(&before, to).map_err(|invalid| refuse(&invalid))?,
    };
    if after.len() > NODES_MAX {
        return Err(ApiError::invalid("add", &format!("{} nodes are more than {NODES_MAX}", after.len())));
    }
    Ok((before, after))
}

/// What cannot be, by the field that says it.
fn refuse(invalid: &Invalid) -> ApiError {
    let field = match invalid.what {
        "event" => "body",
        "nodes after the event" => "drain",
        field => field,
    };
    ApiError::invalid(field, &invalid.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> (u16, String, String) {
        let request: ComparisonRequest = serde_json::from_str(body).unwrap();
        let error = question(&request).and_then(|question| key_count(&request, &question)).unwrap_err();
        let problem = error.problem();
        (error.status().as_u16(), problem.field.clone().unwrap_or_default(), problem.detail.clone())
    }

    #[test]
    fn what_cannot_be_is_422_and_names_its_field() {
        for (body, field, detail) in [
            (r"{}", "nodes", "is missing"),
            (r#"{"count":0,"to":2}"#, "count", "0 is not in 1..=256"),
            (r#"{"count":3,"to":257}"#, "to", "257 is not in 1..=256"),
            (r#"{"count":3}"#, "body", "changes nothing"),
            (r#"{"count":3,"to":3}"#, "body", "changes nothing"),
            (r#"{"count":3,"nodes":[{"name":"a"}],"to":2}"#, "count", "beside nodes"),
            (r#"{"count":3,"to":4,"drain":["node-1"]}"#, "to", "beside add, drain or weights"),
            (r#"{"count":3,"drain":["x"]}"#, "drain", "x is not one of the nodes"),
            (r#"{"count":1,"drain":["node-1"]}"#, "drain", "0 is not in"),
            (r#"{"count":3,"weights":{"x":2}}"#, "weights", "x is not one of the nodes"),
            (r#"{"count":3,"add":[{"name":"node-1"}]}"#, "add", "node-1 is there already"),
            (r#"{"nodes":[{"name":"a"},{"name":"a"}],"to":1}"#, "nodes", "a is given twice"),
            (r#"{"nodes":[{"name":"a","weight":0}],"to":2}"#, "nodes", "no node has a weight above 0"),
            (r#"{"count":3,"to":4,"families":["ring","ring"]}"#, "families", "ring is given twice"),
            (r#"{"count":3,"to":4,"views":17}"#, "views", "17 is not in 1..=16"),
            (r#"{"count":3,"to":4,"copies":0}"#, "copies", "0 is not in 1..=16"),
            (r#"{"count":3,"to":4,"arity":1}"#, "arity", "1 is not in 2..=64"),
            (r#"{"count":3,"to":4,"sample":0}"#, "sample", "0 is not in 1..=200000"),
            (r#"{"count":3,"to":4,"sample":200001}"#, "sample", "200001 is not in 1..=200000"),
            (r#"{"count":255,"to":256,"sample":20000}"#, "sample", "20000 is more than 19531, which 256 nodes allow"),
            (r#"{"count":3,"to":4,"sample":5,"keys":["a"]}"#, "sample", "beside keys"),
            (r#"{"count":3,"to":4,"zipf":true,"keys":["a"]}"#, "zipf", "generated keys"),
        ] {
            let (status, named, why) = refused(body);
            assert_eq!((422, field), (status, named.as_str()), "{body}: {why}");
            assert!(why.contains(detail), "{body}: {why}");
        }
    }

    #[test]
    fn keys_of_the_body_are_counted_as_requests() {
        let request: ComparisonRequest =
            serde_json::from_str(r#"{"count":2,"to":3,"keys":["a","b","a"],"families":["ring","slots"]}"#).unwrap();
        let question = question(&request).unwrap();
        let answer = compare(&request, &question, 3).unwrap();
        assert_eq!((2, 3, 2), (answer.keys, answer.requests, answer.families.len()));
        assert!(answer.families.iter().all(|family| family.figures.is_some()));
    }
}
