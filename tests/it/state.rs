//! The state machine under random commands: whatever comes in which order, the promises hold. And its tables of
//! transitions against `plans`, the design's own words.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use slotkeeper::domain::{
    ClusterName, Instant, PlanId, PlanState, PlanVerb, RolloutState, RolloutVerb, SLOT_COUNT, Serving, Slot,
};
use slotkeeper::state::{Applied, AuditHead, Cluster, Command, Event, Op, State};

use crate::scene::{command, id};

/// Random numbers that one command is made of.
type Dice = [u32; 8];

fn runs() -> impl Strategy<Value = Vec<Dice>> {
    prop::collection::vec(any::<Dice>(), 1..150)
}

/// A line for `scene`, from random numbers and the state: mostly something sensible, sometimes nonsense.
fn line(state: &State, dice: &Dice) -> String {
    let pick = |die: usize, of: &[&str]| of[dice[die] as usize % of.len()].to_owned();
    let name = pick(0, &["main", "main", "main", "cache", "none"]);
    let shard = |die| pick(die, &["a", "b", "c", "d"]);
    let node = |die| pick(die, &["node-a", "node-b", "node-c", "node-d", "r1", "r2"]);
    let cluster = state.clusters.get(&id::<ClusterName>(&name)).map(AsRef::as_ref);
    let Some(cluster) = cluster else {
        let driver = pick(1, &["flip overlap=0", "flip overlap=50", "manual per_source=2"]);
        return format!("create {name} driver={driver} approvals={} ttl={}", dice[2] % 3, 10 + dice[3] % 60);
    };
    if cluster.shards.is_empty() {
        return format!("change {name} import a=0-99+r1 b=100-{} c=", 200 + dice[1] % 16000);
    }
    let plan = some_plan(cluster, dice[1]);
    let (begun, finished) = (some_actions(cluster, &plan, dice, false), some_actions(cluster, &plan, dice, true));
    if cluster.active.is_some() && !dice[7].is_multiple_of(4) {
        return match dice[2] % 16 {
            0..=4 => format!("begin {name} {plan} {begun}"),
            5..=8 => format!("finish {name} {plan} {finished}"),
            9..=11 => format!("complete {name} {plan}"),
            12 => format!("block {name} {plan} nothing goes"),
            13 => format!("resume {name} {plan}"),
            14 => format!("fail {name} {plan} {} broken", &finished[..1]),
            _ => format!("rollback {name} {plan} ack=stale-cache"),
        };
    }
    match dice[2] % 40 {
        0 => format!("change {name} add {} shard={} weight={}", node(3), shard(4), dice[5] % 3),
        1 => format!("change {name} add {} replica={}", node(3), shard(4)),
        2 => format!("change {name} node {} port={} zone={}", node(3), 7000 + dice[4] % 3, pick(5, &["z1", "none"])),
        3 => format!("change {name} drain {} {}", node(3), pick(4, &["", "lost"])),
        4 => format!("change {name} undrain {}", node(3)),
        5 => format!("change {name} remove {}", node(3)),
        6 => format!("change {name} shard {} weight={} max={}", shard(3), dice[4] % 4, pick(5, &["none", "99"])),
        7 => format!("change {name} shard {} pin={}", shard(3), pick(4, &["none", "3", "150"])),
        8 => format!("change {name} drain-shard {}", shard(3)),
        9 => format!("change {name} undrain-shard {}; drain-shard {}", shard(3), shard(4)),
        10 => format!("reject {name} {plan} {}", pick(3, &["", "revert"])),
        11 => format!("withdraw {name} {plan} {}", pick(3, &["", "revert"])),
        12 => pick(3, &["expire", "expire", "token t-1 ci operator", "revoke t-1"]),
        13 => format!("configure {name} approvals={} {}", dice[3] % 3, pick(4, &["", "driver=manual", "auto=2"])),
        14 => format!("delete {name} if={}", 1 + dice[3] % 2),
        15 => format!("throttle {name} {plan} pace={}", pick(3, &["none", "1", "99"])),
        16..=17 => format!("pause {name} {plan}"),
        18..=19 => format!("resume {name} {plan}"),
        20 => format!("abort {name} {plan}"),
        21 => format!("rollback {name} {plan} ack=stale-cache"),
        22 => format!("block {name} {plan} nothing goes"),
        23 => format!("fail {name} {plan} {} broken", &finished[..1]),
        24..=25 => format!("complete {name} {plan}"),
        26..=28 => format!("approve {name} {plan} by=rev-{}:approver", dice[3] % 2),
        29..=31 => format!("start {name} {plan}"),
        32..=34 => format!("begin {name} {plan} {begun} key=k{}", dice[5] % 50),
        35..=36 => format!("finish {name} {plan} {finished}"),
        _ => proposal(cluster, &name, dice),
    }
}

