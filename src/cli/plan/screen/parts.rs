//! The pieces of the plan screen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{Screen, WIDTH, fit};
use crate::cli::output::Style;
use crate::cli::plan::names::Names;
use crate::domain::{CheckLevel, Instant, PlanState, ShardId, ShardState, Slot, SlotRange, ranges_of};
use crate::wire::plan::{ActionKindView, CheckView, PlacementView, PlanView, ShardChangeView, ShardWeight, SpreadView};
use crate::wire::timestamp::Timestamp;

/// Most shards listed without `--full`.
const SHARDS_SHOWN: usize = 40;
/// Most pairs of shards listed without `--full`.
const MOVES_SHOWN: usize = 40;

impl Screen<'_> {
    pub(super) fn summary(&self, names: &Names) -> String {
        let summary = &self.plan.summary;
        if let Some(why) = &self.plan.empty_because {
            return format!("  nothing to do: {}\n", crate::cli::output::escape(why));
        }
        let verdict = if summary.minimal {
            self.output.paint(Style::Good, "MINIMAL")
        } else {
            let gap = i64::from(summary.slots) - i64::from(summary.lower_bound);
            self.output.paint(Style::Warn, &format!("gap {gap}"))
        };
        let mut text = format!(
            "  {} of 16384 slots move ({}), ranges {} -> {} | lower bound {}: {verdict}\n",
            summary.slots,
            percent(summary.slots),
            summary.ranges_before,
            summary.ranges_after,
            summary.lower_bound,
        );
        if summary.assigned > 0 {
            let _ = writeln!(text, "  {} slots without an owner get one", summary.assigned);
        }
        if let Some(placement) = &self.plan.placement {
            let _ = writeln!(text, "  {}", placed(placement));
        }
        let mut facts = Vec::new();
        let sizes = [
            summary.keys_est.map(|keys| format!("~{} keys", si(keys))),
            summary.bytes_est.map(|b| format!("~{}", iec(b))),
        ];
        let sizes: Vec<String> = sizes.into_iter().flatten().collect();
        if !sizes.is_empty() {
            facts.push(sizes.join(", "));
        }
        facts.push(format!("{} (bound {})", count(u64::from(summary.waves), "wave"), summary.waves_lower_bound));
        facts.extend(self.eta());
        let _ = writeln!(text, "  {}", facts.join(" | "));
        text += &super::figures::lines(self.plan, names);
        let worst = &summary.worst_deviation;
        if self.plan.load.is_some() {
            return text;
        }
        if let Some(shard) = self.plan.shards.iter().find(|shard| deviation(shard) == Some(worst.before)) {
            let _ = writeln!(
                text,
                "  farthest from target: {} {} -> {} slots",
                names.show(shard.id.as_str()),
                signed(worst.before),
                signed(worst.after)
            );
        }
        text
    }

    /// How long it takes: as estimated, or what the pace alone allows.
    fn eta(&self) -> Option<String> {
        let (summary, limits) = (&self.plan.summary, &self.plan.limits);
        let pace = match (limits.bytes_per_second, limits.slots_per_second) {
            (Some(bytes), _) => format!(" at {}/s", iec(bytes)),
            (None, Some(slots)) => format!(" at {slots} slots/s"),
            (None, None) => String::new(),
        };
        if let Some((low, high)) = summary.eta_seconds {
            let span = span(low, high);
            return Some(format!("ETA {span}{pace}"));
        }
        let rate = limits.slots_per_second.filter(|rate| *rate > 0 && summary.slots > 0)?;
        Some(format!("ETA {} or more{pace}", duration(u64::from(summary.slots.div_ceil(rate)))))
    }

    pub(super) fn shards(&self, names: &Names) -> String {
        let all = self.full || self.wide || self.plan.shards.len() <= SHARDS_SHOWN;
        let changed = |shard: &&ShardChangeView| shard.before != shard.after || self.is_new(shard);
        let shown: Vec<_> = if all {
            self.plan.shards.iter().collect()
        } else {
            self.plan.shards.iter().filter(changed).take(SHARDS_SHOWN).collect()
        };
        let room = if self.wide { usize::MAX } else { 30 };
        let name = |shard: &ShardChangeView| fit(names.show(shard.id.as_str()), room);
        let deltas: Vec<String> =
            shown.iter().map(|shard| signed(i64::from(shard.after) - i64::from(shard.before))).collect();
        let notes: Vec<String> = shown.iter().map(|shard| self.shard_note(shard)).collect();
        let width = shown.iter().map(|shard| name(shard).chars().count()).max().unwrap_or(0).max(5);
        let digits = deltas.iter().map(String::len).max().unwrap_or(0).max(5);
        let head = if notes.iter().all(String::is_empty) { "" } else { "   NOTE" };
        let mut text = format!("{:width$}     WEIGHT  BEFORE  AFTER  {:>digits$}{head}\n", "SHARD", "DELTA");
        for ((shard, delta), note) in shown.iter().zip(deltas).zip(notes) {
            let flag = if self.is_new(shard) { "NEW" } else { "" };
            let note = if self.wide { note } else { fit(&note, WIDTH.saturating_sub(width + digits + 31)) };
            let (weight, before, after) = (shard.weight.get(), shard.before, shard.after);
            let row = format!(
                "{:width$}  {flag:3}{weight:>6}  {before:>6}  {after:>5}  {delta:>digits$}   {note}",
                name(shard)
            );
            let _ = writeln!(text, "{}", row.trim_end());
        }
        if shown.len() < self.plan.shards.len() {
            let _ = writeln!(text, "… and {} more (--full lists all)", self.plan.shards.len() - shown.len());
        }
        text
    }

    fn is_new(&self, shard: &ShardChangeView) -> bool {
        self.plan.intent.add.iter().any(|added| added.shard == shard.id)
    }

    fn shard_note(&self, shard: &ShardChangeView) -> String {
        let mut notes = Vec::new();
        if shard.state == ShardState::Draining {
            notes.push("draining".to_owned());
        }
        if self.plan.intent.reweight.iter().any(|entry| entry.shard == shard.id) {
            notes.push("new weight".to_owned());
        }
        for action in &self.plan.actions {
            if let ActionKindView::Promote { shard: promoted, .. } = &action.kind
                && *promoted == shard.id
            {
                notes.push("new primary".to_owned());
            }
        }
        notes.extend(shard.min_slots.map(|bound| format!("min {bound}")));
        notes.extend(shard.max_slots.map(|bound| format!("max {bound}")));
        if !shard.pinned.is_empty() {
            let pinned: usize = shard.pinned.iter().map(|range| range.count()).sum();
            notes.push(format!("{pinned} pinned"));
        }
        notes.join(", ")
    }

    pub(super) fn moves(&self, names: &Names) -> String {
        let plan = self.plan;
        let everything = self.full || self.wide;
        let mut text =
            if everything { "MOVES\n".to_owned() } else { "MOVES (first ranges; --full lists all)\n".to_owned() };
        let shown = if everything { plan.moves.len() } else { plan.moves.len().min(MOVES_SHOWN) };
        let pair = |entry: &crate::wire::plan::MoveView| {
            let from = entry.from.as_ref().map_or("(unassigned)", |from| names.show(from.as_str()));
            format!("{from} -> {}", names.show(entry.to.as_str()))
        };
        let width = plan.moves[..shown].iter().map(|entry| pair(entry).chars().count()).max().unwrap_or(0);
        let digits = plan.moves.first().map_or(0, |entry| entry.slots.to_string().len());
        let start = 2 + width + 3 + digits + 3;
        for entry in &plan.moves[..shown] {
            let head = format!("  {:width$}   {:>digits$}   ", pair(entry), entry.slots);
            if self.full {
                let lines = super::wrap(&join_ranges(&entry.ranges).replace(',', ", "), WIDTH.saturating_sub(start));
                let _ = writeln!(text, "{head}{}", lines[0]);
                for line in &lines[1..] {
                    let _ = writeln!(text, "{:start$}{line}", "");
                }
            } else if self.wide {
                let _ = writeln!(text, "{head}{}", join_ranges(&entry.ranges));
            } else {
                let _ = writeln!(text, "{head}{}", first_ranges(&entry.ranges, WIDTH.saturating_sub(start)));
            }
        }
        if shown < plan.moves.len() {
            let _ = writeln!(text, "  … and {} more pairs", plan.moves.len() - shown);
        }
        for action in &plan.actions {
            if let Some(line) = other_action(&action.kind, names) {
                let _ = writeln!(text, "  {line}");
            }
        }
        text + &repairs(plan, names)
    }
}

