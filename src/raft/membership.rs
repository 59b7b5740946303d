//! Changing who belongs to the group, one member at a time. Only the leader can; the other members ask it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError as CoreError};
use openraft::{BasicNode, ChangeMembers, RaftMetrics};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep, timeout};

use super::network::PeerError;
use super::roster::{MemberStatus, contact, leads, list, successors};
use super::types::{Core, Types};
use super::{Raft, RaftError};
use crate::domain::MemberId;

/// How long a change is tried, with every change of leader in between.
const CHANGE_WITHIN: Duration = Duration::from_secs(8);
/// How long one attempt may take: a change commits twice.
pub(super) const ATTEMPT_WITHIN: Duration = Duration::from_secs(3);
/// Pause before a change is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// How long members may take to answer when they are asked whether they live.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// After which time a change that was asked for by force is left to those that do not answer.
const PENDING_AFTER: Duration = Duration::from_secs(1);
/// How long the lead may take to be handed over.
const TRANSFER_WITHIN: Duration = Duration::from_secs(1);
/// A learner this many entries behind has caught up: under load it is never at the very end.
const CAUGHT_UP: u64 = 1_000;

/// A change of the group. Each is safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupChange {
    /// Replicate to a new member, which has no vote yet.
    AddLearner {
        /// Its number, never used before.
        id: MemberId,
        /// Where the others reach it.
        address: String,
    },
    /// Give a learner that has caught up a vote.
    Promote {
        /// Which.
        id: MemberId,
    },
    /// Take a member out, whether it lives or not.
    Remove {
        /// Which.
        id: MemberId,
        /// Also when no majority of those that stay is alive: it is done when they come back.
        force: bool,
        /// Only tell whether it can be done.
        dry_run: bool,
    },
    /// Hand the lead over.
    Transfer {
        /// To this voter.
        to: MemberId,
    },
}

/// Why the group was not changed.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// There is no such member.
    #[error("there is no member {0}")]
    NotFound(MemberId),
    /// The group must not be changed in this way now.
    #[error("{0}")]
    Refused(String),
    /// It was begun by force, and waits for members that do not answer.
    #[error("{0}")]
    Pending(String),
    /// No leader, or no answer in time: perhaps it was, and asking again is safe.
    #[error(transparent)]
    Raft(#[from] RaftError),
}

/// What became of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Changed {
    Done,
    /// Another member leads, or none does.
    NotLeader,
    NotFound,
    Refused(String),
    /// Begun, and waiting for members that do not answer.
    Pending(String),
    /// Not now, or not known: to be tried again.
    Again(String),
}

/// Held while a change is under way: one at a time.
pub(super) type Turn = Arc<Mutex<()>>;

impl Raft {
    /// Changes the group, through the leader.
    ///
    /// # Errors
    /// [`GroupError`].
    pub async fn change_group(&self, change: GroupChange) -> Result<(), GroupError> {
        let deadline = Instant::now() + CHANGE_WITHIN;
        loop {
            let within = ATTEMPT_WITHIN.min(deadline - Instant::now());
            let changed = match self.leader()? {
                Some((id, _)) if id == self.id() => {
                    carry_out(&self.inner.core, &self.inner.turn, &change, within).await
                }
                Some(to) => {
                    // A little longer than the leader takes to give up by itself.
                    let wait = within + Duration::from_millis(500);
                    let asked = self.inner.peers.forward((to.0, &to.1), "change-group", &change, wait).await;
                    asked.unwrap_or_else(|error| match error {
                        PeerError::Connect(_) | PeerError::Refused { .. } => Changed::NotLeader,
                        PeerError::Unknown(why) => Changed::Again(why),
                    })
                }
                None => Changed::NotLeader,
            };
            let error = match changed {
                Changed::Done => return Ok(()),
                Changed::NotFound => return Err(GroupError::NotFound(change.member())),
                Changed::Refused(why) => return Err(GroupError::Refused(why)),
                Changed::Pending(why) => return Err(GroupError::Pending(why)),
                Changed::NotLeader => RaftError::NoLeader,
                Changed::Again(why) => {
                    tracing::info!("{change:?} is tried again: {why}");
                    RaftError::Timeout
                }
            };
            if Instant::now() + AGAIN_AFTER >= deadline {
                return Err(error.into());
            }
            sleep(AGAIN_AFTER).await;
        }
    }

    /// The members, ascending; how far each is, as the leader says. Without one, who they were when last heard.
    pub async fn group_members(&self) -> Vec<MemberStatus> {
        let local = list(&self.metrics());
        match self.leader() {
            Ok(Some((id, address))) if id != self.id() => {
                let within = Duration::from_secs(1);
                self.inner.peers.forward((id, &address), "members", &(), within).await.unwrap_or(local)
            }
            _ => local,
        }
    }

    /// The voters: one set, or two while a change of them is half-way.
    #[must_use]
    pub fn voter_sets(&self) -> Vec<BTreeSet<MemberId>> {
        self.metrics().membership_config.membership().get_joint_config().clone()
    }

