//! States that are broken on purpose, and whether it is found: by the whole check and by that of one step alike.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

use proptest::prelude::*;

use super::super::fixture::{command, create, id, import, plan};
use super::super::{Cluster, Op, Revised, State};
use super::*;
use crate::domain::{
    ActionId, ClusterName, DriverKind, Epoch, Host, PlanId, RolloutState, SharedMap, Slot, SlotTable, Weight,
};

/// A cluster in the middle of a rollout: one action done, one in flight, one pending.
fn midway() -> (State, Cluster) {
    midway_with(DriverKind::Manual, &[])
}

/// The same with more shards, which own nothing.
fn midway_with(driver: DriverKind, others: &[String]) -> (State, Cluster) {
    let mut state = State::default();
    let name: ClusterName = id("main");
    let accept = |state: &mut State, op| {
        let applied = state.apply(&command(state.audit_head.seq, op));
        applied.outcome.unwrap();
    };
    accept(&mut state, create("main", driver));
    let replicated =
        [("a", "0-8191"), ("b", "8192-16383")].into_iter().chain(others.iter().map(|name| (name.as_str(), "")));
    accept(&mut state, import("main", &replicated.collect::<Vec<_>>()));
    let moves = [("a", "b", "0-9"), ("a", "b", "10-19"), ("a", "b", "20-29")];
    let plan = plan(&state.clusters[&name], "p-1", &moves);
    accept(&mut state, Op::Change { cluster: name.clone(), changes: Vec::new(), plan: Some(Arc::new(plan)) });
    let (cluster, plan) = (name.clone(), id::<PlanId>("p-1"));
    accept(&mut state, Op::Start { cluster: cluster.clone(), plan: plan.clone() });
    for action in [1, 2] {
        let (cluster, plan, actions) = (cluster.clone(), plan.clone(), vec![ActionId(action)]);
        accept(&mut state, Op::Begin { cluster: cluster.clone(), plan: plan.clone(), actions: actions.clone() });
        if action == 1 {
            accept(&mut state, Op::Finish { cluster, plan, actions });
        }
    }
    let cluster = Cluster::clone(&state.clusters[&name]);
    (state, cluster)
}

fn record(cluster: &mut Cluster) -> &mut PlanRecord {
    Arc::make_mut(cluster.plans.get_mut(&id::<PlanId>("p-1")).unwrap())
}

#[test]
fn every_broken_invariant_of_a_cluster_is_found_and_named() {
    type Breakage = (fn(&mut Cluster), &'static str);
    let broken: [Breakage; 18] = [
        (|c| c.epoch = Epoch(0), "counts from 1"),
        (|c| c.table = SlotTable::new(), "lists other shards"),
        (|c| assert!(c.table.insert_shard(id("zz"))), "lists other shards"),
        (|c| c.nodes.remove(&id::<NodeId>("node-a")), "is not there"),
        (|c| edit_shard(c, 1, |shard| shard.replicas.push(id("node-a"))), "is in two shards"),
        (|c| edit_shard(c, 0, |shard| shard.state = ShardState::Draining), "its nodes say otherwise"),
        (|c| edit_shard(c, 0, |shard| (shard.min_slots, shard.max_slots) = (Some(2), Some(1))), "above"),
        (|c| edit_node(c, 1, |node| node.port = 7000), "share the address"),
        (|c| edit_node(c, 1, |node| node.port = 0), "malformed"),
        (|c| c.active = None, "against `active`"),
        (|c| c.plans_proposed = 0, "never counted"),
        (|c| record(c).state = PlanState::Proposed, "against `active`"),
        (|c| record(c).rollout = None, "against its rollout"),
        (|c| c.moving.clear(), "not those of the actions in flight"),
        (|c| c.moving.extend(c.moving.clone()), "overlap"),
        (|c| c.moving[0].serving = Serving::To, "not served by its owner"),
        (|c| c.table.assign(id("0-0"), Some(&id("a"))).unwrap(), "not where its state says"),
        (|c| c.table.assign(id("29"), None).unwrap(), "not where its state says"),
    ];
    let (_, whole) = midway();
    assert_cluster(&whole);
    for (number, (breakage, expected)) in broken.into_iter().enumerate() {
        let mut cluster = whole.clone();
        breakage(&mut cluster);
        assert_panics(number, expected, || assert_cluster(&cluster));
        assert_panics(number, expected, || step::assert_step(&whole, &cluster));
    }
}

#[test]
fn a_cluster_under_another_name_or_ahead_of_its_generation_is_found() {
    let (mut state, cluster) = midway();
    assert_bounds(&state);
    state.generation_high.0 -= 1;
    assert_panics(0, "ahead of the highest generation", || assert_bounds(&state));
    state.generation_high.0 += 1;
    assert_eq!(state.fault(), None);
    state.clusters.insert(id("other"), Arc::new(cluster));
    assert_panics(1, "under the name other", || assert_bounds(&state));
    assert!(state.fault().unwrap().contains("under the name other"));
}

fn assert_panics(number: usize, expected: &str, check: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(check)).expect_err("nothing was found");
    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.contains(expected), "{number}: {text:?} does not say {expected:?}");
}

