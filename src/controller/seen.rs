//! What the nodes themselves say, where the cluster's driver can ask them: for the checks of a plan, for drift, and for the
//! slots that a repair is about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::{Caller, Change, Choice, Cluster, ControlError, Controller, Op, Propose, Receipt, draft};
use crate::domain::{
    ActionKind, ClusterName, DriverKind, Goal, Instant, LoadMetric, NodeId, NodeState, Objective, PlanId, Rejection,
    Rollout, ShardId, Slot, SlotSet, Statistics, Version,
};
use crate::driver::drift::{self, Drift, DriftKind, Settled};
use crate::driver::nodes::{Depth, Durability, Sample, Surveyed};
use crate::driver::{Driver, Nodes};
use crate::plan::{self, DriftFact, Facts, NodeFacts, SampleFacts};

/// What is only gossip on its way is looked at again so often, after such a pause.
const GOSSIP_LOOKS: u32 = 6;
const GOSSIP_PAUSE: Duration = Duration::from_millis(250);

/// The drivers of this controller by kind.
pub type Drivers = BTreeMap<DriverKind, Arc<dyn Driver>>;

/// A cluster's driver, which can ask the nodes.
pub(super) struct Eyes(Arc<dyn Driver>);

impl Eyes {
    pub fn driver(&self) -> &dyn Driver {
        &*self.0
    }

    pub fn nodes(&self) -> &dyn Nodes {
        self.0.nodes().expect("looked at when it was made")
    }
}

/// What was seen for a plan.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub facts: Facts,
    /// The slots that a repair is about, with their owners by the table.
    pub repairs: BTreeMap<Slot, ShardId>,
}

/// Where nodes and table disagree, as of a version.
#[derive(Clone, Debug)]
pub struct DriftReport {
    /// The version of the table that the nodes were compared with.
    pub version: Version,
    /// Nodes that were asked, and of those the ones that answered.
    pub nodes: (usize, usize),
    /// The differences, the most urgent first.
    pub drift: Vec<Drift>,
}

impl Controller {
    /// Gives this member the drivers that ask the nodes; once, before anybody is served.
    pub fn set_drivers(&self, drivers: Drivers) {
        // A second set would only replace the same drivers: the first one stays.
        drop(self.inner.drivers.set(drivers));
        self.run_errands();
    }

    /// The driver of a kind, where it can ask its nodes.
    pub(super) fn eyes(&self, driver: DriverKind) -> Option<Eyes> {
        let driver = self.inner.drivers.get()?.get(&driver)?;
        driver.nodes().map(|_| Eyes(Arc::clone(driver)))
    }

    /// The same, or why there is none.
    pub(super) fn eyes_of(&self, cluster: &Cluster) -> Result<Eyes, ControlError> {
        self.eyes(cluster.driver).ok_or_else(|| {
            let (name, driver) = (&cluster.name, cluster.driver.as_str());
            Rejection::conflict(format!("cluster {name} has driver {driver}, which does not ask its nodes")).into()
        })
    }

    /// Asks every node of a cluster, and tells where they are not as the table has it.
    ///
    /// # Errors
    /// [`ControlError`], also where the cluster's driver asks no nodes.
    pub async fn drift(&self, cluster: &ClusterName) -> Result<DriftReport, ControlError> {
        let before = self.cluster(cluster)?;
        let eyes = self.eyes_of(&before)?;
        let survey = eyes.nodes().survey(&before.topology(), Depth::Views).await;
        let after = self.cluster(cluster)?;
        let drift = drift::drift(&after.topology(), &survey, &settled_between(&before, &after));
        let nodes = (survey.nodes.len(), survey.answers().count());
        Ok(DriftReport { version: after.version(), nodes, drift })
    }

