//! The bounds of the state: every collection has one, and the oldest go first.

use slotkeeper::domain::{ClusterName, Instant, PlanId, Rejection};
use slotkeeper::state::{
    Applied, CLUSTERS_MAX, Change, FINISHED_PLANS_MAX, IDEMPOTENCY_KEYS_MAX, OPEN_PLANS_MAX, Op, State, TOKENS_MAX,
};

use crate::scene::{command, id};

/// Submits lines one second apart; the last answer.
struct Bench(State, u64);

impl Bench {
    fn new() -> Self {
        let mut bench = Self(State::default(), 1000);
        bench.ok("create main driver=flip approvals=0");
        bench.ok("change main import a=0-8191 b=8192-16383");
        bench
    }

    fn submit(&mut self, line: &str) -> Applied {
        self.1 += 1;
        let command = command(&self.0, line, Instant(self.1 * 1000));
        self.0.apply(&command)
    }

    fn ok(&mut self, line: &str) {
        if let Err(rejection) = self.submit(line).outcome {
            panic!("{line}: {rejection}");
        }
    }

    fn limit(&mut self, line: &str) -> u64 {
        match self.submit(line).outcome {
            Err(Rejection::LimitExceeded { most, .. }) => most,
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn every_collection_has_a_bound() {
    let mut bench = Bench::new();
    for number in 1..CLUSTERS_MAX {
        bench.ok(&format!("create c-{number}"));
    }
    assert_eq!(bench.limit("create one-more"), 256);
    for number in 0..TOKENS_MAX {
        bench.ok(&format!("token t-{number} ci viewer"));
    }
    assert_eq!(bench.limit("token one-more ci viewer"), 1024);
    for number in 0..OPEN_PLANS_MAX {
        bench.ok(&format!("plan main p-{number} a>b:{number}"));
    }
    assert_eq!(bench.limit("plan main p-32 a>b:40"), 32);
    bench.ok("plan main p-32 a>b:40 supersedes=p-7");
    let many: Vec<_> = (0..4097).map(|number| format!("s-{number}=")).collect();
    assert_eq!(bench.limit(&format!("change c-1 import {}", many.join(" "))), 4096);
    let many: Vec<_> = (0..8192).map(|number| format!("+r-{number}")).collect();
    assert_eq!(bench.limit(&format!("change c-1 import a={}", many.join(""))), 8192);
}

#[test]
fn the_oldest_finished_plan_goes_first_but_never_the_one_that_finished_just_now() {
    let mut bench = Bench::new();
    bench.ok("plan main old a>b:0");
    for number in 0..=FINISHED_PLANS_MAX {
        bench.ok(&format!("plan main p-{number} a>b:1"));
        bench.ok(&format!("withdraw main p-{number}"));
    }
    let kept = |bench: &Bench, plan: &str| {
        bench.0.clusters[&id::<ClusterName>("main")].plans.contains_key(&id::<PlanId>(plan))
    };
    assert!(!kept(&bench, "p-0") && kept(&bench, "p-1") && kept(&bench, "old"));
    bench.ok("withdraw main old");
    assert!(kept(&bench, "old") && !kept(&bench, "p-1") && kept(&bench, "p-2"));
    bench.ok("plan main next a>b:2");
    bench.ok("withdraw main next");
    assert!(!kept(&bench, "old"), "the oldest by its proposal");
}

#[test]
fn the_oldest_remembered_answer_goes_first() {
    let mut bench = Bench::new();
    for number in 0..=IDEMPOTENCY_KEYS_MAX {
        bench.ok(&format!("configure main key=k{number}"));
    }
    assert_eq!(bench.0.remembered.len(), IDEMPOTENCY_KEYS_MAX);
    assert!(!bench.0.remembered.contains_key("root/k0"));
    assert!(bench.0.remembered.contains_key("root/k1"));
    assert!(bench.submit("configure main key=k1").outcome.unwrap().repeated);
}

#[test]
fn long_texts_are_refused_or_cut_at_a_character() {
    let mut bench = Bench::new();
    let reason = "r".repeat(1025);
    let refused = bench.submit(&format!("configure main reason={reason}")).outcome.unwrap_err();
    assert_eq!(refused.to_string(), "reason: is longer than 1024 bytes");
    let refused = bench.submit(&format!("configure main key={}", "k".repeat(129))).outcome.unwrap_err();
    assert_eq!(refused.code(), "invalid");
    bench.ok("plan main p-1 a>b:0");
    bench.ok("start main p-1");
    bench.ok(&format!("block main p-1 {}", "ü".repeat(2000)));
    let record = &bench.0.clusters[&id::<ClusterName>("main")].plans[&id::<PlanId>("p-1")];
    let cause = record.rollout.as_ref().unwrap().cause.as_ref().unwrap();
    assert_eq!((cause.len(), cause.chars().all(|c| c == 'ü')), (1024, true));
}

/// What may be left alone, cleared or set survives the log: serde alone would read "clear" as "leave alone".
#[test]
fn clearing_a_field_survives_the_encoding() {
    for zone in [None, Some(None), Some(Some(id("z1")))] {
        for bound in [None, Some(None), Some(Some(7))] {
            let (shard, node) = (id("a"), id("node-a"));
            let (min_slots, max_slots) = (bound, bound);
            let changes = vec![
                Change::SetNode { node, if_match: None, host: None, port: None, zone: zone.clone() },
                Change::SetShard { shard, if_match: None, weight: None, min_slots, max_slots, pinned: None },
            ];
            let op = Op::Change { cluster: id("main"), changes, plan: None };
            let json = serde_json::to_string(&op).unwrap();
            assert_eq!(serde_json::from_str::<Op>(&json).unwrap(), op, "{json}");
        }
    }
}
