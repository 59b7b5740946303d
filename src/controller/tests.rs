//! The facade over a group in memory, with a clock that the test sets.

mod background;
mod change;
mod placement;
mod review;
mod tokens;

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::domain::{DriverKind, Goal, Host, Node, NodeState, Policy, Role, Tolerance, Weight};
use crate::state::fixture::{id, principal};

/// 2026-01-01, as in the fixtures of `state`.
const START_MS: u64 = 1_767_225_600_000;

struct Stage {
    local: Local,
    controller: Controller,
    clock_ms: Arc<AtomicU64>,
}

impl Stage {
    fn empty() -> Self {
        let local = Local::new();
        let clock_ms = Arc::new(AtomicU64::new(START_MS));
        let clock = Arc::clone(&clock_ms);
        let controller = Controller::with_clock(local.clone(), move || Instant(clock.load(Ordering::Relaxed)));
        Self { local, controller, clock_ms }
    }

    /// The cluster `main` with shards of one node each.
    async fn of(driver: DriverKind, shards: &[(&str, &str)]) -> Self {
        let stage = Self::empty();
        let policy = Policy { approvals: 1, author_may_approve: true, ..Policy::default_for(driver) };
        let create = Op::CreateCluster { name: main(), id: stage.controller.fresh_cluster_id(), driver, policy };
        stage.submit(create).await.unwrap();
        stage.submit(crate::state::fixture::import("main", shards)).await.unwrap();
        stage
    }

    async fn submit(&self, op: Op) -> Result<Receipt, ControlError> {
        self.controller.submit(&admin(), op).await
    }

    async fn change(&self, changes: Vec<Change>, propose: Propose) -> Result<Changed, ControlError> {
        self.controller.change(&admin(), &main(), changes, Some(propose), false).await
    }

    fn cluster(&self) -> Arc<Cluster> {
        self.controller.cluster(&main()).unwrap()
    }

    fn pass_ms(&self, ms: u64) {
        self.clock_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Carries a flip out whole, without the executor.
    async fn carry_out(&self, record: &PlanRecord) {
        let (cluster, plan) = (main(), record.plan.id.clone());
        let acks = record.plan.checks.iter().filter(|c| c.needs_ack).map(|c| c.name.clone()).collect();
        let approve = Op::Approve { cluster: cluster.clone(), plan: plan.clone(), digest: record.digest, acks };
        self.submit(approve).await.unwrap();
        self.submit(Op::Start { cluster: cluster.clone(), plan: plan.clone() }).await.unwrap();
        for action in &record.plan.body.actions {
            let actions = vec![action.id];
            self.submit(Op::Begin { cluster: cluster.clone(), plan: plan.clone(), actions }).await.unwrap();
        }
        let complete = Op::Complete { cluster, plan };
        self.controller.submit(&Caller::system("executor"), complete).await.unwrap();
    }
}

fn main() -> ClusterName {
    id("main")
}

fn admin() -> Caller {
    Caller { principal: principal("root", Role::Admin), reason: None, idempotency: None }
}

fn node(name: &str, port: u16) -> Node {
    let host = Host::new("10.0.0.1").unwrap();
    Node { id: id(name), host, port, zone: None, state: NodeState::Active }
}

fn add(shard: &str, port: u16) -> Change {
    let place = Place::NewShard { shard: id(shard), weight: Weight::ONE };
    Change::AddNode { node: node(&format!("node-{shard}"), port), place }
}

fn balance() -> Propose {
    let goal = Goal::Balance { tolerance: Tolerance(0) };
    Propose {
        goal,
        reason: "capacity".to_owned(),
        limits: None,
        choice: Choice::default(),
        supersedes: None,
        reverts: None,
        placement: None,
        repair: false,
    }
}

/// Three shards as redis-cli makes them.
const THIRDS: [(&str, &str); 3] = [("a", "0-5460"), ("b", "5461-10922"), ("c", "10923-16383")];
