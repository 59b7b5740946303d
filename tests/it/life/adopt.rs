//! Adopting by a seed: any node leads to the whole cluster, and what is not whole is refused by name.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::json;

use super::{CLUSTER, Stage, controller};
use crate::live::cluster::Cluster;
use crate::live::resp::Access;
use crate::live::server::{Options, Server, until};

#[tokio::test(flavor = "multi_thread")]
async fn any_node_leads_to_the_whole_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path(), 3, 1, &Options::default());
    let stage = Stage { member: controller(folder.path(), "").await, cluster };
    // A replica of the second primary is the seed.
    let seed = stage.cluster.servers[4].address().to_string();
    let zones = format!("host,zone\n{seed},eu-2\n127.0.0.1,eu-1\n10.9.9.9,eu-3\n");
    let file = folder.path().join("zones.csv");
    std::fs::write(&file, zones).unwrap();
    let said = stage.member.cli_ok(&["cluster", "import", "--seed", &seed, "--zones", file.to_str().unwrap()]);
    assert!(said.contains("6 nodes in 3 shards, 0 slots without an owner"), "{said}");
    assert!(said.contains("zones are told of what is no node: 10.9.9.9"), "{said}");
    assert!(said.contains("the driver is redis now, and was flip"), "{said}");
    assert!(said.contains("3 masters run redis 7."), "{said}");
    let topology = stage.topology().await;
    for (index, line) in stage.cluster.primaries() {
        let shard = topology["shards"].as_array().unwrap().iter().find(|shard| shard["id"] == line.id).unwrap();
        assert_eq!(shard["primary"]["port"], stage.cluster.servers[index].port);
        let replicas = shard["replicas"].as_array().unwrap();
        let expected = &stage.cluster.servers[index + 3];
        assert_eq!((replicas.len(), &replicas[0]["id"]), (1, &json!(expected.id())));
        let zone = if index == 1 { "eu-2" } else { "eu-1" };
        assert_eq!(replicas[0]["zone"], zone);
        assert_eq!(shard["primary"]["zone"], "eu-1");
        let ranges = shard["ranges"].as_array().unwrap().iter();
        let slots: BTreeSet<u16> = ranges
            .flat_map(|range| range[0].as_u64().unwrap()..=range[1].as_u64().unwrap())
            .map(|slot| u16::try_from(slot).unwrap())
            .collect();
        assert_eq!(slots, line.slots);
    }
    let again = stage.member.cli(&["cluster", "import", "--seed", &seed]);
    assert_eq!(again.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&again.stderr).contains("3 shards already"));
    let clean = stage.member.cli_ok(&["cluster", "check"]);
    assert!(clean.contains("6 of 6 nodes answer"), "{clean}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_the_controllers_own() {
    let folder = tempfile::tempdir().unwrap();
    let access = Access { password: Some("canary-7".to_owned()), ..Access::default() };
    let options = Options { access, durable: false, ..Options::default() };
    let cluster = Cluster::start(folder.path(), 3, 0, &options);
    let seed = json!({"seed": cluster.servers[0].address().to_string()});
    let import = format!("{CLUSTER}/import");
    let member = controller(folder.path(), "").await;
    let refused = member.post(&import, seed.clone()).await.expect(409);
    assert!(refused["detail"].as_str().unwrap().contains("password"), "{refused}");
    drop(member);
    for (password, status) in [("wrong", 409), ("canary-7", 200)] {
        let file = folder.path().join("password");
        std::fs::write(&file, format!("{password}\n")).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let member = controller(folder.path(), &format!("[redis]\npassword_file = {:?}\n", file.display())).await;
        let answer = member.post(&import, seed.clone()).await.expect(status);
        let text = answer.to_string() + &member.log_text();
        assert!(!text.contains("canary-7") && !text.contains("wrong\""), "{text}");
        match status {
            200 => assert!(text.contains("lossy on crash"), "{text}"),
            _ => assert!(text.contains("credentials"), "{text}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_whole_cluster_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let member = controller(folder.path(), "").await;
    let import = |seed: String| {
        let member = &member;
        async move {
            let answer = member.post(&format!("{CLUSTER}/import"), json!({"seed": seed})).await.expect(409);
            answer["detail"].as_str().unwrap().to_owned()
        }
    };
    // Nobody listens; something else listens; it is not in cluster mode; it has no slots; only a part of them.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(import(free.to_string()).await.contains("cannot be reached"));
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = other.local_addr().unwrap().to_string();
    let web = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        let _ = stream.read(&mut [0; 512]).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let why = import(at.clone()).await;
    assert!(why.contains("is it a Redis server") && why.contains(&at), "{why}");
    web.join().unwrap();
    let single = Options { more: vec!["--cluster-enabled".to_owned(), "no".to_owned()], ..Options::default() };
    let single = Server::start(folder.path(), &single);
    assert!(import(single.address().to_string()).await.contains("not in cluster mode"));
    let part = Server::start(folder.path(), &Options::default());
    assert!(import(part.address().to_string()).await.contains("slots 0-16383 are owned by no master"));
    part.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "9999"]);
    assert!(import(part.address().to_string()).await.contains("slots 10000-16383 are owned by no master"));
    // A second one joins: whoever is asked has a part of the truth, and an open slot on top.
    let second = Server::start(folder.path(), &Options::default());
    second.ask(&["CLUSTER", "ADDSLOTSRANGE", "10000", "16383"]);
    part.ask(&["CLUSTER", "MEET", "127.0.0.1", &second.port.to_string(), &second.bus_port.to_string()]);
    until("both know each other's slots", || {
        let known = [&part, &second].iter().all(|server| {
            let told = server.ask(&["CLUSTER", "INFO"]).text();
            told.contains("cluster_slots_ok:16384") && told.contains("cluster_size:2")
        });
        if known { Ok(()) } else { Err("not yet".to_owned()) }
    });
    second.ask(&["CLUSTER", "SETSLOT", "7", "IMPORTING", &part.id()]);
    let why = import(part.address().to_string()).await;
    assert!(why.contains(&format!("slot 7 is open at {}", second.address())), "{why}");
    second.ask(&["CLUSTER", "SETSLOT", "7", "STABLE"]);
    second.signal("STOP");
    let why = import(part.address().to_string()).await;
    second.signal("CONT");
    assert!(why.contains(&second.address().to_string()) && why.contains("did not answer"), "{why}");
    member.post(&format!("{CLUSTER}/import"), json!({"seed": part.address().to_string()})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_names_one_source_only() {
    let folder = tempfile::tempdir().unwrap();
    let member = controller(folder.path(), "").await;
    for (body, field) in [
        (json!({}), "seed"),
        (json!({"seed": "127.0.0.1:1", "nodes_text": "x"}), "seed"),
        (json!({"seed": "127.0.0.1:1", "dialled": "h"}), "dialled"),
        (json!({"seed": "127.0.0.1"}), "seed"),
        (json!({"seed": "127.0.0.1:1", "password": "x"}), "password"),
        (json!({"seed": "127.0.0.1:1", "zone_pattern": "*"}), "zone_pattern"),
    ] {
        let answer = member.post(&format!("{CLUSTER}/import"), body.clone()).await.expect(422);
        assert_eq!(answer["field"], field, "{body}: {answer}");
    }
    // Where nothing of the cluster is reached, nor of the controller itself.
    for (seed, words) in [("169.254.169.254:80", "link-local"), (member.url.trim_start_matches("http://"), "itself")] {
        let answer = member.post(&format!("{CLUSTER}/import"), json!({"seed": seed})).await.expect(409);
        assert!(answer["detail"].as_str().unwrap().contains(words), "{answer}");
    }
}
