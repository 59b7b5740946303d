//! The loop that carries out one cluster's rollout during one term of leadership.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use super::Drivers;
use super::next::{ATTEMPTS_MAX, Hand, Step, next};
use crate::controller::{Caller, Cluster, ControlError, Controller, Op, PlanRecord, SteerVerb};
use crate::domain::{ActionId, ActionState, ClusterName, PlanId, RolloutState, SlotSet, advised, split_advice};
use crate::driver::{Direction, Driver, DriverError, Job, Waits};

/// Pause after a commit that failed or was refused; doubled up to the most for each further one.
const REFUSED_MS: u64 = 100;
const REFUSED_MS_MAX: u64 = 5_000;
/// Refusals in a row after which the rollout is blocked: the executor does not understand the state.
const REFUSALS_MAX: u32 = 8;
/// Failed fences after which the rollout is blocked, so that a person looks; it is tried on.
const FENCE_TRIES_MAX: u32 = 8;

/// What to wait for before the next look.
enum Then {
    /// Nothing.
    Now,
    /// A change of the cluster, or so many milliseconds.
    News(Option<u64>),
    /// So many milliseconds, whatever happens.
    Rest(u64),
}

/// Carries out the active rollout of one cluster.
pub struct Carrier {
    controller: Controller,
    drivers: Arc<Drivers>,
    cluster: ClusterName,
    term: u64,
    leading: watch::Receiver<Option<u64>>,
    caller: Caller,
    started: Instant,
    refusals: u32,
    verifications: u32,
    /// What the driver says that its actions wait for.
    waits: Waits,
    /// Whether executors of earlier terms are fenced off, as far as the driver can.
    fenced: bool,
    fence_tries: u32,
}

type Answers = FuturesUnordered<BoxFuture<'static, (ActionId, Direction, Result<(), DriverError>)>>;

impl Carrier {
    pub fn new(controller: Controller, drivers: Arc<Drivers>, cluster: ClusterName, term: u64) -> Self {
        let leading = controller.leading();
        let caller = Caller::system("executor");
        Self {
            controller,
            drivers,
            cluster,
            term,
            leading,
            caller,
            started: Instant::now(),
            refusals: 0,
            verifications: 0,
            waits: Waits::default(),
            fenced: false,
            fence_tries: 0,
        }
    }

    /// Returns when the cluster has no active rollout any more, or this member does not lead in the term.
    pub async fn carry_out(mut self) {
        let mut applied = self.controller.applied();
        let mut hand = Hand::new(0);
        let mut answers = Answers::new();
        let mut carried: Option<PlanId> = None;
        loop {
            applied.borrow_and_update();
            let Ok(cluster) = self.controller.cluster(&self.cluster) else { return };
            let Some(record) = cluster.active_plan() else { return };
            if carried.as_ref() != Some(&record.plan.id) {
                info!(cluster = %self.cluster, plan = %record.plan.id, term = self.term, "carrying out");
                carried = Some(record.plan.id.clone());
                (hand, answers) = (Hand::new(self.now_ms()), Answers::new());
                self.waits = Waits::default();
            }
            let Some(driver) = self.drivers.get(&cluster.driver).cloned() else {
                return self.no_driver(&cluster, record).await;
            };
            if driver.is_ours() && !self.fenced && sends(record) {
                match driver.fence(&self.cluster, &cluster.topology(), &self.controller.lease(self.term)).await {
                    Ok(()) => self.fenced = true,
                    Err(error) => {
                        self.not_fenced(&cluster, record, &error).await;
                        if !self.leads() {
                            return;
                        }
                        continue;
                    }
                }
            }
            if let Some(rollout) = &record.rollout {
                hand.observe(rollout, self.now_ms(), self.controller.now());
                if matches!(rollout.state, RolloutState::Aborting | RolloutState::RollingBack) {
                    self.waits.end();
                }
            }
            hand.waits = self.waits.first();
            let (now_ms, now) = (self.now_ms(), self.controller.now());
            let step = next(record, cluster.driver, driver.is_ours(), &mut hand, now_ms, now);
            if !matches!(step, Step::Wait(_)) {
                debug!(cluster = %self.cluster, ?step, "next");
            }
            let then = match step {
                Step::Execute(ids) => {
                    self.execute(&ids, &cluster, record, &driver, &mut hand, &answers);
                    Then::Now
                }
                Step::Wait(wait_ms) => Then::News(wait_ms),
                step => self.commit(step, &cluster, record, driver.as_ref(), &mut hand).await,
            };
            if !self.leads() {
                return;
            }
            let waits = self.waits.clone();
            tokio::select! {
                // An answer that is there already is taken first, whatever else there is to do.
                biased;
                Some(answer) = answers.next() => self.take(answer, &mut hand),
                () = waits.changed() => {}
                () = self.rest(then, &cluster, &mut applied) => {}
            }
        }
    }

