//! Disks whose syncs take longer than the shortest silence after which a leader is replaced. The library that makes them slow is that of `e2e::disk`.

use super::*;
use crate::e2e::disk::shim;
use crate::e2e::faults::registers::Registers;

#[tokio::test(flavor = "multi_thread")]
async fn slow_disks_cost_time_and_no_leader() {
    let disks = tempfile::tempdir().unwrap();
    let at = |id: usize| disks.path().join(id.to_string());
    let env = [
        ("LD_PRELOAD", shim(disks.path()).display().to_string()),
        ("DISK_SHIM_FILE", disks.path().join("{id}").display().to_string()),
        ("DISK_SHIM_UNDER", "/".to_owned()),
    ];
    let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let trial = Trial::with(3, None, env).await;
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
