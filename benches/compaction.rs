//! How long a commit waits while the member writes a snapshot: 256 clusters of 1000 shards each, 100,000 audit records,
//! one writer that commits small changes all the time, and snapshots one after the other beside it.
//!
//! `cargo bench --bench compaction`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use slotkeeper::domain::{
    ClusterId, ClusterName, DriverKind, Host, Instant as Time, Node, NodeId, NodeState, Policy, Principal, Shard,
    ShardId, SlotTable, Weight,
};
use slotkeeper::raft::{Config, Raft, Tuning};
use slotkeeper::state::{COMMAND_VERSION, Change, Command, Op};

const CLUSTERS: usize = 256;
const SHARDS: usize = 1000;
const RECORDS: u64 = 100_000;
const WRITERS: usize = 64;
const EACH_FOR: Duration = Duration::from_secs(15);

fn command(op: Op) -> Command {
    let (version, by) = (COMMAND_VERSION, Principal::system("bench"));
    Command { version, at: Time(1_000), by, reason: None, idempotency: None, op }
}

fn create(name: &str) -> Command {
    let driver = DriverKind::Manual;
    let (name, id) = (ClusterName::new(name).unwrap(), ClusterId::new(name).unwrap());
    command(Op::CreateCluster { name, id, driver, policy: Policy::default_for(driver) })
}

fn delete(name: &str) -> Command {
    command(Op::DeleteCluster { name: ClusterName::new(name).unwrap(), if_match: None })
}

fn import(name: &str) -> Command {
    let mut table = SlotTable::new();
    let (mut nodes, mut shards) = (Vec::new(), Vec::new());
    for number in 0..SHARDS {
        let (shard, node) = (format!("shard-{number}"), format!("node-{number}"));
        let (shard, id): (ShardId, NodeId) = (shard.parse().unwrap(), node.parse().unwrap());
        table.insert_shard(shard.clone());
        let (first, last) = (number * 16384 / SHARDS, (number + 1) * 16384 / SHARDS - 1);
        table.assign(format!("{first}-{last}").parse().unwrap(), Some(&shard)).unwrap();
        let host = Host::new(&node).unwrap();
        nodes.push(Node { id: id.clone(), host, port: 6379, zone: None, state: NodeState::Active });
        shards.push(Shard::new(shard, id, Weight::ONE));
    }
    let changes = vec![Change::Import { nodes, shards, table }];
    command(Op::Change { cluster: ClusterName::new(name).unwrap(), changes, plan: None })
}

async fn submit(raft: &Raft, command: Command) {
    let committed = raft.submit(command).await.expect("committed");
    committed.applied.outcome.expect("accepted");
}

/// Commits small changes for a time; how long each took, in microseconds, ascending.
async fn commits(raft: &Raft) -> Vec<u128> {
    let (began, mut took) = (Instant::now(), Vec::new());
    for number in 0_usize.. {
        // A cluster that was created is deleted as well: the next turn begins with creating it.
        if number.is_multiple_of(2) && began.elapsed() >= EACH_FOR {
            break;
        }
        let command = if number.is_multiple_of(2) { create("small") } else { delete("small") };
        let at = Instant::now();
        submit(raft, command).await;
        took.push(at.elapsed().as_micros());
    }
    took.sort_unstable();
    took
}

fn tell(what: &str, took: &[u128]) {
    let at = |share: usize| took[(took.len() - 1) * share / 1000];
    let ms = |micros: u128| micros as f64 / 1000.0;
    println!(
        "{what}: {} commits, p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, longest {:.2} ms",
        took.len(),
        ms(at(500)),
        ms(at(990)),
        ms(at(999)),
        ms(at(1000))
    );
}

#[tokio::main]
async fn main() {
    // Asked by `cargo test --benches` to do nothing.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let folder = std::env::temp_dir().join(format!("slotkeeper-compaction-{}", std::process::id()));
    let tuning = Tuning { snapshot_every: 10_000_000, ..Tuning::default() };
    let config = Config { tuning, ..Config::new(&folder, "127.0.0.1:0") };
    let (raft, _) = Raft::open(config).await.expect("opens");
    let mut recovered = raft.recovered();
    recovered.wait_for(|&yes| yes).await.unwrap();
    let done = AtomicU64::new(0);
    futures::future::join_all((0..WRITERS).map(|writer| {
        let (raft, done) = (&raft, &done);
        async move {
            let name = format!("w-{writer}");
            while done.fetch_add(2, Ordering::Relaxed) < RECORDS {
                submit(raft, create(&name)).await;
                submit(raft, delete(&name)).await;
            }
        }
    }))
    .await;
    for number in 0..CLUSTERS - 1 {
        let name = format!("c-{number}");
        submit(&raft, create(&name)).await;
        submit(&raft, import(&name)).await;
    }
    tell("without a snapshot", &commits(&raft).await);
    let stop = Arc::new(AtomicBool::new(false));
    let snapshots = tokio::spawn({
        let (raft, stop) = (raft.clone(), Arc::clone(&stop));
        async move {
            let mut took = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let at = Instant::now();
                raft.take_snapshot().await.expect("taken");
                took.push(at.elapsed().as_millis());
            }
            took
        }
    });
    tell("snapshots all the time", &commits(&raft).await);
    stop.store(true, Ordering::Relaxed);
    let took = snapshots.await.unwrap();
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
    let largest = files.filter(|file| file.path().extension().is_some_and(|end| end == "jsonl"));
    let bytes = largest.map(|file| file.metadata().unwrap().len()).max().unwrap_or(0);
    println!("{} snapshots of {} MB, {:?} ms each", took.len(), bytes / 1_000_000, took);
    raft.shutdown().await;
    drop(std::fs::remove_dir_all(&folder));
}
