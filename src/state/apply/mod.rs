//! Applying one command: who may, was it asked before, then one group's own rules, then what goes with every accepted
//! command: the epoch, the audit record, the remembered answer, the invariants.
//!
//! Everything is checked on a copy of the one cluster, which replaces the old one only when the command is accepted.
//! A rejection therefore changes nothing but [`State::now`], which follows the command's time either way.

mod actions;
mod change;
mod clusters;
mod effect;
mod expire;
mod fresh;
mod import;
mod members;
mod nodes;
mod observe;
mod propose;
mod revert;
mod review;
mod roles;
mod rollout;
mod tokens;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::cluster::{FINISHED_PLANS_MAX, IDEMPOTENCY_KEYS_MAX};
use super::{
    Applied, AuditRecord, COMMAND_VERSION, Cluster, Command, Event, Idempotency, Op, PlanRecord, Receipt, Remembered,
    Revised, State, invariants,
};
use crate::domain::{ClusterName, Instant, PlanId, Principal, Rejection, Role};

/// Longest reason, error or cause, in bytes. A longer reason is refused; a longer error or cause is cut, since what
/// happened must be kept.
const TEXT_MAX_BYTES: usize = 1024;
/// Longest summary in the audit, in bytes; a longer one is cut.
pub(super) const SUMMARY_MAX_BYTES: usize = 4096;
/// Longest idempotency key and request hash, in bytes.
const KEY_MAX_BYTES: usize = 128;

/// What comes with a command beside the operation.
struct Context<'a> {
    now: Instant,
    by: &'a Principal,
    reason: Option<&'a str>,
}

/// What an accepted command did, before the parts that every command has are added.
#[derive(Default)]
struct Step {
    cluster: Option<ClusterName>,
    subject: Option<String>,
    /// A sentence for the audit; empty when the command changed nothing, and then nothing is recorded.
    summary: String,
    receipt: Receipt,
    events: Vec<Event>,
}

impl State {
    /// Applies one command: checks everything, then changes; a rejection leaves the state as it was, but for the time,
    /// which never goes back and follows every command.
    ///
    /// # Panics
    /// When an invariant is broken: a defect, and going on would spread it.
    pub fn apply(&mut self, command: &Command) -> Applied {
        self.now = self.now.max(command.at);
        self.try_apply(command).unwrap_or_else(|rejection| Applied {
            outcome: Err(rejection),
            events: Vec::new(),
            audit: None,
        })
    }

    fn try_apply(&mut self, command: &Command) -> Result<Applied, Rejection> {
        if command.version == 0 || command.version > COMMAND_VERSION {
            return Err(Rejection::UnknownVersion { version: command.version });
        }
        self.authorise(&command.by, &command.op)?;
        if command.reason.as_ref().is_some_and(|reason| reason.len() > TEXT_MAX_BYTES) {
            return Err(Rejection::invalid("reason", &format!("is longer than {TEXT_MAX_BYTES} bytes")));
        }
        if let Some(receipt) = self.recall(&command.by, command.idempotency.as_ref())? {
            return Ok(Applied { outcome: Ok(receipt), events: Vec::new(), audit: None });
        }
        let context = Context { now: self.now, by: &command.by, reason: command.reason.as_deref() };
        let step = self.step(&context, &command.op)?;
        self.remember(&command.by, command.idempotency.as_ref(), &step.receipt);
        invariants::assert_bounds_after(self, step.cluster.as_ref());
        let audit = (!step.summary.is_empty()).then(|| {
            self.audit_head.append(AuditRecord {
                seq: 0,
                at: self.now,
                by: command.by.clone(),
                action: command.op.name().to_owned(),
                cluster: step.cluster,
                subject: step.subject,
                summary: cut(&step.summary, SUMMARY_MAX_BYTES),
                reason: command.reason.clone(),
                version: step.receipt.version,
                previous: String::new(),
                hash: String::new(),
            })
        });
        Ok(Applied { outcome: Ok(step.receipt), events: step.events, audit })
    }

