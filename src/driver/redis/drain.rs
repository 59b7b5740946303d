//! Moves the keys of open slots with `MIGRATE`, from the server that has them to the other, and says of each slot what
//! came of it. What the replies mean: `cluster.c` of Redis 7.0, `migrateCommand`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Cmd;
use tokio::time::sleep;

use super::advice;
use super::keys::{Key, Listings, list_keys, too_big};
use super::link::{Link, Refusal};
use super::links::Links;
use super::pace::{Bucket, Pace, weight};
use super::sight::{Fault, Sight};
use super::value::{bytes, command, list, text};
use crate::domain::{Slot, advised};
use crate::driver::Job;

/// Keys and bytes of one `MIGRATE`.
const KEYS_MAX: usize = 100;
const BYTES_MAX: u64 = 1 << 20;
/// Time for one write or read of `MIGRATE`: a source that waits longer is taken for dead by the others.
const MIGRATE_MS: u64 = 500;
/// Large values take longer; so many bytes a millisecond are expected at least.
const BYTES_PER_MS: u64 = 10_000;
/// Taken where the server does not tell how long it may be silent.
const NODE_TIMEOUT_MS: u64 = 15_000;
/// How often a batch is tried whose end is not known, before both ends are looked at again.
const TRIES: u32 = 4;
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// What came of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Drained {
    /// Every key that was there when they were listed has moved.
    Emptied,
    /// Look at both ends again.
    Again(String),
    /// A person has to look.
    Halted(String),
}

/// From where to where, and on which conditions.
pub(super) struct Drain<'a> {
    pub(super) links: &'a Arc<Links>,
    pub(super) job: &'a Job,
    pub(super) source: &'a Sight,
    pub(super) target: &'a Sight,
    pub(super) bucket: &'a Bucket,
    /// The source's process when the target was seen without keys of the slot: all that it has since came from there.
    pub(super) trusted: &'a BTreeMap<Slot, String>,
    /// The source does not own the slots, but imports them: keys are taken back.
    pub(super) homeward: bool,
}

/// Keys of one slot that go in one command.
struct Batch {
    slot: Slot,
    keys: Vec<Key>,
    tries: u32,
}

impl Batch {
    fn bytes(&self) -> u64 {
        self.keys.iter().map(|key| key.bytes).sum()
    }

    fn weight(&self) -> u64 {
        self.keys.iter().map(|key| weight(key.bytes)).sum()
    }

    /// Whether the keys of another one may go with these: portions have become larger since they were packed.
    fn takes(&self, more: &Self, weight_max: u64) -> bool {
        self.slot == more.slot
            && more.tries == 0
            && self.keys.len() + more.keys.len() <= KEYS_MAX
            && self.bytes() + more.bytes() <= BYTES_MAX
            && self.weight() + more.weight() <= weight_max
    }
}

