//! The hash families that people place keys with, side by side: what one scale event costs under each. Pure: no clock, no
//! IO, no randomness; floats only where a family's definition has them (`rendezvous`, `jump`).
//!
//! In reading order: `key` (hashes, computed once), `placement` (what every family can do), a file per family; `event`,
//! `sample` and `question` (what is asked), `measure`, `misses` and `hot` (what is counted), `study`, `advice`, and `chart`.

mod key;
mod placement;
mod circle;
mod modulo;
mod ring;
mod ketama;
mod rendezvous;
mod jump;
mod maglev;
mod bounded;
mod anchor;
mod probes;
mod slots;
mod event;
mod sample;
mod question;
mod measure;
mod misses;
mod hot;
mod study;
mod advice;
mod svg;
mod chart;
mod error;

pub use chart::chart;
pub use error::HashingError;
pub use event::{Event, numbered, resized};
pub use key::Key;
pub use placement::{Member, Placement, preference};
pub use question::{NODES_MAX, Question, Terms};
pub use sample::{KEYS_MAX, Sample, generate};
pub use study::{conclude, study};

use crate::domain::{Family, Millionths, SlotTable};

/// Most points that one ring keeps, unless fewer are asked for.
pub const POINTS_MAX: u64 = 1_000_000;

/// What the families can be tuned by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Points for a unit of weight: virtual nodes and bounded load.
    pub points: u32,
    /// Most points of one ring.
    pub points_max: u64,
    /// Probes of a key: multi-probe.
    pub probes: u32,
    /// How far above its share a node may go: bounded load.
    pub epsilon: Millionths,
}

impl Default for Tuning {
    /// nginx's 160 points, the paper's 21 probes, a quarter above the share.
    fn default() -> Self {
        Self { points: 160, points_max: POINTS_MAX, probes: 21, epsilon: Millionths(250_000) }
    }
}

/// Places keys on these nodes by one family; fixed slots start from the table, where one is given.
///
/// # Errors
/// [`HashingError`] when the family cannot work with these nodes.
pub fn build(
    family: Family,
    members: &[Member],
    tuning: Tuning,
    table: Option<&SlotTable>,
) -> Result<Box<dyn Placement>, HashingError> {
    Ok(match family {
        Family::Modulo => Box::new(modulo::Modulo::new(members)?),
        Family::Ring => Box::new(ring::Ring::plain(members)?),
        Family::VirtualNodes => Box::new(ring::Ring::weighted(members, tuning)?),
        Family::Ketama => Box::new(ketama::Ketama::new(members)?),
        Family::Rendezvous => Box::new(rendezvous::Rendezvous::new(members)),
        Family::Jump => Box::new(jump::Jump::new(members)?),
        Family::Maglev => Box::new(maglev::Maglev::new(members)?),
        Family::BoundedLoad => Box::new(bounded::BoundedLoad::new(members, tuning)?),
        Family::Anchor => Box::new(anchor::Anchor::new(members)?),
        Family::MultiProbe => Box::new(probes::MultiProbe::new(members, tuning.probes)?),
        Family::Slots => Box::new(slots::Slots::new(members, table)?),
    })
}

#[cfg(test)]
mod tests;
