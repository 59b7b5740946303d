//! How a cluster's plans are reviewed and paced.

use serde::{Deserialize, Serialize};

use super::{ActionKind, Invalid, WINDOWS_MAX, Window};

/// How slots are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverKind {
    /// Ownership changes, no data moves: for caches.
    Flip,
    /// An outside mover takes actions over REST and acknowledges them.
    Manual,
    /// Redis or Valkey servers.
    Redis,
}

impl DriverKind {
    /// The name as it is written in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flip => "flip",
            Self::Manual => "manual",
            Self::Redis => "redis",
        }
    }

    /// Whether a driver of this kind can carry out an action.
    #[must_use]
    pub const fn can(self, action: &ActionKind) -> bool {
        match self {
            Self::Flip => matches!(
                action,
                ActionKind::MoveSlots { .. }
                    | ActionKind::AssignSlots { .. }
                    | ActionKind::Promote { .. }
                    | ActionKind::SetReplicaOf { .. }
            ),
            Self::Manual | Self::Redis => true,
        }
    }

    /// Whether its nodes can be asked: a rollout ends only after they were.
    #[must_use]
    pub const fn asks_nodes(self) -> bool {
        matches!(self, Self::Redis)
    }

    /// Whether it sees the bytes it moves, and so can keep to [`Limits::bytes_per_second`].
    #[must_use]
    pub const fn counts_bytes(self) -> bool {
        matches!(self, Self::Redis)
    }

    /// The limits used where the operator names none.
    #[must_use]
    pub const fn default_limits(self) -> Limits {
        match self {
            Self::Flip => Limits {
                moves_per_source: 16,
                moves_per_target: 16,
                slots_per_move: 16,
                slots_per_second: Some(64),
                bytes_per_second: None,
                overlap_ms: 0,
                windows: Vec::new(),
            },
            Self::Manual | Self::Redis => Limits {
                moves_per_source: 1,
                moves_per_target: 4,
                slots_per_move: 64,
                slots_per_second: None,
                bytes_per_second: None,
                overlap_ms: 0,
                windows: Vec::new(),
            },
        }
    }
}

/// How fast a rollout may go. Part of what is approved: a throttle may only lower it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// Actions in flight that leave one shard, at least 1.
    pub moves_per_source: u32,
    /// Actions in flight that enter one shard, at least 1.
    pub moves_per_target: u32,
    /// Slots of one action, `1..=1024`.
    pub slots_per_move: u32,
    /// Slots per second of the whole rollout, at least 1; no limit when absent.
    pub slots_per_second: Option<u32>,
    /// Bytes per second of the whole rollout; no limit when absent. Kept to by drivers that see bytes: a plan for
    /// another warns of it.
    pub bytes_per_second: Option<u64>,
    /// How long a flipped range stays listed as moving.
    pub overlap_ms: u64,
    /// Weekly times, in UTC, in which actions may start; any time when empty. Undoing is not bound to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
}

impl Limits {
    /// Checks the bounds of every field.
    ///
    /// # Errors
    /// [`Invalid`] naming the field.
    pub fn validate(&self) -> Result<(), Invalid> {
        let bounded = |what, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(Invalid::new(what, format!("{value} is not in {low}..={high}")))
            }
        };
        bounded("moves_per_source", self.moves_per_source.into(), 1, 1024)?;
        bounded("moves_per_target", self.moves_per_target.into(), 1, 1024)?;
        bounded("slots_per_move", self.slots_per_move.into(), 1, 1024)?;
        bounded("slots_per_second", self.slots_per_second.unwrap_or(1).into(), 1, 1_000_000)?;
        bounded("bytes_per_second", self.bytes_per_second.unwrap_or(1), 1, 1 << 50)?;
        bounded("overlap_ms", self.overlap_ms, 0, 86_400_000)?;
        match self.windows.len() {
            0..=WINDOWS_MAX => Ok(()),
            many => Err(Invalid::new("windows", format!("{many} of them: at most {WINDOWS_MAX}"))),
        }
    }
}

/// Review and pace of a cluster's plans.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Policy {
    /// Approvals a plan needs, `0..=2`.
    pub approvals: u8,
    /// Whether the author's own approval counts.
    pub author_may_approve: bool,
    /// How long a proposal waits before it expires, 1 s ..= 30 days.
    pub ttl_ms: u64,
    /// Plans that move at most this many slots need no approval.
    pub auto_approve_max_slots: Option<u32>,
    /// Pace of rollouts.
    pub limits: Limits,
}

impl Policy {
    /// One approval, not the author's, 24 h, and the driver's own limits.
    #[must_use]
    pub const fn default_for(driver: DriverKind) -> Self {
        Self {
            approvals: 1,
            author_may_approve: false,
            ttl_ms: 24 * 3600 * 1000,
            auto_approve_max_slots: None,
            limits: driver.default_limits(),
        }
    }

    /// Checks the bounds of every field.
    ///
    /// # Errors
    /// [`Invalid`] naming the field.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.approvals > 2 {
            return Err(Invalid::new("approvals", format!("{} is not in 0..=2", self.approvals)));
        }
        if !(1000..=30 * 24 * 3600 * 1000).contains(&self.ttl_ms) {
            return Err(Invalid::new("ttl_ms", format!("{} is not between one second and 30 days", self.ttl_ms)));
        }
        self.limits.validate()
    }
}
