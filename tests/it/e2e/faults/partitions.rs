//! Members that cannot reach each other: both ways, one way, and five of which one alone reaches all.

use super::*;
use crate::e2e::faults::registers::Registers;

/// Terms that a partition and its healing may cost: an election or two, not a storm of them.
const TERMS_MAX: u64 = 4;
/// A member without a majority answers after 2 s; the rest is for a slow machine.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

const READ: &str = "/v1/clusters/default?consistency=linearizable";
const LEASE: &str = "/v1/clusters/default?consistency=lease";
const TOPOLOGY: &str = "/v1/clusters/default/topology";

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_cut_off_takes_no_write_and_the_others_go_on_without_it() {
    let trial = Trial::behind_proxies(3).await;
    let registers = Registers::start(&trial, 4).await;
    registers.go_on(&trial, 10).await;
    let before = trial.leader().await;
    let (cut_off, others) = (before.0, [(before.0 + 1) % 3, (before.0 + 2) % 3]);

    trial.note(format!("member {} is cut off", cut_off + 1));
    trial.network().cut_off(cut_off, others);
    // At once, while it still takes itself for the leader, and again when it knows better. By its clock nobody else can lead
    // yet; and yet it asks the others before it answers.
    let (trusting, at_once) = tokio::join!(trial.member(cut_off).get(READ), trial.create(cut_off, "at-once"));
    assert_eq!(trusting.status, 503, "a read that trusts a clock: {}", trusting.body);
    for (answer, took) in [at_once, trial.create(cut_off, "later").await] {
        assert_eq!(answer.status, 503, "{}", answer.body);
        assert!(took < ANSWERS_WITHIN, "{took:?}");
    }
    let started = Instant::now();
    let read = trial.member(cut_off).get(READ).await;
    assert_eq!((read.status.as_u16(), read.headers.contains_key("retry-after")), (503, true), "{}", read.body);
    assert!(started.elapsed() < ANSWERS_WITHIN, "{:?}", started.elapsed());
    trial.note(format!("a linearizable read there: 503 after {:?}", started.elapsed()));
    let old = stale_ms(&trial, cut_off).await;

    trial.successor(&others, before).await;
    registers.go_on(&trial, 20).await;
    let older = stale_ms(&trial, cut_off).await;
    assert!(older > old && old > 0, "{old} ms, then {older} ms");
    assert_eq!(trial.member(cut_off).get("/readyz").await.status, 503);
    assert!(stale_ms(&trial, others[0]).await < 2000);

    trial.note("healed");
    trial.network().heal();
    trial.member(cut_off).ready().await;
    registers.go_on(&trial, 10).await;
    let (audit, term) = registers.finish(&trial).await;
    assert!(term <= before.1 + TERMS_MAX, "from term {} to {term}", before.1);
    // Refused, or unknown: but never done by one and not by the others, which `finish` has compared.
    assert!(audit.iter().filter(|record| record["cluster"] == "later").count() <= 1);
    assert!(stale_ms(&trial, cut_off).await < 2000);
}

