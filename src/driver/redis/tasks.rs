//! Moves a batch of slots where both servers can do it by themselves: asks for it, waits, and believes only who owns the
//! slots. [`atomic`] says what comes next.

mod listed;
mod turn;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::debug;

use super::advice;
use super::atomic::{self, Asked, Dialect, FAILURES_MAX, Failures, Next, Task, Whereabouts};
use super::links::Links;
use super::pace::Bucket;
use super::sight::{Fault, Sight, has_gone_over, primary};
use super::value::{command, list, text};
use crate::domain::{Node, NodeId, Slot, SlotSet, TopologyShard};
use crate::driver::{Direction, DriverError, Job};

/// How long an end may be away, or a hand-over unheard of, before it is told.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 10 } else { 25 });
/// How long a task may be in a state that should pass in a moment: the servers themselves give up after `repl-timeout`,
/// which is a minute; a source that granted a hand-over and hears nothing more after ten seconds.
const STILL: Duration = Duration::from_secs(if cfg!(test) { 15 } else { 90 });
/// How long a task may go on when the rollout is being ended.
const ENDING: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// Pause between two looks, at least and at most; in between a quarter of the time that it has taken so far.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// Pause before what failed is asked for again, times how often it has.
const AGAIN: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 500 });
/// Why slots have not arrived that were handed over.
const UNHEARD: &str = "one end says that they were handed over, and the other does not";
/// Servers whose words are remembered.
const SPOKEN_MAX: usize = 4096;

/// Which way each process speaks, so that it is asked once.
#[derive(Debug, Default)]
pub(super) struct Spoken(Mutex<BTreeMap<String, Option<Dialect>>>);

impl Spoken {
    /// How both ends move slots by themselves, in the same way; none when they do not, or when one of them has a slot open:
    /// what was begun in the classic way is ended in it, and the servers do not do both at once.
    pub(super) async fn dialect(
        &self,
        links: &Links,
        job: &Job,
        (from, to): (&TopologyShard, &TopologyShard),
    ) -> Result<Option<Dialect>, Fault> {
        let looks = futures::join!(
            primary(links, Some(&job.cluster), from, &from.primary.id, &[]),
            primary(links, Some(&job.cluster), to, &to.primary.id, &[])
        );
        let (source, target) = (looks.0?, looks.1?);
        if [&source, &target].iter().any(|end| end.view.myself().is_some_and(|myself| !myself.open.is_empty())) {
            return Ok(None);
        }
        let spoken = futures::join!(self.of(links, job, &source), self.of(links, job, &target));
        let (here, there) = (spoken.0?, spoken.1?);
        Ok(here.filter(|_| here == there))
    }

    /// What a server's `CLUSTER HELP` tells that it can do.
    async fn of(&self, links: &Links, job: &Job, at: &Sight) -> Result<Option<Dialect>, Fault> {
        if let Some(known) = self.locked().get(&at.run_id) {
            return Ok(*known);
        }
        let link = links.shared(&job.cluster, &at.node).await?;
        let Ok(help) = link.ask(&command(&["CLUSTER", "HELP"]), link.timeout()).await? else { return Ok(None) };
        let told = list(&help).unwrap_or_default();
        let knows = |word: &str| told.iter().filter_map(text).any(|line| line.split_whitespace().next() == Some(word));
        let dialect = if knows("MIGRATESLOTS") {
            Some(Dialect::Valkey)
        } else if knows("MIGRATION") {
            Some(Dialect::Redis)
        } else {
            None
        };
        let mut spoken = self.locked();
        if spoken.len() >= SPOKEN_MAX {
            spoken.clear();
        }
        spoken.insert(at.run_id.clone(), dialect);
        Ok(dialect)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Option<Dialect>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a batch of slots that the servers were to move has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    /// Every slot is at the target.
    Whole,
    /// They do not as long as one of them has a slot open: it has to be done in the classic way.
    Classic,
}

/// A batch of slots that the servers move.
pub(super) struct Whole<'a> {
    pub(super) links: &'a Arc<Links>,
    pub(super) job: &'a Job,
    pub(super) from: &'a TopologyShard,
    pub(super) to: &'a TopologyShard,
    pub(super) dialect: Dialect,
    pub(super) bucket: Arc<Bucket>,
}

