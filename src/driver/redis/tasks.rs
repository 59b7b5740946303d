//! Moves a batch of slots where both servers can do it by themselves: asks for it, waits, and believes only who owns the
//! slots. [`atomic`] says what comes next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::{Instant, sleep};

use super::atomic::{self, Dialect, Failures, Next, Task};
use super::link::Link;
use super::links::Links;
use super::sight::{Fault, Sight, primary};
use super::value::{bytes, command, list, number, text};
use crate::domain::{Slot, SlotSet, TopologyShard};
use crate::driver::{DriverError, Job};

/// How long an end may be away before it is told.
const PATIENCE: Duration = Duration::from_secs(25);
/// Pause between two looks, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How both ends move slots by themselves, in the same way; none when they do not, or when one of the slots is open: what was
/// begun in the classic way is ended in it.
pub(super) async fn dialect(
    links: &Links,
    job: &Job,
    (from, to): (&TopologyShard, &TopologyShard),
    slots: &[Slot],
) -> Result<Option<Dialect>, Fault> {
    let looks = futures::join!(
        primary(links, Some(&job.cluster), from, &from.primary.id, &[]),
        primary(links, Some(&job.cluster), to, &to.primary.id, &[])
    );
    let (source, target) = (looks.0?, looks.1?);
    let open = |sight: &Sight| slots.iter().any(|slot| sight.view.flag(*slot).is_some());
    if open(&source) || open(&target) {
        return Ok(None);
    }
    let spoken = futures::join!(speaks(links, job, &source), speaks(links, job, &target));
    let (here, there) = (spoken.0?, spoken.1?);
    Ok(here.filter(|_| here == there))
}

/// What a server's `CLUSTER HELP` tells that it can do.
async fn speaks(links: &Links, job: &Job, at: &Sight) -> Result<Option<Dialect>, Fault> {
    let link = links.shared(&job.cluster, &at.node).await?;
    let help = link.ask(&command(&["CLUSTER", "HELP"]), link.timeout()).await?.ok();
    let told = help.as_ref().and_then(list).unwrap_or_default();
    let knows = |word: &str| told.iter().filter_map(text).any(|line| line.split_whitespace().next() == Some(word));
    Ok(if knows("MIGRATESLOTS") {
        Some(Dialect::Valkey)
    } else if knows("MIGRATION") {
        Some(Dialect::Redis)
    } else {
        None
    })
}

/// A batch of slots that the servers move.
pub(super) struct Whole<'a> {
    pub(super) links: &'a Arc<Links>,
    pub(super) job: &'a Job,
    pub(super) from: &'a TopologyShard,
    pub(super) to: &'a TopologyShard,
    pub(super) dialect: Dialect,
}

/// Both ends, and what is not at the target yet.
struct Look {
    source: Sight,
    target: Sight,
    left: SlotSet,
    tasks: Vec<Task>,
}

