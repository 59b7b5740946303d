//! Moves that are stopped in the middle, and what dies or is ended there. Valkey only: `DEBUG SLOTMIGRATION` holds it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use super::super::binaries::that_move_slots;
use super::super::fixture::{Cluster, PATIENCE, driver};
use super::{assert_there, cluster, fill, states, tasks};
use crate::driver::redis::Settings;
use crate::driver::redis::atomic::Dialect;
use crate::driver::{Driver as _, DriverError, Job};

/// Where Valkey waits until it is told to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// All keys are sent, and changes follow.
    Replicating,
    /// The source has stopped writes and granted the hand-over.
    Granted,
}

impl Hold {
    const fn state(self) -> &'static str {
        match self {
            Self::Replicating => "waiting-to-pause",
            Self::Granted => "failover-granted",
        }
    }

    /// Switches it on or off at every server that runs.
    fn set(self, cluster: &Cluster, on: bool) {
        let which = if self == Self::Replicating { "PREVENT-PAUSE" } else { "PREVENT-FAILOVER" };
        for server in &cluster.servers {
            // A server that was killed has forgotten it.
            drop(server.try_ask(&["DEBUG", "SLOTMIGRATION", which, if on { "1" } else { "0" }]));
        }
    }
}

/// Real servers that can be held.
fn held(test: &str) -> impl Iterator<Item = std::path::PathBuf> {
    let (can, cannot): (Vec<_>, Vec<_>) =
        that_move_slots(test).into_iter().partition(|(dialect, _)| *dialect == Dialect::Valkey);
    for _ in cannot {
        println!("{test}: Redis 8.4 cannot be held in the middle of a move: left out");
    }
    can.into_iter().map(|(_, binary)| binary)
}

