//! A member as a simulated host: the real store, raft, controller, executor and HTTP interface, with a scripted driver.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use slotkeeper::controller::{Controller, FirstStart};
use slotkeeper::domain::{DriverKind, Instant, Limits, MemberId, Policy};
use slotkeeper::driver::Driver;
use slotkeeper::executor;
use slotkeeper::raft::{Config, Disk, FatalHook, Join, OpenError, Raft, Tuning, seeded};
use slotkeeper::server::{self, ServerConfig};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::net::{self, API_PORT, PEER_PORT, Wire, request};
use super::nodes;
use super::oracle::Oracle;

/// What is asked of a running member from outside.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// Hand the lead over.
    TransferLeader(MemberId),
    /// Report the audit records.
    Audit,
}

/// A member that runs.
pub struct Running {
    pub raft: Raft,
    pub controller: Controller,
    pub leading: watch::Receiver<Option<u64>>,
    pub asks: mpsc::UnboundedSender<Ask>,
}

/// A host that is a member, may become one, or was one: what outlives its crashes.
pub struct Seat {
    /// The host's number; that of the member as well when it is there from the first.
    pub number: u64,
    pub seed: u64,
    pub group_seed: u64,
    pub disk: Disk,
    pub skew_ms: AtomicI64,
    /// The first members; none on a host that joins.
    pub initial_members: BTreeMap<MemberId, String>,
    /// The token that it may join with.
    pub invitation: Mutex<Option<String>>,
    /// What it was told when it joined.
    pub join: Mutex<Option<Join>>,
    /// Somebody asked the group to take it out.
    pub leaving: AtomicBool,
    /// It learned that it was taken out, and ended.
    pub left: AtomicBool,
    /// It is gone with its disk and does not come back.
    pub dead: AtomicBool,
    pub running: Mutex<Option<Running>>,
    pub starts: Mutex<u64>,
    pub fatal: Mutex<Option<String>>,
    pub oracle: Arc<Mutex<Oracle>>,
}

impl Seat {
    pub fn new(
        number: u64,
        (group_seed, seed): (u64, u64),
        dir: PathBuf,
        initial_members: BTreeMap<MemberId, String>,
        oracle: Arc<Mutex<Oracle>>,
    ) -> Self {
        Self {
            number,
            seed,
            group_seed,
            disk: Disk::new(dir, seed),
            skew_ms: AtomicI64::new(0),
            initial_members,
            invitation: Mutex::default(),
            join: Mutex::default(),
            leaving: AtomicBool::new(false),
            left: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            running: Mutex::default(),
            starts: Mutex::default(),
            fatal: Mutex::default(),
            oracle,
        }
    }

    pub fn ask(&self, ask: Ask) {
        if let Some(running) = &*self.running.lock().unwrap() {
            // One that has just ended does not hear it.
            let _ = running.asks.send(ask);
        }
    }

    /// Whether its software runs, or would if it were not down.
    pub fn in_play(&self) -> bool {
        let began = !self.initial_members.is_empty() || self.invitation.lock().unwrap().is_some();
        began && !is(&self.left) && !is(&self.dead)
    }

    pub fn address(&self) -> String {
        peer_address(self.number)
    }
}

/// Whether a flag is up.
pub fn is(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}

/// The name of a host.
pub fn host(number: u64) -> String {
    format!("m{number}")
}

/// Where the members reach each other.
pub fn peer_address(number: u64) -> String {
    format!("{}:{PEER_PORT}", host(number))
}

/// The short timeouts mostly, since more happens in a second then; short logs and snapshots, so that they matter.
fn tuning(seed: u64) -> Tuning {
    let times = if seed.is_multiple_of(4) { Tuning::default() } else { Tuning::fast_lan() };
    Tuning { snapshot_every: 24, entries_kept: 12, ..times }
}

/// The host's software, from a start to a crash.
pub async fn run(seat: Arc<Seat>) -> turmoil::Result {
    let start = {
        let mut starts = seat.starts.lock().unwrap();
        *starts += 1;
        *starts
    };
    let seed = seat.seed.wrapping_mul(31).wrapping_add(start);
    if seat.initial_members.is_empty() {
        join(&seat).await;
    }
    seeded(seed, live(seat, seed)).await
}

/// Joins with the token, at the first members in turn, as a process does that is started for it.
async fn join(seat: &Seat) {
    let token = seat.invitation.lock().unwrap().clone().expect("it is started to join");
    let authorization = [("authorization", format!("Bearer {token}"))];
    let mut asked = seat.number;
    while seat.join.lock().unwrap().is_none() {
        asked += 1;
        match request(&host(1 + asked % 3), Method::POST, "/v1/join", &authorization, "").await {
            Some(answer) if answer.status == 200 => *seat.join.lock().unwrap() = Some(joined(&answer.json)),
            _ => sleep(Duration::from_millis(50)).await,
        }
    }
}

fn joined(answer: &Value) -> Join {
    let number = |value: &Value| value.as_u64().expect("a number");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let members = answer["members"].as_array().expect("members").iter();
    Join {
        group_id: text(&answer["group_id"]),
        member_id: number(&answer["member_id"]),
        members: members.map(|peer| (number(&peer["id"]), text(&peer["peer_address"]))).collect(),
    }
}

