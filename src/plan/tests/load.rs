//! Load balancing: random skewed loads, small tables against brute force, hot slots, bounds and pins.

use super::{Cluster, limits};
use crate::domain::{Goal, LoadMetric, Slot, Statistics, Tolerance};
use crate::plan::plan;

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

#[test]
fn experiment() {
    let mut dice = Dice(1);
    for shards in [10, 30, 100] {
        for skew in [
            Skew::Zipf(0.5),
            Skew::Zipf(0.8),
            Skew::Zipf(1.0),
            Skew::LogNormal(0.3),
            Skew::LogNormal(0.6),
            Skew::LogNormal(1.0),
            Skew::LogNormal(1.5),
            Skew::Keys(1_000_000, 0.9),
        ] {
            for event in 0..3 {
                for percent in ["1", "5", "10"] {
                    let mut cluster = Cluster::equal(shards);
                    match event {
                        1 => cluster.add(1),
                        2 => cluster.drain(4),
                        _ => {}
                    }
                    cluster.statistics = Some(statistics(LoadMetric::Ops, &loads(&mut dice, skew)));
                    let goal = Goal::BalanceLoad {
                        metric: LoadMetric::Ops,
                        tolerance: Tolerance::from_percent(percent).unwrap(),
                    };
                    let start = std::time::Instant::now();
                    let body = plan(&cluster.input(), goal, &limits()).unwrap();
                    let time = start.elapsed();
                    if let Err(faults) = crate::plan::check(&cluster.input(), goal, &limits(), &body) {
                        panic!("{faults:#?}");
                    }
                    let load = body.figures.load.unwrap();
                    let s = &body.summary;
                    eprintln!(
                        "{shards:5} {skew:?} ev{event} {percent:>3}%: moves {} bound {} ratio {:.3} reached {} floor {} hot {} {} {:?}",
                        s.slots,
                        s.lower_bound,
                        f64::from(s.slots) / f64::from(s.lower_bound.max(1)),
                        load.reached.percent(),
                        load.floor.percent(),
                        load.hot.len(),
                        if load.unreached.is_some() {
                            "UNREACHED"
                        } else if f64::from(s.slots) > 1.1 * f64::from(s.lower_bound) {
                            "BAD"
                        } else {
                            ""
                        },
                        time
                    );
                }
            }
        }
    }
}
