//! What applying one command costs on clusters of 3, 100 and 1000 shards: it must follow what the command changes, not
//! the size of the cluster. `State::apply` alone, no log, no network; every command is made outside of the time taken.
//!
//! `cargo bench --bench apply`

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use slotkeeper::domain::{
    Action, ActionId, ActionKind, Base, Certificate, ClusterId, ClusterName, DriverKind, Goal, Host, Instant as Time,
    Intent, Limits, Node, NodeId, NodeState, Plan, PlanBody, PlanId, Policy, Principal, PrincipalName, Quota, Role,
    Shard, ShardBounds, ShardChange, ShardId, Slot, SlotRange, SlotTable, Summary, TokenId, Tolerance, Weight,
};
use slotkeeper::state::{COMMAND_VERSION, Change, Cluster, Command, Op, State};

const SIZES: [usize; 3] = [3, 100, 1000];
/// Commands of each kind in one round; rounds go by turns over the sizes.
const COMMANDS: usize = 256;
const ROUNDS: usize = 5;
/// Actions begun and finished at a time.
const BATCH: usize = 4;
const NOW: Time = Time(1_767_225_600_000);

fn principal() -> Principal {
    Principal { name: PrincipalName::new("bench").unwrap(), role: Role::Admin, token: None }
}

fn command(op: Op) -> Command {
    Command { version: COMMAND_VERSION, at: NOW, by: principal(), reason: None, idempotency: None, op }
}

fn name() -> ClusterName {
    ClusterName::new("main").unwrap()
}

fn shard(number: usize) -> ShardId {
    ShardId::new(&format!("shard-{number}")).unwrap()
}

fn accept(state: &mut State, command: &Command) {
    let outcome = state.apply(command).outcome;
    assert!(outcome.is_ok(), "{outcome:?}");
}

/// A state with one cluster of so many shards, each with two nodes, and a few tokens.
fn state(shards: usize) -> State {
    let mut state = State::default();
    let limits =
        Limits { moves_per_source: 1000, moves_per_target: 1000, ..Policy::default_for(DriverKind::Manual).limits };
    let policy = Policy { approvals: 0, limits, ..Policy::default_for(DriverKind::Manual) };
    let id = ClusterId::new("main").unwrap();
    accept(&mut state, &command(Op::CreateCluster { name: name(), id, driver: DriverKind::Manual, policy }));
    let mut table = SlotTable::new();
    let (mut nodes, mut values) = (Vec::new(), Vec::new());
    for number in 0..shards {
        table.insert_shard(shard(number));
        let (first, last) = (number * 16384 / shards, (number + 1) * 16384 / shards - 1);
        table.assign(SlotRange::new(Slot::at(first), Slot::at(last)).unwrap(), Some(&shard(number))).unwrap();
        let [primary, replica] = ["a", "b"].map(|which| NodeId::new(&format!("node-{number}{which}")).unwrap());
        for id in [&primary, &replica] {
            let host = Host::new(id.as_str()).unwrap();
            nodes.push(Node { id: id.clone(), host, port: 6379, zone: None, state: NodeState::Active });
        }
        values.push(Shard { replicas: vec![replica], ..Shard::new(shard(number), primary, Weight::ONE) });
    }
    let changes = vec![Change::Import { nodes, shards: values, table }];
    accept(&mut state, &command(Op::Change { cluster: name(), changes, plan: None }));
    state
}

