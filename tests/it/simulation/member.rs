//! A member as a simulated host: the real store, raft, controller, executor and HTTP interface, with a scripted driver.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use slotkeeper::controller::{Controller, FirstStart};
use slotkeeper::domain::{ActionState, DriverKind, Instant, Limits, MemberId, Policy};
use slotkeeper::driver::{Direction, Driver, DriverError, Job, Scripted};
use slotkeeper::executor;
use slotkeeper::raft::{Config, Disk, FatalHook, Raft, Tuning, seeded};
use slotkeeper::server::{self, ServerConfig};
use tokio::sync::{mpsc, watch};

use super::net::{self, API_PORT, PEER_PORT, Wire};
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

/// A member's place: what outlives its crashes.
pub struct Seat {
    pub id: MemberId,
    pub seed: u64,
    pub group_seed: u64,
    pub disk: Disk,
    pub skew_ms: AtomicI64,
    pub initial_members: BTreeMap<MemberId, String>,
    pub running: Mutex<Option<Running>>,
    pub starts: Mutex<u64>,
    pub fatal: Mutex<Option<String>>,
    pub oracle: Arc<Mutex<Oracle>>,
}

impl Seat {
    pub fn new(
        id: MemberId,
        (group_seed, seed): (u64, u64),
        dir: PathBuf,
        initial_members: BTreeMap<MemberId, String>,
        oracle: Arc<Mutex<Oracle>>,
    ) -> Self {
        Self {
            id,
            seed,
            group_seed,
            disk: Disk::new(dir, seed),
            skew_ms: AtomicI64::new(0),
            initial_members,
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
}

/// The name of a member's host.
pub fn host(id: MemberId) -> String {
    format!("m{id}")
}

/// The short timeouts mostly, since more happens in a second then; short logs and snapshots, so that they matter.
fn tuning(seed: u64) -> Tuning {
    let times = if seed.is_multiple_of(4) { Tuning::default() } else { Tuning::fast_lan() };
    Tuning { snapshot_every: 40, entries_kept: 20, ..times }
}

/// The host's software, from a start to a crash.
pub async fn run(seat: Arc<Seat>) -> turmoil::Result {
    let start = {
        let mut starts = seat.starts.lock().unwrap();
        *starts += 1;
        *starts
    };
    let seed = seat.seed.wrapping_mul(31).wrapping_add(start);
    seeded(seed, live(seat, seed)).await
}

async fn live(seat: Arc<Seat>, seed: u64) -> turmoil::Result {
    let hook = Arc::downgrade(&seat);
    let config = Config {
        member_id: Some(seat.id),
        initial_members: seat.initial_members.clone(),
        tuning: tuning(seat.group_seed),
        on_fatal: FatalHook::new(move |reason| {
            if let Some(seat) = hook.upgrade() {
                seat.fatal.lock().unwrap().get_or_insert_with(|| reason.to_owned());
            }
        }),
        ..Config::new(std::path::Path::new("unused"), &format!("{}:{PEER_PORT}", host(seat.id)))
    };
    let (raft, peers) = Raft::open_simulated(config, seat.disk.clone(), Arc::new(Wire::default())).await?;
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
    let (asks, mut asked) = mpsc::unbounded_channel();
    let running = Running { raft: raft.clone(), controller: controller.clone(), leading: raft.leading(), asks };
    *seat.running.lock().unwrap() = Some(running);

    let (_stop, stopping) = watch::channel(false);
    let driver = scripted(&seat, controller.clone(), seed);
    let drivers = executor::drivers([Arc::new(driver) as Arc<dyn Driver>]);
    drop(controller.spawn_background(stopping.clone()));
    drop(executor::spawn(controller.clone(), drivers, stopping));
    let router = server::router(controller.clone(), ServerConfig { insecure_dev: true, ..ServerConfig::default() });
    let starting = controller.clone();
    tokio::spawn(async move { starting.bootstrap(&first_start(), |_| {}).await });
    let asked = async {
        while let Some(ask) = asked.recv().await {
            match ask {
                Ask::TransferLeader(to) => drop(raft.transfer_leader(to).await),
                Ask::Audit => {
                    if let Ok(records) = raft.audit(0, usize::MAX).await {
                        let head = raft.read(|state| state.audit_head.clone());
                        seat.oracle.lock().unwrap().audit(seat.id, &records, &head);
                    }
                }
            }
        }
    };
    tokio::select! {
        ended = net::serve(PEER_PORT, peers) => Ok(ended?),
        ended = net::serve(API_PORT, router) => Ok(ended?),
        () = asked => Ok(()),
    }
}

fn first_start() -> FirstStart {
    let driver = DriverKind::Manual;
    let limits =
        Limits { slots_per_second: None, slots_per_move: 1024, moves_per_source: 2, ..driver.default_limits() };
    FirstStart { driver, policy: Policy { author_may_approve: true, limits, ..Policy::default_for(driver) } }
}

/// A driver that takes its time and sometimes wants to be asked again; it checks that it is asked only for what is
/// committed.
fn scripted(seat: &Arc<Seat>, controller: Controller, seed: u64) -> Scripted {
    let (seat, rng) = (Arc::downgrade(seat), Mutex::new(SmallRng::seed_from_u64(seed ^ 0xd817_e500)));
    Scripted::new(DriverKind::Manual, move |job: &Job, _| {
        let (pause_ms, fails) = {
            let mut rng = rng.lock().unwrap();
            (rng.random_range(0..120), rng.random_bool(0.1))
        };
        let seat = seat.upgrade().expect("the member runs");
        let found = controller
            .cluster(&job.cluster)
            .ok()
            .and_then(|cluster| cluster.plans.get(&job.plan)?.rollout.as_ref()?.state_of(job.action.id));
        // A leader that does not know yet that it was deposed may come late, never early.
        let committed = match job.direction {
            Direction::Forward => found.is_some(),
            Direction::Back => matches!(found, Some(ActionState::Reverting | ActionState::Reverted)),
        };
        if !committed {
            let what = format!("S5: the driver is asked for {} {:?}, which is {found:?}", job.action.id, job.direction);
            seat.oracle.lock().unwrap().violation(what);
        }
        let (plan, action, direction) = (job.plan.clone(), job.action.id, job.direction);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            if fails {
                return Err(DriverError::Retry("not now".to_owned()));
            }
            seat.oracle.lock().unwrap().driven(&plan, action, direction);
            Ok(())
        })
    })
}
