//! `--curve`: the fewest moves against the tolerance, drawn with characters.

use std::fmt::Write as _;

use crate::cli::output::{WIDTH, counted, escape};
use crate::domain::Tolerance;
use crate::wire::plan::{GoalView, PlanView};

/// The drawing; says so when there is nothing to draw.
#[must_use]
pub fn draw(plan: &PlanView) -> String {
    let rows = rows(plan);
    let Some(most) = rows.iter().map(|row| row.moves).max().filter(|most| *most > 0) else {
        return format!(
            "Plan {} has no curve: no tolerance asks for a move, or its goal is not about balance.\n",
            plan.id
        );
    };
    let what = match &plan.load {
        None => "fewest moves that bring every shard within so many percent of its share".to_owned(),
        Some(load) => format!("no fewer moves can bring every shard's {} so near its share", load.metric.as_str()),
    };
    let mut text = format!("CURVE   {}\n", escape(&what));
    let tolerances: Vec<String> = rows.iter().map(|row| Tolerance(row.tolerance_ppm).percent()).collect();
    let width = tolerances.iter().map(String::len).max().unwrap_or(0).max(4);
    let digits = most.to_string().len();
    let room = WIDTH - width - digits - 18;
    let floor = plan.load.as_ref().map_or(0, |load| load.floor_ppm);
    for (row, tolerance) in rows.iter().zip(&tolerances) {
        let mark = if row.asked { "  <- asked" } else { "" };
        if row.tolerance_ppm < floor {
            let none = format!("{:>digits$}  no owners come so near", "-");
            let _ = writeln!(text, "  {tolerance:>width$} %  {none}{mark}");
            continue;
        }
        let bar = (u64::from(row.moves) * room as u64).div_ceil(u64::from(most));
        let bar = "█".repeat(usize::try_from(bar).expect("as long as the room"));
        let line = format!("  {tolerance:>width$} %  {:>digits$}  {bar}{mark}", row.moves);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let reached = plan.load.as_ref().map_or_else(String::new, |load| {
        format!(" and brings every shard within {} %", Tolerance(load.reached_ppm).percent())
    });
    let _ = writeln!(text, "Plan {} moves {}{reached}.", plan.id, counted(plan.summary.slots, "slot"));
    text
}

/// A tolerance, and the fewest moves for it.
struct Row {
    tolerance_ppm: u32,
    moves: u32,
    asked: bool,
}

/// The points of the curve, and the tolerance that was asked for where it is none of them.
fn rows(plan: &PlanView) -> Vec<Row> {
    let asked = match plan.intent.goal {
        GoalView::Balance { tolerance_ppm } | GoalView::BalanceLoad { tolerance_ppm, .. } => Some(tolerance_ppm),
        _ => None,
    };
    let row = |tolerance_ppm, moves| Row { tolerance_ppm, moves, asked: asked == Some(tolerance_ppm) };
    let mut rows: Vec<Row> = plan.curve.iter().map(|point| row(point.tolerance_ppm, point.moves)).collect();
    if let Some(asked) = asked.filter(|_| !rows.is_empty() && rows.iter().all(|row| !row.asked)) {
        let place = rows.partition_point(|row| row.tolerance_ppm < asked);
        rows.insert(place, row(asked, plan.summary.lower_bound));
    }
    rows
}
