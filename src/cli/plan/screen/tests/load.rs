//! The screen of a plan that balances load, and the curve. Four shards as in the other tests; every slot has one operation a
//! second, and slot 7000 of shard-b has as many as all others together.

use super::*;
use crate::cli::plan::curve;
use crate::domain::{LoadMetric, Slot};
use crate::wire::plan::{CheckView, CurvePointView, GoalView, HotSlotView, LoadView, MoveView, ShardLoadView};

const WHY: &str = "slot 7000 alone has 16383 of 32766 ops, more than any shard may have within 5 %; no owners bring every \
                   shard within less than 100 %: read its keys from replicas, or split its hottest key";

fn points(moves: &[(u32, u32)]) -> Vec<CurvePointView> {
    moves.iter().map(|&(tolerance_ppm, moves)| CurvePointView { tolerance_ppm, moves }).collect()
}

/// What the plan makes of the four shards: slots and operations, before and after.
fn hot() -> PlanView {
    let mut view = view();
    view.intent.goal = GoalView::BalanceLoad { metric: LoadMetric::Ops, tolerance_ppm: 50_000 };
    view.intent.add.clear();
    view.intent.reason.clear();
    view.shards.truncate(4);
    let mut shards = Vec::new();
    for (shard, (after, load, lo, hi)) in view.shards.iter_mut().zip([
        (5370, (4000, 5370), 5188, 5734),
        (274, (20_639, 16_656), 16_383, 16_656),
        (5370, (3973, 5370), 5188, 5734),
        (5370, (4154, 5370), 5188, 5734),
    ]) {
        shard.after = after;
        let (shard, (before, after)) = (shard.id.clone(), load);
        shards.push(ShardLoadView { shard, before, after, lo, hi, shed: 0, fill: 0 });
    }
    let slot = Slot::new(7000).unwrap();
    let at = view.shards[1].id.clone();
    view.load = Some(LoadView {
        metric: LoadMetric::Ops,
        total: 32_766,
        asked_ppm: 50_000,
        before_ppm: 1_519_563,
        reached_ppm: 1_033_328,
        floor_ppm: 1_000_000,
        unreached: Some(WHY.to_owned()),
        hot: vec![HotSlotView { slot, load: 16_383, shard: at.clone() }],
        shards,
    });
    view.moves = [(2, 1397, "4274-5670"), (0, 1370, "5671-6999,7001-7041"), (3, 1216, "7042-8257")]
        .map(|(to, slots, ranges)| MoveView {
            from: Some(at.clone()),
            to: view.shards[to].id.clone(),
            ranges: ranges.split(',').map(|range| range.parse().unwrap()).collect(),
            slots,
        })
        .to_vec();
    let summary = &mut view.summary;
    (summary.slots, summary.lower_bound, summary.minimal) = (3983, 10, false);
    (summary.ranges_after, summary.waves, summary.waves_lower_bound) = (9, 63, 63);
    (summary.keys_est, summary.bytes_est, summary.eta_seconds) = (None, None, None);
    view.curve = points(&[(0, 12), (5_000, 12), (50_000, 10), (500_000, 4), (750_000, 1), (1_000_000, 11)]);
    view.checks = vec![CheckView {
        code: "W1".to_owned(),
        name: "not-reached".to_owned(),
        level: CheckLevel::Warn,
        text: WHY.to_owned(),
        needs_ack: false,
    }];
    view
}