impl Whole<'_> {
    /// Moves the slots, or tells why they are where they are.
    pub(super) async fn run(self, slots: &[Slot]) -> Result<(), DriverError> {
        let slots: SlotSet = slots.iter().copied().collect();
        let (mut failures, mut refusals) = (Failures::default(), 0);
        let (mut seen, mut pause, mut ends) = (Instant::now(), PAUSE.0, None);
        loop {
            self.job.lease.held().await;
            let next = match self.look(&slots).await {
                Ok(look) => {
                    seen = Instant::now();
                    let next =
                        atomic::next(self.dialect, &slots, &look.target.id, &look.left, &look.tasks, &mut failures);
                    let next = next.or_else(|why| if look.left.is_empty() { Ok(Next::Done) } else { Err(why) });
                    self.act(next, &look, &slots, &mut ends, &mut refusals).await
                }
                Err(fault) => Err(Ended::Fault(fault)),
            };
            match next {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(Ended::Given(error)) => return Err(error),
                Err(Ended::Fault(fault)) => {
                    if matches!(fault, Fault::Lasting(_)) || seen.elapsed() >= PATIENCE {
                        let why = fault.why();
                        return Err(DriverError::Open(format!("the servers move slots {slots} by themselves: {why}")));
                    }
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Does what comes next; true when all is done. `ends` is why the move is being given up.
    async fn act(
        &self,
        next: Result<Next, String>,
        look: &Look,
        slots: &SlotSet,
        ends: &mut Option<String>,
        refusals: &mut u64,
    ) -> Result<bool, Ended> {
        let whole = look.left == *slots;
        let given_up = |why: String| {
            // All or nothing, and nothing it is; else a person has to look.
            Ended::Given(if whole { DriverError::Halt(why) } else { DriverError::Open(why) })
        };
        match next {
            Ok(Next::Done) => Ok(true),
            Ok(Next::Wait(_)) => Ok(false),
            Ok(Next::Start) => {
                if let Some(why) = ends.take() {
                    return Err(given_up(why));
                }
                let busy = |task: &&Task| !matches!(task.state.as_str(), "completed" | "canceled");
                if self.dialect == Dialect::Redis && look.tasks.iter().any(|task| busy(&task)) {
                    // A server has one task at a time.
                    return Ok(false);
                }
                let Err(refused) = self.start(look).await? else {
                    *refusals = 0;
                    return Ok(false);
                };
                *refusals += 1;
                if *refusals >= atomic::FAILURES_MAX { Err(given_up(refused)) } else { Ok(false) }
            }
            Ok(Next::Cancel(id, why)) => {
                let link = self.links.shared(&self.job.cluster, &look.target.node).await.map_err(Fault::from)?;
                let mut cancel = command(&["CLUSTER", "MIGRATION", "CANCEL", "ID"]);
                cancel.arg(id);
                link.call(&cancel).await.map_err(Fault::from)?;
                *ends = Some(why);
                Ok(false)
            }
            Err(why) => Err(given_up(why)),
        }
    }

    async fn look(&self, slots: &SlotSet) -> Result<Look, Fault> {
        let (links, cluster) = (self.links, &self.job.cluster);
        let (source, target) = futures::join!(
            primary(links, Some(cluster), self.from, &self.from.primary.id, &[]),
            primary(links, Some(cluster), self.to, &self.to.primary.id, &[])
        );
        let (source, target) = (source?, target?);
        let asked = if self.dialect == Dialect::Valkey { &source } else { &target };
        let link = links.shared(cluster, &asked.node).await?;
        // Before ownership: a task that ends in between is seen as under way, and looked at again.
        let tasks = tasks(self.dialect, &link).await?;
        let (source, target) = (
            Sight::take(&*links.shared(cluster, &source.node).await?, &source.node, &[]).await?,
            Sight::take(&*links.shared(cluster, &target.node).await?, &target.node, &[]).await?,
        );
        let there = |sight: &Sight, slot| sight.view.owner(slot).is_some_and(|owner| owner.id == target.id);
        let left = slots.iter().filter(|slot| !there(&target, *slot) || !there(&source, *slot)).collect();
        for slot in slots.iter() {
            let owner = target.view.owner(slot).map(|owner| owner.id.clone());
            if owner.as_ref().is_some_and(|owner| *owner != source.id && *owner != target.id) {
                let owner = owner.expect("it was just looked at");
                return Err(Fault::Lasting(format!("{} says that {owner} owns slot {slot}", target.node)));
            }
        }
        Ok(Look { source, target, left, tasks })
    }

    /// Asks for the slots that are left; what the server refused.
    async fn start(&self, look: &Look) -> Result<Result<(), String>, Fault> {
        let (at, mut start) = match self.dialect {
            Dialect::Valkey => (&look.source, command(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"])),
            Dialect::Redis => (&look.target, command(&["CLUSTER", "MIGRATION", "IMPORT"])),
        };
        for (first, last) in atomic::pairs(&look.left) {
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
}

/// Why the loop does not simply go on.
enum Ended {
    Given(DriverError),
    Fault(Fault),
}

impl From<Fault> for Ended {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What a server lists of its own side: exports of a source, imports of a target.
async fn tasks(dialect: Dialect, link: &Link) -> Result<Vec<Task>, Fault> {
    let (ask, side) = match dialect {
        Dialect::Valkey => (command(&["CLUSTER", "GETSLOTMIGRATIONS"]), "EXPORT"),
        Dialect::Redis => (command(&["CLUSTER", "MIGRATION", "STATUS", "ALL"]), "import"),
    };
    let reply = link.call(&ask).await?;
    let mut tasks = Vec::new();
    for entry in list(&reply).ok_or_else(|| Fault::from(link.unexpected("list of tasks")))? {
        let fields = fields(entry);
        let word = |name: &str| fields.get(name).and_then(|value| text(value)).unwrap_or_default().to_owned();
        if word("operation") != side {
            continue;
        }
        let (id, slots, source, target, message) = match dialect {
            Dialect::Valkey => {
                (word("name") + &word("link_name"), "slot_ranges", "source_node", "target_node", "message")
            }
            Dialect::Redis => (word("id"), "slots", "source", "dest", "last_error"),
        };
        let slots = atomic::slots(&word(slots)).map_err(|why| Fault::Lasting(format!("{}: {why}", link.at())))?;
        let count = |name: &str| fields.get(name).and_then(|value| number(value)).unwrap_or(0);
        tasks.push(Task {
            id,
            slots,
            source: word(source),
            target: word(target),
            state: word("state"),
            message: word(message),
            created_s: count("create_time"),
            retries: count("retries"),
        });
    }
    Ok(tasks)
}

/// The fields of a map, which RESP2 gives as a list of names and values in turn.
fn fields(entry: &Value) -> BTreeMap<String, &Value> {
    let name = |value: &Value| bytes(value).map(|name| String::from_utf8_lossy(name).into_owned());
    match entry {
        Value::Map(pairs) => pairs.iter().filter_map(|(key, value)| Some((name(key)?, value))).collect(),
        other => {
            let parts = list(other).unwrap_or_default();
            parts.chunks_exact(2).filter_map(|pair| Some((name(&pair[0])?, &pair[1]))).collect()
        }
    }
}
