//! Costs and loads on the plan screen.

use std::fmt::Write as _;

use super::parts::iec;
use super::{Names, WIDTH, fit};
use crate::cli::output::{escape, wrap};
use crate::domain::{LoadMetric, Tolerance};
use crate::wire::plan::{CostView, LoadView, PlanView};

/// Most shards listed without `--full`.
const SHARDS_SHOWN: usize = 20;

/// The lines that belong to the summary.
pub(super) fn lines(plan: &PlanView, names: &Names) -> String {
    let mut text = String::new();
    if let Some(costs) = &plan.costs {
        let cost = |cost: &CostView| format!("{} ranges, {} moved", cost.ranges, iec(cost.bytes));
        let (chosen, other) = match costs.objective.as_str() {
            "bytes" => ("bytes", "ranges"),
            _ => ("ranges", "bytes"),
        };
        let _ = writeln!(
            text,
            "  chosen for few {chosen}: {} | for few {other}: {}",
            cost(&costs.chosen),
            cost(&costs.other)
        );
    }
    if let Some(load) = &plan.load {
        let percent = |ppm| Tolerance(ppm).percent();
        let _ = writeln!(
            text,
            "  {}: farthest from its share {} % -> {} % (asked {} %)",
            load.metric.as_str(),
            percent(load.before_ppm),
            percent(load.reached_ppm),
            percent(load.asked_ppm)
        );
        if let Some(why) = &load.unreached {
            let said = format!("NOT REACHED: {}", names.shorten(&escape(why)));
            for line in wrap(&said, WIDTH - 2) {
                let _ = writeln!(text, "  {line}");
            }
        }
    }
    text
}

/// The load of each shard against its band.
pub(super) fn loads(load: &LoadView, names: &Names, everything: bool) -> String {
    let shown = if everything { load.shards.len() } else { load.shards.len().min(SHARDS_SHOWN) };
    let amount = |amount: u64| match load.metric {
        LoadMetric::Bytes => iec(amount),
        LoadMetric::Keys | LoadMetric::Ops => amount.to_string(),
    };
    let rows: Vec<[String; 5]> = load.shards[..shown]
        .iter()
        .map(|shard| {
            let name = fit(names.show(shard.shard.as_str()), 30);
            [name, amount(shard.before), amount(shard.after), amount(shard.lo), amount(shard.hi)]
        })
        .collect();
    let head = ["LOAD", "BEFORE", "AFTER", "LEAST", "MOST"];
    let widest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; 5] = std::array::from_fn(widest);
    let line = |cells: [&str; 5]| {
        let mut text = format!("{:width$}", cells[0], width = widths[0]);
        for (cell, width) in cells.into_iter().zip(widths).skip(1) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text
    };
    let mut text = line(head) + "\n";
    for (row, shard) in rows.iter().zip(&load.shards) {
        let outside = if (shard.lo..=shard.hi).contains(&shard.after) { "" } else { "   outside" };
        let _ = writeln!(text, "{}{outside}", line(std::array::from_fn(|column| row[column].as_str())));
    }
    if shown < load.shards.len() {
        let _ = writeln!(text, "… and {} more (--full lists all)", load.shards.len() - shown);
    }
    text
}
