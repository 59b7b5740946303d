//! Stands in for the nodes of the cluster `default`: keys in slots, the flags of open slots, and the fence of the newest
//! term; and the driver that moves slots on them, one durable step after the other, as a driver of real nodes does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use slotkeeper::controller::Controller;
use slotkeeper::domain::{ActionState, DriverKind, PlanId, ShardId, Slot, SlotTable};
use slotkeeper::driver::{Direction, DriverError, Job, Scripted};
use tokio::time::sleep;

use super::member::Seat;

/// Every so many slots one is looked after: enough that every move has some.
const EVERY: u16 = 96;

/// The nodes. Every shard is one.
#[derive(Default)]
pub struct Nodes {
    /// Who serves a slot.
    serving: BTreeMap<u16, ShardId>,
    open: BTreeMap<u16, Open>,
    copies: BTreeMap<(u16, ShardId), BTreeSet<u64>>,
    /// Every key that was acknowledged, and its slot.
    keys: BTreeMap<u64, u16>,
    /// The newest term that fenced the others off.
    fence: u64,
    /// The term whose command was the last to take effect.
    last: u64,
}

/// A slot that is MIGRATING at one node and IMPORTING at another.
#[derive(Clone, PartialEq, Eq)]
struct Open {
    plan: PlanId,
    from: ShardId,
    to: ShardId,
}

/// What one action is to these nodes.
#[derive(Clone)]
struct Move {
    term: u64,
    open: Open,
    slots: Vec<u16>,
}

/// Why a node did not do it.
enum Refusal {
    /// A later term has fenced this one off.
    Fenced,
    /// It must never come to this.
    Broken(String),
}

impl Nodes {
    /// The nodes serve what the table says before anything is moved.
    pub fn learn(&mut self, table: &SlotTable) {
        if self.serving.is_empty() {
            let slots = (0..=Slot::LAST.get()).step_by(usize::from(EVERY));
            let owned = |number| Some((number, table.owner(Slot::new(number).ok()?)?.clone()));
            self.serving = slots.filter_map(owned).collect();
        }
    }

    /// A client of the nodes writes a key: where the slot is open, the node that imports it takes what is new.
    pub fn write(&mut self, key: u64) {
        if let Some(slot) =
            self.serving.keys().nth(usize::try_from(key).expect("small") * 7 % self.serving.len().max(1)).copied()
        {
            let shard = self.open.get(&slot).map_or_else(|| &self.serving[&slot], |open| &open.to).clone();
            self.copies.entry((slot, shard)).or_default().insert(key);
            self.keys.insert(key, slot);
        }
    }

    /// S7: each key that was acknowledged has one copy, where it is looked for.
    pub fn check(&self) -> Result<(), String> {
        let mut found: BTreeMap<u64, u32> = BTreeMap::new();
        for ((slot, shard), keys) in &self.copies {
            let open = self.open.get(slot);
            let served = self.serving.get(slot) == Some(shard) || open.is_some_and(|open| open.to == *shard);
            if !served && !keys.is_empty() {
                return Err(format!("S7: {} keys of slot {slot} are at {shard}, which does not serve it", keys.len()));
            }
            for key in keys {
                *found.entry(*key).or_default() += 1;
            }
        }
        match self.keys.keys().find(|key| found.get(key) != Some(&1)) {
            Some(key) => Err(format!("S7: key {key} has {} copies", found.get(key).copied().unwrap_or_default())),
            None => Ok(()),
        }
    }

    /// S8: the plan has ended, so no slot is open because of it.
    pub fn check_closed(&self, plan: &PlanId) -> Result<(), String> {
        match self.open.iter().find(|(_, open)| open.plan == *plan) {
            Some((slot, open)) => {
                Err(format!("S8: {plan} has ended and slot {slot} is open from {} to {}", open.from, open.to))
            }
            None => Ok(()),
        }
    }

    /// S7 and S8 when nothing is under way: the nodes serve what the controllers say.
    pub fn check_agree(&self, table: &SlotTable) -> Result<(), String> {
        if let Some((slot, open)) = self.open.iter().next() {
            return Err(format!("S8: nothing is under way and slot {slot} is open for {}", open.plan));
        }
        let differs =
            |(slot, shard): &(&u16, &ShardId)| table.owner(Slot::new(**slot).expect("a slot")) != Some(*shard);
        match self.serving.iter().find(differs) {
            Some((slot, shard)) => Err(format!("S7: {shard} serves slot {slot}, and the controllers say otherwise")),
            None => Ok(()),
        }
    }

    /// How many keys there are.
    pub fn keys(&self) -> u64 {
        self.keys.len() as u64
    }

    /// S6: takes a command of a term, unless a later one fenced it off.
    fn command(&mut self, term: u64) -> Result<(), Refusal> {
        if term < self.fence {
            return Err(Refusal::Fenced);
        }
        if term < self.last {
            let last = self.last;
            return Err(Refusal::Broken(format!("S6: a command of term {term} takes effect after one of {last}")));
        }
        self.last = term;
        Ok(())
    }

    /// Fences earlier terms off; whether nothing of the move was done yet.
    fn begin(&mut self, job: &Move) -> Result<bool, Refusal> {
        self.fence = self.fence.max(job.term);
        self.command(job.term)?;
        let Open { from, .. } = &job.open;
        Ok(job.slots.iter().all(|slot| !self.open.contains_key(slot) && self.serving.get(slot) == Some(from)))
    }

