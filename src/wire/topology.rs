//! The topology as clients read it: the body of `GET …/topology`, and its conversions.
//!
//! Reading is tolerant of unknown fields, so that an older client reads a newer controller, and strict about
//! everything it knows: a body that is not one complete and consistent slot table is refused.

use std::collections::BTreeSet;
use std::fmt::Debug;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::{
    ClusterId, Epoch, Generation, Host, Invalid, Moving, Node, NodeId, NodeState, SLOT_COUNT, Serving, ShardId,
    ShardState, Slot, SlotRange, SlotSet, SlotTable, Topology, TopologyShard, Version, Weight, Zone,
};

/// How keys become slots, as the body names it.
pub const KEY_HASH: &str = "crc16-xmodem";
/// What encloses the hashed part of a key, as the body names it.
pub const HASH_TAG: &str = "{}";

/// A whole topology at one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopologyBody {
    /// `full`: the body is the whole topology.
    pub kind: TopologyKind,
    /// Identity of the cluster; a client refuses another one.
    pub cluster_id: String,
    /// Raised when the cluster is created anew or restored: then everything is replaced.
    pub generation: u64,
    /// +1 per change that clients can see.
    pub epoch: u64,
    /// Number of slots: 16384.
    #[schema(example = 16384)]
    pub slots: u32,
    /// How a key becomes a slot: `crc16-xmodem`, modulo `slots`.
    #[schema(example = "crc16-xmodem")]
    pub key_hash: String,
    /// What encloses the part of a key that is hashed.
    #[schema(example = "{}")]
    pub hash_tag: String,
    /// The shards, ascending by id.
    pub shards: Vec<TopologyShardBody>,
    /// Slots nobody owns, as ranges with both ends included.
    #[schema(example = json!([[16000, 16383]]))]
    pub unassigned: Vec<[u16; 2]>,
    /// Ranges on their way from one shard to another.
    pub moving: Vec<MovingBody>,
    /// Hot keys and their read trees; empty as long as there are none.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    pub hot: Vec<serde_json::Value>,
}

/// What a topology body holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TopologyKind {
    /// Everything.
    Full,
}

/// A shard, its nodes and its slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopologyShardBody {
    /// Its id.
    pub id: String,
    /// Relative share of the slots, `0..=10000`.
    pub weight: u32,
    /// What the operator wants of it.
    pub state: ShardStateBody,
    /// The node that serves its slots.
    pub primary: TopologyNodeBody,
    /// The nodes that copy it.
    pub replicas: Vec<TopologyNodeBody>,
    /// Its slots, as ranges with both ends included.
    #[schema(example = json!([[0, 5460]]))]
    pub ranges: Vec<[u16; 2]>,
}

/// A node as clients dial it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopologyNodeBody {
    /// Its id.
    pub id: String,
    /// Host name or IP address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Failure domain, where one is known.
    pub zone: Option<String>,
}

/// A range on its way from one shard to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MovingBody {
    /// First and last slot.
    #[schema(example = json!([0, 63]))]
    pub range: [u16; 2],
    /// The shard the slots leave.
    pub from: String,
    /// The shard they go to.
    pub to: String,
    /// Which of the two serves them at this epoch.
    pub serving: ServingBody,
}

/// What the operator wants of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShardStateBody {
    /// Owns its share of the slots.
    Active,
    /// To be emptied.
    Draining,
}

/// Which end of a move serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServingBody {
    /// The source.
    From,
    /// The target.
    To,
}

impl From<&Topology> for TopologyBody {
    fn from(topology: &Topology) -> Self {
        let mut ranges = vec![Vec::new(); topology.shards.len()];
        let mut unassigned = Vec::new();
        for (range, owner) in topology.table.runs() {
            match owner.and_then(|id| topology.table.index_of(id)) {
                Some(index) => ranges[usize::from(index)].push(pair(range)),
                None => unassigned.push(pair(range)),
            }
        }
        let shards = topology.shards.iter().zip(ranges).map(|(shard, ranges)| shard_body(shard, ranges)).collect();
        Self {
            kind: TopologyKind::Full,
            cluster_id: topology.cluster_id.to_string(),
            generation: topology.version.generation.0,
            epoch: topology.version.epoch.0,
            slots: 16384,
            key_hash: KEY_HASH.to_owned(),
            hash_tag: HASH_TAG.to_owned(),
            shards,
            unassigned,
            moving: topology.moving.iter().map(MovingBody::from).collect(),
            hot: Vec::new(),
        }
    }
}

/// The body does not carry the nodes' desired state: every node is read as active.
impl TryFrom<TopologyBody> for Topology {
    type Error = Invalid;
    fn try_from(body: TopologyBody) -> Result<Self, Invalid> {
        expect_same("slots", body.slots, 16384)?;
        expect_same("key_hash", body.key_hash.as_str(), KEY_HASH)?;
        expect_same("hash_tag", body.hash_tag.as_str(), HASH_TAG)?;
        let mut shards = Vec::with_capacity(body.shards.len());
        let mut ranges = Vec::with_capacity(body.shards.len());
        for shard in body.shards {
            ranges.push(shard.ranges.iter().map(|&ends| range(ends)).collect::<Result<Vec<_>, _>>()?);
            shards.push(shard_value(shard.id, shard.weight, shard.state, shard.primary, shard.replicas)?);
        }
        let unassigned = body.unassigned.iter().map(|&ends| range(ends)).collect::<Result<Vec<_>, _>>()?;
        check_nodes(&shards)?;
        let table = table_of(&shards, &ranges, unassigned)?;
        shards.sort_by(|a, b| a.id.cmp(&b.id));
        let moving = body.moving.into_iter().map(|m| moving_value(m, &table)).collect::<Result<Vec<_>, _>>()?;
        if !moving.is_sorted_by(|a, b| a.range.last() < b.range.first()) {
            return Err(Invalid::new("moving", "the ranges are not ascending and disjoint"));
        }
        let version = Version { generation: Generation(body.generation), epoch: Epoch(body.epoch) };
        Ok(Self { cluster_id: ClusterId::new(&body.cluster_id)?, version, shards, table, moving })
    }
}

