//! Snapshots on a slow way to a member that joins, while those that send them go on.

use std::collections::BTreeMap;
use std::time::Duration;

use slotkeeper::domain::MemberId;
use slotkeeper::raft::{Config, GroupChange, Join, Tuning};
use slotkeeper::state::Command;
use tempfile::TempDir;

use crate::network::Network;
use crate::raft::{Member, config, create, eventually, first_entry, leader_of, must_submit, quick, same_state, turn};

/// Turns whose records make a snapshot of more than two pieces of 1 MiB.
const TURNS: usize = 1_600;

/// A turn with a reason of 1 KiB, which stays in the audit.
fn heavy(number: usize) -> Command {
    Command { reason: Some("x".repeat(1024)), ..turn(number) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_purged_while_its_snapshot_goes_a_slow_way_keeps_no_learner_out_and_no_commit_waiting() {
    let network = Network::start(3).await;
    let setting = network.setting();
    let address = |port: u16| format!("127.0.0.1:{port}");
    let dirs: Vec<TempDir> = (0..3).map(|_| TempDir::new().unwrap()).collect();
    let first: BTreeMap<MemberId, String> =
        (1..).zip(setting.advertised[..2].iter().map(|&port| address(port))).collect();
    let tuning = Tuning { snapshot_every: 150, entries_kept: 20, ..quick() };
    let of = |index: usize| Config {
        member_id: Some(index as MemberId + 1),
        tuning: tuning.clone(),
        ..config(dirs[index].path(), address(setting.peers[index]).parse().unwrap())
    };
    let mut members = Vec::new();
    for index in 0..2 {
        members.push(Member::start(Config { initial_members: first.clone(), ..of(index) }).await);
    }
    must_submit(&members[0].raft, &create("first")).await;
    let leader = leader_of(&members).await;
    let raft = members[leader].raft.clone();
    let turns: Vec<Command> = (0..TURNS).map(heavy).collect();
    for turn in &turns {
        must_submit(&raft, turn).await;
    }

    // It stands still when one piece is there and the second is to be sent, until the log has gone on without it.
    // Whoever leads by then.
    let ways = vec![(0, 2), (1, 2)];
    let cut = ways.clone();
    network.trip(r#""offset":1048576"#, vec![2], move |_| cut.clone());
    let join = Join { group_id: raft.status().group_id, member_id: 3, members: first.clone() };
    let learner = Member::start(Config { join: Some(join), ..of(2) }).await;
    raft.change_group(GroupChange::AddLearner { id: 3, address: address(setting.advertised[2]) }).await.unwrap();
    eventually("half of the snapshot is there", || async { network.tripped().is_some() }).await;
    let sent_at = raft.status().applied;
    let mut number = TURNS;
    while first_entry(dirs[leader].path()).is_none_or(|first| first <= sent_at + 1) {
        must_submit(&raft, &heavy(number)).await;
        number += 1;
        assert!(number < TURNS + 2_000, "nothing is purged");
    }
    assert_eq!(learner.raft.status().applied, 0, "the learner has nothing yet");

    // From here on the way is slow, and the group is not at rest.
    network.heal();
    for &(from, to) in &ways {
        network.delay(from, to, Duration::from_millis(10));
    }
    let goal = raft.status().applied;
    eventually("the learner has caught up", || {
        number += 1;
        let (raft, learner, command) = (&raft, &learner, heavy(number - 1));
        async move {
            must_submit(raft, &command).await;
            tokio::time::sleep(Duration::from_millis(15)).await;
            learner.raft.status().applied > goal
        }
    })
    .await;
    network.heal();
    learner.recovered().await;
    members.push(learner);
    same_state(&members).await;
    let audit = members[leader].raft.audit(0, 10_000).await.unwrap();
    assert_eq!(audit.len(), number + 1, "every commit was taken");
    for member in &members {
        assert_eq!(member.raft.audit(0, 10_000).await.unwrap(), audit);
    }
    for member in members {
        member.stop().await;
    }
}
