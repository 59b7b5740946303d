//! What servers refuse in the middle of a move, and that it goes on from there.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::cmd;
use tokio::time::timeout;

use super::fixture::{Cluster, PATIENCE, driver, key_in, topology_from};
use crate::driver::redis::{Credentials, Failpoints, Secret, Settings};
use crate::driver::{Driver as _, DriverError};

const SLOT: u16 = 700;

fn fill(cluster: &Cluster) {
    let mut connection = cluster.servers[0].connect().unwrap();
    for number in 0..20 {
        cmd("SET").arg(key_in(SLOT, number)).arg(vec![7_u8; 1000]).exec(&mut connection).unwrap();
    }
}

fn assert_moved(cluster: &Cluster) {
    assert_eq!((cluster.servers[0].keys_in(SLOT), cluster.servers[1].keys_in(SLOT)), (0, 20));
    cluster.assert_owned(SLOT, 1);
    cluster.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_without_room_is_told_and_waited_for() {
    let cluster = Cluster::start(2, 0, 0, &[]);
    let job = cluster.job(&Arc::new(cluster.topology()), 0, 1, &[(SLOT, SLOT)]);
    fill(&cluster);
    cluster.servers[1].ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let told = async {
        job.waits.changed().await;
        let (_, told) = job.waits.first().unwrap();
        cluster.servers[1].ask(&["CONFIG", "SET", "maxmemory", "0"]);
        told
    };
    let (done, told) = timeout(PATIENCE, async { tokio::join!(cluster.execute(&job), told) }).await.unwrap();
    done.unwrap();
    assert!(told.contains("OOM") && told.contains("make room at the target"), "{told}");
    assert_moved(&cluster);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_the_target_does_not_let_write_stops_the_slot_until_it_does() {
    let cluster = Cluster::start(2, 0, 0, &[]);
    let job = cluster.job(&Arc::new(cluster.topology()), 0, 1, &[(SLOT, SLOT)]);
    fill(&cluster);
    for server in &cluster.servers {
        server.ask(&["ACL", "SETUSER", "mover", "on", ">canary", "~*", "&*", "+@all"]);
    }
    cluster.servers[1].ask(&["ACL", "SETUSER", "mover", "-restore-asking"]);
    let mover = Credentials { username: Some("mover".to_owned()), password: Secret::new("canary") };
    let driver = driver(Settings { credentials: Some(mover), ..Settings::default() });
    let answer = driver.execute(&job).await;
    let Err(DriverError::Open(why)) = answer else { panic!("{answer:?}") };
    assert!(why.contains("NOPERM") && why.contains("at both servers") && !why.contains("canary"), "{why}");
    assert_eq!(cluster.servers[0].keys_in(SLOT), 20, "it has not moved any");
    cluster.servers[1].ask(&["ACL", "SETUSER", "mover", "+restore-asking"]);
    driver.execute(&job).await.unwrap();
    assert_moved(&cluster);
}

/// Relays connections to a port, and answers in its place to the first command that holds these words.
fn refusing(to: u16, words: &'static str, with: &'static str) -> (u16, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, done) = (listener.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
    let refused = Arc::clone(&done);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            let (mut answers, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || drop(std::io::copy(&mut answers, &mut to_client)));
            let done = Arc::clone(&done);
            std::thread::spawn(move || relay((client, server), words, with, &done));
        }
    });
    (port, refused)
}

/// Commands of this size come in one piece.
fn relay((mut client, mut server): (TcpStream, TcpStream), words: &str, with: &str, done: &AtomicBool) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = client.read(&mut piece) {
        let text = String::from_utf8_lossy(&piece[..count]).replace("\r\n", " ");
        let plain: Vec<&str> = text.split(' ').filter(|word| !word.starts_with(['$', '*'])).collect();
        let sent = if plain.join(" ").contains(words) && !done.swap(true, Ordering::Relaxed) {
            client.write_all(format!("-{with}\r\n").as_bytes())
        } else {
            server.write_all(&piece[..count])
        };
        if sent.is_err() {
            break;
        }
    }
    drop(server.shutdown(std::net::Shutdown::Both));
}

