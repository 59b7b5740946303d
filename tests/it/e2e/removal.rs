//! Members that are taken out while others do not answer: what `--force` does, and what it does not do.

use serde_json::json;

use super::membership::voters;
use super::*;
use crate::harness::Group;

fn number(index: usize) -> String {
    (index + 1).to_string()
}

/// Exit code and what was said of a command that does not succeed.
fn refused(member: &Member, args: &[&str]) -> (i32, String) {
    let output = member.cli(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{args:?}: {said}");
    (output.status.code().unwrap(), said)
}

/// Until a leader says that it has not heard of this member, at all or for so long that it is taken for dead.
async fn silent(asked: &Member, index: usize) {
    eventually("its silence is noticed", || async {
        let members = asked.get("/v1/members").await.expect(200);
        let members = members["items"].as_array().unwrap();
        let led = members.iter().any(|member| member["leader"] == true);
        let heard = members[index]["last_contact_ms"].as_u64();
        (led && heard.is_none_or(|ms| ms > 2_000)).then_some(())
    })
    .await;
}

async fn creates(member: &Member, name: &str) {
    member.post("/v1/clusters", json!({"name": name, "driver": "flip"})).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_by_force_that_leaves_no_majority_says_so_and_is_done_when_the_others_are_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut group = Group::start(folder.path(), [0, 1, 2]).await;
    let leader = group.leader().await;
    let (dead, other) = ((leader + 1) % 3, (leader + 2) % 3);
    creates(&group.members[other], "before").await;
    group.members[dead].kill_9();
    silent(&group.members[leader], dead).await;

    let removal = ["member", "remove", &number(other), "--yes", "--force", "--reason", "in doubt"];
    let (code, said) = refused(&group.members[leader], &removal);
    let consequence = "1 of the 2 voters that stay answers, 2 are needed: until they do the group takes no writes";
    assert!(said.contains(&format!("warning: {consequence}")), "before it is sent: {said}");
    assert!(code == 6 && said.contains(&format!("begun, and not done: {consequence}")), "{code}: {said}");
    // As it was told: nobody takes a write, and nobody is gone.
    for index in [leader, other] {
        let body = json!({"name": "meanwhile", "driver": "flip"});
        let answer = group.members[index].request(Method::POST, "/v1/clusters", Some(body)).await.unwrap();
        assert_eq!(answer.status, 503, "{}", answer.body);
        assert_eq!(group.members[index].ended(), None);
    }

    group.members[dead].start();
    assert_eq!(end_of(&mut group.members[other]).await, 10, "{}", group.members[other].log_text());
    assert!(group.members[other].log_text().contains("was removed from the group"));
    let mut stay = vec![leader as u64 + 1, dead as u64 + 1];
    stay.sort_unstable();
    eventually("two voters are left", || async { (voters(&group.members[dead]).await == stay).then_some(()) }).await;
    group.members[leader].cli_ok(&removal);
    creates(&group.members[dead], "after").await;
    for name in ["before", "after"] {
        group.members[leader].get(&format!("/v1/clusters/{name}")).await.expect(200);
    }
    let audit = audit_is_whole(&group.members[leader]).await;
    let removals: Vec<_> = audit.iter().filter(|record| record["action"] == "member.remove").collect();
    assert_eq!(removals.len(), 1, "{removals:?}");
    assert_eq!(removals[0]["reason"], "in doubt");
    assert!(removals[0]["summary"].as_str().unwrap().contains("whether or not enough of the others answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn force_stands_in_for_no_majority_of_those_that_vote_now() {
    let folder = tempfile::tempdir().unwrap();
    let mut group = Group::start(folder.path(), [0, 1, 2]).await;
    let leader = group.leader().await;
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    let (code, said) = refused(&group.members[leader], &["member", "remove", "9", "--yes", "--force"]);
    assert_eq!(code, 5, "{said}");
    for index in others {
        group.members[index].kill_9();
    }
    let removal = ["member", "remove", &number(others[0]), "--yes", "--force"];
    let (code, said) = refused(&group.members[leader], &removal);
    assert_eq!(code, 6, "{said}");
    for index in others {
        group.members[index].start();
    }
    for member in &group.members {
        member.ready().await;
    }
    assert_eq!(voters(&group.members[leader]).await, [1, 2, 3], "nothing was begun");
    let audit = audit_is_whole(&group.members[leader]).await;
    assert!(audit.iter().all(|record| record["action"] != "member.remove"));

    // Down to one, which is the group and stays.
    for index in others {
        group.members[leader].cli_ok(&["member", "remove", &number(index), "--yes"]);
    }
    let (code, said) = refused(&group.members[leader], &["member", "remove", &number(leader), "--yes", "--force"]);
    assert!(code == 3 && said.contains("the only voter"), "{code}: {said}");
    creates(&group.members[leader], "alone").await;
}

/// Whether the member is dead or only slow is not known: it goes, and learns of it when it can.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_does_not_answer_is_removed_without_force_and_ends_when_it_wakes() {
    let folder = tempfile::tempdir().unwrap();
    let mut group = Group::start(folder.path(), [0, 1, 2]).await;
    let leader = group.leader().await;
    let asleep = (leader + 1) % 3;
    group.members[asleep].signal("STOP");
    group.members[leader].cli_ok(&["member", "remove", &number(asleep), "--yes"]);
    assert!(!voters(&group.members[leader]).await.contains(&(asleep as u64 + 1)));
    creates(&group.members[leader], "without-it").await;
    group.members[asleep].signal("CONT");
    assert_eq!(end_of(&mut group.members[asleep]).await, 10);
    assert!(group.members[asleep].log_text().contains("was removed"), "{}", group.members[asleep].log_text());
    creates(&group.members[(leader + 2) % 3], "after").await;
}
