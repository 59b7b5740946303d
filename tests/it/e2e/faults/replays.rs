//! Requests between members that come twice, late and in another order: recorded on the way and sent again.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::e2e::faults::registers::Registers;
use crate::network::Recorded;

/// As many as this at once: bounded load.
const REPLAYS: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_come_twice_late_and_out_of_order_change_nothing() {
    let network = Network::start(3).await;
    network.record();
    let mut trial = Trial::with(3, Some(network), Vec::new()).await;
    let mut random = StdRng::seed_from_u64(trial.seed);
    let registers = Registers::start(&trial, 3).await;
    let before = trial.leader().await;
    registers.go_on(&trial, 15).await;
    replay(&trial, &mut random, &trial.network().recorded(), None).await;
    registers.go_on(&trial, 10).await;
    let before = trial.undisturbed(before, 1, "requests of the past").await;

    // Those of an earlier term, to who leads now as well.
    let old = trial.network().recorded();
    trial.kill(before.0);
    let after = trial.successor(&[(before.0 + 1) % 3, (before.0 + 2) % 3], before).await;
    trial.restart(before.0);
    trial.member(before.0).ready().await;
    replay(&trial, &mut random, &old, Some(before.0)).await;
    registers.go_on(&trial, 10).await;
    trial.undisturbed(after, 1, "requests of an earlier term").await;
    registers.finish(&trial).await;
}

/// Sends some of each kind again, most of them those that carry something. What one has sent who was started again since
/// is not heard any more.
async fn replay(trial: &Trial, random: &mut StdRng, recorded: &[Recorded], restarted: Option<usize>) {
    let of = |verb: &str| recorded.iter().filter(|one| one.verb == verb).cloned().collect::<Vec<_>>();
    let mut chosen = Vec::new();
    for verb in ["append", "submit", "vote", "pre-vote", "read-index", "hello"] {
        let mut kind = of(verb);
        let rare = ["vote", "pre-vote", "hello"].contains(&verb);
        assert!(rare || !kind.is_empty(), "no {verb} was recorded");
        kind.sort_by_key(|one| std::cmp::Reverse(one.body().len()));
        kind.truncate(REPLAYS);
        chosen.extend(kind.iter().take(REPLAYS / 4).cloned());
        chosen.extend((0..kind.len().min(REPLAYS / 4)).map(|_| kind[random.random_range(0..kind.len())].clone()));
    }
    chosen.shuffle(random);
    for one in &chosen {
        let (status, body) = trial.network().replay(one).await;
        trial.note(format!("{} of {} to {} again: {status} {body:.120}", one.verb, one.from + 1, one.to + 1));
        let expected = if restarted == Some(one.from) { 409 } else { 200 };
        assert_eq!(status, expected, "{body}");
    }
}
