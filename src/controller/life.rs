//! Nodes come and go: where the cluster's driver can ask them, a server is made a member before it is one in the table, and
//! is forgotten by all before it is gone from the table. What stops halfway is repeated. Only the leader commands nodes: whoever
//! is asked has it do so.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::seen::Eyes;
use super::{Caller, Change, Changed, Cluster, ControlError, Controller, Op, Place};
use crate::domain::{Address, ClusterName, NodeId, Principal, Rejection, Topology, split_advice};
use crate::driver::DriverError;
use crate::driver::nodes::{Candidate, Mandate, NodesError};
use crate::raft::ErrandRunner;

/// How long the leader may take: longer than nodes are given to come to know, or to forget, one.
const ERRAND_WITHIN: Duration = Duration::from_secs(90);

/// What the leader does to nodes.
#[derive(Debug, Serialize, Deserialize)]
struct Errand {
    /// Who asks for it.
    by: Principal,
    cluster: ClusterName,
    what: What,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    /// Make servers members, each with the change that adds it.
    Admit { changes: Vec<Change>, candidates: Vec<Candidate> },
    /// Make all forget a node.
    Forget { node: NodeId, if_match: Option<u64> },
}

/// What came of an errand: remarks, or why it was not done.
type Outcome = Result<Vec<String>, Failure>;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Failure {
    Rejected(Rejection),
    Unreachable(String),
    Unavailable(String),
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Rejected(rejection) => Self::Rejected(rejection),
            ControlError::NodeUnreachable(why) => Self::Unreachable(why),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

impl From<Failure> for ControlError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Rejected(rejection) => Self::Rejected(rejection),
            Failure::Unreachable(why) => Self::NodeUnreachable(why),
            Failure::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

impl From<NodesError> for ControlError {
    fn from(error: NodesError) -> Self {
        match error {
            NodesError::Refused(why) => Rejection::conflict(why).into(),
            NodesError::Unavailable(why) => Self::NodeUnreachable(why),
        }
    }
}

impl Controller {
    /// A server that is to become a node, as it says itself; none where the driver asks no nodes, or where the request was
    /// answered before.
    ///
    /// # Errors
    /// [`Rejection::Conflict`] when it cannot join, and why.
    pub async fn candidate(
        &self,
        caller: &Caller,
        cluster: &ClusterName,
        address: &Address,
    ) -> Result<Option<Candidate>, ControlError> {
        let now = self.cluster(cluster)?;
        let Some(eyes) = self.eyes(now.driver) else { return Ok(None) };
        if self.remembered(caller)?.is_some() {
            return Ok(None);
        }
        if let Some(other) = now.nodes.at(&address.host, address.port) {
            return Err(Rejection::Exists { what: "address".to_owned(), id: format!("{address} ({other})") }.into());
        }
        Ok(Some(eyes.nodes().inspect(&now.topology(), address).await?))
    }

    /// Makes servers members, each with the change that adds it, unless those changes would be refused.
    ///
    /// # Errors
    /// [`Rejection::Conflict`] when nodes do not come to know one in time: the same request again goes on from there.
    pub async fn admit(
        &self,
        caller: &Caller,
        cluster: &ClusterName,
        changes: &[Change],
        candidates: &[Candidate],
    ) -> Result<(), ControlError> {
        let now = self.cluster(cluster)?;
        if candidates.is_empty() || self.eyes(now.driver).is_none() {
            return Ok(());
        }
        self.try_out(caller, Op::Change { cluster: cluster.clone(), changes: changes.to_vec(), plan: None })?;
        if now.shards.is_empty() {
            // The first node has nobody to meet.
            return Ok(());
        }
        let what = What::Admit { changes: changes.to_vec(), candidates: candidates.to_vec() };
        self.at_leader(caller, cluster, what).await.map(drop)
    }

    /// Removes a node that serves nothing; where the driver can ask the nodes, all of them forget it before. Remarks on
    /// what is left to do, a sentence each.
    ///
    /// # Errors
    /// [`ControlError`]; a conflict when a node could not be told: the same request again goes on from there.
    pub async fn remove_node(
        &self,
        caller: &Caller,
        cluster: &ClusterName,
        node: &NodeId,
        if_match: Option<u64>,
    ) -> Result<(Changed, Vec<String>), ControlError> {
        let change = Change::RemoveNode { node: node.clone(), if_match };
        let mut notes = Vec::new();
        if self.eyes(self.cluster(cluster)?.driver).is_some() && self.remembered(caller)?.is_none() {
            self.linearize().await?;
            let op = Op::Change { cluster: cluster.clone(), changes: vec![change.clone()], plan: None };
            self.try_out(caller, op)?;
            notes = self.at_leader(caller, cluster, What::Forget { node: node.clone(), if_match }).await?;
        }
        Ok((self.change(caller, cluster, vec![change], None, false).await?, notes))
    }

    /// Has the leader do it.
    async fn at_leader(&self, caller: &Caller, cluster: &ClusterName, what: What) -> Result<Vec<String>, ControlError> {
        let errand = Errand { by: caller.principal.clone(), cluster: cluster.clone(), what };
        let text = serde_json::to_string(&errand).expect("an errand is text, numbers and lists");
        let answer = self.inner.group.errand(text, ERRAND_WITHIN).await?;
        let outcome: Outcome = serde_json::from_str(&answer)
            .map_err(|error| ControlError::Unavailable(format!("the leader's answer is not understood: {error}")))?;
        Ok(outcome?)
    }

    /// Makes this member do what it is asked while it leads.
    pub(super) fn run_errands(&self) {
        // The group belongs to the controller, not the other way round.
        let inner = Arc::downgrade(&self.inner);
        let runner: ErrandRunner = Arc::new(move |text: String| {
            let inner = inner.clone();
            Box::pin(async move {
                let controller = Self { inner: inner.upgrade()? };
                controller.run_errand(&text).await
            })
        });
        self.inner.group.run_errands(runner);
    }

    /// None when this member does not lead, or stops to in the middle: nothing is sent to any node from then on.
    async fn run_errand(&self, text: &str) -> Option<String> {
        let mut leading = self.leading();
        let term = (*leading.borrow_and_update())?;
        let outcome: Outcome = match serde_json::from_str(text) {
            Ok(errand) => tokio::select! {
                biased;
                _ = leading.wait_for(|now| *now != Some(term)) => return None,
                outcome = self.command_nodes(term, errand) => outcome.map_err(Failure::from),
            },
            Err(error) => {
                Err(Failure::Unavailable(format!("the leader does not understand what it is to do: {error}")))
            }
        };
        Some(serde_json::to_string(&outcome).expect("an outcome is text"))
    }

    /// As the leader in a term.
    async fn command_nodes(&self, term: u64, errand: Errand) -> Result<Vec<String>, ControlError> {
        let Errand { by, cluster, what } = errand;
        self.linearize().await?;
        let now = self.cluster(&cluster)?;
        let eyes = self.eyes_of(&now)?;
        let caller = Caller { principal: by, reason: None, idempotency: None };
        let changes = match &what {
            What::Admit { changes, .. } => changes.clone(),
            What::Forget { node, if_match } => vec![Change::RemoveNode { node: node.clone(), if_match: *if_match }],
        };
        self.try_out(&caller, Op::Change { cluster: cluster.clone(), changes, plan: None })?;
        let mandate = Mandate { cluster, lease: self.lease(term) };
        mandate.holds().await?;
        eyes.fence(&mandate, &now.topology()).await?;
        match what {
            What::Admit { changes, candidates } => {
                for candidate in &candidates {
                    let primary = primary_of(&now, &changes, candidate);
                    eyes.nodes().admit(&mandate, &now.topology(), candidate, primary).await?;
                }
                Ok(Vec::new())
            }
            What::Forget { node, .. } => Ok(eyes.nodes().forget(&mandate, &now.topology(), &node).await?.notes),
        }
    }
}

impl Eyes {
    /// Shuts out who led before, as far as the driver can.
    async fn fence(&self, mandate: &Mandate, topology: &Topology) -> Result<(), ControlError> {
        let fenced = self.driver().fence(&mandate.cluster, topology, &mandate.lease).await;
        fenced.map_err(|error| match error {
            DriverError::Retry(why) => ControlError::NodeUnreachable(why),
            other => Rejection::conflict(split_advice(&other.to_string()).0).into(),
        })
    }
}

/// Whom a server is to copy, by the change that adds it.
fn primary_of<'a>(cluster: &'a Cluster, changes: &[Change], candidate: &Candidate) -> Option<&'a NodeId> {
    changes.iter().find_map(|change| match change {
        Change::AddNode { node, place: Place::ReplicaOf { shard } } if node.id == candidate.id => {
            cluster.shards.get(shard).map(|shard| &shard.value.primary)
        }
        _ => None,
    })
}