/// A plan that moves the first slots of the cluster, one action a slot, to the last shard.
fn plan(cluster: &Cluster, id: &PlanId, slots: usize, supersedes: Option<PlanId>) -> Plan {
    let to = cluster.table.shards()[cluster.table.shards().len() - 1].clone();
    let movable = Slot::all().filter(|slot| cluster.table.owner(*slot) != Some(&to)).take(slots);
    let kind = |slot: Slot| {
        let from = cluster.table.owner(slot).unwrap().clone();
        ActionKind::MoveSlots { from, to: to.clone(), ranges: vec![SlotRange::single(slot)] }
    };
    let actions: Vec<_> =
        (1..).zip(movable).map(|(number, slot)| Action { id: ActionId(number), kind: kind(slot) }).collect();
    let shards = cluster.shards.values().map(|shard| ShardChange {
        id: shard.value.id.clone(),
        weight: shard.value.weight,
        state: shard.value.state,
        quota: Quota { numerator: 1, denominator: 1 },
        before: 0,
        after: 0,
        bounds: ShardBounds::from(&shard.value),
    });
    let body = PlanBody {
        summary: Summary::default(),
        certificate: Certificate { surplus: 0, deficit: 0, unassigned: 0, bands: Vec::new() },
        shards: shards.collect(),
        waves: actions.iter().map(|action| vec![action.id]).collect(),
        actions,
        empty_because: None,
        figures: slotkeeper::domain::Figures::default(),
        placement: None,
    };
    let fingerprint = cluster.fingerprint(&body.moved_slots());
    let goal = Goal::Balance { tolerance: Tolerance(0) };
    Plan {
        id: id.clone(),
        supersedes,
        reverts: None,
        intent: Intent {
            goal,
            add: Vec::new(),
            drain: Vec::new(),
            reweight: Vec::new(),
            placement: None,
            reason: String::new(),
        },
        base: Base { cluster_id: cluster.id.clone(), version: cluster.version(), fingerprint },
        body,
        checks: Vec::new(),
        limits: cluster.policy.limits.clone(),
        approvals_required: 0,
        author_may_approve: cluster.policy.author_may_approve,
        author: principal(),
        created_at: NOW,
        expires_at: NOW.plus_ms(cluster.policy.ttl_ms),
    }
}

fn plan_id(number: usize) -> PlanId {
    PlanId::new(&format!("p-{number}")).unwrap()
}

/// What is measured: its name and the commands of one round, on the state as it is then.
struct Kind {
    name: &'static str,
    /// How many times the time on 3 shards the time on 1000 may be.
    wanted: &'static str,
    /// What comes before the commands that count.
    before: fn(&mut State, usize),
    commands: fn(&State, usize) -> Vec<Command>,
    /// What comes after them.
    after: fn(&mut State, usize),
}

fn set_shard(state: &State, number: usize, what: impl Fn(usize, ShardId) -> Change) -> Command {
    let shards = state.clusters[&name()].table.shards();
    let changes = vec![what(number, shards[number * 7 % shards.len()].clone())];
    command(Op::Change { cluster: name(), changes, plan: None })
}

fn bounds(state: &State, round: usize) -> Vec<Command> {
    let change = |number: usize, shard| Change::SetShard {
        shard,
        if_match: None,
        weight: None,
        min_slots: None,
        max_slots: Some(Some(u16::try_from(9000 + (round * 7 + number) % 1000).unwrap())),
        pinned: None,
    };
    (0..COMMANDS).map(|number| set_shard(state, number, change)).collect()
}

fn weights(state: &State, round: usize) -> Vec<Command> {
    let change = |number: usize, shard| {
        let weight = Weight::new(u32::try_from(1 + (round * 7 + number) % 1000).unwrap()).unwrap();
        Change::SetShard { shard, if_match: None, weight: Some(weight), min_slots: None, max_slots: None, pinned: None }
    };
    (0..COMMANDS).map(|number| set_shard(state, number, change)).collect()
}

fn ports(state: &State, round: usize) -> Vec<Command> {
    let change = |number: usize, shard: ShardId| Change::SetNode {
        node: state.clusters[&name()].shards[&shard].value.primary.clone(),
        if_match: None,
        host: None,
        port: Some(u16::try_from(7000 + (round * 7 + number) % 1000).unwrap()),
        zone: None,
    };
    (0..COMMANDS).map(|number| set_shard(state, number, change)).collect()
}

fn tokens(_: &State, _: usize) -> Vec<Command> {
    (0..COMMANDS)
        .map(|number| {
            let id = TokenId::new(&format!("t-{}", number / 2 % 64)).unwrap();
            let (name, role, secret_sha256) = (PrincipalName::new("ci").unwrap(), Role::Viewer, "0".repeat(64));
            command(if number % 2 == 0 {
                Op::CreateToken { id, name, role, secret_sha256, expires_at: None }
            } else {
                Op::RevokeToken { id, may_be_last: true }
            })
        })
        .collect()
}

fn refused(state: &State, round: usize) -> Vec<Command> {
    let mut commands = bounds(state, round);
    for command in &mut commands {
        if let Op::Change { changes, .. } = &mut command.op
            && let [Change::SetShard { if_match, .. }] = changes.as_mut_slice()
        {
            *if_match = Some(u64::MAX);
        }
    }
    commands
}

