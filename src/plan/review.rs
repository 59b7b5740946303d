//! What a reviewer should know before approving: the checks that come with a plan, wherever it is made.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::Facts;
use super::{Input, preflight};
use crate::domain::{
    ActionKind, Check, CheckLevel, DriverKind, Goal, Limits, Node, NodeId, NodeState, PlanBody, Shard, ShardId, SlotSet,
};

/// Most names listed in one sentence.
const NAMES_MAX: usize = 5;

/// Most ranges listed in one sentence.
const RANGES_MAX: usize = 4;

/// What the checks look at: the cluster as desired, and the plan's body.
#[derive(Clone, Copy, Debug)]
pub struct Looked<'a> {
    /// What was planned from.
    pub input: Input<'a>,
    /// The nodes of the shards; one that is not known yet is taken for a good one.
    pub nodes: &'a BTreeMap<&'a NodeId, &'a Node>,
    /// Ranges that are still on their way from an earlier rollout.
    pub moving: usize,
    /// Remarks on where the cluster was read from, a sentence each.
    pub notes: &'a [String],
    /// How the slots will move.
    pub driver: DriverKind,
    /// What the plan does.
    pub body: &'a PlanBody,
    /// For what.
    pub goal: Goal,
    /// How fast.
    pub limits: &'a Limits,
    /// Whether it undoes another plan.
    pub reverts: bool,
    /// What was seen of the nodes; none where nobody looked.
    pub facts: Option<&'a Facts>,
}

/// What one check found, without its code.
pub(super) struct Finding {
    pub name: &'static str,
    pub level: CheckLevel,
    pub text: String,
    needs_ack: bool,
}

impl Finding {
    pub fn ok(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, level: CheckLevel::Ok, text: text.into(), needs_ack: false }
    }

    pub fn warn(name: &'static str, text: impl Into<String>) -> Self {
        Self { level: CheckLevel::Warn, ..Self::ok(name, text) }
    }

    pub fn ack(name: &'static str, text: impl Into<String>) -> Self {
        Self { needs_ack: true, ..Self::warn(name, text) }
    }

    pub fn fail(name: &'static str, text: impl Into<String>) -> Self {
        Self { level: CheckLevel::Fail, ..Self::ok(name, text) }
    }
}

/// Every check, the failing ones first, then warnings; numbered within their level.
#[must_use]
pub fn checks(looked: &Looked<'_>) -> Vec<Check> {
    let mut findings = vec![
        Some(minimal(looked)),
        placement(looked),
        unobserved(looked),
        Some(driver_able(looked)),
        data_loss(looked),
        emptied(looked),
        stale_cache(looked),
        unfenced(looked),
        unenforced(looked),
        Some(coverage(looked)),
        windows(looked),
        off_balance(looked),
        unreached(looked),
        single_node(looked),
        one_zone(looked),
        large(looked),
        open_slots(looked),
        repairs(looked),
        one_way(looked),
    ];
    if let Some(facts) = looked.facts {
        findings.extend(preflight::findings(looked.body, looked.input.shards, facts).into_iter().map(Some));
    }
    findings.extend(looked.notes.iter().map(|note| Some(Finding::warn("nodes", note.clone()))));
    findings.sort_by_key(|finding| finding.as_ref().map(|finding| std::cmp::Reverse(finding.level)));
    let mut numbers = [0_u32; 3];
    findings
        .into_iter()
        .flatten()
        .map(|finding| {
            let letter = ['C', 'W', 'F'][finding.level as usize];
            let number = &mut numbers[finding.level as usize];
            *number += 1;
            Check {
                code: format!("{letter}{number}"),
                name: finding.name.to_owned(),
                level: finding.level,
                text: finding.text,
                needs_ack: finding.needs_ack,
            }
        })
        .collect()
}

fn minimal(looked: &Looked<'_>) -> Finding {
    let (summary, reverts) = (&looked.body.summary, looked.reverts);
    if reverts {
        return Finding::ok("checked", format!("{} slots go back to where they were", summary.slots));
    }
    let (slots, bound) = (summary.slots, summary.lower_bound);
    if matches!(looked.goal, Goal::BalanceLoad { .. }) && slots != bound {
        Finding::ok(
            "checked",
            format!("the independent checker agrees; no plan moves fewer than {bound}, this one {slots}"),
        )
    } else if slots > bound {
        Finding::warn("not-minimal", format!("{slots} slots move where {bound} might do"))
    } else {
        Finding::ok(
            "checked",
            format!("the independent checker agrees: no plan for this goal moves fewer than {bound}"),
        )
    }
}

fn placement(looked: &Looked<'_>) -> Option<Finding> {
    let placement = looked.body.placement.as_ref()?;
    let (changes, failovers) = (placement.changes, placement.failovers);
    let text = format!(
        "the independent checker agrees: no placement of {} replicas changes fewer than {changes} nodes, and then \
         primaries cannot be spread as evenly with fewer than {failovers} failovers",
        placement.goal.replicas
    );
    Some(Finding::ok("placement", text))
}

