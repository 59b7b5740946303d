//! No key is lost: real servers, three real controllers, a load that does not stop, and `kill -9` of the controller, the
//! source or the target at every step of the protocol.
//!
//! `make proof` runs all of it on 200,000 keys; `make test` a part of it on fewer (`SLOTKEEPER_PROOF_KEYS`,
//! `SLOTKEEPER_PROOF_BIG_MB`, `SLOTKEEPER_PROOF_ALL`, `SLOTKEEPER_PROOF_PART`).

use std::time::Duration;

use serde_json::json;

use super::load::Size;
use super::report::{Case, part};
use super::scene::{Party, Scene};
use super::server::Options;

/// Places in the protocol, in order.
const PLACES: [&str; 11] = [
    "before-import",
    "after-import",
    "before-migrate",
    "after-migrate",
    "before-drain",
    "in-drain",
    "after-drain",
    "before-own",
    "after-own",
    "before-release",
    "after-release",
];

/// What is killed where when there is little time.
const SOME: [(Party, &str); 4] = [
    (Party::Controller, "after-own"),
    (Party::Source, "in-drain"),
    (Party::Target, "in-drain"),
    (Party::Target, "after-own"),
];

/// For how long a server stands still.
const PAUSE: Duration = Duration::from_secs(2);

fn number(name: &str, otherwise: u32) -> u32 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number")))
}

pub fn size(keys: u32, big_mb: u32) -> Size {
    Size { keys: number("SLOTKEEPER_PROOF_KEYS", keys), big_mb: number("SLOTKEEPER_PROOF_BIG_MB", big_mb) }
}

/// A large key blocks both ends while it moves: that must not be taken for death.
pub fn patient() -> Options {
    Options { node_timeout_ms: 15_000, ..Options::default() }
}

/// Whether everything is to be proved, however long it takes.
pub fn all() -> bool {
    std::env::var_os("SLOTKEEPER_PROOF_ALL").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_lost_by_adding_draining_and_rebalancing() {
    add_drain_and_rebalance("Redis", size(20_000, 5), &patient()).await;
}

pub async fn add_drain_and_rebalance(server: &str, size: Size, options: &Options) {
    let case = Case::begin(format!("{server}: add, drain, rebalance; the controller killed"), size, (1, 1));
    let mut scene = Scene::begin(size, options, None).await;
    // The whole way round, or some slots of each.
    let (some, drained) =
        if all() { (json!({"kind": "balance"}), 0) } else { (json!({"kind": "budget", "max_moves": 600}), 3) };
    let node = scene.new_server();
    let plan = scene.start(json!({"add": [node], "goal": some, "reason": "more room"})).await;
    scene.until_succeeded(&plan).await;
    let id = scene.cluster.servers[drained].id();
    let plan = scene.start(json!({"drain": [id], "goal": {"kind": "drain_only"}, "reason": "it retires"})).await;
    scene.until_written(200).await;
    let leader = scene.group.leader().await;
    scene.group.members[leader].kill_9();
    scene.group.members[leader].start();
    scene.until_succeeded(&plan).await;
    let owned = scene.cluster.primaries().into_iter().find(|(index, _)| *index == drained).unwrap().1.slots.len();
    assert_eq!(owned, 0, "the drained server is empty");
    scene.remove(drained).await;
    let larger = scene.cluster.servers[1].id();
    let plan = scene.start(json!({"reweight": {larger: 2}, "goal": some, "reason": "it is larger"})).await;
    // A server that stands still for a while, as one does behind a slow disk.
    scene.cluster.servers[2].signal("STOP");
    tokio::time::sleep(PAUSE).await;
    scene.cluster.servers[2].signal("CONT");
    scene.until_succeeded(&plan).await;
    case.held(scene.end().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_lost_whoever_dies_at_whichever_step() {
    let cases: Vec<(Party, &str)> = if all() {
        let parties = [Party::Controller, Party::Source, Party::Target];
        PLACES.iter().flat_map(|place| parties.map(|party| (party, *place))).collect()
    } else {
        SOME.to_vec()
    };
    let (size, (all, cases)) = (size(6000, 0), part(cases));
    let options = if size.big_mb > 0 { patient() } else { Options::default() };
    for (number, (party, place)) in cases {
        let case = Case::begin(format!("Redis: {party:?} killed {place}"), size, (number, all));
        let mut scene = Scene::begin(size, &options, Some(place)).await;
        // Draining has one source, adding one target.
        let (request, server) = if party == Party::Source {
            (json!({"drain": [scene.cluster.servers[0].id()], "goal": {"kind": "budget", "max_moves": 400}}), 0)
        } else {
            let node = scene.new_server();
            (json!({"add": [node], "goal": {"kind": "budget", "max_moves": 400}}), 3)
        };
        let plan = scene.start(request).await;
        scene.strike(party, server).await;
        scene.until_succeeded(&plan).await;
        case.held(scene.end().await);
    }
}
