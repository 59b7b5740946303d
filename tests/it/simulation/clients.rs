//! What clients do: they change registers and read them, follow topologies, and have rollouts carried out. Each says
//! what it saw to the oracle.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::Method;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use slotkeeper::domain::{Epoch, Generation, MemberId, Version};
use tokio::time::sleep;

use super::member::host;
use super::net::{Answer, request};
use super::oracle::Oracle;

const NODES: &str = "\
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 10.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-8191
bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb 10.0.0.2:7000@17000 master - 0 0 2 connected 8192-16383
";
const REGISTERS: [&str; 2] = ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"];

/// What the clients of one run share.
pub struct Clients {
    pub oracle: Arc<Mutex<Oracle>>,
    pub members: Mutex<Vec<MemberId>>,
    pub seed: u64,
    serial: AtomicU64,
    /// Both clusters are there.
    ready: AtomicBool,
    /// The faults are over: end what is under way.
    pub healed: AtomicBool,
    /// A write that began after the healing was acknowledged.
    pub wrote_healed: AtomicBool,
    /// No rollout is under way any more.
    pub rolled_out: AtomicBool,
    pub stop: AtomicBool,
}

impl Clients {
    pub fn new(oracle: Arc<Mutex<Oracle>>, members: Vec<MemberId>, seed: u64) -> Self {
        Self {
            oracle,
            members: Mutex::new(members),
            seed,
            serial: AtomicU64::new(0),
            ready: AtomicBool::new(false),
            healed: AtomicBool::new(false),
            wrote_healed: AtomicBool::new(false),
            rolled_out: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }
    }

    fn told(&self, tell: impl FnOnce(&mut Oracle)) {
        tell(&mut self.oracle.lock().unwrap());
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn healed(&self) -> bool {
        self.healed.load(Ordering::Relaxed)
    }
}

/// Runs every client until they are stopped.
pub async fn run(clients: Arc<Clients>) -> turmoil::Result {
    let members = clients.members.lock().unwrap().clone();
    let polls = members.into_iter().map(|member| tokio::spawn(Client::new(&clients, 100 + member).follow(member)));
    let mut tasks: Vec<_> = polls.collect();
    Client::new(&clients, 0).prepare().await;
    clients.ready.store(true, Ordering::Relaxed);
    for number in 1..=2 {
        tasks.push(tokio::spawn(Client::new(&clients, number).write_registers()));
    }
    tasks.push(tokio::spawn(Client::new(&clients, 3).read_registers()));
    tasks.push(tokio::spawn(Client::new(&clients, 4).roll_out()));
    for task in tasks {
        task.await?;
    }
    Ok(())
}

struct Client {
    all: Arc<Clients>,
    number: u64,
    rng: SmallRng,
}

impl Client {
    fn new(all: &Arc<Clients>, number: u64) -> Self {
        let rng = SmallRng::seed_from_u64(all.seed.wrapping_mul(1009).wrapping_add(number));
        Self { all: Arc::clone(all), number, rng }
    }

    fn somebody(&mut self) -> String {
        let members = self.all.members.lock().unwrap();
        host(members[self.rng.random_range(0..members.len())])
    }

    async fn pause(&mut self, most_ms: u64) {
        sleep(Duration::from_millis(self.rng.random_range(1..=most_ms))).await;
    }

    /// Sends a request until a member answers it for good; the same key tells it is the same request.
    async fn insist(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&'static str, String)],
        body: &str,
    ) -> Option<Answer> {
        let serial = self.all.serial.fetch_add(1, Ordering::Relaxed);
        let mut headers = headers.to_vec();
        headers.push(("idempotency-key", format!("key-{serial}")));
        let attempts = if self.all.healed() { 40 } else { 6 };
        for _ in 0..attempts {
            let to = self.somebody();
            match request(&to, method.clone(), path, &headers, body).await {
                Some(answer) if answer.status.as_u16() < 500 => return Some(answer),
                _ => {}
            }
            if self.all.stopped() {
                break;
            }
            self.pause(200).await;
        }
        None
    }

    async fn get(&mut self, path: &str) -> Option<Answer> {
        let to = self.somebody();
        request(&to, Method::GET, path, &[], "").await.filter(|answer| answer.status == 200)
    }

