//! Three and five members in one process, on a simulated network, clock and disk: the real store, raft, state,
//! controller, executor and HTTP interface, driven by clients while links are cut, members crash, disks stall or fail
//! and clocks jump. Everything follows from the seed: a run that fails is repeated by it.
//!
//!     SLOTKEEPER_SEED=17 cargo test --test it simulation -- --nocapture
//!     SLOTKEEPER_SEEDS=10000 cargo test --test it simulation        (or: make soak SEEDS=10000)

mod clients;
mod faults;
mod member;
mod net;
mod oracle;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use slotkeeper::domain::MemberId;
use tempfile::TempDir;
use turmoil::{Builder, Sim};

use self::clients::Clients;
use self::faults::Faults;
use self::member::{Ask, Seat, host};
use self::net::PEER_PORT;
use self::oracle::{Counts, Oracle};

/// Seeds of a run of the tests: what two cores do in two minutes without optimisation.
const SEEDS: u64 = 100;
/// Simulated time of one step of the network.
const TICK_MS: u64 = 5;
/// From the end of the faults to a write that is acknowledged.
const WRITES_AGAIN_WITHIN_MS: u64 = 10_000;
/// From the end of the faults to the end of the rollout, and to equal members.
const SETTLED_WITHIN_MS: u64 = 40_000;

/// What a run is told beside its seed.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    /// Disks report what they have not synced.
    lying: bool,
    /// Keep every event as text.
    logging: bool,
}

/// How a run went.
struct Outcome {
    violation: Option<String>,
    trace: u64,
    log: String,
    counts: Counts,
    simulated_ms: u64,
}

/// One run.
struct World<'a> {
    sim: Sim<'a>,
    seats: Vec<Arc<Seat>>,
    faults: Faults,
    clients: Arc<Clients>,
    oracle: Arc<Mutex<Oracle>>,
    now_ms: u64,
}

impl World<'_> {
    fn new(seed: u64, dir: &std::path::Path, options: Options) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut sim = Builder::new()
            .rng_seed(seed)
            .epoch(UNIX_EPOCH + Duration::from_secs(1_700_000_000))
            .simulation_duration(Duration::from_secs(3600))
            .tick_duration(Duration::from_millis(TICK_MS))
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(Duration::from_millis(5))
            .repair_rate(0.2)
            .tcp_capacity(4096)
            .enable_random_order()
            .build();
        let oracle = Arc::new(Mutex::new(Oracle::logging(options.logging)));
        let count = if rng.random_bool(0.85) { 3 } else { 5 };
        let ids: Vec<MemberId> = (1..=count).collect();
        let initial: BTreeMap<MemberId, String> =
            ids.iter().map(|&id| (id, format!("{}:{PEER_PORT}", host(id)))).collect();
        let mut seats = Vec::new();
        for &id in &ids {
            let dir = dir.join(host(id));
            let seat = Arc::new(Seat::new(id, (seed, rng.random()), dir, initial.clone(), Arc::clone(&oracle)));
            seat.disk.set_lying(options.lying);
            seats.push(Arc::clone(&seat));
            sim.host(host(id), move || member::run(Arc::clone(&seat)));
        }
        let clients = Arc::new(Clients::new(Arc::clone(&oracle), ids, rng.random()));
        sim.client("clients", clients::run(Arc::clone(&clients)));
        let faults = Faults::new(SmallRng::seed_from_u64(rng.random()), seats.clone());
        Self { sim, seats, faults, clients, oracle, now_ms: 0 }
    }

    /// Lets time go by; whether the clients have ended.
    fn step(&mut self) -> Result<bool, String> {
        let ended = self.sim.step().map_err(|error| format!("at {} ms: {error}", self.now_ms))?;
        self.now_ms += TICK_MS;
        let mut oracle = self.oracle.lock().unwrap();
        oracle.now_ms = self.now_ms;
        for seat in &self.seats {
            if let Some(running) = &*seat.running.lock().unwrap()
                && let Some(term) = *running.leading.borrow()
            {
                oracle.leads(term, seat.id);
            }
        }
        match oracle.first_violation() {
            Some(violation) => Err(violation.to_owned()),
            None => Ok(ended),
        }
    }

    /// Compares the members' states.
    fn look(&self) {
        let mut oracle = self.oracle.lock().unwrap();
        for seat in &self.seats {
            if let Some(running) = &*seat.running.lock().unwrap() {
                let (index, hash) = running.controller.state_hash();
                oracle.event(&format!("member {} is at {index}", seat.id));
                oracle.state_hash(seat.id, index, &hash);
                running.raft.read(|state| oracle.state(seat.id, state));
            }
        }
    }

    /// The whole run: faults, healing, and what must hold then.
    fn run(&mut self, faults_ms: u64) -> Result<(), String> {
        while self.now_ms < faults_ms {
            self.step()?;
            // A group forms before anything goes wrong.
            if self.now_ms > 600 {
                for did in self.faults.step(&mut self.sim, self.now_ms) {
                    self.oracle.lock().unwrap().event(&did);
                }
            }
            if self.now_ms.is_multiple_of(500) {
                self.look();
            }
        }
        self.faults.heal(&mut self.sim);
        self.oracle.lock().unwrap().event("healed");
        let healed_ms = self.now_ms;
        self.clients.healed.store(true, Ordering::Relaxed);
        let is = |flag: &std::sync::atomic::AtomicBool| flag.load(Ordering::Relaxed);
        while !(is(&self.clients.wrote_healed) && is(&self.clients.rolled_out)) {
            self.step()?;
            self.no_fatal()?;
            let since = self.now_ms - healed_ms;
            if since > WRITES_AGAIN_WITHIN_MS && !is(&self.clients.wrote_healed) {
                return Err(format!("no write was acknowledged within {since} ms of the healing"));
            }
            if since > SETTLED_WITHIN_MS {
                return Err(format!("a rollout has not ended within {since} ms of the healing"));
            }
        }
        self.clients.stop.store(true, Ordering::Relaxed);
        self.settle(healed_ms)
    }

    /// Clients end, members come to the same state, their audits are whole.
    fn settle(&mut self, healed_ms: u64) -> Result<(), String> {
        let mut ended = false;
        loop {
            ended |= self.step()?;
            self.no_fatal()?;
            if self.now_ms.is_multiple_of(50) && ended && self.equal() {
                break;
            }
            if self.now_ms - healed_ms > SETTLED_WITHIN_MS {
                return Err(format!("the members are not equal {} ms after the healing", self.now_ms - healed_ms));
            }
        }
        self.look();
        for seat in &self.seats {
            seat.ask(Ask::Audit);
        }
        let deadline = self.now_ms + 5000;
        while self.oracle.lock().unwrap().audited() < self.seats.len() {
            self.step()?;
            if self.now_ms > deadline {
                return Err("a member did not report its audit".to_owned());
            }
        }
        self.step().map(drop)
    }

    /// Every member runs, has recovered and is at the same index.
    fn equal(&self) -> bool {
        let mut at = Vec::new();
        for seat in &self.seats {
            let running = seat.running.lock().unwrap();
            let Some(running) = &*running else { return false };
            let status = running.raft.status();
            if !status.recovered || status.leader.is_none() {
                return false;
            }
            at.push(status.applied);
        }
        at.iter().all(|index| *index == at[0])
    }

    fn no_fatal(&self) -> Result<(), String> {
        for seat in &self.seats {
            if let Some(reason) = &*seat.fatal.lock().unwrap() {
                return Err(format!(
                    "at {} ms: member {} ends though nothing is wrong: {reason}",
                    self.now_ms, seat.id
                ));
            }
        }
        Ok(())
    }
}

