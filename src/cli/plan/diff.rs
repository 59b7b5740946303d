//! Two plans compared for a person: what either asks for, the moves that only one makes, and where the slots end.

use std::fmt::Write as _;

use serde_json::Value;

use super::names::Names;
use crate::cli::output::escape;
use crate::cli::table::{left, render, right};
use crate::wire::plan::MoveView;
use crate::wire::{PlanDiff, PlanView, ShardCount};

/// What of a base says nothing to a person that the epoch beside it does not.
const UNREADABLE: [&str; 2] = ["cluster_id", "fingerprint"];

/// What differs, or that nothing does.
#[must_use]
pub fn text(diff: &PlanDiff, [first, second]: [&PlanView; 2], wide: bool) -> String {
    let ids = [first, second].into_iter().flat_map(|plan| &plan.shards).map(|shard| shard.id.as_str());
    let names = if wide { Names::whole() } else { Names::of(ids) };
    let mut text = format!("first {}, second {}\n", diff.first, diff.second);
    let asked = asked(first, second, &names);
    if !asked.is_empty() {
        text += &render(&[left("ASKED FOR"), left("FIRST"), left("SECOND")], &asked);
    }
    for (which, moves, sign) in [("first", &diff.only_in_first, '-'), ("second", &diff.only_in_second, '+')] {
        if !moves.is_empty() {
            let slots: u32 = moves.iter().map(|entry| entry.slots).sum();
            let slots = if slots == 1 { "1 slot".to_owned() } else { format!("{slots} slots") };
            let _ = writeln!(text, "moved only by the {which}: {slots}");
            for entry in moves {
                text += &line(entry, sign, &names);
            }
        }
    }
    if diff.only_in_first.is_empty() && diff.only_in_second.is_empty() {
        text += if asked.is_empty() {
            "The plans ask for the same and move the same slots: nothing differs.\n"
        } else {
            "Both move the same slots.\n"
        };
    }
    let number = |count: Option<u32>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let row = |shard: &ShardCount| {
        vec![names.show(shard.shard.as_str()).to_owned(), number(shard.first), number(shard.second)]
    };
    if !diff.shards.is_empty() {
        let columns = [left("SLOTS AFTER"), right("FIRST"), right("SECOND")];
        text += &render(&columns, &diff.shards.iter().map(row).collect::<Vec<_>>());
    }
    text
}

fn line(entry: &MoveView, sign: char, names: &Names) -> String {
    let from = entry.from.as_ref().map_or("(unassigned)", |from| names.show(from.as_str()));
    let ranges: Vec<String> = entry.ranges.iter().map(ToString::to_string).collect();
    format!("  {sign} {from} -> {}  {}  {}\n", names.show(entry.to.as_str()), entry.slots, ranges.join(","))
}

/// What the plans ask for, start from and are paced by, where they differ: a row each, with both values.
fn asked(first: &PlanView, second: &PlanView, names: &Names) -> Vec<Vec<String>> {
    let parts = |plan: &PlanView| {
        [
            ("", serde_json::to_value(&plan.intent)),
            ("base ", serde_json::to_value(&plan.base)),
            ("", serde_json::to_value(&plan.limits)),
            ("", serde_json::to_value(std::collections::BTreeMap::from([("reverts", &plan.reverts)]))),
        ]
    };
    let mut rows = Vec::new();
    for ((prefix, first), (_, second)) in parts(first).into_iter().zip(parts(second)) {
        let (Ok(Value::Object(first)), Ok(Value::Object(second))) = (first, second) else { continue };
        let mut keys: Vec<&String> = first.keys().chain(second.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let (a, b) = (first.get(key).unwrap_or(&Value::Null), second.get(key).unwrap_or(&Value::Null));
            if a != b && !UNREADABLE.contains(&key.as_str()) {
                rows.push(vec![
                    format!("{prefix}{}", key.replace('_', " ")),
                    names.shorten(&shown(a)),
                    names.shorten(&shown(b)),
                ]);
            }
        }
    }
    rows
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => escape(text),
        Value::Array(list) if list.is_empty() => "-".to_owned(),
        Value::Array(list) => list.iter().map(shown).collect::<Vec<_>>().join(","),
        Value::Object(fields) if fields.contains_key("shard") && fields.contains_key("weight") => {
            format!("{}={}", shown(&fields["shard"]), fields["weight"])
        }
        Value::Object(fields) => fields.iter().map(|(_, value)| shown(value)).collect::<Vec<_>>().join(" "),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
