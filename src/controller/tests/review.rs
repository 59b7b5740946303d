//! What a reviewer and an operator read: checks, explanations, progress.

use std::collections::BTreeSet;

use super::*;
use crate::domain::{
    ActionId, ActionProgress, ActionState, Check, CheckLevel, PlanState, Rollout, RolloutState, Slot, Zone,
};

fn named<'a>(record: &'a PlanRecord, name: &str) -> Option<&'a Check> {
    record.plan.checks.iter().find(|check| check.name == name)
}

#[tokio::test]
async fn losing_a_shard_needs_an_acknowledgement_unless_it_is_a_cache() {
    for (driver, needs_ack) in [(DriverKind::Manual, true), (DriverKind::Flip, false)] {
        let stage = Stage::of(driver, &THIRDS).await;
        let lost = Change::DrainNode { node: id("node-b"), lost: true };
        let record = stage.change(vec![lost], balance()).await.unwrap().plan.unwrap();
        let check = named(&record, "data-loss").unwrap();
        assert_eq!((check.level, check.needs_ack), (CheckLevel::Warn, needs_ack));
        assert!(check.text.contains("5462 slots of b"), "{}", check.text);
        assert_eq!(record.plan.intent.drain, [id("b")]);
        let approve = |acks: BTreeSet<String>| Op::Approve {
            cluster: main(),
            plan: record.plan.id.clone(),
            digest: record.digest,
            acks,
        };
        let refused = stage.submit(approve(BTreeSet::new())).await;
        assert_eq!(refused.is_err(), needs_ack);
        if needs_ack {
            stage.submit(approve([check.code.clone()].into())).await.unwrap();
        }
    }
}

#[tokio::test]
async fn checks_are_numbered_by_level_and_name_the_shards() {
    let stage = Stage::of(DriverKind::Manual, &THIRDS).await;
    let place = Place::ReplicaOf { shard: id("a") };
    let zone = Some(Zone::new("z1").unwrap());
    for (change, zoned) in [
        (Change::AddNode { node: Node { zone: zone.clone(), ..node("node-r", 7400) }, place }, "node-a"),
        (add("d", 7300), "node-a"),
    ] {
        let set = Change::SetNode { node: id(zoned), if_match: None, host: None, port: None, zone: Some(zone.clone()) };
        stage.controller.change(&admin(), &main(), vec![change, set], None, false).await.unwrap();
    }
    let record = stage.change(Vec::new(), balance()).await.unwrap().plan.unwrap();
    let codes: Vec<_> = record.plan.checks.iter().map(|check| (check.code.as_str(), check.name.as_str())).collect();
    let expected = [
        ("W1", "single-node-shard"),
        ("W2", "zone-single"),
        ("C1", "checked"),
        ("C2", "driver"),
        ("C3", "coverage"),
        ("C4", "open-slots"),
    ];
    assert_eq!(codes, expected);
    assert!(named(&record, "single-node-shard").unwrap().text.ends_with("of b, c, d"));
    assert!(named(&record, "zone-single").unwrap().text.contains("node of a stands"));
}

#[tokio::test]
async fn small_plans_need_no_approval_where_the_policy_says_so() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let policy = Policy { auto_approve_max_slots: Some(5000), ..stage.cluster().policy.clone() };
    let configure = Op::ConfigureCluster { name: main(), if_match: None, driver: None, policy: Some(policy) };
    stage.submit(configure).await.unwrap();
    let record = stage.change(vec![add("d", 7300)], balance()).await.unwrap().plan.unwrap();
    assert_eq!((record.state, record.plan.approvals_required), (PlanState::Approved, 0));
}