fn edit_shard(cluster: &mut Cluster, number: usize, change: impl FnOnce(&mut Shard)) {
    let mut shard = Revised::clone(cluster.shards.values().nth(number % cluster.shards.len()).unwrap());
    change(&mut shard.value);
    cluster.shards.insert(shard);
}

fn edit_node(cluster: &mut Cluster, number: usize, change: impl FnOnce(&mut Node)) {
    let mut node = Revised::clone(cluster.nodes.values().nth(number % cluster.nodes.len()).unwrap());
    change(&mut node.value);
    cluster.nodes.insert(node);
}

/// Does something to a cluster, from random numbers; some of it is harmless.
#[expect(clippy::too_many_lines, reason = "a list of things to do")]
fn tamper(c: &mut Cluster, [what, x, y]: [usize; 3]) {
    let shard_at = |c: &Cluster, number: usize| c.shards.keys().nth(number % c.shards.len()).unwrap().clone();
    let node_at = |c: &Cluster, number: usize| c.nodes.keys().nth(number % c.nodes.len()).unwrap().clone();
    if c.shards.len() < 2 || c.nodes.len() < 2 || !c.plans.contains_key(&id::<PlanId>("p-1")) {
        return;
    }
    match what {
        0 => edit_shard(c, x, |shard| shard.weight = Weight::new(7).unwrap()),
        1 => {
            let node = node_at(c, y);
            edit_shard(c, x, |shard| shard.replicas.push(node));
        }
        2 => {
            // A shard takes the only node of another one, which is gone: nothing is wrong with that.
            let (from, node) = (shard_at(c, x), c.shards[&shard_at(c, x)].value.primary.clone());
            c.shards.remove(&from);
            drop(c.table.remove_shard(&from));
            edit_shard(c, y, |shard| shard.replicas = vec![node]);
        }
        3 => {
            let node = node_at(c, x);
            c.nodes.remove(&node);
        }
        4 => {
            let shard = shard_at(c, x);
            c.shards.remove(&shard);
            if y.is_multiple_of(2) {
                drop(c.table.remove_shard(&shard));
            }
        }
        5 => edit_node(c, x, |node| node.state = [NodeState::Active, NodeState::Draining, NodeState::Lost][y % 3]),
        6 => edit_shard(c, x, |shard| shard.state = [ShardState::Active, ShardState::Draining][y % 2]),
        7 => {
            let port = c.nodes[&node_at(c, y)].value.port;
            edit_node(c, x, |node| node.port = port);
        }
        8 => edit_node(c, x, |node| node.port = u16::try_from(y % 3).unwrap()),
        9 => edit_shard(c, x, |shard| {
            shard.min_slots = shard.max_slots.insert(1).checked_add(u16::try_from(y % 2).unwrap());
        }),
        10 => c.active = [None, Some(id("p-1")), Some(id("p-2")), Some(id("p-9"))][y % 4].clone(),
        11 => c.plans_proposed = (x % 5) as u64,
        12 => record(c).state = [PlanState::Proposed, PlanState::Running, PlanState::Succeeded][x % 3],
        13 | 14 => {
            let states = [
                ActionState::Begun,
                ActionState::Done,
                ActionState::Failed,
                ActionState::Reverting,
                ActionState::Reverted,
            ];
            if let Some(rollout) = &mut record(c).rollout {
                let action = ActionId(u32::try_from(x % 4).unwrap());
                let mut progress = rollout.actions.values().next().unwrap().clone();
                progress.state = states[y % 5];
                rollout.actions.insert(action, progress);
            }
        }
        15 | 16 => {
            let (slot, shard) = (Slot::at(x % 40), shard_at(c, y));
            let owner = Some(&shard).filter(|_| !y.is_multiple_of(5));
            drop(c.table.assign(SlotRange::single(slot), owner));
        }
        17 => drop(c.moving.pop()),
        18 => c.moving.iter_mut().for_each(|moving| moving.serving = [Serving::From, Serving::To][y % 2]),
        19 => c.moving.extend(c.moving.clone()),
        20 => {
            // A new node, with a shard of its own or without.
            let (node, shard): (NodeId, ShardId) = (id("new"), id("new"));
            let host = Host::new("new").unwrap();
            let value = Node { id: node.clone(), host, port: 1, zone: None, state: NodeState::Active };
            c.nodes.insert(Revised { revision: 1, value });
            if !x.is_multiple_of(3) {
                c.shards.insert(Revised { revision: 1, value: Shard::new(shard.clone(), node, Weight::ONE) });
                c.table.insert_shard(shard);
            }
        }
        21 => {
            let [port, other] = [x, y].map(|number| c.nodes[&node_at(c, number)].value.port);
            edit_node(c, x, |node| node.port = other);
            edit_node(c, y, |node| node.port = port);
        }
        22 => drop(c.plans.remove(&id::<PlanId>(["p-1", "p-2"][x % 2]))),
        23 => record(c).rollout.iter_mut().for_each(|rollout| rollout.state = RolloutState::Succeeded),
        24 => c.driver = [DriverKind::Flip, DriverKind::Manual][x % 2],
        _ => c.epoch = Epoch((x % 3) as u64),
    }
}