/// Who is in sync only a driver that sees the nodes could tell.
fn unobserved(looked: &Looked<'_>) -> Option<Finding> {
    let promoted: Vec<&str> = looked
        .body
        .actions
        .iter()
        .filter_map(|action| if let ActionKind::Promote { to, .. } = &action.kind { Some(to.as_str()) } else { None })
        .collect();
    if promoted.is_empty() || looked.driver == DriverKind::Redis {
        return None;
    }
    let names = listed(promoted.iter().copied());
    Some(match looked.driver {
        DriverKind::Flip => Finding::ok("promotion", format!("{names} start with what they have cached")),
        _ => {
            Finding::warn("unobserved-sync", format!("nothing here sees whether {names} are in sync: make sure first"))
        }
    })
}

fn driver_able(looked: &Looked<'_>) -> Finding {
    let name = looked.driver.as_str();
    let refused = looked.body.actions.iter().find(|action| !looked.driver.can(&action.kind));
    match refused {
        None => Finding::ok("driver", format!("driver {name} can carry out every action")),
        Some(action) => Finding::fail("driver", format!("driver {name} cannot carry out action {}", action.id)),
    }
}

fn data_loss(looked: &Looked<'_>) -> Option<Finding> {
    let assigned = looked.body.actions.iter().filter_map(|action| match &action.kind {
        ActionKind::AssignSlots { from: Some(from), .. } if looked.input.lost.contains(from) => {
            Some((from, action.kind.slots()))
        }
        _ => None,
    });
    let (from, slots): (BTreeSet<&ShardId>, Vec<usize>) = assigned.unzip();
    let (count, names) = (slots.iter().sum::<usize>(), listed(from.iter().map(|shard| shard.as_str())));
    match (from.is_empty(), looked.driver) {
        (true, _) => None,
        (false, DriverKind::Flip) => {
            Some(Finding::warn("data-loss", format!("{count} slots of {names} start with an empty cache")))
        }
        (false, _) => Some(Finding::ack(
            "data-loss",
            format!(
                "the keys in {count} slots of {names} are lost: the slots are assigned without reading their source"
            ),
        )),
    }
}

/// Undoing takes slots back, not shards: what was added for the undone plan stays, with nothing to serve.
fn emptied(looked: &Looked<'_>) -> Option<Finding> {
    let changes = looked.body.shards.iter().filter(|_| looked.reverts);
    let emptied = changes.filter(|change| change.before > 0 && change.after == 0);
    let names: Vec<&str> = emptied.map(|change| change.id.as_str()).collect();
    (!names.is_empty()).then(|| {
        let text =
            format!("{} end without slots and stay, active: drain or remove them", listed(names.iter().copied()));
        Finding::ok("emptied", text)
    })
}

fn stale_cache(looked: &Looked<'_>) -> Option<Finding> {
    if looked.driver != DriverKind::Flip {
        return None;
    }
    Some(if looked.reverts {
        Finding::ack("stale-cache", "slots go back to shards that may still cache values from before they left")
    } else {
        Finding::ok("stale-cache", "rolling back would revive what the sources still cache, and asks for it by name")
    })
}

fn unfenced(looked: &Looked<'_>) -> Option<Finding> {
    (looked.driver == DriverKind::Redis).then(|| {
        Finding::warn("unfenced", "a controller that was stopped can still send the nodes what it had in hand")
    })
}

/// A limit that nobody keeps must not look like one that is kept.
fn unenforced(looked: &Looked<'_>) -> Option<Finding> {
    let bytes = looked.limits.bytes_per_second.filter(|_| !looked.driver.counts_bytes())?;
    let name = looked.driver.as_str();
    let text = format!("driver {name} sees no bytes: bytes_per_second {bytes} is not kept to; slots_per_second is");
    Some(Finding::warn("unenforced-limit", text))
}

/// A repair brings what nodes say back to what the table says, and moves keys where that takes it.
fn repairs(looked: &Looked<'_>) -> Option<Finding> {
    let repaired = looked.body.actions.iter().filter(|a| matches!(a.kind, ActionKind::RepairSlot { .. })).count();
    let text = format!("{repaired} slots are closed so that their owners by the table own them; their keys go there");
    (repaired > 0).then(|| Finding::ok("repair", text))
}

/// What a rollback does not take back: said before somebody approves it.
fn one_way(looked: &Looked<'_>) -> Option<Finding> {
    if !looked.driver.asks_nodes() {
        return None;
    }
    let (mut assigned, mut repaired) = (0, 0);
    for action in &looked.body.actions {
        match &action.kind {
            ActionKind::AssignSlots { .. } => assigned += action.kind.slots(),
            ActionKind::RepairSlot { .. } => repaired += 1,
            _ => {}
        }
    }
    let parts = [(assigned, "assigned without a move"), (repaired, "repaired")];
    let told: Vec<String> =
        parts.iter().filter(|(slots, _)| *slots > 0).map(|(slots, how)| format!("{slots} slots are {how}")).collect();
    let text = format!("{}: a rollback does not undo that", told.join(", and "));
    (!told.is_empty()).then(|| Finding::warn("one-way", text))
}