    /// Makes the clusters: `default`, for rollouts, is there; `reg` has the registers.
    async fn prepare(&mut self) {
        let text = [("content-type", "text/plain".to_owned())];
        let create = json!({"name": "reg", "driver": "manual"}).to_string();
        for (path, headers, body) in [
            ("/v1/clusters", &[][..], create.as_str()),
            ("/v1/clusters/reg/import", &text, NODES),
            ("/v1/clusters/default/import", &text, NODES),
        ] {
            loop {
                match self
                    .insist(Method::POST, path, headers, body)
                    .await
                    .map(|answer| (answer.status.as_u16(), answer))
                {
                    Some((200 | 201 | 409, _)) => break,
                    // The cluster that every group starts with is not there yet.
                    Some((404, _)) | None => self.pause(50).await,
                    Some((_, answer)) => panic!("{path}: {answer:?}"),
                }
            }
        }
    }

    async fn write_registers(mut self) {
        while !self.all.stopped() {
            self.write_one().await;
            self.pause(400).await;
        }
    }

    async fn write_one(&mut self) {
        let register = REGISTERS[self.rng.random_range(0..2)];
        let Some((revision, _)) = self.read_one(register).await else { return };
        let began_healed = self.all.healed();
        let value = format!("z{}", self.all.serial.fetch_add(1, Ordering::Relaxed));
        let path = format!("/v1/clusters/reg/nodes/{register}");
        let floor = self.all.oracle.lock().unwrap().floor(register);
        let headers = [("if-match", format!("\"r{revision}\""))];
        let answer = self.insist(Method::PATCH, &path, &headers, &json!({"zone": value}).to_string()).await;
        match answer.map(|answer| (answer.status.as_u16(), answer)) {
            Some((200, answer)) => {
                // A repeated request tells of the register as it is now; only the epoch is that of its own write.
                let shown = answer.json["node"]["zone"].as_str().unwrap_or_default().to_owned();
                let revision = revision_of(answer.header("etag")).expect("a revision");
                let epoch = answer.number("epoch");
                self.all.told(|oracle| {
                    if shown == value {
                        oracle.wrote(register, floor, revision, epoch, &value);
                    } else {
                        oracle.wrote_before(register, floor, epoch, &value);
                    }
                });
                if began_healed {
                    self.all.wrote_healed.store(true, Ordering::Relaxed);
                }
            }
            Some((412, _)) => self.all.told(|oracle| oracle.refused(register, &value)),
            Some((_, answer)) => self.all.told(|oracle| oracle.violation(format!("a write: {answer:?}"))),
            None => self.all.told(|oracle| oracle.counts.unknown += 1),
        }
    }

    async fn read_registers(mut self) {
        while !self.all.stopped() {
            let register = REGISTERS[self.rng.random_range(0..2)];
            if self.rng.random_bool(0.5) {
                self.read_one(register).await;
            } else {
                self.read_topology(register).await;
            }
            self.pause(250).await;
        }
    }

    async fn read_one(&mut self, register: &str) -> Option<(u64, String)> {
        let floor = self.all.oracle.lock().unwrap().floor(register);
        let answer = self.get(&format!("/v1/clusters/reg/nodes/{register}")).await?;
        let revision = revision_of(answer.header("etag"))?;
        let value = answer.json["zone"].as_str().unwrap_or_default().to_owned();
        self.all.told(|oracle| oracle.read(register, floor, revision, &value));
        Some((revision, value))
    }

    async fn read_topology(&mut self, register: &str) {
        let floor = self.all.oracle.lock().unwrap().floor(register);
        let path = "/v1/clusters/reg/topology?consistency=linearizable";
        if let Some(answer) = self.get(path).await {
            let (version, client) = (version_of(&answer), usize::try_from(self.number).expect("small"));
            self.all.told(|oracle| {
                oracle.read_epoch(floor, version.epoch.0);
                oracle.held(client, "reg", version);
            });
        }
    }

