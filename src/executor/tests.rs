//! The executor over a group in memory and a driver that does what the test says. Time is real but short: what is
//! asserted about it are bounds that a slow machine keeps too.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::*;
use crate::controller::{Caller, Change, Cluster, Group as _, Local, Op, SteerVerb};
use crate::domain::{
    ActionId, ActionState, Limits, Plan, PlanId, PlanState, Principal, Role, RolloutState, Serving, ShardId, Slot,
};
use crate::driver::{Direction, DriverError, Flip, Job, Manual, Scripted};
use crate::state::fixture::{create, id, import, plan, principal};

const DEADLINE: Duration = Duration::from_secs(20);

/// What an operation asks, whatever term it is of.
fn asked(op: Op) -> Op {
    if let Op::InTerm { what, .. } = op { *what } else { op }
}

struct Stage {
    local: Local,
    controller: Controller,
    _stop: watch::Sender<bool>,
    _executor: JoinHandle<()>,
}

fn main_cluster() -> ClusterName {
    id("main")
}

fn admin() -> Caller {
    Caller { principal: principal("root", Role::Admin), reason: None, idempotency: None }
}

/// Ten actions of so many slots each, five from each of `a` and `b`, all to `c`.
fn moves(slots: usize) -> Vec<(&'static str, &'static str, String)> {
    let range = |first: usize| format!("{first}-{}", first + slots - 1);
    (0..10).map(|n| if n % 2 == 0 { ("a", "c", range(n * 100)) } else { ("b", "c", range(8192 + n * 100)) }).collect()
}

impl Stage {
    /// A cluster of the shards `a`, `b` and the empty `c`, and a started plan with these limits.
    async fn start(driver: Arc<dyn Driver>, slots: usize, limits: impl FnOnce(&mut Limits)) -> Self {
        let local = Local::new();
        let controller = Controller::new(local.clone());
        let Op::CreateCluster { name, id: identity, driver: kind, mut policy } = create("main", driver.kind()) else {
            unreachable!()
        };
        policy.limits.slots_per_second = None;
        limits(&mut policy.limits);
        let stage = Self::over(local, controller, [driver]);
        stage.submit(Op::CreateCluster { name, id: identity, driver: kind, policy }).await;
        stage.submit(import("main", &[("a", "0-8191"), ("b", "8192-16383"), ("c", "")])).await;
        let moves = moves(slots);
        let moves: Vec<_> = moves.iter().map(|(from, to, range)| (*from, *to, range.as_str())).collect();
        let now = stage.controller.now();
        let plan = Plan { created_at: now, expires_at: now.plus_ms(60_000), ..plan(&stage.cluster(), "p-1", &moves) };
        let changes: Vec<Change> = Vec::new();
        stage.submit(Op::Change { cluster: main_cluster(), changes, plan: Some(Arc::new(plan)) }).await;
        stage.submit(Op::Start { cluster: main_cluster(), plan: id("p-1") }).await;
        stage
    }

    fn over(local: Local, controller: Controller, by: [Arc<dyn Driver>; 1]) -> Self {
        let (stop, stopped) = watch::channel(false);
        let executor = spawn(controller.clone(), drivers(by), stopped);
        Self { local, controller, _stop: stop, _executor: executor }
    }

    async fn submit(&self, op: Op) {
        self.controller.submit(&admin(), op).await.unwrap();
    }

    async fn steer(&self, verb: SteerVerb, acks: &[&str]) {
        let acks = acks.iter().map(ToString::to_string).collect();
        self.submit(Op::Steer { cluster: main_cluster(), plan: id("p-1"), verb, acks }).await;
    }

    fn cluster(&self) -> Arc<Cluster> {
        self.controller.cluster(&main_cluster()).unwrap()
    }

    fn rollout(&self) -> crate::domain::Rollout {
        self.cluster().plans[&id::<PlanId>("p-1")].rollout.clone().unwrap()
    }

    fn owner(&self, slot: usize) -> ShardId {
        self.cluster().table.owner(Slot::at(slot)).unwrap().clone()
    }

