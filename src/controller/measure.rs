//! What the nodes count of each slot, at this moment.

use super::{ControlError, Controller};
use crate::domain::{ClusterName, Instant, Slot, SlotSet};
use crate::driver::nodes::Sample;

/// Figures of the slots that have an owner.
#[derive(Clone, Debug)]
pub struct Measured {
    /// When they were taken.
    pub taken_at: Instant,
    /// Of each slot, ascending.
    pub slots: Vec<MeasuredSlot>,
}

/// Figures of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredSlot {
    /// The slot.
    pub slot: Slot,
    /// Number of keys.
    pub keys: u64,
    /// Bytes of memory: counted, or estimated by a sample of keys; none where there was nothing to tell by.
    pub bytes: Option<u64>,
    /// Microseconds of processor time since the node counts them, where it does.
    pub busy_us: Option<u64>,
}

impl Controller {
    /// Asks the primaries of a cluster what they count of each slot.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] naming the shards that did not answer; [`ControlError`] where the cluster's driver asks no
    /// nodes.
    pub async fn measure(&self, cluster: &ClusterName) -> Result<Measured, ControlError> {
        let now = self.cluster(cluster)?;
        let eyes = self.eyes_of(&now)?;
        let owned: SlotSet = Slot::all().filter(|slot| now.table.owner(*slot).is_some()).collect();
        let taken_at = self.now();
        let sample = eyes.nodes().sample(&now.topology(), &owned).await;
        if !sample.faults.is_empty() {
            return Err(ControlError::Unavailable(sample.faults.join("; ")));
        }
        Ok(Measured { taken_at, slots: slots(&sample) })
    }
}

fn slots(sample: &Sample) -> Vec<MeasuredSlot> {
    let of = |(slot, keys): (&u16, &u64)| MeasuredSlot {
        slot: Slot::at(usize::from(*slot)),
        keys: *keys,
        bytes: sample.slot_bytes.get(slot).copied(),
        busy_us: sample.slot_busy_us.get(slot).copied(),
    };
    sample.keys.iter().map(of).collect()
}
