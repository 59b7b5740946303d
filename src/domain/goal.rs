//! What a plan is made for: the goal, and the difference between desired and actual.

use serde::{Deserialize, Serialize};

use super::{Invalid, PlacementGoal, ShardId, Weight};

/// A tolerance in parts per million of the quota: 1 % is 10 000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tolerance(pub u32);

impl Tolerance {
    /// In percent, in the shortest form: `2`, `0.5`.
    #[must_use]
    pub fn percent(self) -> String {
        let text = format!("{}.{:04}", self.0 / 10_000, self.0 % 10_000);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    /// Reads a percentage with at most four decimals, `0..=100`, such as `2` or `0.5`.
    ///
    /// # Errors
    /// [`Invalid`] when it is not one.
    pub fn from_percent(text: &str) -> Result<Self, Invalid> {
        let fault =
            || Invalid::new("tolerance", format!("{text:?} is not a percentage in 0..=100 with at most 4 decimals"));
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |s: &str, most| !s.is_empty() && s.len() <= most && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole, 3) || !digits(decimals, 4) {
            return Err(fault());
        }
        let ppm = format!("{whole}{decimals:0<4}").parse::<u32>().map_err(|_| fault())?;
        if ppm > 1_000_000 { Err(fault()) } else { Ok(Self(ppm)) }
    }
}

/// What load balancing would balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadMetric {
    /// Number of keys.
    Keys,
    /// Bytes of memory.
    Bytes,
    /// Operations per second.
    Ops,
}

impl LoadMetric {
    /// Every metric.
    pub const ALL: [Self; 3] = [Self::Keys, Self::Bytes, Self::Ops];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Bytes => "bytes",
            Self::Ops => "ops",
        }
    }
}

/// What a plan is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Goal {
    /// Fewest moves that bring every shard inside its band; with tolerance 0: to its quota.
    Balance {
        /// Half-width of the band.
        tolerance: Tolerance,
    },
    /// As `redis-cli --cluster-threshold`: nothing while no shard is farther from its quota than so much of what it
    /// owns; else every shard to its quota.
    BalanceAbove {
        /// The distance that sets it off.
        trigger: Tolerance,
    },
    /// Empty the draining shards, touch nothing else.
    DrainOnly,
    /// The best balance reachable in so many moves.
    Budget {
        /// Most slots that may move.
        max_moves: u32,
    },
    /// Balance keys, bytes or operations instead of slot counts.
    BalanceLoad {
        /// What to balance.
        metric: LoadMetric,
        /// Half-width of the band.
        tolerance: Tolerance,
    },
}

/// Why a plan was made: its goal, and the difference between the desired and the actual cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The goal.
    pub goal: Goal,
    /// Shards that own nothing yet and are to get their share, with their weight; ascending.
    pub add: Vec<(ShardId, Weight)>,
    /// Shards to be emptied; ascending.
    pub drain: Vec<ShardId>,
    /// Shards with a new weight; ascending.
    pub reweight: Vec<(ShardId, Weight)>,
    /// The operator's words; may be empty.
    pub reason: String,
    /// The copies every active shard is to have, where asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementGoal>,
}