/// Clusters whose every invariant holds: in the middle of a rollout with either driver, and without one.
fn whole_clusters() -> Vec<Cluster> {
    let others: Vec<String> = (0..80).map(|number| format!("s-{number}")).collect();
    let mut found = Vec::new();
    for (driver, others) in
        [(DriverKind::Manual, &others[..]), (DriverKind::Flip, &others[..]), (DriverKind::Flip, &[])]
    {
        let (mut state, cluster) = midway_with(driver, others);
        found.push(cluster);
        let steer =
            |verb| Op::Steer { cluster: id("main"), plan: id("p-1"), verb, acks: ["stale-cache".to_owned()].into() };
        state.apply(&command(100, steer(crate::state::SteerVerb::RollBack))).outcome.unwrap();
        found.push(Cluster::clone(&state.clusters[&id::<ClusterName>("main")]));
        let finish = Op::Finish { cluster: id("main"), plan: id("p-1"), actions: vec![ActionId(2)] };
        drop(state.apply(&command(101, finish)));
        state.apply(&command(102, steer(crate::state::SteerVerb::Abort))).outcome.unwrap();
        let name: ClusterName = id("main");
        let plan = Some(Arc::new(plan(&state.clusters[&name], "p-2", &[("a", "b", "20-29")])));
        state.apply(&command(103, Op::Change { cluster: name.clone(), changes: Vec::new(), plan })).outcome.unwrap();
        found.push(Cluster::clone(&state.clusters[&name]));
    }
    found
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Whether a check finds a fault; says nothing of it.
fn finds(check: impl FnOnce()) -> bool {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    QUIET.set(true);
    let found = catch_unwind(AssertUnwindSafe(check)).is_err();
    QUIET.set(false);
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Of whatever is done to a cluster that was whole, the check of the step says what the whole check says.
    #[test]
    fn a_step_is_judged_as_the_whole_is(
        which in any::<prop::sample::Index>(),
        steps in prop::collection::vec([0..26_usize, 0..128_usize, 0..128_usize], 1..4),
    ) {
        thread_local! {
            static WHOLE: Vec<Cluster> = whole_clusters();
        }
        let before = WHOLE.with(|whole| which.get(whole).clone());
        let mut after = before.clone();
        for step in steps { tamper(&mut after, step); }
        // Two nodes at one address, one of which goes elsewhere: the rules never let an index come to that.
        after.nodes = SharedMap::from(after.nodes).into();
        after.shards = SharedMap::from(after.shards).into();
        let whole = finds(|| assert_cluster(&after));
        let step = finds(|| step::assert_step(&before, &after));
        prop_assert_eq!(step, whole, "whether the step's check, and the whole one, finds a fault");
    }
}
