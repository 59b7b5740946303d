//! A comparison for people: two tables within 94 columns, and what the figures say.

use crate::cli::output::{WIDTH, escape, wrap};
use crate::cli::table::{left, render, right};
use crate::domain::{Comparison, FamilyFigures, Millionths};

/// The whole screen.
pub fn text(comparison: &Comparison) -> String {
    let mut text = String::new();
    say(&mut text, &format!("Event: {}", comparison.event));
    say(
        &mut text,
        &format!(
            "Keys: {}, {} requests at {}/s; at least {} keys have to move",
            comparison.keys, comparison.requests, comparison.requests_per_second, comparison.least_keys
        ),
    );
    text.push('\n');
    text += &event_table(comparison);
    text.push('\n');
    text += "Stale views (spread, load), copies along the preference list (nodes, zones, moved), look-up:\n";
    text += &client_table(comparison);
    text.push('\n');
    for outcome in &comparison.outcomes {
        if let Err(why) = &outcome.figures {
            say(&mut text, &format!("{}: {why}", outcome.family));
        }
    }
    say(&mut text, &evenness(comparison));
    say(&mut text, &hot(comparison));
    let (last, others) = comparison.advice.split_last().expect("the last sentence is always there");
    for sentence in others {
        say(&mut text, sentence);
    }
    say(&mut text, last);
    text
}

/// A line, wrapped, what follows of it indented.
fn say(text: &mut String, line: &str) {
    for (index, line) in wrap(&escape(line), WIDTH - 2).iter().enumerate() {
        text.push_str(if index == 0 { "" } else { "  " });
        text.push_str(line);
        text.push('\n');
    }
}

fn event_table(comparison: &Comparison) -> String {
    let columns = [
        left("FAMILY"),
        right("MOVED"),
        right("/LEAST"),
        right("STRAY"),
        right("HEAVY"),
        right("LIGHT"),
        right("CV"),
        right("HEIRS"),
        right("HEIR x"),
        right("MISSES"),
        right("PEAK/s"),
    ];
    let row = |figures: &FamilyFigures| {
        let takeover = figures.takeover;
        vec![
            figures.keys_moved.to_string(),
            figures.moved_to_least.map_or_else(|| "-".to_owned(), |ratio| ratio.to_string()),
            figures.stray_moves.to_string(),
            figures.balance.heaviest.to_string(),
            figures.balance.lightest.to_string(),
            format!("{:.3}", figures.balance.variation),
            takeover.map_or_else(|| "-".to_owned(), |takeover| takeover.heirs.to_string()),
            takeover.map_or_else(|| "-".to_owned(), |takeover| takeover.heir_growth.to_string()),
            figures.misses.total.to_string(),
            figures.misses.peak_per_second.to_string(),
        ]
    };
    render(&columns, &rows(comparison, columns.len(), row))
}

fn client_table(comparison: &Comparison) -> String {
    let columns = [
        left("FAMILY"),
        right("SPREAD"),
        right("MAX"),
        right("LOAD"),
        right("NODES"),
        right("ZONES"),
        right("MOVED"),
        right("LOOKUP"),
        right("MEMORY"),
        right("TOLD"),
    ];
    let row = |figures: &FamilyFigures| {
        let copies = figures.copies;
        vec![
            figures.views.spread_mean.to_string(),
            figures.views.spread_max.to_string(),
            figures.views.load_max.to_string(),
            percent(copies.distinct_nodes),
            copies.distinct_zones.map_or_else(|| "-".to_owned(), percent),
            percent(copies.moved),
            format!("{:.1} ns", Millionths(figures.lookup_ps.saturating_mul(1000))),
            bytes(figures.memory_bytes),
            bytes(figures.metadata_bytes),
        ]
    };
    render(&columns, &rows(comparison, columns.len(), row))
}

/// A row for each family; dashes for one that cannot carry the event.
fn rows(comparison: &Comparison, columns: usize, row: impl Fn(&FamilyFigures) -> Vec<String>) -> Vec<Vec<String>> {
    let of = |outcome: &crate::domain::Outcome| {
        let cells = outcome.figures.as_ref().map_or_else(|_| vec!["-".to_owned(); columns - 1], &row);
        [vec![outcome.family.to_string()], cells].concat()
    };
    comparison.outcomes.iter().map(of).collect()
}

fn percent(ratio: Millionths) -> String {
    format!("{:.1}%", Millionths(ratio.0.saturating_mul(100)))
}

fn bytes(count: u64) -> String {
    const UNITS: [&str; 3] = ["KiB", "MiB", "GiB"];
    let mut tenths = count * 10;
    if count < 10_240 {
        return format!("{count} B");
    }
    let mut unit = "B";
    for larger in UNITS {
        if tenths < 10_240 {
            break;
        }
        tenths /= 1024;
        unit = larger;
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

fn evenness(comparison: &Comparison) -> String {
    let shards = comparison.evenness.per_shard.map_or_else(String::new, |chi| format!(", {chi} per shard"));
    format!(
        "CRC16 over these keys: chi2/df {} per slot{shards} (a random function gives 1; less is more even)",
        comparison.evenness.per_slot
    )
}

fn hot(comparison: &Comparison) -> String {
    let hot = &comparison.hot;
    let what = if hot.keys == 1 { "the hottest key".to_owned() } else { format!("the {} hottest keys", hot.keys) };
    format!(
        "Random trees of arity {} for {what}: heaviest node {:.1} shares when the owner serves alone, {:.1} when nodes climb \
         (bound {:.1}), {:.1} when clients climb and copies are there, {:.1} in a cold burst",
        hot.arity, hot.owner_alone, hot.nodes_climb, hot.bound, hot.clients_climb_warm, hot.clients_climb_cold
    )
}
