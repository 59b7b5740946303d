//! Moving slots where the servers do it by themselves, whole: `CLUSTER MIGRATESLOTS` of Valkey 9 (asked of the source) and
//! `CLUSTER MIGRATION IMPORT` of Redis 8.4 (asked of the target). Pure: from what the servers say of their tasks and of who
//! owns the slots to the next step. Ownership alone tells that a move is done; a task only tells why it is not.
//!
//! Sources: for Valkey the server itself (9.1.2) and its `cluster_migrateslots.c`; for Redis the reply schema of its command
//! (`src/commands/cluster-migration.json`) and its documentation.

use crate::domain::{NodeId, SlotRange, SlotSet};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Valkey 9: the source exports.
    Valkey,
    /// Redis 8.4: the target imports.
    Redis,
}

/// A task as a server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub id: String,
    /// Its slots.
    pub slots: SlotSet,
    /// Where they come from.
    pub source: String,
    /// Where they go to.
    pub target: String,
    /// The server's word for how far it is.
    pub state: String,
    /// Why it is not farther.
    pub message: String,
    /// When it was created, in Unix seconds.
    pub created_s: u64,
    /// How often the server has tried it again by itself.
    pub retries: u64,
}

/// What to do next for the slots of one action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask for the move of what is left.
    Start,
    /// Look again later: a task is under way. Its words, for who asks why it takes so long.
    Wait(String),
    /// Look again later: one end has heard of the hand-over, the other has not.
    Settle,
    /// The server tries the same again and again: end the task, then give up for this reason.
    Cancel(String, String),
    /// Every slot is where it is to be.
    Done,
}

/// Where slots are on their way to a target, by what both ends say; the others have arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whereabouts {
    /// Neither end says that the target owns them.
    pub left: SlotSet,
    /// One end says so, the other does not.
    pub between: SlotSet,
}

/// Times a server may try again, and times a task may be started anew, before it is given up.
pub const FAILURES_MAX: u64 = 5;

/// Times of [`Next::Start`] that came to nothing, and what was said the last time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// How many in a row with the same words.
    pub count: u64,
    /// The words.
    pub message: String,
    /// The newest task that was counted.
    counted: Option<String>,
}

impl Failures {
    /// Counts a failed task, once.
    fn count(&mut self, task: &Task) {
        if self.counted.as_deref() != Some(&task.id) {
            self.count = if self.message == task.message { self.count + 1 } else { 1 };
            self.message.clone_from(&task.message);
            self.counted = Some(task.id.clone());
        }
    }
}

/// A move of slots that is asked for until it has come about, or has failed too often.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// Which way.
    pub dialect: Dialect,
    /// All slots of the action.
    pub slots: &'a SlotSet,
    /// Where they are to go.
    pub target: &'a NodeId,
    /// Times that the same may fail.
    pub failures_max: u64,
}

impl Asked<'_> {
    /// The next step. `tasks` are all that the server lists which was or would be asked, the newest first; they were listed
    /// before both ends were asked where the slots are.
    ///
    /// # Errors
    /// Why it is given up; no task of it is under way then.
    pub fn next(&self, at: &Whereabouts, tasks: &[Task], failures: &mut Failures) -> Result<Next, String> {
        if at.left.is_empty() && at.between.is_empty() {
            return Ok(Next::Done);
        }
        let ours = |task: &&Task| task.target == self.target.as_str() && overlap(&task.slots, self.slots);
        let ours: Vec<&Task> = tasks.iter().filter(ours).collect();
        if let Some(task) = ours.iter().find(|task| !self.dialect.has_ended(task)) {
            return Ok(match self.dialect {
                // Redis tries again by itself, for ever.
                Dialect::Redis if task.state == "failed" && task.retries >= FAILURES_MAX => {
                    let why = format!("the target tried {} times: {}", task.retries, said(task));
                    Next::Cancel(task.id.clone(), why)
                }
                _ => Next::Wait(said(task)),
            });
        }
        if !at.between.is_empty() {
            return Ok(Next::Settle);
        }
        // Times are told in seconds: of tasks of one second the first in the list is the newest. One that came to its end
        // says nothing of slots that have gone back since.
        let newest = ours.iter().rev().max_by_key(|task| task.created_s);
        if let Some(task) = newest.filter(|task| !self.dialect.has_succeeded(task)) {
            failures.count(task);
            if failures.count >= self.failures_max {
                return Err(format!("the servers gave up {}: {}", times(failures.count), said(task)));
            }
        }
        Ok(Next::Start)
    }
}

impl Dialect {
    /// Whether a task goes no further.
    #[must_use]
    pub fn has_ended(self, task: &Task) -> bool {
        let ends: &[&str] = match self {
            Self::Valkey => &["success", "failed", "cancelled"],
            Self::Redis => &["completed", "canceled"],
        };
        ends.contains(&task.state.as_str())
    }

    fn has_succeeded(self, task: &Task) -> bool {
        task.state == if self == Self::Valkey { "success" } else { "completed" }
    }

    /// Whether one of the tasks has stopped writes: a source that was made to forget it would take writes again, while the
    /// target may own the slots already.
    #[must_use]
    pub fn hands_over(self, tasks: &[Task]) -> bool {
        self == Self::Valkey && tasks.iter().any(|task| ["failover-paused", "failover-granted"].contains(&&*task.state))
    }

    /// Whether a state, as in [`Next::Wait`], may last as long as there is data to send; the others pass in a moment, or do
    /// not pass.
    #[must_use]
    pub fn may_last(self, said: &str) -> bool {
        self == Self::Redis || ["snapshotting", "waiting-to-snapshot"].contains(&said)
    }
}

/// The slots as `start end` pairs, as both commands take them.
#[must_use]
pub fn pairs(slots: &SlotSet) -> Vec<(u16, u16)> {
    slots.ranges().iter().map(|range| (range.first().get(), range.last().get())).collect()
}

/// Reads `0-5 7-7` or `0-5 7`, as the servers list the slots of a task.
///
/// # Errors
/// What is no range.
pub fn slots(text: &str) -> Result<SlotSet, String> {
    let mut slots = SlotSet::default();
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
        let range: SlotRange = word.parse().map_err(|fault| format!("{word:?} in the slots of a task: {fault}"))?;
        slots.insert_range(range);
    }
    Ok(slots)
}

fn said(task: &Task) -> String {
    let state = task.state.escape_debug();
    if task.message.is_empty() { state.to_string() } else { format!("{state}: {}", task.message.escape_debug()) }
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn overlap(some: &SlotSet, others: &SlotSet) -> bool {
    some.iter().any(|slot| others.contains(slot))
}

#[cfg(test)]
mod tests;
