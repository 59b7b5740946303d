//! slotkeeper beside etcd in one run: real processes, real files, loopback. Says so and ends well where etcd is not
//! installed (Debian: `etcd-server`; another binary: `ETCD=/path/to/etcd`).
//!
//! `make bench-etcd`, or `cargo bench --bench etcd`, with `-- --quick` for short turns and few kills; `--writes`,
//! `--reads`, `--failover`, `--only "64 writers"`, `--one` and `--three` (members) for a part of it
//!
//! A write of slotkeeper creates a token or revokes it, by turns; a change is `PATCH` of one of 64 shards. Both are
//! authorised, checked, audited and answered as JSON over HTTP/1.1; etcd's is a `Put` of 64 bytes over gRPC. A read is
//! one slot, or one key; both linearizable. Writers talk to the leader, readers to all members. Both systems are asked
//! by turns.

mod etcd;
mod failover;
mod keeper;
mod load;
mod process;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use self::load::{Kind, Plan};

/// What is measured, and for how long.
struct Measure {
    turn: Duration,
    rounds: usize,
    kills: usize,
}

fn etcd_binary() -> Option<PathBuf> {
    let path = std::env::var_os("ETCD").map_or_else(|| PathBuf::from("etcd"), PathBuf::from);
    let version = Command::new(&path).arg("--version").output().ok().filter(|output| output.status.success())?;
    println!("{}", String::from_utf8_lossy(&version.stdout).lines().next().unwrap_or_default());
    Some(path)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Both systems by turns; prints one line.
async fn compare(measure: &Measure, folder: &Path, etcd: &Path, members: usize, plans: &[(&str, Plan, &str)]) {
    if plans.is_empty() {
        return;
    }
    let mut ours = keeper::Group::start(&folder.join(format!("keeper-{members}")), members, &[]).await;
    let mut other = etcd::Group::start(&folder.join(format!("etcd-{members}")), etcd, members).await;
    for (name, plan, wanted) in plans {
        let (mut one, mut two, mut spent) = (Vec::new(), Vec::new(), [(); 4].map(|()| Vec::new()));
        for round in 0..=measure.rounds {
            let ours = load::run(&mut ours, plan, measure.turn).await;
            let other = load::run(&mut other, plan, measure.turn).await;
            // The first round warms both up.
            if round > 0 {
                one.push(ours.per_second);
                two.push(other.per_second);
                let figures = [ours.median_us, other.median_us, ours.processor_us, other.processor_us];
                spent.iter_mut().zip(figures).for_each(|(all, figure)| all.push(figure));
            }
        }
        let ratio = median(one.iter().zip(&two).map(|(one, two)| one / two).collect());
        let [us, other_us, processor_us, other_processor_us] = spent.map(median);
        println!(
            "| {name}, {members} member{} | {:.0} | {:.0} | {ratio:.2} | {wanted} | {us:.0} | {other_us:.0} | {processor_us:.0} | {other_processor_us:.0} |",
            if members == 1 { "" } else { "s" },
            median(one),
            median(two),
        );
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    // `cargo test --benches` starts this too, and wants no figures.
    if !has("--bench") {
        return;
    }
    let Some(etcd) = etcd_binary() else {
        println!("etcd is not installed: nothing to compare with");
        return;
    };
    let measure = if has("--quick") {
        Measure { turn: Duration::from_secs(1), rounds: 3, kills: 4 }
    } else {
        Measure { turn: Duration::from_secs(3), rounds: 5, kills: 12 }
    };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on a real disk");
    let only = |what: &str| !(has("--writes") || has("--reads") || has("--failover")) || has(&format!("--{what}"));
    let write = |clients| Plan { kind: Kind::Write, clients };
    let change = |clients| Plan { kind: Kind::Change, clients };
    let read = |clients| Plan { kind: Kind::Read, clients };
    println!(
        "| | slotkeeper /s | etcd /s | ratio | wanted | slotkeeper, median µs | etcd, median µs | slotkeeper, CPU µs each | etcd, CPU µs each |\n|---|---|---|---|---|---|---|---|---|"
    );
    let writes = [
        ("1 writer", write(1), "1.0"),
        ("64 writers", write(64), "1.5"),
        ("1 writer of shards", change(1), ""),
        ("64 writers of shards", change(64), ""),
    ];
    let named = |name: &str| arguments.iter().skip_while(|a| *a != "--only").nth(1).is_none_or(|only| only == name);
    let writes: Vec<_> = writes.into_iter().filter(|(name, ..)| only("writes") && named(name)).collect();
    let reads = [("64 linearizable readers", read(64), "2.0")];
    let reads = reads.into_iter().filter(|(name, ..)| only("reads") && named(name));
    if !has("--three") {
        compare(&measure, dir.path(), &etcd, 1, &writes).await;
    }
    if !has("--one") {
        compare(&measure, dir.path(), &etcd, 3, &writes.into_iter().chain(reads).collect::<Vec<_>>()).await;
    }
    if only("failover") {
        println!(
            "\n| kill -9 of the leader of three → next acknowledged write, ms | median | max | of etcd's median | wanted |\n|---|---|---|---|---|"
        );
        let other = etcd::Group::start(&dir.path().join("etcd-kill"), &etcd, 3).await;
        let theirs = failover::measure("etcd", other, measure.kills, None, "").await;
        for (name, flags, wanted) in
            [("slotkeeper", &[][..], "0.85"), ("slotkeeper --fast-lan", &["--fast-lan"], "0.5")]
        {
            let folder = dir.path().join(name.replace(' ', ""));
            let ours = keeper::Group::start(&folder, 3, flags).await;
            failover::measure(name, ours, measure.kills, Some(theirs), wanted).await;
        }
    }
}