    /// Opens what is not there yet. One that an earlier leader opened is taken over.
    fn open(&mut self, job: &Move) -> Result<(), Refusal> {
        self.command(job.term)?;
        for slot in &job.slots {
            let serving = &self.serving[slot];
            match self.open.get(slot) {
                Some(open) if *open != job.open => {
                    return Err(Refusal::Broken(format!("S8: slot {slot} was left open by {}", open.plan)));
                }
                Some(_) => {}
                None if *serving == job.open.to => {}
                None if *serving == job.open.from => _ = self.open.insert(*slot, job.open.clone()),
                None => {
                    return Err(Refusal::Broken(format!(
                        "S7: slot {slot} is moved from {}, and {serving} serves it",
                        job.open.from
                    )));
                }
            }
        }
        Ok(())
    }

    /// Moves the keys of every second slot, or of all.
    fn migrate(&mut self, job: &Move, all: bool) -> Result<(), Refusal> {
        self.command(job.term)?;
        for (number, slot) in job.slots.iter().enumerate() {
            if self.open.contains_key(slot) && (all || number % 2 == 0) {
                let keys = self.copies.remove(&(*slot, job.open.from.clone())).unwrap_or_default();
                self.copies.entry((*slot, job.open.to.clone())).or_default().extend(keys);
            }
        }
        Ok(())
    }

    /// Hands the slots over and closes them.
    fn close(&mut self, job: &Move) -> Result<(), Refusal> {
        self.command(job.term)?;
        for slot in &job.slots {
            if self.open.remove(slot).is_some() {
                self.serving.insert(*slot, job.open.to.clone());
            }
        }
        Ok(())
    }
}

/// The driver of one member. It checks that it is asked only for what is committed, and takes its time; it gives up only
/// what it has not touched.
pub fn driver(seat: &Arc<Seat>, controller: Controller, seed: u64) -> Scripted {
    let (seat, rng) = (Arc::downgrade(seat), Mutex::new(SmallRng::seed_from_u64(seed ^ 0xd817_e500)));
    Scripted::new(DriverKind::Manual, move |job: &Job, _| {
        let (pause_ms, fails) = {
            let mut rng = rng.lock().unwrap();
            (rng.random_range(0..30), rng.random_bool(0.1))
        };
        let seat = seat.upgrade().expect("the member runs");
        let term = *controller.leading().borrow();
        expect_intent(&seat, &controller, job);
        let (job, controller) = (job.clone(), controller.clone());
        Box::pin(async move {
            let Some(term) = term else { return Err(DriverError::Retry("this member does not lead".to_owned())) };
            let pause = Duration::from_millis(pause_ms);
            let moved = Move::of(&job, term);
            // Between two steps anything can happen.
            let step = |step: fn(&mut Nodes, &Move) -> Result<(), Refusal>| {
                let mut oracle = seat.oracle.lock().unwrap();
                oracle.acts_in(seat.number, term, *controller.leading().borrow());
                step(&mut oracle.nodes, &moved).map_err(|refusal| told(refusal, |what| oracle.violation(what)))
            };
            sleep(pause).await;
            let untouched = {
                let mut oracle = seat.oracle.lock().unwrap();
                oracle.nodes.learn(&job.topology.table);
                oracle.nodes.begin(&moved).map_err(|refusal| told(refusal, |what| oracle.violation(what)))?
            };
            if fails && untouched {
                return Err(DriverError::Retry("not now".to_owned()));
            }
            step(Nodes::open)?;
            sleep(pause).await;
            step(|nodes, moved| nodes.migrate(moved, false))?;
            sleep(pause).await;
            step(|nodes, moved| nodes.migrate(moved, true))?;
            step(Nodes::close)?;
            seat.oracle.lock().unwrap().driven(&job.plan, job.action.id, job.direction);
            Ok(())
        })
    })
}

impl Move {
    fn of(job: &Job, term: u64) -> Self {
        let kind = &job.action.kind;
        let end = |end: Option<&ShardId>| end.expect("the plans of these tests only move slots").clone();
        let (source, target) = (end(kind.source()), end(kind.target()));
        let (from, to) = match job.direction {
            Direction::Forward => (source, target),
            Direction::Back => (target, source),
        };
        let numbers = kind.ranges().iter().flat_map(|range| range.slots()).map(Slot::get);
        let slots = numbers.filter(|number| number.is_multiple_of(EVERY)).collect();
        Self { term, open: Open { plan: job.plan.clone(), from, to }, slots }
    }
}

fn told(refusal: Refusal, violation: impl FnOnce(String)) -> DriverError {
    match refusal {
        Refusal::Fenced => DriverError::Retry("a later term has fenced this one off".to_owned()),
        Refusal::Broken(what) => {
            violation(what.clone());
            DriverError::Pause(what)
        }
    }
}

/// S5: the intent is committed. A leader that does not know yet that it was deposed may come late, never early.
fn expect_intent(seat: &Seat, controller: &Controller, job: &Job) {
    let found = controller
        .cluster(&job.cluster)
        .ok()
        .and_then(|cluster| cluster.plans.get(&job.plan)?.rollout.as_ref()?.state_of(job.action.id));
    let committed = match job.direction {
        Direction::Forward => found.is_some(),
        Direction::Back => matches!(found, Some(ActionState::Reverting | ActionState::Reverted)),
    };
    if !committed {
        let what = format!("S5: the driver is asked for {} {:?}, which is {found:?}", job.action.id, job.direction);
        seat.oracle.lock().unwrap().violation(what);
    }
}