/// The running plan mostly, otherwise any.
fn some_plan(cluster: &Cluster, die: u32) -> String {
    match &cluster.active {
        Some(active) if !die.is_multiple_of(8) => active.to_string(),
        _ => {
            let plans: Vec<_> =
                cluster.plans.values().filter(|r| !r.state.is_final() || die.is_multiple_of(5)).collect();
            let chosen = plans.get(die as usize / 8 % plans.len().max(1));
            chosen.map_or_else(|| "p-none".to_owned(), |record| record.plan.id.to_string())
        }
    }
}

/// One action or two: those in flight, or those that are not, or any.
fn some_actions(cluster: &Cluster, plan: &str, dice: &Dice, in_flight: bool) -> String {
    let rollout = cluster.plans.get(&id::<PlanId>(plan)).and_then(|record| record.rollout.as_ref());
    let flying: BTreeSet<u32> = rollout.iter().flat_map(|rollout| rollout.in_flight()).map(|id| id.0).collect();
    let fits = |number: &u32| dice[6].is_multiple_of(6) || flying.contains(number) == in_flight;
    let mut chosen: Vec<_> = (1..=3).filter(fits).map(|number| number.to_string()).collect();
    let by = dice[3] as usize % chosen.len().max(1);
    chosen.rotate_left(by);
    chosen.truncate(1 + dice[4] as usize % 2);
    if chosen.is_empty() { "1".to_owned() } else { chosen.join(",") }
}

/// A plan of a few actions that fit the cluster as it is, or nearly.
fn proposal(cluster: &Cluster, name: &str, dice: &Dice) -> String {
    let mut line = format!("plan {name} p-{}", cluster.plans_proposed);
    let shards: Vec<_> = cluster.shards.keys().collect();
    for (number, die) in dice[3..7].iter().enumerate().take(1 + dice[7] as usize % 3) {
        let slot = Slot::at(number * 60 + *die as usize % 60);
        let from = cluster.table.owner(slot).map_or("", |shard| shard.as_str());
        let to = shards[*die as usize / 64 % shards.len()];
        if die.is_multiple_of(9) {
            let shard = &cluster.shards[to].value;
            let replica = shard.replicas.first().unwrap_or(&shard.primary);
            write!(line, " promote:{to}:{}:{replica}", shard.primary).unwrap();
        } else {
            write!(line, " {from}>{to}:{slot}").unwrap();
        }
    }
    let open = cluster.plans.values().find(|record| !record.state.is_final());
    if let Some(open) = open.filter(|_| dice[7].is_multiple_of(3)) {
        write!(line, " supersedes={}", open.plan.id).unwrap();
    }
    if dice[7].is_multiple_of(7) { line + " ack_needed=big-key" } else { line }
}

struct Run {
    state: State,
    chain: AuditHead,
    log: Vec<Command>,
    accepted: BTreeSet<&'static str>,
}

