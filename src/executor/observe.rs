//! The leader's other loop: it looks at the nodes of every cluster, again and again, while this member leads.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tracing::debug;

use super::terms::each_term;
use crate::controller::Controller;
use crate::domain::ClusterName;

/// Clusters that are looked at together.
const TOGETHER: usize = 4;

/// Observes nodes whenever this member leads, until `stop` turns true or its sender is dropped.
#[must_use = "the handle is awaited at shutdown"]
pub fn observe(controller: Controller, every: Duration, mut stop: watch::Receiver<bool>) -> JoinHandle<()> {
    tokio::spawn(async move {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = run(controller, every) => {}
        }
    })
}

async fn run(controller: Controller, every: Duration) {
    each_term(&controller, |term| lead(&controller, every, term), || controller.forget_observed(|_| false)).await;
}

async fn lead(controller: &Controller, every: Duration, term: u64) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let names: Vec<ClusterName> = controller.clusters().iter().map(|cluster| cluster.name.clone()).collect();
        controller.forget_observed(|cluster| names.contains(cluster));
        let looks = names.into_iter().map(|name| async move {
            if let Err(error) = controller.observe(term, &name).await {
                debug!(cluster = %name, %error, "what was seen of the nodes was not committed and is looked at again");
            }
        });
        stream::iter(looks).buffer_unordered(TOGETHER).collect::<Vec<()>>().await;
    }
}
