//! Load balancing: random skewed loads, small tables against brute force, hot slots, bounds and pins.

use super::{Cluster, limits};
use crate::domain::{Goal, HotSlot, LoadFigures, LoadMetric, Objective, PlanBody, Slot, Statistics, Tolerance};
use crate::plan::{check, plan, plan_for};

/// Knuth's MMIX generator.
struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// By Box and Muller.
    fn normal(&mut self) -> f64 {
        let (a, b) = (self.unit().max(1e-12), self.unit());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

#[derive(Clone, Copy, Debug)]
enum Skew {
    /// `1/rank^s` of the slots in random order.
    Zipf(f64),
    /// `e^(σ·normal)`.
    LogNormal(f64),
    /// Zipf over so many keys, hashed to slots.
    Keys(u32, f64),
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "loads are between 0 and 10^13")]
fn loads(dice: &mut Dice, skew: Skew) -> Vec<u64> {
    let scale = 1e6;
    match skew {
        Skew::Zipf(s) => {
            let mut ranks: Vec<usize> = (1..=16384).collect();
            for i in (1..ranks.len()).rev() {
                ranks.swap(i, (dice.unit() * (i + 1) as f64) as usize);
            }
            ranks.into_iter().map(|rank| (scale * 1000.0 / (rank as f64).powf(s)) as u64).collect()
        }
        Skew::LogNormal(sigma) => (0..16384).map(|_| (scale * (sigma * dice.normal()).exp()) as u64).collect(),
        Skew::Keys(keys, s) => {
            let mut loads = vec![0; 16384];
            for rank in 1..=keys {
                loads[(dice.unit() * 16384.0) as usize] += (scale * 1000.0 / f64::from(rank).powf(s)) as u64;
            }
            loads
        }
    }
}

fn statistics(metric: LoadMetric, loads: &[u64]) -> Statistics {
    let mut statistics = Statistics::new(&[metric], None).unwrap();
    for (slot, load) in loads.iter().enumerate() {
        statistics.add(Slot::at(slot), &[*load]).unwrap();
    }
    statistics
}

fn goal(percent: &str) -> Goal {
    Goal::BalanceLoad { metric: LoadMetric::Ops, tolerance: Tolerance::from_percent(percent).unwrap() }
}

/// Equal shards with these loads; then one more, one draining, or neither.
fn cluster(shards: usize, event: u32, loads: &[u64]) -> Cluster {
    let mut cluster = Cluster::equal(shards);
    match event {
        1 => cluster.add(1),
        2 => cluster.drain(4),
        _ => {}
    }
    cluster.statistics = Some(statistics(LoadMetric::Ops, loads));
    cluster
}

/// Every plan passes the checker; those that reach their band have few moves more than their bounds, those that do not say why.
#[test]
fn skewed_loads_come_near_their_bound_or_say_why() {
    let mut dice = Dice(1);
    for (skew, largest, all_reach) in [
        (Skew::LogNormal(0.3), 100, true),
        (Skew::LogNormal(0.6), 100, true),
        (Skew::LogNormal(1.0), 100, true),
        (Skew::Zipf(0.5), 30, true),
        // A hot slot that no shard has room for.
        (Skew::Zipf(1.0), 10, false),
        (Skew::Keys(100_000, 0.9), 100, false),
    ] {
        let (mut moves, mut bound, mut reached) = (0, 0, 0);
        for shards in [10, 30, 100] {
            for event in 0..3 {
                let cluster = cluster(shards, event, &loads(&mut dice, skew));
                let body = cluster.plan(goal("5"));
                let load = body.figures.load.as_ref().unwrap();
                if let Some(why) = &load.unreached {
                    assert!(why.starts_with("slot ") || why.contains("s-0"), "{why}");
                    assert!(!all_reach, "{skew:?} {shards} {event}: {why}");
                } else {
                    assert!(load.reached <= load.asked, "{skew:?} {shards} {event}");
                }
                if load.unreached.is_none() && shards <= largest {
                    reached += 1;
                    moves += body.summary.slots;
                    bound += body.summary.lower_bound;
                }
            }
        }
        assert!(reached > 0, "{skew:?}");
        assert!(moves * 10 <= bound * 11, "{skew:?}: {moves} moves, bound {bound}");
    }
}

#[test]
fn a_slot_hotter_than_a_shard_is_named_with_the_floor() {
    let mut loads = vec![1_u64; 16384];
    loads[7000] = 16384;
    let cluster = cluster(4, 0, &loads);
    let body = cluster.plan(goal("5"));
    let load = body.figures.load.unwrap();
    // Half of the load in one slot: twice a share of a quarter.
    assert_eq!((load.hot.len(), load.hot[0].slot.get(), load.floor.percent()), (1, 7000, "100.0061".to_owned()));
    assert_eq!(
        load.unreached.as_deref(),
        Some(
            "slot 7000 alone has 16384 of 32767 ops, more than any shard may have within 5 %; no owners bring every shard \
             within less than 100.0061 %: read its keys from replicas, or split its hottest key"
        )
    );
    // Its shard keeps it and little else; the others share the rest.
    let after: Vec<u64> = load.shards.iter().map(|shard| shard.after).collect();
    assert!((16384..=16384 + 273).contains(&after[1]), "{after:?}");
    assert!([0, 2, 3].iter().all(|&i| (5188..=5734).contains(&after[i])), "{after:?}");
}

