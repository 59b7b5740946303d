//! From an import to a finished rollout by an outside mover, over HTTP alone.

use serde_json::{Value, json};

use super::fixture::Server;
use crate::domain::{DriverKind, Role, is_open};

const CLUSTER: &str = "/v1/clusters/default";

async fn proposed(server: &Server) -> (String, Value) {
    let body = json!({"add": [{"host": "10.0.0.3", "port": 7000, "name": "cache-3"}], "reason": "growth"}).to_string();
    let dry = server.as_role(Role::Operator, "POST", &format!("{CLUSTER}/plans?dry_run=true"), &body).await;
    assert_eq!(200, dry.status, "{}", dry.json());
    assert_eq!(0, server.get(&format!("{CLUSTER}/plans")).await.json()["items"].as_array().unwrap().len());
    let answer = server.as_role(Role::Operator, "POST", &format!("{CLUSTER}/plans"), &body).await;
    assert_eq!(201, answer.status, "{}", answer.json());
    let plan = answer.json()["plan"].clone();
    assert_eq!(dry.json()["plan"]["summary"], plan["summary"]);
    let href = format!("{CLUSTER}/plans/{}", plan["id"].as_str().unwrap());
    assert_eq!(Some(href.as_str()), answer.header("location"));
    (href, plan)
}