/// The same where the band is reached: shard-b gives its surplus, and nothing is hot.
fn reached() -> PlanView {
    let mut view = hot();
    let load = view.load.as_mut().unwrap();
    (load.unreached, load.hot) = (None, Vec::new());
    (load.metric, load.total) = (LoadMetric::Bytes, 4_100_000_000);
    (load.before_ppm, load.reached_ppm, load.floor_ppm) = (158_537, 48_781, 2_000);
    for (shard, (before, after)) in load.shards.iter_mut().zip([
        (1_000_000_000, 1_020_000_000),
        (1_187_500_000, 1_075_000_000),
        (862_500_000, 975_000_000),
        (1_050_000_000, 1_030_000_000),
    ]) {
        (shard.before, shard.after, shard.lo, shard.hi) = (before, after, 974_775_000, 1_075_225_000);
    }
    view.intent.goal = GoalView::BalanceLoad { metric: LoadMetric::Bytes, tolerance_ppm: 49_000 };
    load.asked_ppm = 49_000;
    (view.summary.slots, view.summary.lower_bound, view.summary.minimal) = (7, 7, true);
    view.curve = points(&[(0, 24), (5_000, 17), (10_000, 13), (50_000, 6), (75_000, 0)]);
    view
}

#[test]
fn a_load_plan_whose_band_is_out_of_reach() {
    insta::assert_snapshot!(render(&hot(), Format::Table, false));
}

#[test]
fn a_load_plan_that_reaches_its_band() {
    let text = render(&reached(), Format::Table, false);
    let from = text.find("LOAD ").unwrap();
    let to = text[from..].find("CHECKS").unwrap() + from;
    insta::assert_snapshot!(&text[from..to]);
}

/// Weights count, and what rests with a shard that is to have nothing does not.
#[test]
fn shares_follow_the_weights() {
    let mut view = reached();
    view.shards[0].weight = Weight::new(3).unwrap();
    view.shards[3].weight = Weight::new(0).unwrap();
    let load = view.load.as_mut().unwrap();
    load.total = 1100;
    // 100 rest with the last; 600, 200 and 200 are the shares of the others.
    for (shard, (before, after, lo, hi)) in load.shards.iter_mut().zip([
        (300, 603, 570, 630),
        (400, 200, 190, 210),
        (300, 197, 190, 210),
        (100, 100, 100, 100),
    ]) {
        (shard.before, shard.after, shard.lo, shard.hi) = (before, after, lo, hi);
    }
    let text = render(&view, Format::Table, false);
    let row = |name: &str| text.lines().filter(|line| line.starts_with(name)).nth(1).unwrap().to_owned();
    let cells = |name: &str| row(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(cells("shard-a")[3..7], ["-50.0%", "603", "B", "+0.5%"]);
    assert_eq!(cells("shard-b")[3..7], ["+100.0%", "200", "B", "0.0%"]);
    assert_eq!(cells("shard-c")[3..7], ["+50.0%", "197", "B", "-1.5%"]);
    assert_eq!(cells("shard-d")[1..], ["100", "B", "100", "B", "100", "B", "100", "B"]);
}

#[test]
fn long_names_and_amounts_keep_within_the_screen() {
    let mut view = hot();
    let long = "a-shard-with-a-name-as-long-as-names-may-be-and-then-some-more";
    let load = view.load.as_mut().unwrap();
    load.shards[1].shard = long.parse().unwrap();
    view.shards[1].id = long.parse().unwrap();
    (load.total, load.shards[2].after) = (u64::MAX, u64::MAX / 2);
    for shard in &mut load.shards {
        (shard.lo, shard.before) = (u64::MAX / 9, u64::MAX / 3);
    }
    load.hot[0].shard = long.parse().unwrap();
    load.metric = LoadMetric::Bytes;
    assert!(render(&view, Format::Table, false).contains("outside"));
}

#[test]
fn a_curve_with_a_tolerance_between_its_points() {
    insta::assert_snapshot!(curve::draw(&reached()));
}

/// What no owners reach has no number of moves, though bounds exist.
#[test]
fn a_curve_that_is_out_of_reach_at_first() {
    insta::assert_snapshot!(curve::draw(&hot()));
}

#[test]
fn the_curve_of_an_exact_balance() {
    let text = curve::draw(&view());
    let first = text.lines().nth(1).unwrap();
    assert!(first.starts_with("     0 %  3276  █") && first.ends_with("<- asked"), "{text}");
    assert!(text.ends_with("\n   100 %     0\nPlan p-7q2m4xkz moves 3276 slots.\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH && line == line.trim_end()), "{text}");
}
