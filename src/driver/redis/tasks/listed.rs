//! Reads what servers list of the moves that they make by themselves.

use redis::Value;

use super::super::atomic::{self, Dialect, Task};
use super::super::link::Link;
use super::super::links::Links;
use super::super::sight::Fault;
use super::super::value::{command, fields, list, number, text};
use crate::domain::Node;
use crate::driver::Job;

/// What a server lists of its own side: exports of a source, imports of a target.
pub(super) async fn tasks(dialect: Dialect, links: &Links, job: &Job, at: &Node) -> Result<Vec<Task>, Fault> {
    let link = links.shared(&job.cluster, at).await?;
    let (ask, side) = match dialect {
        Dialect::Valkey => (command(&["CLUSTER", "GETSLOTMIGRATIONS"]), "EXPORT"),
        Dialect::Redis => (command(&["CLUSTER", "MIGRATION", "STATUS", "ALL"]), "import"),
    };
    let reply = link.call(&ask).await?;
    let entries = list(&reply).ok_or_else(|| Fault::from(link.unexpected("list of tasks")))?;
    entries.iter().filter_map(|entry| task(dialect, side, entry, &link).transpose()).collect()
}

/// One task, if it is of this side.
fn task(dialect: Dialect, side: &str, entry: &Value, link: &Link) -> Result<Option<Task>, Fault> {
    let fields = fields(entry);
    let word = |name: &str| fields.get(name).and_then(|value| text(value)).unwrap_or_default().to_owned();
    if word("operation") != side {
        return Ok(None);
    }
    let (id, slots, source, target, message) = match dialect {
        Dialect::Valkey => ("name", "slot_ranges", "source_node", "target_node", "message"),
        Dialect::Redis => ("id", "slots", "source", "dest", "last_error"),
    };
    let slots = atomic::slots(&word(slots)).map_err(|why| Fault::Lasting(format!("{}: {why}", link.at())))?;
    let count = |name: &str| fields.get(name).and_then(|value| number(value)).unwrap_or(0);
    Ok(Some(Task {
        id: word(id),
        slots,
        source: word(source),
        target: word(target),
        state: word("state"),
        message: word(message).trim_end().to_owned(),
        created_s: count("create_time"),
        retries: count("retries"),
    }))
}
