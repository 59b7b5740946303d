//! The steps of a move, each for all slots that are at it, in one pipeline per server.

use futures::future::{BoxFuture, join_all};
use redis::Cmd;
use tokio::time::{Duration, timeout};

use super::classic::{Mover, Pair, Todo, Way};
use super::drain::Drain;
use super::keys::{Listings, list_keys, too_big};
use super::link::{LinkError, Reply};
use super::pace::at_once;
use super::protocol::Step;
use super::sight::{Fault, Sight};
use super::value::command;
use crate::domain::{NodeId, Slot};

/// Other masters are told of a new owner; those that do not answer learn it by gossip.
const ANNOUNCE: Duration = Duration::from_millis(500);
/// Keys listed before a batch is opened: what was listed need not be listed again.
const LISTED_BEFORE: u64 = 20_000;

/// A look allows the target to take slots for so long: far less than the time after which a replica takes over, who would not
/// have what the look saw.
const LOOK_HOLDS: Duration = Duration::from_secs(1);

/// About what one `SETSLOT` takes, with what the server does after it; it answers nobody else meanwhile.
const SETTING: Duration = Duration::from_micros(60);

/// What `SETSLOT` is told.
#[derive(Clone, Copy)]
enum Set<'a> {
    Importing(&'a NodeId),
    Migrating(&'a NodeId),
    Node(&'a NodeId),
    Stable,
}

impl Mover<'_> {
    /// Lists the keys of slots that are about to be opened: `Some` when one must not be moved without a person's word, so
    /// that nothing is opened that cannot be moved.
    pub(super) async fn first_look_at_keys(&mut self, pair: &Pair, todo: &Todo) -> Option<String> {
        let mut room = LISTED_BEFORE;
        let mut slots = Vec::new();
        for slot in &todo[&(Way::Straight, Step::Import)] {
            let keys = pair.source.end(*slot).keys;
            if keys > 0 && keys <= room {
                room -= keys;
                slots.push(*slot);
            }
        }
        if slots.is_empty() {
            return None;
        }
        let listed = async {
            let link = self.links.own(&self.job.cluster, &pair.source.node).await?;
            list_keys(&link, &slots, self.links.settings().busy, false).await
        };
        // A fault here is met again where it counts.
        let listings: Listings = listed.await.ok()?;
        if !self.job.acks.contains("big-key") {
            let limit = self.links.settings().big_key_bytes;
            let big = listings.iter().find_map(|(slot, listing)| Some((slot, too_big(listing, limit)?)));
            if let Some((slot, why)) = big {
                return Some(format!("slot {slot}: {why}"));
            }
        }
        self.listings = listings;
        None
    }

    /// Does what is to be done, as far as it may be done without another look.
    pub(super) async fn advance(&mut self, pair: &Pair, todo: &Todo) -> Result<(), Fault> {
        for way in [Way::Straight, Way::Exchanged, Way::Homeward] {
            let (source, target) = match way {
                Way::Straight | Way::Homeward => (&pair.source, &pair.target),
                Way::Exchanged => (&pair.target, &pair.source),
            };
            let take = |step: Step| todo.get(&(way, step)).cloned().unwrap_or_default();
            // Straight after the look that allowed it.
            let owned = self.set(target, take(Step::Own), Set::Node(&target.id), "own").await?;
            let release = take(Step::Release);
            if !release.is_empty() && target.config_epoch() <= source.config_epoch() {
                // It took the slot without raising its claim: to everybody else the source would go on owning it.
                self.raise(target).await?;
            }
            let release = [owned, release].concat();
            if !release.is_empty() {
                let told = self.announce(&release, pair, &target.id);
                let (released, ()) =
                    futures::join!(self.send(source, &release, Set::Node(&target.id), "release"), told);
                self.judge(&release, released)?;
            }
            self.set(source, take(Step::CloseSource), Set::Stable, "close-source").await?;
            self.set(target, take(Step::CloseTarget), Set::Stable, "close-target").await?;

            let importing = take(Step::Import);
            // A server that imports a slot does not take news of its owner from the others: after a failover it goes on
            // calling the old primary the owner, and the cluster down.
            let stale = importing.iter().filter(|slot| target.end(**slot).owner.as_ref() != Some(&source.id));
            self.set(target, stale.copied().collect(), Set::Node(&source.id), "import").await?;
            self.opens(&importing);
            let imported = self.set(target, importing, Set::Importing(&source.id), "import").await?;
            if way == Way::Homeward {
                // The keys come from the target to the source, which owns the slots.
                let drained = [imported, take(Step::Drain)].concat();
                self.drain(target, source, &drained, true).await?;
                continue;
            }
            let migrating = [imported, take(Step::Migrate)].concat();
            self.opens(&migrating);
            let opened = self.set(source, migrating, Set::Migrating(&target.id), "migrate").await?;
            // A slot that was empty when it was looked at is looked at again before it is given away.
            let filled = opened.into_iter().filter(|slot| source.end(*slot).keys > 0).collect();
            self.drain(source, target, &[filled, take(Step::Drain)].concat(), false).await?;
        }
        Ok(())
    }

    async fn drain(&mut self, source: &Sight, target: &Sight, slots: &[Slot], homeward: bool) -> Result<(), Fault> {
        if slots.is_empty() {
            return Ok(());
        }
        let failpoints = self.links.settings().failpoints.clone();
        failpoints.reach("before-drain").await;
        let (mut listings, mut pace) = (std::mem::take(&mut self.listings), self.pace.clone());
        let drain = Drain {
            links: self.links,
            job: self.job,
            source,
            target,
            bucket: &self.bucket,
            trusted: &self.trusted,
            homeward,
        };
        let drained = drain.run(slots, &mut listings, &mut pace).await;
        self.pace = pace;
        self.note_drained(drained?);
        failpoints.reach("after-drain").await;
        Ok(())
    }

    /// Sets slots at one server; those for which it agreed.
    async fn set(
        &mut self,
        at: &Sight,
        slots: Vec<Slot>,
        what: Set<'_>,
        step: &'static str,
    ) -> Result<Vec<Slot>, Fault> {
        if slots.is_empty() {
            return Ok(slots);
        }
        let answers = self.send(at, &slots, what, step).await;
        self.judge(&slots, answers)
    }

    async fn raise(&self, at: &Sight) -> Result<(), Fault> {
        let link = self.links.shared(&self.job.cluster, &at.node).await?;
        self.job.lease.held().await;
        link.call(&command(&["CLUSTER", "BUMPEPOCH"])).await?;
        Ok(())
    }

    fn judge(&mut self, slots: &[Slot], answers: Result<Vec<Option<String>>, Fault>) -> Result<Vec<Slot>, Fault> {
        let mut agreed = Vec::with_capacity(slots.len());
        for (slot, refused) in slots.iter().zip(answers?) {
            match refused {
                None => agreed.push(*slot),
                // Whatever it was: the next look tells how it stands.
                Some(why) => drop(self.refused.insert(*slot, why)),
            }
        }
        Ok(agreed)
    }

    /// Sends `SETSLOT` for slots to one server; what it refused, by slot.
    async fn send(
        &self,
        at: &Sight,
        slots: &[Slot],
        what: Set<'_>,
        step: &'static str,
    ) -> Result<Vec<Option<String>>, Fault> {
        let failpoints = &self.links.settings().failpoints;
        failpoints.reach(before(step)).await;
        let link = self.links.shared(&self.job.cluster, &at.node).await?;
        self.job.lease.held().await;
        if step == "own" && at.taken.elapsed() > LOOK_HOLDS {
            return Err(Fault::Passing("the look that allowed it is too old".to_owned()));
        }
        let mut replies = Vec::with_capacity(slots.len());
        for few in slots.chunks(at_once(self.links.settings().busy, SETTING)) {
            let commands = few.iter().map(|slot| set_slot(*slot, what)).collect();
            replies.extend(link.pipeline(commands, link.timeout()).await?);
        }
        let mut refused = Vec::with_capacity(slots.len());
        for reply in replies {
            match reply {
                Ok(_) => refused.push(None),
                Err(refusal) if refusal.denies() => return Err(link.answered(refusal).into()),
                Err(refusal) => refused.push(Some(format!("{} answered to SETSLOT: {refusal}", at.node))),
            }
        }
        failpoints.reach(after(step)).await;
        Ok(refused)
    }

    /// Tells the other masters of the new owner. They learn it by gossip as well, but later.
    async fn announce(&self, slots: &[Slot], pair: &Pair, owner: &NodeId) {
        let failpoints = &self.links.settings().failpoints;
        failpoints.reach("before-announce").await;
        let known = [&pair.source.id, &pair.target.id];
        let others =
            self.job.topology.shards.iter().map(|shard| &shard.primary).filter(|node| !known.contains(&&node.id));
        if !self.job.lease.holds() {
            return;
        }
        let mut told: Vec<BoxFuture<'_, Result<Vec<Reply>, LinkError>>> = Vec::new();
        for node in others {
            let commands = slots.iter().map(|slot| set_slot(*slot, Set::Node(owner))).collect();
            told.push(Box::pin(async move {
                let link = self.links.shared(&self.job.cluster, node).await?;
                link.pipeline(commands, ANNOUNCE).await
            }));
        }
        drop(timeout(ANNOUNCE, join_all(told)).await);
        failpoints.reach("after-announce").await;
    }
}

fn set_slot(slot: Slot, what: Set<'_>) -> Cmd {
    let mut set = command(&["CLUSTER", "SETSLOT"]);
    set.arg(slot.get());
    match what {
        Set::Importing(node) => set.arg("IMPORTING").arg(node.as_str()),
        Set::Migrating(node) => set.arg("MIGRATING").arg(node.as_str()),
        Set::Node(node) => set.arg("NODE").arg(node.as_str()),
        Set::Stable => set.arg("STABLE"),
    };
    set
}

fn before(step: &str) -> &'static str {
    match step {
        "import" => "before-import",
        "migrate" => "before-migrate",
        "own" => "before-own",
        "release" => "before-release",
        "close-source" => "before-close-source",
        _ => "before-close-target",
    }
}

fn after(step: &str) -> &'static str {
    match step {
        "import" => "after-import",
        "migrate" => "after-migrate",
        "own" => "after-own",
        "release" => "after-release",
        "close-source" => "after-close-source",
        _ => "after-close-target",
    }
}
