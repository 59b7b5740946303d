//! What an approval names: SHA-256 over length-prefixed, versioned bytes of a plan, and the fingerprint
//! of what a plan stands on. Both are frozen: a golden test holds their bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{ActionKind, Goal, Invalid, LoadMetric, Plan, Shard, ShardId, ShardState, SlotSet, SlotTable};

/// Version of the bytes under [`Digest::of_plan`] and [`Fingerprint::of`].
const FORMAT: u64 = 1;

/// A SHA-256 of a whole plan, written `sha256:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// A SHA-256 of what a plan stands on: owners of the moved slots, shard set, weights, drain flags.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint([u8; 32]);

impl Digest {
    /// The digest of a plan: intent, base, actions, waves, checks that need an acknowledgement, limits and
    /// policy. Estimates, author and times are not part of it.
    #[must_use]
    pub fn of_plan(plan: &Plan) -> Self {
        let mut bytes = Bytes::new("slotkeeper.plan");
        bytes.text(plan.id.as_str());
        bytes.text(plan.supersedes.as_ref().map_or("", |id| id.as_str()));
        bytes.text(plan.reverts.as_ref().map_or("", |id| id.as_str()));
        bytes.goal(plan.intent.goal);
        for list in [&plan.intent.add, &plan.intent.reweight] {
            bytes.number(list.len());
            for (shard, weight) in list {
                bytes.text(shard.as_str());
                bytes.number(weight.get());
            }
        }
        bytes.number(plan.intent.drain.len());
        plan.intent.drain.iter().for_each(|shard| bytes.text(shard.as_str()));
        bytes.text(&plan.intent.reason);
        bytes.text(plan.base.cluster_id.as_str());
        bytes.number(plan.base.version.generation.0);
        bytes.number(plan.base.version.epoch.0);
        bytes.raw(&plan.base.fingerprint.0);
        bytes.number(plan.body.actions.len());
        for action in &plan.body.actions {
            bytes.number(action.id.0);
            bytes.action(&action.kind);
        }
        bytes.number(plan.body.waves.len());
        for wave in &plan.body.waves {
            bytes.number(wave.len());
            for id in wave {
                bytes.number(id.0);
            }
        }
        let acks: Vec<_> = plan.checks.iter().filter(|check| check.needs_ack).collect();
        bytes.number(acks.len());
        for check in acks {
            bytes.text(&check.code);
            bytes.text(&check.name);
        }
        let limits = &plan.limits;
        bytes.number(limits.moves_per_source);
        bytes.number(limits.moves_per_target);
        bytes.number(limits.slots_per_move);
        bytes.optional(limits.slots_per_second.map(u64::from));
        bytes.optional(limits.bytes_per_second);
        bytes.number(limits.overlap_ms);
        bytes.number(plan.approvals_required);
        bytes.number(u8::from(plan.author_may_approve));
        // At the end and only where there are some: plans without windows keep their digests.
        if !limits.windows.is_empty() {
            bytes.text("windows");
            bytes.number(limits.windows.len());
            limits.windows.iter().for_each(|window| bytes.text(&window.to_string()));
        }
        if let Some(goal) = plan.intent.placement {
            bytes.text("placement");
            bytes.number(goal.replicas);
            bytes.text(goal.spread.as_str());
        }
        Self(bytes.finish())
    }
}

impl Fingerprint {
    /// The fingerprint of a cluster as far as a plan that moves these slots depends on it. `shards` are
    /// ascending by id.
    #[must_use]
    pub fn of<'a>(table: &SlotTable, shards: impl IntoIterator<Item = &'a Shard>, moved: &SlotSet) -> Self {
        let mut bytes = Bytes::new("slotkeeper.base");
        for shard in shards {
            bytes.text(shard.id.as_str());
            bytes.number(shard.weight.get());
            bytes.number(u8::from(shard.state == ShardState::Draining));
            bytes.text(shard.primary.as_str());
        }
        bytes.text("");
        for slot in moved.iter() {
            bytes.number(slot.get());
            bytes.text(table.owner(slot).map_or("", ShardId::as_str));
        }
        Self(bytes.finish())
    }
}

/// Length-prefixed bytes: no two different values have the same bytes.
struct Bytes(Sha256);

impl Bytes {
    fn new(domain: &str) -> Self {
        let mut bytes = Self(Sha256::new());
        bytes.text(domain);
        bytes.number(FORMAT);
        bytes
    }

    fn raw(&mut self, raw: &[u8]) {
        self.0.update((raw.len() as u64).to_be_bytes());
        self.0.update(raw);
    }

    fn text(&mut self, text: &str) {
        self.raw(text.as_bytes());
    }

    fn number(&mut self, number: impl TryInto<u64>) {
        let Ok(number) = number.try_into() else { unreachable!("unsigned numbers fit into 64 bits") };
        self.0.update(number.to_be_bytes());
    }

    fn optional(&mut self, number: Option<u64>) {
        self.number(u8::from(number.is_some()));
        self.number(number.unwrap_or(0));
    }

    fn goal(&mut self, goal: Goal) {
        let (kind, value, tolerance) = match goal {
            Goal::Balance { tolerance } => (1_u8, 0, tolerance.0),
            Goal::DrainOnly => (2, 0, 0),
            Goal::BalanceAbove { trigger } => (5, 0, trigger.0),
            Goal::Budget { max_moves } => (3, max_moves, 0),
            Goal::BalanceLoad { metric, tolerance } => {
                let metric = match metric {
                    LoadMetric::Keys => 1,
                    LoadMetric::Bytes => 2,
                    LoadMetric::Ops => 3,
                };
                (4, metric, tolerance.0)
            }
        };
        self.number(kind);
        self.number(value);
        self.number(tolerance);
    }

    fn action(&mut self, kind: &ActionKind) {
        let (tag, from, to) = match kind {
            ActionKind::MoveSlots { from, to, .. } => (1_u8, from.as_str(), to.as_str()),
            ActionKind::AssignSlots { from, to, .. } => (2, from.as_ref().map_or("", |f| f.as_str()), to.as_str()),
            ActionKind::Promote { from, to, .. } => (3, from.as_str(), to.as_str()),
            ActionKind::SetReplicaOf { node, shard } => (4, node.as_str(), shard.as_str()),
            ActionKind::RepairSlot { owner, .. } => (5, "", owner.as_str()),
        };
        self.number(tag);
        self.text(from);
        self.text(to);
        self.number(kind.ranges().len());
        for range in kind.ranges() {
            self.number(range.first().get());
            self.number(range.last().get());
        }
        match kind {
            ActionKind::Promote { shard, .. } => self.text(shard.as_str()),
            ActionKind::RepairSlot { slot, .. } => self.number(slot.get()),
            _ => {}
        }
    }

    fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

macro_rules! hex_type {
    ($name:ident, $what:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("sha256:")?;
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                parse_hex(text).map(Self).ok_or_else(|| {
                    let shown: String = text.chars().take(80).collect();
                    Invalid::new($what, format!("{shown:?} is not sha256: and 64 lower-case hex digits"))
                })
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;
            fn try_from(text: String) -> Result<Self, Invalid> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    };
}

hex_type!(Digest, "digest");
hex_type!(Fingerprint, "fingerprint");

/// Bytes as lower-case hex digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        hex.push(char::from(DIGITS[usize::from(byte >> 4)]));
        hex.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    hex
}

fn parse_hex(text: &str) -> Option<[u8; 32]> {
    let hex = text.strip_prefix("sha256:").filter(|hex| hex.len() == 64)?.as_bytes();
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(hex.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}