fn windows(looked: &Looked<'_>) -> Option<Finding> {
    let texts: Vec<String> = looked.limits.windows.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| Finding::ok("time-windows", format!("actions start {} UTC only", texts.join(", "))))
}

fn coverage(looked: &Looked<'_>) -> Finding {
    let mut left = looked.input.table.unassigned();
    looked.body.moved_slots().iter().for_each(|slot| {
        left.remove(slot);
    });
    if left.is_empty() {
        return Finding::ok("coverage", "every slot has an owner afterwards");
    }
    let text = format!("{} slots have no owner, also after this plan: {}", left.len(), ranges(&left));
    Finding::warn("unassigned", text)
}

fn ranges(slots: &SlotSet) -> String {
    let ranges = slots.ranges();
    let first: Vec<String> = ranges.iter().take(RANGES_MAX).map(ToString::to_string).collect();
    let more = if ranges.len() > RANGES_MAX { ",…" } else { "" };
    format!("{}{more}", first.join(","))
}

fn open_slots(looked: &Looked<'_>) -> Option<Finding> {
    let at_nodes = looked.facts.is_some_and(|facts| facts.drift.iter().any(|drift| drift.kind == "open-slot"));
    match looked.moving {
        // The nodes' own are told by what was seen of them.
        0 if at_nodes => None,
        0 => Some(Finding::ok("open-slots", "no slot is open")),
        moving => Some(Finding::warn("open-slots", format!("{moving} ranges are still on their way"))),
    }
}

fn off_balance(looked: &Looked<'_>) -> Option<Finding> {
    let away = looked.body.summary.worst_after;
    let by_goal = matches!(looked.goal, Goal::Balance { .. } | Goal::BalanceLoad { .. });
    let meant = by_goal && !looked.reverts;
    (away.abs() > 1 && !meant)
        .then(|| Finding::warn("off-balance", format!("the farthest shard is then {away:+} slots from its share")))
}

fn unreached(looked: &Looked<'_>) -> Option<Finding> {
    let load = looked.body.figures.load.as_ref()?;
    load.unreached.as_ref().map(|why| Finding::warn("not-reached", why.clone()))
}

fn single_node(looked: &Looked<'_>) -> Option<Finding> {
    if looked.driver == DriverKind::Flip {
        return None;
    }
    let single = serving(looked).filter(|shard| active(looked, shard).len() < 2);
    let names: Vec<&str> = single.map(|shard| shard.id.as_str()).collect();
    (!names.is_empty()).then(|| {
        let text = format!("no replica could take over the slots of {}", listed(names.iter().copied()));
        Finding::warn("single-node-shard", text)
    })
}

fn one_zone(looked: &Looked<'_>) -> Option<Finding> {
    let exposed = serving(looked).filter(|shard| {
        let nodes = active(looked, shard);
        let zones: BTreeSet<_> = nodes.iter().map(|id| looked.nodes.get(*id)?.zone.as_ref()).collect();
        nodes.len() > 1 && zones.len() == 1 && zones.first().is_some_and(Option::is_some)
    });
    let names: Vec<&str> = exposed.map(|shard| shard.id.as_str()).collect();
    (!names.is_empty()).then(|| {
        Finding::warn("zone-single", format!("every node of {} stands in one zone", listed(names.iter().copied())))
    })
}

fn large(looked: &Looked<'_>) -> Option<Finding> {
    let slots = looked.body.summary.slots;
    (slots > 8192).then(|| Finding::warn("large-move", format!("{slots} of 16384 slots move: more than half")))
}

/// Shards that own slots when the plan is done.
fn serving<'a>(looked: &Looked<'a>) -> impl Iterator<Item = &'a Shard> {
    let (shards, changes) = (looked.input.shards, &looked.body.shards);
    changes.iter().filter(|change| change.after > 0).filter_map(|change| {
        let index = shards.binary_search_by(|shard| shard.id.cmp(&change.id)).ok()?;
        Some(&shards[index])
    })
}

fn active<'a>(looked: &Looked<'a>, shard: &'a Shard) -> Vec<&'a NodeId> {
    let placed = looked.body.placement.as_ref().and_then(|placement| {
        let index = placement.shards.binary_search_by(|placed| placed.shard.cmp(&shard.id)).ok()?;
        Some(&placement.shards[index])
    });
    if let Some(placed) = placed {
        return placed.nodes().collect();
    }
    let stays = |id: &&NodeId| looked.nodes.get(*id).is_none_or(|node| node.state == NodeState::Active);
    shard.nodes().filter(stays).collect()
}

pub(super) fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    let shown = names.take(NAMES_MAX).collect::<Vec<_>>().join(", ");
    if count > NAMES_MAX { format!("{shown} and {} more", count - NAMES_MAX) } else { shown }
}