impl Run {
    fn of(dice: &[Dice]) -> Self {
        let (state, chain) = (State::default(), AuditHead::default());
        let mut run = Self { state, chain, log: Vec::new(), accepted: BTreeSet::new() };
        for (seconds, dice) in (1000..).zip(dice) {
            let line = line(&run.state, dice);
            run.step(command(&run.state, &line, Instant(seconds * 1000)));
        }
        run
    }

    fn step(&mut self, command: Command) {
        let before = self.state.clone();
        let applied = self.state.apply(&command);
        match &applied.outcome {
            Err(_) => {
                let before = State { now: self.state.now, ..before.clone() };
                assert_eq!(before, self.state, "{command:?}");
                let [before, after] = [&before, &self.state].map(|state| serde_json::to_string(state).unwrap());
                assert_eq!(before, after, "{command:?}");
            }
            Ok(receipt) => {
                if !receipt.repeated && applied.audit.is_some() {
                    self.accepted.insert(command.op.name());
                }
                check_foresight(&before, &self.state, &command.op);
                check_epochs(&before, &self.state, &applied);
            }
        }
        self.chain = self.chain.verify(&applied.audit).unwrap();
        for (name, cluster) in &self.state.clusters {
            if before.clusters.get(name).is_none_or(|then| !Arc::ptr_eq(then, cluster)) {
                check_table(cluster);
            }
        }
        self.log.push(command);
    }
}

/// A planner that looks ahead sees what apply will leave.
fn check_foresight(before: &State, after: &State, op: &Op) {
    if let Op::Change { cluster, changes, plan: None } = op {
        let ahead = before.clusters[cluster].with_changes(changes).unwrap();
        assert_eq!(ahead, *after.clusters[cluster]);
    }
}

/// One epoch more when what clients see is another thing, told by an event; otherwise the same epoch and no event.
fn check_epochs(before: &State, after: &State, applied: &Applied) {
    for (name, now) in &after.clusters {
        let of_it = |event: &&Event| matches!(event, Event::TopologyChanged { cluster, .. } if cluster == name);
        let told = applied.events.iter().filter(of_it).count();
        let Some(then) = before.clusters.get(name) else { continue };
        if Arc::ptr_eq(then, now) {
            assert_eq!(told, 0);
            continue;
        }
        let (mut old, new) = (then.topology(), now.topology());
        let epochs = new.version.epoch.0 - old.version.epoch.0;
        old.version = new.version;
        assert_eq!(epochs, u64::from(old != new));
        assert_eq!(told as u64, epochs);
    }
}

