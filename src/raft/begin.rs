//! How a member begins, meets the others, and goes when it was removed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openraft::BasicNode;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::time::{Instant, sleep, timeout};

use super::acquaintance::Acquaintance;
use super::handle::{RETRY, members};
use super::machine::Replica;
use super::network::Peers;
use super::types::Core;
use crate::domain::MemberId;

/// Longest pause before members are greeted again.
const GREET_AT_LEAST_EVERY: Duration = Duration::from_secs(2);

/// How often it is made durable how far the others are.
const KEEP_EVERY: Duration = Duration::from_secs(30);

/// What a member begins with.
pub(super) struct First {
    /// The members that a new group starts with; none when this one joins, or the group is there.
    pub(super) members: BTreeMap<MemberId, BasicNode>,
    /// Others that it was told of.
    pub(super) known: BTreeMap<MemberId, BasicNode>,
    /// Where the others are to reach a member that began alone.
    pub(super) own_address: Option<String>,
}

/// Makes the group when there is none yet. Every first member does so with the same members, which is one and the
/// same first entry; one that heard of the group before is told so, and that is well.
pub(super) async fn begin(core: Core, first_members: BTreeMap<MemberId, BasicNode>) {
    if first_members.is_empty() {
        return;
    }
    let alone = first_members.len() == 1;
    match core.is_initialized().await {
        Ok(false) => match core.initialize(first_members).await {
            Ok(()) => {}
            Err(error) => tracing::info!("the group was there already: {error}"),
        },
        // Nobody else can lead: no need to wait for the others' heartbeats.
        Ok(true) if alone && core.voter_ids().count() == 1 => {
            if let Err(error) = core.trigger().elect(false).await {
                tracing::warn!("standing for election: {error}");
            }
        }
        Ok(true) => {}
        Err(error) => tracing::error!("raft did not start: {error}"),
    }
}

/// Makes the members known to each other before any of them can have lost its store: only then can one that comes
/// back without it be told from the one it was. Goes on all the time, so that one that is not heard any more learns of it,
/// and everyone hears how far the others are: one that comes back with less has an old store.
pub(super) async fn greet(peers: Peers, core: Core, replica: Arc<Replica>, mut others: BTreeMap<MemberId, BasicNode>) {
    let own = peers.acquaintance.identity.member_id;
    let (mut pause, mut kept_at) = (RETRY, Instant::now());
    loop {
        let applied = *replica.applied().borrow();
        let told = peers.acquaintance.tell_reach(applied).await;
        let kept = if kept_at.elapsed() < KEEP_EVERY {
            Ok(())
        } else {
            kept_at = Instant::now();
            peers.acquaintance.keep_reaches().await
        };
        if let Err(error) = told.and(kept) {
            // The store tells by itself that it has ended.
            tracing::debug!("what is known of the members is not kept: {error}");
        }
        let met = others.iter().map(|(&id, node)| peers.greet((id, &node.addr)));
        let all_met = futures::future::join_all(met).await.iter().all(Result::is_ok);
        pause = if all_met { GREET_AT_LEAST_EVERY } else { (2 * pause).min(GREET_AT_LEAST_EVERY) };
        sleep(pause).await;
        let metrics = core.metrics().borrow_watched().clone();
        if metrics.membership_config.log_id().is_some() {
            others = members(&metrics).filter(|(id, _)| *id != own).map(|(id, node)| (id, node.clone())).collect();
        }
    }
}

/// Ends this member when it was removed from the group and knows.
pub(super) async fn leave(id: MemberId, replica: Arc<Replica>, core: Core, acquaintance: Arc<Acquaintance>) {
    let mut applied = replica.applied();
    loop {
        let counted = || core.metrics().borrow_watched().committed_membership_config.get_node(&id).is_some();
        if replica.look(|state, _| state.members.removed.contains(&id)) && !counted() {
            return acquaintance.left(&format!("member {id} was removed from the group")).await;
        }
        // What raft tells of itself may come a moment after the entry: then the time limit is the news.
        if let Ok(Err(_)) = timeout(GREET_AT_LEAST_EVERY, applied.changed()).await {
            return;
        }
    }
}
