//! Snapshots on a slow way to a member that joins, while those that send them go on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use slotkeeper::domain::MemberId;
use slotkeeper::raft::{Config, GroupChange, Join, Raft, Tuning};
use slotkeeper::state::Command;
use tempfile::TempDir;

use crate::network::Network;
use crate::raft::{Member, config, create, eventually, first_entry, leader_of, must_submit, quick, same_state, turn};

/// Turns whose records make a snapshot of more than two pieces of 1 MiB.
const TURNS: usize = 1_600;

/// No machine is so slow.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(60);

/// A turn with a reason of 1 KiB, which stays in the audit.
fn heavy(number: usize) -> Command {
    Command { reason: Some("x".repeat(1024)), ..turn(number) }
}

/// A group of two behind proxies and what a third needs to join it.
struct Scene {
    network: Network,
    dirs: Vec<TempDir>,
    members: Vec<Member>,
    leader: usize,
    joining: Config,
    /// Turns that were submitted.
    turns: usize,
}

impl Scene {
    /// With a snapshot of more than two pieces.
    async fn start(tuning: Tuning) -> Self {
        let network = Network::start(3).await;
        let setting = network.setting();
        let address = |port: u16| format!("127.0.0.1:{port}");
        let dirs: Vec<TempDir> = (0..3).map(|_| TempDir::new().unwrap()).collect();
        let first: BTreeMap<MemberId, String> =
            (1..).zip(setting.advertised[..2].iter().map(|&port| address(port))).collect();
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
        let join = Join { group_id: members[0].raft.status().group_id, member_id: 3, members: first.clone() };
        let joining = Config { join: Some(join), ..of(2) };
        let mut scene = Self { network, dirs, members, leader, joining, turns: 0 };
        while scene.turns < TURNS {
            scene.turn().await;
        }
        scene
    }

    fn raft(&self) -> &Raft {
        &self.members[self.leader].raft
    }

    async fn turn(&mut self) {
        must_submit(self.raft(), &heavy(self.turns)).await;
        self.turns += 1;
    }

    /// The third joins, and its snapshot stands still on its way: one piece is there, and the second is to be sent. It may be
    /// that nothing else comes from the others either.
    async fn join(&self, silent: bool) -> Member {
        let second = r#""offset":1048576"#;
        if silent {
            // Whoever leads by then.
            self.network.trip(second, vec![2], |_| vec![(0, 2), (1, 2)]);
        } else {
            self.network.stall(second, 2);
        }
        let learner = Member::start(self.joining.clone()).await;
        let address = format!("127.0.0.1:{}", self.network.setting().advertised[2]);
        self.raft().change_group(GroupChange::AddLearner { id: 3, address }).await.unwrap();
        eventually("half of the snapshot is there", || async { self.network.tripped().is_some() }).await;
        learner
    }

    /// All have the same, every commit of it.
    async fn finish(mut self, learner: Member) {
        self.network.heal();
        learner.recovered().await;
        self.members.push(learner);
        same_state(&self.members).await;
        let audit = self.raft().audit(0, 10_000).await.unwrap();
        assert_eq!(audit.len(), self.turns + 1, "every commit was taken");
        for member in &self.members {
            assert_eq!(member.raft.audit(0, 10_000).await.unwrap(), audit);
        }
        for member in self.members {
            member.stop().await;
        }
    }
}

/// More is written while a snapshot is on its way than a log keeps: without a hand over it the next one is needed when
/// this one is there, and the one after that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_takes_longer_than_the_log_is_kept_is_the_only_one_that_is_sent() {
    let mut scene = Scene::start(Tuning { snapshot_every: 100, entries_kept: 50, ..quick() }).await;
    scene.network.record();
    let learner = scene.join(false).await;
    let sent_at = scene.raft().status().applied;
    // Beyond what is kept, and below the bound of what is kept for one that is on its way.
    while scene.raft().status().applied < sent_at + 600 {
        scene.turn().await;
    }
    // Time for what may go to go: as long as the other log needs, for which nobody is on the way.
    let follower = scene.dirs[1 - scene.leader].path().to_owned();
    eventually("the follower's log is short", || async {
        first_entry(&follower).is_some_and(|first| first > sent_at + 1)
    })
    .await;
    assert!(first_entry(scene.dirs[scene.leader].path()).unwrap() <= sent_at + 1, "the leader's log is not");
    scene.network.heal();
    let goal = scene.raft().status().applied;
    eventually("the learner has caught up", || async { learner.raft.status().applied >= goal }).await;
    let sent = snapshots_sent(&scene.network);
    assert_eq!(sent.len(), 1, "{sent:?}");
    // Nobody is waited for any more: the log is as short as ever, with what is written next.
    while first_entry(scene.dirs[scene.leader].path()).is_none_or(|first| first <= sent_at + 1) {
        scene.turn().await;
        assert!(scene.turns < TURNS + 2_000, "the leader's log stays long");
    }
    scene.finish(learner).await;
}

/// The checksums of the snapshots of which a piece with something in it was sent to the third.
fn snapshots_sent(network: &Network) -> BTreeSet<String> {
    let recorded = network.recorded();
    let pieces = recorded.iter().filter(|request| request.to == 2 && request.verb == "snapshot");
    let heads = pieces.map(|request| {
        let head = request.body().split(|&byte| byte == b'\n').next().unwrap();
        serde_json::from_slice::<serde_json::Value>(head).unwrap()
    });
    heads.filter(|head| head["offset"] != 0).map(|head| head["sha256"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_purged_while_its_snapshot_goes_a_slow_way_keeps_no_learner_out_and_no_commit_waiting() {
    let mut scene = Scene::start(Tuning { snapshot_every: 150, entries_kept: 20, ..quick() }).await;
    let learner = scene.join(true).await;
    let sent_at = scene.raft().status().applied;
    // Nobody is waited for without bound.
    while first_entry(scene.dirs[scene.leader].path()).is_none_or(|first| first <= sent_at + 1) {
        scene.turn().await;
        assert!(scene.turns < TURNS + 2_000, "nothing is purged");
    }
    assert_eq!(learner.raft.status().applied, 0, "the learner has nothing yet");

    // From here on the way is slow, and the group is not at rest.
    scene.network.heal();
    for from in [0, 1] {
        scene.network.delay(from, 2, Duration::from_millis(10));
    }
    let goal = scene.raft().status().applied;
    let deadline = Instant::now() + CAUGHT_UP_WITHIN;
    while learner.raft.status().applied <= goal {
        scene.turn().await;
        tokio::time::sleep(Duration::from_millis(15)).await;
        assert!(Instant::now() < deadline, "the learner does not catch up");
    }
    scene.finish(learner).await;
}
