//! A running cluster of real servers, a group of three controllers that has adopted it, and a load that does not stop.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::harness::{Group, Member, PATIENCE, Setting, eventually};
use super::audit::audit;
use super::cluster::Cluster;
use super::load::{Journal, Load, Size, fill};
use super::report::Shown;
use super::server::Options;

const CLUSTER: &str = "/v1/clusters/default";

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    Controller,
    Source,
    Target,
}

/// The scene.
pub struct Scene {
    pub cluster: Cluster,
    pub group: Group,
    journal: Arc<Journal>,
    load: Option<Load>,
    /// What it has shown so far.
    shown: Shown,
    folder: TempDir,
}

impl Scene {
    /// Three primaries with keys, under load, and three controllers, each of which stops at the place in the protocol,
    /// where one is given, until told to go on.
    pub async fn begin(size: Size, options: &Options, hold_at: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cluster = Cluster::start(folder.path(), 3, 0, options);
        let journal = fill(&cluster, size);
        let mut setting = Setting::direct(3);
        if let Some(place) = hold_at {
            let file = hold_file(folder.path(), "{id}");
            let value = format!("{place}:hold={}", file.display());
            setting.env.push(("SLOTKEEPER_FAILPOINT".to_owned(), value));
        }
        let group = Group::start_with(folder.path(), &[0, 1, 2], &setting).await;
        let load = Load::start(&cluster.addresses(), &cluster.options.access, &journal);
        let scene = Self { cluster, group, journal, load: Some(load), shown: Shown::default(), folder };
        scene.adopt().await;
        scene
    }

    async fn adopt(&self) {
        let member = &self.group.members[0];
        let etag = member.get(CLUSTER).await.headers["etag"].to_str().unwrap().to_owned();
        let body = json!({"driver": "redis", "policy": {"approvals": 0}});
        member.request_with(Method::PATCH, CLUSTER, Some(body), &[("if-match", &etag)]).await.unwrap().expect(200);
        let seed = self.cluster.servers[1].address().to_string();
        member.post(&format!("{CLUSTER}/import"), json!({"seed": seed})).await.expect(200);
    }

    /// A server more, empty and known to nobody, as a node of a plan.
    pub fn new_server(&mut self) -> Value {
        let index = self.cluster.add_server();
        json!({"host": "127.0.0.1", "port": self.cluster.servers[index].port})
    }

    /// How often a blocked rollout was told to go on.
    pub const fn resumed(&self) -> usize {
        self.shown.resumed
    }

    /// Removes a node that owns nothing, and ends its server.
    pub async fn remove(&mut self, server: usize) {
        let path = format!("{CLUSTER}/nodes/{}", self.cluster.servers[server].id());
        let etag = self.member().get(&path).await.headers["etag"].to_str().unwrap().to_owned();
        let removed = self.member().request_with(Method::DELETE, &path, None, &[("if-match", &etag)]).await;
        removed.unwrap().expect(200);
        self.cluster.servers[server].kill_9();
    }

    /// A member that runs.
    fn member(&self) -> &Member {
        self.group.members.iter().find(|member| member.is_running()).expect("a member that runs")
    }

    /// Proposes a plan and starts it, with every acknowledgement that it asks for; its id.
    pub async fn start(&self, request: Value) -> String {
        let plan = self.member().post(&format!("{CLUSTER}/plans"), request).await.expect(201)["plan"].clone();
        let failed = plan["checks"].as_array().unwrap().iter().find(|check| check["level"] == "fail");
        assert!(failed.is_none(), "{failed:?}");
        let id = plan["id"].as_str().unwrap().to_owned();
        let asked = plan["checks"].as_array().unwrap().iter().filter(|check| check["needs_ack"] == true);
        let acks: Vec<&Value> = asked.map(|check| &check["code"]).collect();
        let body = json!({"digest": plan["digest"], "acks": acks});
        if plan["approvals_required"] != 0 || !acks.is_empty() {
            self.member().post(&format!("{CLUSTER}/plans/{id}/approvals"), body).await.expect(200);
        }
        self.member().post(&format!("{CLUSTER}/plans/{id}/rollout"), json!({})).await.expect(201);
        id
    }

    /// The rollout as some member tells it.
    pub async fn rollout(&self, plan: &str) -> Option<Value> {
        let path = format!("{CLUSTER}/plans/{plan}/rollout");
        let answer = self.member().request(Method::GET, &path, None).await.ok()?;
        answer.status.is_success().then_some(answer.body)
    }

    /// The cluster's epoch as of now.
    pub async fn epoch(&self) -> u64 {
        let topology = self.member().get(&format!("{CLUSTER}/topology?consistency=linearizable")).await.expect(200);
        topology["epoch"].as_u64().unwrap()
    }

