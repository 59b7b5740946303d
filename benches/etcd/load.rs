//! So many clients that ask again and again for a while.

use std::time::{Duration, Instant};

use super::process::{Client, Failed, Process, System};

/// What is asked.
#[derive(Clone, Copy)]
pub enum Kind {
    Write,
    Change,
    Read,
}

/// A load.
pub struct Plan {
    pub kind: Kind,
    pub clients: usize,
}

/// What it came to.
pub struct Outcome {
    pub per_second: f64,
    pub median_us: f64,
    /// Processor time of all members, per request.
    pub processor_us: f64,
}

/// Runs a load for a while.
pub async fn run<S: System>(system: &mut S, plan: &Plan, turn: Duration) -> Outcome {
    let leader = system.leader().await;
    let mut clients = Vec::new();
    for number in 0..plan.clients {
        let member = match plan.kind {
            Kind::Write | Kind::Change => leader,
            Kind::Read => number % system.members(),
        };
        clients.push(system.connect(member, number).await.expect("every member is there"));
    }
    let processor_s = |system: &mut S| system.processes().iter().map(Process::processor_s).sum::<f64>();
    let (kind, before, started) = (plan.kind, processor_s(system), Instant::now());
    let tasks: Vec<_> = clients.into_iter().map(|client| tokio::spawn(ask(client, kind, started + turn))).collect();
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.expect("no client panics").expect("every request is answered"));
    }
    let elapsed = started.elapsed().as_secs_f64();
    took.sort_unstable();
    let requests = took.len() as f64;
    Outcome {
        per_second: requests / elapsed,
        median_us: took[took.len() / 2].as_secs_f64() * 1e6,
        processor_us: (processor_s(system) - before) * 1e6 / requests,
    }
}

async fn ask<C: Client>(mut client: C, kind: Kind, end: Instant) -> Result<Vec<Duration>, Failed> {
    let mut took = Vec::new();
    let mut before = Instant::now();
    while before < end {
        match kind {
            Kind::Write => client.write().await?,
            Kind::Change => client.change().await?,
            Kind::Read => client.read().await?,
        }
        let now = Instant::now();
        took.push(now - before);
        before = now;
    }
    client.settle().await?;
    Ok(took)
}