/// What a source may answer to being told to let go is not fatal: by then the target owns the slot.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_refuses_to_let_go_is_looked_at_and_told_again() {
    for with in [
        "NOREPLICAS Not enough good replicas to write.",
        "UNBLOCKED force unblock",
        "LOADING Redis is loading the dataset",
    ] {
        let cluster = Cluster::start(2, 0, 0, &[]);
        fill(&cluster);
        let owner: &'static str = cluster.servers[1].id().to_string().leak();
        let words: &'static str = format!("SETSLOT {SLOT} NODE {owner}").leak();
        let (port, refused) = refusing(cluster.servers[0].port, words, with);
        let text = cluster.servers[1].text(&["CLUSTER", "NODES"]);
        let text = text.replace(&format!("127.0.0.1:{}@", cluster.servers[0].port), &format!("127.0.0.1:{port}@"));
        let job = cluster.job(&Arc::new(topology_from(&text)), 0, 1, &[(SLOT, SLOT)]);
        cluster.execute(&job).await.unwrap();
        assert!(refused.load(Ordering::Relaxed), "{with}: it was never told");
        assert_moved(&cluster);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_became_a_replica_before_it_let_go_has_let_go() {
    let cluster = Arc::new(Cluster::start(2, 1, 0, &[]));
    let topology = Arc::new(cluster.topology());
    // A source with one slot, which goes again.
    cluster.execute(&cluster.job(&topology, 0, 2, &[(SLOT, SLOT)])).await.unwrap();
    let (there, once) = (Arc::clone(&cluster), Arc::new(std::sync::Once::new()));
    let failpoints = Failpoints::new(move |place| {
        if place == "before-release" {
            once.call_once(|| {
                let (source, target) = (&there.servers[2], there.servers[1].id());
                there.wait("it has heard of the new owner", || {
                    source.view().myself().is_some_and(|me| me.ranges.is_empty())
                });
                source.ask(&["CLUSTER", "REPLICATE", target.as_str()]);
            });
        }
        Box::pin(std::future::ready(()))
    });
    let job = cluster.job(&topology, 2, 1, &[(SLOT, SLOT)]);
    driver(Settings { failpoints, ..Settings::default() }).execute(&job).await.unwrap();
    assert!(!cluster.servers[2].is_master());
    cluster.assert_owned(SLOT, 1);
}

/// The replica that took over still has keys that its primary had given away: its copy is never taken for the newer one.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_a_new_primary_still_has_is_one_when_equal_and_a_persons_business_when_not() {
    let mut cluster = Cluster::start(3, 0, 1, &[]);
    let topology = Arc::new(cluster.topology());
    let job = cluster.job(&topology, 0, 2, &[(SLOT, SLOT)]);
    fill(&cluster);
    let (source, target) = (cluster.servers[0].id(), cluster.servers[2].id());
    cluster.servers[2].ask(&["CLUSTER", "SETSLOT", "700", "IMPORTING", source.as_str()]);
    cluster.servers[0].ask(&["CLUSTER", "SETSLOT", "700", "MIGRATING", target.as_str()]);
    cluster.wait("the replica has it all", || cluster.servers[0].number(&["WAIT", "1", "1000"]) >= 1);
    let there = |number: usize, value: &[u8]| {
        let mut connection = cluster.servers[2].connect().unwrap();
        cmd("ASKING").exec(&mut connection).unwrap();
        cmd("SET").arg(key_in(SLOT, number)).arg(value).exec(&mut connection).unwrap();
    };
    there(3, &[7_u8; 1000]);
    there(4, b"written after it was given away");
    let now = cluster.fail_over(0);
    let answer = cluster.execute(&job).await;
    let Err(DriverError::Open(why)) = answer else { panic!("{answer:?}") };
    let key = String::from_utf8(key_in(SLOT, 4)).unwrap();
    assert!(why.contains(&key) && why.contains("different values"), "{why}");
    assert!(!why.contains(&String::from_utf8(key_in(SLOT, 3)).unwrap()), "{why}");
    // What went in one command with it stays with it.
    assert!(
        (1..20).contains(&cluster.servers[now].keys_in(SLOT)),
        "the others have moved, and the one is at both ends"
    );
    cmd("DEL").arg(key_in(SLOT, 4)).exec(&mut cluster.servers[now].connect().unwrap()).unwrap();
    cluster.execute(&job).await.unwrap();
    cluster.assert_owned(SLOT, 2);
    assert_eq!(cluster.servers[2].keys_in(SLOT), 20);
    cluster.assert_sound();
}