/// S1, and a moving range is served by its owner; written apart from `invariants`.
fn check_table(cluster: &Cluster) {
    let owned: u32 = cluster.table.counts().iter().sum();
    assert_eq!(owned as usize + cluster.table.unassigned().len(), SLOT_COUNT);
    for moving in &cluster.moving {
        let serving = if moving.serving == Serving::To { &moving.to } else { &moving.from };
        assert!(moving.range.slots().all(|slot| cluster.table.owner(slot) == Some(serving)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Invariants are asserted inside apply: a broken one fails this test.
    #[test]
    fn promises_hold_under_random_commands(dice in runs()) {
        Run::of(&dice);
    }

    /// The same log gives the same bytes, also when a member starts from a snapshot in its middle, and also when the
    /// commands went through the log's encoding.
    #[test]
    fn the_same_log_gives_the_same_state(dice in runs(), cut in any::<prop::sample::Index>()) {
        let run = Run::of(&dice);
        let cut = cut.index(run.log.len());
        let mut other = State::default();
        for (index, command) in run.log.iter().enumerate() {
            if index == cut {
                other = serde_json::from_slice(&serde_json::to_vec(&other).unwrap()).unwrap();
            }
            let command: Command = serde_json::from_slice(&serde_json::to_vec(command).unwrap()).unwrap();
            other.apply(&command);
        }
        prop_assert_eq!(other.hash(), run.state.hash());
        prop_assert_eq!(serde_json::to_vec(&other).unwrap(), serde_json::to_vec(&run.state).unwrap());
        prop_assert_eq!(other, run.state);
    }
}

/// The random runs reach everything: a run that only collects refusals would show nothing.
#[test]
fn random_commands_reach_every_operation() {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let (mut accepted, mut ended) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..80 {
        let run = Run::of(&runs().new_tree(&mut runner).unwrap().current());
        accepted.extend(run.accepted);
        let records = run.state.clusters.values().flat_map(|cluster| cluster.plans.values());
        ended.extend(records.map(|record| record.state.as_str()));
    }
    let expected = "action.begin action.fail action.finish cluster.change cluster.configure cluster.create \
                    cluster.delete cluster.import expire node.add node.drain node.remove node.set node.undrain \
                    plan.approve plan.propose plan.reject plan.withdraw rollout.abort rollout.block rollout.complete \
                    rollout.pause rollout.resume rollout.roll_back rollout.start rollout.throttle shard.drain \
                    shard.set token.create token.revoke";
    assert_eq!(accepted.into_iter().collect::<Vec<_>>().join(" "), expected);
    let states = "aborted approved expired proposed rejected rolled_back running succeeded superseded withdrawn";
    assert_eq!(ended.into_iter().collect::<Vec<_>>().join(" "), states);
}

/// Rows are states, columns verbs; `-` is refused. Written from the design, not from the code.
#[test]
fn the_life_of_a_plan_is_the_design_s() {
    use PlanState as S;
    use PlanVerb as V;
    let verbs =
        [V::Approve, V::Reject, V::Withdraw, V::Expire, V::Supersede, V::Start, V::Succeed, V::Abort, V::RollBack];
    let table = [
        (S::Proposed, "approved rejected withdrawn expired superseded - - - -"),
        (S::Approved, "- rejected withdrawn expired superseded running - - -"),
        (S::Running, "- - - - - - succeeded aborted rolled_back"),
        (S::Succeeded, "- - - - - - - - -"),
        (S::Rejected, "- - - - - - - - -"),
        (S::Withdrawn, "- - - - - - - - -"),
        (S::Expired, "- - - - - - - - -"),
        (S::Superseded, "- - - - - - - - -"),
        (S::Aborted, "- - - - - - - - -"),
        (S::RolledBack, "- - - - - - - - -"),
    ];
    for (state, row) in table {
        let after = verbs.map(|verb| state.after(verb).map_or("-", PlanState::as_str)).join(" ");
        assert_eq!(after, row, "{state:?}");
        assert_eq!(state.is_final(), row.split(' ').all(|cell| cell == "-"), "{state:?}");
    }
}

#[test]
fn the_life_of_a_rollout_is_the_design_s() {
    use RolloutState as S;
    use RolloutVerb as V;
    let verbs = [V::Pause, V::Resume, V::Block, V::Abort, V::RollBack, V::Succeed, V::EndAbort, V::EndRollBack];
    let table = [
        (S::Running, "paused - blocked aborting rolling_back succeeded - -"),
        (S::Paused, "- running - aborting rolling_back - - -"),
        (S::Blocked, "- running - aborting rolling_back - - -"),
        (S::Aborting, "- - - - rolling_back - aborted -"),
        (S::RollingBack, "- - - aborting - - - rolled_back"),
        (S::Succeeded, "- - - - - - - -"),
        (S::Aborted, "- - - - - - - -"),
        (S::RolledBack, "- - - - - - - -"),
    ];
    for (state, row) in table {
        let after = verbs.map(|verb| state.after(verb).map_or("-", RolloutState::as_str)).join(" ");
        assert_eq!(after, row, "{state:?}");
        assert_eq!(state.is_final(), row.split(' ').all(|cell| cell == "-"), "{state:?}");
    }
}