    /// Hands the lead to the voter that is furthest, when this member leads and one answers; within a second.
    pub async fn hand_over(&self) {
        let deadline = Instant::now() + TRANSFER_WITHIN;
        for to in successors(&self.metrics()) {
            let (change, left) = (GroupChange::Transfer { to }, deadline - Instant::now());
            let handed = carry_out(&self.inner.core, &self.inner.turn, &change, left).await;
            tracing::info!("the lead goes to member {to}: {handed:?}");
            if handed == Changed::Done {
                return;
            }
        }
    }

    /// Why this member was removed from the group, once it learns of it: it is to end in order.
    #[must_use]
    pub fn removed(&self) -> watch::Receiver<Option<String>> {
        self.inner.peers.acquaintance.removed()
    }
}

impl GroupChange {
    const fn member(&self) -> MemberId {
        match self {
            Self::AddLearner { id, .. }
            | Self::Promote { id }
            | Self::Remove { id, .. }
            | Self::Transfer { to: id } => *id,
        }
    }
}

/// How many of these answer this leader now: what was heard before does not count, since a change that the dead must
/// confirm stops the group. Waits until so many do, or a second.
async fn answering(core: &Core, members: &BTreeSet<MemberId>, needed: usize) -> usize {
    let started = Instant::now();
    if let Err(error) = core.trigger().heartbeat().await {
        tracing::warn!("no heartbeat: {error}");
    }
    loop {
        let metrics = core.metrics().borrow_watched().clone();
        let answers = |id: &&MemberId| contact(&metrics, **id).is_some_and(|ago| ago < started.elapsed());
        let count = members.iter().filter(answers).count();
        if count >= needed || started.elapsed() >= ANSWERS_WITHIN {
            return count;
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn answers(core: &Core, id: MemberId) -> bool {
    answering(core, &BTreeSet::from([id]), 1).await == 1
}

/// Carries a change out as the leader.
pub(super) async fn carry_out(core: &Core, turn: &Turn, change: &GroupChange, within: Duration) -> Changed {
    let attempt = async {
        let _turn = turn.lock().await;
        let metrics = core.metrics().borrow_watched().clone();
        if !leads(&metrics) {
            return Changed::NotLeader;
        }
        if metrics.membership_config.get_joint_config().len() > 1 {
            return match flatten(core).await {
                Changed::Done => Changed::Again("a change that was left half-way is finished first".to_owned()),
                other => other,
            };
        }
        match change {
            GroupChange::AddLearner { id, address } => add_learner(core, &metrics, *id, address).await,
            GroupChange::Promote { id } => promote(core, &metrics, *id).await,
            GroupChange::Remove { id, force, dry_run } => remove(core, &metrics, *id, *force, *dry_run).await,
            GroupChange::Transfer { to } => transfer(core, &metrics, *to).await,
        }
    };
    timeout(within, attempt).await.unwrap_or_else(|_| Changed::Again("no answer within the time limit".to_owned()))
}

async fn add_learner(core: &Core, metrics: &RaftMetrics<Types>, id: MemberId, address: &str) -> Changed {
    let membership = metrics.membership_config.membership();
    if let Some(node) = membership.get_node(&id) {
        if node.addr == address {
            return Changed::Done;
        }
        return Changed::Refused(format!("member {id} is at {}, not at {address}", node.addr));
    }
    if let Some((other, _)) = membership.nodes().find(|(_, node)| node.addr == address) {
        return Changed::Refused(format!("member {other} is at {address} already"));
    }
    changed(core.add_learner(id, BasicNode::new(address), false).await)
}

async fn promote(core: &Core, metrics: &RaftMetrics<Types>, id: MemberId) -> Changed {
    let Some(member) = list(metrics).into_iter().find(|member| member.id == id) else { return Changed::NotFound };
    if member.voter {
        return Changed::Done;
    }
    if !answers(core, id).await {
        return Changed::Refused(format!("member {id} does not answer: it cannot be given a vote"));
    }
    match member.lag {
        Some(lag) if lag <= CAUGHT_UP => {
            changed(core.change_membership(ChangeMembers::AddVoterIds([id].into()), false).await)
        }
        lag => {
            let behind = lag.unwrap_or_default();
            Changed::Refused(format!("member {id} has not caught up: it lacks {behind} entries; try again later"))
        }
    }
}

async fn remove(core: &Core, metrics: &RaftMetrics<Types>, id: MemberId, force: bool, dry_run: bool) -> Changed {
    let membership = metrics.membership_config.membership();
    if membership.get_node(&id).is_none() {
        return Changed::NotFound;
    }
    let mut stay: BTreeSet<MemberId> = membership.voter_ids().collect();
    if !stay.remove(&id) {
        if dry_run {
            return Changed::Done;
        }
        return changed(core.change_membership(ChangeMembers::RemoveNodes([id].into()), false).await);
    }
    if stay.is_empty() {
        return Changed::Refused(format!("member {id} is the only voter: without it there is no group"));
    }
    let needed = stay.len() / 2 + 1;
    let alive = answering(core, &stay, needed).await;
    if alive < needed && !force {
        return Changed::Refused(format!(
            "without member {id} the group has {} voters and needs {needed} of them; {alive} answer now",
            stay.len()
        ));
    }
    if dry_run {
        return Changed::Done;
    }
    if id == metrics.id {
        // Who leads hands the lead over first; the next leader is then asked to take this one out.
        return match successors(metrics).first() {
            Some(to) => match transfer(core, metrics, *to).await {
                Changed::Done => Changed::NotLeader,
                other => other,
            },
            None => Changed::Refused("no other voter answers: nobody can take the lead over".to_owned()),
        };
    }
    let change = core.change_membership(ChangeMembers::RemoveVoters([id].into()), false);
    if alive >= needed {
        return changed(change.await);
    }
    // Given up here, and not in the log: whoever leads next finishes it.
    timeout(PENDING_AFTER, change).await.map_or_else(
        |_| {
            Changed::Pending(format!(
                "member {id} leaves when {needed} of the {} voters that stay answer; {alive} answered: until then the \
                 group takes no writes",
                stay.len()
            ))
        },
        changed,
    )
}

async fn transfer(core: &Core, metrics: &RaftMetrics<Types>, to: MemberId) -> Changed {
    if to == metrics.id {
        return Changed::Done;
    }
    let Some(member) = list(metrics).into_iter().find(|member| member.id == to) else { return Changed::NotFound };
    if !member.voter {
        return Changed::Refused(format!("member {to} has no vote"));
    }
    // A leader that began to hand over takes no more writes: only to one that can take the lead. One that was heard of a
    // moment ago is not waited for: if it died since, this one stands for election again.
    let moment = Duration::from_millis(2 * core.config().heartbeat_interval);
    if contact(metrics, to).is_none_or(|ago| ago > moment) && !answers(core, to).await {
        return Changed::Refused(format!("member {to} does not answer: it cannot take the lead"));
    }
    if let Err(error) = core.trigger().transfer_leader(to).await {
        return Changed::Again(error.to_string());
    }
    let mut watched = core.metrics();
    let elsewhere = async {
        while watched.borrow_watched().current_leader != Some(to) {
            if watched.changed().await.is_err() {
                return;
            }
        }
    };
    if timeout(TRANSFER_WITHIN, elsewhere).await.is_ok() {
        return Changed::Done;
    }
    let now = core.metrics().borrow_watched().clone();
    if leads(&now) && now.current_term == metrics.current_term {
        // Otherwise it would go on leading without taking writes.
        if let Err(error) = core.trigger().elect(false).await {
            tracing::warn!("standing for election again: {error}");
        }
    }
    Changed::Again(format!("member {to} did not take the lead in time"))
}

/// Ends a change that was left half-way, with two sets of voters.
async fn flatten(core: &Core) -> Changed {
    changed(core.change_membership(ChangeMembers::AddVoterIds(BTreeSet::new()), false).await)
}

fn changed<T>(outcome: Result<T, CoreError<Types, ClientWriteError<Types>>>) -> Changed {
    match outcome {
        Ok(_) => Changed::Done,
        Err(CoreError::APIError(ClientWriteError::ForwardToLeader(_))) => Changed::NotLeader,
        Err(CoreError::APIError(ClientWriteError::ChangeMembershipError(
            error @ (ChangeMembershipError::EmptyMembership(_) | ChangeMembershipError::LearnerNotFound(_)),
        ))) => Changed::Refused(error.to_string()),
        Err(error) => Changed::Again(error.to_string()),
    }
}

/// While this member leads: finishes a change that an earlier leader left half-way, and gives a group of one the
/// address at which others can reach it.
pub(super) async fn tend(core: Core, turn: Turn, own_address: Option<String>) {
    // Without a port that others can dial it is none.
    let own_address = own_address.filter(|address| !address.ends_with(":0"));
    loop {
        sleep(Duration::from_millis(500)).await;
        let metrics = core.metrics().borrow_watched().clone();
        if !leads(&metrics) {
            continue;
        }
        let Ok(_turn) = turn.try_lock() else { continue };
        let nodes: BTreeMap<MemberId, BasicNode> =
            metrics.membership_config.membership().nodes().map(|(id, node)| (*id, node.clone())).collect();
        let alone = nodes.get(&metrics.id).filter(|_| nodes.len() == 1);
        let moved = own_address.as_ref().filter(|own| alone.is_some_and(|node| node.addr != **own));
        let done = if metrics.membership_config.get_joint_config().len() > 1 {
            flatten(&core).await
        } else if let Some(own_address) = moved {
            let node = BTreeMap::from([(metrics.id, BasicNode::new(own_address))]);
            changed(core.change_membership(ChangeMembers::SetNodes(node), true).await)
        } else {
            continue;
        };
        tracing::info!("the group's membership is tidied up: {done:?}");
    }
}
