//! Comparing hash families: what is asked, and the figures of each family.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::schema;
use crate::domain::{
    Comparison, CopyFigures, Family, FamilyFigures, HotKeys, Millionths, MissCurve, NodeId, PlacedNode, Takeover,
    Weight, Zone,
};

/// A node that keys are placed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ComparedNode {
    /// Its name.
    #[schema(value_type = schema::Name)]
    pub name: NodeId,
    /// Its share relative to the others; 1 when absent.
    #[serde(default = "one")]
    #[schema(value_type = schema::WeightNumber, required = false)]
    pub weight: Weight,
    /// Its failure domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub zone: Option<Zone>,
}

const fn one() -> Weight {
    Weight::ONE
}

/// A scale event and on which keys to look at it. Either `nodes` or `count`; either `to` or any of `add`, `drain` and `weights`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"count": 10, "to": 11, "sample": 2000}))]
pub struct ComparisonRequest {
    /// The nodes before the event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    pub nodes: Vec<ComparedNode>,
    /// So many nodes of weight 1 before the event, named `node-1` and on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 256)]
    pub count: Option<u32>,
    /// So many nodes after the event: the last leave, or more join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 256)]
    pub to: Option<u32>,
    /// Nodes that join.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    pub add: Vec<ComparedNode>,
    /// Nodes that leave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::Name>, max_items = 256)]
    pub drain: Vec<NodeId>,
    /// Nodes that get another weight.
    #[serde(default, deserialize_with = "super::patch::distinct_keys", skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, schema::WeightNumber>)]
    pub weights: BTreeMap<NodeId, Weight>,
    /// The families to compare; all when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 11)]
    pub families: Vec<FamilyName>,
    /// Keys as they are asked for; repeated ones are requests. Instead of `sample`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 200_000)]
    pub keys: Vec<String>,
    /// So many generated keys; 10000 when neither is there. Nodes times keys are at most 5 million.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 200_000)]
    pub sample: Option<u32>,
    /// Which keys are generated; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether the k-th generated key is asked for in proportion to 1/k, not each once.
    #[serde(default)]
    #[schema(required = false)]
    pub zipf: bool,
    /// Copies of each key; 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 16)]
    pub copies: Option<u32>,
    /// Clients with a stale view; 10 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 16)]
    pub views: Option<u32>,
    /// A view holds at least one in so many nodes; 2 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub view_part: Option<u32>,
    /// Requests per second of all clients; 10000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    pub requests_per_second: Option<u64>,
    /// Slots per second that a rollout moves; 100 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 16384)]
    pub slots_per_second: Option<u64>,
    /// Children in the tree of a hot key; 4 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 2, maximum = 64)]
    pub arity: Option<u32>,
}

/// A hash family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FamilyName {
    /// Hash modulo the number of nodes.
    Modulo,
    /// One point per node on a circle.
    Ring,
    /// Many points per node on a circle.
    Vnodes,
    /// The same as libketama makes them.
    Ketama,
    /// The highest score of key and node.
    Rendezvous,
    /// Jump consistent hash.
    Jump,
    /// A look-up table filled by turns.
    Maglev,
    /// The ring, no node above a bound.
    BoundedLoad,
    /// `AnchorHash`.
    Anchor,
    /// One point per node, many probes per key.
    MultiProbe,
    /// Fixed slots and a planner.
    Slots,
}

/// A comparison. Ratios are to be read as they are: 1 is as it should be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ComparisonView {
    /// The event in words.
    #[schema(example = "10 -> 11 nodes; add node-11")]
    pub event: String,
    /// Nodes before.
    pub before: Vec<ComparedNode>,
    /// Nodes after.
    pub after: Vec<ComparedNode>,
    /// Distinct keys.
    pub keys: u64,
    /// Requests: repeated keys count each time.
    pub requests: u64,
    /// Requests per second of the curves.
    pub requests_per_second: u64,
    /// Slots per second that a rollout moves.
    pub slots_per_second: u64,
    /// Keys that have to move whatever the family.
    pub least_keys: u64,
    /// The families.
    pub families: Vec<FamilyView>,
    /// χ² over degrees of freedom of the keys per slot: 1 for a random function.
    pub chi_per_slot: f64,
    /// The same per shard; none with one shard.
    pub chi_per_shard: Option<f64>,
    /// What a tree of copies does for the hottest keys.
    pub hot: HotKeysView,
    /// What the figures say; the last sentence tells which to choose, and why.
    pub advice: Vec<String>,
}

