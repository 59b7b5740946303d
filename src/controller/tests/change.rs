//! Changing what is desired and proposing the plan for it.

use super::*;
use crate::domain::{ActionKind, CheckLevel, Digest, Limits, PlanState, ShardState, SharedMap, Slot, SlotTable};
use crate::state::fixture::command;

#[tokio::test]
async fn a_node_is_added_and_its_plan_proposed_in_one_step() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let log = stage.local.log().len();
    let changed = stage.change(vec![add("d", 7300)], balance()).await.unwrap();
    assert_eq!(stage.local.log().len(), log + 1, "one entry");
    let record = changed.plan.unwrap();
    let plan = &record.plan;
    // planner.md: three to four shards move 4096 slots, and no fewer.
    assert_eq!((plan.body.summary.slots, plan.body.summary.lower_bound), (4096, 4096));
    assert_eq!(plan.intent.add, [(id("d"), Weight::ONE)]);
    assert_eq!((plan.intent.drain.len(), plan.intent.reason.as_str()), (0, "capacity"));
    assert_eq!(plan.base.version, changed.cluster.version());
    assert_eq!(plan.expires_at, Instant(START_MS + 24 * 3600 * 1000));
    assert_eq!(plan.body.summary.eta_seconds.unwrap().0, 64, "4096 slots at 64 a second");
    assert_eq!((record.state, record.digest), (PlanState::Proposed, Digest::of_plan(plan)));
    assert!(plan.checks.iter().all(|check| check.level == CheckLevel::Ok), "{:?}", plan.checks);
    let receipt = changed.receipt.unwrap();
    assert_eq!(
        (receipt.plan.as_ref(), receipt.node, receipt.shard),
        (Some(&plan.id), Some(id("node-d")), Some(id("d")))
    );
    assert_eq!(stage.cluster().table.count_of(&id("d")), 0, "nothing has moved");
    assert_eq!(stage.cluster().plans[&plan.id], record);
}

#[tokio::test]
async fn a_dry_run_computes_the_same_and_stores_nothing() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let (log, before) = (stage.local.log().len(), stage.cluster());
    let changes = vec![add("d", 7300)];
    let dry = stage.controller.change(&admin(), &main(), changes.clone(), Some(balance()), true).await.unwrap();
    assert!(dry.receipt.is_none());
    assert_eq!((stage.local.log().len(), stage.cluster()), (log, before));
    assert!(dry.cluster.shards.contains_key(&id("d")));
    let (present, dry_plan) = (stage.cluster().version(), Arc::clone(&dry.plan.unwrap().plan));
    assert_eq!((dry.version, dry_plan.base.version), (present, present), "nothing is committed: no epoch passes");
    let real = stage.change(changes, balance()).await.unwrap();
    assert_eq!(dry_plan.body, real.plan.unwrap().plan.body);
    let epoch = present.epoch;
    assert_eq!(*dry.cluster, Cluster { plans: SharedMap::new(), plans_proposed: 0, epoch, ..(*real.cluster).clone() });
}

#[tokio::test]
async fn a_state_that_moves_meanwhile_is_planned_anew() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let weight = Change::SetShard {
        shard: id("a"),
        if_match: None,
        weight: Some(Weight::new(2).unwrap()),
        min_slots: None,
        max_slots: None,
        pinned: None,
    };
    stage.local.slip_in(command(0, Op::Change { cluster: main(), changes: vec![weight], plan: None }));
    let changed = stage.change(vec![add("d", 7300)], balance()).await.unwrap();
    let body = &changed.plan.unwrap().plan.body;
    let a = body.shards.iter().find(|shard| shard.id == id("a")).unwrap();
    // 16384 * 2/5 = 6553.6
    assert!((6553..=6554).contains(&a.after), "planned with the weight that slipped in: {a:?}");
    let attempts = stage.local.log().iter().filter(|c| matches!(&c.op, Op::Change { plan: Some(_), .. })).count();
    assert_eq!(attempts, 2);
    assert_eq!(stage.cluster().plans.len(), 1);
}

#[tokio::test]
async fn a_repeated_request_changes_nothing_again() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let idempotency = |request: &str| Idempotency { key: "k1".to_owned(), request: request.to_owned() };
    let caller = Caller { idempotency: Some(idempotency("r1")), ..admin() };
    let ask = |caller: Caller| {
        let controller = stage.controller.clone();
        async move { controller.change(&caller, &main(), vec![add("d", 7300)], Some(balance()), false).await }
    };
    let first = ask(caller.clone()).await.unwrap();
    let again = ask(caller).await.unwrap();
    assert!(again.receipt.as_ref().unwrap().repeated && !first.receipt.as_ref().unwrap().repeated);
    assert_eq!(again.plan, first.plan);
    assert_eq!(stage.cluster().plans.len(), 1);
    let other = ask(Caller { idempotency: Some(idempotency("r2")), ..admin() }).await.unwrap_err();
    assert!(matches!(other, ControlError::Rejected(Rejection::IdempotencyMismatch { .. })), "{other}");
}

