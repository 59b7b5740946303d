//! Review and pace of plans.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::plan::LimitsView;
use super::problem::Fault;
use super::schema;
use crate::domain::{Limits, Policy, Window};

/// Review and pace of a cluster's plans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyBody {
    /// Approvals a plan needs.
    #[schema(maximum = 2)]
    pub approvals: u8,
    /// Whether the author's own approval counts.
    pub author_may_approve: bool,
    /// How long a proposal waits before it expires.
    pub ttl_ms: u64,
    /// Plans that move at most this many slots need no approval; `null`: every plan does.
    pub auto_approve_max_slots: Option<u32>,
    /// Pace of rollouts.
    pub limits: LimitsView,
}

/// Limits to change; those that are absent stay as they are, `null` lifts one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsPatch {
    /// Actions in flight that leave one shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1024)]
    pub moves_per_source: Option<u32>,
    /// Actions in flight that enter one shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1024)]
    pub moves_per_target: Option<u32>,
    /// Most slots of one action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1024)]
    pub slots_per_move: Option<u32>,
    /// Slots per second of the whole rollout.
    #[serde(default, deserialize_with = "super::patch::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000)]
    pub slots_per_second: Option<Option<u32>>,
    /// Bytes per second of the whole rollout.
    #[serde(default, deserialize_with = "super::patch::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub bytes_per_second: Option<Option<u64>>,
    /// How long a flipped range stays listed as moving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 86_400_000)]
    pub overlap_ms: Option<u64>,
    /// Weekly times, in UTC, in which actions may start, whole; none of them: any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::WindowText>>, max_items = 32)]
    pub windows: Option<Vec<Window>>,
}

/// Policy to change; fields that are absent stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyPatch {
    /// Approvals a plan needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 2)]
    pub approvals: Option<u8>,
    /// Whether the author's own approval counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author_may_approve: Option<bool>,
    /// How long a proposal waits before it expires: one second to 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1000, maximum = 2_592_000_000_u64)]
    pub ttl_ms: Option<u64>,
    /// Plans that move at most this many slots need no approval; `null`: every plan does.
    #[serde(default, deserialize_with = "super::patch::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>)]
    pub auto_approve_max_slots: Option<Option<u32>>,
    /// Pace of rollouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsPatch>,
}

impl LimitsPatch {
    /// These limits with the changes; `at` is the path of the patch in the request.
    ///
    /// # Errors
    /// [`Fault`] naming the field.
    pub fn apply(&self, at: &str, base: &Limits) -> Result<Limits, Fault> {
        let limits = Limits {
            moves_per_source: self.moves_per_source.unwrap_or(base.moves_per_source),
            moves_per_target: self.moves_per_target.unwrap_or(base.moves_per_target),
            slots_per_move: self.slots_per_move.unwrap_or(base.slots_per_move),
            slots_per_second: self.slots_per_second.unwrap_or(base.slots_per_second),
            bytes_per_second: self.bytes_per_second.unwrap_or(base.bytes_per_second),
            overlap_ms: self.overlap_ms.unwrap_or(base.overlap_ms),
            windows: self.windows.clone().unwrap_or_else(|| base.windows.clone()),
        };
        limits.validate().map_err(|invalid| Fault::in_field(format!("{at}.{}", invalid.what), &invalid))?;
        Ok(limits)
    }
}

impl PolicyPatch {
    /// This policy with the changes; `at` is the path of the patch in the request.
    ///
    /// # Errors
    /// [`Fault`] naming the field.
    pub fn apply(&self, at: &str, base: &Policy) -> Result<Policy, Fault> {
        let limits = match &self.limits {
            Some(limits) => limits.apply(&format!("{at}.limits"), &base.limits)?,
            None => base.limits.clone(),
        };
        let policy = Policy {
            approvals: self.approvals.unwrap_or(base.approvals),
            author_may_approve: self.author_may_approve.unwrap_or(base.author_may_approve),
            ttl_ms: self.ttl_ms.unwrap_or(base.ttl_ms),
            auto_approve_max_slots: self.auto_approve_max_slots.unwrap_or(base.auto_approve_max_slots),
            limits,
        };
        policy.validate().map_err(|invalid| Fault::in_field(format!("{at}.{}", invalid.what), &invalid))?;
        Ok(policy)
    }
}

impl From<&Policy> for PolicyBody {
    fn from(policy: &Policy) -> Self {
        Self {
            approvals: policy.approvals,
            author_may_approve: policy.author_may_approve,
            ttl_ms: policy.ttl_ms,
            auto_approve_max_slots: policy.auto_approve_max_slots,
            limits: (&policy.limits).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::DriverKind;

    #[test]
    fn absent_fields_stay_and_null_lifts_a_limit() {
        let base = Policy::default_for(DriverKind::Flip);
        let patch: PolicyPatch =
            serde_json::from_str(r#"{"approvals":2,"limits":{"slots_per_second":null,"slots_per_move":8}}"#).unwrap();
        let policy = patch.apply("policy", &base).unwrap();
        assert_eq!((2, base.ttl_ms), (policy.approvals, policy.ttl_ms));
        assert_eq!((None, 8, 16), {
            let limits = &policy.limits;
            (limits.slots_per_second, limits.slots_per_move, limits.moves_per_source)
        });
    }

    #[test]
    fn a_fault_names_its_field() {
        let base = Policy::default_for(DriverKind::Flip);
        let fault = |json: &str| {
            let patch: PolicyPatch = serde_json::from_str(json).unwrap();
            patch.apply("policy", &base).unwrap_err().field
        };
        assert_eq!("policy.approvals", fault(r#"{"approvals":3}"#));
        assert_eq!("policy.ttl_ms", fault(r#"{"ttl_ms":1}"#));
        assert_eq!("policy.limits.slots_per_move", fault(r#"{"limits":{"slots_per_move":0}}"#));
        assert!(serde_json::from_str::<PolicyPatch>(r#"{"approvals":1,"approvals":1}"#).is_err());
        assert!(serde_json::from_str::<PolicyPatch>(r#"{"aprovals":1}"#).is_err());
    }
}