    /// Follows both topologies at one member, by long polls and by asking anew.
    async fn follow(mut self, member: MemberId) {
        let mut held = [Version::default(); 2];
        while !self.all.stopped() {
            let which = self.rng.random_range(0..2);
            let cluster = ["reg", "default"][which];
            let path = if self.rng.random_bool(0.7) {
                format!("/v1/clusters/{cluster}/topology?after={}&wait=1s", held[which])
            } else {
                format!("/v1/clusters/{cluster}/topology")
            };
            match request(&host(member), Method::GET, &path, &[], "").await {
                Some(answer) if answer.status == 200 || answer.status == 204 => {
                    let version = version_of(&answer);
                    let tag = if answer.status == 200 { answer.header("etag") } else { "" };
                    self.all.told(|oracle| oracle.published(member, cluster, version, tag));
                    held[which] = version;
                    self.pause(250).await;
                }
                // Soon again: the first answer after a restart is the one that must not go back.
                _ => self.pause(60).await,
            }
        }
    }

    /// Has one plan after the other carried out, steered as operators do.
    async fn roll_out(mut self) {
        let mut added: Vec<String> = Vec::new();
        while !self.all.healed() {
            if let Some(plan) = self.propose(&mut added).await {
                self.carry_out(&plan).await;
                self.all.told(|oracle| oracle.counts.rollouts += 1);
            }
            self.pause(300).await;
        }
        // What an answer that was lost may have started is brought to its end as well.
        while !self.all.stopped() {
            match self.get("/v1/clusters/default").await.map(|answer| answer.json["active_plan"].clone()) {
                Some(Value::Null) => self.all.rolled_out.store(true, Ordering::Relaxed),
                Some(Value::String(plan)) => self.carry_out(&plan).await,
                _ => {}
            }
            self.pause(100).await;
        }
    }

    async fn propose(&mut self, added: &mut Vec<String>) -> Option<String> {
        let body = if added.len() >= 2 && self.rng.random_bool(0.5) {
            json!({"drain": [added.remove(0)], "reason": "less room"})
        } else {
            let name = format!("n{}", self.all.serial.fetch_add(1, Ordering::Relaxed));
            added.push(name.clone());
            json!({"add": [{"host": name, "port": 7000, "name": name}], "reason": "more room"})
        };
        let answer = self.insist(Method::POST, "/v1/clusters/default/plans", &[], &body.to_string()).await?;
        let plan = answer.json["plan"]["id"].as_str()?.to_owned();
        let digest = answer.json["plan"]["digest"].as_str()?.to_owned();
        self.all.told(|oracle| oracle.proposed(&plan, &digest));
        let path = format!("/v1/clusters/default/plans/{plan}");
        if self.rng.random_bool(0.3) {
            let wrong = json!({"digest": format!("sha256:{}", "0".repeat(64))}).to_string();
            let answer = self.insist(Method::POST, &format!("{path}/approvals"), &[], &wrong).await;
            if answer.is_some_and(|answer| answer.status.is_success()) {
                self.all.told(|oracle| oracle.violation("S3: a plan was approved by another digest"));
            }
        }
        let approval = json!({"digest": digest}).to_string();
        self.insist(Method::POST, &format!("{path}/approvals"), &[], &approval).await?;
        self.insist(Method::POST, &format!("{path}/rollout"), &[], "").await?;
        Some(plan)
    }

    /// Looks at a rollout until it has ended.
    async fn carry_out(&mut self, plan: &str) {
        let path = format!("/v1/clusters/default/plans/{plan}/rollout");
        while !self.all.stopped() {
            self.pause(150).await;
            let Some(answer) = self.get(&path).await else {
                if self.all.healed() {
                    return;
                }
                continue;
            };
            let state = answer.json["state"].as_str().unwrap_or_default().to_owned();
            let verb = match state.as_str() {
                "succeeded" | "aborted" | "rolled_back" => return,
                "paused" | "blocked" => "resume",
                "running" if !self.all.healed() && self.rng.random_bool(0.08) => {
                    ["pause", "abort", "rollback"][self.rng.random_range(0..3)]
                }
                _ => continue,
            };
            self.insist(Method::POST, &format!("{path}/{verb}"), &[], "").await;
        }
    }
}

fn revision_of(tag: &str) -> Option<u64> {
    tag.trim_matches('"').strip_prefix('r')?.parse().ok()
}

fn version_of(answer: &Answer) -> Version {
    let number = |name| answer.header(name).parse().expect("a number");
    Version { generation: Generation(number("slotkeeper-generation")), epoch: Epoch(number("slotkeeper-epoch")) }
}
