//! Gives slots an owner without a move: slots that nobody owns or whose owner is lost, and slots that several claim or
//! have open.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use redis::Cmd;
use tokio::time::{Instant, sleep};

use super::advice;
use super::drain::{Drain, Drained};
use super::keys::Listings;
use super::link::{LinkError, Reply};
use super::links::Links;
use super::pace::{Bucket, Pace};
use super::sight::{Fault, Sight, member_ids, primaries, primary};
use super::value::command;
use crate::domain::{NodeId, Slot, TopologyShard};
use crate::driver::{DriverError, Job};

/// How long the servers may take to agree, and between two looks.
const PATIENCE: Duration = Duration::from_secs(25);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time for a server that is told something it would learn anyway.
const TELL: Duration = Duration::from_millis(500);

/// Slots that get an owner.
pub(super) struct Claim<'a> {
    pub(super) links: &'a Arc<Links>,
    pub(super) job: &'a Job,
    pub(super) to: &'a TopologyShard,
    /// Whose slots they were, and who is not asked: it is lost.
    pub(super) lost: Option<&'a TopologyShard>,
    pub(super) bucket: Arc<Bucket>,
}

/// What is claimed.
#[derive(Clone, Copy)]
pub(super) enum What<'a> {
    /// Slots, without reading any source.
    Assign(&'a [Slot]),
    /// A slot, with all keys of it that any primary has; it is closed everywhere.
    Repair(Slot),
}

/// What is still missing.
type Missing = Result<(), Fault>;

