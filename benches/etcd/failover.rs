//! kill -9 of the leader → next acknowledged write. From the kill on, a write is begun every 10 ms at one of the members
//! that are left, by turns and whatever became of the ones before; the first acknowledgement counts.

use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::median;
use super::process::{Client, PATIENCE, System, eventually};

const EVERY: Duration = Duration::from_millis(10);
/// How long an attempt is heard of.
const ATTEMPT: Duration = Duration::from_secs(8);
/// Between two kills, with everybody there.
const CALM: Duration = Duration::from_secs(1);

/// Kills so many leaders; prints one line and returns the median in milliseconds.
pub async fn measure<S: System>(name: &str, mut system: S, kills: usize, than: Option<f64>, wanted: &str) -> f64 {
    let mut took = Vec::new();
    for kill in 0..kills {
        let leader = system.leader().await;
        let left: Vec<usize> = (0..system.members()).filter(|member| *member != leader).collect();
        system.processes()[leader].kill_9();
        let killed = Instant::now();
        acknowledged(&system, &left, kill * 1000).await;
        took.push(killed.elapsed().as_secs_f64() * 1e3);
        system.processes()[leader].restart();
        eventually("member that comes back", async || {
            let mut client = system.connect(leader, 0).await.ok()?;
            client.read().await.ok()
        })
        .await;
        tokio::time::sleep(CALM).await;
    }
    let max = took.iter().copied().fold(0.0, f64::max);
    let median = median(took);
    let share = than.map_or(String::new(), |than| format!("{:.2}", median / than));
    println!("| {name}, {kills} kills | {median:.0} | {max:.0} | {share} | {wanted} |");
    median
}

async fn acknowledged<S: System>(system: &S, members: &[usize], first: usize) {
    let deadline = Instant::now() + PATIENCE;
    let attempt = |number: usize| {
        let member = members[number % members.len()];
        tokio::time::timeout(ATTEMPT, async move { system.connect(member, first + number).await?.change().await })
    };
    let (mut attempts, mut number) = (FuturesUnordered::new(), 0);
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                assert!(Instant::now() < deadline, "no write within {PATIENCE:?}");
                attempts.push(attempt(number));
                number += 1;
            }
            Some(Ok(Ok(()))) = attempts.next() => return,
        }
    }
}
