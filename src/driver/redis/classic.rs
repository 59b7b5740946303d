//! Moves a batch of slots in the classic way: looks at both ends, does for all slots what [`protocol`] says, looks again,
//! until every slot has arrived, or is home again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::advice;
use super::drain::Drained;
use super::keys::Listings;
use super::links::Links;
use super::pace::{Bucket, Pace};
use super::protocol::{self, End, Ends, Obstacle, Step};
use super::sight::{Fault, Sight, has_gone_over, member_ids, members, primary};
use crate::domain::{NodeId, Slot, TopologyShard, advised, split_advice};
use crate::driver::{DriverError, Job};

/// How long an end may be away, or slots make no progress, before it is told: well within the 30 s after which a person
/// wants to know.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 10 } else { 25 });
/// How long a contradiction between the servers may last: news travel by gossip.
const OBSTACLE_PATIENCE: Duration = Duration::from_secs(6);
/// Pause between looks that bring nothing new, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// Where the slots are to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// At the target.
    There,
    /// At the source, as before.
    Home,
}

/// Which way the slots of one step go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// From source to target.
    Straight,
    /// The target owns them already: from target to source.
    Exchanged,
    /// The source owns them and the target has keys of them: those come home.
    Homeward,
}

/// What is to be done now, by way and step.
pub(super) type Todo = BTreeMap<(Way, Step), Vec<Slot>>;

/// Both ends at one moment.
pub(super) struct Pair {
    pub(super) source: Sight,
    pub(super) target: Sight,
}

/// What stands in a slot's way by what the servers say, since when.
struct Doubt {
    since: Instant,
    why: String,
    /// Neither end has it.
    gone: bool,
}

type Doubts = BTreeMap<Slot, Doubt>;

/// Why slots got stuck.
struct Stuck {
    why: String,
    /// Every slot is at the source, with no flag and no key elsewhere.
    clean: bool,
}

/// A batch of slots on its way.
pub(super) struct Mover<'a> {
    pub(super) links: &'a Arc<Links>,
    pub(super) job: &'a Job,
    pub(super) from: &'a TopologyShard,
    pub(super) to: &'a TopologyShard,
    pub(super) bucket: Arc<Bucket>,
    /// Who was primary at the last look.
    hints: (NodeId, NodeId),
    /// The source's process when the target was seen without keys of a slot.
    pub(super) trusted: BTreeMap<Slot, String>,
    pub(super) listings: Listings,
    pub(super) pace: Pace,
    /// What the servers last refused, by slot.
    pub(super) refused: BTreeMap<Slot, String>,
    /// Slots that only a person can help, and why.
    pub(super) halted: BTreeMap<Slot, String>,
    /// Whether anything was sent that opens a slot.
    pub(super) opened: bool,
    /// Whether both ends were seen.
    seen: bool,
    /// Slots that were not as before when they were last seen, and those that have not been seen.
    unclean: BTreeSet<Slot>,
    /// Slots that a third node has, or nobody, for too long to be news on its way.
    gone: BTreeSet<Slot>,
}

impl<'a> Mover<'a> {
    /// A mover of one job.
    pub(super) fn new(
        links: &'a Arc<Links>,
        job: &'a Job,
        (from, to): (&'a TopologyShard, &'a TopologyShard),
        bucket: Arc<Bucket>,
    ) -> Self {
        Self {
            links,
            job,
            from,
            to,
            bucket,
            hints: (from.primary.id.clone(), to.primary.id.clone()),
            trusted: BTreeMap::new(),
            listings: Listings::new(),
            pace: Pace::new(links.settings().busy),
            refused: BTreeMap::new(),
            halted: BTreeMap::new(),
            opened: false,
            seen: false,
            unclean: BTreeSet::new(),
            gone: BTreeSet::new(),
        }
    }