    fn step(&mut self, context: &Context<'_>, op: &Op) -> Result<Step, Rejection> {
        match op {
            Op::CreateCluster { name, id, driver, policy } => self.create_cluster(context, name, id, *driver, policy),
            Op::ConfigureCluster { name, if_match, driver, policy } => {
                self.on_cluster(name, |cluster| clusters::configure(cluster, *if_match, *driver, policy.as_ref()))
            }
            Op::DeleteCluster { name, if_match } => self.delete_cluster(name, *if_match),
            Op::Change { cluster, changes, plan } => {
                self.on_cluster(cluster, |cluster| change::change(cluster, context, changes, plan.as_ref()))
            }
            Op::Approve { cluster, plan, digest, acks } => {
                self.on_cluster(cluster, |cluster| review::approve(cluster, context, plan, *digest, acks))
            }
            Op::Reject { cluster, plan, revert_intent } => self.on_cluster(cluster, |cluster| {
                review::end(cluster, context, plan, review::How::Rejected, *revert_intent)
            }),
            Op::Withdraw { cluster, plan, revert_intent } => self.on_cluster(cluster, |cluster| {
                review::end(cluster, context, plan, review::How::Withdrawn, *revert_intent)
            }),
            Op::Start { cluster, plan } => self.on_cluster(cluster, |cluster| rollout::start(cluster, context, plan)),
            Op::Steer { cluster, plan, verb, acks } => {
                self.on_cluster(cluster, |cluster| rollout::steer(cluster, context, plan, *verb, acks))
            }
            Op::Throttle { cluster, plan, slots_per_second } => {
                self.on_cluster(cluster, |cluster| rollout::throttle(cluster, plan, *slots_per_second))
            }
            Op::Begin { cluster, plan, actions } => {
                self.on_cluster(cluster, |cluster| actions::begin(cluster, context, plan, actions))
            }
            Op::Finish { cluster, plan, actions } => {
                self.on_cluster(cluster, |cluster| actions::finish(cluster, context, plan, actions))
            }
            Op::Fail { cluster, plan, action, error } => {
                self.on_cluster(cluster, |cluster| actions::fail(cluster, context, plan, *action, error))
            }
            Op::Block { cluster, plan, cause } => {
                self.on_cluster(cluster, |cluster| rollout::block(cluster, plan, cause))
            }
            Op::Tell { cluster, plan, cause } => {
                self.on_cluster(cluster, |cluster| rollout::tell(cluster, plan, cause.as_deref()))
            }
            Op::Complete { cluster, plan } => {
                self.on_cluster(cluster, |cluster| rollout::complete(cluster, context, plan))
            }
            Op::Observe { cluster, failovers } => {
                self.on_cluster(cluster, |cluster| observe::observe(cluster, failovers))
            }
            Op::Expire => Ok(self.expire()),
            Op::Member { change } => self.change_members(change),
            Op::Note { what } => Ok(members::note(what)),
            Op::Lead { term } => self.lead(*term),
            Op::InTerm { term, what } => {
                self.refuse_deposed(*term)?;
                self.step(context, what)
            }
            Op::CreateToken { id, name, role, secret_sha256, expires_at } => {
                self.create_token(id, name, *role, secret_sha256, *expires_at)
            }
            Op::RevokeToken { id, may_be_last } => self.revoke_token(id, *may_be_last),
        }
    }

    /// Runs one group's rules on a copy of the cluster and puts it in the place of the old one when they accept.
    fn on_cluster(
        &mut self,
        name: &ClusterName,
        rules: impl FnOnce(&mut Cluster) -> Result<Step, Rejection>,
    ) -> Result<Step, Rejection> {
        let before = self.clusters.get_mut(name).ok_or_else(|| Rejection::not_found("cluster", name))?;
        let mut after = Cluster::clone(before);
        let mut step = rules(&mut after)?;
        step.cluster = Some(name.clone());
        if step.summary.is_empty() {
            step.receipt.version = Some(before.version());
            return Ok(step);
        }
        after.revise_records(before);
        if let (Some(plan), None) = (&step.receipt.plan, step.receipt.revision) {
            step.receipt.revision = Some(after.plans[plan].revision);
        }
        after.forget_oldest_plans(before);
        if after.seal(before) {
            step.events.insert(0, Event::TopologyChanged { cluster: name.clone(), version: after.version() });
        }
        step.receipt.version = Some(after.version());
        invariants::assert_cluster_after(before, &after);
        *before = Arc::new(after);
        Ok(step)
    }

    /// The one place where rights are checked again: whoever submitted the command may have lost them since.
    fn authorise(&self, by: &Principal, op: &Op) -> Result<(), Rejection> {
        let forbidden = |action: String| Err(Rejection::Forbidden { role: by.role.to_string(), action });
        let granted = match op.permission() {
            Some(permission) => by.role.may(permission),
            None => by.role == Role::System,
        };
        if !granted {
            return forbidden(op.name().to_owned());
        }
        let Some(id) = &by.token else { return Ok(()) };
        match self.tokens.get(id) {
            Some(token) if token.role == by.role && token.expires_at.is_none_or(|end| self.now < end) => Ok(()),
            _ => forbidden(format!("{}: token {id} is revoked or expired", op.name())),
        }
    }

