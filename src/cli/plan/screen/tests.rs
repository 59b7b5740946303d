//! Screens of the design's example: shards at 0-3999, 4000-8256, 8257-12229 and 12230-16383, and a fifth that is added.

use std::collections::BTreeSet;

use super::*;
use crate::cli::output::Format;
use crate::domain::{
    Base, Check, CheckLevel, ClusterId, Digest, DriverKind, Epoch, Fingerprint, Generation, Goal, Intent, Plan, PlanId,
    Principal, Role, Shard, ShardId, SlotTable, Tolerance, Version, Weight,
};
use crate::plan::{self, Input};
use crate::wire::plan::{ApprovalView, FreshnessView, PlanLife};
use crate::wire::timestamp::Timestamp;

mod load;

const PROPOSED_AT: Instant = Instant(1_772_460_300_000);

fn check(code: &str, name: &str, level: CheckLevel, text: &str, needs_ack: bool) -> Check {
    let (code, name, text) = (code.to_owned(), name.to_owned(), text.to_owned());
    Check { code, name, level, text, needs_ack }
}

fn plan() -> Plan {
    let mut table = SlotTable::new();
    let mut shards = Vec::new();
    for (name, ranges) in [
        ("shard-a", "0-3999"),
        ("shard-b", "4000-8256"),
        ("shard-c", "8257-12229"),
        ("shard-d", "12230-16383"),
        ("shard-e", ""),
    ] {
        let id = ShardId::new(name).unwrap();
        table.insert_shard(id.clone());
        if let Ok(range) = ranges.parse() {
            table.assign(range, Some(&id)).unwrap();
        }
        shards.push(Shard::new(id, format!("node-{name}").parse().unwrap(), Weight::ONE));
    }
    let mut limits = DriverKind::Redis.default_limits();
    (limits.slots_per_move, limits.bytes_per_second) = (4, Some(16 << 20));
    let goal = Goal::Balance { tolerance: Tolerance(0) };
    let mut body =
        plan::plan(&Input { table: &table, shards: &shards, lost: &BTreeSet::new(), statistics: None }, goal, &limits)
            .unwrap();
    body.summary.keys_est = Some(8_200_000);
    body.summary.bytes_est = Some(10_460_000_000);
    body.summary.eta_seconds = Some((600, 840));
    Plan {
        id: PlanId::new("p-7q2m4xkz").unwrap(),
        supersedes: None,
        reverts: None,
        intent: Intent {
            goal,
            add: vec![("shard-e".parse().unwrap(), Weight::ONE)],
            drain: vec![],
            reweight: vec![],
            reason: "capacity for spring sale".to_owned(),
            placement: None,
        },
        base: Base {
            cluster_id: ClusterId::new("c-1").unwrap(),
            version: Version { generation: Generation(1_772_460_300), epoch: Epoch(41) },
            fingerprint: Fingerprint::of(&table, &shards, &body.moved_slots()),
        },
        body,
        checks: vec![
            check("C1", "checked", CheckLevel::Ok, "no plan for this goal moves fewer than 3276", false),
            check("W1", "replica-lag", CheckLevel::Warn, "shard-d 10.0.4.12:6379 is 38 MiB behind (limit 16)", false),
            check(
                "W2",
                "big-key",
                CheckLevel::Warn,
                "slot 12543: \"{cart:eu}\" 212 MiB; its move blocks the shard",
                true,
            ),
        ],
        limits,
        approvals_required: 1,
        author_may_approve: false,
        author: Principal { name: "ops-1".parse().unwrap(), role: Role::Operator, token: None },
        created_at: PROPOSED_AT,
        expires_at: PROPOSED_AT.plus_ms(24 * 3600 * 1000),
    }
}

fn view() -> PlanView {
    let plan = plan();
    PlanView::new(&plan, PlanLife::proposed(&plan))
}

fn render(plan: &PlanView, format: Format, full: bool) -> String {
    let output = Output { format, color: false, quiet: false };
    let now = PROPOSED_AT.plus_ms(19 * 60 * 1000);
    let wide = format == Format::Wide;
    let text =
        Screen { plan, cluster: "prod-eu", globals: " --cluster prod-eu", now, full, wide, stored: true, output }
            .render();
    let broad = text.lines().find(|line| line.chars().count() > WIDTH);
    assert_eq!(broad.filter(|_| !wide), None, "the screen is {WIDTH} columns wide");
    text
}

