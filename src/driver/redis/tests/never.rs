//! What must never be sent, by what is sent: both ends are watched by a relay that writes down every command. The rules are
//! those of the protocol's documentation; each is shown to find its own breach in a trace that was made up.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use redis::cmd;

use super::fixture::{Cluster, driver, key_in, topology_from};
use crate::domain::Slot;
use crate::driver::redis::{Failpoints, Settings};
use crate::driver::{Driver as _, DriverError, Job};

type Command = Vec<Vec<u8>>;
/// Which end, and what it was sent, in order.
type Trace = Vec<(char, Command)>;

/// Relays connections to a port and writes down what clients send; the port to connect to.
fn relay(to: u16, end: char, trace: &Arc<Mutex<Trace>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let trace = Arc::clone(trace);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            let (mut answers, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || {
                drop(std::io::copy(&mut answers, &mut to_client));
                drop(to_client.shutdown(std::net::Shutdown::Both));
            });
            let trace = Arc::clone(&trace);
            std::thread::spawn(move || watch(client, server, end, &trace));
        }
    });
    port
}

fn watch(mut client: TcpStream, mut server: TcpStream, end: char, trace: &Mutex<Trace>) {
    let (mut bytes, mut piece) = (Vec::new(), [0; 16 * 1024]);
    while let Ok(count @ 1..) = client.read(&mut piece) {
        bytes.extend_from_slice(&piece[..count]);
        while let Some((command, used)) = parse(&bytes) {
            trace.lock().unwrap().push((end, command));
            bytes.drain(..used);
        }
        if server.write_all(&piece[..count]).is_err() {
            break;
        }
    }
    drop(server.shutdown(std::net::Shutdown::Both));
}

/// The first command of some bytes, and how many of them it takes.
fn parse(bytes: &[u8]) -> Option<(Command, usize)> {
    let line = |from: usize| {
        let end = from + bytes[from..].windows(2).position(|two| two == b"\r\n")?;
        let number = std::str::from_utf8(&bytes[from + 1..end]).ok()?.parse::<usize>().ok()?;
        Some((number, end + 2))
    };
    let (count, mut at) = line(0)?;
    let mut command = Vec::new();
    for _ in 0..count {
        let (length, start) = line(at)?;
        command.push(bytes.get(start..start + length)?.to_vec());
        at = start + length + 2;
    }
    (at <= bytes.len()).then_some((command, at))
}

/// What was set on a slot, as far as the trace tells: `importing`, `migrating`, `owned` (by the target), `released`, `sent`.
type Known = BTreeMap<u16, BTreeSet<&'static str>>;

/// The breaches of the rules in one `MIGRATE`.
fn breaches_of_migrate(end: char, command: &Command, words: &[String], known: &mut Known) -> Vec<String> {
    let mut found = Vec::new();
    let keys = words.iter().position(|word| word == "KEYS").expect("it has keys") + 1;
    if words[..keys].iter().any(|word| word == "COPY") {
        found.push("COPY".to_owned());
    }
    if words[5].parse::<u64>().unwrap() > 500 {
        found.push(format!("a timeout of {} ms", words[5]));
    }
    if command.len() - keys > 100 {
        found.push(format!("{} keys at once", command.len() - keys));
    }
    let of: BTreeSet<u16> = command[keys..].iter().map(|key| Slot::of_key(key).get()).collect();
    if of.len() != 1 {
        found.push(format!("keys of slots {of:?} in one MIGRATE"));
    }
    for slot in of {
        let state = known.entry(slot).or_default();
        state.insert("sent");
        if !state.contains("importing") && end == 'S' {
            found.push(format!("slot {slot}: keys sent to a target that does not import it"));
        }
        if state.contains("owned") {
            found.push(format!("slot {slot}: keys sent after the target owns it"));
        }
    }
    found
}

