//! Three and five members in one process, on a simulated network, clock and disk: the real store, raft, state,
//! controller, executor and HTTP interface, driven by clients while links are cut, members crash, disks stall or fail
//! and clocks jump. Everything follows from the seed: a run that fails is repeated by it. Each seed has a process of its
//! own, because tokio numbers tasks by process, and the order in which a crash drops them follows from the numbers.
//!
//!     SLOTKEEPER_SEED=17 cargo test --test it simulation -- --nocapture
//!     SLOTKEEPER_SEEDS=10000 cargo test --test it simulation        (or: make soak SEEDS=10000, FIRST=300 for others)

mod clients;
mod faults;
mod member;
mod net;
mod nodes;
mod oracle;
mod regroup;
mod rollouts;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use self::oracle::Counts;
use self::world::World;

/// Seeds of a run of the tests: what two cores do in two minutes.
const SEEDS: u64 = 300;
/// Seeds whose runs are compared; some of them change the group.
const COMPARED: [u64; 3] = [2, 7, 8];

/// The test that runs one seed when it is told one.
const TEST: &str = "simulation::whatever_goes_wrong_the_promises_hold_and_the_group_recovers";
/// What begins the line with the outcome of a process.
const OUTCOME: &str = "outcome: ";

/// What a run is told beside its seed.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    /// Disks report what they have not synced.
    lying: bool,
    /// Keep every event as text.
    logging: bool,
}

/// How a run went.
#[derive(Serialize, Deserialize)]
struct Outcome {
    violation: Option<String>,
    trace: u64,
    #[serde(skip)]
    log: String,
    counts: Counts,
    simulated_ms: u64,
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

/// Runs one seed in a process of its own.
fn run_apart(seed: u64, options: Options) -> Outcome {
    let flag = |on| if on { "1" } else { "0" };
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", TEST, "--nocapture"])
        .env("SLOTKEEPER_SEED", seed.to_string())
        .env("SLOTKEEPER_LYING", flag(options.lying))
        .env("SLOTKEEPER_LOG", flag(options.logging))
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .output()
        .expect("another process of this test");
    let text = String::from_utf8_lossy(&output.stdout);
    let (log, outcome) = text.split_once(OUTCOME).unwrap_or_else(|| {
        panic!("seed {seed}: {}, no outcome\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr))
    });
    let outcome: Outcome = serde_json::from_str(outcome.lines().next().unwrap_or_default()).expect("as it was written");
    Outcome { log: log.to_owned(), ..outcome }
}

/// What a process does that runs one seed.
fn run_here(seed: u64) {
    let on = |name| number(name).is_some_and(|number| number > 0);
    let options = Options { lying: on("SLOTKEEPER_LYING"), logging: number("SLOTKEEPER_LOG") != Some(0) };
    let outcome = run(seed, options);
    let json = serde_json::to_string(&outcome).expect("a struct of numbers and text");
    println!("{}\n{OUTCOME}{json}", outcome.log);
    println!("{:?}, {} ms, trace {:016x}", outcome.counts, outcome.simulated_ms, outcome.trace);
    assert_eq!(None, outcome.violation, "seed {seed}");
}

/// Files that need not outlive the run are best in memory.
fn temporary() -> TempDir {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).expect("room in memory") } else { TempDir::new().expect("room") }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// What became of many seeds.
#[derive(Default)]
struct Tally {
    failed: Option<(u64, String)>,
    seeds: u64,
    counts: Counts,
}

/// Runs seeds on every processor until one fails.
fn run_all(seeds: std::ops::Range<u64>, options: Options) -> Tally {
    let (next, started) = (AtomicU64::new(seeds.start), Instant::now());
    let tally = Mutex::new(Tally::default());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || tally.lock().unwrap().failed.is_some() {
                        return;
                    }
                    let outcome = run_apart(seed, options);
                    let mut tally = tally.lock().unwrap();
                    tally.seeds += 1;
                    tally.counts += outcome.counts;
                    if let Some(violation) = outcome.violation {
                        tally.failed.get_or_insert((seed, violation));
                    }
                    if tally.seeds.is_multiple_of(1000) {
                        println!("{} seeds in {:?}", tally.seeds, started.elapsed());
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    println!("{} seeds in {:?}: {:?}", tally.seeds, started.elapsed(), tally.counts);
    tally
}

#[test]
fn whatever_goes_wrong_the_promises_hold_and_the_group_recovers() {
    if let Some(seed) = number("SLOTKEEPER_SEED") {
        run_here(seed);
        return;
    }
    let seeds = number("SLOTKEEPER_SEEDS").unwrap_or(SEEDS);
    let first = number("SLOTKEEPER_FIRST_SEED").unwrap_or(0);
    let Tally { failed, counts, .. } = run_all(first..first + seeds, Options::default());
    if let Some((seed, violation)) = failed {
        panic!("SLOTKEEPER_SEED={seed} fails: {violation}");
    }
    // What never happened was not tested.
    let often = |count: u64| count >= seeds / 10;
    let members = [counts.added, counts.promoted, counts.removed];
    let all = [counts.writes, counts.reads, counts.rollouts, counts.keys, counts.snapshots];
    assert!(members.into_iter().chain(all).all(often), "too little happened in {seeds} seeds: {counts:?}");
}

#[test]
fn a_run_is_repeated_exactly_by_its_seed() {
    let mut changes = 0;
    for seed in COMPARED {
        let [first, second] = [(); 2].map(|()| run_apart(seed, Options { logging: true, ..Options::default() }));
        let differs = first.log.lines().zip(second.log.lines()).find(|(a, b)| a != b);
        assert_eq!(None, differs, "seed {seed}");
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert!(first.log.lines().count() > 20, "a log: {}", first.log);
        changes += first.counts.promoted + first.counts.removed;
    }
    assert!(changes > 0, "the group changes in these runs too");
}

#[test]
fn a_disk_that_lies_about_its_syncs_is_found_out() {
    assert!(run_all(0..60, Options { lying: true, ..Options::default() }).failed.is_some());
}
