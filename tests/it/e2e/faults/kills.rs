//! kill -9, also of all members at once.

use super::*;
use crate::e2e::faults::registers::Registers;

#[tokio::test(flavor = "multi_thread")]
async fn members_killed_again_and_again_lose_nothing_and_do_nothing_twice() {
    let mut trial = Trial::start().await;
    let registers = Registers::start(&trial, 4).await;
    registers.go_on(&trial, 20).await;

    let (leader, _) = trial.leader().await;
    let follower = (leader + 1) % 3;
    trial.kill(follower);
    registers.go_on(&trial, 20).await;
    trial.restart(follower);
    trial.member(follower).ready().await;

    for _ in 0..2 {
        let before = trial.leader().await;
        trial.kill(before.0);
        trial.successor(&trial.running(), before).await;
        registers.go_on(&trial, 20).await;
        trial.restart(before.0);
        trial.member(before.0).ready().await;
    }

    for _ in 0..2 {
        for index in 0..3 {
            trial.kill(index);
        }
        for index in [1, 2, 0] {
            trial.restart(index);
        }
        registers.go_on(&trial, 20).await;
    }
    registers.finish(&trial).await;
}
