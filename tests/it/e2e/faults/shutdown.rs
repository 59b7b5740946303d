//! SIGTERM while clients wait.

use super::*;

/// What a shutdown may take: 2 s for what is under way; the rest is for a slow machine.
const ENDS_WITHIN: Duration = Duration::from_secs(6);

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_wait_are_answered_when_the_member_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut member = Member::dev(folder.path());
    member.ready().await;
    let now = member.get("/v1/clusters/default/topology?consistency=linearizable").await.expect(200);
    let url =
        format!("{}/v1/clusters/default/topology?after={}.{}&wait=50", member.url, now["generation"], now["epoch"]);
    let client = reqwest::Client::new();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..200 {
        waiting.spawn(client.get(&url).send());
    }
    eventually("all of them wait", || async {
        (member.get("/v1/status").await.expect(200)["waiting"] == 200).then_some(())
    })
    .await;
    let started = Instant::now();
    let status = tokio::task::spawn_blocking(move || member.terminate()).await.unwrap();
    let took = started.elapsed();
    assert!(status.success(), "{status}");
    assert!(took < ENDS_WITHIN, "{took:?}");
    let answers = waiting.join_all().await;
    for answer in answers {
        assert_eq!(answer.expect("an answer, not a broken connection").status(), 204);
    }
}