impl Drain<'_> {
    /// Moves all keys of the slots. `known`: what has been listed already.
    pub(super) async fn run(
        &self,
        slots: &[Slot],
        known: &mut Listings,
        pace: &mut Pace,
    ) -> Result<BTreeMap<Slot, Drained>, Fault> {
        let link = self.links.own(&self.job.cluster, &self.source.node).await?;
        let mut ends: BTreeMap<Slot, Drained> = BTreeMap::new();
        let big = if self.job.acks.contains("big-key") { u64::MAX } else { self.links.settings().big_key_bytes };
        loop {
            let left = |slot: &&Slot| !ends.contains_key(slot);
            let unlisted: Vec<Slot> =
                slots.iter().filter(left).filter(|slot| !known.contains_key(slot)).copied().collect();
            if !unlisted.is_empty() {
                self.job.lease.held().await;
                known.extend(list_keys(&link, &unlisted, self.links.settings().busy, self.homeward).await?);
            }
            let mut batches = Vec::new();
            for slot in slots.iter().filter(left).copied().collect::<Vec<_>>() {
                let listing = known.remove(&slot).unwrap_or_default();
                if let Some(why) = too_big(&listing, big) {
                    ends.insert(slot, Drained::Halted(why));
                    continue;
                }
                if listing.complete {
                    ends.insert(slot, Drained::Emptied);
                }
                batches.extend(pack(slot, listing.keys.into(), pace.weight_max()));
            }
            if batches.is_empty() {
                return Ok(ends);
            }
            self.send(&link, batches, &mut ends, pace).await?;
            self.links.settings().failpoints.reach("in-drain").await;
        }
    }

    /// Sends batches, a few at a time.
    async fn send(
        &self,
        link: &Link,
        batches: Vec<Batch>,
        ends: &mut BTreeMap<Slot, Drained>,
        pace: &mut Pace,
    ) -> Result<(), Fault> {
        let node_timeout_ms = match batches.iter().map(Batch::bytes).max() {
            Some(bytes) if bytes > BYTES_MAX => node_timeout_ms(link).await?,
            _ => NODE_TIMEOUT_MS,
        };
        let mut batches: std::collections::VecDeque<Batch> = batches.into();
        while !batches.is_empty() {
            let (mut group, mut heavy, mut bytes, mut wait_ms) = (Vec::new(), 0, 0, 0);
            while let Some(next) = batches.front() {
                if !group.is_empty() && heavy + next.weight() > pace.weight_max() {
                    break;
                }
                let mut next = batches.pop_front().expect("it is there");
                // What stopped a slot stops its other batches.
                if matches!(ends.get(&next.slot), Some(Drained::Again(_) | Drained::Halted(_))) {
                    continue;
                }
                while next.tries == 0
                    && batches.front().is_some_and(|more| next.takes(more, pace.weight_max().saturating_sub(heavy)))
                {
                    next.keys.extend(batches.pop_front().expect("it is there").keys);
                }
                (heavy, bytes) = (heavy + next.weight(), bytes + next.bytes());
                wait_ms += migrate_ms(next.bytes(), node_timeout_ms);
                group.push(next);
            }
            self.bucket.take(bytes, self.job.limits.bytes_per_second).await;
            self.job.lease.held().await;
            let commands = group.iter().map(|batch| self.migrate(batch, node_timeout_ms, false)).collect();
            let sent = Instant::now();
            let replies = link.pipeline(commands, link.timeout() + Duration::from_millis(4 * wait_ms)).await?;
            pace.learn(heavy, sent.elapsed());
            for (mut batch, reply) in group.into_iter().zip(replies) {
                let Err(refusal) = reply else { continue };
                match judge(&refusal) {
                    Verdict::Conflict => {
                        if let Some(end) = self.reconcile(link, &batch, node_timeout_ms).await? {
                            ends.insert(batch.slot, end);
                        }
                    }
                    // Both ends may have the keys now. What the source still has is sent once more; where the target has
                    // it too, it says so.
                    Verdict::Unknown if batch.tries < TRIES => {
                        batch.tries += 1;
                        sleep(TRY_AGAIN * batch.tries).await;
                        batches.push_back(batch);
                    }
                    Verdict::Unknown | Verdict::Again => {
                        ends.insert(batch.slot, Drained::Again(self.told(&refusal)));
                    }
                    // A target that was started anew has lost the user of the term: it is let in again when it is looked at.
                    Verdict::Denied
                        if !refusal.text().contains("NOPERM") && self.links.is_fenced(&self.job.cluster) =>
                    {
                        ends.insert(batch.slot, Drained::Again(self.told(&refusal)));
                    }
                    Verdict::Denied => {
                        ends.insert(batch.slot, Drained::Halted(self.told(&refusal)));
                    }
                }
            }
        }
        Ok(())
    }

    fn told(&self, refusal: &Refusal) -> String {
        let why = format!("{} answered to MIGRATE to {}: {refusal}", self.source.node, self.target.node);
        advised(&why, advice::of_refusal(refusal))
    }

    fn migrate(&self, batch: &Batch, node_timeout_ms: u64, replace: bool) -> Cmd {
        let to = &self.target.node;
        let mut migrate = command(&["MIGRATE", to.host.as_str()]);
        migrate.arg(to.port).arg("").arg(0).arg(migrate_ms(batch.bytes(), node_timeout_ms));
        if replace {
            migrate.arg("REPLACE");
        }
        if let Some(credentials) = self.links.credentials(Some(&self.job.cluster)) {
            match &credentials.username {
                Some(username) => migrate.arg("AUTH2").arg(username).arg(credentials.password.expose()),
                None => migrate.arg("AUTH").arg(credentials.password.expose()),
            };
        }
        migrate.arg("KEYS");
        for key in &batch.keys {
            migrate.arg(key.name.as_slice());
        }
        migrate
    }

    /// Both ends have keys of the batch; the others of it have moved. The target's copies are replaced where they are
    /// equal, or where the source's are known to be the newer ones; else a person has to say.
    async fn reconcile(&self, link: &Link, batch: &Batch, node_timeout_ms: u64) -> Result<Option<Drained>, Fault> {
        if let Some(key) = self.different(link, batch).await?
            && let Err(why) = self.source_is_newer(batch.slot).await?
        {
            let (here, there) = (&self.source.node, &self.target.node);
            let why = format!(
                "the key {} is on {here} and on {there} with different values, and which is the newer one cannot be told: {why}",
                super::value::shown(&key)
            );
            return Ok(Some(Drained::Halted(advised(&why, &advice::of_two_values(&key, here, there)))));
        }
        self.job.lease.held().await;
        let replace = self.migrate(batch, node_timeout_ms, true);
        let wait = link.timeout() + Duration::from_millis(4 * migrate_ms(batch.bytes(), node_timeout_ms));
        Ok(match link.ask(&replace, wait).await? {
            Ok(_) => None,
            Err(refusal) => Some(Drained::Again(self.told(&refusal))),
        })
    }

    /// A key whose copies differ, or are too large to compare.
    async fn different(&self, link: &Link, batch: &Batch) -> Result<Option<Vec<u8>>, Fault> {
        let there = self.links.shared(&self.job.cluster, &self.target.node).await?;
        for key in &batch.keys {
            if key.bytes > self.links.settings().big_key_bytes {
                return Ok(Some(key.name.clone()));
            }
            // The source first: what it does not have is no conflict.
            let mine = copy_of(link, key, self.homeward).await?;
            let Some(mine) = mine else { continue };
            let Some(theirs) = copy_of(&there, key, !self.homeward).await? else { continue };
            if mine != theirs {
                return Ok(Some(key.name.clone()));
            }
        }
        Ok(None)
    }

    /// Whether what the source has is newer than what the target has. It is as long as clients are sent on to the target
    /// only for keys that the source gave away, for good: it has the slot migrating, and
    /// - it is the process that it was when the target had no key of the slot, or
    /// - it writes its log before it answers (`appendfsync always`). Then a client was sent on only after the log said
    ///   that the key was deleted: `beforeSleep` of Redis 7.0 calls `flushAppendOnlyFile` before
    ///   `handleClientsWithPendingWrites`. What it has after a restart, nobody was sent on for.
    ///
    /// A replica that took over has no flag, and keys that its primary had given away: never newer.
    async fn source_is_newer(&self, slot: Slot) -> Result<Result<(), String>, Fault> {
        if self.homeward {
            return Ok(Err("the slot is being taken back".to_owned()));
        }
        let link = self.links.shared(&self.job.cluster, &self.source.node).await?;
        let now = Sight::take(&link, &self.source.node, &[slot]).await?;
        let at = &self.source.node;
        if now.id != self.source.id || !now.is_master || !now.migrates(slot) {
            return Ok(Err(format!("{at} has not had the slot migrating all the time")));
        }
        if self.trusted.get(&slot) == Some(&now.run_id) || writes_log_first(&link).await? {
            return Ok(Ok(()));
        }
        Ok(Err(format!("{at} was started anew, or another controller began the move")))
    }
}