#[tokio::test]
async fn a_plan_is_proposed_reviewed_and_carried_out_by_a_mover() {
    let server = Server::start().await;
    server.import_two().await;
    let (href, plan) = proposed(&server).await;
    // 16384 over three shards: 5461 + 5461 + 5462; the two that are there give what they have above that.
    let slots = plan["summary"]["slots"].as_u64().unwrap();
    assert!(slots == 5461 && plan["summary"]["minimal"] == true, "{}", plan["summary"]);
    assert_eq!("cache-3", plan["intent"]["add"][0]["shard"]);
    let digest = plan["digest"].as_str().unwrap();

    let early = server.as_role(Role::Operator, "POST", &format!("{href}/rollout"), "").await;
    assert_eq!("plan-state", early.problem(409));
    assert!(early.json()["epoch"].as_u64().is_some());
    let wrong = json!({"digest": format!("sha256:{}", "0".repeat(64))}).to_string();
    let refused = server.as_role(Role::Approver, "POST", &format!("{href}/approvals"), &wrong).await;
    assert_eq!("digest-mismatch", refused.problem(409));
    assert_eq!(digest, refused.json()["digest"]);
    let approval = json!({"digest": digest}).to_string();
    let approved = server.as_role(Role::Approver, "POST", &format!("{href}/approvals"), &approval).await;
    assert_eq!("approved", approved.json()["plan"]["state"]);
    let started = server.as_role(Role::Operator, "POST", &format!("{href}/rollout"), "").await;
    assert_eq!((201, "running"), (started.status, started.json()["rollout"]["state"].as_str().unwrap()));

    let paused =
        server.as_role(Role::Operator, "POST", &format!("{href}/rollout/pause"), r#"{"reason":"lunch"}"#).await;
    assert_eq!("paused", paused.json()["rollout"]["state"]);
    let again = server.as_role(Role::Operator, "POST", &format!("{href}/rollout/pause"), "").await;
    assert_eq!("rollout-state", again.problem(409));
    server.as_role(Role::Operator, "POST", &format!("{href}/rollout/resume"), "").await;

    let all = server.get(&format!("{href}/rollout?actions=all")).await.json();
    let actions = all["actions"].as_array().unwrap().clone();
    assert_eq!(plan["actions"].as_array().unwrap().len(), actions.len());
    for (index, action) in actions.iter().enumerate() {
        let step = format!("{href}/rollout/actions/{}", action["id"].as_str().unwrap());
        let begun = server.as_role(Role::Mover, "POST", &format!("{step}/begin"), "").await;
        assert_eq!(200, begun.status, "{}", begun.json());
        if index == 0 {
            let failed =
                server.as_role(Role::Mover, "POST", &format!("{step}/failed"), r#"{"error":"disk full"}"#).await;
            assert_eq!("failed", failed.json()["rollout"]["actions"][0]["state"]);
            assert_eq!("disk full", failed.json()["rollout"]["actions"][0]["error"]);
            let begun = server.as_role(Role::Mover, "POST", &format!("{step}/begin"), "").await;
            assert_eq!(200, begun.status, "{}", begun.json());
        }
        let done = server.as_role(Role::Mover, "POST", &format!("{step}/done"), "").await;
        assert_eq!((200, "done"), (done.status, done.json()["rollout"]["actions"][0]["state"].as_str().unwrap()));
    }
    let rollout = server.get(&format!("{href}/rollout")).await.json();
    assert_eq!(json!(slots), rollout["progress"]["slots_done"]);
    let shard = server.get(&format!("{CLUSTER}/shards/cache-3")).await.json();
    assert_eq!(json!(slots), shard["slots"]);
    let audit = server.get("/v1/audit?limit=1000").await.json();
    let by_mover = audit["items"].as_array().unwrap().iter().filter(|r| r["by"]["name"] == "mover").count();
    assert_eq!(2 * actions.len() + 2, by_mover);
}

#[tokio::test]
async fn nodes_are_added_drained_and_removed_with_their_plans() {
    let server = Server::start().await;
    server.import_two().await;
    let added = server.as_role(Role::Operator, "POST", &format!("{CLUSTER}/nodes"), r#"{"host":"h","port":1}"#).await;
    assert_eq!((201, Some("\"r1\"")), (added.status, added.header("etag")));
    let body = added.json();
    let (node, shard) = (body["node"]["id"].as_str().unwrap(), body["shard"].as_str().unwrap());
    assert_eq!(format!("{CLUSTER}/nodes/{node}"), added.header("location").unwrap());
    assert_eq!(5461, body["plan"]["slots"]);
    let plan = server.get(body["plan"]["href"].as_str().unwrap()).await.json();
    assert_eq!(body["plan"]["digest"], plan["digest"]);
    let duplicate =
        server.as_role(Role::Operator, "POST", &format!("{CLUSTER}/nodes"), r#"{"host":"h","port":1}"#).await;
    assert_eq!("exists", duplicate.problem(409));
    let drained =
        server.as_role(Role::Operator, "POST", &format!("{CLUSTER}/nodes/{node}/drain"), r#"{"propose":false}"#).await;
    assert_eq!(
        ("draining", &Value::Null),
        (drained.json()["node"]["state"].as_str().unwrap(), &drained.json()["plan"])
    );
    let undrained =
        server.send(Role::Operator, "DELETE", &format!("{CLUSTER}/nodes/{node}/drain?propose=false"), &[], b"").await;
    assert_eq!("active", undrained.json()["node"]["state"]);
    let path = format!("{CLUSTER}/nodes/{node}");
    let revision = server.get(&path).await.header("etag").unwrap().to_owned();
    let headers = [format!("if-match: {revision}"), "content-type: application/json".to_owned()];
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let patched = server.send(Role::Operator, "PATCH", &path, &headers, br#"{"zone":"z1"}"#).await;
    assert_eq!("z1", patched.json()["node"]["zone"], "{}", patched.json());
    let stale = server.send(Role::Operator, "PATCH", &path, &headers, br#"{"zone":null}"#).await;
    assert_eq!("revision-mismatch", stale.problem(412));
    let revision = format!("if-match: {}", patched.header("etag").unwrap());
    let busy = format!("{CLUSTER}/nodes/{}", "a".repeat(40));
    let refused = server.send(Role::Operator, "DELETE", &busy, &["if-match: \"r1\""], b"").await;
    assert_eq!("in-use", refused.problem(409));
    let removed = server.send(Role::Operator, "DELETE", &path, &[&revision], b"").await;
    assert_eq!(node, removed.json()["removed"], "{}", removed.json());
    assert_eq!("not-found", server.get(&format!("{CLUSTER}/shards/{shard}")).await.problem(404));
}

#[tokio::test]
async fn an_empty_plan_says_why_and_pages_follow() {
    let server = Server::start().await;
    server.import_two().await;
    let empty = server.as_role(Role::Operator, "POST", &format!("{CLUSTER}/plans"), "{}").await;
    assert_eq!((200, &Value::Null), (empty.status, &empty.json()["plan"]));
    assert!(!empty.json()["empty_because"].as_str().unwrap().is_empty());
    let first = server.get(&format!("{CLUSTER}/nodes?limit=1")).await.json();
    let next = first["next"].as_str().unwrap();
    let second = server.get(&format!("{CLUSTER}/nodes?limit=1&cursor={next}")).await.json();
    assert_eq!(("b".repeat(40), None), (second["items"][0]["id"].as_str().unwrap().to_owned(), second.get("next")));
}

#[tokio::test]
async fn a_dry_run_tells_the_version_that_there_is() {
    let server = Server::start().await;
    let (generation, epoch) = server.import_published().await;
    let path = format!("{CLUSTER}/plans?dry_run=true");
    let dry = server.as_role(Role::Operator, "POST", &path, r#"{"add":[{"host":"h","port":1}]}"#).await;
    assert_eq!(5461, dry.json()["plan"]["summary"]["slots"], "{}", dry.json());
    assert_eq!(json!(epoch), dry.json()["plan"]["freshness"]["epoch"]);
    assert_eq!((json!(generation), json!(epoch)), (dry.json()["generation"].clone(), dry.json()["epoch"].clone()));
}

#[tokio::test]
async fn where_everybody_is_one_an_author_may_approve() {
    for (insecure_dev, body, expected) in [
        (true, r#"{"name":"x","driver":"flip"}"#, true),
        (true, r#"{"name":"x","driver":"flip","policy":{"approvals":2}}"#, true),
        (true, r#"{"name":"x","driver":"flip","policy":{"author_may_approve":false}}"#, false),
        (false, r#"{"name":"x","driver":"flip"}"#, false),
    ] {
        let config = crate::server::ServerConfig { insecure_dev, ..crate::server::ServerConfig::default() };
        let server = Server::start_with(config, DriverKind::Flip).await;
        let created = server.post("/v1/clusters", body).await;
        assert_eq!(201, created.status, "{}", created.json());
        assert_eq!(json!(expected), created.json()["cluster"]["policy"]["author_may_approve"], "{body}");
    }
}

#[tokio::test]
async fn requests_are_counted_by_the_name_of_their_method() {
    let server = Server::start().await;
    server.get("/v1/clusters").await;
    let metrics = server.get("/metrics").await;
    let text = String::from_utf8_lossy(&metrics.body);
    assert!(
        text.contains("slotkeeper_http_requests_total{method=\"GET\",route=\"/v1/clusters\",status=\"200\"} 1\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_repeated_request_with_its_key_is_answered_once_more() {
    let server = Server::start().await;
    server.import_two().await;
    let headers = ["content-type: application/json", "idempotency-key: order-66"];
    let add = |body: &'static [u8]| server.send(Role::Operator, "POST", "/v1/clusters/default/nodes", &headers, body);
    let first = add(br#"{"host":"h","port":1}"#).await;
    let second = add(br#"{"host":"h","port":1}"#).await;
    assert_eq!((201, 201), (first.status, second.status), "{}", second.json());
    assert_eq!(first.json()["node"], second.json()["node"]);
    assert_eq!(first.json()["plan"], second.json()["plan"]);
    let other = add(br#"{"host":"h","port":2}"#).await;
    assert_eq!("idempotency-mismatch", other.problem(422));
    assert_eq!(3, server.get("/v1/clusters/default/nodes").await.json()["items"].as_array().unwrap().len());
    for bad in ["idempotency-key: ", &format!("idempotency-key: {}", "x".repeat(129))] {
        let headers = ["content-type: application/json", bad];
        let answer = server.send(Role::Operator, "POST", "/v1/clusters/default/nodes", &headers, b"{}").await;
        assert_eq!("malformed", answer.problem(400), "{bad}");
    }
}

#[tokio::test]
async fn plans_are_refreshed_compared_and_ended() {
    let server = Server::start().await;
    server.import_two().await;
    let (href, plan) = proposed(&server).await;
    let refreshed = server.as_role(Role::Operator, "POST", &format!("{href}/refresh"), "").await;
    assert_eq!(201, refreshed.status, "{}", refreshed.json());
    let successor = refreshed.json()["plan"].clone();
    assert_eq!(plan["id"], successor["supersedes"]);
    assert_eq!("superseded", server.get(&href).await.json()["state"]);
    let diff = server.get(&format!("{href}/diff/{}", successor["id"].as_str().unwrap())).await.json();
    assert_eq!(
        (json!([]), json!([]), json!([])),
        (diff["only_in_first"].clone(), diff["only_in_second"].clone(), diff["shards"].clone(),)
    );
    let href = format!("{CLUSTER}/plans/{}", successor["id"].as_str().unwrap());
    let body = r#"{"revert_intent":true,"reason":"no"}"#;
    let rejected = server.as_role(Role::Approver, "POST", &format!("{href}/rejection"), body).await;
    assert_eq!(
        ("rejected", "no"),
        (
            rejected.json()["plan"]["state"].as_str().unwrap(),
            rejected.json()["plan"]["ended"]["reason"].as_str().unwrap(),
        )
    );
    let twice = server.as_role(Role::Operator, "POST", &format!("{href}/withdrawal"), "").await;
    assert_eq!("plan-state", twice.problem(409));
    assert_eq!("rejected", twice.json()["state"]);
}

#[tokio::test]
async fn slots_and_keys_are_looked_up() {
    let server = Server::start().await;
    server.import_two().await;
    let slot = server.send(Role::Client, "GET", &format!("{CLUSTER}/slots/8192"), &[], b"").await.json();
    assert_eq!(
        ("b".repeat(40), "10.0.0.2"),
        (slot["shard"].as_str().unwrap().to_owned(), slot["primary"]["host"].as_str().unwrap(),)
    );
    // From the Redis Cluster specification: `redis-cli cluster keyslot` of these keys.
    for (key, expected) in [("123456789", 12739), ("foo", 12182), ("%7Bfoo%7Dbar", 12182), ("a%00b", u64::MAX)] {
        let answer = server.get(&format!("{CLUSTER}/keyslot?key={key}")).await.json();
        if expected != u64::MAX {
            assert_eq!(expected, answer["slot"]["slot"].as_u64().unwrap(), "{key}");
        }
    }
    let why = server.get(&format!("{CLUSTER}/slots/1/explain")).await.json();
    assert!(!why["because"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn a_plan_is_explained_per_slot_and_per_shard() {
    let server = Server::start().await;
    server.import_two().await;
    let (href, _) = proposed(&server).await;
    let slot = server.get(&format!("{href}/explain?slot=1")).await.json();
    assert_eq!(1, slot["slot"]);
    assert!(slot["because"][0].as_str().unwrap().starts_with("slot 1 "), "{slot}");
    let shard = server.get(&format!("{href}/explain?shard={}", "a".repeat(40))).await.json();
    assert!(shard["because"][0].as_str().unwrap().contains(" of 16384 slots, its band "), "{shard}");
    assert_eq!("not-found", server.get(&format!("{href}/explain?shard=nobody")).await.problem(404));
    for query in ["", "?slot=1&shard=a", "?slot=01", "?slot=16384", "?plan=1"] {
        let answer = server.get(&format!("{href}/explain{query}")).await;
        assert!(matches!(answer.status, 400 | 422), "{query}: {}", answer.status);
    }
    let place = r#"{"placement":{"replicas":1,"spread":"zone"}}"#;
    let refused = server.as_role(Role::Operator, "POST", &format!("{CLUSTER}/plans?dry_run=true"), place).await;
    let detail = refused.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert!(refused.status == 422 && detail.contains("is not known"), "{} {detail}", refused.status);
    assert_eq!("placement", refused.json()["field"]);
    let none = r#"{"placement":{"replicas":0,"spread":"zone"}}"#;
    let refused = server.as_role(Role::Operator, "POST", &format!("{CLUSTER}/plans?dry_run=true"), none).await;
    assert_eq!("invalid", refused.problem(422));
    assert_eq!("placement.replicas", refused.json()["field"]);
}

#[tokio::test]
async fn movers_touch_no_cluster_that_moves_by_itself() {
    let server = Server::start_with(crate::server::ServerConfig::default(), DriverKind::Flip).await;
    server.import_two().await;
    let (href, _) = proposed(&server).await;
    let answer = server.as_role(Role::Mover, "POST", &format!("{href}/rollout/actions/a-1/done"), "").await;
    assert_eq!("conflict", answer.problem(409));
    for (action, field) in [("1", "action"), ("a-x", "action"), ("a--1", "action"), ("a-01", "action")] {
        let answer = server.as_role(Role::Mover, "POST", &format!("{href}/rollout/actions/{action}/done"), "").await;
        assert_eq!("invalid", answer.problem(422));
        assert_eq!(field, answer.json()["field"]);
    }
}

#[tokio::test]
async fn members_are_named_in_one_way_and_dialled_at_an_address() {
    let server = Server::start().await;
    for number in ["01", "+1", "x", "18446744073709551616"] {
        let answer = server.as_role(Role::Admin, "POST", &format!("/v1/members/{number}/promote"), "").await;
        assert_eq!(("invalid", "member"), (answer.problem(422).as_str(), answer.json()["field"].as_str().unwrap()));
    }
    for address in ["", "x", ":1", "x:0", "x:65536", "x:080", "x:+80"] {
        let body = json!({"peer_address": address}).to_string();
        let answer = server.as_role(Role::Admin, "POST", "/v1/members", &body).await;
        let named = (answer.problem(422), answer.json()["field"].clone());
        assert_eq!(("invalid", "peer_address"), (named.0.as_str(), named.1.as_str().unwrap()));
    }
}

#[tokio::test]
async fn outside_of_its_time_windows_a_rollout_waits_and_says_until_when() {
    let server = Server::start().await;
    server.import_two().await;
    // One of the two is closed, whenever this runs.
    let windows = ["mon 00:00-00:01", "thu 00:00-00:01"];
    let closed = windows.into_iter().find(|text| !is_open(&[text.parse().unwrap()], server.controller.now())).unwrap();
    let patch = |windows: Value| json!({"policy": {"limits": {"windows": windows}}}).to_string();
    let configure = async |revision: &str, windows: Value| {
        let head = ["content-type: application/json", revision];
        server.send(Role::Admin, "PATCH", CLUSTER, &head, patch(windows).as_bytes()).await
    };
    let bad = configure("if-match: \"r1\"", json!(["mon 25:00-26:00"])).await;
    assert_eq!("invalid", bad.problem(422));
    assert_eq!("policy.limits.windows[0]", bad.json()["field"]);
    let set = configure("if-match: \"r1\"", json!([closed])).await.json();
    assert_eq!(json!([closed]), set["cluster"]["policy"]["limits"]["windows"]);
    // A plan may only be narrower.
    let wider = json!({"add": [{"host": "10.0.0.4", "port": 7000}], "limits": {"windows": []}}).to_string();
    let refused = server.as_role(Role::Operator, "POST", &format!("{CLUSTER}/plans"), &wider).await;
    assert_eq!("plan.limits.windows", {
        refused.problem(422);
        refused.json()["field"].clone()
    });

    let (href, plan) = proposed(&server).await;
    assert_eq!(json!([closed]), plan["limits"]["windows"]);
    let approval = json!({"digest": plan["digest"]}).to_string();
    server.as_role(Role::Approver, "POST", &format!("{href}/approvals"), &approval).await;
    let started = server.as_role(Role::Operator, "POST", &format!("{href}/rollout"), "").await;
    assert_eq!(201, started.status, "a rollout may start: it waits by itself");
    let until = started.json()["rollout"]["waits_until"].as_str().unwrap().to_owned();
    assert!(until.ends_with("T00:00:00Z"), "{until}");
    let begin = format!("{href}/rollout/actions/a-1/begin");
    let early = server.as_role(Role::Mover, "POST", &begin, "").await;
    assert_eq!("action-refused", early.problem(409));
    assert!(early.json()["detail"].as_str().unwrap().contains("time windows"), "{}", early.json());
    assert_eq!("running", server.get(&format!("{href}/rollout")).await.json()["state"]);
}