    /// Starts an approved plan, unless what the nodes say now stands against it.
    ///
    /// # Errors
    /// [`Rejection::ChecksFailed`] naming the checks, and what committing gives.
    pub async fn start(&self, caller: &Caller, cluster: &ClusterName, id: &PlanId) -> Result<Receipt, ControlError> {
        let op = Op::Start { cluster: cluster.clone(), plan: id.clone() };
        // A member that lags behind must not take a plan for one without checks.
        if self.cluster(cluster).map_or(true, |now| self.eyes(now.driver).is_some()) {
            self.linearize().await?;
        }
        let now = self.cluster(cluster)?;
        if let (Some(eyes), Some(record)) = (self.eyes(now.driver), now.plans.get(id)) {
            // What is refused anyway is refused for its own reason.
            if self.remembered(caller)?.is_none() && self.try_out(caller, op.clone()).is_ok() {
                let body = &record.plan.body;
                let seen = look(&eyes, &now, &body.moved_slots()).await;
                let shards: Vec<_> = now.shards.values().map(|shard| shard.value.clone()).collect();
                let failed = plan::obstacles(body, &shards, &seen.facts);
                if !failed.is_empty() {
                    return Err(Rejection::ChecksFailed { plan: id.to_string(), failed }.into());
                }
            }
        }
        self.submit(caller, op).await
    }

    /// The proposal with statistics that the nodes tell, where it needs some and brings none: keys are counted, bytes
    /// estimated by a sample. What they do not tell stays missing, and the planner says so.
    pub(super) async fn measured(&self, cluster: &Cluster, propose: Propose) -> Propose {
        let by_load = matches!(propose.goal, Goal::BalanceLoad { metric: LoadMetric::Keys | LoadMetric::Bytes, .. });
        let needed = (by_load || propose.choice.objective == Objective::Bytes) && propose.choice.statistics.is_none();
        let Some(eyes) = self.eyes(cluster.driver).filter(|_| needed) else { return propose };
        let owned: SlotSet = Slot::all().filter(|slot| cluster.table.owner(*slot).is_some()).collect();
        let sample = eyes.nodes().sample(&cluster.topology(), &owned).await;
        let statistics = statistics(&sample, self.now()).map(Arc::new);
        Propose { choice: Choice { statistics, ..propose.choice }, ..propose }
    }

    /// What the nodes say for a plan that is to be made; none where nobody can ask them.
    pub(super) async fn seen(
        &self,
        caller: &Caller,
        before: &Cluster,
        changes: &[Change],
        propose: &Propose,
    ) -> Option<Seen> {
        let eyes = self.eyes(before.driver)?;
        // What cannot be is refused by the planning proper.
        let after = before.with_changes(changes).ok()?;
        let first = draft::draft(&after, changes, propose, caller, self.now(), &*self.inner.random, None);
        let moved = first.ok().and_then(|draft| draft.plan).map(|plan| plan.body.moved_slots());
        Some(look(&eyes, &after, &moved.unwrap_or_default()).await)
    }
}

/// Surveys a cluster, and samples the slots that are to move.
async fn look(eyes: &Eyes, cluster: &Cluster, slots: &SlotSet) -> Seen {
    let (topology, settled) = (cluster.topology(), settled(cluster));
    let mut survey = eyes.nodes().survey(&topology, Depth::Whole).await;
    let mut drift = drift::drift(&topology, &survey, &settled);
    for _ in 0..GOSSIP_LOOKS {
        if !drift.iter().any(|drift| matches!(drift.kind, DriftKind::Disagreement | DriftKind::Failover)) {
            break;
        }
        sleep(GOSSIP_PAUSE).await;
        survey = eyes.nodes().survey(&topology, Depth::Whole).await;
        drift = drift::drift(&topology, &survey, &settled);
    }
    let sample = if slots.is_empty() { Sample::default() } else { eyes.nodes().sample(&topology, slots).await };
    Seen {
        facts: Facts {
            nodes: survey.nodes.iter().map(|(id, node)| (id.clone(), node_facts(cluster, id, node))).collect(),
            drift: drift.iter().map(drift_fact).collect(),
            sample: sample_facts(sample),
            big_key_bytes: eyes.nodes().big_key_bytes(),
        },
        repairs: drift::repairs(&topology, &survey, &settled),
    }
}