    /// Waits until the cluster is as wanted.
    async fn until(&self, what: &str, wanted: impl Fn(&Cluster) -> bool) {
        let mut applied = self.controller.applied();
        let news = async {
            while !wanted(&self.cluster()) {
                applied.changed().await.unwrap();
            }
        };
        let came = timeout(DEADLINE, news).await.is_ok();
        assert!(came, "not {what}: {:?}", self.rollout());
    }

    async fn until_rollout(&self, wanted: RolloutState) {
        let plan: PlanId = id("p-1");
        let is = |cluster: &Cluster| cluster.plans[&plan].rollout.as_ref().is_some_and(|r| r.state == wanted);
        self.until(wanted.as_str(), is).await;
    }

    /// Actions of the commits of one kind, with the time of each commit.
    fn committed(&self, begin: bool) -> Vec<(u64, Vec<ActionId>)> {
        self.local
            .log()
            .into_iter()
            .filter_map(|command| match asked(command.op) {
                Op::Begin { actions, .. } if begin => Some((command.at.0, actions)),
                Op::Finish { actions, .. } if !begin => Some((command.at.0, actions)),
                _ => None,
            })
            .collect()
    }
}

/// A driver of kind `manual` that the executor drives itself.
fn scripted(
    script: impl Fn(&Job, usize) -> BoxFuture<'static, Result<(), DriverError>> + Send + Sync + 'static,
) -> Scripted {
    Scripted::new(DriverKind::Manual, script)
}

fn at_once(result: Result<(), DriverError>) -> BoxFuture<'static, Result<(), DriverError>> {
    Box::pin(std::future::ready(result))
}

/// A driver that waits for a permit per call.
fn gated() -> (Scripted, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let driver = scripted({
        let gate = Arc::clone(&gate);
        move |_, _| {
            let gate = Arc::clone(&gate);
            Box::pin(async move {
                gate.acquire().await.unwrap().forget();
                Ok(())
            })
        }
    });
    (driver, gate)
}

#[tokio::test]
async fn a_flip_reaches_its_target_in_batches() {
    let stage = Stage::start(Arc::new(Flip), 16, |_| {}).await;
    stage.until_rollout(RolloutState::Succeeded).await;
    let cluster = stage.cluster();
    assert_eq!(cluster.table.count_of(&id("c")), 160);
    assert_eq!(cluster.plans[&id::<PlanId>("p-1")].state, PlanState::Succeeded);
    assert_eq!((cluster.active.clone(), cluster.moving.len()), (None, 0));
    let begun = stage.committed(true);
    // 160 slots, at most 64 of them, four whole actions, in an entry.
    assert_eq!(begun.iter().map(|(_, actions)| actions.len()).collect::<Vec<_>>(), [4, 4, 2]);
    assert_eq!(stage.committed(false), []);
}

#[tokio::test]
async fn the_pace_is_kept_at_every_moment() {
    let (slots, rate) = (4, 80);
    let stage = Stage::start(Arc::new(Flip), slots, |limits| limits.slots_per_second = Some(rate)).await;
    let started = stage.rollout().started_at.0;
    stage.until_rollout(RolloutState::Succeeded).await;
    let mut total = 0;
    for (at, actions) in stage.committed(true) {
        total += actions.len() * slots;
        let elapsed_ms = at - started + 5; // two clocks, rounded to milliseconds
        assert!(total as u64 * 1000 <= u64::from(rate) * elapsed_ms, "{total} slots after {elapsed_ms} ms");
    }
    assert_eq!(total, 40);
    let eta = stage.rollout().ended_at.unwrap().0 - started;
    assert!(eta >= 40 * 1000 / u64::from(rate) - 5, "{eta} ms");
}

#[tokio::test]
async fn a_flip_is_listed_for_the_overlap() {
    let overlap_ms = 120;
    let stage = Stage::start(Arc::new(Flip), 8, |limits| limits.overlap_ms = overlap_ms).await;
    stage.until("moving", |cluster| !cluster.moving.is_empty()).await;
    let cluster = stage.cluster();
    assert!(cluster.moving.iter().all(|moving| moving.serving == Serving::To));
    let moving = &cluster.moving[0];
    assert_eq!(cluster.table.owner(moving.range.first()), Some(&moving.to), "the target serves at once");
    stage.until_rollout(RolloutState::Succeeded).await;
    assert_eq!(stage.cluster().moving, []);
    let finished = stage.committed(false);
    for (begun_at, actions) in stage.committed(true) {
        for action in actions {
            let (at, _) = finished.iter().find(|(_, ids)| ids.contains(&action)).unwrap();
            assert!(at - begun_at + 2 >= overlap_ms, "{action}: {} ms", at - begun_at);
        }
    }
}