/// One family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FamilyView {
    /// Which.
    pub family: FamilyName,
    /// Why it cannot carry the event; then there are no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Its figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<FiguresView>,
}

/// The figures of a family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FiguresView {
    /// Keys with another owner after the event.
    pub keys_moved: u64,
    /// The same over the least possible; none where nothing has to move.
    pub moved_to_least: Option<f64>,
    /// Keys that moved between two nodes that did not change: 0 is monotone.
    pub stray_moves: u64,
    /// Keys of the heaviest node over its share.
    pub heaviest: f64,
    /// Keys of the lightest node over its share.
    pub lightest: f64,
    /// Coefficient of variation of the nodes' keys.
    pub variation: f64,
    /// Requests of the heaviest node over its share.
    pub heaviest_requests: f64,
    /// Most owners that one key has in stale views.
    pub spread_max: u32,
    /// Mean owners of a key in stale views.
    pub spread_mean: f64,
    /// Most keys that some view gives to one node, over its share.
    pub view_load_max: f64,
    /// Nodes that take over when one leaves, in the worst case tried; none where no node can leave.
    pub heirs: Option<u32>,
    /// Keys of the heaviest heir, after over before.
    pub heir_growth: Option<f64>,
    /// Copies of each key.
    pub copies: CopiesView,
    /// Nanoseconds of a look-up.
    pub lookup_ns: f64,
    /// Bytes that a client holds.
    pub memory_bytes: u64,
    /// Bytes that clients are told.
    pub metadata_bytes: u64,
    /// What a warm cache misses because of the event.
    pub misses: MissesView,
}

/// Copies of keys on several nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CopiesView {
    /// Copies of each key.
    pub copies: u32,
    /// Part of the keys whose copies are on as many nodes.
    pub on_distinct_nodes: f64,
    /// Part of the keys whose copies are in as many zones as can be; none without zones.
    pub in_distinct_zones: Option<f64>,
    /// Part of the copies that the event moves.
    pub moved: f64,
}

/// Misses over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissesView {
    /// Length of a step.
    pub step_ms: u64,
    /// Expected misses in each step from the event on.
    pub per_step: Vec<u64>,
    /// Most misses per second.
    pub peak_per_second: u64,
    /// All of them.
    pub total: u64,
}

/// Hot keys, and random trees of copies. Loads are those of the heaviest node over an even share of these requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HotKeysView {
    /// Part of all requests that the hottest key gets.
    pub hottest: f64,
    /// Keys with a tree.
    pub keys: u32,
    /// Children of a position.
    pub arity: u32,
    /// Requests played.
    pub requests: u64,
    /// When the owner alone serves.
    pub owner_alone: f64,
    /// When nodes ask their parents, each once for a key.
    pub nodes_climb: f64,
    /// When clients climb and the copies are there.
    pub clients_climb_warm: f64,
    /// When clients climb and all ask before there is a copy.
    pub clients_climb_cold: f64,
    /// A multiple of the logarithm of the number of nodes: what climbing nodes keep below.
    pub bound: f64,
}

fn number(ratio: Millionths) -> f64 {
    ratio.0 as f64 / 1e6
}

impl From<&PlacedNode> for ComparedNode {
    fn from(node: &PlacedNode) -> Self {
        let weight = Weight::new(node.weight).expect("a comparison has checked it");
        Self { name: node.name.clone(), weight, zone: node.zone.clone() }
    }
}

impl From<&ComparedNode> for PlacedNode {
    fn from(node: &ComparedNode) -> Self {
        Self { name: node.name.clone(), weight: node.weight.get(), zone: node.zone.clone() }
    }
}

