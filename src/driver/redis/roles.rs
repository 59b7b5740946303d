//! Makes replicas primaries, and nodes replicas.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::advice;
use super::links::Links;
use super::sight::{Fault, Sight, member_ids, members, primaries, primary};
use super::value::{command, field, text};
use crate::domain::{Node, NodeId, TopologyShard};
use crate::driver::{DriverError, Job};
use crate::nodes_text::{Health, Role};

/// How long the servers may take to agree on a new primary, and between two looks.
const PATIENCE: Duration = Duration::from_secs(25);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A replica further behind is not promoted: `CLUSTER FAILOVER` keeps the clients waiting until it has caught up.
const LAG_MAX_BYTES: u64 = 16 << 20;

/// Makes a replica the primary of its shard. With the primary alive this loses nothing: it stops its clients, the replica
/// catches up, then takes over. A primary that every other one calls failed is taken over by force, by the replica that
/// has most; what had not reached it is lost, as in any failover.
pub(super) async fn promote(links: &Links, job: &Job, shard: &TopologyShard, to: &NodeId) -> Result<(), DriverError> {
    let Some(node) = members(shard).find(|node| node.id == *to) else {
        return Err(DriverError::Halt(format!("{to} is no node of shard {}", shard.id)));
    };
    let (start, mut asked) = (Instant::now(), None::<Instant>);
    loop {
        job.lease.held().await;
        let why = match step(links, job, shard, node, asked.is_none()).await {
            Ok(Next::Done) => return Ok(()),
            Ok(Next::Asked) => {
                asked = Some(Instant::now());
                continue;
            }
            Ok(Next::Wait(why)) | Err(Fault::Passing(why)) => why,
            Err(Fault::Lasting(why)) => return Err(DriverError::Halt(why)),
        };
        // A manual failover ends by itself after five seconds, one way or the other.
        if asked.is_some_and(|at| at.elapsed() > Duration::from_secs(6)) {
            asked = None;
        }
        if start.elapsed() > PATIENCE {
            let why = format!("{node} does not become the primary of shard {}: {why}", shard.id);
            return Err(if job.ending { DriverError::Halt(why) } else { DriverError::Open(why) });
        }
        advice::tell(job, start, || why);
        sleep(LOOK_EVERY).await;
    }
}

enum Next {
    Done,
    Asked,
    Wait(String),
}

async fn step(links: &Links, job: &Job, shard: &TopologyShard, to: &Node, ask: bool) -> Result<Next, Fault> {
    let link = links.shared(&job.cluster, to).await?;
    let replica = Sight::take(&link, to, &[]).await?;
    if replica.is_master {
        return Ok(match doubter(links, job, shard, &replica).await? {
            None => Next::Done,
            Some(who) => Next::Wait(format!("{who} has not heard of it")),
        });
    }
    if !ask {
        return Ok(Next::Wait("it has been asked to take over".to_owned()));
    }
    let state = replication(links, job, to).await?;
    let force = match primary(links, Some(&job.cluster), shard, &shard.primary.id, &[]).await {
        Ok(now) => {
            if replica.view.myself().map(|seen| &seen.role) != Some(&Role::ReplicaOf(now.id.clone())) {
                return Ok(Next::Wait(format!("it is no replica of {}", now.node)));
            }
            let ahead = replication(links, job, &now.node).await?.offset;
            let behind = ahead.saturating_sub(state.offset);
            if !state.link_up || behind > LAG_MAX_BYTES {
                return Ok(Next::Wait(format!("it is {behind} bytes behind {}", now.node)));
            }
            false
        }
        Err(fault) => {
            if !failed(links, job, shard).await {
                return Err(fault);
            }
            for other in members(shard).filter(|other| other.id != to.id) {
                if let Ok(other_state) = replication(links, job, other).await
                    && other_state.offset > state.offset
                {
                    return Err(Fault::Lasting(format!(
                        "the primary failed, and {other} has more of its data than {to}"
                    )));
                }
            }
            true
        }
    };
    let mut failover = command(&["CLUSTER", "FAILOVER"]);
    if force {
        failover.arg("FORCE");
    }
    job.lease.held().await;
    link.call(&failover).await?;
    Ok(Next::Asked)
}

/// How far a node is in the stream of its shard.
struct Replication {
    link_up: bool,
    in_progress: bool,
    offset: u64,
}

