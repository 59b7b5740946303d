//! slotkeeper beside `redis-cli --cluster rebalance` in one run: the same cluster of real servers each time, three
//! primaries and an empty fourth that gets its share, with a client at work on it meanwhile.
//!
//! `cargo bench --bench redis_rebalance`, with `-- --large` for a million keys instead of 200,000, `--durable` for servers
//! with `appendfsync always`, `--rounds N` (the medians are shown), `--only redis-cli|slotkeeper`.

#[path = "../../tests/it/live/client.rs"]
mod client;
#[path = "../../tests/it/live/cluster.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod cluster;
mod keeper;
mod latency;
#[path = "../../tests/it/live/resp.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod resp;
#[path = "../../tests/it/live/server.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod server;

use std::path::Path;
use std::time::{Duration, Instant};

use self::client::slot_of;
use self::cluster::Cluster;
use self::latency::{Latencies, Watch};
use self::resp::Reply;
use self::server::Options;

/// How much the servers' clients are spared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Care {
    busy_us: u32,
    moves_per_target: u32,
}

/// The defaults.
const FAST: Care = Care { busy_us: 1000, moves_per_target: 4 };

/// Who moves the slots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mover {
    RedisCli { pipeline: u32 },
    Slotkeeper(Care),
}

impl Mover {
    fn name(self) -> String {
        match self {
            Self::RedisCli { pipeline: 10 } => "redis-cli, pipeline 10 (its default)".to_owned(),
            Self::RedisCli { pipeline } => format!("redis-cli, pipeline {pipeline}"),
            Self::Slotkeeper(care) => {
                let busy =
                    if care.busy_us == FAST.busy_us { String::new() } else { format!(", busy_us = {}", care.busy_us) };
                let moves = if care.moves_per_target == 1 { ", one move at a time" } else { "" };
                format!("slotkeeper{busy}{moves}")
            }
        }
    }
}

/// What is measured.
struct Measure {
    keys: u32,
    durable: bool,
    rounds: usize,
}

/// What one run came to.
#[derive(Clone)]
struct Run {
    slots: usize,
    keys: i64,
    took: Duration,
    latencies: Latencies,
}

impl Run {
    fn slots_per_second(&self) -> f64 {
        self.slots as f64 / self.took.as_secs_f64()
    }

    fn keys_per_second(&self) -> f64 {
        self.keys as f64 / self.took.as_secs_f64()
    }
}

fn name_of(key: u32) -> Vec<u8> {
    format!("key:{key}").into_bytes()
}

/// Writes the keys, 64 bytes each.
fn fill(cluster: &Cluster, keys: u32) {
    for (index, line) in cluster.primaries() {
        let mut connection = cluster.servers[index].connect().expect("a connection");
        let own: Vec<Vec<u8>> = (0..keys).map(name_of).filter(|name| line.slots.contains(&slot_of(name))).collect();
        for batch in own.chunks(1000) {
            let commands: Vec<[&[u8]; 3]> = batch.iter().map(|name| [&b"SET"[..], name, &[b'x'; 64]]).collect();
            let commands: Vec<&[&[u8]]> = commands.iter().map(|command| &command[..]).collect();
            connection.send(&commands).expect("sent");
            for _ in batch {
                assert_eq!(connection.receive().expect("an answer"), Reply::Simple("OK".to_owned()));
            }
        }
    }
}

