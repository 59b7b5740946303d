//! Moving slots where the servers do it by themselves, whole: `CLUSTER MIGRATESLOTS` of Valkey 9 (asked of the source) and
//! `CLUSTER MIGRATION IMPORT` of Redis 8.4 (asked of the target). Pure: from what the servers say of their tasks and of who
//! owns the slots to the next step. Ownership alone tells that a move is done; a task only tells why it is not.
//!
//! Source: the reply schemas of both commands in their servers' repositories (`src/commands/cluster-*.json`), and their
//! documentation.

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
    /// Ask for the move.
    Start,
    /// Look again later: the task is under way. Its words, for who asks why it takes so long.
    Wait(String),
    /// The server tries the same again and again: end the task, then give up for this reason.
    Cancel(String, String),
    /// Every slot is where it is to be.
    Done,
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
    /// Counts a failed task, once. True when it is time to give up.
    pub fn count(&mut self, task: &Task) -> bool {
        if self.counted.as_deref() != Some(&task.id) {
            self.count = if self.message == task.message { self.count + 1 } else { 1 };
            self.message.clone_from(&task.message);
            self.counted = Some(task.id.clone());
        }
        self.count >= FAILURES_MAX
    }
}

/// The next step for `slots` on their way to `target`. `left` are those of them that the target does not own yet, by what
/// both ends say; `tasks` are all that the server lists which was or would be asked.
///
/// # Errors
/// Why it is given up; no task of it is under way then.
pub fn next(
    dialect: Dialect,
    slots: &SlotSet,
    target: &NodeId,
    left: &SlotSet,
    tasks: &[Task],
    failures: &mut Failures,
) -> Result<Next, String> {
    if left.is_empty() {
        return Ok(Next::Done);
    }
    let ours = |task: &&Task| task.target == target.as_str() && overlap(&task.slots, slots);
    let newest = tasks.iter().filter(ours).max_by_key(|task| task.created_s);
    let Some(task) = newest else { return Ok(Next::Start) };
    match (dialect, task.state.as_str()) {
        (Dialect::Valkey, "success") | (Dialect::Redis, "completed") => {
            // The hand-over is announced before everybody knows of it.
            Ok(if overlap(&task.slots, left) {
                Next::Wait("handed over, not known everywhere".to_owned())
            } else {
                Next::Start
            })
        }
        (Dialect::Valkey, "failed" | "cancelled") | (Dialect::Redis, "canceled") => {
            if failures.count(task) {
                return Err(format!("the servers gave up {} times: {}", failures.count, said(task)));
            }
            Ok(Next::Start)
        }
        // Redis tries again by itself, for ever.
        (Dialect::Redis, "failed") if task.retries >= FAILURES_MAX => {
            Ok(Next::Cancel(task.id.clone(), format!("the target tried {} times: {}", task.retries, said(task))))
        }
        _ => Ok(Next::Wait(said(task))),
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

fn overlap(some: &SlotSet, others: &SlotSet) -> bool {
    some.iter().any(|slot| others.contains(slot))
}

#[cfg(test)]
mod tests;