impl Claim<'_> {
    /// Does it, again and again until nothing is missing.
    pub(super) async fn run(&self, what: What<'_>) -> Result<(), DriverError> {
        let start = Instant::now();
        loop {
            self.job.lease.held().await;
            let missing = match what {
                What::Assign(slots) => self.assign_once(slots).await,
                What::Repair(slot) => self.repair_once(slot).await,
            };
            match missing {
                Ok(()) => return Ok(()),
                Err(Fault::Lasting(why)) => return Err(DriverError::Pause(why)),
                Err(Fault::Passing(why)) if start.elapsed() > PATIENCE => return Err(DriverError::Open(why)),
                Err(Fault::Passing(why)) => {
                    advice::tell(self.job, start, || why);
                    sleep(LOOK_EVERY).await;
                }
            }
        }
    }

    async fn assign_once(&self, slots: &[Slot]) -> Missing {
        let target = primary(self.links, Some(&self.job.cluster), self.to, &self.to.primary.id, slots).await?;
        let lost = self.lost.map(member_ids).unwrap_or_default();
        let (mut free, mut taken) = (Vec::new(), Vec::new());
        for slot in slots {
            let end = target.end(*slot);
            match &end.owner {
                Some(owner) if *owner == end.me && end.flag.is_none() => {}
                Some(owner) if *owner == end.me => taken.push(vec![set_slot(*slot, &["STABLE"])]),
                Some(owner) if lost.contains(owner) => taken.push(claim(*slot, owner, &end.me)),
                Some(owner) => {
                    let why = format!("{} says that {owner} owns slot {slot}", target.node);
                    return Err(Fault::Lasting(why));
                }
                None => free.push(*slot),
            }
        }
        if free.is_empty() && taken.is_empty() {
            return self.agreed(&target, slots).await;
        }
        let mut commands: Vec<Cmd> = taken.into_iter().flatten().collect();
        if !free.is_empty() {
            let mut add = command(&["CLUSTER", "ADDSLOTS"]);
            for slot in &free {
                add.arg(slot.get());
            }
            // So that the claim wins over whatever others remember.
            commands.extend([add, command(&["CLUSTER", "BUMPEPOCH"])]);
        }
        self.order(&target, commands).await?;
        self.tell(&target.id, slots, &[]).await;
        Err(Fault::Passing(format!("{} has just been given the slots", target.node)))
    }

    async fn repair_once(&self, slot: Slot) -> Missing {
        let mut sights = self.primaries(&[slot]).await?;
        let at = sights.iter().position(|sight| member_ids(self.to).contains(&sight.id));
        let target = sights.swap_remove(at.ok_or_else(|| Fault::Passing("the owner cannot be asked".to_owned()))?);
        let owned = target.end(slot).owner.as_ref() == Some(&target.id);
        if let Some(other) = sights.iter().find(|other| other.end(slot).keys > 0) {
            self.fetch(slot, other, &target).await?;
            return Err(Fault::Passing(format!("{} has just sent its keys", other.node)));
        }
        let contested = sights.iter().find(|other| other.end(slot).owner.as_ref() == Some(&other.id));
        if !owned || contested.is_some() {
            // Importing from somebody raises the epoch of the claim; any other node will do.
            let from = contested.or(sights.first()).map(|other| other.id.clone());
            let from =
                from.ok_or_else(|| Fault::Lasting("a cluster of one node has nobody to claim from".to_owned()))?;
            let mut commands = claim(slot, &from, &target.id);
            if owned {
                // A server does not import what it owns.
                commands = vec![set_slot(slot, &["STABLE"]), command(&["CLUSTER", "BUMPEPOCH"])];
            }
            self.order(&target, commands).await?;
            let holders: Vec<&Sight> = contested.into_iter().collect();
            self.tell(&target.id, &[slot], &holders).await;
            return Err(Fault::Passing(format!("{} has just claimed slot {slot}", target.node)));
        }
        for sight in sights.iter().chain([&target]).filter(|sight| sight.end(slot).flag.is_some()) {
            self.order(sight, vec![set_slot(slot, &["STABLE"])]).await?;
        }
        self.agreed(&target, &[slot]).await
    }

    /// Moves the keys that another primary has of a slot to the target.
    async fn fetch(&self, slot: Slot, from: &Sight, to: &Sight) -> Missing {
        let end = from.end(slot);
        let owns = end.owner.as_ref() == Some(&from.id);
        // `MIGRATE` works on what a server owns and on what it has open; `RESTORE-ASKING` likewise.
        let target = to.end(slot);
        if target.owner.as_ref() != Some(&to.id) {
            self.order(to, vec![set_slot(slot, &["IMPORTING", from.id.as_str()])]).await?;
        } else if target.flag.is_some() {
            self.order(to, vec![set_slot(slot, &["STABLE"])]).await?;
        }
        let open = if owns { "MIGRATING" } else { "IMPORTING" };
        self.order(from, vec![set_slot(slot, &[open, to.id.as_str()])]).await?;
        let drain = Drain {
            links: self.links,
            job: self.job,
            source: from,
            target: to,
            bucket: &self.bucket,
            trusted: &BTreeMap::new(),
            homeward: !owns,
        };
        match drain.run(&[slot], &mut Listings::new(), &mut Pace::new(self.links.settings().busy)).await?.remove(&slot)
        {
            Some(Drained::Halted(why)) => Err(Fault::Lasting(format!("slot {slot}: {why}"))),
            Some(Drained::Again(why)) => Err(Fault::Passing(why)),
            Some(Drained::Emptied) | None => Ok(()),
        }
    }

    /// All primaries but the lost one's; each must answer.
    async fn primaries(&self, slots: &[Slot]) -> Result<Vec<Sight>, Fault> {
        self.ask_all(slots).await.into_iter().collect()
    }

    /// Whether all that can be asked say that the target owns the slots, and have none of them open.
    async fn agreed(&self, target: &Sight, slots: &[Slot]) -> Missing {
        for sight in self.ask_all(slots).await.into_iter().filter_map(Result::ok) {
            for slot in slots {
                let end = sight.end(*slot);
                if end.owner.as_ref() != Some(&target.id) {
                    self.tell(&target.id, &[*slot], &[]).await;
                    return Err(Fault::Passing(format!(
                        "{} has not heard that {} owns slot {slot}",
                        sight.node, target.node
                    )));
                }
                if let Some(flag) = end.flag {
                    return Err(Fault::Passing(format!("{} has slot {slot} open: {flag}", sight.node)));
                }
            }
        }
        Ok(())
    }

    /// Commands that must be done, one after the other.
    async fn order(&self, at: &Sight, commands: Vec<Cmd>) -> Missing {
        self.job.lease.held().await;
        let link = self.links.shared(&self.job.cluster, &at.node).await?;
        for reply in link.pipeline(commands, link.timeout()).await? {
            reply.map_err(|refusal| Fault::Passing(link.answered(refusal).to_string()))?;
        }
        Ok(())
    }

    /// Tells the other primaries who owns slots; `first` before the rest. They learn it by gossip as well.
    async fn tell(&self, owner: &NodeId, slots: &[Slot], first: &[&Sight]) {
        let commands = || slots.iter().map(|slot| set_slot(*slot, &["NODE", owner.as_str()])).collect::<Vec<_>>();
        for sight in first {
            drop(self.order(sight, commands()).await);
        }
        if !self.job.lease.holds() {
            return;
        }
        let mut told: Vec<BoxFuture<'_, Result<Vec<Reply>, LinkError>>> = Vec::new();
        for shard in self.shards().filter(|shard| shard.primary.id != *owner) {
            let commands = commands();
            told.push(Box::pin(async move {
                let link = self.links.shared(&self.job.cluster, &shard.primary).await?;
                link.pipeline(commands, TELL).await
            }));
        }
        drop(join_all(told).await);
    }

    /// All shards but the lost one.
    fn shards(&self) -> impl Iterator<Item = &TopologyShard> {
        let lost = self.lost.map(|shard| &shard.id);
        self.job.topology.shards.iter().filter(move |shard| Some(&shard.id) != lost)
    }

    async fn ask_all(&self, slots: &[Slot]) -> Vec<Result<Sight, Fault>> {
        let shards: Vec<&TopologyShard> = self.shards().collect();
        primaries(self.links, Some(&self.job.cluster), shards, slots).await
    }
}

/// A claim with a raised epoch: `SETSLOT NODE` raises it when the slot is imported.
fn claim(slot: Slot, from: &NodeId, me: &NodeId) -> Vec<Cmd> {
    vec![set_slot(slot, &["IMPORTING", from.as_str()]), set_slot(slot, &["NODE", me.as_str()])]
}

fn set_slot(slot: Slot, what: &[&str]) -> Cmd {
    let mut set = command(&["CLUSTER", "SETSLOT"]);
    set.arg(slot.get()).arg(what);
    set
}
