//! `slotkeeper dev --with-redis`: real servers beside the controller, which end with it and keep their keys.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use super::super::harness::Member;
use super::resp::{Access, Connection, Reply};
use super::server::until;

fn connect(port: u16) -> Result<Connection, String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Connection::open(address, &Access::default(), Duration::from_secs(5)).map_err(|fault| fault.to_string())
}

/// Ports of the servers, by the names of their folders.
fn ports(member: &Member) -> Vec<u16> {
    let entries = std::fs::read_dir(member.data_dir().join("redis")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    let mut ports: Vec<u16> = names.filter_map(|name| name.to_str().unwrap().parse().ok()).collect();
    ports.sort_unstable();
    ports
}

fn until_all_ended(ports: &[u16]) {
    for port in ports {
        until("the server has ended", || if connect(*port).is_err() { Ok(()) } else { Err(port.to_string()) });
    }
}

/// The commands to the first server of the slot of `greeting`: it answers MOVED to whom it belongs.
fn at_owner(ports: &[u16], command: &[&str]) -> Reply {
    let answers = ports.iter().map(|port| connect(*port).unwrap().call(command).unwrap());
    answers.into_iter().find(|answer| !matches!(answer, Reply::Error(why) if why.starts_with("MOVED"))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_adopted_end_with_the_controller_and_keep_their_keys() {
    super::server::demand_redis();
    let folder = tempfile::tempdir().unwrap();
    let mut member = Member::dev_with(folder.path(), &["--with-redis", "3"]);
    member.ready().await;
    let ports = ports(&member);
    assert_eq!(ports.len(), 3);
    let adopted = until_adopted(&member).await;
    assert_eq!(adopted["driver"], "redis");
    assert_eq!(at_owner(&ports, &["SET", "greeting", "hello"]), Reply::Simple("OK".into()));
    assert!(member.log_text().contains("node add 127.0.0.1:"), "{}", member.log_text());

    // Whatever ends the controller, nothing is left behind.
    member.kill_9();
    until_all_ended(&ports);
    member.start();
    member.ready().await;
    assert_eq!(at_owner(&ports, &["GET", "greeting"]), Reply::Bulk(b"hello".to_vec()));
    assert_eq!(until_adopted(&member).await["epoch"], adopted["epoch"]);
    assert!(member.terminate().success());
    assert!(ports.iter().all(|port| connect(*port).is_err()), "they have ended before it has");

    // Another number of servers than there are is refused, by name.
    let mut other = Member::dev_with(folder.path(), &["--with-redis", "4"]);
    let code = until("it ends", || other.ended().ok_or_else(|| "it runs".to_owned()));
    assert!(code == 1 && other.log_text().contains("start with --with-redis 3"), "{code}: {}", other.log_text());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ports_of_the_servers_are_chosen_and_one_that_is_taken_is_told_with_what_to_do() {
    super::server::demand_redis();
    let folder = tempfile::tempdir().unwrap();
    let base = (20_000..u16::MAX - 10_000)
        .step_by(7)
        .find(|port| [*port, port + 10_000].iter().all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()))
        .unwrap();
    let mut member = Member::dev_with(folder.path(), &["--with-redis", "1", "--redis-port", &base.to_string()]);
    member.ready().await;
    let chosen = ports(&member);
    assert!(chosen.len() == 1 && (base..base + 500).contains(&chosen[0]), "{base}: {chosen:?}");
    assert!(member.terminate().success());
    let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, chosen[0])).unwrap();
    let mut again = Member::dev_with(folder.path(), &["--with-redis", "1"]);
    let code = until("it ends", || again.ended().ok_or_else(|| "it runs".to_owned()));
    let said = again.log_text();
    assert!(
        code == 1 && said.contains(&format!("needs port {}", chosen[0])) && said.contains("--redis-port"),
        "{said}"
    );
}

#[test]
fn without_redis_server_it_says_so_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("dev");
    let output = Command::new(env!("CARGO_BIN_EXE_slotkeeper"))
        .args(["dev", "--with-redis", "3", "--listen", "127.0.0.1:0", "--data-dir", dir.to_str().unwrap()])
        .env("PATH", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("starts redis-server, which cannot be run") && said.contains("install it"), "{said}");
    assert!(!dir.exists(), "nothing is made");
}

async fn until_adopted(member: &Member) -> serde_json::Value {
    super::super::harness::eventually("the servers are adopted", || async {
        let cluster = member.get("/v1/clusters/default").await.expect(200);
        (cluster["nodes"] == 3 && cluster["unassigned"] == 0).then_some(cluster)
    })
    .await
}
