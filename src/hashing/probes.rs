//! Multi-probe consistent hashing (Appleton and O'Reilly 2015): one point per node; of several probes of a key, the one
//! that is closest to its point decides.

use super::circle::Circle;
use super::error::HashingError;
use super::key::{Key, point};
use super::placement::{Member, Placement, one_weight};
use crate::domain::Family;

/// A circle with one point per node.
#[derive(Clone, Debug)]
pub struct MultiProbe {
    circle: Circle,
    probes: u32,
}

impl MultiProbe {
    /// Computes the points; `probes` is at least 1.
    ///
    /// # Errors
    /// When weights differ.
    pub fn new(members: &[Member], probes: u32) -> Result<Self, HashingError> {
        one_weight(Family::MultiProbe, members)?;
        let points = members.iter().map(|member| (point(member.name(), 0), member.id)).collect();
        Ok(Self { circle: Circle::new(points), probes })
    }
}

impl Placement for MultiProbe {
    fn owner(&self, key: &Key) -> u16 {
        let probe = |number| self.circle.distance(key.again(number).hash);
        (0..u64::from(self.probes)).map(probe).min().expect("at least one probe").1
    }

    fn changed(&self, members: &[Member]) -> Result<Box<dyn Placement>, HashingError> {
        Ok(Box::new(Self::new(members, self.probes)?))
    }

    fn walk(&self, key: &Key, visit: &mut dyn FnMut(u16) -> bool) {
        // From where the closest probe lies, on around the ring.
        let probe = |number| (self.circle.distance(key.again(number).hash), number);
        let closest = (0..u64::from(self.probes)).map(probe).min().expect("at least one probe").1;
        let _ = self.circle.clockwise(key.again(closest).hash).all(visit);
    }

    fn memory_bytes(&self) -> u64 {
        self.circle.bytes()
    }
}
