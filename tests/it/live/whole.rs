//! No key is lost where the servers move slots by themselves: a real Valkey 9, a load that does not stop, and `kill -9` of the
//! controller, the source or the target in every state of a move. Left out, with a word, where there is none
//! (`SLOTKEEPER_TEST_VALKEY`); `make test` installs one.

use serde_json::json;

use super::cluster::Cluster;
use super::proof::{add_drain_and_rebalance, all, patient, size};
use super::report::{Case, part};
use super::resp::Reply;
use super::scene::{Party, Scene};
use super::server::{Options, Server, valkey};

/// When somebody is killed: the place in the driver, and the state in which the servers are held meanwhile, where they are,
/// by the one of their own switches for tests.
type Moment = (&'static str, Option<(&'static str, &'static str)>);

const REPLICATING: Option<(&str, &str)> = Some(("PREVENT-PAUSE", "waiting-to-pause"));
const GRANTED: Option<(&str, &str)> = Some(("PREVENT-FAILOVER", "failover-granted"));

const MOMENTS: [Moment; 5] = [
    ("before-ask", None),
    // Wherever the servers are by then.
    ("after-ask", None),
    ("in-task", REPLICATING),
    ("in-task", GRANTED),
    ("after-task", None),
];

/// What is killed when there is little time.
const SOME: [(Party, Moment); 4] = [
    (Party::Controller, ("in-task", REPLICATING)),
    (Party::Source, ("in-task", REPLICATING)),
    (Party::Target, ("in-task", GRANTED)),
    (Party::Target, ("after-ask", None)),
];

/// The tasks that a server lists, each with its fields.
fn tasks(server: &Server) -> Vec<Vec<(String, Reply)>> {
    let Ok(Reply::Array(entries)) = server.call(&["CLUSTER", "GETSLOTMIGRATIONS"]) else { return Vec::new() };
    let fields = |entry: Reply| {
        let mut words = entry.array().into_iter();
        let mut fields = Vec::new();
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            fields.push((name.text(), value));
        }
        fields
    };
    entries.into_iter().map(fields).collect()
}

fn in_state(server: &Server, state: &str) -> bool {
    let state = Reply::Bulk(state.as_bytes().to_vec());
    tasks(server).into_iter().flatten().any(|(name, value)| name == "state" && value == state)
}

fn running(cluster: &Cluster) -> impl Iterator<Item = &Server> {
    cluster.servers.iter().filter(|server| server.is_running())
}

fn switch(cluster: &Cluster, hold: Option<(&str, &str)>, on: bool) {
    for server in running(cluster).filter(|_| hold.is_some()) {
        server.ask(&["DEBUG", "SLOTMIGRATION", hold.unwrap().0, if on { "1" } else { "0" }]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_lost_whoever_dies_while_servers_move_slots() {
    let Some(binary) = valkey("no_key_is_lost_whoever_dies_while_servers_move_slots") else { return };
    let more = ["--enable-debug-command", "yes"].map(str::to_owned).to_vec();
    let options = Options { binary, more, ..Options::default() };
    let cases: Vec<(Party, Moment)> = if all() {
        let parties = [Party::Controller, Party::Source, Party::Target];
        MOMENTS.iter().flat_map(|moment| parties.map(|party| (party, *moment))).collect()
    } else {
        SOME.to_vec()
    };
    let (size, (all, cases)) = (size(6000, 0), part(cases));
    for (number, (party, (place, hold))) in cases {
        let state = hold.map_or(String::new(), |(_, state)| format!(" {state}"));
        let case = Case::begin(format!("Valkey: {party:?} killed {place}{state}"), size, (number, all));
        let mut scene = Scene::begin(size, &options, Some(place)).await;
        let (request, server) = if party == Party::Source {
            // Draining has one source, adding one target.
            (json!({"drain": [scene.cluster.servers[0].id()], "goal": {"kind": "budget", "max_moves": 400}}), 0)
        } else {
            let node = scene.new_server();
            (json!({"add": [node], "goal": {"kind": "budget", "max_moves": 400}}), 3)
        };
        switch(&scene.cluster, hold, true);
        let plan = scene.start(request).await;
        let ripe = |cluster: &Cluster| hold.is_none_or(|(_, state)| running(cluster).any(|at| in_state(at, state)));
        scene.strike_when(party, server, ripe, |cluster| switch(cluster, hold, false)).await;
        scene.until_succeeded(&plan).await;
        assert!(
            running(&scene.cluster).any(|server| in_state(server, "success")),
            "no server has moved a slot by itself"
        );
        case.held(scene.end().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_lost_by_adding_draining_and_rebalancing_valkey() {
    let Some(binary) = valkey("no_key_is_lost_by_adding_draining_and_rebalancing_valkey") else { return };
    add_drain_and_rebalance("Valkey", size(6_000, 1), &Options { binary, ..patient() }).await;
}