/// Both ends, and where the slots are.
struct Look {
    source: Sight,
    target: Sight,
    at: Whereabouts,
    tasks: Vec<Task>,
}

/// What was seen so far.
struct Course {
    failures: Failures,
    /// How often it was refused in a row, and with which words the last time.
    refusals: u64,
    refused: String,
    /// Slots that were left at the last look, and since when neither fewer are nor a task sends what they hold.
    left: usize,
    quiet: Instant,
    /// When the next task may start, once that is known; and whether the bytes of the one under way were counted.
    turn: Option<Instant>,
    counted: bool,
    /// Why the move is being given up, once its task has ended.
    ends: Option<String>,
    /// What came next the last time, and since when it has.
    last: Option<(Next, Instant)>,
    /// Who was primary at the last look.
    hints: (NodeId, NodeId),
    /// Who has the list of the tasks.
    asked: Node,
}

/// Why the loop does not simply go on.
enum Ended {
    Ran(Ran),
    Given(DriverError),
    Fault(Fault),
}

impl From<Fault> for Ended {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Whole<'_> {
    /// Moves the slots, or tells why they are where they are.
    pub(super) async fn run(self, slots: &[Slot]) -> Result<Ran, DriverError> {
        let slots: SlotSet = slots.iter().copied().collect();
        let asked = if self.dialect == Dialect::Valkey { &self.from.primary } else { &self.to.primary };
        let mut course = Course {
            failures: Failures::default(),
            refusals: 0,
            refused: String::new(),
            left: slots.len(),
            quiet: Instant::now(),
            turn: None,
            counted: false,
            ends: None,
            last: None,
            hints: (self.from.primary.id.clone(), self.to.primary.id.clone()),
            asked: asked.clone(),
        };
        let begun = Instant::now();
        let mut seen = begun;
        loop {
            self.job.lease.held().await;
            let done = match self.look(&slots, &mut course).await {
                Ok(Some(look)) => {
                    seen = Instant::now();
                    self.advance(&look, &slots, &mut course).await
                }
                Ok(None) => return Ok(Ran::Whole),
                Err(fault) => Err(Ended::Fault(fault)),
            };
            match done {
                Ok(()) => {}
                Err(Ended::Ran(ran)) => return Ok(ran),
                Err(Ended::Given(error)) => return Err(error),
                Err(Ended::Fault(fault)) => {
                    if matches!(fault, Fault::Lasting(_)) || seen.elapsed() >= PATIENCE {
                        return Err(DriverError::Open(self.told(&slots, fault.why())));
                    }
                    advice::tell(self.job, seen, || self.told(&slots, fault.why()));
                }
            }
            sleep((begun.elapsed() / 4).clamp(PAUSE.0, PAUSE.1)).await;
        }
    }

    /// Does what comes next.
    async fn advance(&self, look: &Look, slots: &SlotSet, course: &mut Course) -> Result<(), Ended> {
        // What is being ended is not tried again; what is being taken back is.
        let ending = self.job.ending && self.job.direction == Direction::Forward;
        let asked = Asked {
            dialect: self.dialect,
            slots,
            target: &look.target.id,
            failures_max: if ending { 1 } else { FAILURES_MAX },
        };
        let next = match asked.next(&look.at, &look.tasks, &mut course.failures) {
            Ok(next) => next,
            Err(why) if is_about_open_slots(&why) => return Err(Ended::Ran(Ran::Classic)),
            Err(why) => return Err(given_up(look, slots, why)),
        };
        let since = match &course.last {
            Some((last, since)) if *last == next => *since,
            _ => Instant::now(),
        };
        course.last = Some((next.clone(), since));
        self.tell(&next, look, slots, course);
        match next {
            Next::Done => {
                self.reach("after-task").await;
                return Err(Ended::Ran(Ran::Whole));
            }
            Next::Settle => {
                if since.elapsed() >= PATIENCE {
                    return Err(Ended::Given(DriverError::Open(self.told(slots, UNHEARD))));
                }
            }
            Next::Wait(said) => {
                self.reach("in-task").await;
                self.count(look, course).await;
                if ending && since.elapsed() >= ENDING && !self.dialect.hands_over(&look.tasks) {
                    self.cancel(look).await?;
                } else if !self.dialect.may_last(&said) && since.elapsed() >= STILL {
                    let why = format!("their task does not come on: {said}");
                    return Err(Ended::Given(DriverError::Open(self.told(slots, &why))));
                }
            }
            Next::Start => self.ask(look, slots, course).await?,
            Next::Cancel(id, why) => {
                self.cancel_at_target(look, &id).await?;
                course.ends = Some(why);
            }
        }
        Ok(())
    }

