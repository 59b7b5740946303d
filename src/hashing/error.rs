//! Why something cannot be compared: every refusal names what, where, and what would do.

use crate::domain::{Family, Invalid, NodeId};
use crate::plan::PlanError;

/// Why a question cannot be answered, or a family cannot carry an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashingError {
    /// The family treats all nodes alike.
    #[error(
        "{family} has no weights, but {heavier} has {heaviest} and {lighter} has {lightest}; give all nodes one weight, \
         or use vnodes, rendezvous, maglev or slots"
    )]
    NoWeights {
        /// The family.
        family: Family,
        /// A node with more.
        heavier: NodeId,
        /// Its weight.
        heaviest: u32,
        /// A node with less.
        lighter: NodeId,
        /// Its weight.
        lightest: u32,
    },
    /// Jump can take only the last bucket away.
    #[error("with jump only the last node can leave: {last}, not {leaving}")]
    OnlyTheLastLeaves {
        /// Who was to leave.
        leaving: NodeId,
        /// Who could.
        last: NodeId,
    },
    /// More points than are kept.
    #[error(
        "{family} would need {points} points, more than {max}: lower the weights or the points of a unit of weight"
    )]
    TooManyPoints {
        /// The family.
        family: Family,
        /// Points it would need.
        points: u64,
        /// Most that are kept.
        max: u64,
    },
    /// A table or list that all the nodes do not fit in.
    #[error("{family} has room for {room} nodes, there are {nodes}")]
    NoRoom {
        /// The family.
        family: Family,
        /// Nodes it has room for.
        room: usize,
        /// Nodes there are.
        nodes: usize,
    },
    /// A value of the question cannot be.
    #[error("{0}")]
    Invalid(#[from] Invalid),
    /// The planner refuses the event.
    #[error("slots: {0}")]
    Plan(#[from] PlanError),
}