/// `3 nodes change their shard (bound 3), 1 failover (bound 1): 2 replicas a shard, apart by zone`.
fn placed(placement: &PlacementView) -> String {
    let spread = match placement.goal.spread {
        SpreadView::Zone => "zone",
        SpreadView::Host => "host",
    };
    format!(
        "{} change shard (bound {}), {} (bound {}): {} a shard, apart by {spread}",
        count(u64::from(placement.changes), "node"),
        placement.lower_bound,
        count(u64::from(placement.failovers), "failover"),
        placement.failovers_lower_bound,
        count(u64::from(placement.goal.replicas), "replica"),
    )
}

/// A step that moves no slots.
fn other_action(kind: &ActionKindView, names: &Names) -> Option<String> {
    Some(match kind {
        ActionKindView::MoveSlots { .. } | ActionKindView::AssignSlots { .. } | ActionKindView::RepairSlot { .. } => {
            return None;
        }
        ActionKindView::Promote { shard, from, to } => {
            let (from, to) = (names.show(from.as_str()), names.show(to.as_str()));
            format!("promote {to} to primary of {} in place of {from}", names.show(shard.as_str()))
        }
        ActionKindView::SetReplicaOf { node, shard } => {
            format!("make {} a replica of {}", names.show(node.as_str()), names.show(shard.as_str()))
        }
    })
}