/// What a refusal of `MIGRATE` means.
enum Verdict {
    Conflict,
    Unknown,
    Again,
    Denied,
}

fn judge(refusal: &Refusal) -> Verdict {
    let text = refusal.text();
    if text.contains("BUSYKEY") {
        Verdict::Conflict
    } else if refusal.code() == "IOERR" {
        Verdict::Unknown
    } else if refusal.denies() || ["NOAUTH", "WRONGPASS", "NOPERM"].iter().any(|word| text.contains(word)) {
        Verdict::Denied
    } else {
        // MOVED: the target lost what it had set. OOM, LOADING, CLUSTERDOWN: it may pass.
        Verdict::Again
    }
}

/// Packs keys of one slot.
fn pack(slot: Slot, keys: Vec<Key>, weight_max: u64) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for key in keys {
        let fits = |batch: &Batch| {
            batch.keys.len() < KEYS_MAX
                && batch.bytes() + key.bytes <= BYTES_MAX
                && batch.weight() + weight(key.bytes) <= weight_max
        };
        match batches.last_mut() {
            Some(batch) if fits(batch) => batch.keys.push(key),
            _ => batches.push(Batch { slot, keys: vec![key], tries: 0 }),
        }
    }
    batches
}

fn migrate_ms(bytes: u64, node_timeout_ms: u64) -> u64 {
    (MIGRATE_MS + bytes.saturating_sub(BYTES_MAX) / BYTES_PER_MS).min(node_timeout_ms / 2).max(1)
}

