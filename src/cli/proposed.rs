//! What a change of the desired state led to: the plan to look at next.

use super::output::{counted, escape};
use super::settings::Settings;
use crate::wire::PlanRef;

/// The plan proposed, or why there is none; empty when none was asked for.
#[must_use]
pub fn sentence(plan: Option<&PlanRef>, empty_because: Option<&str>, settings: &Settings) -> String {
    match (plan, empty_because) {
        (Some(plan), _) => format!(
            "Plan {} is proposed: {}.\nNext: slotkeeper{} plan show {}\n",
            plan.id,
            moves(plan.slots),
            settings.globals(),
            plan.id
        ),
        (None, Some(why)) => format!("No plan is needed: {}.\n", escape(why)),
        (None, None) => String::new(),
    }
}

/// `1 slot moves`, `3 slots move`.
fn moves(slots: u32) -> String {
    format!("{} {}", counted(slots, "slot"), if slots == 1 { "moves" } else { "move" })
}
