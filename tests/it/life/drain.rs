//! Draining one node of a shard whose other node is in sync: a promotion, and no slot moves.

use serde_json::json;

use super::{CLUSTER, Stage};
use crate::e2e::{review_and_carry_out, told};
use crate::live::server::until;

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_with_a_replica_is_drained_by_a_promotion_and_no_slot_moves() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new(folder.path(), 3, 1).await;
    let (member, servers) = (&stage.member, &stage.cluster.servers);
    let (primary, replica) = (servers[1].id(), servers[4].id());
    // Slot 7365, which the second has.
    servers[1].ask(&["SET", "c", "kept"]);
    let before = stage.topology().await;

    let drained = told(member, &["node", "drain", &primary, "--reason", "the host retires", "--yes"]);
    assert_eq!(drained["node"]["state"], "draining", "{drained}");
    let plan = told(member, &["plan", "show", drained["plan"]["id"].as_str().unwrap()]);
    assert_eq!(plan["summary"]["slots"], 0, "{}", plan["summary"]);
    let actions = plan["actions"].as_array().unwrap();
    assert_eq!(actions.len(), 1, "{actions:?}");
    let promotion = (&actions[0]["kind"], &actions[0]["from"], &actions[0]["to"]);
    assert_eq!(promotion, (&json!("promote"), &json!(primary), &json!(replica)));
    let said = member.cli_ok(&["plan", "show", plan["id"].as_str().unwrap(), "--shard", &primary, "-o", "wide"]);
    assert!(said.contains("becomes the primary of") && said.contains("no slot moves for that"), "{said}");

    review_and_carry_out(member, &plan);
    stage.cluster.until_agreed();
    let line = |of: &str| stage.cluster.view(0).into_iter().find(|line| line.id == of).unwrap();
    assert_eq!(line(&primary).primary.as_deref(), Some(replica.as_str()), "the old primary follows the new one");
    assert_eq!(line(&replica).primary, None);
    assert_eq!(line(&replica).slots.len(), 5461, "all of its slots, at once");
    assert_eq!(servers[4].ask(&["GET", "c"]).text(), "kept");
    let after = stage.topology().await;
    for (shard, was) in after["shards"].as_array().unwrap().iter().zip(before["shards"].as_array().unwrap()) {
        assert_eq!((&shard["id"], &shard["ranges"]), (&was["id"], &was["ranges"]), "no slot moved");
        let promoted = shard["id"] == json!(primary);
        let expected = if promoted { json!(replica) } else { was["primary"]["id"].clone() };
        assert_eq!(shard["primary"]["id"], expected);
    }
    stage.until_drift(&[]).await;
    stage.cluster.assert_clean();

    // Now it owns nothing and can go.
    member.cli_ok(&["node", "remove", &primary, "--reason", "it is empty", "--yes"]);
    let gone = member.get(&format!("{CLUSTER}/nodes/{primary}")).await;
    assert_eq!(gone.status, 404);
    until("everybody has forgotten it", || {
        let view = stage.cluster.view(0);
        if view.iter().all(|line| line.id != primary) { Ok(()) } else { Err(format!("{view:?}")) }
    });
}
