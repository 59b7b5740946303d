//! Why a plan moves a slot or leaves it, and why a shard gives, takes or neither: sentences within the screen's width.

use std::fmt::Write as _;

use crate::cli::fault::Fault;
use crate::cli::output::{Format, Output, WIDTH, escape, wrap};
use crate::domain::{Plan, ShardId, Slot, SlotTable};
use crate::plan::{self, Known, Memory};

/// The sentences about a plan that no controller keeps: `table` are the owners it stands on.
///
/// # Errors
/// Invalid input when the plan knows no such shard.
pub fn offline(plan: &Plan, table: &SlotTable, slot: Option<u16>, shard: Option<&str>) -> Result<Vec<String>, Fault> {
    // Nobody remembers earlier owners here.
    let memory = Memory::default();
    let mut said = Vec::new();
    if let Some(slot) = slot {
        said.extend(plan::explain_slot(plan, &Known { table, memory: &memory }, Slot::new(slot)?));
    }
    if let Some(text) = shard {
        let mut known = plan.body.shards.iter().map(|change| &change.id);
        let mut beginning = known.clone().filter(|id| id.as_str().starts_with(text));
        let id: Option<&ShardId> = known.find(|id| id.as_str() == text).or_else(|| {
            let first = beginning.next();
            if beginning.next().is_none() { first } else { None }
        });
        let unknown = || Fault::invalid(format!("--explain-shard: the plan knows no shard {text:?}, or several"));
        said.extend(plan::explain_shard(plan, id.ok_or_else(unknown)?).ok_or_else(unknown)?);
    }
    Ok(said)
}

/// The sentences for people, or as JSON.
///
/// # Errors
/// When they cannot be written.
pub fn show(because: &[String], output: Output) -> Result<(), Fault> {
    if output.is_for_people() {
        return output.text(&text(because, output));
    }
    output.json(&serde_json::json!({ "because": because }))
}

/// The sentences, the first at the margin, each wrapped; long ids cut to what tells them apart.
pub fn text(because: &[String], output: Output) -> String {
    let mut text = String::new();
    let shortened = output.shortened(&because.join("\n"));
    for (number, sentence) in shortened.lines().enumerate() {
        let indent = if number == 0 { "" } else { "  " };
        let room = if output.format == Format::Wide { usize::MAX } else { WIDTH - 4 };
        for (line, words) in wrap(&escape(sentence), room).into_iter().enumerate() {
            let hanging = if line == 0 { "" } else { "  " };
            let _ = writeln!(text, "{indent}{hanging}{words}");
        }
    }
    text
}