/// What is under way in a cluster, or was settled before.
fn settled(cluster: &Cluster) -> Settled {
    Settled { busy: busy(cluster), removed: cluster.removed.iter().cloned().collect() }
}

/// The same where the cluster went on while the nodes were asked: an action that ended meanwhile is not held against them.
pub(super) fn settled_between(before: &Cluster, after: &Cluster) -> Settled {
    let mut settled = settled(after);
    for (slot, ends) in busy(before) {
        settled.busy.entry(slot).or_default().extend(ends);
    }
    for slot in before.table.differing_slots(&after.table) {
        let owners = [before, after].into_iter().filter_map(|cluster| cluster.table.owner(slot).cloned());
        settled.busy.entry(slot).or_default().extend(owners);
    }
    settled
}

/// The slots of actions in flight, with the shards between which each is.
fn busy(cluster: &Cluster) -> BTreeMap<Slot, BTreeSet<ShardId>> {
    let mut busy = BTreeMap::new();
    let Some(record) = cluster.active_plan() else { return busy };
    let in_flight = record.rollout.iter().flat_map(Rollout::in_flight);
    for action in in_flight.filter_map(|id| record.plan.body.action(id)) {
        let ends: BTreeSet<ShardId> = action.kind.source().into_iter().chain(action.kind.target()).cloned().collect();
        for slot in action.kind.ranges().iter().flat_map(|range| range.slots()) {
            busy.insert(slot, ends.clone());
        }
        if let ActionKind::RepairSlot { slot, .. } = &action.kind {
            // Whoever has it: the repair is about that.
            busy.insert(*slot, cluster.shards.keys().cloned().collect());
        }
    }
    busy
}

/// Keys and bytes of each slot; none when a server could not be sampled.
fn statistics(sample: &Sample, now: Instant) -> Option<Statistics> {
    let mut statistics = Statistics::new(&[LoadMetric::Keys, LoadMetric::Bytes], Some(now)).ok()?;
    for (number, keys) in sample.keys.iter().filter(|_| sample.faults.is_empty()) {
        let bytes = sample.slot_bytes.get(number)?;
        statistics.add(Slot::at(usize::from(*number)), &[*keys, *bytes]).ok()?;
    }
    (!statistics.listed().is_empty()).then_some(statistics)
}

fn node_facts(cluster: &Cluster, id: &NodeId, node: &Surveyed) -> NodeFacts {
    let lost = cluster.nodes.get(id).is_some_and(|node| node.value.state == NodeState::Lost);
    let address = node.address.to_string();
    let facts = match &node.answer {
        Ok(answer) => &answer.facts,
        Err(why) => return NodeFacts { address, silent: Some(why.clone()), lost, ..NodeFacts::default() },
    };
    NodeFacts {
        address,
        silent: facts.loading.then(|| "it is still loading its data".to_owned()),
        lost,
        version: facts.version.clone(),
        lossy: (facts.durability != Durability::Always).then(|| facts.durability.as_str().to_owned()),
        used_bytes: facts.used_bytes,
        max_bytes: facts.max_bytes,
        offset: facts.offset,
        link_up: facts.link_up,
        replica_migration: facts.replica_migration,
        node_timeout_ms: facts.node_timeout_ms,
        user: facts.user.clone(),
        denied: facts.denied.clone(),
    }
}

fn drift_fact(drift: &Drift) -> DriftFact {
    DriftFact { kind: drift.kind.as_str().to_owned(), what: drift.what.clone(), slots: drift.slots.iter().collect() }
}

fn sample_facts(sample: Sample) -> SampleFacts {
    let slot = |number: u16| Slot::at(usize::from(number));
    SampleFacts {
        keys: sample.keys.into_iter().map(|(number, keys)| (slot(number), keys)).collect(),
        measured: (sample.measured, sample.bytes),
        largest: sample.largest.into_iter().map(|key| (slot(key.slot), key.name, key.bytes)).collect(),
        faults: sample.faults,
    }
}