    /// The answer given before to the same request.
    fn recall(&self, by: &Principal, idempotency: Option<&Idempotency>) -> Result<Option<Receipt>, Rejection> {
        let Some(asked) = idempotency else { return Ok(None) };
        if asked.key.is_empty() || asked.key.len() > KEY_MAX_BYTES || asked.request.len() > KEY_MAX_BYTES {
            return Err(Rejection::invalid(
                "idempotency key",
                &format!("is empty or longer than {KEY_MAX_BYTES} bytes"),
            ));
        }
        match self.remembered.get(&scoped(by, asked)) {
            None => Ok(None),
            Some(remembered) if remembered.request == asked.request => {
                Ok(Some(Receipt { repeated: true, ..remembered.receipt.clone() }))
            }
            Some(_) => Err(Rejection::IdempotencyMismatch { key: asked.key.clone() }),
        }
    }

    fn remember(&mut self, by: &Principal, idempotency: Option<&Idempotency>, receipt: &Receipt) {
        let Some(asked) = idempotency else { return };
        if self.remembered.len() >= IDEMPOTENCY_KEYS_MAX {
            let oldest = self.remembered.oldest().map(|(_, key)| key.clone());
            if let Some(key) = oldest {
                self.remembered.remove(&key);
            }
        }
        let kept = Remembered { request: asked.request.clone(), receipt: receipt.clone(), at: self.now };
        self.remembered.insert(scoped(by, asked), kept);
    }
}

/// A name has no slash, so no two principals share a key.
fn scoped(by: &Principal, asked: &Idempotency) -> String {
    format!("{}/{}", by.name, asked.key)
}

/// Cuts a text at a character.
pub(super) fn cut(text: &str, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    text[..end].to_owned()
}

/// `1 slot`, `3 slots`.
fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn check_revision(what: &str, id: &dyn std::fmt::Display, actual: u64, if_match: Option<u64>) -> Result<(), Rejection> {
    match if_match {
        Some(expected) if expected != actual => {
            Err(Rejection::RevisionMismatch { what: what.to_owned(), id: id.to_string(), expected, actual })
        }
        _ => Ok(()),
    }
}

impl<T: PartialEq> Revised<T> {
    fn first(value: T) -> Self {
        Self { revision: 1, value }
    }

    /// What another value makes of this one; none when it is the same value.
    pub(super) fn after(&self, value: T) -> Option<Self> {
        (self.value != value).then(|| Self { revision: self.revision + 1, value })
    }
}

impl Cluster {
    fn record(&self, plan: &PlanId) -> Result<&Arc<PlanRecord>, Rejection> {
        self.plans.get(plan).ok_or_else(|| Rejection::not_found("plan", plan))
    }

    /// The record, to be changed.
    fn record_mut(&mut self, plan: &PlanId) -> Result<&mut PlanRecord, Rejection> {
        self.plans.get_mut(plan).map(Arc::make_mut).ok_or_else(|| Rejection::not_found("plan", plan))
    }

    /// Raises the revision of every record that differs from `before`: by one, whatever happened to it.
    fn revise_records(&mut self, before: &Self) {
        let changed = before.plans.differences(&self.plans, Arc::ptr_eq);
        let changed: Vec<_> =
            changed.filter_map(|(id, old, new)| Some((id.clone(), old.and(new).and(old)?.revision))).collect();
        for (id, revision) in changed {
            self.record_mut(&id).expect("it is in both").revision = revision + 1;
        }
    }

    fn refuse_while_active(&self) -> Result<(), Rejection> {
        match &self.active {
            None => Ok(()),
            Some(plan) => Err(Rejection::RolloutActive { cluster: self.name.to_string(), plan: plan.to_string() }),
        }
    }

    /// Keeps the last finished plans; one that finished just now is not the oldest, whenever it was proposed.
    fn forget_oldest_plans(&mut self, before: &Self) {
        if self.plans.is_same(&before.plans) {
            return;
        }
        let finished = self.plans.values().filter(|record| record.state.is_final()).count();
        let surplus = finished.saturating_sub(FINISHED_PLANS_MAX);
        if surplus == 0 {
            return;
        }
        let mut old: Vec<_> =
            before.plans.values().filter(|r| r.state.is_final()).map(|r| (r.sequence, r.plan.id.clone())).collect();
        old.sort();
        for (_, id) in old.iter().take(surplus) {
            self.plans.remove(id);
        }
    }

    fn plan_changed(&self, plan: &PlanId) -> Event {
        Event::PlanChanged { cluster: self.name.clone(), plan: plan.clone(), state: self.plans[plan].state }
    }
}