/// How long this member says it has not heard of a leader, or of a majority when it leads.
async fn stale_ms(trial: &Trial, index: usize) -> u64 {
    let answer = trial.member(index).get(TOPOLOGY).await;
    assert_eq!(answer.status, 200, "what it has is served: {}", answer.body);
    answer.headers["slotkeeper-stale-ms"].to_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_hears_or_is_heard_no_more_disturbs_nobody() {
    let trial = Trial::behind_proxies(3).await;
    let registers = Registers::start(&trial, 3).await;
    registers.go_on(&trial, 10).await;
    for what in ["it does not hear the leader", "nobody hears it", "it hears nobody"] {
        let before = trial.leader().await;
        let (leader, follower, other) = (before.0, (before.0 + 1) % 3, (before.0 + 2) % 3);
        trial.note(format!("follower {}: {what}", follower + 1));
        let cut = match what {
            "it does not hear the leader" => vec![(leader, follower)],
            "nobody hears it" => vec![(follower, leader), (follower, other)],
            _ => vec![(leader, follower), (other, follower)],
        };
        for (from, to) in cut {
            trial.network().cut(from, to);
        }
        // Several of the longest silences after which it would stand for election, and again and again.
        tokio::time::sleep(Duration::from_millis(3_500)).await;
        registers.go_on(&trial, 10).await;
        trial.network().heal();
        trial.member(follower).ready().await;
        trial.undisturbed(before, 2, what).await;
    }
    registers.finish(&trial).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_hears_or_is_heard_no_more_is_replaced() {
    let trial = Trial::behind_proxies(3).await;
    let registers = Registers::start(&trial, 3).await;
    registers.go_on(&trial, 10).await;
    for what in ["nobody hears it", "it hears nobody"] {
        let before = trial.leader().await;
        let others = [(before.0 + 1) % 3, (before.0 + 2) % 3];
        trial.note(format!("leader {}: {what}", before.0 + 1));
        for other in others {
            if what == "nobody hears it" {
                trial.network().cut(before.0, other);
            } else {
                trial.network().cut(other, before.0);
            }
        }
        let after = trial.successor(&others, before).await;
        // What it says while a way is cut can come from nobody but itself: a stale answer.
        let (started, until) = (Instant::now(), Instant::now() + Duration::from_millis(2_500));
        let old = trial.member(before.0);
        let (read, lease) = tokio::join!(old.get(READ), old.get(LEASE));
        for read in [read, lease] {
            assert_eq!(read.status, 503, "{what}: a read that nobody else took part in: {}", read.body);
        }
        assert!(started.elapsed() < ANSWERS_WITHIN, "{:?}", started.elapsed());
        let (write, took) = trial.create(before.0, &format!("when-{}", what.replace(' ', "-"))).await;
        assert!(write.status == 503 && took < ANSWERS_WITHIN, "{what}: {} after {took:?}", write.status);
        registers.go_on(&trial, 10).await;
        // Several of the longest silences after which it would stand for election, and again and again.
        tokio::time::sleep(until.saturating_duration_since(Instant::now())).await;
        trial.undisturbed(after, 1, what).await;
        trial.network().heal();
        trial.member(before.0).ready().await;
        trial.undisturbed(after, 1, "the healing").await;
    }
    registers.finish(&trial).await;
}

/// Only one member reaches a majority, and it hears a leader that does not: unless that leader falls silent, the one
/// that could lead waits for ever.
#[tokio::test(flavor = "multi_thread")]
async fn of_five_the_only_one_that_reaches_a_majority_takes_over() {
    let trial = Trial::behind_proxies(5).await;
    let registers = Registers::start(&trial, 3).await;
    registers.go_on(&trial, 10).await;
    let before = trial.leader().await;
    let hub = (before.0 + 1) % 5;
    trial.note(format!("everyone reaches member {} alone, the leader {} too", hub + 1, before.0 + 1));
    for one in (0..5).filter(|&one| one != hub) {
        trial.network().cut_off(one, (one + 1..5).filter(|&other| other != hub));
    }
    let after = trial.successor(&[hub], before).await;
    assert_eq!(after.0, hub);
    let (answer, _) = trial.create(hub, "through-the-hub").await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    registers.go_on(&trial, 10).await;
    trial.network().heal();
    let (_, term) = registers.finish(&trial).await;
    assert!(term <= before.1 + 2 * TERMS_MAX, "from term {} to {term}", before.1);
}

/// A slow network makes everything slower and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn slow_ways_cost_time_and_no_leader() {
    let trial = Trial::behind_proxies(3).await;
    let registers = Registers::start(&trial, 3).await;
    let before = trial.leader().await;
    for (from, to) in [(0, 1), (1, 2), (2, 0), (1, 0), (2, 1), (0, 2)] {
        trial.network().delay(from, to, Duration::from_millis(10 + 5 * from as u64));
    }
    registers.go_on(&trial, 20).await;
    trial.undisturbed(before, 1, "slow ways").await;
    trial.network().heal();
    registers.finish(&trial).await;
}