#[tokio::test]
async fn limits_hold_per_source_and_target() {
    let (driver, gate) = gated();
    let driver = Arc::new(driver);
    let stage = Stage::start(Arc::clone(&driver) as _, 4, |limits| {
        (limits.moves_per_source, limits.moves_per_target) = (2, 3);
    })
    .await;
    for left in (0..10).rev() {
        // Two from a and one from b (or the other way round) until fewer are left.
        let most = (left + 1).min(3);
        let flying = |cluster: &Cluster| cluster.active_plan().unwrap().rollout.as_ref().unwrap().in_flight().count();
        stage.until("full", |cluster| flying(cluster) == most).await;
        gate.add_permits(1);
        stage.until("one less", |cluster| cluster.active.is_none() || done(cluster) == 10 - left).await;
    }
    stage.until_rollout(RolloutState::Succeeded).await;
    assert_eq!(driver.asked().len(), 10, "each action once");
}

/// Returns when the executor has done what it can without another commit, permit or tick of the clock: there is one
/// thread, so each turn given up lets every task that is awake run.
async fn settled() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

fn done(cluster: &Cluster) -> usize {
    let rollout = cluster.plans[&id::<PlanId>("p-1")].rollout.as_ref().unwrap();
    rollout.in_state(&[ActionState::Done]).count()
}

#[tokio::test]
async fn a_new_leader_goes_on_from_the_record() {
    let (driver, gate) = gated();
    let driver = Arc::new(driver);
    let stage = Stage::start(Arc::clone(&driver) as _, 4, |_| {}).await;
    gate.add_permits(3);
    stage.until("three done", |cluster| done(cluster) == 3).await;
    let flying: Vec<_> = stage.rollout().in_flight().collect();
    assert!(!flying.is_empty());

    stage.local.set_leading(None);
    let (log, asked) = (stage.local.log().len(), driver.asked().len());
    gate.add_permits(100);
    settled().await;
    assert_eq!(
        (stage.local.log().len(), driver.asked().len()),
        (log, asked),
        "a member that does not lead does nothing"
    );

    stage.local.set_leading(Some(2));
    stage.until_rollout(RolloutState::Succeeded).await;
    let again = driver.asked();
    for id in flying {
        let times = again.iter().filter(|call| **call == (id, Direction::Forward)).count();
        assert_eq!(times, 2, "{id} was in flight and is observed again");
    }
    assert_eq!(stage.cluster().table.count_of(&id("c")), 40);
}

#[tokio::test]
async fn a_driver_that_needs_a_person_blocks_the_rollout_and_resume_goes_on() {
    let driver = Arc::new(scripted(|job, earlier| {
        at_once(match (job.action.id, earlier) {
            (ActionId(3), 0) => Err(DriverError::Pause("node-a: disk full".to_owned())),
            (ActionId(5), 0) => Err(DriverError::Retry("node-a: busy".to_owned())),
            _ => Ok(()),
        })
    }));
    let stage = Stage::start(Arc::clone(&driver) as _, 4, |limits| limits.moves_per_source = 1).await;
    stage.until_rollout(RolloutState::Blocked).await;
    let rollout = stage.rollout();
    assert_eq!(rollout.cause.as_deref(), Some("action a-3: node-a: disk full"));
    assert_eq!(rollout.state_of(ActionId(3)), Some(ActionState::Failed));
    assert_eq!(stage.owner(200).as_str(), "a", "its slots stay");
    stage.until("at rest", |cluster| cluster.moving.is_empty()).await;
    stage.steer(SteerVerb::Resume, &[]).await;
    stage.until_rollout(RolloutState::Succeeded).await;
    let fifth = driver.asked().iter().filter(|(id, _)| *id == ActionId(5)).count();
    assert_eq!(fifth, 2, "what may work later is asked again");
}