    /// How many actions a plan has.
    pub async fn actions(&self, plan: &str) -> u64 {
        let plan = self.member().get(&format!("{CLUSTER}/plans/{plan}")).await.expect(200);
        let actions = plan["actions"].as_array().or_else(|| plan["plan"]["actions"].as_array());
        actions.unwrap_or_else(|| panic!("{plan:#}")).len() as u64
    }

    /// Waits until a member stands at the place in the protocol, and kills the party there; then all goes on.
    pub async fn strike(&mut self, party: Party, server: usize) {
        self.strike_when(party, server, |_| true, |_| {}).await;
    }

    /// The same once the servers have come as far as well; `then` is done to them before the party comes back.
    pub async fn strike_when(
        &mut self,
        party: Party,
        server: usize,
        ripe: impl Fn(&Cluster) -> bool,
        then: impl FnOnce(&Cluster),
    ) {
        let (member, file) = eventually("a controller has come to the place", || async { self.held() }).await;
        let cluster = &self.cluster;
        eventually("the servers have come as far", || async { ripe(cluster).then_some(()) }).await;
        match party {
            Party::Controller => self.group.members[member].kill_9(),
            Party::Source | Party::Target => self.cluster.servers[server].kill_9(),
        }
        then(&self.cluster);
        std::fs::remove_file(&file).unwrap();
        match party {
            Party::Controller => self.group.members[member].start(),
            Party::Source | Party::Target => self.cluster.servers[server].restart(),
        }
    }

    fn held(&self) -> Option<(usize, PathBuf)> {
        (0..self.group.members.len())
            .map(|index| (index, hold_file(self.folder.path(), &(index + 1).to_string())))
            .find(|(_, file)| file.exists())
    }

    /// Follows the rollout to its end, lets go whoever else stops on the way, and tells a blocked one to go on, as an
    /// operator would after a look.
    pub async fn until_succeeded(&mut self, plan: &str) {
        let begun = Instant::now();
        let deadline = begun + PATIENCE * 5;
        loop {
            if let Some((_, file)) = self.held() {
                std::fs::remove_file(file).unwrap();
            }
            let rollout = self.rollout(plan).await.unwrap_or_default();
            match rollout["state"].as_str() {
                Some("succeeded") => {
                    let slots = rollout["progress"]["slots_done"].as_u64().unwrap();
                    println!("{slots} slots moved in {:.1?}", begun.elapsed());
                    self.shown.slots += slots;
                    self.shown.rollouts += begun.elapsed();
                    return;
                }
                Some("blocked") => {
                    self.shown.resumed += 1;
                    let path = format!("{CLUSTER}/plans/{plan}/rollout/resume");
                    // Refused when it has gone on by itself meanwhile.
                    drop(self.member().request(Method::POST, &path, Some(json!({}))).await);
                }
                None | Some("running") => {}
                Some(other) => panic!("the rollout is {other}: {rollout:#}"),
            }
            assert!(Instant::now() < deadline, "{rollout:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the load got so many writes more acknowledged.
    pub async fn until_written(&self, more: u64) {
        let load = self.load.as_ref().expect("it runs");
        let goal = load.acked() + more;
        eventually("the load goes on", || async { (load.acked() >= goal).then_some(()) }).await;
    }

    /// Stops the load and reads everything back. The table of the controllers is that of the servers.
    pub async fn end(mut self) -> Shown {
        self.until_written(100).await;
        let counts = self.load.take().expect("it runs").stop();
        audit(&self.cluster, &self.journal);
        eventually("the table is what the servers say", || async {
            let path = format!("{CLUSTER}/topology?consistency=linearizable");
            let topology = self.member().request(Method::GET, &path, None).await.ok()?.body;
            let shards = topology["shards"].as_array()?;
            let agree = self.cluster.primaries().iter().all(|(_, line)| {
                let shard = shards.iter().find(|shard| shard["primary"]["id"] == line.id || shard["id"] == line.id);
                let ranges = shard.and_then(|shard| shard["ranges"].as_array()).cloned().unwrap_or_default();
                let owned = ranges.iter().map(|range| range[1].as_u64().unwrap() - range[0].as_u64().unwrap() + 1);
                owned.sum::<u64>() == line.slots.len() as u64
            });
            agree.then_some(())
        })
        .await;
        println!("{counts:?}, blocked and resumed {} times", self.shown.resumed);
        Shown { acked: counts.acked.load(Ordering::Relaxed), ..self.shown }
    }
}

fn hold_file(folder: &Path, member: &str) -> PathBuf {
    folder.join(format!("hold-{member}"))
}
