//! The proof's own proof: it is content with a move by redis-cli under load, and finds each kind of harm that is done.

use std::path::Path;

use super::audit::{audit, faults};
use super::cluster::Cluster;
use super::keys::{Key, Kind};
use super::load::{Load, Size, fill};
use super::resp::{Access, Reply};
use super::server::{Options, Server, until};

const SMALL: Size = Size { keys: 2000, big_mb: 1 };

fn start(folder: &Path, primaries: usize, replicas: usize, options: &Options) -> Cluster {
    let cluster = Cluster::start(folder, primaries, replicas, options);
    cluster.assert_clean();
    cluster
}

#[test]
fn a_move_by_redis_cli_under_load_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = start(folder.path(), 3, 0, &Options::default());
    let journal = fill(&cluster, SMALL);
    let load = Load::start(&cluster.addresses(), &cluster.options.access, &journal);
    cluster.add_server();
    cluster.meet_last();
    let seed = cluster.servers[0].address().to_string();
    let (from, to) = (cluster.servers[0].id(), cluster.servers[3].id());
    let what = ["--cluster-from", &from, "--cluster-to", &to, "--cluster-slots", "400", "--cluster-yes"];
    let output = cluster.redis_cli(&[&["--cluster", "reshard", &seed], &what[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    cluster.servers[1].kill_9();
    cluster.servers[1].restart();
    until("a thousand writes more", || if load.acked() > 1000 { Ok(()) } else { Err(load.acked().to_string()) });
    let counts = load.stop();
    audit(&cluster, &journal);
    let owned: Vec<usize> = cluster.primaries().iter().map(|(_, line)| line.slots.len()).collect();
    assert_eq!(owned, [5462 - 400, 5461, 5461, 400], "{counts:?}");
}

#[test]
fn the_audit_finds_what_is_lost_changed_doubled_or_left_open() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = start(folder.path(), 3, 0, &Options::default());
    let journal = fill(&cluster, SMALL);
    until("the brief keys have ended", || match faults(&cluster, &journal) {
        found if found.iter().all(|fault| fault.contains("never written and is there")) => Ok(()),
        found => Err(format!("{found:?}")),
    });
    let at = |key: Key| {
        let slot = super::client::slot_of(&key.name());
        cluster.primaries().into_iter().find(|(_, line)| line.slots.contains(&slot)).unwrap().0
    };
    let of = |kind: Kind, ends: bool, skip: usize| {
        journal.keys().filter(|key| key.kind() == kind && key.ends() == ends).nth(skip).unwrap()
    };
    let send = |key: Key, words: &[&[u8]]| {
        let reply = cluster.servers[at(key)].connect().unwrap().call(words).unwrap();
        assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
    };
    let text = of(Kind::Text, false, 0);
    send(text, &[b"DEL", &text.name()]);
    let set = of(Kind::Set, false, 1);
    send(set, &[b"SADD", &set.name(), b"77"]);
    let list = of(Kind::List, false, 2);
    send(list, &[b"RPUSH", &list.name(), b"1"]);
    let hash = of(Kind::Hash, true, 3);
    send(hash, &[b"PERSIST", &hash.name()]);
    let sorted = of(Kind::Sorted, false, 4);
    send(sorted, &[b"ZREM", &sorted.name(), b"1"]);
    // A key on a server that does not own its slot, as a retried move leaves it.
    let stray = of(Kind::Stream, false, 5);
    let elsewhere = (at(stray) + 1) % 3;
    let slot = super::client::slot_of(&stray.name()).to_string();
    let from = cluster.servers[at(stray)].id();
    cluster.servers[elsewhere].ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from]);
    let mut connection = cluster.servers[elsewhere].connect().unwrap();
    connection.call(&["ASKING"]).unwrap();
    connection.call(&stray.write(1)).unwrap();
    assert!(cluster.checked().unwrap_err().contains("importing"));
    assert_eq!(cluster.open_slots().len(), 1);
    cluster.servers[elsewhere].ask(&["CLUSTER", "SETSLOT", &slot, "STABLE"]);

    let mut found = faults(&cluster, &journal).join("\n");
    for (key, word) in [
        (text, "Nothing"),
        (text, "is gone"),
        (set, "never written [77]"),
        (list, "a version twice"),
        (hash, "Number(-1)"),
        (sorted, "lost [1]"),
        (stray, "and not its slot"),
        (stray, "is on the servers"),
    ] {
        let name = key.name().escape_ascii().to_string();
        assert!(found.lines().any(|line| line.contains(&name) && line.contains(word)), "{key:?} {word}: {found}");
        found =
            found.lines().filter(|line| !(line.contains(&name) && line.contains(word))).collect::<Vec<_>>().join("\n");
    }
    // Deleting and emptying a key is told twice more: its end is gone too.
    assert!(found.lines().count() <= 4, "{found}");
}

#[test]
fn clusters_with_replicas_passwords_and_tls_form() {
    let folder = tempfile::tempdir().unwrap();
    let access = Access { user: None, password: Some("a secret".to_owned()), tls: true };
    let cluster = start(folder.path(), 3, 1, &Options { access, ..Options::default() });
    assert_eq!(cluster.primaries().len(), 3);
    let journal = fill(&cluster, Size { keys: 600, big_mb: 0 });
    let refused = Access { tls: true, ..Access::default() };
    let mut stranger =
        super::resp::Connection::open(cluster.servers[0].address(), &refused, super::server::PATIENCE).unwrap();
    assert!(matches!(stranger.call(&["GET", "x"]).unwrap(), Reply::Error(why) if why.starts_with("NOAUTH")));
    let replica = cluster.view(0).into_iter().find(|line| line.primary.is_some()).unwrap();
    let replica: &Server = &cluster.servers[cluster.index_of(&replica.id)];
    until("the replica has its share", || match replica.ask(&["DBSIZE"]).number() {
        0 => Err("nothing".to_owned()),
        count => Ok(count),
    });
    until("the brief keys have ended", || match faults(&cluster, &journal) {
        found if found.is_empty() => Ok(()),
        found => Err(format!("{found:?}")),
    });
}