/// Runs one seed.
fn run(seed: u64, options: Options) -> Outcome {
    let dir = temporary();
    let mut world = World::new(seed, dir.path(), options);
    let repeatable = cfg!(tokio_unstable);
    assert!(repeatable, "built without the flag of .cargo/config.toml: no run would be like another");
    let faults_ms = 1600 + seed % 4 * 500;
    let ended = catch_unwind(AssertUnwindSafe(|| world.run(faults_ms)));
    let violation = match ended {
        Ok(ended) => ended.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Some(format!("at {} ms: a panic: {}", world.now_ms, text.unwrap_or("without words")))
        }
    };
    let mut oracle = world.oracle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (trace, log, counts) = (oracle.trace(), oracle.take_log(), oracle.counts.clone());
    drop(oracle);
    for seat in &world.seats {
        *seat.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }
    Outcome { violation, trace, log, counts, simulated_ms: world.now_ms }
}

/// Files that need not outlive the run are best in memory.
fn temporary() -> TempDir {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).expect("room in memory") } else { TempDir::new().expect("room") }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Runs seeds on every processor until one fails; the first that did.
fn first_failing(seeds: std::ops::Range<u64>, options: Options) -> Option<(u64, String)> {
    let next = AtomicU64::new(seeds.start);
    let failed = Mutex::new(None::<(u64, String)>);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let one = |seed| {
        // A thread of its own: nothing that a thread keeps goes from one run into the next.
        std::thread::scope(|scope| scope.spawn(move || run(seed, options)).join())
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || failed.lock().unwrap().is_some() {
                        return;
                    }
                    if seed.is_multiple_of(1000) && seed > SEEDS {
                        println!("{seed} seeds");
                    }
                    let violation = one(seed).map_or(Some("it panicked".to_owned()), |outcome| outcome.violation);
                    if let Some(violation) = violation {
                        failed.lock().unwrap().get_or_insert((seed, violation));
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap()
}

#[test]
fn whatever_goes_wrong_the_promises_hold_and_the_group_recovers() {
    if let Some(seed) = number("SLOTKEEPER_SEED") {
        let outcome = run(seed, Options { logging: true, ..Options::default() });
        println!("{}{:?}, {} ms, trace {:016x}", outcome.log, outcome.counts, outcome.simulated_ms, outcome.trace);
        assert_eq!(None, outcome.violation, "seed {seed}");
        return;
    }
    let seeds = number("SLOTKEEPER_SEEDS").unwrap_or(SEEDS);
    if let Some((seed, violation)) = first_failing(0..seeds, Options::default()) {
        panic!("SLOTKEEPER_SEED={seed} fails: {violation}");
    }
}

#[test]
fn a_run_is_repeated_exactly_by_its_seed() {
    for seed in [1, 2] {
        let [first, second] = [(); 2].map(|()| {
            std::thread::spawn(move || run(seed, Options { logging: true, ..Options::default() })).join().unwrap()
        });
        let differs = first.log.lines().zip(second.log.lines()).find(|(a, b)| a != b);
        assert_eq!(None, differs, "seed {seed}");
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

#[test]
fn a_disk_that_lies_about_its_syncs_is_found_out() {
    assert!(first_failing(0..60, Options { lying: true, ..Options::default() }).is_some());
}
