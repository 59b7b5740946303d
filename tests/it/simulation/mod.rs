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
mod nodes;
mod oracle;
mod regroup;
mod rollouts;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tempfile::TempDir;

use self::oracle::Counts;
use self::world::World;

/// Seeds of a run of the tests: what two cores do in two minutes without optimisation.
const SEEDS: u64 = 100;
/// Seeds whose runs are compared; some of them change the group.
const COMPARED: [u64; 3] = [2, 7, 8];

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
    let one = |seed| {
        // A thread of its own: nothing that a thread keeps goes from one run into the next.
        std::thread::scope(|scope| scope.spawn(move || run(seed, options)).join())
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || tally.lock().unwrap().failed.is_some() {
                        return;
                    }
                    let outcome = one(seed);
                    let mut tally = tally.lock().unwrap();
                    tally.seeds += 1;
                    let violation = match outcome {
                        Ok(outcome) => {
                            tally.counts += outcome.counts;
                            outcome.violation
                        }
                        Err(_) => Some("it panicked".to_owned()),
                    };
                    if let Some(violation) = violation {
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
        let outcome = run(seed, Options { logging: true, ..Options::default() });
        println!("{}{:?}, {} ms, trace {:016x}", outcome.log, outcome.counts, outcome.simulated_ms, outcome.trace);
        assert_eq!(None, outcome.violation, "seed {seed}");
        return;
    }
    let seeds = number("SLOTKEEPER_SEEDS").unwrap_or(SEEDS);
    let Tally { failed, counts, .. } = run_all(0..seeds, Options::default());
    if let Some((seed, violation)) = failed {
        panic!("SLOTKEEPER_SEED={seed} fails: {violation}");
    }
    // What never happened was not tested.
    let often = |count: u64| count >= seeds / 10;
    let all =
        [counts.writes, counts.reads, counts.rollouts, counts.keys, counts.added, counts.promoted, counts.removed];
    assert!(all.into_iter().all(often), "too little happened in {seeds} seeds: {counts:?}");
}

#[test]
fn a_run_is_repeated_exactly_by_its_seed() {
    let mut changes = 0;
    for seed in COMPARED {
        let [first, second] = [(); 2].map(|()| {
            std::thread::spawn(move || run(seed, Options { logging: true, ..Options::default() })).join().unwrap()
        });
        let differs = first.log.lines().zip(second.log.lines()).find(|(a, b)| a != b);
        assert_eq!(None, differs, "seed {seed}");
        assert_eq!(first.trace, second.trace, "seed {seed}");
        changes += first.counts.promoted + first.counts.removed;
    }
    assert!(changes > 0, "the group changes in these runs too");
}

#[test]
fn a_disk_that_lies_about_its_syncs_is_found_out() {
    assert!(run_all(0..60, Options { lying: true, ..Options::default() }).failed.is_some());
}
