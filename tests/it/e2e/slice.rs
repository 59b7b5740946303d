//! The main job on one member: import, plan, approve, start, and a client that sees it.

use reqwest::Method;
use serde_json::{Value, json};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn import_plan_approve_start_and_a_client_sees_every_step() {
    let folder = tempfile::tempdir().unwrap();
    let member = Member::dev(folder.path());
    member.ready().await;
    import(&member, "01-3m3r.nodes.txt").await;
    set_limits(&member, json!({"slots_per_second": 4000})).await;

    let add = json!({"add": [{"name": "new-1", "host": "127.0.0.1", "port": 21003}], "reason": "capacity"});
    let plan = propose(&member, add).await;
    // planner.md, 3→4: 4096 is the fewest.
    assert_eq!((&plan["summary"]["slots"], &plan["summary"]["lower_bound"]), (&json!(4096), &json!(4096)));
    assert_eq!(plan["state"], "proposed");

    let now = format!("{CLUSTER}/topology?consistency=linearizable");
    let before = member.get(&now).await;
    let etag = before.headers["etag"].to_str().unwrap().to_owned();
    let unchanged = member.request_with(Method::GET, &now, None, &[("if-none-match", &etag)]).await.unwrap();
    assert_eq!(unchanged.status, 304);

    let watcher = Watcher::start(vec![member.url.clone()], String::new());
    approve_and_start(&member, &member, &plan).await;
    until_state(&member, &plan, "succeeded").await;
    let end = topology(&member).await;
    assert_eq!(counts_in(&end), target(&plan));
    let last = (end["generation"].as_u64().unwrap(), end["epoch"].as_u64().unwrap());
    eventually("the client has the last epoch", || async {
        (watcher.seen.lock().unwrap().last() == Some(&last)).then_some(())
    })
    .await;
    assert!(watcher.finish().len() > 10, "a trickle, not one leap");

    let shown = member.get(&format!("{CLUSTER}/plans/{}", plan["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(shown["state"], "succeeded");
    let audit = audit_is_whole(&member).await;
    let actions: Vec<&str> = audit.iter().map(|record| record["action"].as_str().unwrap()).collect();
    for action in ["plan.approve", "rollout.start"] {
        assert!(actions.contains(&action), "{action} in {actions:?}");
    }
    assert!(audit.iter().all(|record| record["by"]["name"].is_string() && record["at"].is_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn pausing_aborting_and_rolling_back_leave_no_slot_open() {
    let folder = tempfile::tempdir().unwrap();
    let member = Member::dev(folder.path());
    member.ready().await;
    import(&member, "01-3m3r.nodes.txt").await;
    let original = counts(&member).await;
    set_limits(&member, json!({"slots_per_second": 1000, "overlap_ms": 50})).await;
    let plan = propose(&member, json!({"add": [{"name": "new-1", "host": "127.0.0.1", "port": 21003}]})).await;
    approve_and_start(&member, &member, &plan).await;
    until_slots_done(&member, &plan, 200).await;
    let path = format!("{CLUSTER}/plans/{}/rollout", plan["id"].as_str().unwrap());

    member.post(&format!("{path}/pause"), json!({"reason": "look"})).await.expect(200);
    eventually("nothing is in flight", || async {
        (rollout(&member, &plan).await["progress"]["slots_in_flight"] == 0).then_some(())
    })
    .await;
    let paused = rollout(&member, &plan).await;
    assert_eq!(paused["state"], "paused");
    let done = paused["progress"]["slots_done"].as_u64().unwrap();
    assert!((200..4096).contains(&done), "{done}");

    member.post(&format!("{path}/resume"), json!({})).await.expect(200);
    until_slots_done(&member, &plan, done + 100).await;
    let refused = member.post(&format!("{path}/rollback"), json!({})).await.expect(409);
    assert_eq!(refused["code"], "acknowledgement-missing", "rolling a flip back revives stale values");
    member.post(&format!("{path}/rollback"), json!({"acks": ["stale-cache"]})).await.expect(200);
    until_state(&member, &plan, "rolled_back").await;
    let end = topology(&member).await;
    assert_eq!(end["moving"], json!([]));
    let mut expected = original;
    expected.insert("new-1".into(), 0);
    assert_eq!(counts_in(&end), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outside_mover_carries_a_plan_out_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let mut member = Member::dev(folder.path());
    member.ready().await;
    let body = json!({"name": "hand", "driver": "manual", "policy": {"author_may_approve": true, "limits": {"slots_per_move": 1024}}});
    member.post("/v1/clusters", body).await.expect(201);
    let cluster = "/v1/clusters/hand";
    let fresh = member.get(&format!("{cluster}/topology")).await;
    assert_eq!(fresh.status, 200, "a cluster that was just created is waited for: {}", fresh.body);
    member
        .post(&format!("{cluster}/import"), Value::String(fixture("04a-hostname-set-pref-ip.nodes.txt")))
        .await
        .expect(200);
    let request = json!({"add": [{"name": "new-1", "host": "127.0.0.1", "port": 21003}]});
    let plan = member.post(&format!("{cluster}/plans"), request).await.expect(201)["plan"].clone();
    let looser = json!({"add": [{"host": "127.0.0.1", "port": 21004}], "limits": {"moves_per_source": 1000}});
    let dry = member.post(&format!("{cluster}/plans?dry_run=true"), looser.clone()).await;
    let real = member.post(&format!("{cluster}/plans"), looser).await;
    assert_eq!((dry.status.as_u16(), &dry.body["code"]), (422, &real.body["code"]), "{}", dry.body);
    let path = format!("{cluster}/plans/{}", plan["id"].as_str().unwrap());
    let acks: Vec<&Value> =
        plan["checks"].as_array().unwrap().iter().filter(|c| c["needs_ack"] == true).map(|c| &c["code"]).collect();
    let approval = json!({"digest": plan["digest"], "acks": acks});
    member.post(&format!("{path}/approvals"), approval).await.expect(200);
    member.post(&format!("{path}/rollout"), json!({})).await.expect(201);

    let first = plan["waves"][0][0].as_str().unwrap();
    let early = member.post(&format!("{path}/rollout/actions/{first}/done"), json!({})).await;
    assert_eq!(early.status, 409, "not begun yet: {}", early.body);
    let mut movers = Vec::new();
    for name in ["mover-1", "mover-2"] {
        let created = member.post("/v1/tokens", json!({"name": name, "role": "mover"})).await.expect(201);
        movers.push(created["secret"].as_str().unwrap().to_owned());
    }
    let claimed = format!("{path}/rollout/actions/{first}");
    member.token.clone_from(&movers[0]);
    member.post(&format!("{claimed}/begin"), json!({})).await.expect(200);
    member.token.clone_from(&movers[1]);
    for verb in ["begin", "done"] {
        let refused = member.post(&format!("{claimed}/{verb}"), json!({})).await.expect(409);
        assert!(refused["detail"].as_str().unwrap().contains("mover-1 has begun it"), "{refused}");
    }
    member.token.clone_from(&movers[0]);
    member.post(&format!("{claimed}/done"), json!({})).await.expect(200);
    member.post(&format!("{claimed}/begin"), json!({})).await.expect(409);
    member.token.clear();
    for action in plan["waves"].as_array().unwrap().iter().flat_map(|wave| wave.as_array().unwrap()) {
        if action == first {
            continue;
        }
        let action = format!("{path}/rollout/actions/{}", action.as_str().unwrap());
        member.post(&format!("{action}/begin"), json!({})).await.expect(200);
        let topology = member.get(&format!("{cluster}/topology?consistency=linearizable")).await.expect(200);
        assert_eq!(topology["moving"][0]["serving"], "from", "the source serves until the move is done");
        member.post(&format!("{action}/done"), json!({})).await.expect(200);
    }
    eventually("the plan has succeeded", || async {
        (member.get(&path).await.body["state"] == "succeeded").then_some(())
    })
    .await;
    assert_eq!(
        counts_in(&member.get(&format!("{cluster}/topology?consistency=linearizable")).await.expect(200)),
        target(&plan)
    );
}
