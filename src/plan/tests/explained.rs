//! The sentences of one worked example: shards at 0-3999, 4000-8256, 8257-12229 and 12230-16383, and a fifth is added.

use super::{BALANCE, Cluster, id, limits, range};
use crate::domain::{
    ActionKind, Base, ClusterId, Fingerprint, Goal, Instant, Intent, LoadMetric, Node, NodeId, Objective, Plan,
    PlanBody, PlanId, Principal, Slot, SlotSet, Statistics, Tolerance, Version,
};
use crate::plan::{Known, Memory, PlacementInput, explain_shard, explain_slot, place, plan_for, with_leading_waves};

fn example() -> Cluster {
    let mut cluster = Cluster::new();
    for (shard, (first, last)) in [(0, 3999), (4000, 8256), (8257, 12229), (12230, 16383)].into_iter().enumerate() {
        cluster.add(1);
        cluster.table.assign(range(first, last), Some(&id(shard))).unwrap();
    }
    cluster
}

fn plan_of(cluster: &Cluster, body: PlanBody) -> Plan {
    let moved = SlotSet::new();
    Plan {
        id: PlanId::new("p-1").unwrap(),
        supersedes: None,
        reverts: None,
        intent: Intent {
            goal: BALANCE,
            add: Vec::new(),
            drain: Vec::new(),
            reweight: Vec::new(),
            reason: String::new(),
            placement: None,
        },
        base: Base {
            cluster_id: ClusterId::new("c").unwrap(),
            version: Version::default(),
            fingerprint: Fingerprint::of(&cluster.table, &cluster.shards, &moved),
        },
        body,
        checks: Vec::new(),
        limits: limits(),
        approvals_required: 0,
        author_may_approve: true,
        author: Principal::system("test"),
        created_at: Instant(0),
        expires_at: Instant(1),
    }
}

fn slot(cluster: &Cluster, plan: &Plan, slot: usize) -> Vec<String> {
    let memory = Memory::default();
    explain_slot(plan, &Known { table: &cluster.table, memory: &memory }, Slot::at(slot))
}

const BOUND: &str = "3276 slots move in all; no plan for exact balance moves fewer than 3276: 3276 are above a band (A), \
                     3276 lacking (B), 0 without an owner";

#[test]
fn a_slot_that_moves_and_one_that_stays_are_explained_by_the_numbers() {
    let mut cluster = example();
    cluster.add(1);
    let plan = plan_of(&cluster, cluster.plan(BALANCE));
    let said = slot(&cluster, &plan, 4000);
    assert!(said[0].starts_with("slot 4000 moves from s-0001 to s-0004 in action a-"), "{said:#?}");
    assert_eq!(
        [
            "s-0001 owns 4257 slots, 980 above its band 3276..=3277, and gives 980",
            "s-0004 owns 0 slots, 3276 below its band 3276..=3277, and takes 3276",
            "this slot and not another of s-0001: chosen for few ranges (4 before, 6 after)",
            BOUND
        ],
        said[1..]
    );
    assert_eq!(
        [
            "slot 0 stays with s-0000",
            "s-0000 owns 4000 slots, 723 above its band 3276..=3277, and gives 723",
            "s-0000 keeps 3277 of its 4000 slots; which ones go is chosen for few ranges (4 before, 6 after)",
            BOUND
        ],
        slot(&cluster, &plan, 0)[..]
    );
}

