//! What every member does beside answering: publishes what was applied, and, while it leads, expires what is over and
//! makes a group that was never used usable.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::{Caller, ControlError, Controller, Op};
use crate::domain::{ClusterName, DriverKind, PlanState, Policy, PrincipalName, Rejection, Role, TokenId};
use crate::raft::off_thread;
use crate::state::{IDEMPOTENCY_TTL_MS, State};

/// At most one publication per cluster in this time.
const PUBLISH_EVERY: Duration = Duration::from_millis(50);
/// Pause between two looks at the state when nothing was published.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How often the leader looks for what has expired, and a member looks whether it has recovered.
const EXPIRE_EVERY: Duration = Duration::from_secs(1);
const RECOVERED_EVERY: Duration = Duration::from_millis(20);

/// Id of the token that a new group starts with.
const FIRST_TOKEN: &str = "first";

/// What a group that was never used starts with.
#[derive(Clone, Debug)]
pub struct FirstStart {
    /// Driver of the cluster `default`.
    pub driver: DriverKind,
    /// Its policy.
    pub policy: Policy,
}

impl Controller {
    /// Publishes topologies and expires what is over, until `stop` turns true or its sender is dropped.
    #[must_use = "the handle is awaited at shutdown"]
    pub fn spawn_background(&self, stop: watch::Receiver<bool>) -> JoinHandle<()> {
        let controller = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stopped(stop) => {}
                () = controller.publish_all() => {}
                () = controller.expire_all() => {}
            }
        })
    }

    /// Waits for the group to be in use, and begins its use when this member leads it and it never was: the first
    /// admin token, which `announce` shows once, and the cluster `default`. Safe on every member at the same time, and
    /// again after a crash half-way: then the token is replaced and shown anew.
    ///
    /// # Errors
    /// [`ControlError`] other than a leader that is missing or slow, for which it waits.
    pub async fn bootstrap(
        &self,
        first: &FirstStart,
        mut announce: impl FnMut(&str) + Send,
    ) -> Result<(), ControlError> {
        let (mut applied, mut leading) = (self.applied(), self.leading());
        loop {
            // Linearized: an old leader must not take its own empty state for that of the group.
            let leads = leading.borrow_and_update().is_some();
            applied.borrow_and_update();
            if leads && self.linearize().await.is_ok() {
                if self.in_use() {
                    return Ok(());
                }
                match self.begin_use(first, &mut announce).await {
                    Ok(()) => return Ok(()),
                    Err(ControlError::Unavailable(why)) => warn!(why, "first start waits"),
                    Err(ControlError::Timeout) => warn!("first start timed out and is tried again"),
                    Err(error) => return Err(error),
                }
            } else if self.in_use() {
                return Ok(());
            }
            let news = async {
                tokio::select! {
                    _ = applied.changed() => {}
                    _ = leading.changed() => {}
                }
            };
            _ = timeout(EXPIRE_EVERY, news).await;
        }
    }

    /// A cluster was created once.
    fn in_use(&self) -> bool {
        self.read(|state| state.generation_high.0 > 0)
    }

    async fn begin_use(
        &self,
        first: &FirstStart,
        announce: &mut (impl FnMut(&str) + Send),
    ) -> Result<(), ControlError> {
        let caller = Caller::system("first-start");
        let id = TokenId::new(FIRST_TOKEN).expect("a valid name");
        if self.read(|state| state.tokens.contains_key(&id)) {
            self.submit(&caller, Op::RevokeToken { id: id.clone(), may_be_last: true }).await?;
        }
        let name = PrincipalName::new("admin").expect("a valid name");
        let (_, bearer) = self.create_token_as(&caller, id, name, Role::Admin, None).await?;
        announce(&bearer);
        let cluster = Op::CreateCluster {
            name: ClusterName::new("default").expect("a valid name"),
            id: self.fresh_cluster_id(),
            driver: first.driver,
            policy: first.policy.clone(),
        };
        match self.submit(&caller, cluster).await {
            Ok(_) | Err(ControlError::Rejected(Rejection::Exists { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Publishes every version that is applied, coalesced; only once the member has recovered.
    async fn publish_all(&self) {
        while !self.status().recovered {
            sleep(RECOVERED_EVERY).await;
        }
        info!("this member has recovered and publishes");
        let mut applied = self.applied();
        loop {
            applied.borrow_and_update();
            self.notice_tokens();
            let pause = if self.publish_changed().await { PUBLISH_EVERY } else { LOOK_EVERY };
            sleep(pause).await;
            if applied.changed().await.is_err() {
                return;
            }
        }
    }

    /// Publishes what is newer than what is published, and forgets what is gone; whether anything was. Rendering is
    /// kept away from apply and from the threads that answer.
    async fn publish_changed(&self) -> bool {
        let clusters = self.clusters();
        let publisher = self.publisher();
        let gone: Vec<ClusterName> = publisher
            .published()
            .into_iter()
            .filter(|name| clusters.binary_search_by(|cluster| cluster.name.cmp(name)).is_err())
            .collect();
        for name in &gone {
            publisher.forget(name);
        }
        let newer: Vec<_> = clusters
            .into_iter()
            .filter(|cluster| publisher.version(&cluster.name).is_none_or(|published| published < cluster.version()))
            .collect();
        if newer.is_empty() {
            return !gone.is_empty();
        }
        let publisher = publisher.clone();
        let rendering = off_thread(move || {
            for cluster in newer {
                publisher.publish(&cluster.name, cluster.topology());
            }
        });
        rendering.await.expect("rendering a topology does not fail");
        true
    }

    /// Submits `Expire` while this member leads and something is due.
    async fn expire_all(&self) {
        let (leading, caller) = (self.leading(), Caller::system("expiry"));
        loop {
            sleep(EXPIRE_EVERY).await;
            let (now, leads) = (self.now(), leading.borrow().is_some());
            if leads
                && self.read(|state| is_due(state, now))
                && let Err(error) = self.submit(&caller, Op::Expire).await
            {
                warn!(%error, "expiry was not committed and is tried again");
            }
        }
    }
}

/// Whether an `Expire` at this time would end anything.
fn is_due(state: &State, now: crate::domain::Instant) -> bool {
    let waits = |state: PlanState| matches!(state, PlanState::Proposed | PlanState::Approved);
    let plans = state.clusters.values().flat_map(|cluster| cluster.plans.values());
    plans.into_iter().any(|record| waits(record.state) && record.plan.expires_at <= now)
        || state.remembered.oldest().is_some_and(|(at, _)| at.plus_ms(IDEMPOTENCY_TTL_MS) <= now)
}

/// Returns when the signal is given, or can no longer be.
async fn stopped(mut stop: watch::Receiver<bool>) {
    _ = stop.wait_for(|stop| *stop).await;
}
