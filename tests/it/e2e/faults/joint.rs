//! The leader killed in the middle of a change of who has a vote: raft changes them in two steps, through a
//! configuration that needs the majorities of both sets. Whoever leads next finishes the change or takes it back, and
//! never leaves the group between the two.

use super::*;
use crate::e2e::membership::{joiner, listed};

/// The two steps from three voters to four, as they are written in entries.
const JOINT: &str = r#""configs":[[1,2,3],[1,2,3,4]]"#;
const UNIFORM: &str = r#""configs":[[1,2,3,4]]"#;

/// Three voters, and a learner that has caught up.
async fn three_and_a_learner() -> Trial {
    let mut trial = Trial::with(3, Some(Network::start(4).await), Vec::new()).await;
    let setting = trial.network().setting().clone();
    let asked = trial.member(0);
    let (mut learner, _) = joiner(trial.folder.path(), "member-4", &asked.url, &asked.token, setting.peers[3]);
    let body = json!({"peer_address": format!("127.0.0.1:{}", setting.advertised[3])});
    let added = asked.post("/v1/members", body).await.expect(201);
    std::fs::write(learner.argument("--join-token-file"), added["token"].as_str().unwrap()).unwrap();
    let mode = std::process::Command::new("chmod").args(["600", &learner.argument("--join-token-file")]).status();
    assert!(mode.unwrap().success());
    learner.start();
    trial.group.members.push(learner);
    eventually("the learner has caught up", || async {
        let members = trial.member(0).get("/v1/members").await.expect(200);
        let learner = members["items"].as_array().unwrap().iter().find(|member| member["id"] == 4)?;
        (learner["standing"] == "learner" && learner["lag"].as_u64()? == 0).then_some(())
    })
    .await;
    trial
}

/// Asks for a vote for member 4 and kills the leader when it is about to send this to one of some: what is not cut, of the
/// ways between the leader and the others, arrives. The one that was killed, and the term before.
async fn kill_in_mid_change(
    trial: &mut Trial,
    text: &str,
    to: Vec<usize>,
    cut: fn(usize, usize) -> Vec<(usize, usize)>,
) -> (usize, u64) {
    let before = trial.leader().await;
    trial.network().trip(text, to, move |leader| {
        (0..4).filter(|&other| other != leader).flat_map(|other| cut(leader, other)).collect()
    });
    let url = format!("{}/v1/members/4/promote", trial.member(before.0).url);
    let request = reqwest::Client::new().post(url).bearer_auth(&trial.member(0).token);
    // Refused while the learner does not answer in time, as on a machine with too much to do.
    let asking = tokio::spawn(async move {
        while request.try_clone().expect("it has no body").send().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let leader = eventually("the change is on its way", || async { trial.network().tripped() }).await;
    asking.abort();
    trial.note(format!("{} was about to send {text}", leader + 1));
    trial.kill(leader);
    trial.network().lose(leader);
    trial.network().heal();
    (leader, before.1)
}

/// What this member applied last of who has a vote, as its own snapshot tells.
async fn configurations(member: &Member) -> Value {
    eventually("a snapshot", || async {
        let taken = member.request(Method::POST, "/v1/snapshots", None).await.unwrap();
        (taken.status == 200).then_some(())
    })
    .await;
    let names = std::fs::read_dir(member.data_dir()).unwrap().map(|entry| entry.unwrap().path());
    let newest = names.filter(|path| path.extension().is_some_and(|kind| kind == "jsonl")).max().unwrap();
    let text = std::fs::read_to_string(newest).unwrap();
    let head: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    head["meta"]["last_membership"]["membership"]["configs"].clone()
}

/// Every running member comes to these voters.
async fn comes_to(trial: &Trial, voters: Value) {
    for index in trial.running() {
        eventually("one set of voters is left", || async {
            let found = configurations(trial.member(index)).await;
            trial.note(format!("the voters at {}: {found}", index + 1));
            (found == voters).then_some(())
        })
        .await;
    }
}

/// Afterwards: writes go on, the one that was killed is back, and the command can be given once more.
async fn can_be_repeated(mut trial: Trial, killed: (usize, u64)) {
    trial.restart(killed.0);
    trial.member(killed.0).ready().await;
    let asked = (killed.0 + 1) % 3;
    trial.member(asked).post("/v1/members/4/promote", json!({})).await.expect(200);
    comes_to(&trial, json!([[1, 2, 3, 4]])).await;
    assert!(listed(trial.member(asked)).await.iter().all(|(_, standing, _)| standing == "voter"));
    let (answer, _) = trial.create(3, "after").await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    trial.all_agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_voters_that_nobody_else_has_is_taken_back_when_the_leader_dies() {
    let mut trial = three_and_a_learner().await;
    let both_ways = |leader, other| vec![(leader, other), (other, leader)];
    let killed = kill_in_mid_change(&mut trial, JOINT, vec![0, 1, 2, 3], both_ways).await;
    trial.successor(&trial.running(), killed).await;
    let (answer, _) = trial.create((killed.0 + 1) % 3, "meanwhile").await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    comes_to(&trial, json!([[1, 2, 3]])).await;
    can_be_repeated(trial, killed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_voters_that_others_have_is_finished_when_the_leader_dies() {
    // The first step arrives at a voter and is not known to be committed; or it is, and the second one goes nowhere.
    type Cut = fn(usize, usize) -> Vec<(usize, usize)>;
    let cases: [(&str, Vec<usize>, Cut); 2] = [
        (JOINT, vec![0, 1, 2], |leader, other| vec![(other, leader)]),
        (UNIFORM, vec![0, 1, 2, 3], |leader, other| vec![(leader, other), (other, leader)]),
    ];
    for (step, to, cut) in cases {
        let mut trial = three_and_a_learner().await;
        let killed = kill_in_mid_change(&mut trial, step, to, cut).await;
        trial.successor(&trial.running(), killed).await;
        comes_to(&trial, json!([[1, 2, 3, 4]])).await;
        can_be_repeated(trial, killed).await;
    }
}
