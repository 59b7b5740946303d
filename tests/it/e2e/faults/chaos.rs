//! Faults at random, one or two at a time, from a seed. The processes run freely, so that a seed gives the same faults
//! and not the same run. `SLOTKEEPER_CHAOS_ROUNDS` makes it longer.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::e2e::faults::pauses::start_rollout;
use crate::e2e::faults::registers::Registers;
use crate::e2e::membership::each_action_once;
use crate::e2e::{Watcher, counts, target, until_state};

const ROUNDS: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_the_clients_see_one_history() {
    let mut trial = Trial::behind_proxies(3).await;
    let rounds = std::env::var("SLOTKEEPER_CHAOS_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let mut random = StdRng::seed_from_u64(trial.seed);
    let registers = Registers::start(&trial, 4).await;
    registers.go_on(&trial, 5).await;
    // Slow enough to be under way until the end.
    let plan = start_rollout(trial.member(0), json!({"slots_per_second": 150, "overlap_ms": 50})).await;
    let watcher = Watcher::start(vec![trial.member(0).url.clone()], trial.member(0).token.clone());
    for round in 0..rounds {
        trial.note(format!("round {}", round + 1));
        let mut stopped = Vec::new();
        for _ in 0..random.random_range(1..=2) {
            strike(&mut trial, &mut random, &mut stopped);
            tokio::time::sleep(Duration::from_millis(random.random_range(0..800))).await;
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(200..1500))).await;
        for index in stopped {
            if trial.member(index).is_running() {
                trial.signal("CONT", index);
            }
        }
        for index in 0..3 {
            if !trial.member(index).is_running() {
                trial.restart(index);
            }
        }
        trial.note("healed");
        trial.network().heal();
        registers.go_on(&trial, 5).await;
    }
    // The rollout comes to its end whatever happened to whoever led, and every step of it was taken once.
    until_state(trial.member(0), &plan, "succeeded").await;
    assert_eq!(counts(trial.member(0)).await, target(&plan));
    watcher.finish();
    let (audit, _) = registers.finish(&trial).await;
    assert_eq!(audit.iter().filter(|record| record["action"] == "rollout.complete").count(), 1);
    each_action_once(&audit, &plan);
}

fn strike(trial: &mut Trial, random: &mut StdRng, stopped: &mut Vec<usize>) {
    let one = random.random_range(0..3);
    let other = (one + random.random_range(1..3)) % 3;
    match random.random_range(0..7) {
        0 if trial.member(one).is_running() => trial.kill(one),
        1 => {
            for index in trial.running() {
                trial.kill(index);
            }
        }
        2 | 3 if trial.member(one).is_running() && !stopped.contains(&one) => {
            trial.signal("STOP", one);
            stopped.push(one);
        }
        4 => {
            trial.note(format!("{} is cut off", one + 1));
            trial.network().cut_off(one, (0..3).filter(|&index| index != one));
        }
        5 => {
            trial.note(format!("{} is not heard by {}", one + 1, other + 1));
            trial.network().cut(one, other);
        }
        _ => {
            trial.note(format!("slow from {} to {}", one + 1, other + 1));
            trial.network().delay(one, other, Duration::from_millis(random.random_range(5..150)));
        }
    }
}
