//! `slotkeeper cluster check`: the table by itself, and what the nodes say against it.

use crate::cli::fault::{Exit, Fault};
use crate::cli::output::{counted, escape};
use crate::cli::settings::Settings;
use crate::domain::Topology;
use crate::wire::{DriftItem, DriftView};

/// Tells what is wrong; that there is anything is a conflict.
pub fn check(topology: &Topology, drift: Option<&DriftView>, settings: &Settings) -> Result<(), Fault> {
    let faults = faults(topology);
    let items = drift.map_or(&[][..], |drift| &drift.drift);
    if settings.output.is_for_people() {
        let unassigned = topology.table.unassigned_count();
        let mut text = format!(
            "epoch {}: {}, {}, {} of 16384 slots owned",
            topology.version.epoch,
            counted(topology.shards.len() as u64, "shard"),
            counted(topology.table.range_count() as u64, "range"),
            16384 - unassigned
        );
        if let Some(drift) = drift {
            let (answered, asked) = (drift.answered, counted(drift.asked, "node"));
            text.extend(["; ", &answered.to_string(), " of ", &asked, " answer"]);
        }
        text.push('\n');
        for moving in &topology.moving {
            let (range, from, to) = (moving.range.to_string(), moving.from.as_str(), moving.to.as_str());
            text.extend(["      slots ", &range, " are on their way from ", from, " to ", to, "\n"]);
        }
        for fault in &faults {
            text.extend(["FAIL  ", &escape(fault), "\n"]);
        }
        for item in items {
            text += &told(item);
        }
        settings.output.sentences(&text)?;
    } else {
        let ok = faults.is_empty() && items.is_empty();
        settings.output.json(&serde_json::json!({"ok": ok, "faults": faults, "drift": items}))?;
    }
    if faults.is_empty() && items.is_empty() { Ok(()) } else { Err(Fault::Exit(Exit::Conflict, String::new())) }
}

fn told(item: &DriftItem) -> String {
    format!("FAIL  {}: {}\n      do: {}\n", escape(&item.kind), escape(&item.what), escape(&item.advice))
}

fn faults(topology: &Topology) -> Vec<String> {
    let mut faults = Vec::new();
    let unassigned = topology.table.unassigned();
    if !unassigned.is_empty() {
        faults.push(format!("{} without an owner: {unassigned}", counted(unassigned.len() as u64, "slot")));
    }
    faults
}
