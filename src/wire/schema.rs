//! Schemas of values whose types live in `domain`, which knows nothing of API schemas: names from a fixed list.

use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use crate::domain::{PlanState, Role, RolloutState};

fn one_of<const N: usize>(names: [&'static str; N]) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).build()
}

/// The names of [`PlanState`].
#[must_use]
pub fn plan_state() -> Object {
    use PlanState as P;
    one_of(
        [
            P::Proposed,
            P::Approved,
            P::Running,
            P::Succeeded,
            P::Rejected,
            P::Withdrawn,
            P::Expired,
            P::Superseded,
            P::Aborted,
            P::RolledBack,
        ]
        .map(PlanState::as_str),
    )
}

/// The names of [`RolloutState`].
#[must_use]
pub fn rollout_state() -> Object {
    use RolloutState as R;
    one_of(
        [R::Running, R::Paused, R::Blocked, R::Aborting, R::RollingBack, R::Succeeded, R::Aborted, R::RolledBack]
            .map(RolloutState::as_str),
    )
}

/// The names of [`Role`], with that of the controller itself.
#[must_use]
pub fn role() -> Object {
    use Role as R;
    one_of([R::Client, R::Mover, R::Viewer, R::Operator, R::Approver, R::Admin, R::System].map(Role::as_str))
}

/// The names of [`crate::domain::ShardState`].
#[must_use]
pub fn shard_state() -> Object {
    one_of(["active", "draining"])
}

/// The names of [`crate::domain::NodeState`].
#[must_use]
pub fn node_state() -> Object {
    one_of(["active", "draining", "lost"])
}

/// The names of [`crate::domain::CheckLevel`].
#[must_use]
pub fn check_level() -> Object {
    one_of(["ok", "warn", "fail"])
}

/// The names of [`crate::domain::LoadMetric`].
#[must_use]
pub fn load_metric() -> Object {
    one_of(["keys", "bytes", "ops"])
}

/// The names of [`crate::domain::DriverKind`].
#[must_use]
pub fn driver_kind() -> Object {
    one_of(["flip", "manual", "redis"])
}
