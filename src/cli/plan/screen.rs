//! The plan screen: everything a reviewer needs, within 94 columns, and the command to type next.

mod figures;
mod parts;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

pub use parts::{duration, next};

use super::names::Names;
use crate::cli::output::{Output, Style, WIDTH, escape, wrap};
use crate::domain::{CheckLevel, Instant, PlanState};
use crate::wire::plan::PlanView;

/// How to show a plan.
#[derive(Clone, Copy, Debug)]
pub struct Screen<'a> {
    /// The plan.
    pub plan: &'a PlanView,
    /// Name of its cluster.
    pub cluster: &'a str,
    /// What every command needs besides its own arguments, such as ` --cluster prod`; may be empty.
    pub globals: &'a str,
    /// Now.
    pub now: Instant,
    /// Every shard and every range.
    pub full: bool,
    /// Nothing shortened.
    pub wide: bool,
    /// The plan is stored: there is a command to type next.
    pub stored: bool,
    /// Colours.
    pub output: Output,
}

impl Screen<'_> {
    /// The screen as text.
    #[must_use]
    pub fn render(&self) -> String {
        let names = if self.wide { Names::whole() } else { Names::of_plan(self.plan) };
        let mut text = self.header(&names);
        text.push('\n');
        text += &self.summary(&names);
        if !self.plan.shards.is_empty() {
            text.push('\n');
            text += &self.shards(&names);
        }
        if let Some(load) = &self.plan.load {
            text.push('\n');
            text += &figures::loads(load, &self.plan.shards, &names, self.full || self.wide);
        }
        text.push('\n');
        text += &self.checks();
        if !self.plan.actions.is_empty() {
            text.push('\n');
            text += &self.moves(&names);
        }
        text.push('\n');
        text += &self.footer();
        text
    }

    fn header(&self, names: &Names) -> String {
        let plan = self.plan;
        let state = plan.state.as_str().to_uppercase().replace('_', " ");
        let state = match plan.state {
            PlanState::Proposed | PlanState::Approved => {
                format!("{state} ({} of {} approvals)", plan.approvals.len(), plan.approvals_required)
            }
            _ => state,
        };
        let room = WIDTH.saturating_sub(plan.id.as_str().len() + state.chars().count() + 11);
        let head = format!("Plan {}  \"{}\"", plan.id, fit(&parts::title(plan, names), room));
        let padding = WIDTH.saturating_sub(head.chars().count() + state.chars().count()).max(1);
        let mut text = format!("{head}{:padding$}{}\n", "", self.output.paint(state_style(plan.state), &state));
        let created = parts::minute(plan.created_at);
        let _ = write!(text, "cluster {} | by {} {created}", self.cluster, plan.author);
        if matches!(plan.state, PlanState::Proposed | PlanState::Approved) {
            let _ = write!(text, " | {}", parts::expiry(plan.expires_at.0, self.now));
        }
        let _ = writeln!(text, "\ndigest {}", plan.digest);
        let freshness = &plan.freshness;
        let fresh = if plan.state.is_final() {
            String::new()
        } else if freshness.fresh {
            format!(", now {}: {}", freshness.epoch, self.output.paint(Style::Good, "FRESH"))
        } else {
            format!(", now {}: {}", freshness.epoch, self.output.paint(Style::Bad, "STALE"))
        };
        let based = format!("based on epoch {}{fresh}", plan.base.epoch);
        text += &based;
        if !plan.intent.reason.is_empty() {
            let used = format!("based on epoch {}, now {}: FRESH | reason: ", plan.base.epoch, freshness.epoch).len();
            let _ = write!(text, " | reason: {}", fit(&escape(&plan.intent.reason), WIDTH.saturating_sub(used)));
        }
        text.push('\n');
        for approval in &plan.approvals {
            let _ = writeln!(text, "approved by {} {}", approval.by, parts::minute(approval.at));
        }
        if let Some(ended) = &plan.ended {
            let reason = ended.reason.as_deref().map(|reason| format!(": {}", escape(reason))).unwrap_or_default();
            let _ = writeln!(text, "ended by {} {}{reason}", ended.by, parts::minute(ended.at));
        }
        if let Some(ended) = &plan.ended {
            let lines = ended.reverted.iter().map(|said| ("taken back", said));
            for (label, said) in lines.chain(ended.kept.iter().map(|said| ("left as it is", said))) {
                let said = names.shorten(&escape(said));
                let _ = writeln!(text, "  {label}: {}", fit(&said, WIDTH - label.len() - 4));
            }
        }
        if !plan.limits.windows.is_empty() {
            let windows: Vec<String> = plan.limits.windows.iter().map(ToString::to_string).collect();
            let said = format!("starts actions {} UTC only", windows.join(", "));
            let _ = writeln!(text, "{}", wrap(&said, WIDTH).join("\n"));
        }
        for (label, other) in
            [("supersedes", &plan.supersedes), ("superseded by", &plan.superseded_by), ("reverts", &plan.reverts)]
        {
            if let Some(id) = other {
                let _ = writeln!(text, "{label} {id}");
            }
        }
        for change in freshness.changes.iter().filter(|_| !freshness.fresh) {
            let _ = writeln!(text, "  changed since: {}", fit(&escape(change), WIDTH - 17));
        }
        text
    }

    fn checks(&self) -> String {
        let count = |level| self.plan.checks.iter().filter(|check| check.level == level).count();
        let (ok, warn, fail) = (count(CheckLevel::Ok), count(CheckLevel::Warn), count(CheckLevel::Fail));
        let warn_style = if warn > 0 { Style::Warn } else { Style::Good };
        let fail_style = if fail > 0 { Style::Bad } else { Style::Good };
        let mut text = format!(
            "CHECKS   ok {ok}   {}   {}\n",
            self.output.paint(warn_style, &format!("WARN {warn}")),
            self.output.paint(fail_style, &format!("FAIL {fail}"))
        );
        let shown: Vec<_> =
            self.plan.checks.iter().filter(|check| self.full || self.wide || check.level != CheckLevel::Ok).collect();
        let width = shown.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
        for check in shown {
            let (level, style) = match check.level {
                CheckLevel::Ok => ("ok  ", Style::Good),
                CheckLevel::Warn => ("WARN", Style::Warn),
                CheckLevel::Fail => ("FAIL", Style::Bad),
            };
            let needs = if check.needs_ack && !parts::is_acknowledged(self.plan, check) { "  [needs ack]" } else { "" };
            let start = format!(" {} {:width$}  ", escape(&check.code), escape(&check.name));
            let indent = 6 + start.chars().count();
            let body = format!("{}{needs}", escape(&check.text));
            let lines = if self.wide { vec![body] } else { wrap(&body, WIDTH - indent) };
            let _ = writeln!(text, "  {}{start}{}", self.output.paint(style, level), lines[0]);
            for line in &lines[1..] {
                let _ = writeln!(text, "{:indent$}{line}", "");
            }
        }
        text
    }

    fn footer(&self) -> String {
        let mut text = parts::totals(self.plan);
        if !self.stored {
            text += "Dry run: nothing is changed or stored.\n";
            return text;
        }
        for line in parts::next(self.plan, self.globals) {
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

const fn state_style(state: PlanState) -> Style {
    match state {
        PlanState::Approved | PlanState::Succeeded => Style::Good,
        PlanState::Proposed | PlanState::Running => Style::Bold,
        PlanState::Expired | PlanState::Superseded | PlanState::Withdrawn => Style::Warn,
        PlanState::Rejected | PlanState::Aborted | PlanState::RolledBack => Style::Bad,
    }
}

/// The text, or its beginning and `…` when it is longer than the room for it.
fn fit(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{kept}…")
}
