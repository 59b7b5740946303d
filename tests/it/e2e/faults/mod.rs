//! What a group of real processes does when members are killed, stopped, cut off from each other, or told a wrong time:
//! while clients write and read. Every trial ends with the same checks.

mod chaos;
mod clocks;
mod joint;
mod kills;
mod partitions;
mod pauses;
mod registers;
mod replays;
mod shutdown;
mod slow_disks;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use slotkeeper::client::Client;
use tempfile::TempDir;

use super::audit_is_whole;
use crate::harness::{Answer, Group, Member, Setting, eventually};
use crate::network::Network;

/// A group under test. When it fails, what was done to it is printed with the logs of the members.
struct Trial {
    group: Group,
    network: Option<Network>,
    timeline: Timeline,
    /// For everything that is chosen at random.
    seed: u64,
    folder: TempDir,
}

impl Trial {
    /// Three members that reach each other directly.
    async fn start() -> Self {
        Self::with(3, None, Vec::new()).await
    }

    /// So many members with the proxies between them.
    async fn behind_proxies(count: usize) -> Self {
        Self::with(count, Some(Network::start(count).await), Vec::new()).await
    }

    async fn with(count: usize, network: Option<Network>, env: Vec<(String, String)>) -> Self {
        let (folder, timeline) = (tempfile::tempdir().unwrap(), Timeline::default());
        let mut setting = network.as_ref().map_or_else(|| Setting::direct(count), |network| network.setting().clone());
        // Those that are left over are for members that join.
        setting.peers.truncate(count);
        setting.advertised.truncate(count);
        let order: Vec<usize> = (0..count).collect();
        let group = Group::start_with(folder.path(), &order, &Setting { env, ..setting }).await;
        let given = std::env::var("SLOTKEEPER_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(rand::random);
        timeline.note(format!("the group is ready; SLOTKEEPER_SEED={seed}"));
        Self { group, network, timeline, seed, folder }
    }

    fn network(&self) -> &Network {
        self.network.as_ref().expect("a trial behind proxies")
    }

    fn note(&self, what: impl Display) {
        self.timeline.note(what);
    }

    fn member(&self, index: usize) -> &Member {
        &self.group.members[index]
    }

    fn kill(&mut self, index: usize) {
        self.note(format!("kill -9 {}", index + 1));
        self.group.members[index].kill_9();
    }

    fn restart(&mut self, index: usize) {
        self.note(format!("start {}", index + 1));
        self.group.members[index].start();
    }

    fn signal(&self, name: &str, index: usize) {
        self.note(format!("{name} {}", index + 1));
        self.member(index).signal(name);
    }

    /// A client that asks this member first, then the others.
    fn client(&self, first: usize) -> Client {
        let members = &self.group.members;
        let urls = (0..members.len()).map(|offset| members[(first + offset) % members.len()].url.clone());
        let builder = Client::builder(urls).token(members[0].token.clone());
        builder.timeout(Duration::from_secs(8)).build().unwrap()
    }

    async fn status(&self, index: usize) -> Option<Value> {
        let asked = self.member(index).request(Method::GET, "/v1/status", None);
        let answer = tokio::time::timeout(Duration::from_secs(2), asked).await.ok()?.ok()?;
        answer.status.is_success().then_some(answer.body)
    }

    /// The member that leads in the highest term by what these say, and the term.
    async fn leader_of(&self, members: &[usize]) -> (usize, u64) {
        eventually("a leader", || async {
            let mut leader = None;
            for &index in members {
                let Some(status) = self.status(index).await else { continue };
                if status["role"] == "leader" && !status["leader"].is_null() {
                    leader = leader.max(Some((status["term"].as_u64()?, index)));
                }
            }
            leader.map(|(term, index)| (index, term))
        })
        .await
    }

    async fn leader(&self) -> (usize, u64) {
        self.leader_of(&self.running()).await
    }

    /// The leader, if no more terms than this have come and gone: a fault that disturbs the leader costs one each time
    /// that it strikes, a machine with too much to do costs one now and then.
    async fn undisturbed(&self, before: (usize, u64), most: u64, what: &str) -> (usize, u64) {
        let now = self.leader().await;
        self.note(format!("{what}: from term {} to {}", before.1, now.1));
        assert!(now.1 <= before.1 + most, "{what}: the leader was disturbed, from term {} to {}", before.1, now.1);
        now
    }

    /// A leader of these other than one that led before.
    async fn successor(&self, members: &[usize], before: (usize, u64)) -> (usize, u64) {
        let started = Instant::now();
        let next = eventually("another leader", || async {
            let next = self.leader_of(members).await;
            (next.1 > before.1).then_some(next)
        })
        .await;
        self.note(format!("member {} leads in term {} after {:?}", next.0 + 1, next.1, started.elapsed()));
        next
    }

    fn running(&self) -> Vec<usize> {
        (0..self.group.members.len()).filter(|&index| self.member(index).is_running()).collect()
    }

    /// Everyone is there again, one leads, all follow it, and all have the same state to the byte and the same audit,
    /// one chain; the audit and the term.
    async fn all_agree(&self) -> (Vec<Value>, u64) {
        let term = eventually("all members have one leader and the same state", || async {
            let mut seen = BTreeSet::new();
            for index in 0..self.group.members.len() {
                let status = self.status(index).await?;
                let text = |name: &str| status[name].to_string();
                status["leader"].as_u64()?;
                seen.insert((text("leader"), status["term"].as_u64()?, text("state_hash_index"), text("state_hash")));
            }
            (seen.len() == 1).then(|| seen.first().unwrap().1)
        })
        .await;
        let mut audits = Vec::new();
        for member in &self.group.members {
            audits.push(audit_is_whole(member).await);
        }
        let audit = audits.pop().unwrap();
        assert!(audits.iter().all(|other| *other == audit), "the members' audits differ");
        self.note(format!("all agree in term {term}"));
        (audit, term)
    }

    /// One write to one member and what became of it, however long it takes; the name is the cluster's.
    async fn create(&self, index: usize, name: &str) -> (Answer, Duration) {
        let (started, body) = (Instant::now(), json!({"name": name, "driver": "flip"}));
        let answer = self.member(index).request(Method::POST, "/v1/clusters", Some(body)).await.unwrap();
        let took = started.elapsed();
        self.note(format!("creating {name} at {}: {} after {took:?}", index + 1, answer.status));
        (answer, took)
    }
}

/// What was done and seen, and when; printed when the test fails.
#[derive(Clone)]
struct Timeline {
    started: Instant,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { started: Instant::now(), notes: Arc::default() }
    }
}

impl Timeline {
    fn note(&self, what: impl Display) {
        let at = self.started.elapsed().as_secs_f64();
        self.notes.lock().unwrap().push(format!("{at:9.3} s  {what}"));
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let notes = self.timeline.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if std::thread::panicking() || std::env::var_os("SLOTKEEPER_TIMELINE").is_some() {
            eprintln!("--- timeline, in {}\n{}", self.folder.path().display(), notes.join("\n"));
        }
    }
}