    /// Asks for what is left.
    async fn ask(&self, look: &Look, slots: &SlotSet, course: &mut Course) -> Result<(), Ended> {
        if let Some(why) = course.ends.take() {
            return Err(given_up(look, slots, why));
        }
        if self.dialect == Dialect::Redis && look.tasks.iter().any(|task| !self.dialect.has_ended(task)) {
            // A server has one task at a time.
            return Ok(());
        }
        if !self.turn(look, slots, course).await? {
            return Ok(());
        }
        let tried = course.failures.count.max(course.refusals);
        sleep(AGAIN * u32::try_from(tried).unwrap_or(u32::MAX)).await;
        self.reach("before-ask").await;
        match self.start(look).await? {
            Ok(()) => (course.refusals, course.turn) = (0, None),
            Err(refused) if is_about_open_slots(&refused) => return Err(Ended::Ran(Ran::Classic)),
            Err(refused) => {
                course.refusals += 1;
                course.refused.clone_from(&refused);
                if course.refusals >= FAILURES_MAX {
                    return Err(given_up(look, slots, refused));
                }
            }
        }
        self.reach("after-ask").await;
        Ok(())
    }

    /// Says what the action waits for, when nothing has come of it for a while.
    fn tell(&self, next: &Next, look: &Look, slots: &SlotSet, course: &mut Course) {
        let left = look.at.left.len() + look.at.between.len();
        let sends = matches!(next, Next::Wait(said) if self.dialect.may_last(said));
        if left != course.left || sends {
            (course.left, course.quiet) = (left, Instant::now());
            return self.job.waits.say(self.job.action.id, None);
        }
        let why = match next {
            Next::Wait(said) => format!("their task does not come on: {said}"),
            Next::Settle => UNHEARD.to_owned(),
            Next::Start if course.refusals > 0 => course.refused.clone(),
            Next::Start if course.failures.count > 0 => format!("it failed: {}", course.failures.message),
            Next::Start | Next::Cancel(..) | Next::Done => return,
        };
        advice::tell(self.job, course.quiet, || self.told(slots, &why));
    }

