//! Conversations with the state machine: `tests/scripts/*.txt` hold commands and what came of them. A line `> …` is a
//! command (see `scene`), the lines under it are the answer, the events and the audit; `> show CLUSTER` prints the
//! state. `SLOTKEEPER_BLESS=1` (`make bless`) rewrites the answers.
//!
//! Every conversation is also replayed from its start: the hash of the state must come out the same.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use slotkeeper::domain::{ActionState, ClusterName, Instant, NodeState, PlanId, Rollout, ShardState};
use slotkeeper::state::{Applied, AuditHead, Cluster, Command, Event, PlanRecord, State};

use crate::scene::{Words, command, id};

/// Conversations start at this second; every command is one second later than the one before.
const START_SECONDS: u64 = 1000;

#[derive(Default)]
struct Stage {
    state: State,
    seconds: u64,
    chain: AuditHead,
    log: Vec<Command>,
}

impl Stage {
    fn new() -> Self {
        Self { seconds: START_SECONDS, ..Self::default() }
    }

    fn answer(&mut self, line: &str) -> String {
        let words = Words::of(line);
        match words.word(0) {
            "show" => show(&self.state.clusters[&id::<ClusterName>(words.word(1))]),
            "wait" => {
                self.seconds += words.word(1).parse::<u64>().unwrap();
                String::new()
            }
            _ => self.submit(line),
        }
    }

    fn submit(&mut self, line: &str) -> String {
        self.seconds += 1;
        let back: u64 = Words::of(line).get("clock_back").unwrap_or(0);
        let command = command(&self.state, line, Instant((self.seconds - back) * 1000));
        let json = serde_json::to_string(&command).unwrap();
        assert_eq!(serde_json::from_str::<Command>(&json).unwrap(), command, "{line}");
        let before = self.state.clone();
        let applied = self.state.apply(&command);
        if applied.outcome.is_err() {
            assert_eq!(State { now: self.state.now, ..before }, self.state, "a rejection changed something: {line}");
        }
        self.chain = self.chain.verify(&applied.audit).unwrap();
        self.log.push(command);
        describe(&applied)
    }

    /// The same log on another member, and the state by way of a snapshot.
    fn replay(&self) {
        let mut other = State::default();
        for command in &self.log {
            other.apply(command);
        }
        assert_eq!(other.hash(), self.state.hash());
        let json = serde_json::to_vec(&self.state).unwrap();
        assert_eq!(serde_json::from_slice::<State>(&json).unwrap(), self.state);
    }
}

fn describe(applied: &Applied) -> String {
    let mut text = String::new();
    match &applied.outcome {
        Err(rejection) => writeln!(text, "no {}: {rejection}", rejection.code()).unwrap(),
        Ok(receipt) => {
            text.push_str(if receipt.repeated { "ok again" } else { "ok" });
            let optional: [(&str, Option<String>); 6] = [
                ("version", receipt.version.map(|v| v.to_string())),
                ("plan", receipt.plan.as_ref().map(ToString::to_string)),
                ("node", receipt.node.as_ref().map(ToString::to_string)),
                ("shard", receipt.shard.as_ref().map(ToString::to_string)),
                ("token", receipt.token.as_ref().map(ToString::to_string)),
                ("revision", receipt.revision.map(|r| r.to_string())),
            ];
            for (name, value) in optional {
                if let Some(value) = value {
                    write!(text, " {name}={value}").unwrap();
                }
            }
            text.push('\n');
        }
    }
    for event in &applied.events {
        let line = match event {
            Event::TopologyChanged { cluster, version } => format!("topology {cluster} {version}"),
            Event::ClusterDeleted { cluster } => format!("deleted {cluster}"),
            Event::PlanChanged { cluster, plan, state } => format!("plan {cluster}/{plan} {}", state.as_str()),
            Event::RolloutChanged { cluster, plan, state } => format!("rollout {cluster}/{plan} {}", state.as_str()),
        };
        writeln!(text, "  {line}").unwrap();
    }
    if let Some(record) = &applied.audit {
        let subject = record.subject.as_ref().map_or_else(String::new, |subject| format!(" {subject}"));
        writeln!(text, "  #{} {}{subject}: {}", record.seq, record.action, record.summary).unwrap();
    }
    without_digests(&text)
}

/// Digests are tested elsewhere; here they would hide what changed.
fn without_digests(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("sha256:") {
        let digits = rest[start + 7..].bytes().take_while(u8::is_ascii_hexdigit).count();
        shown.push_str(&rest[..start + 7]);
        shown.push_str(if digits == 64 { "…" } else { &rest[start + 7..start + 7 + digits] });
        rest = &rest[start + 7 + digits..];
    }
    shown + rest
}

