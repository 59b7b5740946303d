//! What a server says of itself and of some slots, asked in one go, and who is the primary of a shard at this moment.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use redis::Value;
use tokio::time::Instant;

use super::advice;
use super::link::{Link, LinkError, Reply};
use super::links::Links;
use super::protocol::End;
use super::value::{bytes, command, field, list, number, text};
use crate::domain::{ClusterName, Node, NodeId, Slot, TopologyShard, advised, split_advice};
use crate::nodes_text::{self, Flag, Health, Role, View};

/// A look may take as long as a connection: whoever needs longer is not able to take part in a move.
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);

/// Why something could not be done: whether that may pass by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It may pass: somebody starts, fails over, or has not heard yet.
    Passing(String),
    /// Somebody has to change something.
    Lasting(String),
}

impl Fault {
    /// What it is.
    #[must_use]
    pub fn why(&self) -> &str {
        match self {
            Self::Passing(why) | Self::Lasting(why) => why,
        }
    }
}

impl From<LinkError> for Fault {
    fn from(error: LinkError) -> Self {
        let advice = match &error {
            LinkError::Answered { refusal, .. } => advice::of_refusal(refusal),
            other => advice::of_link(other),
        };
        let why = advised(&error.to_string(), advice);
        if error.passes() || error == LinkError::SteppedDown { Self::Passing(why) } else { Self::Lasting(why) }
    }
}

/// A server at one moment.
#[derive(Clone, Debug)]
pub struct Sight {
    /// As it is registered.
    pub node: Node,
    /// Who it says it is.
    pub id: NodeId,
    /// Whether it says that it is a master.
    pub is_master: bool,
    /// The process: another one after a restart.
    pub run_id: String,
    /// Its view of the cluster.
    pub view: View,
    /// When it was asked.
    pub taken: Instant,
    keys: BTreeMap<Slot, u64>,
}

impl Sight {
    /// Asks a server about itself and the slots.
    ///
    /// # Errors
    /// [`Fault`] naming it.
    pub async fn take(link: &Link, node: &Node, slots: &[Slot]) -> Result<Self, Fault> {
        let mut commands = vec![command(&["CLUSTER", "NODES"]), command(&["ROLE"]), command(&["INFO", "server"])];
        for slot in slots {
            let mut count = command(&["CLUSTER", "COUNTKEYSINSLOT"]);
            count.arg(slot.get());
            commands.push(count);
        }
        let taken = Instant::now();
        let replies = link.pipeline(commands, LOOK_TIMEOUT).await?;
        Self::read(link, node, slots, &replies, taken)
    }

    fn read(link: &Link, node: &Node, slots: &[Slot], replies: &[Reply], taken: Instant) -> Result<Self, Fault> {
        let value = |at: usize, what: &str| -> Result<&Value, Fault> {
            match replies.get(at) {
                Some(Ok(value)) => Ok(value),
                Some(Err(refusal)) => Err(Fault::from(link.answered(refusal.clone()))),
                None => Err(Fault::from(link.unexpected(what))),
            }
        };
        let odd = |what: &str| Fault::from(link.unexpected(what));
        let nodes = bytes(value(0, "CLUSTER NODES")?).ok_or_else(|| odd("CLUSTER NODES"))?;
        // A view that cannot be read may be that of a node that is joining or leaving.
        let view = nodes_text::view(nodes, Some(&node.host))
            .map_err(|error| Fault::Passing(format!("the view of {}: {error}", link.at())))?;
        let myself = view.myself().ok_or_else(|| odd("line of itself"))?;
        let role = list(value(1, "ROLE")?).and_then(|parts| text(parts.first()?)).ok_or_else(|| odd("role"))?;
        let info = text(value(2, "INFO")?).ok_or_else(|| odd("INFO"))?;
        let run_id = field(info, "run_id").ok_or_else(|| odd("run_id"))?.to_owned();
        let is_master = role == "master" && myself.role == Role::Master;
        let id = myself.id.clone();
        let mut keys = BTreeMap::new();
        for (at, slot) in (3..).zip(slots) {
            let count = number(value(at, "COUNTKEYSINSLOT")?).ok_or_else(|| odd("count of keys"))?;
            keys.insert(*slot, count);
        }
        Ok(Self { node: node.clone(), id, is_master, run_id, view, taken, keys })
    }

    /// What it says of one of the slots.
    #[must_use]
    pub fn end(&self, slot: Slot) -> End<NodeId> {
        End {
            me: self.id.clone(),
            owner: self.view.owner(slot).map(|owner| owner.id.clone()),
            flag: self.view.flag(slot).cloned(),
            keys: self.keys.get(&slot).copied().unwrap_or(0),
        }
    }

    /// Whether it has a slot open to somebody.
    #[must_use]
    pub fn migrates(&self, slot: Slot) -> bool {
        matches!(self.view.flag(slot), Some(Flag::Migrating(_)))
    }

