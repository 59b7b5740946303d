//! Preflight checks: what the nodes themselves say against a plan, or ask for attention before it.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{DriftFact, Facts, NodeFacts};
use super::review::{Finding, listed};
use crate::domain::{ActionKind, CheckLevel, PlanBody, Shard, ShardId, Slot};

/// A replica that is farther behind would lose that much in a failover.
const LAG_MAX_BYTES: u64 = 16 << 20;
/// `MIGRATE` blocks a server; with a shorter timeout the others soon take it for dead.
const NODE_TIMEOUT_MIN_MS: u64 = 2_000;
/// The oldest servers whose `MIGRATE` moves many keys at once.
const VERSION_MIN: (u32, u32) = (4, 0);
/// Most findings of one kind that are told one by one.
const SENTENCES_MAX: usize = 3;

/// Why a plan may not start, by what the nodes say now: a sentence each.
#[must_use]
pub fn obstacles(body: &PlanBody, shards: &[Shard], facts: &Facts) -> Vec<String> {
    let failing = findings(body, shards, facts).into_iter().filter(|finding| finding.level == CheckLevel::Fail);
    failing.map(|finding| format!("{}: {}", finding.name, finding.text)).collect()
}

/// What each check finds.
pub(super) fn findings(body: &PlanBody, shards: &[Shard], facts: &Facts) -> Vec<Finding> {
    let ends = Ends::of(body, shards, facts);
    let mut found = vec![reachable(shards, facts), agreement(body, facts), durability(&ends), permissions(&ends)];
    found.extend(versions(&ends));
    found.extend(replica_lag(&ends, facts));
    found.extend(big_keys(facts));
    found.extend(memory(&ends, body, facts));
    found.extend(replica_migration(&ends, body));
    found.extend(node_timeout(&ends));
    found.extend(unsampled(facts));
    found
}

/// The primaries that slots leave and enter, and whose slots are repaired; only those that were heard of.
struct Ends<'a> {
    sources: BTreeMap<&'a ShardId, &'a NodeFacts>,
    targets: BTreeMap<&'a ShardId, &'a NodeFacts>,
    shards: BTreeMap<&'a ShardId, &'a Shard>,
}

impl<'a> Ends<'a> {
    fn of(body: &'a PlanBody, shards: &'a [Shard], facts: &'a Facts) -> Self {
        let shards: BTreeMap<&ShardId, &Shard> = shards.iter().map(|shard| (&shard.id, shard)).collect();
        let primary = |id: &ShardId| {
            let node = facts.nodes.get(&shards.get(id)?.primary)?;
            node.silent.is_none().then_some(node)
        };
        let (mut sources, mut targets) = (BTreeMap::new(), BTreeMap::new());
        for action in &body.actions {
            let (from, to) = match &action.kind {
                ActionKind::MoveSlots { from, to, .. } => (Some(from), Some(to)),
                ActionKind::AssignSlots { to, .. } => (None, Some(to)),
                ActionKind::RepairSlot { owner, .. } => (None, Some(owner)),
                ActionKind::Promote { shard, .. } | ActionKind::SetReplicaOf { shard, .. } => (None, Some(shard)),
            };
            sources.extend(from.and_then(|from| Some((from, primary(from)?))));
            targets.extend(to.and_then(|to| Some((to, primary(to)?))));
        }
        Self { sources, targets, shards }
    }

    /// Either end, each once.
    fn all(&self) -> BTreeMap<&'a ShardId, &'a NodeFacts> {
        self.sources.iter().chain(&self.targets).map(|(id, node)| (*id, *node)).collect()
    }
}

/// A primary that does not answer cannot agree to anything.
fn reachable(shards: &[Shard], facts: &Facts) -> Finding {
    let silent = |node: &crate::domain::NodeId| {
        let node = facts.nodes.get(node).filter(|node| !node.lost)?;
        node.silent.as_ref().map(|why| format!("{} ({why})", node.address))
    };
    let primaries: Vec<String> = shards.iter().filter_map(|shard| silent(&shard.primary)).collect();
    let replicas: Vec<String> = shards.iter().flat_map(|shard| &shard.replicas).filter_map(silent).collect();
    let names = |nodes: &[String]| listed(nodes.iter().map(String::as_str));
    match (primaries.as_slice(), replicas.as_slice()) {
        ([], []) => Finding::ok("reachable", "every node answers"),
        ([], _) => Finding::warn("reachable", format!("replicas do not answer: {}", names(&replicas))),
        _ => Finding::fail("reachable", format!("primaries do not answer: {}", names(&primaries))),
    }
}

