//! The shape is the one of the design; what cannot be is refused by name.

use serde_json::{Value, json};

use super::*;
use crate::domain::{
    Action, ActionId, ActionKind, Band, Base, Certificate, Check, CheckLevel, ClusterId, Figures, Fingerprint, Goal,
    Instant, Intent, Limits, PlanBody, Principal, Quota, Shard, ShardChange, ShardId, ShardState, SlotRange, SlotSet,
    SlotTable, Summary, Tolerance, Version, Weight,
};

fn shard(id: &str) -> ShardId {
    ShardId::new(id).unwrap()
}

fn range(text: &str) -> SlotRange {
    text.parse().unwrap()
}

/// Two shards, the second new; one action.
fn example() -> Plan {
    let change = |id, before, after| ShardChange {
        id: shard(id),
        weight: Weight::ONE,
        state: ShardState::Active,
        quota: Quota { numerator: 8192, denominator: 1 },
        before,
        after,
        bounds: crate::domain::ShardBounds::default(),
    };
    let step = |id, ranges: &[&str]| Action {
        id: ActionId(id),
        kind: ActionKind::MoveSlots {
            from: shard("a"),
            to: shard("b"),
            ranges: ranges.iter().map(|text| range(text)).collect(),
        },
    };
    let band = |id| Band { shard: shard(id), lo: 8192, hi: 8192 };
    Plan {
        id: PlanId::new("p-7q2m4xkz").unwrap(),
        supersedes: None,
        reverts: None,
        intent: Intent {
            goal: Goal::Balance { tolerance: Tolerance(0) },
            add: vec![(shard("b"), Weight::ONE)],
            drain: vec![],
            reweight: vec![],
            reason: "capacity".to_owned(),
            placement: None,
        },
        base: Base {
            cluster_id: ClusterId::new("c-1").unwrap(),
            version: Version { generation: crate::domain::Generation(1_772_460_300), epoch: crate::domain::Epoch(41) },
            fingerprint: Fingerprint::of(&SlotTable::new(), std::iter::empty::<&Shard>(), &SlotSet::new()),
        },
        body: PlanBody {
            summary: Summary {
                slots: 8192,
                ranges_before: 1,
                ranges_after: 2,
                lower_bound: 8192,
                waves: 2,
                waves_lower_bound: 2,
                worst_before: 8192,
                ..Summary::default()
            },
            certificate: Certificate { surplus: 8192, deficit: 8192, unassigned: 0, bands: vec![band("a"), band("b")] },
            shards: vec![change("a", 16384, 8192), change("b", 0, 8192)],
            actions: vec![step(1, &["8192-12000"]), step(2, &["12001-16383"])],
            waves: vec![vec![ActionId(1)], vec![ActionId(2)]],
            figures: Figures::default(),
            empty_because: None,
            placement: None,
        },
        checks: vec![Check {
            code: "W1".to_owned(),
            name: "stale-cache".to_owned(),
            level: CheckLevel::Warn,
            text: "a".to_owned(),
            needs_ack: true,
        }],
        limits: Limits {
            moves_per_source: 1,
            moves_per_target: 1,
            slots_per_move: 1024,
            slots_per_second: None,
            bytes_per_second: None,
            overlap_ms: 0,
            windows: Vec::new(),
        },
        approvals_required: 1,
        author_may_approve: false,
        author: Principal { name: "ops-1".parse().unwrap(), role: Role::Operator, token: None },
        created_at: Instant(1_772_460_300_000),
        expires_at: Instant(1_772_546_700_000),
    }
}

fn view() -> PlanView {
    let plan = example();
    PlanView::new(&plan, PlanLife::proposed(&plan))
}

/// The view with one value of its JSON replaced.
fn with(pointer: &str, value: Value) -> Result<Plan, String> {
    let mut json = serde_json::to_value(view()).unwrap();
    *json.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is not in the view")) = value;
    let view = PlanView::from_json(json.to_string().as_bytes()).map_err(|fault| fault.to_string())?;
    Plan::try_from(view).map_err(|fault| fault.to_string())
}

#[test]
fn has_the_fields_of_the_format() {
    let mut json = serde_json::to_value(view()).unwrap();
    let plan = example();
    assert_eq!(json["digest"], json!(Digest::of_plan(&plan).to_string()));
    json["digest"] = json!("sha256:…");
    json["base"]["fingerprint"] = json!("sha256:…");
    let expected = json!({
        "format_version": "1.0", "id": "p-7q2m4xkz", "state": "proposed", "digest": "sha256:…", "supersedes": null,
        "intent": {"goal": {"kind": "balance"}, "add": [{"shard": "b", "weight": 1}], "drain": [], "reweight": [],
            "reason": "capacity"},
        "base": {"cluster_id": "c-1", "generation": 1_772_460_300, "epoch": 41, "fingerprint": "sha256:…"},
        "freshness": {"fresh": true, "epoch": 41, "changes": []},
        "summary": {"slots": 8192, "assigned": 0, "ranges_before": 1, "ranges_after": 2, "lower_bound": 8192,
            "minimal": true, "waves": 2, "waves_lower_bound": 2, "keys_est": null, "bytes_est": null,
            "eta_seconds": null, "worst_deviation": {"before": 8192, "after": 0}},
        "certificate": {"A": 8192, "B": 8192, "unassigned": 0,
            "bands": [{"shard": "a", "lo": 8192, "hi": 8192}, {"shard": "b", "lo": 8192, "hi": 8192}]},
        "shards": [
            {"id": "a", "weight": 1, "state": "active", "quota": "8192", "before": 16384, "after": 8192,
                "target": 8192},
            {"id": "b", "weight": 1, "state": "active", "quota": "8192", "before": 0, "after": 8192, "target": 8192}],
        "moves": [{"from": "a", "to": "b", "ranges": [[8192, 16383]], "slots": 8192}],
        "actions": [
            {"id": "a-1", "kind": "move_slots", "from": "a", "to": "b", "ranges": [[8192, 12000]]},
            {"id": "a-2", "kind": "move_slots", "from": "a", "to": "b", "ranges": [[12001, 16383]]}],
        "waves": [["a-1"], ["a-2"]],
        "checks": [{"code": "W1", "name": "stale-cache", "level": "warn", "text": "a", "needs_ack": true}],
        "limits": {"moves_per_source": 1, "moves_per_target": 1, "slots_per_move": 1024, "slots_per_second": null,
            "bytes_per_second": null, "overlap_ms": 0},
        "approvals": [], "approvals_required": 1, "author_may_approve": false, "acks": [], "author": "ops-1",
        "author_role": "operator", "created_at": "2026-03-02T14:05:00Z", "expires_at": "2026-03-03T14:05:00Z",
    });
    assert_eq!(json, expected);
}