#[test]
fn shards_that_give_take_or_neither_are_explained() {
    let mut cluster = example();
    cluster.add(1);
    let plan = plan_of(&cluster, cluster.plan(BALANCE));
    assert_eq!(
        [
            "s-0004 has weight 1: its share is 16384/5 of 16384 slots, its band 3276..=3277",
            "s-0004 owns 0 slots, 3276 below its band 3276..=3277, and takes 3276",
            "it takes from: s-0001 980, s-0003 877, s-0000 723 and 1 more",
            BOUND
        ],
        explain_shard(&plan, &id(4)).unwrap()[..]
    );
    assert_eq!(None, explain_shard(&plan, &id(9)));
    let even = Cluster::equal(3);
    let plan = plan_of(&even, even.plan(BALANCE));
    assert_eq!(
        [
            "s-0001 has weight 1: its share is 16384/3 of 16384 slots, its band 5461..=5462",
            "s-0001 owns 5461 slots, within its band 5461..=5462, so it neither gives nor takes",
            "0 slots move in all; no plan for exact balance moves fewer than 0: 0 are above a band (A), 0 lacking (B), 0 \
             without an owner"
        ],
        explain_shard(&plan, &id(1)).unwrap()[..]
    );
}

#[test]
fn a_shard_that_gives_more_than_it_must_a_pin_and_a_lost_shard_are_explained() {
    // The fifth takes more than the four have above their bands.
    let mut cluster = Cluster::equal(4);
    cluster.add(1);
    cluster.shards[0].pinned.insert_range(range(0, 9));
    let plan = plan_of(&cluster, cluster.plan(BALANCE));
    let said = slot(&cluster, &plan, 5);
    assert_eq!("it is pinned: no plan moves it while s-0000 owns it", said[1]);
    assert!(explain_shard(&plan, &id(0)).unwrap()[0].ends_with("its band 3276..=3277; it is bound by 10 pinned slots"));

    let mut cluster = Cluster::equal(4);
    cluster.drain(2);
    cluster.lost.insert(id(2));
    let plan = plan_of(&cluster, cluster.plan(BALANCE));
    let said = slot(&cluster, &plan, 8192);
    assert!(said[0].ends_with("s-0002 is lost, so nothing is read from it and its keys are gone"), "{said:#?}");
    assert_eq!("s-0002 is lost: all of its 4096 slots are assigned to others, without reading them", said[1]);
    let said = explain_shard(&plan, &id(2)).unwrap();
    assert_eq!("s-0002 is draining: its share is 0 slots, its band 0..=0", said[0]);
}

#[test]
fn a_slot_that_goes_home_and_one_without_an_owner_are_explained() {
    let mut cluster = example();
    cluster.add(1);
    let mut memory = Memory::default();
    memory.remember(&id(4), &id(2), &[range(4100, 4199)]);
    let body =
        crate::plan::plan_remembering(&cluster.input(), BALANCE, crate::domain::Objective::Ranges, &limits(), &memory)
            .unwrap();
    let plan = plan_of(&cluster, body);
    let said = explain_slot(&plan, &Known { table: &cluster.table, memory: &memory }, Slot::at(4150));
    assert_eq!("this slot and not another: s-0004 owned it before, and taking it back costs no move more", said[3]);
    cluster.table.assign(range(0, 99), None).unwrap();
    let plan = plan_of(&cluster, cluster.plan(BALANCE));
    let said = slot(&cluster, &plan, 7);
    assert!(said[0].starts_with("slot 7 has no owner; s-0004 gets it in action a-"), "{said:#?}");
}