#[test]
fn a_proposed_plan() {
    insta::assert_snapshot!(render(&view(), Format::Table, false));
}

#[test]
fn an_approved_plan_says_how_to_start_it() {
    let mut view = view();
    view.state = PlanState::Approved;
    view.acks = vec!["big-key".to_owned()];
    let at = Timestamp(PROPOSED_AT.plus_ms(60_000));
    view.approvals = vec![ApprovalView { by: "rev-1".parse().unwrap(), at, digest: view.digest }];
    let text = render(&view, Format::Table, false);
    assert!(text.contains("APPROVED (1 of 1 approvals)\n"), "{text}");
    assert!(text.contains("approved by rev-1 2026-03-02 14:06Z\n"), "{text}");
    assert!(!text.contains("[needs ack]"), "{text}");
    assert!(text.ends_with("Next: slotkeeper --cluster prod-eu plan start p-7q2m4xkz\n"), "{text}");
}

#[test]
fn a_running_plan_says_how_to_watch_it() {
    let mut view = view();
    view.state = PlanState::Running;
    let text = render(&view, Format::Table, false);
    assert!(text.lines().next().unwrap().ends_with("  RUNNING"), "{text}");
    assert!(text.ends_with("Next: slotkeeper --cluster prod-eu rollout watch p-7q2m4xkz\n"), "{text}");
}

#[test]
fn a_stale_plan_says_why_and_how_to_refresh_it() {
    let mut view = view();
    let changes = vec!["shard-b now has weight 2".to_owned()];
    view.freshness = FreshnessView { fresh: false, epoch: 43, changes };
    let text = render(&view, Format::Table, false);
    assert!(text.contains("based on epoch 41, now 43: STALE"), "{text}");
    assert!(text.contains("  changed since: shard-b now has weight 2\n"), "{text}");
    assert!(text.ends_with("Next: slotkeeper --cluster prod-eu plan refresh p-7q2m4xkz\n"), "{text}");
}

#[test]
fn a_failing_check_is_not_to_be_approved() {
    let mut view = view();
    view.checks[1].level = CheckLevel::Fail;
    let text = render(&view, Format::Table, false);
    assert!(text.contains("CHECKS   ok 1   WARN 1   FAIL 1\n  FAIL W1 replica-lag"), "{text}");
    assert!(!text.contains("plan approve"), "{text}");
}

#[test]
fn full_lists_every_range_and_wide_shortens_nothing() {
    let mut view = view();
    let long = "256f8fad71da49fc9bd8d75955ece32c6c0cd817";
    view.shards[0].id = long.parse().unwrap();
    view.moves[0].ranges = (0..300_u16).map(|i| format!("{}", 4 * i).parse().unwrap()).collect();
    let brief = render(&view, Format::Table, false);
    assert!(brief.contains("\n256f8fad") && !brief.contains(long), "{brief}");
    assert!(brief.contains(" more\n") && !brief.contains("1196"), "{brief}");
    let full = render(&view, Format::Table, true);
    assert!(full.contains("1192, 1196\n"), "{full}");
    let wide = render(&view, Format::Wide, false);
    assert!(wide.contains(long) && wide.contains("1192,1196\n"), "{wide}");
}

#[test]
fn nothing_from_elsewhere_reaches_the_terminal_raw() {
    let mut view = view();
    view.intent.reason = "\u{1b}]0;owned\u{7}\u{202e}".to_owned();
    view.checks[1].text = "a\u{1b}[2J\u{85}b".to_owned();
    view.checks[1].name = "x\r".to_owned();
    let text = render(&view, Format::Wide, true);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    assert!(text.contains("\\u{1b}]0;owned\\u{7}\\u{202e}"), "{text}");
}

#[test]
fn hundreds_of_shards_are_cut_short() {
    let mut view = view();
    let template = view.shards[0].clone();
    view.shards = (0..300)
        .map(|i| {
            let mut shard = template.clone();
            shard.id = format!("shard-{i:03}").parse().unwrap();
            shard
        })
        .collect();
    let text = render(&view, Format::Table, false);
    assert!(text.contains("shard-039") && !text.contains("shard-040"), "{text}");
    assert!(text.contains("… and 260 more (--full lists all)"), "{text}");
    assert!(render(&view, Format::Table, true).contains("shard-299"));
}

#[test]
fn the_digest_shown_is_the_plans() {
    let text = render(&view(), Format::Table, false);
    assert_eq!(text.matches(&Digest::of_plan(&plan()).to_string()).count(), 2, "{text}");
}