fn config(seat: &Arc<Seat>) -> Config {
    let hook = Arc::downgrade(seat);
    let join = seat.join.lock().unwrap().clone();
    Config {
        member_id: join.is_none().then_some(seat.number),
        initial_members: seat.initial_members.clone(),
        join,
        tuning: tuning(seat.group_seed),
        on_fatal: FatalHook::new(move |reason| {
            if let Some(seat) = hook.upgrade() {
                seat.fatal.lock().unwrap().get_or_insert_with(|| reason.to_owned());
            }
        }),
        ..Config::new(std::path::Path::new("unused"), &seat.address())
    }
}

async fn live(seat: Arc<Seat>, seed: u64) -> turmoil::Result {
    let opened = Raft::open_simulated(config(&seat), seat.disk.clone(), Arc::new(Wire::default())).await;
    let (raft, peers) = match opened {
        Err(OpenError::Refused { why, .. }) if is(&seat.leaving) => {
            leave(&seat, &why);
            return Ok(());
        }
        // Its disk failed while it started: the process has ended, and what is left of it is cleared away in a moment.
        Err(_) if seat.fatal.lock().unwrap().is_some() => return std::future::pending().await,
        opened => opened?,
    };
    let rng = Mutex::new(SmallRng::seed_from_u64(seed));
    let clock_of = Arc::clone(&seat);
    let clock = move || {
        let now = i64::try_from(turmoil::since_epoch().expect("on a host").as_millis()).expect("a time of today");
        Instant(u64::try_from(now + clock_of.skew_ms.load(Ordering::Relaxed)).expect("a time after 1970"))
    };
    let random = move || {
        let mut bits = [0; 32];
        rng.lock().unwrap().fill_bytes(&mut bits);
        bits
    };
    let controller = Controller::with_sources(raft.clone(), clock, random);
    let (asks, asked) = mpsc::unbounded_channel();
    let running = Running { raft: raft.clone(), controller: controller.clone(), leading: raft.leading(), asks };
    *seat.running.lock().unwrap() = Some(running);

    let (_stop, stopping) = watch::channel(false);
    let driver = nodes::driver(&seat, controller.clone(), seed);
    let drivers = executor::drivers([Arc::new(driver) as Arc<dyn Driver>]);
    drop(controller.spawn_background(stopping.clone()));
    drop(executor::spawn(controller.clone(), drivers, stopping));
    let router = server::router(controller.clone(), ServerConfig { insecure_dev: true, ..ServerConfig::default() });
    tokio::spawn(async move { controller.bootstrap(&first_start(), |_| {}).await });
    let peers = peers.layer(from_fn_with_state(Arc::clone(&seat), count_snapshots));
    let mut removed = raft.removed();
    let ended = async {
        match removed.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            // The member ends in another way.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = net::serve(PEER_PORT, peers) => Ok(ended?),
        ended = net::serve(API_PORT, router) => Ok(ended?),
        () = listen(&seat, &raft, asked) => Ok(()),
        why = ended => {
            *seat.running.lock().unwrap() = None;
            raft.shutdown().await;
            leave(&seat, &why);
            Ok(())
        }
    }
}

/// Takes note of the snapshots that a member was given and has installed.
async fn count_snapshots(State(seat): State<Arc<Seat>>, request: Request, next: Next) -> Response {
    let snapshot = request.uri().path().ends_with("/snapshot");
    let response = next.run(request).await;
    if !snapshot {
        return response;
    }
    let (head, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.expect("it is in memory");
    if body.starts_with(br#"{"installed""#) {
        let mut oracle = seat.oracle.lock().unwrap();
        oracle.event(&format!("member {} has a snapshot installed", seat.number));
        oracle.counts.snapshots += 1;
    }
    Response::from_parts(head, Body::from(body))
}

async fn listen(seat: &Seat, raft: &Raft, mut asked: mpsc::UnboundedReceiver<Ask>) {
    while let Some(ask) = asked.recv().await {
        match ask {
            Ask::TransferLeader(to) => drop(raft.transfer_leader(to).await),
            Ask::Audit => {
                if let Ok(records) = raft.audit(0, usize::MAX).await {
                    let head = raft.read(|state| state.audit_head.clone());
                    seat.oracle.lock().unwrap().audit(seat.number, &records, &head);
                }
            }
        }
    }
}

/// The member learned that it belongs to the group no more.
fn leave(seat: &Seat, why: &str) {
    seat.left.store(true, Ordering::Relaxed);
    let mut oracle = seat.oracle.lock().unwrap();
    oracle.event(&format!("member {} ends: {why}", seat.number));
    if !is(&seat.leaving) {
        oracle
            .violation(format!("member {} ends as one that was removed, and nobody asked for it: {why}", seat.number));
    }
}

fn first_start() -> FirstStart {
    let driver = DriverKind::Manual;
    let limits =
        Limits { slots_per_second: None, slots_per_move: 1024, moves_per_source: 2, ..driver.default_limits() };
    FirstStart { driver, policy: Policy { author_may_approve: true, limits, ..Policy::default_for(driver) } }
}