#[tokio::test]
async fn an_empty_plan_says_why() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let log = stage.local.log().len();
    let changed = stage.change(Vec::new(), balance()).await.unwrap();
    assert!(changed.plan.is_none() && changed.receipt.is_none());
    assert_eq!(changed.empty_because.as_deref(), Some("every shard owns its exact share already"));
    assert_eq!(stage.local.log().len(), log);
    let replica = Change::AddNode { node: node("node-r", 7400), place: Place::ReplicaOf { shard: id("a") } };
    let changed = stage.change(vec![replica], balance()).await.unwrap();
    assert!(changed.plan.is_none() && changed.receipt.is_some(), "the change is committed all the same");
}

#[tokio::test]
async fn draining_one_node_of_two_is_a_promotion() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let replica = Change::AddNode { node: node("node-r", 7400), place: Place::ReplicaOf { shard: id("a") } };
    stage.controller.change(&admin(), &main(), vec![replica], None, false).await.unwrap();
    let drain = Change::DrainNode { node: id("node-a"), lost: false };
    let record = stage.change(vec![drain], balance()).await.unwrap().plan.unwrap();
    let kinds: Vec<_> = record.plan.body.actions.iter().map(|action| action.kind.clone()).collect();
    assert_eq!(kinds, [ActionKind::Promote { shard: id("a"), from: id("node-a"), to: id("node-r") }]);
    assert_eq!(record.plan.body.summary.slots, 0);
    stage.carry_out(&record).await;
    assert_eq!(stage.cluster().shards[&id("a")].value.primary, id("node-r"));
}

#[tokio::test]
async fn a_plan_is_undone_by_another() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let before = stage.cluster().table.clone();
    let record = stage.change(vec![add("d", 7300)], balance()).await.unwrap().plan.unwrap();
    let revert = Propose { reverts: Some(record.plan.id.clone()), ..balance() };
    let early = stage.change(Vec::new(), revert.clone()).await.unwrap_err();
    assert!(matches!(early, ControlError::Rejected(Rejection::PlanState { .. })), "{early}");
    stage.carry_out(&record).await;
    assert_eq!(stage.cluster().table.count_of(&id("d")), 4096);
    let undo = stage.change(Vec::new(), revert).await.unwrap().plan.unwrap();
    assert_eq!(undo.plan.reverts.as_ref(), Some(&record.plan.id));
    let warning = undo.plan.checks.iter().find(|check| check.name == "stale-cache").unwrap();
    assert!(warning.needs_ack && warning.level == CheckLevel::Warn);
    stage.carry_out(&undo).await;
    let owners = |table: &SlotTable| Slot::all().map(|slot| table.owner(slot).cloned()).collect::<Vec<_>>();
    assert_eq!(owners(&stage.cluster().table), owners(&before));
}

#[tokio::test]
async fn undoing_brings_back_what_was_drained() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let before = stage.cluster().table.clone();
    let changes = vec![add("d", 7300), Change::DrainNode { node: id("node-a"), lost: false }];
    let record = stage.change(changes, balance()).await.unwrap().plan.unwrap();
    stage.carry_out(&record).await;
    assert_eq!(stage.cluster().table.count_of(&id("a")), 0);
    let revert = Propose { reverts: Some(record.plan.id.clone()), ..balance() };

    let (log, drained) = (stage.local.log().len(), stage.cluster());
    let dry = stage.controller.change(&admin(), &main(), Vec::new(), Some(revert.clone()), true).await.unwrap();
    assert_eq!((dry.version, stage.local.log().len()), (drained.version(), log));
    assert_eq!(dry.cluster.shards[&id("a")].value.state, ShardState::Active, "as it would be");

    let undo = stage.change(Vec::new(), revert).await.unwrap().plan.unwrap();
    let shard = stage.cluster().shards[&id("a")].value.clone();
    assert_eq!(
        (shard.state, stage.cluster().nodes[&id("node-a")].value.state),
        (ShardState::Active, NodeState::Active)
    );
    assert_eq!(undo.plan.intent.add, [], "a withdrawal must not take the shard away");
    let emptied = undo.plan.checks.iter().find(|check| check.name == "emptied").unwrap();
    assert_eq!(emptied.text, "d end without slots and stay, active: drain or remove them");
    stage.carry_out(&undo).await;
    let owners = |table: &SlotTable| Slot::all().map(|slot| table.owner(slot).cloned()).collect::<Vec<_>>();
    assert_eq!(owners(&stage.cluster().table), owners(&before));

    // Where nothing is to go back, nothing is brought back either.
    let drain = Change::DrainNode { node: id("node-a"), lost: false };
    stage.controller.change(&admin(), &main(), vec![drain], None, false).await.unwrap();
    let (log, again) = (stage.local.log().len(), Propose { reverts: Some(record.plan.id.clone()), ..balance() });
    let nothing = stage.change(Vec::new(), again).await.unwrap();
    assert!(nothing.plan.is_none() && nothing.empty_because.is_some());
    assert_eq!(stage.local.log().len(), log);
    assert_eq!(nothing.cluster.shards[&id("a")].value.state, ShardState::Draining);
}

