//! Consistent hashing (Karger et al. 1997): the plain ring, and the ring with virtual nodes and weights.

use super::Tuning;
use super::circle::Circle;
use super::error::HashingError;
use super::key::{Key, point};
use super::placement::{Member, Placement, one_weight};
use crate::domain::Family;

/// One point per node, or as many as tuned for each unit of weight.
#[derive(Clone, Debug)]
pub struct Ring {
    circle: Circle,
    tuning: Option<Tuning>,
}

impl Ring {
    /// The plain ring.
    ///
    /// # Errors
    /// When weights differ.
    pub fn plain(members: &[Member]) -> Result<Self, HashingError> {
        one_weight(Family::Ring, members)?;
        let points = members.iter().map(|member| (point(member.name(), 0), member.id)).collect();
        Ok(Self { circle: Circle::new(points), tuning: None })
    }

    /// The ring with virtual nodes. A node that gets heavier keeps the points it has.
    ///
    /// # Errors
    /// When there would be too many points.
    pub fn weighted(members: &[Member], tuning: Tuning) -> Result<Self, HashingError> {
        let circle = weighted_circle(Family::VirtualNodes, members, tuning)?;
        Ok(Self { circle, tuning: Some(tuning) })
    }
}

/// The points of the ring with virtual nodes: the hash of the name with the number of the point as seed.
pub fn weighted_circle(family: Family, members: &[Member], tuning: Tuning) -> Result<Circle, HashingError> {
    let of = |member: &Member| u64::from(member.node.weight) * u64::from(tuning.points);
    let points: u64 = members.iter().map(of).sum();
    if points > tuning.points_max {
        return Err(HashingError::TooManyPoints { family, points, max: tuning.points_max });
    }
    let points_of = |member| (0..of(member)).map(move |number| (point(member.name(), number), member.id));
    Ok(Circle::new(members.iter().flat_map(points_of).collect()))
}

impl Placement for Ring {
    fn owner(&self, key: &Key) -> u16 {
        self.circle.owner(key.hash)
    }

    fn changed(&self, members: &[Member]) -> Result<Box<dyn Placement>, HashingError> {
        Ok(Box::new(match self.tuning {
            None => Self::plain(members)?,
            Some(tuning) => Self::weighted(members, tuning)?,
        }))
    }

    fn walk(&self, key: &Key, visit: &mut dyn FnMut(u16) -> bool) {
        let _ = self.circle.clockwise(key.hash).all(visit);
    }

    fn memory_bytes(&self) -> u64 {
        self.circle.bytes()
    }
}
