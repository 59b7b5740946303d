//! Stores that are copied, put back, emptied or cut: refused by the peers or by the member itself, and never at the
//! expense of those that are as they should be.

use serde_json::json;

use super::group::copy_dir;
use super::*;
use crate::harness::{Group, free_port};
use crate::network::{Network, Recorded};

/// What is done to a database and its write-ahead log.
type Damage = fn(&std::path::Path, &std::path::Path);

async fn create(member: &Member, name: &str) {
    member.post("/v1/clusters", json!({"name": name, "driver": "flip"})).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_runs_elsewhere_is_refused_and_the_original_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut group = Group::start(folder.path(), [0, 1, 2]).await;
    let leader = group.leader().await;
    let follower = (leader + 1) % 3;
    let copy_at = folder.path().join("copy");
    copy_dir(&group.members[follower].data_dir(), &copy_at);
    let list = group.members[follower].argument("--initial-members");
    let (peer, id) = (format!("127.0.0.1:{}", free_port()), (follower + 1).to_string());
    let args = ["--peer-listen", &peer, "--member-id", &id, "--initial-members", &list];
    let mut copy = Member::serve_with(folder.path(), "copy", &args);
    assert_eq!(end_of(&mut copy).await, 10, "{}", copy.log_text());
    assert!(copy.log_text().contains("this is an old store or a copy"), "{}", copy.log_text());
    // The refusal is kept: the next start does not even ask.
    copy.start();
    assert_eq!(end_of(&mut copy).await, 10);
    assert!(copy.log_text().contains("is not to be used any more"), "{}", copy.log_text());

    for member in &group.members {
        create(member, &format!("by-{}", member.url.rsplit(':').next().unwrap())).await;
    }
    for member in &mut group.members {
        assert_eq!(member.ended(), None);
    }
}

/// Nobody saw another start of the member in between: only what it acknowledged tells.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_put_back_behind_what_it_acknowledged_is_refused_by_a_leader_that_lives() {
    let folder = tempfile::tempdir().unwrap();
    let mut group = Group::start(folder.path(), [0, 1, 2]).await;
    let leader = group.leader().await;
    let follower = (leader + 1) % 3;
    let (dir, old) = (group.members[follower].data_dir(), folder.path().join("old"));
    group.members[follower].signal("STOP");
    copy_dir(&dir, &old);
    group.members[follower].signal("CONT");
    for number in 0..5 {
        create(&group.members[follower], &format!("c{number}")).await;
    }
    assert_eq!(group.leader().await, leader, "the same leader, or nobody could know");
    group.members[follower].kill_9();
    std::fs::remove_dir_all(&dir).unwrap();
    copy_dir(&old, &dir);
    group.members[follower].start();
    assert_eq!(end_of(&mut group.members[follower]).await, 10, "{}", group.members[follower].log_text());
    assert!(group.members[follower].log_text().contains("refuses this member"));
    for index in [leader, (leader + 2) % 3] {
        assert_eq!(group.members[index].ended(), None, "the others live");
        create(&group.members[index], &format!("after-{index}")).await;
    }
    let text = group.members[leader].log_text();
    assert!(!text.contains("panicked"), "{text}");
}

/// Whether one member has told another that everything up to an index is committed and on its disk.
fn has_told(network: &Network, from: usize, to: usize, index: u64) -> bool {
    let between = |one: &&Recorded| one.from == from && one.to == to;
    network.recorded().iter().filter(between).any(|one| {
        let head = String::from_utf8_lossy(&one.bytes).to_ascii_lowercase();
        let reach = head.lines().find_map(|line| line.strip_prefix("x-slotkeeper-reach: ")?.split_once('/'));
        reach.is_some_and(|(_, durable)| durable.parse::<u64>().unwrap() >= index)
    })
}

/// The leader that had its word is not there any more, and its starts say nothing: what it told the others of itself does.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_put_back_while_the_leader_changes_is_refused_by_whoever_heard_how_far_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::start(3).await;
    let mut group = Group::start_with(folder.path(), &[0, 1, 2], network.setting()).await;
    let leader = group.leader().await;
    let (follower, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let (dir, old) = (group.members[follower].data_dir(), folder.path().join("old"));
    group.members[follower].signal("STOP");
    copy_dir(&dir, &old);
    group.members[follower].signal("CONT");
    for number in 0..5 {
        create(&group.members[follower], &format!("c{number}")).await;
    }
    let applied = group.members[follower].get("/v1/status").await.expect(200)["applied"].as_u64().unwrap();
    network.record();
    eventually("the others know how far it is", || async {
        [leader, other].iter().all(|&to| has_told(&network, follower, to, applied)).then_some(())
    })
    .await;
    group.members[follower].kill_9();
    group.members[leader].kill_9();
    std::fs::remove_dir_all(&dir).unwrap();
    copy_dir(&old, &dir);
    // Neither who led nor anybody else has a word of this term from it.
    group.members[leader].start();
    group.members[follower].start();
    assert_eq!(end_of(&mut group.members[follower]).await, 10, "{}", group.members[follower].log_text());
    assert!(group.members[follower].log_text().contains("this is an old store or a copy"));
    for index in [leader, other] {
        create(&group.members[index], &format!("after-{index}")).await;
        assert_eq!(group.members[index].ended(), None, "the others live");
        for number in 0..5 {
            group.members[index].get(&format!("/v1/clusters/c{number}")).await.expect(200);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_or_cut_store_is_not_taken_for_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut member = Member::dev(folder.path());
    member.ready().await;
    create(&member, "kept").await;
    // A young store has nearly everything in its write-ahead log.
    member.kill_9();
    let (database, log) = (member.data_dir().join("slotkeeper.db"), member.data_dir().join("slotkeeper.db-wal"));
    let whole = (std::fs::read(&database).unwrap(), std::fs::read(&log).unwrap());
    assert!(whole.1.len() > whole.0.len(), "{} {}", whole.0.len(), whole.1.len());
    let damages: [(&str, Damage); 3] = [
        ("the log removed", |_, log| std::fs::remove_file(log).unwrap()),
        ("the database emptied", |database, log| {
            std::fs::write(database, "").unwrap();
            std::fs::remove_file(log).unwrap();
        }),
        ("the database removed", |database, log| {
            std::fs::remove_file(database).unwrap();
            std::fs::remove_file(log).unwrap();
        }),
    ];
    for (what, damage) in damages {
        damage(&database, &log);
        member.start();
        assert_eq!(end_of(&mut member).await, 10, "{what}: {}", member.log_text());
        let text = member.log_text();
        let last = text.lines().last().unwrap_or_default();
        assert!(last.contains("slotkeeper.db") && last.contains("slotkeeper.member"), "{what}: {last}");
        for (path, bytes) in [(&database, &whole.0), (&log, &whole.1)] {
            std::fs::write(path, bytes).unwrap();
        }
        drop(std::fs::remove_file(member.data_dir().join("slotkeeper.db-shm")));
    }
    member.start();
    member.ready().await;
    assert_eq!(member.get("/v1/clusters/kept").await.status, 200, "as it was, it starts");
}