impl From<&Node> for TopologyNodeBody {
    fn from(node: &Node) -> Self {
        Self {
            id: node.id.to_string(),
            host: node.host.to_string(),
            port: node.port,
            zone: node.zone.as_ref().map(Zone::to_string),
        }
    }
}

impl From<&Moving> for MovingBody {
    fn from(moving: &Moving) -> Self {
        Self {
            range: pair(moving.range),
            from: moving.from.to_string(),
            to: moving.to.to_string(),
            serving: match moving.serving {
                Serving::From => ServingBody::From,
                Serving::To => ServingBody::To,
            },
        }
    }
}

impl From<ShardState> for ShardStateBody {
    fn from(state: ShardState) -> Self {
        match state {
            ShardState::Active => Self::Active,
            ShardState::Draining => Self::Draining,
        }
    }
}

impl From<ShardStateBody> for ShardState {
    fn from(state: ShardStateBody) -> Self {
        match state {
            ShardStateBody::Active => Self::Active,
            ShardStateBody::Draining => Self::Draining,
        }
    }
}

fn shard_body(shard: &TopologyShard, ranges: Vec<[u16; 2]>) -> TopologyShardBody {
    TopologyShardBody {
        id: shard.id.to_string(),
        weight: shard.weight.get(),
        state: shard.state.into(),
        primary: TopologyNodeBody::from(&shard.primary),
        replicas: shard.replicas.iter().map(TopologyNodeBody::from).collect(),
        ranges,
    }
}

const fn pair(range: SlotRange) -> [u16; 2] {
    [range.first().get(), range.last().get()]
}

fn range([first, last]: [u16; 2]) -> Result<SlotRange, Invalid> {
    SlotRange::new(Slot::new(first)?, Slot::new(last)?)
}

fn expect_same<T: PartialEq + Debug + Copy>(what: &'static str, actual: T, expected: T) -> Result<(), Invalid> {
    if actual == expected {
        Ok(())
    } else {
        Err(Invalid::new(what, format!("{actual:?} is not supported, only {expected:?}")))
    }
}

fn shard_value(
    id: String,
    weight: u32,
    state: ShardStateBody,
    primary: TopologyNodeBody,
    replicas: Vec<TopologyNodeBody>,
) -> Result<TopologyShard, Invalid> {
    Ok(TopologyShard {
        id: ShardId::try_from(id)?,
        weight: Weight::new(weight)?,
        state: state.into(),
        primary: node_value(primary)?,
        replicas: replicas.into_iter().map(node_value).collect::<Result<_, _>>()?,
    })
}

fn node_value(body: TopologyNodeBody) -> Result<Node, Invalid> {
    if body.port == 0 {
        return Err(Invalid::new("port", format!("node {:?} has port 0", body.id)));
    }
    Ok(Node {
        id: NodeId::try_from(body.id)?,
        host: Host::try_from(body.host)?,
        port: body.port,
        zone: body.zone.map(Zone::try_from).transpose()?,
        state: NodeState::Active,
    })
}

fn moving_value(body: MovingBody, table: &SlotTable) -> Result<Moving, Invalid> {
    let moving = Moving {
        range: range(body.range)?,
        from: ShardId::try_from(body.from)?,
        to: ShardId::try_from(body.to)?,
        serving: match body.serving {
            ServingBody::From => Serving::From,
            ServingBody::To => Serving::To,
        },
    };
    for shard in [&moving.from, &moving.to] {
        if table.index_of(shard).is_none() {
            return Err(Invalid::new("moving", format!("{}: there is no shard {shard}", moving.range)));
        }
    }
    let serving = if moving.serving == Serving::From { &moving.from } else { &moving.to };
    if moving.from == moving.to || !moving.range.slots().all(|slot| table.owner(slot) == Some(serving)) {
        return Err(Invalid::new("moving", format!("{} is not owned by the shard that serves it", moving.range)));
    }
    Ok(moving)
}

fn check_nodes(shards: &[TopologyShard]) -> Result<(), Invalid> {
    let mut seen = BTreeSet::new();
    for node in shards.iter().flat_map(|shard| std::iter::once(&shard.primary).chain(&shard.replicas)) {
        if !seen.insert(&node.id) {
            return Err(Invalid::new("node", format!("{} is listed twice", node.id)));
        }
    }
    Ok(())
}

/// The table, when every slot is listed exactly once: by one shard or as unassigned.
fn table_of(
    shards: &[TopologyShard],
    ranges: &[Vec<SlotRange>],
    unassigned: Vec<SlotRange>,
) -> Result<SlotTable, Invalid> {
    let mut table = SlotTable::with_shards(shards.iter().map(|shard| shard.id.clone()).collect())?;
    let seen = SlotSet::from_ranges(ranges.iter().flatten().copied().chain(unassigned))?;
    if let Some(missing) = Slot::all().find(|&slot| !seen.contains(slot)) {
        let others = SLOT_COUNT - seen.len() - 1;
        let why = format!("slot {missing} (and {others} others) is listed neither by a shard nor as unassigned");
        return Err(Invalid::new("slot ranges", why));
    }
    for (shard, ranges) in shards.iter().zip(ranges) {
        for &range in ranges {
            table.assign(range, Some(&shard.id))?;
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests;