fn proposals(state: &State, round: usize) -> Vec<Command> {
    let cluster = &state.clusters[&name()];
    (0..COMMANDS / 16)
        .map(|number| {
            let number = round * COMMANDS + number;
            let newest = cluster.plans.values().find(|record| !record.state.is_final());
            let before = if number.is_multiple_of(COMMANDS) {
                newest.map(|record| record.plan.id.clone())
            } else {
                Some(plan_id(number - 1))
            };
            let plan = Some(Arc::new(plan(cluster, &plan_id(number), 8, before)));
            command(Op::Change { cluster: name(), changes: Vec::new(), plan })
        })
        .collect()
}

fn start(state: &mut State, round: usize) {
    let id = plan_id(1_000_000 + round);
    let plan = Some(Arc::new(plan(&state.clusters[&name()], &id, COMMANDS, None)));
    accept(state, &command(Op::Change { cluster: name(), changes: Vec::new(), plan }));
    accept(state, &command(Op::Start { cluster: name(), plan: id }));
}

/// Begins a batch, then finishes it, and so on through the plan.
fn batches(_: &State, round: usize) -> Vec<Command> {
    let ids: Vec<_> = (1..=u32::try_from(COMMANDS).unwrap()).map(ActionId).collect();
    let (cluster, plan) = (name(), plan_id(1_000_000 + round));
    ids.chunks(BATCH)
        .flat_map(|batch| {
            let (cluster, plan, actions) = (cluster.clone(), plan.clone(), batch.to_vec());
            let finish = Op::Finish { cluster: cluster.clone(), plan: plan.clone(), actions: actions.clone() };
            [command(Op::Begin { cluster, plan, actions }), command(finish)]
        })
        .collect()
}

/// Ends the rollout; the slots go back in a plan of their own, so that the next round finds them where they were.
fn complete(state: &mut State, round: usize) {
    let system = |op| Command { by: Principal::system("executor"), ..command(op) };
    accept(state, &system(Op::Complete { cluster: name(), plan: plan_id(1_000_000 + round) }));
}

fn nothing(_: &mut State, _: usize) {}

const KINDS: [Kind; 7] = [
    Kind { name: "a shard's bound", wanted: "5", before: nothing, commands: bounds, after: nothing },
    Kind { name: "a shard's weight (clients see it)", wanted: "5", before: nothing, commands: weights, after: nothing },
    Kind { name: "a node's port (clients see it)", wanted: "5", before: nothing, commands: ports, after: nothing },
    Kind { name: "refused by its revision", wanted: "5", before: nothing, commands: refused, after: nothing },
    Kind { name: "a token", wanted: "1.2", before: nothing, commands: tokens, after: nothing },
    Kind { name: "a batch of 4 begun, or finished", wanted: "5", before: start, commands: batches, after: complete },
    Kind { name: "a plan that lists every shard", wanted: "", before: nothing, commands: proposals, after: nothing },
];

/// The time of each command, with readers that hold the state as it was: nothing may be changed in place under them.
fn measure(kind: &Kind, state: &mut State, round: usize, took: &mut Vec<Duration>) {
    (kind.before)(state, round);
    let commands = (kind.commands)(state, round);
    let refused = kind.name.starts_with("refused");
    for command in &commands {
        let held = state.clusters[&name()].clone();
        let began = Instant::now();
        let applied = state.apply(command);
        took.push(began.elapsed());
        assert_eq!(applied.outcome.is_err(), refused, "{:?}", applied.outcome);
        drop(held);
    }
    (kind.after)(state, round);
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn main() {
    // `cargo test --benches` starts this too, and wants no figures.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!("µs per command, medians, with a reader that holds the cluster as it was before");
    println!("| command | {} | 1000 / 3 | wanted at most |", SIZES.map(|size| format!("{size} shards")).join(" | "));
    for kind in &KINDS {
        let mut states = SIZES.map(state);
        let mut took = SIZES.map(|_| Vec::new());
        for round in 0..ROUNDS {
            for (state, took) in states.iter_mut().zip(&mut took) {
                measure(kind, state, round, took);
            }
        }
        let micros = took.map(median);
        let ratio = micros[SIZES.len() - 1] / micros[0];
        let micros = micros.map(|micros| format!("{micros:.1}"));
        println!("| {} | {} | {ratio:.1} | {} |", kind.name, micros.join(" | "), kind.wanted);
        let hashes: BTreeSet<String> = states.iter().map(State::hash).collect();
        assert_eq!(hashes.len(), SIZES.len());
    }
}