/// One run on a cluster of its own.
fn run(mover: Mover, measure: &Measure, folder: &Path) -> Run {
    let folder = tempfile::tempdir_in(folder).expect("a directory");
    let options = Options { durable: measure.durable, ..Options::default() };
    let mut cluster = Cluster::start(folder.path(), 3, 0, &options);
    fill(&cluster, measure.keys);
    let new = cluster.add_server();
    let prepared = match mover {
        Mover::RedisCli { .. } => {
            cluster.meet_last();
            None
        }
        Mover::Slotkeeper(care) => Some(keeper::prepare(folder.path(), &cluster, new, care)),
    };
    cluster.until_agreed();
    let watch = Watch::start(&cluster, measure.keys, name_of);
    let begun = Instant::now();
    match (mover, prepared) {
        (Mover::RedisCli { pipeline }, _) => {
            let (seed, pipeline) = (cluster.servers[0].address().to_string(), pipeline.to_string());
            let what =
                ["--cluster", "rebalance", &seed, "--cluster-use-empty-masters", "--cluster-pipeline", &pipeline];
            let output = cluster.redis_cli(&what);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        (Mover::Slotkeeper(_), prepared) => prepared.expect("made above").carry_out(),
    }
    let took = begun.elapsed();
    let latencies = watch.stop();
    cluster.until_agreed();
    cluster.assert_clean();
    let slots = cluster.primaries().into_iter().find(|(index, _)| *index == new).expect("it runs").1.slots.len();
    let keys = cluster.servers[new].ask(&["DBSIZE"]).number();
    let total: i64 = cluster.servers.iter().map(|server| server.ask(&["DBSIZE"]).number()).sum();
    assert_eq!((slots, total), (4096, i64::from(measure.keys)), "slots moved, keys in all");
    Run { slots, keys, took, latencies }
}

fn median(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print(results: &[(Mover, Vec<Run>)]) {
    println!(
        "| | slots/s | keys/s | seconds | client: requests/s | p50 µs | p99 µs | max ms |\n|---|---|---|---|---|---|---|---|"
    );
    for (mover, runs) in results {
        println!(
            "| {} | {:.0} | {:.0} | {:.2} | {:.0} | {:.0} | {:.0} | {:.1} |",
            mover.name(),
            median(runs, Run::slots_per_second),
            median(runs, Run::keys_per_second),
            median(runs, |run| run.took.as_secs_f64()),
            median(runs, |run| run.latencies.count() as f64 / run.took.as_secs_f64()),
            median(runs, |run| run.latencies.at(0.5)),
            median(runs, |run| run.latencies.at(0.99)),
            median(runs, |run| run.latencies.at(1.0) / 1000.0),
        );
    }
    let is_ours = |mover: &Mover| matches!(mover, Mover::Slotkeeper(_));
    let (ours, others): (Vec<_>, Vec<_>) = results.iter().partition(|(mover, _)| is_ours(mover));
    if ours.is_empty() || others.is_empty() {
        return;
    }
    println!("\n| | against | slots/s | p99 |\n|---|---|---|---|");
    for ((mine, ours), (other, others)) in ours.iter().flat_map(|one| others.iter().map(move |other| (one, other))) {
        println!(
            "| {} | {} | {:.2} | {:.2} |",
            mine.name(),
            other.name(),
            median(ours, Run::slots_per_second) / median(others, Run::slots_per_second),
            median(ours, |run| run.latencies.at(0.99)) / median(others, |run| run.latencies.at(0.99)),
        );
    }
    println!(
        "\nWanted: 4.0 of redis-cli's default and 2.0 of its best setting in slots/s, a p99 that is not worse (1.0 at most)."
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let after = |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1);
    // `cargo test --benches` starts this too, and wants no figures.
    if !has("--bench") {
        return;
    }
    server::demand_redis();
    let keys =
        after("--keys").map_or(if has("--large") { 1_000_000 } else { 200_000 }, |n| n.parse().expect("a number"));
    let rounds = after("--rounds").map_or(1, |n| n.parse().expect("a number"));
    let measure = Measure { keys, durable: has("--durable"), rounds };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on a real disk");
    let wanted = |mover: &Mover| {
        let only = after("--only").map_or("", String::as_str);
        only.is_empty() || mover.name().starts_with(only)
    };
    let movers = [
        Mover::RedisCli { pipeline: 10 },
        Mover::RedisCli { pipeline: 100 },
        Mover::Slotkeeper(FAST),
        Mover::Slotkeeper(Care { moves_per_target: 1, ..FAST }),
        Mover::Slotkeeper(Care { busy_us: 300, moves_per_target: 1 }),
    ];
    let mut results: Vec<(Mover, Vec<Run>)> = movers.into_iter().filter(wanted).map(|m| (m, Vec::new())).collect();
    // By turns, so that what else the machine does falls on all.
    for _ in 0..measure.rounds {
        for (mover, runs) in &mut results {
            runs.push(run(*mover, &measure, folder.path()));
        }
    }
    println!(
        "\n3 → 4 primaries, {keys} keys of 64 bytes{}\n",
        if measure.durable { ", appendfsync always" } else { "" }
    );
    print(&results);
}
