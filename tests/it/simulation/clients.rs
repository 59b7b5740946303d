//! What clients do: they change registers and read them, follow topologies, and have rollouts carried out. Each says
//! what it saw to the oracle.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::Method;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use slotkeeper::domain::{Epoch, Generation, Version};
use tokio::time::sleep;

use super::member::{Seat, host, is};
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
    pub seats: Vec<Arc<Seat>>,
    /// The hosts that clients know as members.
    pub members: Mutex<Vec<u64>>,
    /// Whether the group is changed.
    regrouping: bool,
    pub seed: u64,
    pub serial: AtomicU64,
    /// Both clusters are there.
    ready: AtomicBool,
    /// Ask more often for a while.
    pub hurry: AtomicBool,
    /// A host that is to die for good as soon as the group can do without it.
    pub doomed: Mutex<Option<u64>>,
    /// The faults are over: end what is under way.
    pub healed: AtomicBool,
    /// A write that began after the healing was acknowledged.
    pub wrote_healed: AtomicBool,
    /// No rollout is under way any more.
    pub rolled_out: AtomicBool,
    /// The dead are taken out of the group.
    pub regrouped: AtomicBool,
    pub stop: AtomicBool,
}

impl Clients {
    pub fn new(oracle: Arc<Mutex<Oracle>>, seats: Vec<Arc<Seat>>, regrouping: bool, seed: u64) -> Self {
        let members = seats.iter().filter(|seat| seat.in_play()).map(|seat| seat.number).collect();
        Self {
            oracle,
            seats,
            members: Mutex::new(members),
            regrouping,
            seed,
            serial: AtomicU64::new(0),
            ready: AtomicBool::new(false),
            hurry: AtomicBool::new(false),
            doomed: Mutex::default(),
            healed: AtomicBool::new(false),
            wrote_healed: AtomicBool::new(false),
            rolled_out: AtomicBool::new(false),
            regrouped: AtomicBool::new(!regrouping),
            stop: AtomicBool::new(false),
        }
    }

    pub fn told(&self, tell: impl FnOnce(&mut Oracle)) {
        tell(&mut self.oracle.lock().unwrap());
    }

    pub fn stopped(&self) -> bool {
        is(&self.stop)
    }

    pub fn healed(&self) -> bool {
        is(&self.healed)
    }
}

/// Runs every client until they are stopped.
pub async fn run(clients: Arc<Clients>) -> turmoil::Result {
    let seats = clients.seats.iter().cloned();
    let polls = seats.map(|seat| tokio::spawn(Client::new(&clients, 100 + seat.number).follow(seat)));
    let mut tasks: Vec<_> = polls.collect();
    Client::new(&clients, 0).prepare().await;
    clients.ready.store(true, Ordering::Relaxed);
    for number in 1..=2 {
        tasks.push(tokio::spawn(Client::new(&clients, number).write_registers()));
    }
    tasks.push(tokio::spawn(Client::new(&clients, 3).read_registers()));
    tasks.push(tokio::spawn(Client::new(&clients, 4).roll_out()));
    if clients.regrouping {
        tasks.push(tokio::spawn(Client::new(&clients, 5).regroup()));
    }
    for task in tasks {
        task.await?;
    }
    Ok(())
}

pub struct Client {
    pub all: Arc<Clients>,
    number: u64,
    pub rng: SmallRng,
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

    pub async fn pause(&mut self, most_ms: u64) {
        let most_ms = if is(&self.all.hurry) { most_ms.min(40) } else { most_ms };
        sleep(Duration::from_millis(self.rng.random_range(1..=most_ms))).await;
    }

    /// One request. What was sent before the healing and got lost is not waited for long after it.
    async fn ask(
        &self,
        to: &str,
        method: Method,
        path: &str,
        headers: &[(&'static str, String)],
        body: &str,
    ) -> Option<Answer> {
        let began_healed = self.all.healed();
        let healed_meanwhile = async {
            while began_healed || !self.all.healed() {
                sleep(Duration::from_millis(100)).await;
            }
            sleep(Duration::from_millis(300)).await;
        };
        tokio::select! {
            biased;
            answer = request(to, method, path, headers, body) => answer,
            () = healed_meanwhile => None,
        }
    }

    /// Sends a request until a member answers it for good; the same key tells it is the same request.
    pub async fn insist(
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
            match self.ask(&to, method.clone(), path, &headers, body).await {
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

    pub async fn get(&mut self, path: &str) -> Option<Answer> {
        let to = self.somebody();
        self.ask(&to, Method::GET, path, &[], "").await.filter(|answer| answer.status == 200)
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

    /// Reads at one member what is known to have been written.
    async fn read_topology_at(&mut self, member: u64) {
        let floor = self.all.oracle.lock().unwrap().floor(REGISTERS[0]);
        let path = "/v1/clusters/reg/topology?consistency=linearizable";
        match self.ask(&host(member), Method::GET, path, &[], "").await {
            Some(answer) if answer.status == 200 => {
                self.all.told(|oracle| oracle.read_epoch(floor, version_of(&answer).epoch.0));
            }
            _ => {}
        }
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

    /// Follows both topologies at one member, by long polls and by asking anew, and reads what must not be stale.
    async fn follow(mut self, seat: Arc<Seat>) {
        let (member, mut held) = (seat.number, [Version::default(); 2]);
        while !self.all.stopped() {
            if !seat.in_play() {
                sleep(Duration::from_millis(100)).await;
                continue;
            }
            if is(&self.all.hurry) && self.rng.random_bool(0.3) {
                self.read_topology_at(member).await;
            }
            let which = self.rng.random_range(0..2);
            let cluster = ["reg", "default"][which];
            let path = if self.rng.random_bool(0.7) {
                format!("/v1/clusters/{cluster}/topology?after={}&wait=1s", held[which])
            } else {
                format!("/v1/clusters/{cluster}/topology")
            };
            match self.ask(&host(member), Method::GET, &path, &[], "").await {
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
}

fn revision_of(tag: &str) -> Option<u64> {
    tag.trim_matches('"').strip_prefix('r')?.parse().ok()
}

fn version_of(answer: &Answer) -> Version {
    let number = |name| answer.header(name).parse().expect("a number");
    Version { generation: Generation(number("slotkeeper-generation")), epoch: Epoch(number("slotkeeper-epoch")) }
}
