//! SIGSTOP and SIGCONT: a process that stands still and goes on as if nothing had happened.

use super::*;
use crate::e2e::faults::registers::Registers;
use crate::e2e::{CLUSTER, approve_and_start, counts, import, propose, rollout, set_limits, target, until_slots_done};
use crate::e2e::{Watcher, until_state};

/// How often a follower stands still.
const FLAPS: usize = 5;

/// Starts the rollout of 4096 slots to a new shard, at this pace; the plan.
pub async fn start_rollout(member: &Member, limits: Value) -> Value {
    import(member, "01-3m3r.nodes.txt").await;
    set_limits(member, limits).await;
    let answer = member.get(CLUSTER).await;
    let etag = answer.headers["etag"].to_str().unwrap().to_owned();
    let alone = json!({"policy": {"author_may_approve": true}});
    member.request_with(Method::PATCH, CLUSTER, Some(alone), &[("if-match", &etag)]).await.unwrap().expect(200);
    let plan = propose(member, json!({"add": [{"name": "new-1", "host": "127.0.0.1", "port": 21003}]})).await;
    approve_and_start(member, member, &plan).await;
    plan
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stood_still_for_ten_seconds_does_nothing_when_it_wakes() {
    let trial =
        Trial::with(3, None, vec![("SLOTKEEPER_LOG".into(), "info,openraft=warn,slotkeeper::executor=debug".into())])
            .await;
    let registers = Registers::start(&trial, 3).await;
    let before = trial.leader().await;
    let others = [(before.0 + 1) % 3, (before.0 + 2) % 3];
    let member = trial.member(others[0]);
    let plan = start_rollout(member, json!({"slots_per_second": 250})).await;
    let urls = others.iter().map(|&index| trial.member(index).url.clone()).collect();
    let watcher = Watcher::start(urls, member.token.clone());
    until_slots_done(member, &plan, 200).await;

    trial.signal("STOP", before.0);
    let stopped = Instant::now();
    // Waiting in its socket while it stands still.
    let body = json!({"name": "asked-while-asleep", "driver": "flip"});
    let asked = trial.member(before.0).request(Method::POST, "/v1/clusters", Some(body));
    let meanwhile = async {
        trial.successor(&others, before).await;
        registers.go_on(&trial, 20).await;
        let done = rollout(member, &plan).await["progress"]["slots_done"].as_u64().unwrap();
        until_slots_done(member, &plan, done + 200).await;
        trial.note(format!("the successor goes on from {done} slots after {:?}", stopped.elapsed()));
        tokio::time::sleep(Duration::from_secs(10).saturating_sub(stopped.elapsed())).await;
        trial.signal("CONT", before.0);
    };
    let (asked, ()) = tokio::join!(asked, meanwhile);
    let asked = asked.unwrap();
    trial.note(format!("what was asked meanwhile is answered {}", asked.status));
    assert!([201, 503].contains(&asked.status.as_u16()), "{asked:?}");

    // It knows that it leads no more, and its executor rests, though the rollout is under way.
    eventually("it has woken to the new term", || async {
        let status = trial.status(before.0).await?;
        (status["term"].as_u64()? > before.1 && status["role"] == "follower").then_some(())
    })
    .await;
    let awake = trial.member(before.0).log_text().len();
    let done = rollout(member, &plan).await["progress"]["slots_done"].as_u64().unwrap();
    until_slots_done(member, &plan, done + 200).await;
    let since = trial.member(before.0).log_text()[awake..].to_owned();
    assert!(!since.contains("slotkeeper::executor"), "the executor of a follower: {since}");
    until_state(member, &plan, "succeeded").await;
    assert_eq!(counts(member).await, target(&plan));
    watcher.finish();

    let (audit, term) = registers.finish(&trial).await;
    assert!(term <= before.1 + 3, "from term {} to {term}", before.1);
    let created = audit.iter().filter(|record| record["cluster"] == "asked-while-asleep").count();
    assert!(if asked.status == 201 { created == 1 } else { created <= 1 }, "{created} times");
    let completed = audit.iter().filter(|record| record["action"] == "rollout.complete").count();
    assert_eq!(completed, 1, "completed {completed} times");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_stands_still_every_other_second_costs_neither_writes_nor_terms() {
    let trial = Trial::start().await;
    let registers = Registers::start(&trial, 3).await;
    registers.go_on(&trial, 10).await;
    let before = trial.leader().await;
    let follower = (before.0 + 1) % 3;
    let pace = async || {
        let before = registers.written();
        tokio::time::sleep(Duration::from_secs(1)).await;
        registers.written() - before
    };
    let (mut moving, mut still) = (0, 0);
    for _ in 0..FLAPS {
        moving += pace().await;
        trial.signal("STOP", follower);
        still += pace().await;
        trial.signal("CONT", follower);
    }
    trial.note(format!("{moving} writes while the follower moves, {still} while it stands still"));
    assert!(still >= moving / 4, "a follower costs the others their writes: {moving} became {still}");
    trial.undisturbed(before, 1, "a follower that stands still again and again").await;

    // A flapping leader is replaced each time that it stands still, and that is all.
    let first = trial.leader().await;
    for _ in 0..3 {
        let before = trial.leader().await;
        trial.signal("STOP", before.0);
        let others = [(before.0 + 1) % 3, (before.0 + 2) % 3];
        trial.successor(&others, before).await;
        registers.go_on(&trial, 5).await;
        trial.signal("CONT", before.0);
        eventually("it has woken to the new term", || async {
            (trial.status(before.0).await?["term"].as_u64()? > before.1).then_some(())
        })
        .await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    registers.go_on(&trial, 10).await;
    // Three elections, of which one or another was split.
    trial.undisturbed(first, 3 + 2, "a leader that stands still three times").await;
    let topology = trial.member(0).get("/v1/clusters/registers/topology?consistency=linearizable").await.expect(200);
    let (audit, _) = registers.finish(&trial).await;
    let visible = audit.iter().filter(|record| record["cluster"] == "registers").count() as u64;
    let epoch = topology["epoch"].as_u64().unwrap();
    assert!(epoch <= visible, "{epoch} epochs for {visible} changes");
}
