//! A cluster whose servers speak TLS only and know one user only: adopted, watched, and its slots moved (`MIGRATE … AUTH2`).

use serde_json::{Value, json};

use super::{CLUSTER, Stage, controller};
use crate::live::cluster::Cluster;
use crate::live::resp::{Access, certificate};
use crate::live::server::Options;

const KEYS: i64 = 200;

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_and_with_a_user_a_cluster_is_adopted_and_its_slots_move() {
    let folder = tempfile::tempdir().unwrap();
    let access = Access { user: Some("mover".to_owned()), password: Some("canary-9".to_owned()), tls: true };
    // Nobody else is let in, not even by a server that sends keys.
    let more = "--user mover on >canary-9 ~* &* +@all --user default off";
    let more = more.split(' ').map(str::to_owned).collect();
    let options = Options { access, durable: false, more, ..Options::default() };
    let cluster = Cluster::start(folder.path(), 3, 0, &options);
    for number in 0..KEYS {
        // Slot 0, which the first server owns.
        cluster.servers[0].ask(&["SET", &format!("{{06S}}:{number}"), "kept"]);
    }
    let file = folder.path().join("password");
    std::fs::write(&file, "canary-9\n").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let who =
        format!("[redis]\nusername = \"mover\"\npassword_file = {:?}\nobserve_interval_ms = 250\n", file.display());
    let seed = json!({"seed": cluster.servers[1].address().to_string()});

    let unencrypted = controller(folder.path(), &who).await;
    let refused = unencrypted.post(&format!("{CLUSTER}/import"), seed.clone()).await.expect(409);
    assert_eq!(refused["code"], "node-unreachable", "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("it speaks TLS: set tls in [redis]"), "{refused}");
    let import = ["cluster", "import", "--seed", seed["seed"].as_str().unwrap()];
    assert_eq!(unencrypted.cli(&import).status.code(), Some(6), "the seed cannot be reached");
    drop(unencrypted);

    let ca = certificate("ca.pem");
    let member = controller(folder.path(), &format!("{who}[redis.tls]\nca = {:?}\n", ca.display())).await;
    let mut stage = Stage { member, cluster };
    stage.adopt(1).await;
    assert_eq!(stage.until_drift(&[]).await, Vec::<Value>::new());
    let added = stage.cluster.add_server();
    let address = stage.cluster.servers[added].address().to_string();
    stage.member.cli_ok(&["node", "add", &address, "--no-propose"]);
    let drained = stage.cluster.servers[0].id();
    let plan = stage.propose(json!({"drain": [drained], "reason": "it retires"})).await;
    assert_eq!(super::check(&plan, "acl-permissions")["level"], "ok", "{plan}");
    stage.carry_out(&plan).await;
    stage.cluster.assert_clean();
    let held: Vec<i64> = stage.cluster.servers.iter().map(|server| server.ask(&["DBSIZE"]).number()).collect();
    assert_eq!((held[0], held.iter().sum::<i64>()), (0, KEYS), "{held:?}");
    assert_eq!(stage.until_drift(&[]).await, Vec::<Value>::new());
    let removed = stage.member.cli_ok(&["node", "remove", &drained, "--reason", "the host goes", "--yes"]);
    assert!(removed.contains("is removed"), "{removed}");
    let (mut told, mut after) = (String::new(), 0);
    loop {
        let page = stage.member.get(&format!("/v1/audit?after={after}&limit=100")).await.expect(200);
        let Some(last) = page["items"].as_array().unwrap().last() else { break };
        after = last["seq"].as_u64().unwrap();
        told += &page.to_string();
    }
    assert!(told.contains("node.remove") && told.contains("the host goes"), "{}", told.len());
    assert!(!(told + &stage.member.log_text()).contains("canary-9"));
}
