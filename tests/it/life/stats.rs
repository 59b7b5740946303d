//! What the servers count of each slot, printed and planned by.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Stage, controller};
use crate::live::client::{Client, slot_of};
use crate::live::cluster::Cluster;
use crate::live::server::{Options, valkey};

/// The rows of a CSV file after its header, by slot.
fn rows(csv: &str, header: &str) -> BTreeMap<u16, Vec<u64>> {
    let mut lines = csv.lines();
    assert!(lines.next().unwrap().starts_with("# taken_at: 20"), "{csv:.80}");
    assert_eq!(lines.next().unwrap(), header);
    let row = |line: &str| {
        let mut figures: Vec<u64> = line.split(',').map(|figure| figure.parse().unwrap()).collect();
        (u16::try_from(figures.remove(0)).unwrap(), figures)
    };
    lines.map(row).collect()
}

fn fill(cluster: &Cluster) {
    let mut client = Client::new(cluster.addresses(), &cluster.options.access);
    for number in 0..300 {
        let key = format!("{{tag-{}}}:{number}", number % 3);
        client.call(key.as_bytes(), &["SET", &key, "a value"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_bytes_of_each_slot_are_what_the_servers_hold() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new(folder.path(), 3, 0).await;
    fill(&stage.cluster);
    let csv = stage.member.cli_ok(&["cluster", "stats"]);
    let rows = rows(&csv, "slot,keys,bytes");
    assert_eq!(rows.len(), 16384);
    for (slot, figures) in &rows {
        let expected = if (0..3).any(|n| slot_of(format!("tag-{n}").as_bytes()) == *slot) { 100 } else { 0 };
        assert_eq!(figures[0], expected, "{slot}");
        assert_eq!(figures[1] > 0, expected > 0, "{slot}");
    }
    // It is what plans take.
    let file = folder.path().join("slots.csv");
    std::fs::write(&file, &csv).unwrap();
    let nodes = folder.path().join("nodes.txt");
    std::fs::write(&nodes, stage.member.cli_ok(&["cluster", "export"])).unwrap();
    let (nodes, file) = (nodes.to_str().unwrap(), file.to_str().unwrap());
    let plan = ["plan", "create", "--offline", nodes, "--metric", "keys", "--tolerance", "50", "--stats", file];
    let said = stage.member.cli(&plan);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success(), "{text}");
    // Redis 7.0 counts no load.
    let refused = stage.member.cli(&["cluster", "stats", "--over", "1"]);
    assert_eq!(refused.status.code(), Some(3));
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(why.contains("do not count the load of slots 0-16383"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn load_is_what_the_servers_spent_on_each_slot_meanwhile() {
    let Some(binary) = valkey("load_is_what_the_servers_spent_on_each_slot_meanwhile") else { return };
    let folder = tempfile::tempdir().unwrap();
    let more = ["--cluster-slot-stats-enabled", "yes"].map(str::to_owned).to_vec();
    let cluster = Cluster::start(folder.path(), 3, 0, &Options { binary, more, ..Options::default() });
    let stage = Stage { member: controller(folder.path(), "").await, cluster };
    stage.adopt(0).await;
    fill(&stage.cluster);
    let (stop, addresses, access) =
        (Arc::new(AtomicBool::new(false)), stage.cluster.addresses(), stage.cluster.options.access.clone());
    let load = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            let mut client = Client::new(addresses, &access);
            while !stop.load(Ordering::Relaxed) {
                client.call(b"{tag-1}:1", &["GET", "{tag-1}:1"]);
            }
        }
    });
    let csv = stage.member.cli_ok(&["cluster", "stats", "--over", "1"]);
    stop.store(true, Ordering::Relaxed);
    load.join().unwrap();
    let rows = rows(&csv, "slot,keys,bytes,ops");
    assert_eq!(rows.len(), 16384);
    let (hot, quiet) = (slot_of(b"tag-1"), slot_of(b"tag-2"));
    // What was written before does not count; that bytes are estimated does, a little.
    assert_eq!((rows[&hot][0], rows[&quiet][0]), (100, 100));
    assert!(rows[&hot][2] > 1000 && rows[&hot][2] > 10 * rows[&quiet][2], "{:?} {:?}", rows[&hot], rows[&quiet]);
}
