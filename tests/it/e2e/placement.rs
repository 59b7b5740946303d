//! Copies are placed over zones from the command line: proposed, read, approved, carried out, and seen by clients.

use super::*;

/// Three hosts in three zones with two nodes each. The copies of the first shard are on one host, and the primaries of the
/// other two on another: two nodes have to change, and one primary.
const NODES: [(&str, u8, &str); 6] = [
    ("a1", 1, "master - 0 0 1 connected 0-5460"),
    ("a2", 1, "slave a1 0 0 1 connected"),
    ("b1", 2, "master - 0 0 2 connected 5461-10922"),
    ("b2", 3, "slave b1 0 0 2 connected"),
    ("c1", 2, "master - 0 0 3 connected 10923-16383"),
    ("c2", 3, "slave c1 0 0 3 connected"),
];

/// A node id as servers have them: forty digits.
fn id(short: &str) -> String {
    short.repeat(20)
}

fn nodes_text() -> String {
    let line = |(port, (name, host, rest)): (usize, &(&str, u8, &str))| {
        let is_node = |word: &&str| NODES.iter().any(|(name, ..)| name == word);
        let rest = rest.split(' ').map(|word| if is_node(&word) { id(word) } else { word.to_owned() });
        let (port, rest) = (7000 + port, rest.collect::<Vec<_>>().join(" "));
        let myself = if *name == "a1" { "myself," } else { "" };
        format!("{} 10.0.0.{host}:{port}@{} {myself}{rest}\n", id(name), port + 10_000)
    };
    NODES.iter().enumerate().map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_come_into_different_zones_and_primaries_onto_different_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let member = Member::dev(folder.path());
    member.ready().await;
    let m = &member;
    let (nodes, zones) = (folder.path().join("nodes.txt"), folder.path().join("zones.csv"));
    std::fs::write(&nodes, nodes_text()).unwrap();
    std::fs::write(&zones, "host,zone\n10.0.0.1,east\n10.0.0.2,west\n10.0.0.3,north\n").unwrap();
    m.cli_ok(&["cluster", "import", nodes.to_str().unwrap(), "--zones", zones.to_str().unwrap()]);
    let before = counts(m).await;

    let create = ["plan", "create", "--replicas", "1", "--spread", "zone"];
    let refused = m.cli(&["plan", "create", "--replicas", "3"]);
    assert_eq!(refused.status.code(), Some(2));
    let refused = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.contains("4 copies of a shard need as many hosts, and the active nodes are on 3"), "{refused}");
    let plan = told(m, &create)["plan"].clone();
    let placement = &plan["placement"];
    assert_eq!((&placement["changes"], &placement["failovers"]), (&json!(2), &json!(1)), "{placement}");
    assert_eq!(plan["summary"]["slots"], 0);
    let id_of = plan["id"].as_str().unwrap();
    let screen = m.cli_ok(&["plan", "show", id_of]);
    assert!(
        screen.contains("2 nodes change shard (bound 2), 1 failover (bound 1): 1 replica a shard, apart by zone"),
        "{screen}"
    );

    // Why: the same over HTTP and on the command line.
    let shard = id("a1");
    let path = format!("{CLUSTER}/plans/{id_of}/explain?shard={shard}");
    let because = m.get(&path).await.expect(200)["because"].clone();
    let because: Vec<&str> = because.as_array().unwrap().iter().map(|said| said.as_str().unwrap()).collect();
    let bound = "2 nodes change shard and 1 shards fail over in all; no placement of 1 replicas apart by zone changes \
                 fewer than 2 nodes";
    assert!(because.contains(&bound), "{because:#?}");
    assert!(because.iter().any(|said| said.contains("becomes a replica of") && said.contains(&shard)), "{because:#?}");
    let said = m.cli_ok(&["plan", "show", id_of, "--shard", &shard]);
    assert!(said.contains("2 nodes change shard and 1 shards fail over in all"), "{said}");

    review_and_carry_out(m, &plan);
    let topology = topology(m).await;
    let mut hosts = Vec::new();
    for shard in topology["shards"].as_array().unwrap() {
        let replicas = shard["replicas"].as_array().unwrap();
        assert_eq!(replicas.len(), 1, "{shard}");
        assert_ne!(shard["primary"]["zone"], replicas[0]["zone"], "{shard}");
        hosts.push(shard["primary"]["host"].as_str().unwrap());
    }
    hosts.sort_unstable();
    assert_eq!(hosts, ["10.0.0.1", "10.0.0.2", "10.0.0.3"], "a primary on each host");
    assert_eq!(counts(m).await, before, "no slot moved");
    let again = m.cli_ok(&[&create[..], &["--detailed-exitcode"]].concat());
    assert!(again.contains("every copy is where it is asked for"), "{again}");
}