    /// Waits as told; what happens to other clusters is no news.
    async fn rest(&self, then: Then, seen: &Arc<Cluster>, applied: &mut watch::Receiver<u64>) {
        let wait_ms = match then {
            Then::Now => return,
            Then::Rest(wait_ms) => return sleep(Duration::from_millis(wait_ms)).await,
            Then::News(wait_ms) => wait_ms,
        };
        let news = async {
            while applied.changed().await.is_ok() {
                if self.controller.cluster(&self.cluster).map_or(true, |now| !Arc::ptr_eq(&now, seen)) {
                    break;
                }
            }
        };
        match wait_ms {
            None => news.await,
            Some(wait_ms) => _ = timeout(Duration::from_millis(wait_ms), news).await,
        }
    }

    fn execute(
        &self,
        ids: &[ActionId],
        cluster: &Cluster,
        record: &PlanRecord,
        driver: &Arc<dyn Driver>,
        hand: &mut Hand,
        answers: &Answers,
    ) {
        let topology = Arc::new(cluster.topology());
        let acks = Arc::new(record.acks.clone());
        let lease = self.controller.lease(self.term);
        let state = record.rollout.as_ref().map(|rollout| rollout.state);
        let ending = matches!(state, Some(RolloutState::Aborting | RolloutState::RollingBack));
        for id in ids {
            let direction = if is_back(record, *id) { Direction::Back } else { Direction::Forward };
            let job = Job {
                cluster: self.cluster.clone(),
                plan: record.plan.id.clone(),
                action: record.plan.body.action(*id).expect("an action of the plan").clone(),
                direction,
                topology: Arc::clone(&topology),
                came_from: record.rollout.as_ref().and_then(|rollout| rollout.actions.get(id)?.came_from.clone()),
                limits: record.plan.limits.clone(),
                acks: Arc::clone(&acks),
                ending,
                lease: lease.clone(),
                waits: self.waits.clone(),
            };
            hand.executing.insert(*id);
            let (driver, id) = (Arc::clone(driver), *id);
            answers.push(Box::pin(async move { (id, direction, driver.execute(&job).await) }));
        }
    }

    /// Keeps what the driver answered; the next step tells what follows.
    fn take(&self, answer: (ActionId, Direction, Result<(), DriverError>), hand: &mut Hand) {
        let (id, direction, result) = answer;
        hand.executing.remove(&id);
        hand.open.remove(&id);
        self.waits.say(id, None);
        match result {
            Ok(()) => {
                hand.executed.insert(id, self.now_ms());
            }
            Err(DriverError::Retry(why)) => {
                warn!(cluster = %self.cluster, action = %id, ?direction, why, "the driver is asked again later");
                hand.retry_later(id, &why, self.now_ms());
            }
            Err(DriverError::Pause(why)) => {
                hand.cause = Some(format!("action {id}: {why}"));
                hand.given_up.insert(id, why);
            }
            Err(DriverError::Halt(why)) => {
                warn!(cluster = %self.cluster, action = %id, ?direction, why, "the driver gives an action up");
                hand.given_up.insert(id, why);
            }
            Err(DriverError::Open(why)) => {
                warn!(cluster = %self.cluster, action = %id, ?direction, why, "an action stays open");
                hand.leave_open(id, why, self.now_ms());
            }
            Err(DriverError::Abort(why)) => {
                hand.abort = Some(format!("action {id}: {why}"));
                hand.given_up.insert(id, why);
            }
        }
    }

