//! kill -9 of the only member, in the middle of a rollout.

use serde_json::json;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn the_only_member_killed_in_mid_rollout_goes_on_and_no_epoch_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut member = Member::dev(folder.path());
    member.ready().await;
    import(&member, "01-3m3r.nodes.txt").await;
    set_limits(&member, json!({"slots_per_second": 1000, "overlap_ms": 20})).await;
    let add = json!({"add": [
        {"name": "new-1", "host": "127.0.0.1", "port": 21003},
        {"name": "new-2", "host": "127.0.0.1", "port": 21004},
    ]});
    let plan = propose(&member, add).await;
    let watcher = Watcher::start(vec![member.url.clone()], String::new());
    approve_and_start(&member, &member, &plan).await;

    let total = plan["summary"]["slots"].as_u64().unwrap();
    for part in 1..=3 {
        until_slots_done(&member, &plan, total * part / 4).await;
        member.kill_9();
        member.start();
        member.ready().await;
    }
    until_state(&member, &plan, "succeeded").await;
    assert_eq!(counts(&member).await, target(&plan));
    let seen = watcher.finish();
    assert!(seen.len() > 10, "{seen:?}");
    audit_is_whole(&member).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_write_survives_kill_9_and_a_retry_is_answered_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut member = Member::dev(folder.path());
    member.ready().await;
    let body = json!({"name": "kept", "driver": "flip"});
    let key = [("idempotency-key", "create-kept")];
    let path = "/v1/clusters";
    let first = member.request_with(Method::POST, path, Some(body.clone()), &key).await.unwrap().expect(201);
    member.kill_9();
    member.start();
    member.ready().await;
    let again = member.request_with(Method::POST, path, Some(body.clone()), &key).await.unwrap();
    assert!(again.status.is_success(), "{again:?}");
    assert_eq!(again.body["generation"], first["generation"]);
    let other = json!({"name": "kept", "driver": "manual"});
    let refused = member.request_with(Method::POST, path, Some(other), &key).await.unwrap();
    assert_eq!(refused.status, 422, "{}", refused.body);
    let plain = member.post(path, body).await;
    assert_eq!(plain.status, 409, "{}", plain.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_it_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let mut member = Member::dev(folder.path());
    member.ready().await;
    let status = member.terminate();
    assert!(status.success(), "{status}\n{}", member.log_text());
    member.start();
    member.ready().await;
}
