//! Carries out approved plans: a loop on the leader. It commits the intent, calls the driver, commits the outcome, and
//! keeps nothing that a successor would need: after a change of leader the next one looks at the replicated record
//! first and goes on from there.

mod next;
mod observe;
mod pace;
mod rollout;
mod terms;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tracing::{info, warn};

pub use self::observe::observe;

use self::rollout::Carrier;
use self::terms::each_term;
use crate::controller::{Caller, ControlError, Controller, Op};
use crate::domain::{ClusterName, DriverKind};
use crate::driver::Driver;

/// The drivers of this controller by kind.
pub type Drivers = BTreeMap<DriverKind, Arc<dyn Driver>>;

/// Pause between two looks at the clusters, and before a new leader that cannot confirm its lead tries again.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const LEAD_AGAIN: Duration = Duration::from_millis(50);

/// The drivers given, by the kind they are for.
#[must_use]
pub fn drivers(drivers: impl IntoIterator<Item = Arc<dyn Driver>>) -> Drivers {
    drivers.into_iter().map(|driver| (driver.kind(), driver)).collect()
}

/// Runs rollouts whenever this member leads, until `stop` turns true or its sender is dropped.
#[must_use = "the handle is awaited at shutdown"]
pub fn spawn(controller: Controller, drivers: Drivers, mut stop: watch::Receiver<bool>) -> JoinHandle<()> {
    tokio::spawn(async move {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = run(controller, Arc::new(drivers)) => {}
        }
    })
}

async fn run(controller: Controller, drivers: Arc<Drivers>) {
    let step_down = || drivers.values().for_each(|driver| driver.step_down());
    each_term(&controller, |term| lead(&controller, &drivers, term), step_down).await;
}

/// One term of leadership: a task per cluster whose rollout is under way.
async fn lead(controller: &Controller, drivers: &Arc<Drivers>, term: u64) {
    // Everything the predecessors committed is applied before anything is decided.
    while let Err(error) = begin(controller, term).await {
        warn!(term, %error, "the executor waits for its lead to be confirmed");
        sleep(LEAD_AGAIN).await;
    }
    info!(term, "executing");
    let mut applied = controller.applied();
    let mut running: BTreeSet<ClusterName> = BTreeSet::new();
    let mut tasks = JoinSet::new();
    loop {
        applied.borrow_and_update();
        for cluster in controller.clusters() {
            if cluster.active.is_some() && running.insert(cluster.name.clone()) {
                let carrier = Carrier::new(controller.clone(), Arc::clone(drivers), cluster.name.clone(), term);
                let name = cluster.name.clone();
                tasks.spawn(async move {
                    carrier.carry_out().await;
                    name
                });
            }
        }
        tokio::select! {
            changed = applied.changed() => {
                if changed.is_err() {
                    return;
                }
                sleep(LOOK_EVERY).await;
            }
            Some(ended) = tasks.join_next() => {
                running.remove(&ended.expect("carrying out a rollout does not panic"));
            }
        }
    }
}

/// Fences the executors of earlier terms off, then has everything that they committed.
async fn begin(controller: &Controller, term: u64) -> Result<(), ControlError> {
    controller.submit_in(term, &Caller::system("executor"), Op::Lead { term }).await?;
    controller.linearize().await
}

#[cfg(test)]
mod tests;
