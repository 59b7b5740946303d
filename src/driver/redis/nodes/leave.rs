//! A node leaves: it forgets the others, and everybody forgets it before the first of them would learn of it again.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Servers, nodes_of};
use crate::domain::{Address, NodeId, NodeState, Topology};
use crate::driver::nodes::{Depth, Forgotten, Mandate, NodesError, Survey};
use crate::nodes_text::Role;

/// How long all nodes may take to forget one: well within the minute for which they do not learn of it again.
const FORGET_TIME: Duration = Duration::from_secs(30);
/// Pause between two rounds.
const ROUND_EVERY: Duration = Duration::from_millis(200);

/// Makes every node forget one that owns nothing.
pub(super) async fn forget(
    servers: &Servers,
    mandate: &Mandate,
    topology: &Topology,
    id: &NodeId,
) -> Result<Forgotten, NodesError> {
    let Some((_, address)) = nodes_of(topology).find(|(node, _)| *node == id) else {
        return Err(NodesError::Refused(format!("node {id} is not in the table")));
    };
    let survey = servers.survey_of(topology, Depth::Views).await;
    check(topology, &survey, id, &address)?;
    let mut forgotten = Forgotten::default();
    let is_itself = survey.answer(id).is_some_and(|answer| answer.view.myself().is_some_and(|me| me.id == *id));
    if is_itself {
        // What refuses keeps its keys; it belongs to nobody all the same.
        let reset = servers.at(&address).order(mandate, &["CLUSTER", "RESET", "SOFT"], "before-reset").await;
        if let Err(error) = reset {
            mandate.holds().await?;
            forgotten.notes.push(format!("it was not reset: {error}"));
        }
    } else {
        let why =
            survey.nodes[id].answer.as_ref().err().cloned().unwrap_or_else(|| "another node answers there".to_owned());
        forgotten.notes.push(format!(
            "{address} was not reset ({why}): CLUSTER RESET it before it meets anybody, should it come back"
        ));
    }
    let deadline = Instant::now() + FORGET_TIME;
    loop {
        // All of them in one round: who still knows it tells the others no more than they are told to forget.
        let others = nodes_of(topology).filter(|(node, _)| *node != id && survey.answer(node).is_some());
        for (_, other) in others {
            tell(servers, mandate, &other, id).await?;
        }
        let now = servers.survey_of(topology, Depth::Views).await;
        let knows = |node: &NodeId| now.answer(node).is_some_and(|answer| answer.view.node(id).is_some());
        let Some((_, at)) = nodes_of(topology).find(|(node, _)| *node != id && knows(node)) else {
            return Ok(forgotten);
        };
        if Instant::now() >= deadline {
            return Err(NodesError::Unavailable(format!("{at} still knows node {id}: ask again")));
        }
        sleep(ROUND_EVERY).await;
    }
}

/// Nobody may need it any more, and everybody must be there to forget it.
fn check(topology: &Topology, survey: &Survey, id: &NodeId, address: &Address) -> Result<(), NodesError> {
    let nodes = topology.shards.iter().flat_map(|shard| std::iter::once(&shard.primary).chain(&shard.replicas));
    for node in nodes.filter(|node| node.id != *id && node.state != NodeState::Lost) {
        if let Some(Err(why)) = survey.nodes.get(&node.id).map(|node| &node.answer) {
            let at = Address::from(node);
            return Err(NodesError::Unavailable(format!(
                "{at} could not forget node {id} ({why}), and would bring it back: start it, or node drain --lost"
            )));
        }
    }
    for (at, answer) in survey.answers() {
        let at = &survey.nodes[at].address;
        let Some(seen) = answer.view.node(id) else { continue };
        let owned: usize = seen.ranges.iter().map(|range| range.count()).sum();
        if owned > 0 {
            let why = format!("{address} still owns {owned} slots, {at} says: plan create --repair first");
            return Err(NodesError::Refused(why));
        }
        let replica = answer.view.nodes.iter().find(|node| node.role == Role::ReplicaOf(id.clone()));
        if let Some(replica) = replica {
            return Err(NodesError::Refused(format!("{} still copies {address}, {at} says", replica.id)));
        }
    }
    Ok(())
}

async fn tell(servers: &Servers, mandate: &Mandate, other: &Address, id: &NodeId) -> Result<(), NodesError> {
    match servers.at(other).order(mandate, &["CLUSTER", "FORGET", id.as_str()], "before-forget").await {
        Ok(_) => Ok(()),
        Err(NodesError::Refused(why)) if why.contains("Unknown node") => Ok(()),
        Err(error) => Err(error),
    }
}