#[test]
fn a_plan_survives_the_way_there_and_back() {
    let text = serde_json::to_vec(&view()).unwrap();
    let back = Plan::try_from(PlanView::from_json(&text).unwrap()).unwrap();
    assert_eq!(back, example());
}

#[test]
fn fields_of_later_versions_may_be_added() {
    let mut json = serde_json::to_value(view()).unwrap();
    json["sparkle"] = json!(1);
    json["checks"][0]["slot"] = json!(12543);
    let plan = Plan::try_from(PlanView::from_json(json.to_string().as_bytes()).unwrap()).unwrap();
    assert_eq!(plan, example());
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let cases = [
        ("/format_version", json!("2.0"), "format_version: \"2.0\" is not known here"),
        ("/actions/1/ranges/0", json!([12000, 16383]), "actions: a-2: slot 12000 is listed twice"),
        ("/actions/0/to", json!("a"), "actions: a-1 moves slots of a to itself"),
        ("/actions/0/ranges", json!([]), "actions: a-1 moves no slot"),
        ("/actions/0/ranges", json!([[9000, 9001], [8192, 8193]]), "actions: a-1: range 8192-8193 is not above"),
        ("/actions/0/ranges/0", json!([5, 1]), "slot range: 5-1 starts after it ends"),
        ("/actions/0/ranges/0", json!([5, 16384]), "slot: 16384 is not in 0..=16383"),
        ("/actions/0/id", json!("a-3"), "actions: a-3 stands where a-1 belongs"),
        ("/actions/0/kind", json!("teleport"), "unknown variant `teleport`"),
        ("/moves/0/from", json!("b"), "moves: shard b moves slots to itself"),
        ("/moves/0/slots", json!(1), "moves: a -> b: the ranges hold 8192 slots, not 1"),
        ("/moves/0/ranges", json!([[0, 5], [5, 6]]), "moves: slot 5 is listed twice"),
        ("/waves/1/0", json!("a-1"), "waves: a-1 is listed twice"),
        ("/waves/1", json!([]), "waves: a-2 is in no wave"),
        ("/waves/1/0", json!("a-9"), "waves: a-9 is not an action"),
        ("/shards/1/id", json!("a"), "shards: shard a is listed twice"),
        ("/shards/0/quota", json!("1/0"), "quota: \"1/0\" of shard a is not a fraction"),
        ("/shards/0/weight", json!(10_001), "weight: 10001 is not in 0..=10000"),
        ("/shards/0/id", json!("a\u{202e}"), "shard id"),
        ("/limits/slots_per_move", json!(0), "slots_per_move: 0 is not in 1..=1024"),
        ("/intent/goal/kind", json!("magic"), "unknown variant `magic`"),
        ("/summary/minimal", json!(false), "summary.minimal: does not agree"),
        ("/approvals_required", json!(3), "approvals_required: 3 is not in 0..=2"),
        ("/expires_at", json!("tomorrow"), "time: \"tomorrow\" is not an RFC 3339 time"),
        ("/digest", json!("sha256:00"), "digest: \"sha256:00\" is not sha256: and 64"),
    ];
    for (pointer, value, expected) in cases {
        let fault = with(pointer, value.clone()).expect_err(pointer);
        assert!(fault.contains(expected), "{pointer} = {value}: {fault}");
    }
}

#[test]
fn goals_are_read_strictly() {
    let read = |text: &str| serde_json::from_str::<GoalView>(text).map_err(|fault| fault.to_string());
    assert_eq!(read(r#"{"kind":"balance"}"#), Ok(GoalView::Balance { tolerance_ppm: 0 }));
    assert_eq!(read(r#"{"kind":"drain_only"}"#), Ok(GoalView::DrainOnly {}));
    assert_eq!(read(r#"{"kind":"budget","max_moves":7}"#), Ok(GoalView::Budget { max_moves: 7 }));
    for bad in [r#"{"kind":"balance","x":1}"#, r#"{"kind":"drain_only","x":1}"#, r#"{"kind":"budget"}"#, "{}"] {
        assert!(read(bad).is_err(), "{bad}");
    }
    assert!(Goal::try_from(GoalView::Balance { tolerance_ppm: 1_000_001 }).is_err());
}