    /// Commits what the step says, in this term only; how long to wait before the next one.
    async fn commit(
        &mut self,
        step: Step,
        cluster: &Cluster,
        record: &PlanRecord,
        driver: &dyn Driver,
        hand: &mut Hand,
    ) -> Then {
        let (name, plan) = (self.cluster.clone(), record.plan.id.clone());
        let begun = if let Step::Begin(actions) = &step { slots_of(record, actions) } else { 0 };
        let op = match step {
            Step::Begin(actions) => Op::Begin { cluster: name, plan, actions },
            Step::Finish(actions) => Op::Finish { cluster: name, plan, actions },
            Step::Fail(action, error) => Op::Fail { cluster: name, plan, action, error },
            Step::Block(cause) => Op::Block { cluster: name, plan, cause },
            Step::Abort(_) => Op::Steer { cluster: name, plan, verb: SteerVerb::Abort, acks: [].into() },
            Step::Tell(cause) => Op::Tell { cluster: name, plan, cause },
            Step::Complete => match self.verified(cluster, record, driver).await {
                Ok(()) => Op::Complete { cluster: name, plan },
                Err(None) => return Then::Rest(REFUSED_MS << self.verifications),
                // It is told already: looked at again after a while.
                Err(Some(cause)) if hand.told.as_ref() == Some(&cause) => return Then::Rest(REFUSED_MS_MAX),
                Err(Some(cause)) => Op::Block { cluster: name, plan, cause },
            },
            Step::Execute(_) | Step::Wait(_) => unreachable!("nothing to commit"),
        };
        if !self.leads() {
            return Then::Now;
        }
        let failed_back = match &op {
            Op::Fail { action, error, .. } if is_back(record, *action) => Some((*action, error.clone())),
            _ => None,
        };
        let told = if let Op::Block { cause, .. } = &op { Some(cause.clone()) } else { None };
        let (ends, aborts) = (matches!(op, Op::Block { .. }), matches!(op, Op::Steer { .. }));
        let reason = hand.abort.clone().filter(|_| aborts);
        let caller = Caller { reason, ..self.caller.clone() };
        match self.controller.submit_in(self.term, &caller, self.in_term(op)).await {
            Ok(_) => {
                self.refusals = 0;
                hand.pace.take(begun);
                if let Some((id, why)) = failed_back {
                    hand.hold(id, why, self.now_ms());
                }
                if ends {
                    (hand.cause, hand.told) = (None, told);
                }
                if aborts {
                    hand.abort = None;
                }
                Then::Now
            }
            Err(error) => {
                if matches!(error, ControlError::Timeout) {
                    // It may have happened.
                    hand.pace.take(begun);
                }
                self.refused(&error, record).await
            }
        }
    }

    /// Whether the nodes are as the rollout must leave them; if not, why, or nothing where it may be news on its way.
    async fn verified(
        &mut self,
        cluster: &Cluster,
        record: &PlanRecord,
        driver: &dyn Driver,
    ) -> Result<(), Option<String>> {
        let topology = cluster.topology();
        let ends = record.rollout.as_ref().is_some_and(|rollout| rollout.state != RolloutState::Running);
        let (verdict, done) = if ends {
            (driver.closed(&topology, &begun_slots(record)).await, "nothing is in flight")
        } else {
            (driver.verify(&topology).await, "every action is done")
        };
        match verdict {
            Ok(()) => Ok(()),
            Err(DriverError::Retry(why)) if self.verifications < ATTEMPTS_MAX => {
                self.verifications += 1;
                warn!(cluster = %self.cluster, why, "the nodes do not agree yet");
                Err(None)
            }
            Err(error) => {
                self.verifications = 0;
                let error = error.to_string();
                let (why, advice) = split_advice(&error);
                let advice = match (advice, ends) {
                    (Some(advice), true) => format!("{advice}; the rollout ends by itself then"),
                    (Some(advice), false) => format!("{advice}, then rollout resume"),
                    (None, _) => "cluster check; rollout resume once it is clean".to_owned(),
                };
                Err(Some(advised(&format!("{done}, but: {why}"), &advice)))
            }
        }
    }