    /// Version of its claim to its slots.
    #[must_use]
    pub fn config_epoch(&self) -> u64 {
        self.view.myself().map_or(0, |myself| myself.config_epoch)
    }

    /// Why this server cannot be taken for the primary of its shard, by what another server says. A primary that was cut
    /// off does not know yet that it was replaced.
    #[must_use]
    pub fn doubted_by(&self, other: &Self, shard: &TopologyShard) -> Option<String> {
        let seen = other.view.node(&self.id)?;
        let newer = other.view.nodes.iter().find(|node| {
            node.role == Role::Master
                && node.id != self.id
                && node.config_epoch > self.config_epoch()
                && members(shard).any(|member| member.id == node.id)
        });
        if let Some(newer) = newer {
            return Some(format!("{} says that {} took over from {}", other.node, newer.id, self.node));
        }
        let fails_over = seen.health == Health::Failed && members(shard).count() > 1;
        fails_over.then(|| format!("{} says that {} failed", other.node, self.node))
    }
}

/// Every node of a shard.
pub fn members(shard: &TopologyShard) -> impl Iterator<Item = &Node> {
    std::iter::once(&shard.primary).chain(&shard.replicas)
}

/// The ids of every node of a shard.
#[must_use]
pub fn member_ids(shard: &TopologyShard) -> Vec<NodeId> {
    members(shard).map(|node| node.id.clone()).collect()
}

/// Looks at the node of a shard that says it is its master: `first`, if it still does, else whoever does with the
/// newest claim.
///
/// # Errors
/// [`Fault`] naming the shard and what each of its nodes said.
pub async fn primary(
    links: &Links,
    cluster: Option<&ClusterName>,
    shard: &TopologyShard,
    first: &NodeId,
    slots: &[Slot],
) -> Result<Sight, Fault> {
    let ask = async |node: &Node| -> Result<Sight, Fault> {
        let link = links.shared_at(cluster, &node.host, node.port).await?;
        let sight = Sight::take(&link, node, slots).await?;
        if sight.id != node.id {
            return Err(Fault::Lasting(format!("{node} is not {}: it says that it is {}", node.id, sight.id)));
        }
        Ok(sight)
    };
    let mut said = Vec::new();
    let mut lasting = true;
    let hinted = members(shard).find(|node| node.id == *first).unwrap_or(&shard.primary);
    let mut note = |node: &Node, answer: &Result<Sight, Fault>| match answer {
        Ok(_) => {
            lasting = false;
            said.push(format!("{node} is a replica"));
        }
        Err(fault) => {
            lasting &= matches!(fault, Fault::Lasting(_));
            said.push(split_advice(fault.why()).0.to_owned());
        }
    };
    let answer = ask(hinted).await;
    match answer {
        Ok(sight) if sight.is_master => return Ok(sight),
        answer => note(hinted, &answer),
    }
    let others: Vec<&Node> = members(shard).filter(|node| node.id != hinted.id).collect();
    let answers = join_all(others.iter().map(|node| ask(node))).await;
    let mut masters = Vec::new();
    for (node, answer) in others.into_iter().zip(answers) {
        match answer {
            Ok(sight) if sight.is_master => masters.push(sight),
            answer => note(node, &answer),
        }
    }
    if let Some(newest) = masters.into_iter().max_by_key(Sight::config_epoch) {
        return Ok(newest);
    }
    let why = format!("shard {} has no primary that answers: {}", shard.id, said.join("; "));
    let why = advised(&why, "start it and see that this controller can reach it, or let its replica take over");
    Err(if lasting { Fault::Lasting(why) } else { Fault::Passing(why) })
}

/// The primaries of shards, as [`primary`] finds each, all asked at the same time.
pub async fn primaries<'a>(
    links: &Links,
    cluster: Option<&ClusterName>,
    shards: impl IntoIterator<Item = &'a TopologyShard>,
    slots: &[Slot],
) -> Vec<Result<Sight, Fault>> {
    let mut asked: Vec<BoxFuture<'_, _>> = Vec::new();
    for shard in shards {
        asked.push(Box::pin(primary(links, cluster, shard, &shard.primary.id, slots)));
    }
    join_all(asked).await
}

/// Whether a server owns all of the slots, none open, and every node of the shard they came from copies somebody by what it
/// knows: that shard, emptied, has become replicas by itself (`cluster-allow-replica-migration`).
pub(super) fn has_gone_over(target: &Sight, from: &TopologyShard, mut slots: impl Iterator<Item = Slot>) -> bool {
    let arrived = |slot: Slot| {
        let end = target.end(slot);
        end.owner.as_ref() == Some(&end.me) && end.flag.is_none()
    };
    let copies = |id: &NodeId| target.view.node(id).is_some_and(|node| matches!(node.role, Role::ReplicaOf(_)));
    slots.all(arrived) && member_ids(from).iter().all(copies)
}