#[tokio::test]
async fn what_makes_undoing_impossible_is_named() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let record = stage.change(vec![add("d", 7300)], balance()).await.unwrap().plan.unwrap();
    stage.carry_out(&record).await;
    let revert = Propose { reverts: Some(record.plan.id.clone()), ..balance() };
    let drain = |lost| Change::DrainNode { node: id("node-b"), lost };
    for (lost, why) in [(false, "shard b, which is draining: undrain it first"), (true, "b, which is lost")] {
        stage.controller.change(&admin(), &main(), vec![drain(lost)], None, false).await.unwrap();
        let refused = stage.change(Vec::new(), revert.clone()).await.unwrap_err();
        assert!(matches!(refused, ControlError::Rejected(Rejection::Conflict { .. })), "{refused:?}");
        let text = refused.to_string();
        assert!(
            text.starts_with(&format!("plan {} cannot be undone: ", record.plan.id)) && text.contains(why),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_plan_made_after_a_clock_went_back_is_not_over_already() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let day_ms = 24 * 3_600_000;
    stage.pass_ms(10 * day_ms);
    stage.controller.change(&admin(), &main(), vec![add("d", 7300)], None, false).await.unwrap();
    let ahead = stage.controller.now();
    stage.clock_ms.store(START_MS, Ordering::Relaxed);
    assert_eq!(stage.controller.now(), ahead, "time does not go back");
    let record = stage.change(Vec::new(), balance()).await.unwrap().plan.unwrap();
    assert_eq!((record.plan.created_at, record.plan.expires_at), (ahead, ahead.plus_ms(day_ms)));
    stage.carry_out(&record).await;
    assert_eq!(stage.local.log().last().unwrap().at, ahead, "commands carry the same time");
}

#[tokio::test]
async fn a_refresh_replaces_its_predecessor() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let old = stage.change(vec![add("d", 7300)], balance()).await.unwrap().plan.unwrap();
    let refresh = Propose { supersedes: Some(old.plan.id.clone()), ..balance() };
    let new = stage.change(Vec::new(), refresh).await.unwrap().plan.unwrap();
    let cluster = stage.cluster();
    let old = &cluster.plans[&old.plan.id];
    assert_eq!((old.state, old.superseded_by.as_ref()), (PlanState::Superseded, Some(&new.plan.id)));
}

#[tokio::test]
async fn a_plan_too_long_for_the_log_says_what_to_do() {
    let stage = Stage::of(DriverKind::Flip, &[("a", "0-8191"), ("b", "8192-16383")]).await;
    let limits = Limits { slots_per_move: 1, ..DriverKind::Flip.default_limits() };
    let drain = Change::DrainShard { shard: id("b") };
    let error = stage.change(vec![drain], Propose { limits: Some(limits), ..balance() }).await.unwrap_err();
    assert!(matches!(error, ControlError::Rejected(Rejection::LimitExceeded { .. })), "{error}");
    assert!(error.to_string().contains("slots_per_move"), "{error}");
    assert_eq!(stage.cluster().shards[&id("b")].value.state, ShardState::Active, "nothing changed");
}

#[tokio::test]
async fn bad_limits_and_missing_things_are_refused_by_name() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let limits = Limits { slots_per_move: 0, ..DriverKind::Flip.default_limits() };
    let error = stage.change(Vec::new(), Propose { limits: Some(limits), ..balance() }).await.unwrap_err();
    assert!(error.to_string().contains("slots_per_move"), "{error}");
    let nowhere = stage.controller.change(&admin(), &id("nowhere"), Vec::new(), None, true).await.unwrap_err();
    assert_eq!(nowhere.to_string(), "cluster \"nowhere\" does not exist");
    stage.local.set_leading(None);
    let away = stage.change(Vec::new(), balance()).await.unwrap_err();
    assert!(matches!(away, ControlError::Unavailable(_)), "{away}");
}

#[tokio::test]
async fn fresh_names_are_in_nobodys_use() {
    let stage = Stage::of(DriverKind::Flip, &[("shard-1", "0-16383"), ("b", "")]).await;
    assert_eq!(stage.controller.fresh_names(&main()).unwrap(), (id("node-2"), id("shard-2")));
    let names = stage.controller.fresh_names_for(&main(), 2, &["node-2", "shard-4"]).unwrap();
    assert_eq!(names, [(id("node-3"), id("shard-3")), (id("node-5"), id("shard-5"))]);
}