/// Two shards of equal counts; the first has its 8000 operations in few slots, the second 8192 in all of its own.
#[test]
fn a_plan_by_load_is_explained_by_its_loads() {
    let mut cluster = Cluster::equal(2);
    let mut statistics = Statistics::new(&[LoadMetric::Ops], None).unwrap();
    for slot in 0..16384 {
        let load = match slot {
            0..1000 => 8,
            1000..8192 => 0,
            _ => 1,
        };
        statistics.add(Slot::at(slot), &[load]).unwrap();
    }
    cluster.statistics = Some(statistics);
    let goal = Goal::BalanceLoad { metric: LoadMetric::Ops, tolerance: Tolerance(0) };
    // 8000 and 8192 of 16192: the second gives 96 slots of one operation.
    let mut plan = plan_of(&cluster, cluster.plan(goal));
    plan.intent.goal = goal;
    let moved = plan.body.actions[0].kind.ranges()[0].first().index();
    let said = slot(&cluster, &plan, moved);
    assert!(said[0].starts_with(&format!("slot {moved} moves from s-0001 to s-0000 in action a-1 ")), "{said:#?}");
    let bound = "96 slots move in all; no plan for balance of ops within 0 % moves fewer than 96";
    assert_eq!(
        [
            "s-0001 has 8192 ops, 96 above its band 8096..=8096, and gives 96 slots",
            "s-0000 has 8000 ops, 96 below its band 8096..=8096, and takes 96 slots",
            "this slot and not another of s-0001: chosen by its ops",
            bound
        ],
        said[1..]
    );
    assert_eq!(
        [
            "slot 0 stays with s-0000",
            "s-0000 has 8000 ops, 96 below its band 8096..=8096, and takes 96 slots",
            "in a plan with the fewest moves no shard both gives and takes",
            bound
        ],
        slot(&cluster, &plan, 0)[..]
    );
    let said = explain_shard(&plan, &id(0)).unwrap();
    assert_eq!("s-0000 has weight 1: its band is 8096..=8096 of 16192 ops", said[0]);
}

#[test]
fn a_plan_for_few_bytes_says_that_bytes_chose_its_slots() {
    let mut cluster = Cluster::equal(2);
    cluster.add(1);
    let mut statistics = Statistics::new(&[LoadMetric::Bytes], None).unwrap();
    (0..16384).for_each(|slot| statistics.add(Slot::at(slot), &[u64::from(slot % 2 == 0)]).unwrap());
    cluster.statistics = Some(statistics);
    let body = plan_for(&cluster.input(), BALANCE, Objective::Bytes, &limits()).unwrap();
    let plan = plan_of(&cluster, body);
    // 5461 of 16384 slots move, and 4096 of each half have no bytes.
    let said = slot(&cluster, &plan, 1);
    assert_eq!("this slot and not another of s-0000: chosen for few bytes (0 move in all)", said[3]);
    let said = slot(&cluster, &plan, 0);
    assert_eq!("s-0000 keeps 5461 of its 8192 slots; which ones go is chosen for few bytes (0 move in all)", said[2]);
}

#[test]
fn a_placement_is_explained_with_its_bound() {
    let mut cluster = Cluster::equal(2);
    let place_of = |name: &str, host: &str, zone: &str| Node {
        id: NodeId::new(name).unwrap(),
        host: crate::domain::Host::new(host).unwrap(),
        port: 1,
        zone: Some(crate::domain::Zone::new(zone).unwrap()),
        state: crate::domain::NodeState::Active,
    };
    let nodes = [
        place_of("s-0000", "h1", "a"),
        place_of("r0", "h2", "a"),
        place_of("s-0001", "h3", "b"),
        place_of("r1", "h4", "b"),
    ];
    cluster.shards[0].replicas = vec![NodeId::new("r0").unwrap()];
    cluster.shards[1].replicas = vec![NodeId::new("r1").unwrap()];
    let known = nodes.iter().map(|node| (&node.id, node)).collect();
    let goal = crate::domain::PlacementGoal { replicas: 1, spread: crate::domain::Spread::Zone };
    let placed = place(&PlacementInput { shards: &cluster.shards, nodes: &known }, goal).unwrap();
    let body = with_leading_waves(cluster.plan(BALANCE), placed.waves);
    assert!(matches!(body.actions[0].kind, ActionKind::SetReplicaOf { .. }));
    let plan = plan_of(&cluster, PlanBody { placement: Some(placed.placement), ..body });
    let said = explain_shard(&plan, &id(0)).unwrap();
    assert_eq!(
        [
            "r1 becomes a replica of s-0000 in action a-1",
            "s-0000 is served by s-0000 then, and copied by r1",
            "2 nodes change shard and 0 shards fail over in all; no placement of 1 replicas apart by zone changes fewer than 2 \
             nodes"
        ],
        said[2..5]
    );
}
