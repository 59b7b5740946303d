//! What the nodes of a cluster count of each slot.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::timestamp::Timestamp;
use crate::domain::Slot;

/// What the nodes count of each slot, at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MeasuredView {
    /// When they were asked.
    #[schema(value_type = String, format = DateTime)]
    pub taken_at: Timestamp,
    /// Every slot that has an owner, ascending.
    #[schema(max_items = 16384)]
    pub slots: Vec<MeasuredSlotView>,
}

/// The figures of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MeasuredSlotView {
    /// The slot.
    #[schema(value_type = u16, maximum = 16383)]
    pub slot: Slot,
    /// Number of keys.
    pub keys: u64,
    /// Bytes of memory: counted by the node, or estimated by a sample of its keys; absent where neither tells anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Microseconds of processor time that the slot took since its node counts them; absent where it does not
    /// (`cluster-slot-stats-enabled`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_us: Option<u64>,
}