async fn replication(links: &Links, job: &Job, node: &Node) -> Result<Replication, Fault> {
    let link = links.shared(&job.cluster, node).await?;
    let value = link.call(&command(&["INFO", "replication"])).await?;
    let info = text(&value).ok_or_else(|| link.unexpected("INFO"))?;
    let offset = field(info, "slave_repl_offset").or_else(|| field(info, "master_repl_offset"));
    Ok(Replication {
        link_up: field(info, "master_link_status") == Some("up"),
        in_progress: field(info, "master_sync_in_progress") == Some("1"),
        offset: offset.and_then(|text| text.parse().ok()).unwrap_or(0),
    })
}

/// Another primary that does not know the new one as a master yet.
async fn doubter(links: &Links, job: &Job, shard: &TopologyShard, new: &Sight) -> Result<Option<Node>, Fault> {
    for other in others(links, job, shard).await {
        let seen = other.view.node(&new.id);
        if seen.is_none_or(|seen| seen.role != Role::Master) {
            return Ok(Some(other.node));
        }
    }
    Ok(None)
}

/// Whether all other primaries that can be asked say that the shard's primary failed.
async fn failed(links: &Links, job: &Job, shard: &TopologyShard) -> bool {
    let ids = member_ids(shard);
    let sights = others(links, job, shard).await;
    let says = |sight: &Sight| {
        let masters = sight.view.nodes.iter().filter(|node| ids.contains(&node.id) && node.role == Role::Master);
        masters.fold(None, |all: Option<bool>, node| Some(all.unwrap_or(true) && node.health == Health::Failed))
    };
    !sights.is_empty() && sights.iter().all(|sight| says(sight) == Some(true))
}

async fn others(links: &Links, job: &Job, shard: &TopologyShard) -> Vec<Sight> {
    let others: Vec<&TopologyShard> = job.topology.shards.iter().filter(|other| other.id != shard.id).collect();
    primaries(links, Some(&job.cluster), others, &[]).await.into_iter().filter_map(Result::ok).collect()
}

/// Makes a node a replica of a shard and waits until it has its data.
pub(super) async fn follow(links: &Links, job: &Job, node: &NodeId, shard: &TopologyShard) -> Result<(), DriverError> {
    let known = job.topology.shards.iter().flat_map(members).find(|known| known.id == *node);
    let Some(node) = known else {
        return Err(DriverError::Halt(format!("the cluster has no node {node}")));
    };
    let mut since = Instant::now();
    loop {
        job.lease.held().await;
        let why = match follows(links, job, node, shard).await {
            Ok(Following::InSync) => return Ok(()),
            Ok(Following::Copying) => {
                // It takes as long as it takes.
                since = Instant::now();
                job.waits.say(job.action.id, None);
                "it copies".to_owned()
            }
            Ok(Following::Waits(why)) | Err(Fault::Passing(why)) => why,
            Err(Fault::Lasting(why)) => return Err(DriverError::Halt(why)),
        };
        if since.elapsed() > PATIENCE {
            let why = format!("{node} does not become a replica of shard {}: {why}", shard.id);
            return Err(if job.ending { DriverError::Halt(why) } else { DriverError::Open(why) });
        }
        advice::tell(job, since, || why);
        sleep(LOOK_EVERY).await;
    }
}

enum Following {
    InSync,
    Copying,
    Waits(String),
}

async fn follows(links: &Links, job: &Job, node: &Node, shard: &TopologyShard) -> Result<Following, Fault> {
    let primary = primary(links, Some(&job.cluster), shard, &shard.primary.id, &[]).await?;
    if primary.id == node.id {
        return Err(Fault::Lasting(format!("{node} is the primary of shard {}", shard.id)));
    }
    let link = links.shared(&job.cluster, node).await?;
    let now = Sight::take(&link, node, &[]).await?;
    if now.view.myself().is_some_and(|myself| myself.role == Role::ReplicaOf(primary.id.clone())) {
        let state = replication(links, job, node).await?;
        return Ok(match state {
            Replication { link_up: true, .. } => Following::InSync,
            Replication { in_progress: true, .. } => Following::Copying,
            _ => Following::Waits(format!("its link to {} is down", primary.node)),
        });
    }
    if now.is_master && now.view.myself().is_some_and(|myself| !myself.ranges.is_empty()) {
        return Err(Fault::Lasting(format!("{node} owns slots: what it holds would be deleted")));
    }
    if now.view.node(&primary.id).is_none() {
        return Ok(Following::Waits(format!("it does not know {}", primary.node)));
    }
    let mut replicate = command(&["CLUSTER", "REPLICATE"]);
    replicate.arg(primary.id.as_str());
    job.lease.held().await;
    link.call(&replicate).await?;
    Ok(Following::Waits("it has been asked to".to_owned()))
}
