//! The members as raft's metrics tell: a leader's tell most.

use std::collections::BTreeSet;
use std::time::Duration;

use openraft::{BasicNode, Instant as _, RaftMetrics, ServerState};
use serde::{Deserialize, Serialize};

use super::types::Types;
use crate::domain::MemberId;

/// A member that did not answer its leader within this time is not asked to take the lead over.
const LIVE_WITHIN: Duration = Duration::from_secs(2);

/// A member as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its number.
    pub id: MemberId,
    /// Where the others reach it.
    pub address: String,
    /// Whether it has a vote.
    pub voter: bool,
    /// Whether it leads.
    pub leader: bool,
    /// Index of the last entry it is known to have; none where no leader says.
    pub matched: Option<u64>,
    /// Entries it lacks.
    pub lag: Option<u64>,
    /// Milliseconds since it last answered the leader.
    pub last_contact_ms: Option<u64>,
}

/// The members as raft's metrics tell: a leader's tell most.
pub(super) fn list(metrics: &RaftMetrics<Types>) -> Vec<MemberStatus> {
    let membership = metrics.membership_config.membership();
    let voters: BTreeSet<MemberId> = membership.voter_ids().collect();
    let status = |(&id, node): (&MemberId, &BasicNode)| {
        let matched = match &metrics.replication {
            Some(_) if id == metrics.id => metrics.last_log_index,
            Some(replication) => replication.get(&id).copied().flatten().map(|id| id.index),
            None => None,
        };
        let lag = metrics.replication.as_ref().and(metrics.last_log_index);
        MemberStatus {
            id,
            address: node.addr.clone(),
            voter: voters.contains(&id),
            leader: metrics.current_leader == Some(id),
            matched,
            lag: lag.map(|last| last.saturating_sub(matched.unwrap_or(0))),
            last_contact_ms: contact(metrics, id).map(|ago| u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)),
        }
    };
    membership.nodes().map(status).collect()
}

/// How long ago a member answered this leader.
pub(super) fn contact(metrics: &RaftMetrics<Types>, id: MemberId) -> Option<Duration> {
    let heartbeats = metrics.heartbeat.as_ref()?;
    if id == metrics.id {
        return Some(Duration::ZERO);
    }
    heartbeats.get(&id)?.as_ref().map(|at| (**at).elapsed())
}

/// Whether this member leads.
pub(super) fn leads(metrics: &RaftMetrics<Types>) -> bool {
    metrics.state == ServerState::Leader && metrics.current_leader == Some(metrics.id)
}

/// The voters to which a leader that goes may hand the lead, the one that is furthest first; none when it does not lead.
pub(super) fn successors(metrics: &RaftMetrics<Types>) -> Vec<MemberId> {
    let others = list(metrics).into_iter().filter(|member| leads(metrics) && member.voter && member.id != metrics.id);
    let mut others: Vec<MemberStatus> =
        others.filter(|member| contact(metrics, member.id).is_some_and(|ago| ago < LIVE_WITHIN)).collect();
    others.sort_by_key(|member| std::cmp::Reverse(member.matched));
    others.into_iter().map(|member| member.id).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use openraft::Membership;
    use openraft::testing::log_id;
    use openraft::type_config::TypeConfigExt as _;

    use super::super::types::StoredMembership;
    use super::*;

    /// A leader 1 with the voters 2 and 3 and the learner 4; 2 is behind 3, and 3 was heard of before.
    fn metrics() -> RaftMetrics<Types> {
        let nodes: BTreeMap<MemberId, BasicNode> = (1..=4).map(|id| (id, BasicNode::new(format!("m{id}:1")))).collect();
        let membership = Membership::new(vec![[1, 2, 3].into()], nodes).unwrap();
        let mut metrics = RaftMetrics::<Types>::new_initial(1);
        metrics.state = ServerState::Leader;
        metrics.current_leader = Some(1);
        metrics.last_log_index = Some(90);
        metrics.membership_config = Arc::new(StoredMembership::new(Some(log_id::<Types>(1, 1, 1)), membership));
        let matched = |index| Some(log_id::<Types>(1, 1, index));
        metrics.replication = Some([(2, matched(70)), (3, matched(80)), (4, None)].into());
        let now = Types::now();
        metrics.heartbeat = Some([(2, Some(now.into())), (3, Some(now.into())), (4, None)].into());
        metrics
    }

    #[test]
    fn members_are_told_as_the_leader_sees_them() {
        let listed = list(&metrics());
        let lags: Vec<_> = listed.iter().map(|member| (member.id, member.voter, member.leader, member.lag)).collect();
        let wanted = [
            (1, true, true, Some(0)),
            (2, true, false, Some(20)),
            (3, true, false, Some(10)),
            (4, false, false, Some(90)),
        ];
        assert_eq!(lags, wanted);
        assert_eq!((listed[0].last_contact_ms, listed[3].last_contact_ms), (Some(0), None));
        let follower = RaftMetrics { replication: None, heartbeat: None, ..metrics() };
        assert!(list(&follower).iter().all(|member| member.lag.is_none() && member.last_contact_ms.is_none()));
    }

    #[test]
    fn the_lead_goes_to_the_voter_that_is_furthest_and_was_heard_of() {
        assert_eq!(successors(&metrics()), [3, 2]);
        let mut silent = metrics();
        silent.heartbeat.as_mut().unwrap().insert(3, None);
        assert_eq!(successors(&silent), [2]);
        let follower = RaftMetrics { state: ServerState::Follower, ..metrics() };
        assert_eq!(successors(&follower), [0; 0], "one that does not lead hands nothing over");
    }
}