#[tokio::test]
async fn a_pause_lets_what_is_in_flight_finish_and_begins_nothing() {
    let (driver, gate) = gated();
    let stage = Stage::start(Arc::new(driver), 4, |_| {}).await;
    stage.until("two begun", |cluster| cluster.moving.len() == 2).await;
    stage.steer(SteerVerb::Pause, &[]).await;
    gate.add_permits(100);
    stage.until("at rest", |cluster| cluster.moving.is_empty()).await;
    settled().await;
    assert_eq!((stage.committed(true).len(), done(&stage.cluster())), (1, 2));
    assert_eq!(stage.rollout().state, RolloutState::Paused);
    stage.steer(SteerVerb::Resume, &[]).await;
    stage.until_rollout(RolloutState::Succeeded).await;
}

#[tokio::test]
async fn an_abort_keeps_what_was_moved_and_leaves_nothing_open() {
    let (driver, gate) = gated();
    let stage = Stage::start(Arc::new(driver), 4, |_| {}).await;
    stage.until("two begun", |cluster| cluster.moving.len() == 2).await;
    stage.steer(SteerVerb::Abort, &[]).await;
    assert_eq!(stage.rollout().state, RolloutState::Aborting);
    gate.add_permits(100);
    stage.until_rollout(RolloutState::Aborted).await;
    let cluster = stage.cluster();
    assert_eq!((cluster.table.count_of(&id("c")), cluster.moving.len(), cluster.active.clone()), (8, 0, None));
}

#[tokio::test]
async fn a_driver_can_end_the_rollout() {
    let abort = || Err(DriverError::Abort("node-c is another cluster's".to_owned()));
    let driver = scripted(move |job, _| at_once(if job.action.id == ActionId(1) { abort() } else { Ok(()) }));
    let stage = Stage::start(Arc::new(driver), 4, |_| {}).await;
    stage.until_rollout(RolloutState::Aborted).await;
    assert_eq!(stage.rollout().cause.as_deref(), Some("action a-1: node-c is another cluster's"));
    assert_eq!(stage.cluster().moving, []);
}

#[tokio::test]
async fn a_rollback_restores_the_table_in_reverse() {
    let (driver, gate) = gated();
    let driver = Arc::new(driver);
    let stage = Stage::start(Arc::clone(&driver) as _, 4, |_| {}).await;
    let before = {
        let mut table = stage.cluster().table.clone();
        for (from, _, range) in moves(4) {
            table.assign(id(&range), Some(&id(from))).unwrap();
        }
        table
    };
    gate.add_permits(5);
    stage.until("five done", |cluster| done(cluster) == 5).await;
    stage.steer(SteerVerb::RollBack, &[]).await;
    gate.add_permits(100);
    stage.until_rollout(RolloutState::RolledBack).await;
    let cluster = stage.cluster();
    assert_eq!((cluster.table == before, cluster.moving.len()), (true, 0));
    let back: Vec<_> =
        driver.asked().into_iter().filter(|(_, way)| *way == Direction::Back).map(|(id, _)| id.0).collect();
    let first = back[0];
    assert!(first >= 5, "the last ones go back first: {back:?}");
    assert_eq!(*back.iter().min().unwrap(), 1);
}

#[tokio::test]
async fn a_flip_rolls_back_with_the_acknowledgement() {
    let stage = Stage::start(Arc::new(Flip), 8, |limits| limits.slots_per_second = Some(80)).await;
    stage.until("two done", |cluster| done(cluster) >= 2).await;
    stage.steer(SteerVerb::RollBack, &["stale-cache"]).await;
    stage.until_rollout(RolloutState::RolledBack).await;
    assert_eq!(stage.cluster().table.count_of(&id("c")), 0);
}

#[tokio::test]
async fn what_cannot_be_taken_back_is_tried_again_until_it_is() {
    let driver = Arc::new(scripted(|job, earlier| {
        let hard = job.direction == Direction::Back && job.action.id == ActionId(1) && earlier == 0;
        at_once(if hard { Err(DriverError::Pause("node-a is away".to_owned())) } else { Ok(()) })
    }));
    let stage = Stage::start(Arc::clone(&driver) as _, 4, |limits| limits.slots_per_second = Some(40)).await;
    stage.until("two done", |cluster| done(cluster) >= 2).await;
    stage.steer(SteerVerb::RollBack, &[]).await;
    let before = Instant::now();
    stage.until_rollout(RolloutState::RolledBack).await;
    assert!(before.elapsed() >= Duration::from_millis(900), "after a pause, not at once");
}