    async fn look(&self, slots: &SlotSet, course: &mut Course) -> Result<Option<Look>, Fault> {
        let (links, cluster) = (self.links, Some(&self.job.cluster));
        // Before ownership: a task that ends in between is seen as under way, and looked at again.
        let tasks = listed::tasks(self.dialect, links, self.job, &course.asked).await;
        let (source, target) = futures::join!(
            primary(links, cluster, self.from, &course.hints.0, &[]),
            primary(links, cluster, self.to, &course.hints.1, &[])
        );
        let (source, target) = match (source, target) {
            (Err(_), Ok(target)) if has_gone_over(&target, self.from, slots.iter()) => return Ok(None),
            (source, target) => (source?, target?),
        };
        for (one, other, shard) in [(&source, &target, self.from), (&target, &source, self.to)] {
            if let Some(why) = one.doubted_by(other, shard) {
                return Err(Fault::Passing(why));
            }
        }
        course.hints = (source.id.clone(), target.id.clone());
        let holder = if self.dialect == Dialect::Valkey { &source } else { &target };
        if holder.node != course.asked {
            course.asked = holder.node.clone();
            return Err(Fault::Passing(format!("{} has become primary", holder.node)));
        }
        let mut at = Whereabouts::default();
        for slot in slots.iter() {
            let owner = |sight: &Sight| sight.view.owner(slot).map(|owner| owner.id.clone());
            let (here, there) = (owner(&source), owner(&target));
            if let Some(other) = there.iter().find(|owner| ![&source.id, &target.id].contains(owner)) {
                // News of a failover travel; what another tool did does not pass.
                return Err(Fault::Passing(format!("{} says that {other} owns slot {slot}", target.node)));
            }
            match [here, there].iter().flatten().filter(|owner| **owner == target.id).count() {
                0 => at.left.insert(slot),
                1 => at.between.insert(slot),
                _ => false,
            };
        }
        Ok(Some(Look { source, target, at, tasks: tasks? }))
    }

    /// Asks for the slots that are left; what the server refused.
    async fn start(&self, look: &Look) -> Result<Result<(), String>, Fault> {
        let (at, mut start) = match self.dialect {
            Dialect::Valkey => (&look.source, command(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"])),
            Dialect::Redis => (&look.target, command(&["CLUSTER", "MIGRATION", "IMPORT"])),
        };
        for (first, last) in atomic::pairs(&look.at.left) {
            start.arg(first).arg(last);
        }
        if self.dialect == Dialect::Valkey {
            start.arg("NODE").arg(look.target.id.as_str());
        }
        let link = self.links.shared(&self.job.cluster, &at.node).await?;
        self.job.lease.held().await;
        match link.ask(&start, link.timeout()).await? {
            Ok(_) => Ok(Ok(())),
            Err(refusal) if refusal.denies() => Err(link.answered(refusal).into()),
            Err(refusal) => Ok(Err(format!("{} does not move the slots: {refusal}", at.node))),
        }
    }

    /// Ends what is under way: of Valkey every export of the source, which cannot do less.
    async fn cancel(&self, look: &Look) -> Result<(), Fault> {
        if self.dialect == Dialect::Redis {
            let under_way = look.tasks.iter().filter(|task| !self.dialect.has_ended(task));
            for task in under_way.filter(|task| task.target == look.target.id.as_str()) {
                self.cancel_at_target(look, &task.id).await?;
            }
            return Ok(());
        }
        debug!(cluster = %self.job.cluster, action = %self.job.action.id, source = %look.source.node, "cancelling");
        let link = self.links.shared(&self.job.cluster, &look.source.node).await?;
        self.job.lease.held().await;
        // It is refused when nothing is under way any more.
        drop(link.ask(&command(&["CLUSTER", "CANCELSLOTMIGRATIONS"]), link.timeout()).await?);
        Ok(())
    }

    async fn cancel_at_target(&self, look: &Look, id: &str) -> Result<(), Fault> {
        let link = self.links.shared(&self.job.cluster, &look.target.node).await?;
        let mut cancel = command(&["CLUSTER", "MIGRATION", "CANCEL", "ID"]);
        cancel.arg(id);
        self.job.lease.held().await;
        link.call(&cancel).await?;
        Ok(())
    }

    async fn reach(&self, place: &'static str) {
        self.links.settings().failpoints.reach(place).await;
    }

    fn told(&self, slots: &SlotSet, why: &str) -> String {
        let (from, to) = (&self.from.id, &self.to.id);
        format!("shards {from} and {to} move slots {slots} by themselves: {why}")
    }
}

/// All or nothing, and nothing it is; else a person has to look.
fn given_up(look: &Look, slots: &SlotSet, why: String) -> Ended {
    Ended::Given(if look.at.left == *slots { DriverError::Halt(why) } else { DriverError::Open(why) })
}

/// Valkey moves nothing by itself while either end has any slot open by hand.
fn is_about_open_slots(why: &str) -> bool {
    why.contains("being manually")
}
