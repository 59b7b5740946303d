//! What is seen, and whether it may be. Every check holds at any moment; what breaks one is kept with its words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use slotkeeper::domain::{ActionId, ActionState, Digest, MemberId, PlanId, SLOT_COUNT, Version};
use slotkeeper::driver::Direction;
use slotkeeper::raft::Status;
use slotkeeper::state::{AuditHead, AuditRecord, Cluster, State};

use super::nodes::Nodes;

/// Everything known of one run.
#[derive(Default)]
pub struct Oracle {
    pub now_ms: u64,
    violations: Vec<String>,
    /// A digest of everything that happened, for comparing runs.
    trace: u64,
    log: Option<String>,
    leaders: BTreeMap<u64, MemberId>,
    hashes: BTreeMap<u64, String>,
    published: BTreeMap<(MemberId, String), Version>,
    tags: BTreeMap<(String, Version), String>,
    held: BTreeMap<(usize, String), Version>,
    registers: BTreeMap<String, Register>,
    /// Epoch of the cluster of registers that a completed operation proves.
    epoch_floor: u64,
    written_at: BTreeMap<u64, String>,
    driven: BTreeSet<(PlanId, ActionId, bool)>,
    digests: BTreeMap<PlanId, String>,
    audited: BTreeMap<MemberId, AuditHead>,
    /// The term that each host led in when it was last looked at.
    leading: BTreeMap<u64, Option<u64>>,
    group_id: Option<String>,
    /// The address of every member there ever was, and the number that each host has.
    addresses: BTreeMap<MemberId, String>,
    numbers: BTreeMap<u64, MemberId>,
    /// Numbers that were given to new members.
    given: BTreeSet<MemberId>,
    news: u64,
    pub nodes: Nodes,
    pub counts: Counts,
}

/// How much was done.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    pub writes: u64,
    pub unknown: u64,
    pub reads: u64,
    pub polls: u64,
    pub rollouts: u64,
    pub terms: u64,
    pub added: u64,
    pub promoted: u64,
    pub removed: u64,
    pub lost: u64,
    /// Snapshots that went to a member that the log was too short for.
    pub snapshots: u64,
    pub keys: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.writes += other.writes;
        self.unknown += other.unknown;
        self.reads += other.reads;
        self.polls += other.polls;
        self.rollouts += other.rollouts;
        self.terms += other.terms;
        self.added += other.added;
        self.promoted += other.promoted;
        self.removed += other.removed;
        self.lost += other.lost;
        self.snapshots += other.snapshots;
        self.keys += other.keys;
    }
}

/// A value that clients change by compare and swap; its revision is the order of its writes.
#[derive(Default)]
struct Register {
    values: BTreeMap<u64, String>,
    floor: u64,
    /// Values of writes that were refused for good.
    refused: BTreeSet<String>,
}

impl Oracle {
    pub fn logging(log: bool) -> Self {
        Self { log: log.then(String::new), ..Self::default() }
    }