#[tokio::test]
async fn a_slot_is_explained() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let pin = Change::SetShard {
        shard: id("a"),
        if_match: None,
        weight: None,
        min_slots: None,
        max_slots: None,
        pinned: Some(vec![id("0-9")]),
    };
    let explain = |slot| stage.controller.explain(&main(), Slot::at(slot)).unwrap();
    let idle = explain(3);
    assert_eq!(idle.because, ["slot 3 belongs to shard a, served by node node-a at 127.0.0.1:7000", "no plan is open"]);
    let record = stage.change(vec![pin, add("d", 7300)], balance()).await.unwrap().plan.unwrap();
    let plan = &record.plan;
    let pinned = explain(3);
    assert_eq!((pinned.plan.as_ref(), pinned.owner.as_ref()), (Some(&plan.id), Some(&id("a"))));
    assert_eq!(
        pinned.because[1..5],
        [
            "it is pinned there: no plan moves it while the shard owns it".to_owned(),
            format!("plan {} is proposed:", plan.id),
            "slot 3 stays with a".to_owned(),
            "it is pinned: no plan moves it while a owns it".to_owned()
        ]
    );
    let moved = plan.body.moved_slots().iter().next().unwrap();
    let said = explain(moved.index()).because;
    assert!(said[2].contains("to d in action a-"), "{said:#?}");
    let stays = Slot::all().find(|slot| slot.get() > 9 && !plan.body.moved_slots().contains(*slot)).unwrap();
    let subject = Subject::Slot(stays);
    let said = stage.controller.explain_plan(&main(), &plan.id, &subject).unwrap();
    let (given, owner) = (plan.body.actions.iter(), stage.cluster().table.owner(stays).cloned());
    let given = given.filter(|action| action.kind.source() == owner.as_ref()).map(|action| action.kind.slots());
    let given: usize = given.sum();
    let before = stage.cluster().table.count_of(owner.as_ref().unwrap()) as usize;
    let (owner, kept) = (owner.unwrap(), before - given);
    let expected = format!("{owner} keeps {kept} of its {before} slots; which ones go is chosen for few ranges");
    assert!(given > 0 && said[2].starts_with(&expected), "{said:#?}");
    let of_shard = stage.controller.explain_plan(&main(), &plan.id, &Subject::Shard(id("d"))).unwrap();
    assert_eq!("d has weight 1: its share is 4096 of 16384 slots, its band 4096..=4096", of_shard[0]);
    let unknown = stage.controller.explain_plan(&main(), &plan.id, &Subject::Shard(id("zz"))).unwrap_err();
    assert!(matches!(unknown, ControlError::Rejected(Rejection::NotFound { .. })), "{unknown}");
}

#[tokio::test]
async fn progress_counts_slots_actions_and_what_is_stuck() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let record = stage.change(vec![add("d", 7300)], balance()).await.unwrap().plan.unwrap();
    assert_eq!(progress(&record, Instant(START_MS)), None, "not started");
    let at = |ms: u64| Instant(START_MS + ms);
    let one = |state, since, error: Option<&str>| ActionProgress {
        state,
        since: at(since),
        attempts: 1,
        error: error.map(str::to_owned),
        by: None,
        came_from: None,
    };
    let actions = [
        (ActionId(1), one(ActionState::Done, 2_000, None)),
        (ActionId(2), one(ActionState::Done, 39_000, None)),
        (ActionId(3), one(ActionState::Begun, 1_000, None)),
        (ActionId(4), one(ActionState::Failed, 3_000, Some("node-b: busy"))),
    ];
    let sizes: Vec<_> = record.plan.body.actions.iter().map(|a| u32::try_from(a.kind.slots()).unwrap()).collect();
    let rollout = Rollout {
        plan: record.plan.id.clone(),
        state: RolloutState::Running,
        cause: None,
        started_by: admin().principal,
        started_at: at(0),
        ended_at: None,
        slots_per_second: None,
        actions: actions.into_iter().collect(),
    };
    let record = PlanRecord { rollout: Some(rollout), ..(*record).clone() };
    let seen = progress(&record, at(40_000)).unwrap();
    assert_eq!((seen.slots_done, seen.slots_total), (sizes[0] + sizes[1], 4096));
    let counts = (seen.actions.done, seen.actions.begun, seen.actions.failed, seen.actions.pending);
    assert_eq!(counts, (2, 1, 1, u32::try_from(sizes.len()).unwrap() - 4));
    assert_eq!(seen.in_flight, [ActionId(3)]);
    // Only the second action ended in the last ten seconds.
    let rate = u64::from(sizes[1]).div_ceil(10);
    assert_eq!(seen.slots_per_second, Some(rate));
    assert_eq!(seen.eta_seconds, Some(u64::from(4096 - seen.slots_done).div_ceil(rate)));
    assert_eq!(seen.stuck.len(), 2, "{:?}", seen.stuck);
    assert!(seen.stuck[0].contains("a-3") && seen.stuck[0].ends_with("in flight for 39 s"), "{:?}", seen.stuck);
    assert!(seen.stuck[1].contains("a-4") && seen.stuck[1].ends_with("failed: node-b: busy"), "{:?}", seen.stuck);
}
