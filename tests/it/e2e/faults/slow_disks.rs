//! Disks whose syncs take longer than the shortest silence after which a leader is replaced. The library that makes them slow is that of `e2e::disk`.

use super::*;
use crate::e2e::disk::shim;
use crate::e2e::faults::registers::Registers;

/// Three members, each with a disk that does what the file with its number in this folder says.
async fn on_disks(disks: &TempDir) -> Trial {
    let env = [
        ("LD_PRELOAD", shim(disks.path()).display().to_string()),
        ("DISK_SHIM_FILE", disks.path().join("{id}").display().to_string()),
        ("DISK_SHIM_UNDER", "/".to_owned()),
    ];
    let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
    Trial::with(3, None, env).await
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_disks_cost_time_and_no_leader() {
    let disks = tempfile::tempdir().unwrap();
    let at = |id: usize| disks.path().join(id.to_string());
    let trial = on_disks(&disks).await;
    let registers = Registers::start(&trial, 3).await;
    registers.go_on(&trial, 5).await;
    let before = trial.leader().await;
    let ids = |of: &[usize]| of.iter().map(|index| index + 1).collect::<Vec<_>>();
    for slow in [ids(&[before.0]), ids(&[0, 1, 2])] {
        trial.note(format!("the disks of {slow:?} are slow"));
        for &id in &slow {
            std::fs::write(at(id), "slow").unwrap();
        }
        registers.go_on(&trial, 10).await;
        for &id in &slow {
            let syncs = std::fs::read(at(id).with_extension("calls")).unwrap().len();
            assert!(syncs > 0, "the disk of {id} was not used");
        }
    }
    trial.undisturbed(before, 2, "slow disks").await;
    (1..=3).for_each(|id| std::fs::write(at(id), "").unwrap());
    registers.finish(&trial).await;
}

/// A voter answers when its vote is on its disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_killed_while_all_disks_are_slow_is_replaced() {
    let disks = tempfile::tempdir().unwrap();
    let at = |id: usize| disks.path().join(id.to_string());
    let mut trial = on_disks(&disks).await;
    let registers = Registers::start(&trial, 3).await;
    registers.go_on(&trial, 5).await;
    let before = trial.leader().await;
    trial.note("all disks are slow");
    (1..=3).for_each(|id| std::fs::write(at(id), "slow").unwrap());
    registers.go_on(&trial, 3).await;
    trial.kill(before.0);
    trial.successor(&[(before.0 + 1) % 3, (before.0 + 2) % 3], before).await;
    registers.go_on(&trial, 3).await;
    (1..=3).for_each(|id| std::fs::write(at(id), "").unwrap());
    trial.restart(before.0);
    trial.member(before.0).ready().await;
    registers.finish(&trial).await;
}