/// What is not as the table has it stands against every plan but the one that repairs it.
fn agreement(body: &PlanBody, facts: &Facts) -> Finding {
    let repaired: BTreeSet<Slot> = body
        .actions
        .iter()
        .filter_map(|action| if let ActionKind::RepairSlot { slot, .. } = &action.kind { Some(*slot) } else { None })
        .collect();
    let stands = |fact: &&DriftFact| {
        let ours = ["unreachable", "unknown-node", "missing-node", "replica-elsewhere"];
        !ours.contains(&fact.kind.as_str()) && (fact.slots.is_empty() || !fact.slots.is_subset(&repaired))
    };
    let found: Vec<&DriftFact> = facts.drift.iter().filter(stands).collect();
    if found.is_empty() {
        return Finding::ok(
            "nodes-agree",
            "the nodes agree with the table, and no slot is open that the plan leaves open",
        );
    }
    let shown: Vec<&str> = found.iter().take(SENTENCES_MAX).map(|fact| fact.what.as_str()).collect();
    let more = found.len().saturating_sub(SENTENCES_MAX);
    let more = if more > 0 { format!("; and {more} more: see cluster check") } else { String::new() };
    let name = if found.iter().all(|fact| fact.kind == "open-slot") { "open-slots" } else { "nodes-disagree" };
    Finding::fail(name, format!("{}{more}", shown.join("; ")))
}

fn durability(ends: &Ends<'_>) -> Finding {
    let ends = ends.all();
    let lossy = |node: &&NodeFacts| node.lossy.as_ref().map(|how| format!("{} ({how})", node.address));
    let names: Vec<String> = ends.values().filter_map(lossy).collect();
    if names.is_empty() {
        return Finding::ok("durability", "what a node acknowledges survives its crash: appendfsync always");
    }
    let text = format!("lossy on crash: {}", listed(names.iter().map(String::as_str)));
    Finding::warn("durability", text)
}

fn permissions(ends: &Ends<'_>) -> Finding {
    let ends = ends.all();
    let denied = ends.values().filter(|node| !node.denied.is_empty());
    let names: Vec<String> = denied
        .map(|node| {
            let user = node.user.as_deref().unwrap_or("the user");
            format!("{}: {user} may not {}", node.address, node.denied.join(", "))
        })
        .collect();
    match names.first() {
        None => Finding::ok("acl-permissions", "the controller's user may give every command of a move"),
        Some(_) => Finding::fail("acl-permissions", listed(names.iter().map(String::as_str))),
    }
}

fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// A server reads what an older one wrote, not the other way round.
fn versions(ends: &Ends<'_>) -> Option<Finding> {
    let all = ends.all();
    let too_old = |node: &&&NodeFacts| number(&node.version).is_none_or(|version| version < VERSION_MIN);
    let old: Vec<String> = all.values().filter(too_old).map(|n| format!("{} ({})", n.address, n.version)).collect();
    if !old.is_empty() {
        let text = format!("servers before {}.{}: {}", VERSION_MIN.0, VERSION_MIN.1, old.join(", "));
        return Some(Finding::fail("versions", text));
    }
    let newest = ends.sources.values().max_by_key(|node| number(&node.version))?;
    let oldest = ends.targets.values().min_by_key(|node| number(&node.version))?;
    if number(&newest.version) > number(&oldest.version) {
        let text = format!(
            "{} runs {} and {} runs {}: an older server may not read what a newer one sends",
            newest.address, newest.version, oldest.address, oldest.version
        );
        return Some(Finding::warn("versions", text));
    }
    Some(Finding::ok("versions", format!("every server that takes slots is as new as {}", newest.version)))
}

fn replica_lag(ends: &Ends<'_>, facts: &Facts) -> Option<Finding> {
    let mut behind = Vec::new();
    for (id, primary) in ends.all() {
        let replicas = ends.shards.get(id).into_iter().flat_map(|shard| &shard.replicas);
        for node in replicas.filter_map(|node| facts.nodes.get(node)).filter(|node| node.silent.is_none() && !node.lost)
        {
            let lag = primary.offset.saturating_sub(node.offset);
            if node.link_up == Some(false) {
                behind.push(format!("{} has no link to its primary", node.address));
            } else if lag > LAG_MAX_BYTES {
                behind.push(format!("{} is {} MiB behind (limit {})", node.address, lag >> 20, LAG_MAX_BYTES >> 20));
            }
        }
    }
    (!behind.is_empty()).then(|| Finding::warn("replica-lag", listed(behind.iter().map(String::as_str))))
}