macro_rules! same_names {
    ($($wire:ident = $domain:ident),*) => {
        impl From<Family> for FamilyName {
            fn from(family: Family) -> Self {
                match family { $(Family::$domain => Self::$wire),* }
            }
        }
        impl From<FamilyName> for Family {
            fn from(family: FamilyName) -> Self {
                match family { $(FamilyName::$wire => Self::$domain),* }
            }
        }
    };
}

same_names!(
    Modulo = Modulo,
    Ring = Ring,
    Vnodes = VirtualNodes,
    Ketama = Ketama,
    Rendezvous = Rendezvous,
    Jump = Jump,
    Maglev = Maglev,
    BoundedLoad = BoundedLoad,
    Anchor = Anchor,
    MultiProbe = MultiProbe,
    Slots = Slots
);

impl From<&Comparison> for ComparisonView {
    fn from(comparison: &Comparison) -> Self {
        let family = |outcome: &crate::domain::Outcome| FamilyView {
            family: outcome.family.into(),
            refused: outcome.figures.as_ref().err().cloned(),
            figures: outcome.figures.as_ref().ok().map(FiguresView::from),
        };
        Self {
            event: comparison.event.clone(),
            before: comparison.before.iter().map(ComparedNode::from).collect(),
            after: comparison.after.iter().map(ComparedNode::from).collect(),
            keys: comparison.keys,
            requests: comparison.requests,
            requests_per_second: comparison.requests_per_second,
            slots_per_second: comparison.slots_per_second,
            least_keys: comparison.least_keys,
            families: comparison.outcomes.iter().map(family).collect(),
            chi_per_slot: number(comparison.evenness.per_slot),
            chi_per_shard: comparison.evenness.per_shard.map(number),
            hot: (&comparison.hot).into(),
            advice: comparison.advice.clone(),
        }
    }
}

impl From<&FamilyFigures> for FiguresView {
    fn from(figures: &FamilyFigures) -> Self {
        Self {
            keys_moved: figures.keys_moved,
            moved_to_least: figures.moved_to_least.map(number),
            stray_moves: figures.stray_moves,
            heaviest: number(figures.balance.heaviest),
            lightest: number(figures.balance.lightest),
            variation: number(figures.balance.variation),
            heaviest_requests: number(figures.heaviest_requests),
            spread_max: figures.views.spread_max,
            spread_mean: number(figures.views.spread_mean),
            view_load_max: number(figures.views.load_max),
            heirs: figures.takeover.map(|Takeover { heirs, .. }| heirs),
            heir_growth: figures.takeover.map(|Takeover { heir_growth, .. }| number(heir_growth)),
            copies: figures.copies.into(),
            lookup_ns: figures.lookup_ps as f64 / 1000.0,
            memory_bytes: figures.memory_bytes,
            metadata_bytes: figures.metadata_bytes,
            misses: (&figures.misses).into(),
        }
    }
}

impl From<CopyFigures> for CopiesView {
    fn from(copies: CopyFigures) -> Self {
        Self {
            copies: copies.copies,
            on_distinct_nodes: number(copies.distinct_nodes),
            in_distinct_zones: copies.distinct_zones.map(number),
            moved: number(copies.moved),
        }
    }
}

impl From<&MissCurve> for MissesView {
    fn from(curve: &MissCurve) -> Self {
        let MissCurve { step_ms, misses, peak_per_second, total } = curve;
        Self { step_ms: *step_ms, per_step: misses.clone(), peak_per_second: *peak_per_second, total: *total }
    }
}

impl From<&HotKeys> for HotKeysView {
    fn from(hot: &HotKeys) -> Self {
        Self {
            hottest: number(hot.hottest),
            keys: hot.keys,
            arity: hot.arity,
            requests: hot.requests,
            owner_alone: number(hot.owner_alone),
            nodes_climb: number(hot.nodes_climb),
            clients_climb_warm: number(hot.clients_climb_warm),
            clients_climb_cold: number(hot.clients_climb_cold),
            bound: number(hot.bound),
        }
    }
}
