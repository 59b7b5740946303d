//! Costs and loads on the plan screen.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::parts::iec;
use super::{Names, WIDTH, fit};
use crate::cli::output::{escape, wrap};
use crate::domain::{LoadMetric, ShardId, ShardState, Tolerance};
use crate::wire::plan::{CostView, LoadView, PlanView, ShardChangeView};

/// Most shards listed without `--full`.
const SHARDS_SHOWN: usize = 20;
/// Room for a word at the end of a line.
const NOTE_WIDTH: usize = 11;

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
        if !load.hot.is_empty() && !plan.summary.minimal {
            text += "  where a slot is too hot the lower bound is weak: the gap is no sign of wasted moves\n";
        }
    }
    text
}

/// The load of each shard, how far that is from its share by weight, and its band.
pub(super) fn loads(load: &LoadView, changes: &[ShardChangeView], names: &Names, everything: bool) -> String {
    let shown = if everything { load.shards.len() } else { load.shards.len().min(SHARDS_SHOWN) };
    let amount = |amount: u64| match load.metric {
        LoadMetric::Bytes => iec(amount),
        LoadMetric::Keys | LoadMetric::Ops => amount.to_string(),
    };
    let shares = Shares::of(load, changes);
    let mut rows: Vec<[String; 7]> = load.shards[..shown]
        .iter()
        .map(|shard| {
            let off = |amount| shares.off(&shard.shard, amount);
            let (before, after) = (amount(shard.before), amount(shard.after));
            let name = names.show(shard.shard.as_str()).to_owned();
            [name, before, off(shard.before), after, off(shard.after), amount(shard.lo), amount(shard.hi)]
        })
        .collect();
    let head = ["LOAD", "BEFORE", "OFF", "AFTER", "OFF", "LEAST", "MOST"];
    let widest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let mut widths: [usize; 7] = std::array::from_fn(widest);
    let figures: usize = widths[1..].iter().map(|width| width + 2).sum();
    widths[0] = widths[0].min(WIDTH.saturating_sub(figures + NOTE_WIDTH).clamp(8, 30));
    for row in &mut rows {
        row[0] = fit(&row[0], widths[0]);
    }
    let line = |cells: [&str; 7]| {
        let mut text = format!("{:width$}", cells[0], width = widths[0]);
        for (cell, width) in cells.into_iter().zip(widths).skip(1) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text
    };
    let mut text = line(head) + "\n";
    for (row, shard) in rows.iter().zip(&load.shards) {
        let hot = load.hot.iter().filter(|hot| hot.shard == shard.shard).count();
        let note = if !(shard.lo..=shard.hi).contains(&shard.after) {
            "   outside"
        } else if hot > 0 {
            "   hot slot"
        } else {
            ""
        };
        let _ = writeln!(text, "{}{note}", line(std::array::from_fn(|column| row[column].as_str())));
    }
    if shown < load.shards.len() {
        let _ = writeln!(text, "… and {} more (--full lists all)", load.shards.len() - shown);
    }
    text
}

/// Shares by weight of what does not rest with shards that are to have nothing.
struct Shares<'a> {
    /// The weight of each shard that is to have a share, and of all of them.
    each: BTreeMap<&'a ShardId, i128>,
    all: i128,
    load: i128,
}

impl<'a> Shares<'a> {
    fn of(load: &LoadView, changes: &'a [ShardChangeView]) -> Self {
        let growing = changes.iter().filter(|change| change.state == ShardState::Active);
        let each: BTreeMap<&ShardId, i128> =
            growing.map(|change| (&change.id, i128::from(change.weight.get()))).filter(|(_, w)| *w > 0).collect();
        let resting = load.shards.iter().filter(|shard| !each.contains_key(&shard.shard));
        let kept: i128 = resting.map(|shard| i128::from(shard.lo)).sum();
        Self { all: each.values().sum(), load: i128::from(load.total) - kept, each }
    }

    /// How far an amount is from the share of its shard, as `+1.9%`; nothing where there is no share.
    fn off(&self, shard: &ShardId, amount: u64) -> String {
        let wanted = self.each.get(shard).map_or(0, |weight| weight * self.load);
        if wanted <= 0 {
            return String::new();
        }
        let away = i128::from(amount) * self.all - wanted;
        let tenths = (away.abs() * 1000 + wanted / 2) / wanted;
        let sign = if tenths == 0 {
            ""
        } else if away < 0 {
            "-"
        } else {
            "+"
        };
        format!("{sign}{}.{}%", tenths / 10, tenths % 10)
    }
}
