//! Wall clocks that are a day ahead or behind, and jump. A library compiled here and loaded before the C library
//! (`clock_shim.c`) moves the wall clock of each process by what a file says, and no other clock.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use slotkeeper::wire::Timestamp;

use super::pauses::start_rollout;
use super::*;
use crate::e2e::faults::registers::Registers;
use crate::e2e::{counts, target, until_slots_done, until_state};

const DAY_S: i64 = 24 * 3600;
const DAY_MS: u64 = 24 * 3600 * 1000;

/// The library, in the folder.
fn shim(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/e2e/faults/clock_shim.c");
    let library = folder.join("clock_shim.so");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

/// Moves the clock of a member to so many seconds beside the right time.
fn shift(trial: &Trial, clocks: &Path, index: usize, seconds: i64) {
    trial.note(format!("the clock of {} is {seconds} s off", index + 1));
    let new = clocks.join("new");
    std::fs::write(&new, seconds.to_string()).unwrap();
    std::fs::rename(&new, clocks.join((index + 1).to_string())).unwrap();
}

fn millis(record: &Value) -> u64 {
    record["at"].as_str().unwrap().parse::<Timestamp>().unwrap().0.0
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_a_day_off_that_jump_change_what_is_displayed_and_nothing_else() {
    let clocks = tempfile::tempdir().unwrap();
    let file = clocks.path().join("{id}").display().to_string();
    let preload = shim(clocks.path()).display().to_string();
    let env = vec![("LD_PRELOAD".to_owned(), preload), ("CLOCK_SHIM_FILE".to_owned(), file)];
    let mut trial = Trial::with(3, None, env).await;
    let registers = Registers::start(&trial, 3).await;
    let before = trial.leader().await;
    let (leader, follower, other) = (before.0, (before.0 + 1) % 3, (before.0 + 2) % 3);
    let plan = start_rollout(trial.member(other), json!({"slots_per_second": 400, "overlap_ms": 300})).await;

    for (of_leader, of_follower) in [(DAY_S, -DAY_S), (-DAY_S, DAY_S)] {
        shift(&trial, clocks.path(), leader, of_leader);
        shift(&trial, clocks.path(), follower, of_follower);
        registers.go_on(&trial, 15).await;
    }
    let before = trial.undisturbed(before, 1, "four clocks that jumped").await;
    let others: Vec<usize> = (0..3).filter(|&index| index != before.0).collect();
    let done = crate::e2e::rollout(trial.member(other), &plan).await["progress"]["slots_done"].as_u64().unwrap();
    until_slots_done(trial.member(other), &plan, done + 100).await;
    trial.kill(before.0);
    trial.successor(&others, before).await;
    registers.go_on(&trial, 15).await;
    trial.restart(before.0);
    trial.member(before.0).ready().await;
    until_state(trial.member(other), &plan, "succeeded").await;
    assert_eq!(counts(trial.member(other)).await, target(&plan));

    let (audit, _) = registers.finish(&trial).await;
    let times: Vec<u64> = audit.iter().map(millis).collect();
    assert!(times.is_sorted(), "the time of the audit went back: {times:?}");
    let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    assert!(times[0] < now && *times.last().unwrap() > now + DAY_MS / 2, "no clock was ahead: {times:?}");
}
