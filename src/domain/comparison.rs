//! What a comparison of hash families tells: figures of one scale event under every way of placing keys.
//!
//! Ratios are whole millionths, so that every machine prints the same.

use std::fmt;
use std::str::FromStr;

use super::{Invalid, NodeId, Zone};

/// A ratio in millionths: 1 is 1 000 000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millionths(pub u64);

impl Millionths {
    /// 1.
    pub const ONE: Self = Self(1_000_000);

    /// `part / whole`, rounded to the nearest; 0 when the whole is 0.
    #[must_use]
    pub fn ratio(part: u64, whole: u64) -> Self {
        let scaled = u128::from(part) * 1_000_000 + u128::from(whole) / 2;
        Self(scaled.checked_div(whole.into()).map_or(0, |ratio| u64::try_from(ratio).unwrap_or(u64::MAX)))
    }
}

/// With two decimals unless the precision says otherwise; at most six.
impl fmt::Display for Millionths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(2).min(6);
        let unit = 10_u64.pow(6 - u32::try_from(decimals).expect("at most 6"));
        let rounded = self.0.saturating_add(unit / 2) / unit;
        let scale = 1_000_000 / unit;
        let text = if decimals == 0 {
            rounded.to_string()
        } else {
            format!("{}.{:0decimals$}", rounded / scale, rounded % scale)
        };
        f.pad_integral(true, "", &text)
    }
}

/// A way of placing keys on machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Hash modulo the number of nodes.
    Modulo,
    /// One point per node on a circle.
    Ring,
    /// Many points per node on a circle.
    VirtualNodes,
    /// The same as libketama makes them.
    Ketama,
    /// The highest score of (key, node).
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
    /// 16384 fixed slots and a planner.
    Slots,
}

impl Family {
    /// Every family, in the order of the table.
    pub const ALL: [Self; 11] = [
        Self::Modulo,
        Self::Ring,
        Self::VirtualNodes,
        Self::Ketama,
        Self::Rendezvous,
        Self::Jump,
        Self::Maglev,
        Self::BoundedLoad,
        Self::Anchor,
        Self::MultiProbe,
        Self::Slots,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Modulo => "modulo",
            Self::Ring => "ring",
            Self::VirtualNodes => "vnodes",
            Self::Ketama => "ketama",
            Self::Rendezvous => "rendezvous",
            Self::Jump => "jump",
            Self::Maglev => "maglev",
            Self::BoundedLoad => "bounded-load",
            Self::Anchor => "anchor",
            Self::MultiProbe => "multi-probe",
            Self::Slots => "slots",
        }
    }

    /// Whether nodes can have different weights.
    #[must_use]
    pub const fn has_weights(self) -> bool {
        !matches!(self, Self::Modulo | Self::Ring | Self::Jump | Self::Anchor | Self::MultiProbe)
    }

    /// Whether any node may leave, not the last only.
    #[must_use]
    pub const fn any_may_leave(self) -> bool {
        !matches!(self, Self::Jump)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Family {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL.into_iter().find(|family| family.as_str() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            let shown: String = text.chars().take(32).collect();
            Invalid::new("family", format!("{shown:?} is unknown; there are {known}"))
        })
    }
}

/// A machine that keys are placed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedNode {
    /// Its name.
    pub name: NodeId,
    /// Its share relative to the others; `0..=10000`.
    pub weight: u32,
    /// Its failure domain.
    pub zone: Option<Zone>,
}

/// What a scale event costs under one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyFigures {
    /// Keys with another owner after the event.
    pub keys_moved: u64,
    /// The same over the least possible; none where nothing has to move.
    pub moved_to_least: Option<Millionths>,
    /// Keys that moved between two nodes which were there before and after with one weight: 0 is monotone.
    pub stray_moves: u64,
    /// Keys on the nodes after the event.
    pub balance: Balance,
    /// Requests of the heaviest node over its share.
    pub heaviest_requests: Millionths,
    /// Clients that do not agree on who is there.
    pub views: ViewFigures,
    /// One node leaving; none where no node can.
    pub takeover: Option<Takeover>,
    /// Copies of keys.
    pub copies: CopyFigures,
    /// Picoseconds of one look-up.
    pub lookup_ps: u64,
    /// Bytes that a client holds to look keys up.
    pub memory_bytes: u64,
    /// Bytes that clients have to be told.
    pub metadata_bytes: u64,
    /// What a cache misses because of the event.
    pub misses: MissCurve,
}