    /// Moves the slots, or tells why they are where they are.
    pub(super) async fn run(mut self, slots: &[Slot]) -> Result<(), DriverError> {
        self.unclean = slots.iter().copied().collect();
        let Err(stuck) = self.carry(slots, Aim::There).await else { return Ok(()) };
        if stuck.clean {
            return Err(DriverError::Halt(stuck.why));
        }
        if !self.job.ending {
            return Err(DriverError::Open(stuck.why));
        }
        debug!(cluster = %self.job.cluster, action = %self.job.action.id, why = stuck.why, "taking slots back");
        self.halted.clear();
        self.refused.clear();
        self.listings.clear();
        match self.carry(slots, Aim::Home).await {
            Ok(()) => {
                let advice = if self.gone.is_empty() { "" } else { "plan create --repair" };
                Err(DriverError::Halt(advised(split_advice(&stuck.why).0, advice)))
            }
            Err(at_home) => {
                let why = split_advice(&stuck.why).0;
                Err(DriverError::Open(format!("{why}; and it cannot be taken back: {}", at_home.why)))
            }
        }
    }

    async fn carry(&mut self, slots: &[Slot], aim: Aim) -> Result<(), Stuck> {
        let mut left: Vec<Slot> = slots.to_vec();
        let mut doubts = Doubts::new();
        let (mut since, mut pause, mut before) = (Instant::now(), PAUSE.0, None);
        loop {
            left.retain(|slot| !self.halted.contains_key(slot));
            if left.is_empty() {
                break;
            }
            self.job.lease.held().await;
            let mut fault = None;
            match self.look(&left).await {
                Ok(None) => break,
                Ok(Some(pair)) => {
                    let todo = self.decide(&mut left, &pair, aim, &mut doubts);
                    if left.is_empty() {
                        continue;
                    }
                    if self.would_open(&todo)
                        && let Some(why) = self.first_look_at_keys(&pair, &todo).await
                    {
                        return Err(Stuck { why, clean: self.unclean.is_empty() });
                    }
                    let now = signature(&todo, &pair);
                    let progress = before.as_ref() != Some(&now);
                    if progress {
                        (since, pause, before) = (Instant::now(), PAUSE.0, Some(now));
                        self.job.waits.say(self.job.action.id, None);
                    }
                    match self.advance(&pair, &todo).await {
                        Ok(()) if progress && !todo.is_empty() => continue,
                        Ok(()) => {}
                        Err(error) => fault = Some(error),
                    }
                }
                Err(error) => fault = Some(error),
            }
            let lasting = matches!(fault, Some(Fault::Lasting(_)));
            if since.elapsed() >= PATIENCE || lasting && since.elapsed() >= OBSTACLE_PATIENCE {
                return Err(self.stuck(&left, fault.as_ref(), &doubts));
            }
            advice::tell(self.job, since, || self.stuck(&left, fault.as_ref(), &doubts).why);
            self.halt_doubted(&mut doubts);
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
        if self.halted.is_empty() { Ok(()) } else { Err(self.stuck(&[], None, &doubts)) }
    }

    /// Notes that slots are opened, or about to be: until both ends are seen again nobody knows how far that came.
    pub(super) fn opens(&mut self, slots: &[Slot]) {
        self.opened |= !slots.is_empty();
        self.unclean.extend(slots);
    }

    /// Both ends, each the primary of its shard by what both say; none when the slots have arrived and the source, emptied,
    /// has become a replica of somebody by itself (`cluster-allow-replica-migration`).
    async fn look(&mut self, slots: &[Slot]) -> Result<Option<Pair>, Fault> {
        let (links, cluster) = (self.links, Some(&self.job.cluster));
        let (source, target) = futures::join!(
            primary(links, cluster, self.from, &self.hints.0, slots),
            primary(links, cluster, self.to, &self.hints.1, slots),
        );
        let (source, target) = match (source, target) {
            (Ok(source), Ok(target)) => (source, target),
            (source, target) => {
                // What one end says by itself is enough to know that nothing was begun.
                if let Ok(source) = &source {
                    self.note_half(slots, |slot| at_home(&source.end(slot)));
                }
                if let Ok(target) = &target {
                    if has_gone_over(target, self.from, slots.iter().copied()) {
                        return Ok(None);
                    }
                    self.note_half(slots, |slot| is_untouched(&target.end(slot)));
                }
                return Err(source.err().or_else(|| target.err()).expect("one of them failed"));
            }
        };
        if source.id == target.id {
            return Err(Fault::Lasting(format!("{} is the primary of both shards", source.node)));
        }
        for (one, other, shard) in [(&source, &target, self.from), (&target, &source, self.to)] {
            if let Some(why) = one.doubted_by(other, shard) {
                return Err(Fault::Passing(why));
            }
        }
        self.seen = true;
        if self.opened && self.hints.1 != target.id {
            let (cluster, action, now) = (&self.job.cluster, self.job.action.id, &target.node);
            warn!(%cluster, %action, %now, "a target failed over in the middle: keys that had not reached its replica are lost");
        }
        for slot in slots {
            let (here, there) = (source.end(*slot), target.end(*slot));
            if at_home(&here) && is_untouched(&there) {
                self.unclean.remove(slot);
            } else {
                self.unclean.insert(*slot);
            }
            if there.keys == 0 && there.owner.as_ref() != Some(&there.me) {
                self.trusted.insert(*slot, source.run_id.clone());
            }
        }
        self.hints = (source.id.clone(), target.id.clone());
        Ok(Some(Pair { source, target }))
    }

    fn note_half(&mut self, slots: &[Slot], is_clean: impl Fn(Slot) -> bool) {
        if !self.opened && !self.seen {
            for slot in slots.iter().filter(|slot| is_clean(**slot)) {
                self.unclean.remove(slot);
            }
        }
    }

    /// What comes next for each slot; those that have arrived are left out from then on.
    fn decide(&mut self, left: &mut Vec<Slot>, pair: &Pair, aim: Aim, doubts: &mut Doubts) -> Todo {
        let (from, to) = (member_ids(self.from), member_ids(self.to));
        let named = |id: &NodeId| self.named(id);
        let mut todo = Todo::new();
        left.retain(|slot| {
            let (source, target) = (pair.source.end(*slot), pair.target.end(*slot));
            let ends = Ends { source: &source, target: &target, from: &from, to: &to };
            let next = match aim {
                Aim::There => protocol::forward(&ends).map(|step| (Way::Straight, step)),
                Aim::Home if target.owner.as_ref() == Some(&target.me) => {
                    let ends = Ends { source: &target, target: &source, from: &to, to: &from };
                    protocol::forward(&ends).map(|step| (Way::Exchanged, step))
                }
                Aim::Home => match protocol::back(&ends) {
                    // The rollout ends, and what the table says is for a repair.
                    Err(Obstacle::OwnedElsewhere { .. } | Obstacle::Unowned { .. }) if self.gone.contains(slot) => {
                        protocol::let_go(&ends).map(|step| (Way::Homeward, step))
                    }
                    next => next.map(|step| (Way::Homeward, step)),
                },
            };
            match next {
                Ok((_, Step::Done)) => {
                    doubts.remove(slot);
                    return false;
                }
                Ok(next) => {
                    doubts.remove(slot);
                    todo.entry(next).or_default().push(*slot);
                }
                Err(obstacle) => {
                    let since = doubts.get(slot).map_or_else(Instant::now, |doubt| doubt.since);
                    let advice = advice::of_obstacle(&obstacle, named, &self.from.primary);
                    let why = advised(&obstacle.named(named).to_string(), &advice);
                    let gone = matches!(obstacle, Obstacle::OwnedElsewhere { .. } | Obstacle::Unowned { .. });
                    doubts.insert(*slot, Doubt { since, why, gone });
                }
            }
            true
        });
        todo
    }

    /// What the servers say has been in the way for too long to be news on its way.
    fn halt_doubted(&mut self, doubts: &mut Doubts) {
        doubts.retain(|slot, doubt| {
            if doubt.since.elapsed() < OBSTACLE_PATIENCE {
                return true;
            }
            if doubt.gone {
                self.gone.insert(*slot);
            }
            self.halted.insert(*slot, std::mem::take(&mut doubt.why));
            false
        });
    }

    /// A node by its address, as far as it is in the table.
    fn named(&self, id: &NodeId) -> String {
        let mut nodes = self.job.topology.shards.iter().flat_map(members);
        nodes.find(|node| node.id == *id).map_or_else(|| id.to_string(), ToString::to_string)
    }

    fn would_open(&self, todo: &Todo) -> bool {
        !self.opened && todo.contains_key(&(Way::Straight, Step::Import))
    }

    fn stuck(&self, left: &[Slot], fault: Option<&Fault>, doubts: &Doubts) -> Stuck {
        const REASONS_MAX: usize = 3;
        let clean = self.unclean.is_empty();
        let mut reasons: BTreeMap<&str, Vec<Slot>> = BTreeMap::new();
        for (slot, why) in &self.halted {
            reasons.entry(why).or_default().push(*slot);
        }
        for slot in left.iter().filter(|slot| !self.halted.contains_key(slot)) {
            let doubt = doubts.get(slot).map(|doubt| doubt.why.as_str());
            let why = fault.map(Fault::why).or(doubt).or(self.refused.get(slot).map(String::as_str));
            reasons.entry(why.unwrap_or("it makes no progress")).or_default().push(*slot);
        }
        let more = reasons.len().saturating_sub(REASONS_MAX);
        let (mut told, mut advices) = (Vec::new(), Vec::new());
        for (why, slots) in reasons.into_iter().take(REASONS_MAX) {
            let (why, advice) = split_advice(why);
            told.push(format!("{}: {why}", named(&slots)));
            if let Some(advice) = advice.map(|advice| advice::for_slots(advice, &slots))
                && !advices.contains(&advice)
            {
                advices.push(advice);
            }
        }
        if more > 0 {
            told.push(format!("and {more} more reasons"));
        }
        Stuck { why: advised(&told.join("; "), &advices.join("; ")), clean }
    }

    /// Notes what the drain said of each slot.
    pub(super) fn note_drained(&mut self, drained: BTreeMap<Slot, Drained>) {
        for (slot, end) in drained {
            match end {
                Drained::Emptied => {}
                Drained::Again(why) => drop(self.refused.insert(slot, why)),
                Drained::Halted(why) => drop(self.halted.insert(slot, why)),
            }
        }
    }
}

/// Nothing has begun, by what the source says.
fn at_home(end: &End<NodeId>) -> bool {
    end.owner.as_ref() == Some(&end.me) && end.flag.is_none()
}

/// Nothing has begun, by what the target says.
fn is_untouched(end: &End<NodeId>) -> bool {
    end.owner.as_ref() != Some(&end.me) && end.flag.is_none() && end.keys == 0
}

/// What changes while there is progress.
fn signature(todo: &Todo, pair: &Pair) -> (Todo, u64, u64) {
    let keys = |sight: &Sight| todo.values().flatten().map(|slot| sight.end(*slot).keys).sum();
    (todo.clone(), keys(&pair.source), keys(&pair.target))
}

fn named(slots: &[Slot]) -> String {
    const MOST: usize = 4;
    let ranges = crate::domain::ranges_of(slots.iter().copied());
    let mut text: Vec<String> = ranges.iter().take(MOST).map(ToString::to_string).collect();
    if ranges.len() > MOST {
        text.push(format!("… ({} in all)", slots.len()));
    }
    format!("slot{} {}", if slots.len() == 1 { "" } else { "s" }, text.join(","))
}
