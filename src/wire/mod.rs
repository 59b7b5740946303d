//! Public JSON: bodies of requests and answers with their schemas, and conversions to and from domain.
//!
//! Names and numbers with rules of their own (ids, slots, ranges, weights) are domain types already here, so that
//! whatever was read is valid: the schemas only describe them. Requests refuse unknown and duplicate fields; answers
//! are read leniently, since they may gain fields within `/v1`.

mod audit;
mod cluster;
mod comparison;
mod drift;
mod import;
mod list;
mod measured;
mod member;
mod node;
mod patch;
pub mod plan;
mod policy;
mod problem;
mod propose;
mod review;
mod revision;
mod rollout;
pub mod schema;
mod shard;
mod slot;
mod snapshot;
mod statistics;
mod text;
pub mod timestamp;
mod token;
mod topology;

pub use audit::{AuditView, PrincipalBody};
pub use cluster::{ClusterAnswer, ClusterCreate, ClusterPatch, ClusterView, Receipt};
pub use comparison::{
    ComparedNode, ComparisonRequest, ComparisonView, CopiesView, FamilyName, FamilyView, FiguresView, HotKeysView,
    MissesView,
};
pub use drift::{DriftItem, DriftView};
pub use import::{ImportAnswer, ImportRequest};
pub use list::Page;
pub use measured::{MeasuredSlotView, MeasuredView};
pub use member::{JoinAnswer, MemberAdd, MemberAdded, MemberStanding, MemberView, PeerView, StatusView};
pub use node::{DrainRequest, NodeAdd, NodeAnswer, NodePatch, NodeRemoved, NodeRole, NodeSpec, NodeView, Placement};
pub use plan::PlanView;
pub use policy::{LimitsPatch, PolicyBody, PolicyPatch};
pub use problem::{Fault, PROBLEM_TYPE_PREFIX, Problem};
pub use propose::{PlanAnswer, PlanDiff, PlanItem, PlanRef, PlanRequest, ShardCount};
pub use review::{ApprovalRequest, EndRequest};
pub use revision::Revision;
pub use rollout::{
    ActionStatus, FailedRequest, ProgressBody, ReasonRequest, RolloutAction, RolloutAnswer, RolloutView, SteerRequest,
    ThrottleRequest, told,
};
pub use shard::{ShardAnswer, ShardDrainRequest, ShardPatch, ShardView};
pub use slot::{ExplainView, KeySlotView, NodeAddress, PlanExplainView, SlotView};
pub use snapshot::{SnapshotSummary, SnapshotTaken};
pub use statistics::{SlotFigures, StatisticsView};
pub use text::Text;
pub use timestamp::Timestamp;
pub use token::{TokenAnswer, TokenCreate, TokenCreated, TokenView, WhoAmI};
pub use topology::{
    HASH_TAG, KEY_HASH, MovingBody, ServingBody, ShardStateBody, TopologyBody, TopologyKind, TopologyNodeBody,
    TopologyShardBody,
};
