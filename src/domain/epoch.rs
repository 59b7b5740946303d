//! Versions of what clients can see of a cluster.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Invalid;

/// Version of a cluster's topology: +1 per committed change that clients can see, and only then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// Raised when a cluster is created anew or restored, to max(old + 1, Unix seconds).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

/// Generation, then epoch; ordered in that order. Written `G.E`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version {
    /// The generation.
    pub generation: Generation,
    /// The epoch within it.
    pub epoch: Epoch,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.generation, self.epoch)
    }
}

/// Reads `G.E`, both decimal and below 2^64.
impl FromStr for Version {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let number = |part: &str| super::is_plain_number(part).then(|| part.parse().ok()).flatten();
        text.split_once('.')
            .and_then(|(g, e)| Some(Self { generation: Generation(number(g)?), epoch: Epoch(number(e)?) }))
            .ok_or_else(|| Invalid::new("version", format!("{text:?} is not GENERATION.EPOCH")))
    }
}
