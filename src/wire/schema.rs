//! Schemas of values whose types live in `domain`, which knows nothing of API schemas. Only described here: reading and
//! checking is domain's.

use utoipa::ToSchema;
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

/// The names of [`Role`], with that of the controller itself and that of a joining member.
#[must_use]
pub fn role() -> Object {
    use Role as R;
    one_of([R::Client, R::Mover, R::Viewer, R::Operator, R::Approver, R::Admin, R::System, R::Joiner].map(Role::as_str))
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

/// The names of [`crate::domain::Objective`].
#[must_use]
pub fn objective() -> Object {
    one_of(["ranges", "bytes"])
}

/// A name or id: a letter or digit first, then letters, digits, `.`, `_` and `-`.
#[derive(ToSchema)]
#[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$", example = "shard-a")]
pub struct Name(#[expect(dead_code, reason = "describes a shape")] String);

/// A host name or IP address, without port or brackets.
#[derive(ToSchema)]
#[schema(min_length = 1, max_length = 253, example = "10.0.4.12")]
pub struct HostText(#[expect(dead_code, reason = "describes a shape")] String);

/// `host:port`, an IPv6 host in brackets.
#[derive(ToSchema)]
#[schema(min_length = 3, max_length = 261, example = "10.0.4.12:6379")]
pub struct AddressText(#[expect(dead_code, reason = "describes a shape")] String);

/// A host name with one `{zone}`, and `*` for any characters.
#[derive(ToSchema)]
#[schema(min_length = 6, max_length = 253, example = "*.{zone}.example.com")]
pub struct ZonePatternText(#[expect(dead_code, reason = "describes a shape")] String);

/// A slot number.
#[derive(ToSchema)]
#[schema(minimum = 0, maximum = 16383, example = 12543)]
pub struct SlotNumber(#[expect(dead_code, reason = "describes a shape")] u16);

/// First and last slot of a range, both included.
#[derive(ToSchema)]
#[schema(min_items = 2, max_items = 2, example = json!([0, 5460]))]
pub struct SlotPair(#[expect(dead_code, reason = "describes a shape")] Vec<SlotNumber>);

/// A relative share of the slots.
#[derive(ToSchema)]
#[schema(minimum = 0, maximum = 10000, example = 1)]
pub struct WeightNumber(#[expect(dead_code, reason = "describes a shape")] u32);

/// How slots are moved.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum Driver {
    /// Ownership changes, no data moves: for caches.
    Flip,
    /// An outside mover takes actions over REST and acknowledges them.
    Manual,
    /// Redis or Valkey servers.
    Redis,
}

/// A weekly time in UTC: days, then from when to when; to the next day when the end is not later.
#[derive(ToSchema)]
#[schema(
    pattern = "^(mon|tue|wed|thu|fri|sat|sun)(-(mon|tue|wed|thu|fri|sat|sun))? [0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]$",
    example = "mon-fri 22:00-06:00"
)]
pub struct WindowText(#[expect(dead_code, reason = "describes a shape")] String);

/// A plan's digest.
#[derive(ToSchema)]
#[schema(pattern = "^sha256:[0-9a-f]{64}$")]
pub struct DigestText(#[expect(dead_code, reason = "describes a shape")] String);