/// How even the keys lie, each node against its share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// The heaviest node.
    pub heaviest: Millionths,
    /// The lightest node.
    pub lightest: Millionths,
    /// Standard deviation over mean.
    pub variation: Millionths,
}

/// Karger's spread and load over stale views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewFigures {
    /// Most owners of one key over all views.
    pub spread_max: u32,
    /// Mean owners of a key.
    pub spread_mean: Millionths,
    /// Most keys that some view gives to one node, over the share of a node.
    pub load_max: Millionths,
}

/// Who takes over when one node leaves: the worst of the nodes tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takeover {
    /// Fewest nodes that got its keys.
    pub heirs: u32,
    /// Keys of the heir that grew most, after over before.
    pub heir_growth: Millionths,
}

/// Copies of a key on several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyFigures {
    /// Copies asked for.
    pub copies: u32,
    /// Part of the keys whose copies lie on as many nodes.
    pub distinct_nodes: Millionths,
    /// Part of the keys whose copies lie in as many zones as can be; none without zones.
    pub distinct_zones: Option<Millionths>,
    /// Part of all copies that the event moves.
    pub moved: Millionths,
}

/// Misses of a warm cache because of the event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissCurve {
    /// Length of one step of the curve.
    pub step_ms: u64,
    /// Expected misses in each step.
    pub misses: Vec<u64>,
    /// Most misses per second: what the source behind has to bear.
    pub peak_per_second: u64,
    /// All of the curve.
    pub total: u64,
}

/// One family's figures, or why it cannot carry the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The family.
    pub family: Family,
    /// Its figures, or the reason.
    pub figures: Result<FamilyFigures, String>,
}

/// How evenly the slots and shards are filled: χ² over degrees of freedom, 1 for a random function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evenness {
    /// Over the 16384 slots.
    pub per_slot: Millionths,
    /// Over the shards before the event; none with one shard.
    pub per_shard: Option<Millionths>,
}

/// What a tree of caches does for the hottest keys. Loads are those of the heaviest node over an even share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotKeys {
    /// Part of all requests that the hottest key gets.
    pub hottest: Millionths,
    /// Keys with a tree of their own.
    pub keys: u32,
    /// Children of a position.
    pub arity: u32,
    /// Requests played.
    pub requests: u64,
    /// Only the owner serves.
    pub owner_alone: Millionths,
    /// Nodes ask their parents: each at most once for a key.
    pub nodes_climb: Millionths,
    /// Clients climb, the copies are there.
    pub clients_climb_warm: Millionths,
    /// Clients climb, and all ask before the first copy is there.
    pub clients_climb_cold: Millionths,
    /// What the heaviest node may bear while nodes climb: a multiple of the logarithm.
    pub bound: Millionths,
}

/// A whole comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The event in words.
    pub event: String,
    /// Nodes before.
    pub before: Vec<PlacedNode>,
    /// Nodes after.
    pub after: Vec<PlacedNode>,
    /// Distinct keys.
    pub keys: u64,
    /// Requests, repeated keys counted each time.
    pub requests: u64,
    /// Requests per second of the curve.
    pub requests_per_second: u64,
    /// Slots per second that a rollout moves.
    pub slots_per_second: u64,
    /// Keys that have to move whatever the family.
    pub least_keys: u64,
    /// The families, in the order of [`Family::ALL`].
    pub outcomes: Vec<Outcome>,
    /// The slots' own hash over these keys.
    pub evenness: Evenness,
    /// The hottest keys.
    pub hot: HotKeys,
    /// Which to choose, and why; a sentence each.
    pub advice: Vec<String>,
}