/// The slots that are repaired, a line for each run of them.
fn repairs(plan: &PlanView, names: &Names) -> String {
    let mut owned: BTreeMap<&ShardId, Vec<Slot>> = BTreeMap::new();
    for action in &plan.actions {
        if let ActionKindView::RepairSlot { slot, owner } = &action.kind {
            owned.entry(owner).or_default().push(*slot);
        }
    }
    let mut runs: Vec<(SlotRange, &ShardId)> = Vec::new();
    for (owner, slots) in owned {
        runs.extend(ranges_of(slots).into_iter().map(|range| (range, owner)));
    }
    runs.sort_by_key(|(range, _)| range.slots().next());
    let mut text = String::new();
    for (range, owner) in runs {
        let slots = if range.count() == 1 { "slot" } else { "slots" };
        let _ = writeln!(text, "  close {slots} {range} at {}", names.show(owner.as_str()));
    }
    text
}

/// What the plan is for, in a few words.
pub(super) fn title(plan: &PlanView, names: &Names) -> String {
    let list = |ids: Vec<&str>| {
        let more = if ids.len() > 3 { format!(" and {} more", ids.len() - 3) } else { String::new() };
        let first: Vec<&str> = ids.iter().take(3).map(|id| names.show(id)).collect();
        format!("{}{more}", first.join(", "))
    };
    let ids = |entries: &[ShardWeight]| entries.iter().map(|entry| entry.shard.to_string()).collect::<Vec<_>>();
    let mut words = Vec::new();
    if let Some(reverted) = &plan.reverts {
        words.push(format!("revert {reverted}"));
    }
    let repairs = plan.actions.iter().filter(|action| matches!(action.kind, ActionKindView::RepairSlot { .. })).count();
    if repairs > 0 {
        words.push(format!("repair {}", count(repairs as u64, "slot")));
    }
    let drain: Vec<String> = plan.intent.drain.iter().map(ToString::to_string).collect();
    let groups = [("add", ids(&plan.intent.add)), ("drain", drain), ("reweight", ids(&plan.intent.reweight))];
    for (verb, ids) in groups {
        if !ids.is_empty() {
            words.push(format!("{verb} {}", list(ids.iter().map(String::as_str).collect())));
        }
    }
    let promoted = plan.actions.iter().filter(|action| matches!(action.kind, ActionKindView::Promote { .. })).count();
    if let Some(goal) = plan.intent.placement {
        words.push(format!("place {}", count(u64::from(goal.replicas), "replica")));
    } else if promoted > 0 {
        words.push(format!("promote {}", count(promoted as u64, "replica")));
    }
    if words.is_empty() { "rebalance".to_owned() } else { words.join("; ") }
}

pub(super) fn is_acknowledged(plan: &PlanView, check: &CheckView) -> bool {
    plan.acks.iter().any(|ack| *ack == check.code || *ack == check.name)
}

/// The last figures before the command.
pub(super) fn totals(plan: &PlanView) -> String {
    let donors: BTreeSet<_> = plan.moves.iter().filter_map(|entry| entry.from.as_ref()).collect();
    let receivers: BTreeSet<_> = plan.moves.iter().map(|entry| &entry.to).collect();
    let warnings = plan.checks.iter().filter(|check| check.level == CheckLevel::Warn).count();
    let mut text = format!(
        "{}, {}, {}, {}.",
        count(u64::from(plan.summary.slots), "slot"),
        count(donors.len() as u64, "donor"),
        count(receivers.len() as u64, "receiver"),
        count(warnings as u64, "warning"),
    );
    if !plan.actions.is_empty() && !plan.state.is_final() {
        text += " Abort keeps moved slots; rollback returns them.";
    }
    text.push('\n');
    text
}