    /// A commit that failed is tried again after a while: the next look at the state tells whether it happened. One
    /// that is refused again and again means that the executor does not understand the state.
    async fn refused(&mut self, error: &ControlError, record: &PlanRecord) -> Then {
        self.refusals += 1;
        warn!(cluster = %self.cluster, %error, refusals = self.refusals, "the executor's commit was not accepted");
        if self.refusals.is_multiple_of(REFUSALS_MAX) && matches!(error, ControlError::Rejected(_)) {
            let cause = format!("the controller refuses the executor's next step: {error}");
            let op = Op::Block { cluster: self.cluster.clone(), plan: record.plan.id.clone(), cause };
            if let Err(error) = self.controller.submit_in(self.term, &self.caller, self.in_term(op)).await {
                warn!(cluster = %self.cluster, %error, "and refuses to block the rollout");
            }
        }
        Then::Rest((REFUSED_MS << self.refusals.min(6)).min(REFUSED_MS_MAX))
    }

    /// Nothing is sent before the fence stands; after a while a person is told why.
    async fn not_fenced(&mut self, cluster: &Cluster, record: &PlanRecord, error: &DriverError) {
        warn!(cluster = %self.cluster, %error, "executors of earlier terms are not fenced off yet");
        self.fence_tries += 1;
        let is_running = record.rollout.as_ref().is_some_and(|rollout| rollout.state == RolloutState::Running);
        if self.fence_tries == FENCE_TRIES_MAX && is_running {
            let cause = format!("executors of earlier terms cannot be fenced off: {error}");
            self.block(cluster, record, cause).await;
        }
        sleep(Duration::from_millis((REFUSED_MS << self.fence_tries.min(6)).min(REFUSED_MS_MAX))).await;
    }

    async fn no_driver(&self, cluster: &Cluster, record: &PlanRecord) {
        let cause = format!("this controller has no driver {}", cluster.driver.as_str());
        self.block(cluster, record, cause).await;
        sleep(Duration::from_millis(REFUSED_MS_MAX)).await;
    }

    async fn block(&self, cluster: &Cluster, record: &PlanRecord, cause: String) {
        let op = Op::Block { cluster: cluster.name.clone(), plan: record.plan.id.clone(), cause };
        if let Err(error) = self.controller.submit_in(self.term, &self.caller, self.in_term(op)).await {
            debug!(cluster = %self.cluster, %error, "not blocked");
        }
    }

    /// What arrives after a successor has begun is refused: a member that does not lead any more sends its commits on to
    /// the one that does.
    fn in_term(&self, op: Op) -> Op {
        Op::InTerm { term: self.term, what: Box::new(op) }
    }

    fn leads(&self) -> bool {
        *self.leading.borrow() == Some(self.term)
    }

    /// A clock that never jumps.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).expect("a process does not live that long")
    }
}

/// Whether anything may still be sent for a rollout: not where only its end is left.
fn sends(record: &PlanRecord) -> bool {
    let Some(rollout) = &record.rollout else { return false };
    rollout.state != RolloutState::Aborting || rollout.in_flight().next().is_some()
}

/// The slots of every action that was begun. What is to be repaired was open before, and is no worse for an end.
fn begun_slots(record: &PlanRecord) -> SlotSet {
    let mut slots = SlotSet::new();
    let begun = record.rollout.iter().flat_map(|rollout| rollout.actions.keys());
    for action in begun.filter_map(|id| record.plan.body.action(*id)) {
        for range in action.kind.ranges() {
            slots.insert_range(*range);
        }
    }
    slots
}

fn is_back(record: &PlanRecord, id: ActionId) -> bool {
    record.rollout.as_ref().and_then(|rollout| rollout.state_of(id)) == Some(ActionState::Reverting)
}

fn slots_of(record: &PlanRecord, actions: &[ActionId]) -> usize {
    actions.iter().filter_map(|id| record.plan.body.action(*id)).map(|action| action.kind.slots()).sum()
}