#[test]
fn weights_pins_bounds_and_drains_are_kept_to() {
    let mut dice = Dice(3);
    let mut cluster = cluster(10, 2, &loads(&mut dice, Skew::LogNormal(0.6)));
    cluster.shards[0].weight = super::weight(3);
    cluster.shards[1].pinned.insert_range(super::range(1700, 2200));
    cluster.shards[2].max_slots = Some(1500);
    cluster.shards[3].min_slots = Some(1520);
    cluster.table.assign(super::range(16000, 16100), None).unwrap();
    let body = cluster.plan(goal("5"));
    let load = body.figures.load.as_ref().unwrap();
    assert_eq!(load.unreached, None);
    assert_eq!(body.summary.assigned, 101);
    assert_eq!(body.shards[4].after, 0);
    assert!(body.shards[2].after <= 1500 && body.shards[3].after >= 1520);
    let share = load.total / 11;
    assert!(load.shards[0].after > 3 * share * 94 / 100 && load.shards[5].after < share * 106 / 100);
    // A draining shard keeps its pins, and so does their load.
    cluster.shards[4].pinned.insert_range(super::range(6600, 6609));
    assert_eq!(cluster.plan(goal("5")).shards[4].after, 10);
}

#[test]
fn loads_that_are_balanced_need_no_move() {
    let cluster = cluster(4, 0, &vec![5; 16384]);
    let body = cluster.plan(goal("0"));
    assert_eq!(body.empty_because.as_deref(), Some("every shard's ops are within 0 % of its share already"));
    let nothing = self::cluster(4, 0, &vec![0; 16384]).plan(goal("0"));
    assert!(nothing.actions.is_empty());
}

#[test]
fn missing_statistics_are_refused_by_name() {
    let mut cluster = Cluster::equal(3);
    let refusal = |cluster: &Cluster, goal| plan(&cluster.input(), goal, &limits()).unwrap_err().to_string();
    assert_eq!(
        refusal(&cluster, goal("5")),
        "the goal balance_load needs the ops of each slot: give statistics with the columns slot and ops"
    );
    cluster.statistics = Some(statistics(LoadMetric::Keys, &vec![1; 16384]));
    assert!(refusal(&cluster, goal("5")).ends_with("and the statistics have no column ops"));
    cluster.statistics = Some(statistics(LoadMetric::Ops, &vec![1; 16000]));
    assert_eq!(
        refusal(&cluster, goal("5")),
        "the statistics list 16000 slots and leave out 384 that have an owner, first slot 16000; list every one, with 0 \
         where there is nothing"
    );
    cluster.table.assign(super::range(16000, 16383), None).unwrap();
    assert_eq!(cluster.plan(goal("5")).summary.assigned, 384);
    let bytes = plan_for(&cluster.input(), goal("5"), Objective::Bytes, &limits()).unwrap_err().to_string();
    assert!(bytes.contains("the goal balance_load chooses them by load"), "{bytes}");
    let bytes = plan_for(&cluster.input(), super::BALANCE, Objective::Bytes, &limits()).unwrap_err().to_string();
    assert!(bytes.starts_with("the objective bytes needs the bytes of each slot"), "{bytes}");
}

#[test]
fn damaged_load_figures_are_refused() {
    type Damage = (&'static str, fn(&mut LoadFigures));
    let mut dice = Dice(9);
    let cluster = cluster(10, 1, &loads(&mut dice, Skew::LogNormal(0.6)));
    let sound = cluster.plan(goal("5"));
    let damages: [Damage; 12] = [
        ("load: s-0003 before", |l| l.shards[3].before += 1),
        ("load: s-0003 after", |l| l.shards[3].after -= 1),
        ("load: s-0003 lo", |l| l.shards[3].lo -= 1),
        ("load: s-0003 hi", |l| l.shards[3].hi += 1),
        ("load: s-0010 fill", |l| l.shards[10].fill += 1),
        ("load: s-0000 shed", |l| l.shards[0].shed += 1),
        ("load: total", |l| l.total += 1),
        ("load: before, in ppm", |l| l.before.0 += 1),
        ("load: reached, in ppm", |l| l.reached.0 -= 1),
        ("load: floor, in ppm", |l| l.floor.0 += 1),
        ("metric or tolerance", |l| l.asked.0 += 1),
        ("listed as too hot that is not", |l| {
            l.hot.push(HotSlot { slot: Slot::at(0), load: 1, shard: super::id(0) });
        }),
    ];
    let faults = |body: &PlanBody| check(&cluster.input(), goal("5"), &limits(), body).unwrap_err().join("\n");
    for (fault, damage) in damages {
        let mut body = sound.clone();
        damage(body.figures.load.as_mut().unwrap());
        let found = faults(&body);
        assert!(found.contains(fault), "expected {fault:?} in:\n{found}");
    }
    let mut body = sound.clone();
    body.summary.lower_bound += 1;
    assert!(faults(&body).contains("summary: lower_bound"));
    body = sound.clone();
    body.figures.curve[1].moves += 1;
    assert!(faults(&body).contains("curve: moves at 0.5 %"));
    body = sound;
    body.figures.load = None;
    assert!(faults(&body).contains("its figures are missing"));
}