/// The breaches of the rules in a trace of moves of these slots from `S` to `T`, to their end or home again.
fn breaches(trace: &Trace, ids: (&str, &str), slots: &[u16], home: bool) -> Vec<String> {
    let (source, target) = ids;
    let mut found = Vec::new();
    let mut known = Known::new();
    for (end, command) in trace {
        let words: Vec<String> = command.iter().map(|word| String::from_utf8_lossy(word).to_uppercase()).collect();
        if words[0] == "MIGRATE" {
            found.extend(breaches_of_migrate(*end, command, &words, &mut known));
        }
        if words.len() < 4 || words[..2] != ["CLUSTER", "SETSLOT"] {
            continue;
        }
        let slot: u16 = words[2].parse().unwrap();
        let state = known.entry(slot).or_default();
        let node = words.get(4).map(|id| id.to_lowercase());
        match (*end, words[3].as_str(), node.as_deref()) {
            ('T', "IMPORTING", _) => _ = state.insert("importing"),
            ('S', "MIGRATING", _) => _ = state.insert("migrating"),
            ('T', "NODE", Some(id)) if id == target => {
                if !state.remove("importing") {
                    found.push(format!("slot {slot}: the target owns it without importing it"));
                }
                if !state.contains("migrating") {
                    found.push(format!("slot {slot}: the target owns it while the source accepts keys"));
                }
                state.insert("owned");
            }
            ('S', "NODE", Some(id)) if id == target => {
                if !state.contains("owned") {
                    found.push(format!("slot {slot}: the source let go before the target owns it"));
                }
                state.insert("released");
            }
            ('T', "NODE", Some(id)) if state.contains("importing") => {
                let whom = if id == source { "the source" } else { id };
                found.push(format!("slot {slot}: NODE of {whom} to clear an importing flag"));
            }
            ('T', "STABLE", _) if state.remove("importing") && !home => {
                found.push(format!("slot {slot}: the target is told to forget what it imports"));
            }
            ('S', "STABLE", _) => _ = state.remove("migrating"),
            _ => {}
        }
    }
    for slot in slots {
        let state = known.entry(*slot).or_default();
        if !home && !state.contains("released") {
            found.push(format!("slot {slot}: the source was never told to let go"));
        }
        if home && (state.contains("importing") || state.contains("migrating")) {
            found.push(format!("slot {slot}: left open"));
        }
        if !state.contains("sent") {
            found.push(format!("slot {slot}: no key was sent"));
        }
    }
    found
}

const SLOTS: [u16; 4] = [700, 701, 702, 900];