/// Begins a move and comes back when the source's task is in this state.
async fn begun<F: Future<Output = Result<(), DriverError>> + Send + 'static>(
    cluster: &Cluster,
    source: usize,
    hold: Hold,
    moving: F,
) -> tokio::task::JoinHandle<Result<(), DriverError>> {
    let moving = tokio::spawn(moving);
    let deadline = tokio::time::Instant::now() + super::super::fixture::PATIENCE;
    while states(&cluster.servers[source]).first().map(String::as_str) != Some(hold.state()) {
        assert!(tokio::time::Instant::now() < deadline, "{:?}", tasks(&cluster.servers[source], Dialect::Valkey));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    moving
}

/// A driver of its own carries the job out.
async fn execute(job: Job) -> Result<(), DriverError> {
    driver(Settings::default()).execute(&job).await
}

#[tokio::test(flavor = "multi_thread")]
async fn another_controller_takes_over_what_is_under_way() {
    for binary in held("another_controller_takes_over_what_is_under_way") {
        let (cluster, topology) = cluster(&binary, 0);
        fill(&cluster.servers[0], 100..=103);
        let job = cluster.job(&topology, 0, 3, &[(100, 103)]);
        Hold::Replicating.set(&cluster, true);
        let first = begun(&cluster, 0, Hold::Replicating, execute(job.clone())).await;
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        let second = begun(&cluster, 0, Hold::Replicating, execute(job)).await;
        Hold::Replicating.set(&cluster, false);
        second.await.unwrap().unwrap();
        assert_eq!(states(&cluster.servers[0]), ["success"], "it was not asked for again");
        assert_there(&cluster, 100..=103, 3);
    }
}

/// One end is killed in the middle, and comes back; the move comes about all the same.
async fn dies(binary: &std::path::Path, who: usize, hold: Hold) {
    let (mut cluster, topology) = cluster(binary, 0);
    fill(&cluster.servers[0], 200..=203);
    hold.set(&cluster, true);
    let job = cluster.job(&topology, 0, 3, &[(200, 203)]);
    let moving = begun(&cluster, 0, hold, execute(job)).await;
    cluster.servers[who].kill();
    hold.set(&cluster, false);
    cluster.servers[who].run();
    moving.await.unwrap().unwrap();
    cluster.settle();
    assert_there(&cluster, 200..=203, 3);
    println!("{who} died while {hold:?}: the slots have moved");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_source_is_killed_in_the_middle() {
    for binary in held("the_source_is_killed_in_the_middle") {
        dies(&binary, 0, Hold::Replicating).await;
        dies(&binary, 0, Hold::Granted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_target_is_killed_in_the_middle() {
    for binary in held("the_target_is_killed_in_the_middle") {
        dies(&binary, 3, Hold::Replicating).await;
        dies(&binary, 3, Hold::Granted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_over_in_the_middle() {
    for binary in held("a_replica_takes_over_in_the_middle") {
        for who in [0, 3] {
            let (mut cluster, topology) = cluster(&binary, 1);
            fill(&cluster.servers[0], 300..=303);
            for at in [0, 3] {
                cluster.wait("the replica has it all", || cluster.servers[at].number(&["WAIT", "1", "1000"]) >= 1);
            }
            Hold::Replicating.set(&cluster, true);
            let moving =
                begun(&cluster, 0, Hold::Replicating, execute(cluster.job(&topology, 0, 3, &[(300, 303)]))).await;
            let now = cluster.fail_over(who);
            Hold::Replicating.set(&cluster, false);
            let moved = moving.await.unwrap();
            // Longer than the driver of the tests waits, on a slow machine: then it is told and tried again.
            match moved {
                Ok(()) => {}
                Err(DriverError::Open(why)) if why.contains("no primary that answers") => {
                    println!("told: {why}");
                    cluster.execute(&cluster.job(&topology, 0, 3, &[(300, 303)])).await.unwrap();
                }
                Err(other) => panic!("{other:?}"),
            }
            assert_there(&cluster, 300..=303, if who == 3 { now } else { 3 });
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cancelled_once_is_asked_for_again_and_given_up_when_it_always_is() {
    for binary in held("what_is_cancelled_once_is_asked_for_again_and_given_up_when_it_always_is") {
        let (cluster, topology) = cluster(&binary, 0);
        fill(&cluster.servers[0], 400..=403);
        let job = cluster.job(&topology, 0, 3, &[(400, 401)]);
        Hold::Replicating.set(&cluster, true);
        let moving = begun(&cluster, 0, Hold::Replicating, execute(job)).await;
        cluster.servers[0].ask(&["CLUSTER", "CANCELSLOTMIGRATIONS"]);
        Hold::Replicating.set(&cluster, false);
        moving.await.unwrap().unwrap();
        assert_eq!(states(&cluster.servers[0]), ["success", "cancelled"]);
        assert_there(&cluster, 400..=401, 3);

        Hold::Replicating.set(&cluster, true);
        let (port, stop) = (cluster.servers[0].port, Arc::new(AtomicBool::new(false)));
        let spoiler = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
                let mut connection = client.get_connection().unwrap();
                while !stop.load(Ordering::Relaxed) {
                    // Refused while nothing is under way.
                    drop(redis::cmd("CLUSTER").arg("CANCELSLOTMIGRATIONS").exec(&mut connection));
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        });
        let answer = cluster.execute(&cluster.job(&topology, 0, 3, &[(402, 403)])).await;
        stop.store(true, Ordering::Relaxed);
        spoiler.join().unwrap();
        assert_eq!(answer, Err(DriverError::Halt("the servers gave up 5 times: cancelled".to_owned())));
        assert_eq!(states(&cluster.servers[0]).len(), 2 + 5);
        assert_there(&cluster, 402..=403, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_come_on_is_told_and_ended_with_the_rollout() {
    for binary in held("what_does_not_come_on_is_told_and_ended_with_the_rollout") {
        let (cluster, topology) = cluster(&binary, 0);
        fill(&cluster.servers[0], 500..=503);
        let job = cluster.job(&topology, 0, 3, &[(500, 503)]);
        Hold::Replicating.set(&cluster, true);
        let told = async {
            job.waits.changed().await;
            (job.waits.first(), std::time::Instant::now())
        };
        let both = async { tokio::join!(told, async { (cluster.execute(&job).await, std::time::Instant::now()) }) };
        let ((told, told_at), (answer, answered_at)) = timeout(PATIENCE, both).await.expect("it is told");
        let (_, told) = told.expect("what it waits for");
        assert!(told.contains("slots 500-503 by themselves: their task does not come on: waiting-to-pause"), "{told}");
        assert!(told_at < answered_at, "long before it is given up");
        let Err(DriverError::Open(why)) = answer else { panic!("{answer:?}") };
        assert!(
            why.contains("slots 500-503 by themselves: their task does not come on: waiting-to-pause; do: "),
            "{why}"
        );
        assert_eq!(states(&cluster.servers[0]), ["waiting-to-pause"], "it stays in flight");
        // The rollout is aborted.
        let answer = cluster.execute(&Job { ending: true, ..job.clone() }).await;
        assert_eq!(answer, Err(DriverError::Halt("the servers gave up once: cancelled".to_owned())));
        assert_eq!(states(&cluster.servers[0]), ["cancelled"]);
        assert_there(&cluster, 500..=503, 0);
        // It is nobody's fault that it was ended.
        Hold::Replicating.set(&cluster, false);
        cluster.execute(&job).await.unwrap();
        assert_there(&cluster, 500..=503, 3);
    }
}