/// The command to type next, if any, in lines that can be pasted.
#[must_use]
pub fn next(plan: &PlanView, globals: &str) -> Vec<String> {
    let id = &plan.id;
    let failed = plan.checks.iter().any(|check| check.level == CheckLevel::Fail);
    match plan.state {
        PlanState::Proposed if plan.author.as_str() == "offline" => {
            let stats = if plan.load.is_some() || plan.costs.is_some() { " --stats FILE" } else { "" };
            vec![format!("Next: add -o json > plan.json, then slotkeeper plan check plan.json --nodes FILE{stats}")]
        }
        PlanState::Proposed | PlanState::Approved if !plan.freshness.fresh || failed => {
            vec![format!("Next: slotkeeper{globals} plan refresh {id}")]
        }
        PlanState::Proposed => {
            let mut acks = String::new();
            for check in plan.checks.iter().filter(|check| check.needs_ack && !is_acknowledged(plan, check)) {
                acks.extend([" --ack ", &crate::cli::output::escape(&check.code)]);
            }
            vec![
                format!("Next: slotkeeper{globals} plan approve {id}{acks} \\"),
                format!("        --digest {}", plan.digest),
            ]
        }
        PlanState::Approved => vec![format!("Next: slotkeeper{globals} plan start {id}")],
        PlanState::Running => vec![format!("Next: slotkeeper{globals} rollout watch {id}")],
        PlanState::Superseded => {
            plan.superseded_by.iter().map(|other| format!("Next: slotkeeper{globals} plan show {other}")).collect()
        }
        PlanState::Succeeded if !plan.actions.is_empty() => {
            vec![format!("To undo: slotkeeper{globals} plan create --revert {id}")]
        }
        _ => Vec::new(),
    }
}

/// `2026-03-02 14:05Z`.
pub(super) fn minute(time: Timestamp) -> String {
    let text = time.to_string();
    format!("{} {}Z", &text[..10], &text[11..16])
}

pub(super) fn expiry(at: Instant, now: Instant) -> String {
    if at <= now {
        return "expired".to_owned();
    }
    format!("expires in {}", duration(at.since_ms(now) / 1000))
}

/// Two units at most: `52s`, `12m`, `23h41m`, `6d3h`.
#[must_use]
pub fn duration(seconds: u64) -> String {
    let two = |a: u64, x: &str, b: u64, y: &str| if b == 0 { format!("{a}{x}") } else { format!("{a}{x}{b}{y}") };
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => two(seconds / 60, "m", seconds % 60, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds / 60 % 60, "m"),
        _ => two(seconds / 86_400, "d", seconds / 3600 % 24, "h"),
    }
}

/// `10-14m`, `50s-2m`, or one duration when both are shown alike.
fn span(low: u64, high: u64) -> String {
    let (low, high) = (duration(low), duration(high));
    let unit = |text: &str| text.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
    match low.strip_suffix(&unit(&high)) {
        _ if low == high => low,
        Some(number) if unit(&low) == unit(&high) => format!("{number}-{high}"),
        _ => format!("{low}-{high}"),
    }
}

/// By how many slots a shard is away from its exact share now, rounded toward zero.
fn deviation(shard: &ShardChangeView) -> Option<i64> {
    let (numerator, denominator) = shard.quota.split_once('/').unwrap_or((&shard.quota, "1"));
    let (numerator, denominator) = (numerator.parse::<i128>().ok()?, denominator.parse::<i128>().ok()?);
    if denominator == 0 {
        return None;
    }
    i64::try_from((i128::from(shard.before) * denominator - numerator) / denominator).ok()
}

fn percent(slots: u32) -> String {
    let tenths = (u64::from(slots) * 1000 + 8192) / 16384;
    format!("{}.{}%", tenths / 10, tenths % 10)
}

fn signed(number: i64) -> String {
    if number > 0 { format!("+{number}") } else { number.to_string() }
}

fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn join_ranges(ranges: &[SlotRange]) -> String {
    ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// As many ranges as fit, and how many more there are.
fn first_ranges(ranges: &[SlotRange], room: usize) -> String {
    let whole = join_ranges(ranges);
    if whole.len() <= room {
        return whole;
    }
    let mut kept = ranges.len() - 1;
    loop {
        let text = format!("{},… {} more", join_ranges(&ranges[..kept]), ranges.len() - kept);
        if kept <= 1 || text.chars().count() <= room {
            return text;
        }
        kept -= 1;
    }
}

/// `8.2M`.
fn si(number: u64) -> String {
    scaled(number, 1000, &["", "k", "M", "G", "T", "P", "E"])
}

/// `9.7 GiB`.
pub(super) fn iec(bytes: u64) -> String {
    scaled(bytes, 1024, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

fn scaled(number: u64, base: u64, units: &[&str]) -> String {
    let (mut unit, mut divisor) = (0, 1_u64);
    while unit + 1 < units.len() && number / divisor >= base {
        divisor *= base;
        unit += 1;
    }
    let tenths = u128::from(number) * 10 / u128::from(divisor);
    if unit == 0 || tenths % 10 == 0 {
        format!("{}{}", tenths / 10, units[unit])
    } else {
        format!("{}.{}{}", tenths / 10, tenths % 10, units[unit])
    }
}
