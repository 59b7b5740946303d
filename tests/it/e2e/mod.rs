//! End to end: the real binary, over HTTP and the command line, killed with -9 and started again.

mod administration;
mod backup;
mod command_line;
mod comparisons;
mod crash;
mod disk;
mod explained;
mod faults;
mod fixtures;
mod group;
mod identity;
mod membership;
mod placement;
mod removal;
mod slice;

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use super::harness::{Member, eventually, fixture};

const CLUSTER: &str = "/v1/clusters/default";

/// Adopts a real `CLUSTER NODES` output.
async fn import(member: &Member, name: &str) -> Value {
    member.post(&format!("{CLUSTER}/import"), Value::String(fixture(name))).await.expect(200)
}

/// Sets the pace of later plans; both the cluster's approvals and author rule stay.
async fn set_limits(member: &Member, limits: Value) {
    let answer = member.get(CLUSTER).await;
    let etag = answer.headers["etag"].to_str().unwrap().to_owned();
    let body = json!({"policy": {"limits": limits}});
    member.request_with(Method::PATCH, CLUSTER, Some(body), &[("if-match", &etag)]).await.unwrap().expect(200);
}

/// Proposes and returns the plan.
async fn propose(member: &Member, request: Value) -> Value {
    let answer = member.post(&format!("{CLUSTER}/plans"), request).await.expect(201);
    answer["plan"].clone()
}

/// Approves with every acknowledgement the plan asks for, and starts.
async fn approve_and_start(approver: &Member, operator: &Member, plan: &Value) {
    let path = format!("{CLUSTER}/plans/{}", plan["id"].as_str().unwrap());
    let acks: Vec<&Value> =
        plan["checks"].as_array().unwrap().iter().filter(|c| c["needs_ack"] == true).map(|c| &c["code"]).collect();
    let body = json!({"digest": plan["digest"], "acks": acks});
    approver.post(&format!("{path}/approvals"), body).await.expect(200);
    operator.post(&format!("{path}/rollout"), json!({})).await.expect(201);
}

/// What a command said as JSON.
pub fn told(member: &Member, args: &[&str]) -> Value {
    let out = member.cli_ok(&[args, &["-o", "json"]].concat());
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}\n{out}"))
}

/// Approves on the command line as the plan's screen says, and starts; returns once the rollout has succeeded.
pub fn review_and_carry_out(member: &Member, plan: &Value) {
    let (id, digest) = (plan["id"].as_str().unwrap(), plan["digest"].as_str().unwrap());
    let mut args = vec!["plan", "approve", id, "--digest", digest];
    let needed = plan["checks"].as_array().unwrap().iter().filter(|check| check["needs_ack"] == true);
    needed.for_each(|check| args.extend(["--ack", check["code"].as_str().unwrap()]));
    let approved = member.cli_ok(&args);
    assert!(approved.contains("is approved"), "{approved}");
    member.cli_ok(&["plan", "start", id, "--yes", "--watch"]);
    assert_eq!(told(member, &["plan", "show", id])["state"], "succeeded");
}

/// The rollout's body, or null while the member cannot tell.
async fn rollout(member: &Member, plan: &Value) -> Value {
    let path = format!("{CLUSTER}/plans/{}/rollout", plan["id"].as_str().unwrap());
    match member.request(Method::GET, &path, None).await {
        Ok(answer) if answer.status.is_success() => answer.body,
        _ => Value::Null,
    }
}

async fn until_state(member: &Member, plan: &Value, state: &str) -> Value {
    eventually(&format!("the rollout is {state}"), || async {
        let rollout = rollout(member, plan).await;
        (rollout["state"] == state).then_some(rollout)
    })
    .await
}

async fn until_slots_done(member: &Member, plan: &Value, slots: u64) {
    eventually(&format!("{slots} slots are done"), || async {
        (rollout(member, plan).await["progress"]["slots_done"].as_u64()? >= slots).then_some(())
    })
    .await;
}

