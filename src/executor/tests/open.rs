//! Actions that a driver gives up, actions that it must leave open, and the fence before the first of a term.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::domain::Topology;
use crate::driver::Lease;

/// A scripted driver whose fence takes so many tries.
struct Fencing {
    inner: Scripted,
    refusals: usize,
    fenced: Mutex<Vec<u64>>,
    stepped_down: Mutex<usize>,
}

impl Fencing {
    fn new(refusals: usize, inner: Scripted) -> Arc<Self> {
        Arc::new(Self { inner, refusals, fenced: Mutex::default(), stepped_down: Mutex::default() })
    }
}

impl Driver for Fencing {
    fn kind(&self) -> DriverKind {
        self.inner.kind()
    }

    fn fence<'a>(
        &'a self,
        _cluster: &'a ClusterName,
        _topology: &'a Topology,
        lease: &'a Lease,
    ) -> BoxFuture<'a, Result<(), DriverError>> {
        let mut fenced = self.fenced.lock().unwrap();
        assert!(self.inner.asked().is_empty() || lease.term() > 1, "the fence stands before the first action");
        fenced.push(lease.term());
        let refused = fenced.len() <= self.refusals;
        at_once(if refused { Err(DriverError::Retry("node-a is away".to_owned())) } else { Ok(()) })
    }

    fn step_down(&self) {
        *self.stepped_down.lock().unwrap() += 1;
    }

    fn execute<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), DriverError>> {
        assert!(job.lease.holds());
        self.inner.execute(job)
    }

    fn verify<'a>(&'a self, topology: &'a Topology) -> BoxFuture<'a, Result<(), DriverError>> {
        self.inner.verify(topology)
    }
}

#[tokio::test]
async fn an_action_that_is_given_up_does_not_stop_the_rest() {
    let halted = || Err(DriverError::Halt("slot 200: key \"x\" differs".to_owned()));
    let driver = scripted(move |job, earlier| {
        at_once(if (job.action.id, earlier) == (ActionId(3), 0) { halted() } else { Ok(()) })
    });
    let stage = Stage::start(Arc::new(driver), 4, |_| {}).await;
    stage.until_rollout(RolloutState::Blocked).await;
    let rollout = stage.rollout();
    assert_eq!(rollout.in_state(&[ActionState::Done]).count(), 9);
    assert_eq!(rollout.state_of(ActionId(3)), Some(ActionState::Failed));
    let cause = rollout.cause.unwrap();
    assert!(cause.contains("a-3 (a -> c): slot 200: key \"x\" differs"), "{cause}");
    assert_eq!(stage.owner(200).as_str(), "a", "its slots are with their source");
    stage.steer(SteerVerb::Resume, &[]).await;
    stage.until_rollout(RolloutState::Succeeded).await;
}

#[tokio::test]
async fn what_stays_open_blocks_the_rollout_and_is_asked_again_until_it_is_closed() {
    let driver = Arc::new(scripted(|job, earlier| {
        let open = || Err(DriverError::Open("slot 0 is open: node-c does not answer".to_owned()));
        at_once(if job.action.id == ActionId(1) && earlier < 2 { open() } else { Ok(()) })
    }));
    let stage = Stage::start(Arc::clone(&driver) as _, 4, |limits| limits.moves_per_source = 1).await;
    stage.until_rollout(RolloutState::Blocked).await;
    let cause = stage.rollout().cause.unwrap();
    assert_eq!(cause, "action a-1: slot 0 is open: node-c does not answer");
    let in_flight =
        |cluster: &Cluster| cluster.plans[&id::<PlanId>("p-1")].rollout.as_ref().unwrap().in_flight().count();
    assert!(in_flight(&stage.cluster()) >= 1, "it is not taken for ended");
    assert_eq!(stage.rollout().state_of(ActionId(1)), Some(ActionState::Begun));
    stage.until("closed", |cluster| in_flight(cluster) == 0).await;
    assert_eq!(stage.rollout().state_of(ActionId(1)), Some(ActionState::Done));
    assert_eq!(stage.rollout().state, RolloutState::Blocked, "only a person lets it go on");
    assert_eq!(driver.asked().iter().filter(|(id, _)| *id == ActionId(1)).count(), 3);
    stage.steer(SteerVerb::Resume, &[]).await;
    stage.until_rollout(RolloutState::Succeeded).await;
}

#[tokio::test]
async fn what_stays_open_is_taken_back_once_the_rollout_ends() {
    let (seen, back) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let driver = scripted({
        let (seen, gone) = (Arc::clone(&seen), Arc::clone(&back));
        move |job, _| {
            seen.lock().unwrap().push((job.action.id, job.ending));
            at_once(match (job.action.id, job.ending) {
                (ActionId(1), false) => Err(DriverError::Open("slot 0 is open".to_owned())),
                (ActionId(1), true) if !gone.load(Ordering::Relaxed) => {
                    Err(DriverError::Open("slot 0 cannot be taken back".to_owned()))
                }
                (ActionId(1), true) => Err(DriverError::Halt("slot 0 is with its source again".to_owned())),
                _ => Ok(()),
            })
        }
    });
    let stage = Stage::start(Arc::new(driver), 4, |_| {}).await;
    stage.until_rollout(RolloutState::Blocked).await;
    stage.steer(SteerVerb::Abort, &[]).await;
    let cause = "action a-1: slot 0 cannot be taken back";
    let told = |cluster: &Cluster| {
        let rollout = cluster.plans[&id::<PlanId>("p-1")].rollout.as_ref().unwrap();
        rollout.state == RolloutState::Aborting && rollout.cause.as_deref() == Some(cause)
    };
    stage.until("told why it does not end", told).await;
    back.store(true, Ordering::Relaxed);
    stage.until_rollout(RolloutState::Aborted).await;
    assert_eq!(stage.rollout().state_of(ActionId(1)), Some(ActionState::Failed));
    assert_eq!(stage.owner(0).as_str(), "a");
    assert!(stage.cluster().moving.is_empty());
    let seen = seen.lock().unwrap();
    assert!(seen.contains(&(ActionId(1), false)) && seen.contains(&(ActionId(1), true)), "{seen:?}");
}