    pub fn violation(&mut self, what: impl Into<String>) {
        let what = format!("at {} ms: {}", self.now_ms, what.into());
        self.event(&what);
        self.violations.push(what);
    }

    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violation(what());
        }
    }

    /// Something that a second run with the same seed must do as well, at the same time.
    pub fn event(&mut self, what: &str) {
        let line = format!("{} {what}", self.now_ms);
        for byte in line.bytes() {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(log) = &mut self.log {
            writeln!(log, "{line}").expect("a String takes every write");
        }
    }

    pub fn first_violation(&self) -> Option<&str> {
        self.violations.first().map(String::as_str)
    }

    pub const fn trace(&self) -> u64 {
        self.trace
    }

    pub fn take_log(&mut self) -> String {
        self.log.take().unwrap_or_default()
    }

    /// Grows with everything that is acknowledged or published for the first time.
    pub const fn news(&self) -> u64 {
        self.news
    }

    /// Which term a host leads in, when the world stands still.
    pub fn stands(&mut self, host: u64, leading: Option<u64>) {
        self.leading.insert(host, leading);
        if let Some(term) = leading {
            self.leads(term, host);
        }
    }

    /// S6: an executor acts in a term; one that knew already at the last look that it does not lead has stopped.
    pub fn acts_in(&mut self, host: u64, term: u64, leading: Option<u64>) {
        let before = self.leading.get(&host).copied().flatten();
        self.check([before, leading].contains(&Some(term)), || {
            format!("S6: member {host} acts in term {term}, and led in {before:?} before, {leading:?} now")
        });
    }

    /// A number was given to a new member.
    pub fn given(&mut self, member: MemberId) {
        self.counts.added += 1;
        let new = self.given.insert(member) && !self.addresses.contains_key(&member);
        self.check(new, || format!("number {member} is given to another member"));
    }

    /// What a member says of the group: a number is one member for ever, and the group is one.
    pub fn group(&mut self, host: u64, status: &Status) {
        let group_id = self.group_id.get_or_insert_with(|| status.group_id.clone()).clone();
        self.check(group_id == status.group_id, || format!("member {host} is of group {}", status.group_id));
        let number = *self.numbers.entry(host).or_insert(status.id);
        self.check(number == status.id, || format!("host {host} is member {number} and {}", status.id));
        for (id, address) in &status.members {
            let known = self.addresses.entry(*id).or_insert_with(|| address.clone()).clone();
            self.check(known == *address, || format!("member {id} is at {known} and at {address}"));
        }
    }

    /// One leader a term.
    fn leads(&mut self, term: u64, member: MemberId) {
        if self.leaders.get(&term) == Some(&member) {
            return;
        }
        self.event(&format!("member {member} leads in term {term}"));
        let other = self.leaders.insert(term, member);
        self.check(other.is_none(), || format!("members {other:?} and {member} lead in term {term}"));
        self.counts.terms = self.leaders.len() as u64;
    }

    /// S11: members at the same index have the same state, to the byte.
    pub fn state_hash(&mut self, member: MemberId, index: u64, hash: &str) {
        let known = self.hashes.entry(index).or_insert_with(|| hash.to_owned()).clone();
        self.check(known == hash, || format!("S11: member {member} has another state at {index} than one before"));
    }

    /// S1, S3 and S5 of an applied state.
    pub fn state(&mut self, member: MemberId, state: &State) {
        for (name, cluster) in &state.clusters {
            if name.as_str() == "default" {
                self.nodes(cluster);
            }
            let owners = cluster.table.owners();
            let known = owners.iter().filter(|&&owner| usize::from(owner) < cluster.shards.len()).count();
            let unassigned = owners.iter().filter(|&&owner| owner == slotkeeper::domain::UNASSIGNED).count();
            self.check(owners.len() == SLOT_COUNT && known + unassigned == SLOT_COUNT, || {
                format!("S1: member {member}, cluster {name}: {known} slots owned and {unassigned} not")
            });
            for record in cluster.plans.values() {
                let id = &record.plan.id;
                if !record.approvals.is_empty() {
                    let told = self.digests.get(id).cloned();
                    let bound = record.digest == Digest::of_plan(&record.plan);
                    let same = told.is_none_or(|told| told == record.digest.to_string());
                    self.check(bound && same, || format!("S3: plan {id} is approved and not what was proposed"));
                }
                let actions = record.rollout.iter().flat_map(|rollout| rollout.actions.iter());
                for (action, progress) in actions {
                    let (needs, back) = match progress.state {
                        ActionState::Done | ActionState::Reverting => (true, false),
                        ActionState::Reverted => (true, true),
                        ActionState::Begun | ActionState::Failed => (false, false),
                    };
                    let driven = !needs || self.driven.contains(&(id.clone(), *action, back));
                    self.check(driven, || format!("S5: {action} of {id} is {:?} and was not driven", progress.state));
                }
            }
        }
    }

    /// S7 and S8: what the nodes have, beside what a member says of their cluster.
    fn nodes(&mut self, cluster: &Cluster) {
        if !cluster.table.shards().is_empty() {
            self.nodes.learn(&cluster.table);
        }
        let ended = |id: &&PlanId| cluster.plans[*id].rollout.as_ref().is_some_and(|rollout| rollout.state.is_final());
        let closed = cluster.plans.keys().filter(ended).try_for_each(|plan| self.nodes.check_closed(plan));
        if let Err(what) = closed.and_then(|()| self.nodes.check()) {
            self.violation(what);
        }
        self.counts.keys = self.nodes.keys();
    }

    /// The end of a run: nothing is under way, so the nodes are as the controllers say.
    pub fn settled(&mut self, state: &State) {
        let agree = state.clusters.values().filter(|cluster| cluster.name.as_str() == "default");
        for cluster in agree {
            if let Err(what) = self.nodes.check_agree(&cluster.table) {
                self.violation(what);
            }
        }
    }

    /// A driver did what it was asked.
    pub fn driven(&mut self, plan: &PlanId, action: ActionId, direction: Direction) {
        self.event(&format!("{action} of {plan} is driven {direction:?}"));
        self.driven.insert((plan.clone(), action, matches!(direction, Direction::Back)));
    }

    /// A client was told the digest of a plan that it proposed.
    pub fn proposed(&mut self, plan: &str, digest: &str) {
        let plan = PlanId::new(plan).expect("an id");
        self.digests.insert(plan, digest.to_owned());
    }

    /// S2: a topology that a member answered. No member goes back, also over restarts; one version is one text.
    pub fn published(&mut self, member: MemberId, cluster: &str, version: Version, tag: &str) {
        self.counts.polls += 1;
        let key = (member, cluster.to_owned());
        let before = self.published.get(&key).copied().unwrap_or_default();
        self.news += u64::from(version > before);
        self.check(version >= before, || format!("S2: member {member} answers {cluster} at {version} after {before}"));
        self.published.insert(key, version.max(before));
        if !tag.is_empty() {
            let known = self.tags.entry((cluster.to_owned(), version)).or_insert_with(|| tag.to_owned()).clone();
            self.check(known == tag, || format!("S1: member {member} has another {cluster} at {version}"));
        }
    }

    /// S2 for a client that says what it holds.
    pub fn held(&mut self, client: usize, cluster: &str, version: Version) {
        let key = (client, cluster.to_owned());
        let before = self.held.insert(key, version).unwrap_or_default();
        self.check(version >= before, || format!("S2: client {client} got {cluster} {version} after {before}"));
    }

    /// What every operation that begins now must have seen: revision of the register, epoch of its cluster.
    pub fn floor(&mut self, register: &str) -> (u64, u64) {
        (self.registers.entry(register.to_owned()).or_default().floor, self.epoch_floor)
    }

    fn value(&mut self, register: &str, revision: u64, value: &str) {
        let held = self.registers.entry(register.to_owned()).or_default();
        let known = held.values.entry(revision).or_insert_with(|| value.to_owned()).clone();
        let refused = held.refused.contains(value);
        let twice = held.values.iter().find(|(other, text)| **other != revision && *text == value && !value.is_empty());
        let twice = twice.map(|(other, _)| *other);
        held.floor = held.floor.max(revision);
        self.check(known == value, || format!("S4: revision {revision} of {register} is {value:?}, and was {known:?}"));
        self.check(twice.is_none(), || {
            format!("{value:?} was written to {register} twice, as {twice:?} and {revision}")
        });
        self.check(!refused, || format!("{value:?} of {register} was refused and is there"));
    }

    /// A write was acknowledged.
    pub fn wrote(&mut self, register: &str, floor: (u64, u64), revision: u64, epoch: u64, value: &str) {
        self.counts.writes += 1;
        self.event(&format!("{register} is {value} at revision {revision}, epoch {epoch}"));
        self.check(revision > floor.0, || {
            format!("a write of {register} got revision {revision}; {} was there before it began", floor.0)
        });
        self.acknowledged(floor.1, epoch, value);
        self.value(register, revision, value);
    }

    /// A write was acknowledged, and then another one came: only its epoch is known.
    pub fn wrote_before(&mut self, register: &str, floor: (u64, u64), epoch: u64, value: &str) {
        self.counts.writes += 1;
        self.event(&format!("{register} was {value}, epoch {epoch}"));
        self.acknowledged(floor.1, epoch, value);
    }

    fn acknowledged(&mut self, floor: u64, epoch: u64, value: &str) {
        self.news += 1;
        self.check(epoch > floor, || format!("a write got epoch {epoch}; {floor} was there before it began"));
        let other = self.written_at.insert(epoch, value.to_owned());
        self.check(other.as_ref().is_none_or(|other| other == value), || {
            format!("epoch {epoch} was acknowledged for {other:?} and {value:?}")
        });
        self.epoch_floor = self.epoch_floor.max(epoch);
    }

    /// A write was refused: it must not come up later.
    pub fn refused(&mut self, register: &str, value: &str) {
        let held = self.registers.entry(register.to_owned()).or_default();
        let there = held.values.values().any(|known| known == value);
        held.refused.insert(value.to_owned());
        self.check(!there, || format!("{value:?} of {register} is there and is refused"));
    }

    /// A linearizable read answered.
    pub fn read(&mut self, register: &str, floor: (u64, u64), revision: u64, value: &str) {
        self.counts.reads += 1;
        self.event(&format!("{register} is read as {value} at revision {revision}"));
        self.check(revision >= floor.0, || {
            format!("a stale read of {register}: revision {revision}, and {} was known when it began", floor.0)
        });
        self.value(register, revision, value);
    }

    /// A linearizable read of the topology answered.
    pub fn read_epoch(&mut self, floor: (u64, u64), epoch: u64) {
        self.counts.reads += 1;
        self.check(epoch >= floor.1, || {
            format!("a stale read: epoch {epoch}, and {} was known when it began", floor.1)
        });
        self.epoch_floor = self.epoch_floor.max(epoch);
    }

    /// S9 and S4 at the end: the chain has no gap, and every acknowledged write is in it.
    pub fn audit(&mut self, member: MemberId, records: &[AuditRecord], head: &AuditHead) {
        match AuditHead::default().verify(records) {
            Err(broken) => self.violation(format!("S9: member {member}: {broken}")),
            Ok(end) => {
                let reached = end.seq >= head.seq;
                self.check(reached, || {
                    format!("S9: the audit of member {member} ends at {}, not {}", end.seq, head.seq)
                });
                self.audited.insert(member, end);
            }
        }
        let recorded: BTreeSet<u64> = records
            .iter()
            .filter(|record| record.cluster.as_ref().is_some_and(|cluster| cluster.as_str() == "reg"))
            .filter_map(|record| Some(record.version?.epoch.0))
            .collect();
        let lost: Vec<u64> = self.written_at.keys().copied().filter(|epoch| !recorded.contains(epoch)).collect();
        self.check(lost.is_empty(), || format!("S4: member {member} has no record of epochs {lost:?}"));
    }

    /// Whose audit was looked at.
    pub fn audited(&self) -> usize {
        self.audited.len()
    }
}