#[tokio::test]
async fn an_outside_mover_acts_and_the_executor_only_ends_it() {
    let stage = Stage::start(Arc::new(Manual), 4, |limits| limits.moves_per_source = 5).await;
    let mover = Caller { principal: principal("mover", Role::Mover), ..admin() };
    let (cluster, plan) = (main_cluster(), id::<PlanId>("p-1"));
    for batch in [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]] {
        let actions: Vec<_> = batch.into_iter().map(ActionId).collect();
        let begin = Op::Begin { cluster: cluster.clone(), plan: plan.clone(), actions: actions.clone() };
        stage.controller.submit(&mover, begin).await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(stage.rollout().state, RolloutState::Running);
        let finish = Op::Finish { cluster: cluster.clone(), plan: plan.clone(), actions };
        stage.controller.submit(&mover, finish).await.unwrap();
    }
    stage.until_rollout(RolloutState::Succeeded).await;
    let by = |name: &str| stage.local.log().iter().filter(|command| command.by.name.as_str() == name).count();
    assert_eq!((by("executor"), by("mover")), (2, 10), "the fence and the end");
}

#[tokio::test]
async fn nodes_that_disagree_at_the_end_block_the_rollout() {
    let driver = Arc::new(scripted(|_, _| at_once(Ok(()))));
    driver.set_verdict(Err(DriverError::Pause("node-b still claims slot 9092".to_owned())));
    let stage = Stage::start(Arc::clone(&driver) as _, 4, |_| {}).await;
    stage.until_rollout(RolloutState::Blocked).await;
    let cause = stage.rollout().cause.unwrap();
    let advice = "cluster check; rollout resume once it is clean";
    assert_eq!(cause, format!("every action is done, but: node-b still claims slot 9092; do: {advice}"));
    driver.set_verdict(Ok(()));
    stage.steer(SteerVerb::Resume, &[]).await;
    stage.until_rollout(RolloutState::Succeeded).await;
}

#[tokio::test]
async fn a_cluster_whose_driver_is_not_here_is_blocked() {
    let stage = Stage::start(Arc::new(Scripted::new(DriverKind::Manual, |_, _| at_once(Ok(())))), 4, |_| {}).await;
    stage.until_rollout(RolloutState::Succeeded).await;
    let local = Local::new();
    let controller = Controller::new(local.clone());
    for command in stage.local.log().into_iter().filter(|command| command.by != Principal::system("executor")) {
        local.submit(command).await.unwrap();
    }
    let other = Stage::over(local, controller, [Arc::new(Flip)]);
    other.until_rollout(RolloutState::Blocked).await;
    assert_eq!(other.rollout().cause.as_deref(), Some("this controller has no driver manual"));
}

#[tokio::test]
async fn what_a_deposed_executor_still_sends_is_refused() {
    let (driver, gate) = gated();
    let driver = Arc::new(driver);
    let stage = Stage::start(Arc::clone(&driver) as _, 4, |_| {}).await;
    stage.until("something is in flight", |_| stage.rollout().in_flight().next().is_some()).await;
    let late = stage.rollout().in_flight().next().unwrap();
    stage.local.set_leading(Some(7));
    stage.until("the new leader has fenced", |_| stage.local.log().iter().any(|c| c.op == Op::Lead { term: 7 })).await;
    let finish = Op::Finish { cluster: main_cluster(), plan: id("p-1"), actions: vec![late] };
    let late = Op::InTerm { term: 1, what: Box::new(finish) };
    let refused = stage.controller.submit(&Caller::system("executor"), late).await.unwrap_err();
    assert!(refused.to_string().contains("term 1 is deposed"), "{refused}");
    gate.add_permits(100);
    stage.until_rollout(RolloutState::Succeeded).await;
    let terms = stage
        .local
        .log()
        .into_iter()
        .filter_map(|c| if let Op::InTerm { term, .. } = c.op { Some(term) } else { None });
    assert!(terms.clone().any(|term| term == 1) && terms.clone().any(|term| term == 7));
}

mod open;
