//! Every real `CLUSTER NODES` output: adopted and planned, or refused for the reason it should be.

use serde_json::json;

use super::*;

/// Name, and the fewest moves for one shard more (by hand: the share of the fourth of four shards).
const PLANNED: [(&str, u64); 9] = [
    ("01-3m3r.nodes.txt", 4096),
    ("02-midmigration-bystander.nodes.txt", 4096),
    ("02-midmigration-source-replica.nodes.txt", 4096),
    ("03a-pfail.nodes.txt", 4096),
    ("03b-failed-master-replica-promoted.nodes.txt", 4096),
    ("04a-hostname-set-pref-ip.nodes.txt", 4096),
    ("04b-hostname-preferred-one-missing.nodes.txt", 4096),
    ("09a-tls-cluster-asked-plaintext.nodes.txt", 4096),
    ("10-ipv6.nodes.txt", 4096),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_real_output_is_adopted_and_planned_or_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let member = Member::dev(folder.path());
    member.ready().await;
    for (index, (name, fewest)) in PLANNED.iter().enumerate() {
        let cluster = format!("/v1/clusters/f{index}");
        member.post("/v1/clusters", json!({"name": format!("f{index}"), "driver": "flip"})).await.expect(201);
        let imported = member.post(&format!("{cluster}/import"), Value::String(fixture(name))).await;
        assert_eq!(imported.status, 200, "{name}: {}", imported.body);
        assert_eq!(imported.body["cluster"]["unassigned"], 0, "{name}");
        let request = json!({"add": [{"name": "new-1", "host": "127.0.0.9", "port": 7000}]});
        let plan = member.post(&format!("{cluster}/plans"), request).await.expect(201)["plan"].clone();
        assert_eq!(plan["summary"]["slots"], *fewest, "{name}");
        assert_eq!(plan["summary"]["lower_bound"], *fewest, "{name}");
    }

    member.post("/v1/clusters", json!({"name": "open", "driver": "flip"})).await.expect(201);
    let text = Value::String(fixture("02-midmigration-source.nodes.txt"));
    let refused = member.post("/v1/clusters/open/import", text).await;
    assert_eq!(refused.status, 409, "slot 5 is open: {}", refused.body);
    assert!(refused.body["detail"].as_str().unwrap().contains("slot 5"), "{}", refused.body);

    let text = Value::String(fixture("05-fresh-single-node-empty-ip.nodes.txt"));
    let refused = member.post("/v1/clusters/open/import", text).await;
    assert_eq!(refused.status, 422, "no host is told: {}", refused.body);
    let body = json!({"nodes_text": fixture("06-handshake.nodes.txt"), "dialled": "127.0.0.1"});
    let adopted = member.post("/v1/clusters/open/import", body).await.expect(200);
    assert_eq!((&adopted["cluster"]["nodes"], &adopted["cluster"]["unassigned"]), (&json!(1), &json!(16383)));
    // One master with slot 100 alone: the rest has no owner, and two shards end with half each.
    let request = json!({"add": [{"name": "new-1", "host": "127.0.0.9", "port": 7000}]});
    let plan = member.post("/v1/clusters/open/plans", request).await.expect(201)["plan"].clone();
    assert_eq!((&plan["summary"]["slots"], &plan["summary"]["assigned"]), (&json!(0), &json!(16383)));
    assert!(target(&plan).values().all(|&after| after == 8192), "{:?}", target(&plan));
}