#[tokio::test]
async fn nothing_is_sent_in_a_term_before_its_fence_stands() {
    let driver = Fencing::new(2, scripted(|_, _| at_once(Ok(()))));
    let stage = Stage::start(Arc::clone(&driver) as _, 4, |_| {}).await;
    stage.until_rollout(RolloutState::Succeeded).await;
    assert_eq!(*driver.fenced.lock().unwrap(), [1, 1, 1], "tried until it stood, then not again");
}

#[tokio::test]
async fn a_fence_that_cannot_be_set_blocks_the_rollout_with_its_reason() {
    let driver = Fencing::new(usize::MAX, scripted(|_, _| at_once(Ok(()))));
    let stage = Stage::start(Arc::clone(&driver) as _, 4, |_| {}).await;
    stage.until_rollout(RolloutState::Blocked).await;
    let cause = stage.rollout().cause.unwrap();
    assert_eq!(cause, "executors of earlier terms cannot be fenced off: node-a is away");
    assert_eq!(driver.inner.asked(), []);
}

#[tokio::test]
async fn each_term_fences_for_itself_and_the_driver_hears_of_its_end() {
    let (inner, gate) = gated();
    let driver = Fencing::new(0, inner);
    let stage = Stage::start(Arc::clone(&driver) as _, 4, |_| {}).await;
    stage.until("something is in flight", |_| stage.rollout().in_flight().next().is_some()).await;
    stage.local.set_leading(Some(5));
    gate.add_permits(100);
    stage.until_rollout(RolloutState::Succeeded).await;
    assert_eq!(*driver.fenced.lock().unwrap(), [1, 5]);
    assert!(*driver.stepped_down.lock().unwrap() >= 1);
}

/// A driver that stands in for one whose nodes can be asked.
fn asking(
    script: impl Fn(&Job, usize) -> BoxFuture<'static, Result<(), DriverError>> + Send + Sync + 'static,
) -> Scripted {
    Scripted::new(DriverKind::Redis, script)
}

#[tokio::test]
async fn an_abort_does_not_end_while_a_slot_of_the_plan_is_open() {
    let given_up = || Err(DriverError::Halt("slot 0: node-c is away".to_owned()));
    let driver = asking(move |job, _| at_once(if job.action.id == ActionId(1) { given_up() } else { Ok(()) }));
    let open = "node-c has slots 0-3 of the plan open; do: redis-cli CLUSTER SETSLOT 0 STABLE";
    driver.set_closed(Err(DriverError::Retry(open.to_owned())));
    for verb in [SteerVerb::Abort, SteerVerb::RollBack] {
        let stage = Stage::start(Arc::new(driver.clone()), 4, |_| {}).await;
        stage.until_rollout(RolloutState::Blocked).await;
        driver.set_closed(Err(DriverError::Retry(open.to_owned())));
        stage.steer(verb, &[]).await;
        let told = |cluster: &Cluster| {
            let cause = cluster.plans[&id::<PlanId>("p-1")].rollout.as_ref().unwrap().cause.clone();
            cause.is_some_and(|cause| cause.contains("nothing is in flight, but: node-c has slots 0-3"))
        };
        stage.until("told why it does not end", told).await;
        let rollout = stage.rollout();
        assert!(!rollout.state.is_final() && rollout.in_flight().next().is_none(), "{rollout:?}");
        assert!(rollout.cause.unwrap().ends_with("SETSLOT 0 STABLE; the rollout ends by itself then"));
        driver.set_closed(Ok(()));
        let end = if verb == SteerVerb::Abort { RolloutState::Aborted } else { RolloutState::RolledBack };
        stage.until_rollout(end).await;
        assert!(stage.cluster().active_plan().is_none());
    }
}

#[tokio::test]
async fn what_an_action_waits_for_is_told_while_it_runs_and_forgotten_when_it_goes_on() {
    let gate = Arc::new(Semaphore::new(0));
    let driver = asking({
        let gate = Arc::clone(&gate);
        move |job, _| {
            let (gate, waits, id) = (Arc::clone(&gate), job.waits.clone(), job.action.id);
            Box::pin(async move {
                if id == ActionId(1) {
                    waits.say(id, Some("slot 0: node-c does not answer; do: start it".to_owned()));
                    gate.acquire().await.unwrap().forget();
                    waits.say(id, None);
                }
                gate.acquire().await.unwrap().forget();
                Ok(())
            })
        }
    });
    let stage = Stage::start(Arc::new(driver), 4, |_| {}).await;
    let cause = |cluster: &Cluster| cluster.plans[&id::<PlanId>("p-1")].rollout.as_ref().unwrap().cause.clone();
    let waits = "action a-1: slot 0: node-c does not answer; do: start it";
    stage.until("told", |cluster| cause(cluster).as_deref() == Some(waits)).await;
    assert_eq!(stage.rollout().state, RolloutState::Running, "it goes on");
    gate.add_permits(1);
    stage.until("forgotten", |cluster| cause(cluster).is_none()).await;
    assert_eq!(stage.rollout().state, RolloutState::Running);
    gate.add_permits(100);
    stage.until_rollout(RolloutState::Succeeded).await;
}