fn big_keys(facts: &Facts) -> Option<Finding> {
    let big = facts.sample.largest.iter().filter(|(.., bytes)| *bytes > facts.big_key_bytes);
    let names: Vec<String> =
        big.map(|(slot, name, bytes)| format!("slot {slot}: \"{name}\" {}", mebibytes(*bytes))).collect();
    if names.is_empty() {
        let measured = facts.sample.measured.0;
        let most = mebibytes(facts.big_key_bytes);
        return (measured > 0)
            .then(|| Finding::ok("big-key", format!("none of {measured} keys sampled is above {most}")));
    }
    let text = format!("{}; their move blocks both nodes", listed(names.iter().map(String::as_str)));
    Some(Finding::ack("big-key", text))
}

/// Whether what a target gets fits into what it may use.
fn memory(ends: &Ends<'_>, body: &PlanBody, facts: &Facts) -> Option<Finding> {
    let mut entering: BTreeMap<&ShardId, Vec<Slot>> = BTreeMap::new();
    for action in &body.actions {
        if let ActionKind::MoveSlots { to, ranges, .. } = &action.kind {
            entering.entry(to).or_default().extend(ranges.iter().flat_map(|range| range.slots()));
        }
    }
    let (mut over, mut close, mut bounded) = (Vec::new(), Vec::new(), false);
    for (id, slots) in entering {
        let Some(node) = ends.targets.get(id).filter(|node| node.max_bytes > 0) else { continue };
        let bytes = facts.sample.keys_in(slots).and_then(|keys| facts.sample.bytes_of(keys));
        let Some(bytes) = bytes else { continue };
        bounded = true;
        let after = node.used_bytes.saturating_add(bytes);
        let text = format!("{} would use {} of {}", node.address, mebibytes(after), mebibytes(node.max_bytes));
        if after > node.max_bytes {
            over.push(text);
        } else if after > node.max_bytes / 10 * 9 {
            close.push(text);
        }
    }
    let names = |texts: &[String]| listed(texts.iter().map(String::as_str));
    match (over.as_slice(), close.as_slice()) {
        ([], []) => bounded.then(|| Finding::ok("memory", "every target has room for what it gets, by a sample")),
        ([], _) => Some(Finding::warn("memory", names(&close))),
        _ => Some(Finding::fail("memory", names(&over))),
    }
}

/// An empty primary that may migrate becomes a replica of the last target.
fn replica_migration(ends: &Ends<'_>, body: &PlanBody) -> Option<Finding> {
    let emptied = body.shards.iter().filter(|change| change.before > 0 && change.after == 0);
    let migrates = |node: &&NodeFacts| node.replica_migration == Some(true);
    let nodes = emptied.filter_map(|change| ends.sources.get(&change.id).copied()).filter(migrates);
    let names: Vec<&str> = nodes.map(|node| node.address.as_str()).collect();
    (!names.is_empty()).then(|| {
        let names = listed(names.iter().copied());
        let text = format!("{names} will copy another shard once empty: CONFIG SET cluster-allow-replica-migration no");
        Finding::warn("replica-migration", text)
    })
}

fn node_timeout(ends: &Ends<'_>) -> Option<Finding> {
    let short = |node: &&NodeFacts| node.node_timeout_ms.is_some_and(|timeout| timeout < NODE_TIMEOUT_MIN_MS);
    let all = ends.all();
    let names: Vec<String> = all
        .values()
        .filter(|node| short(node))
        .map(|node| format!("{} ({} ms)", node.address, node.node_timeout_ms.unwrap_or(0)))
        .collect();
    (!names.is_empty()).then(|| {
        let names = listed(names.iter().map(String::as_str));
        let text = format!("a move may look like a failure where cluster-node-timeout is short: {names}");
        Finding::warn("node-timeout", text)
    })
}

fn unsampled(facts: &Facts) -> Option<Finding> {
    let faults = &facts.sample.faults;
    (!faults.is_empty()).then(|| {
        let names = listed(faults.iter().map(String::as_str));
        Finding::warn("unsampled", format!("keys could not be looked at: {names}"))
    })
}

fn mebibytes(bytes: u64) -> String {
    if bytes < 10 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}
