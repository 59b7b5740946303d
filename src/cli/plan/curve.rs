//! `--curve`: the fewest moves against the tolerance, drawn with characters.

use std::fmt::Write as _;

use crate::cli::output::{WIDTH, escape};
use crate::domain::Tolerance;
use crate::wire::plan::{GoalView, PlanView};

/// The drawing; says so when there is nothing to draw.
#[must_use]
pub fn draw(plan: &PlanView) -> String {
    let curve = &plan.curve;
    let Some(most) = curve.iter().map(|point| point.moves).max().filter(|most| *most > 0) else {
        return format!(
            "Plan {} has no curve: no tolerance asks for a move, or its goal is not about balance.\n",
            plan.id
        );
    };
    let asked = match plan.intent.goal {
        GoalView::Balance { tolerance_ppm } | GoalView::BalanceLoad { tolerance_ppm, .. } => Some(tolerance_ppm),
        _ => None,
    };
    let what = match &plan.load {
        None => "fewest moves that bring every shard within so many percent of its share".to_owned(),
        Some(load) => format!("no fewer moves can bring every shard's {} so near its share", load.metric.as_str()),
    };
    let mut text = format!("CURVE   {}\n", escape(&what));
    let tolerances: Vec<String> = curve.iter().map(|point| Tolerance(point.tolerance_ppm).percent()).collect();
    let width = tolerances.iter().map(String::len).max().unwrap_or(0).max(4);
    let digits = most.to_string().len();
    let room = WIDTH - width - digits - 18;
    for (point, tolerance) in curve.iter().zip(&tolerances) {
        let bar = (u64::from(point.moves) * room as u64).div_ceil(u64::from(most));
        let bar = "█".repeat(usize::try_from(bar).expect("as long as the room"));
        let mark = if asked == Some(point.tolerance_ppm) { "  <- asked" } else { "" };
        let _ = writeln!(text, "  {tolerance:>width$} %  {:>digits$}  {bar}{mark}", point.moves);
    }
    text
}