/// The commands of a move of [`SLOTS`], each with 150 keys.
async fn watched(ending: bool) -> (Trace, (String, String), Result<(), DriverError>, Cluster) {
    let cluster = Cluster::start(2, 1, 0, &[]);
    let mut connection = cluster.servers[0].connect().unwrap();
    for slot in SLOTS {
        for number in 0..150 {
            cmd("SET").arg(key_in(slot, number)).arg(number).exec(&mut connection).unwrap();
        }
    }
    let trace = Arc::new(Mutex::new(Trace::new()));
    let mut text = cluster.servers[1].text(&["CLUSTER", "NODES"]);
    for (end, server) in [('S', &cluster.servers[0]), ('T', &cluster.servers[2])] {
        let port = relay(server.port, end, &trace);
        text = text.replace(&format!("127.0.0.1:{}@", server.port), &format!("127.0.0.1:{port}@"));
    }
    let job = cluster.job(&Arc::new(topology_from(&text)), 0, 2, &[(700, 702), (900, 900)]);
    let job = Job { ending, ..job };
    let mut settings = Settings::default();
    if ending {
        // Keys that are too large come after the others were listed: those are sent, and then nothing can go on.
        settings.big_key_bytes = 1 << 20;
        let port = cluster.servers[0].port;
        let once = std::sync::Once::new();
        settings.failpoints = Failpoints::new(move |place| {
            if place == "before-migrate" {
                once.call_once(|| {
                    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
                    let mut connection = client.get_connection().unwrap();
                    for slot in SLOTS {
                        cmd("SET").arg(key_in(slot, 999)).arg(vec![7_u8; 3 << 20]).exec(&mut connection).unwrap();
                    }
                });
            }
            Box::pin(std::future::ready(()))
        });
    }
    let done = driver(settings).execute(&job).await;
    let ids = (cluster.servers[0].id().to_string(), cluster.servers[2].id().to_string());
    let trace = trace.lock().unwrap().clone();
    (trace, ids, done, cluster)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_sends_nothing_that_must_never_be_sent() {
    let (trace, (source, target), done, cluster) = watched(false).await;
    done.unwrap();
    assert_eq!(breaches(&trace, (&source, &target), &SLOTS, false), Vec::<String>::new());
    for slot in SLOTS {
        cluster.assert_owned(slot, 2);
        assert_eq!(cluster.servers[2].keys_in(slot), 150);
    }
    cluster.assert_sound();
}

#[test]
fn each_rule_finds_its_own_breach() {
    let (s, t, other) = ("a".repeat(40), "b".repeat(40), "c".repeat(40));
    let key = |slot: u16, number: usize| String::from_utf8(key_in(slot, number)).unwrap();
    let migrate = |more: &str, keys: &[String]| format!("S MIGRATE 127.0.0.1 7 E 0 500 {more} KEYS {}", keys.join(" "));
    let (importing, migrating) =
        (format!("T CLUSTER SETSLOT 700 IMPORTING {s}"), format!("S CLUSTER SETSLOT 700 MIGRATING {t}"));
    let (own, release) = (format!("T CLUSTER SETSLOT 700 NODE {t}"), format!("S CLUSTER SETSLOT 700 NODE {t}"));
    let send = migrate("", &[key(700, 1), key(700, 2)]);
    let read = |lines: &[&str]| -> Trace {
        let command = |line: &&str| {
            let (end, rest) = line.split_once(' ').unwrap();
            (end.chars().next().unwrap(), rest.split_whitespace().map(|word| word.as_bytes().to_vec()).collect())
        };
        lines.iter().map(command).collect()
    };
    let found = |lines: &[&str], home: bool| breaches(&read(lines), (&s, &t), &[700], home);
    let good = [&*importing, &migrating, &send, &own, &release];
    assert_eq!(found(&good, false), Vec::<String>::new());
    let many: Vec<String> = (0..101).map(|number| key(700, number)).collect();
    let (copy, mixed) = (migrate("COPY", &[key(700, 1)]), migrate("", &[key(700, 1), key(701, 1)]));
    let (crowd, slow) = (migrate("", &many), send.replace(" 500 ", " 3000 "));
    let (stable, stray) = ("T CLUSTER SETSLOT 700 STABLE".to_owned(), format!("T CLUSTER SETSLOT 700 NODE {other}"));
    for (lines, breach) in [
        (vec![&importing, &migrating, &copy, &own, &release], "COPY"),
        (vec![&importing, &migrating, &mixed, &own, &release], "keys of slots {700, 701} in one MIGRATE"),
        (vec![&importing, &migrating, &crowd, &own, &release], "101 keys at once"),
        (vec![&importing, &migrating, &slow, &own, &release], "a timeout of 3000 ms"),
        (vec![&importing, &migrating, &own, &send, &release], "slot 700: keys sent after the target owns it"),
        (vec![&importing, &migrating, &send, &release, &own], "slot 700: the source let go before the target owns it"),
        (vec![&migrating, &send, &own, &release], "slot 700: the target owns it without importing it"),
        (vec![&importing, &send, &own, &release], "slot 700: the target owns it while the source accepts keys"),
        (vec![&importing, &migrating, &send, &stray, &own, &release], "to clear an importing flag"),
        (vec![&importing, &migrating, &send, &stable, &importing, &own, &release], "told to forget what it imports"),
        (vec![&importing, &migrating, &send, &own], "slot 700: the source was never told to let go"),
    ] {
        let lines: Vec<&str> = lines.iter().map(|line| line.as_str()).collect();
        let found = found(&lines, false);
        assert!(found.iter().any(|said| said.contains(breach)), "{breach}: {found:?}");
    }
    assert!(found(&[&importing, &migrating, &send], true).contains(&"slot 700: left open".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_is_taken_back_closes_the_target_only_when_it_has_no_key() {
    let (trace, (source, target), done, cluster) = watched(true).await;
    assert!(matches!(&done, Err(DriverError::Halt(_))), "{done:?}");
    for slot in SLOTS {
        cluster.assert_owned(slot, 0);
        assert_eq!((cluster.servers[0].keys_in(slot), cluster.servers[2].keys_in(slot)), (151, 0), "slot {slot}");
    }
    cluster.assert_sound();
    assert_eq!(breaches(&trace, (&source, &target), &SLOTS, true), Vec::<String>::new());
    // What had arrived came home before the target was told to forget the slot.
    for slot in SLOTS {
        let of_slot = |command: &Command| command.last().is_some_and(|key| Slot::of_key(key).get() == slot);
        let home = |(end, command): &(char, Command)| *end == 'T' && command[0] == b"MIGRATE" && of_slot(command);
        let number = slot.to_string().into_bytes();
        let forgets = |(end, command): &(char, Command)| {
            *end == 'T' && command.get(2) == Some(&number) && command.get(3).is_some_and(|word| word == b"STABLE")
        };
        let (last, first) = (trace.iter().rposition(home), trace.iter().position(forgets));
        assert!(last.is_some() && last < first, "slot {slot}: {last:?} {first:?}");
    }
}