async fn node_timeout_ms(link: &Link) -> Result<u64, Fault> {
    Ok(setting(link, "cluster-node-timeout").await?.and_then(|text| text.parse().ok()).unwrap_or(NODE_TIMEOUT_MS))
}

async fn writes_log_first(link: &Link) -> Result<bool, Fault> {
    Ok(setting(link, "appendonly").await?.as_deref() == Some("yes")
        && setting(link, "appendfsync").await?.as_deref() == Some("always"))
}

/// A setting of the server; none where it is not told.
async fn setting(link: &Link, name: &str) -> Result<Option<String>, Fault> {
    let reply = link.ask(&command(&["CONFIG", "GET", name]), link.timeout()).await?;
    let value = reply.ok();
    Ok(value.as_ref().and_then(list).and_then(|pair| text(pair.get(1)?)).map(str::to_owned))
}

/// A key's value, as it would be sent, and when it expires, to about a second.
#[derive(Debug)]
struct Copied {
    dump: Vec<u8>,
    digest: Option<String>,
    expires_ms: i64,
}

impl PartialEq for Copied {
    fn eq(&self, other: &Self) -> bool {
        const SLACK_MS: u64 = 2_000;
        let lives = |copied: &Self| copied.expires_ms < 0;
        let expires = lives(self) == lives(other) && self.expires_ms.abs_diff(other.expires_ms) <= SLACK_MS;
        // Equal values need not be equal in their form.
        let digest = self.digest.is_some() && self.digest == other.digest;
        expires && (self.dump == other.dump || digest)
    }
}

async fn copy_of(link: &Link, key: &Key, asking: bool) -> Result<Option<Copied>, Fault> {
    // What is dumped may take more than it does in memory, by little.
    link.expect(2 * key.bytes + (32 << 20));
    let mut commands = Vec::new();
    for words in [&["DUMP"][..], &["PEXPIRETIME"], &["DEBUG", "DIGEST-VALUE"]] {
        if asking {
            commands.push(command(&["ASKING"]));
        }
        let mut ask = command(words);
        ask.arg(key.name.as_slice());
        commands.push(ask);
    }
    let replies = link.pipeline(commands, link.timeout() + Duration::from_secs(10)).await?;
    let mut told = replies.into_iter().skip(usize::from(asking)).step_by(if asking { 2 } else { 1 });
    let (dump, expires, digest) = (told.next(), told.next(), told.next());
    let dump = match dump {
        Some(Ok(dump)) => dump,
        // The key is not there any more, and the server sends us on.
        Some(Err(refusal)) if matches!(refusal.code(), "ASK" | "MOVED") => return Ok(None),
        Some(Err(refusal)) => return Err(link.answered(refusal).into()),
        None => return Err(link.unexpected("reply to DUMP").into()),
    };
    let Some(dump) = bytes(&dump).map(<[u8]>::to_vec) else { return Ok(None) };
    let expires_ms = match expires {
        Some(Ok(redis::Value::Int(at))) => at,
        _ => -1,
    };
    let digest = digest.and_then(Result::ok);
    let digest = digest.as_ref().and_then(list).and_then(|digests| text(digests.first()?)).map(str::to_owned);
    Ok(Some(Copied { dump, digest, expires_ms }))
}