/// The topology as of now: what is published may be 50 ms behind what was answered.
async fn topology(member: &Member) -> Value {
    member.get(&format!("{CLUSTER}/topology?consistency=linearizable")).await.expect(200)
}

/// Slots of each shard, as of now.
async fn counts(member: &Member) -> BTreeMap<String, u64> {
    counts_in(&topology(member).await)
}

fn counts_in(topology: &Value) -> BTreeMap<String, u64> {
    let count = |shard: &Value| {
        let ranges = shard["ranges"].as_array().unwrap().iter();
        ranges.map(|range| range[1].as_u64().unwrap() - range[0].as_u64().unwrap() + 1).sum()
    };
    let shards = topology["shards"].as_array().unwrap();
    shards.iter().map(|shard| (shard["id"].as_str().unwrap().to_owned(), count(shard))).collect()
}

/// What the plan says each shard will own.
fn target(plan: &Value) -> BTreeMap<String, u64> {
    let shards = plan["shards"].as_array().unwrap();
    shards.iter().map(|shard| (shard["id"].as_str().unwrap().to_owned(), shard["after"].as_u64().unwrap())).collect()
}

/// A client that long-polls until it is dropped, over restarts and changes of leader, and keeps every version it saw.
struct Watcher {
    seen: std::sync::Arc<std::sync::Mutex<Vec<(u64, u64)>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Watcher {
    fn start(urls: Vec<String>, token: String) -> Self {
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let keep = seen.clone();
        let task = tokio::spawn(async move {
            let client = reqwest::Client::new();
            let mut turn = 0;
            loop {
                let url = &urls[turn % urls.len()];
                turn += 1;
                let after =
                    keep.lock().unwrap().last().map(|(g, e)| format!("?after={g}.{e}&wait=2")).unwrap_or_default();
                let mut request = client.get(format!("{url}{CLUSTER}/topology{after}"));
                if !token.is_empty() {
                    request = request.bearer_auth(&token);
                }
                let Ok(answer) = request.send().await else {
                    tokio::task::yield_now().await;
                    continue;
                };
                if answer.status() == 200
                    && let Ok(body) = answer.json::<Value>().await
                {
                    let version = (body["generation"].as_u64().unwrap(), body["epoch"].as_u64().unwrap());
                    keep.lock().unwrap().push(version);
                }
            }
        });
        Self { seen, task }
    }

    /// The versions seen so far; each must exceed the one before.
    fn finish(self) -> Vec<(u64, u64)> {
        self.task.abort();
        let seen = self.seen.lock().unwrap().clone();
        for pair in seen.windows(2) {
            assert!(pair[0] < pair[1], "a long poll after {:?} answered {:?}", pair[0], pair[1]);
        }
        seen
    }
}

/// The audit is one chain without gaps.
async fn audit_is_whole(member: &Member) -> Vec<Value> {
    let mut records: Vec<Value> = Vec::new();
    let mut path = "/v1/audit?limit=500".to_owned();
    loop {
        let page = eventually("a page of the audit", || async {
            let answer = member.get(&path).await;
            (answer.status != 503).then_some(answer)
        })
        .await
        .expect(200);
        records.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(cursor) => path = format!("/v1/audit?limit=500&cursor={cursor}"),
            None => break,
        }
    }
    records.sort_by_key(|record| record["seq"].as_u64().unwrap());
    for (index, record) in records.iter().enumerate() {
        assert_eq!(record["seq"], index as u64 + 1);
        let previous = if index == 0 { "" } else { records[index - 1]["hash"].as_str().unwrap() };
        assert_eq!(record["previous"], previous, "record {}", index + 1);
    }
    records
}

/// The exit code of a process that ends by itself.
async fn end_of(member: &mut Member) -> i32 {
    eventually("it has ended", || {
        let ended = member.ended();
        async move { ended }
    })
    .await
}
