//! A node that stands still every other second: what is on its way to it is tried again, and nothing else is disturbed.

use std::time::Duration;

use super::load::Size;
use super::scene::Scene;
use super::server::Options;

use serde_json::json;

/// How often it stands still, and for how long.
const TIMES: usize = 4;
const PAUSE: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stands_still_every_other_second_loses_no_key_and_no_epoch_is_spent_on_it() {
    // The servers themselves do not take it for dead: whether they would is theirs.
    let options = Options { node_timeout_ms: 15_000, ..Options::default() };
    let mut scene = Scene::begin(Size { keys: 6000, big_mb: 0 }, &options, None).await;
    let node = scene.new_server();
    let before = scene.epoch().await;
    let plan = scene.start(json!({"add": [node], "goal": {"kind": "budget", "max_moves": 800}})).await;
    for _ in 0..TIMES {
        scene.cluster.servers[3].signal("STOP");
        tokio::time::sleep(PAUSE).await;
        scene.cluster.servers[3].signal("CONT");
        tokio::time::sleep(PAUSE).await;
    }
    scene.until_succeeded(&plan).await;
    let (spent, actions) = (scene.epoch().await - before, scene.actions(&plan).await);
    // The plan with its node, and of each action its beginning and its end.
    assert!(spent <= 2 + 2 * actions, "{spent} epochs for {actions} actions");
    assert_eq!(scene.resumed(), 0, "nobody had to look after it");
    scene.end().await;
}