fn show(cluster: &Cluster) -> String {
    let mut text = format!("{} {} revision {}\n", cluster.name, cluster.version(), cluster.revision);
    for shard in cluster.shards.values() {
        let (value, revision) = (&shard.value, shard.revision);
        let draining = if value.state == ShardState::Draining { " draining" } else { "" };
        let nodes: Vec<_> = value
            .nodes()
            .map(|node| {
                let mark = match cluster.nodes[node].value.state {
                    NodeState::Active => "",
                    NodeState::Draining => "(draining)",
                    NodeState::Lost => "(lost)",
                };
                format!("{node}{mark}")
            })
            .collect();
        let ranges: Vec<_> = cluster.table.ranges_of(&value.id).iter().map(ToString::to_string).collect();
        let slots = cluster.table.count_of(&value.id);
        let (nodes, ranges) = (nodes.join(" "), ranges.join(","));
        write!(text, "  {} r{revision}{draining} weight {} [{nodes}] {slots}", value.id, value.weight.get()).unwrap();
        writeln!(text, "{}{ranges}", if slots == 0 { "" } else { ": " }).unwrap();
    }
    let unassigned = cluster.table.unassigned();
    if !unassigned.is_empty() {
        writeln!(text, "  unassigned {unassigned}").unwrap();
    }
    for moving in &cluster.moving {
        writeln!(text, "  moving {} {} -> {} served {:?}", moving.range, moving.from, moving.to, moving.serving)
            .unwrap();
    }
    if !cluster.removed.is_empty() {
        let removed: Vec<&str> = cluster.removed.iter().map(slotkeeper::domain::NodeId::as_str).collect();
        writeln!(text, "  removed {}", removed.join(" ")).unwrap();
    }
    for (plan, record) in &cluster.plans {
        show_plan(&mut text, cluster, plan, record);
    }
    text
}

fn show_plan(text: &mut String, cluster: &Cluster, id: &PlanId, record: &PlanRecord) {
    write!(text, "  plan {id} r{} {}", record.revision, record.state.as_str()).unwrap();
    if !record.approvals.is_empty() {
        let names: Vec<_> = record.approvals.iter().map(|approval| approval.by.name.as_str()).collect();
        write!(text, " approved by {}", names.join(", ")).unwrap();
    }
    if let Some(by) = &record.superseded_by {
        write!(text, " by {by}").unwrap();
    }
    text.push('\n');
    if !record.state.is_final() && record.rollout.is_none() {
        for change in cluster.stale_because(&record.plan) {
            writeln!(text, "    stale: {change}").unwrap();
        }
    }
    if let Some(rollout) = &record.rollout {
        writeln!(text, "    {}{}", rollout.state.as_str(), progress(rollout)).unwrap();
    }
}

fn progress(rollout: &Rollout) -> String {
    let mut text = rollout.cause.as_ref().map_or_else(String::new, |cause| format!(" ({cause})"));
    for (id, progress) in &*rollout.actions {
        let state = match progress.state {
            ActionState::Begun => "begun",
            ActionState::Done => "done",
            ActionState::Failed => "failed",
            ActionState::Reverting => "reverting",
            ActionState::Reverted => "reverted",
        };
        write!(text, " {id} {state}").unwrap();
        if progress.attempts > 1 {
            write!(text, "×{}", progress.attempts).unwrap();
        }
        if let Some(error) = &progress.error {
            write!(text, " ({error})").unwrap();
        }
    }
    text
}

/// Plays one script and gives it back with the answers as they are now.
fn play(script: &str) -> String {
    let mut stage = Stage::new();
    let mut played = String::new();
    for line in script.lines() {
        if let Some(asked) = line.strip_prefix("> ") {
            writeln!(played, "{line}\n{}", stage.answer(asked).trim_end()).unwrap();
            // An empty answer leaves no line behind.
            if played.ends_with("\n\n") {
                played.pop();
            }
        } else if line.is_empty() || line.starts_with("# ") {
            writeln!(played, "{line}").unwrap();
        }
    }
    stage.replay();
    played
}

#[test]
fn conversations_go_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    scripts.sort();
    assert!(scripts.len() >= 8, "the scripts are missing");
    let bless = std::env::var_os("SLOTKEEPER_BLESS").is_some();
    for path in scripts {
        let written = std::fs::read_to_string(&path).unwrap();
        let played = play(&written);
        if bless {
            std::fs::write(&path, &played).unwrap();
        }
        let difference = played.lines().zip(written.lines()).position(|(now, then)| now != then);
        assert!(
            bless || played == written,
            "{} line {}: it goes otherwise now; read it, then `make bless`\n{played}",
            path.display(),
            difference.map_or(0, |line| line + 1)
        );
    }
}
