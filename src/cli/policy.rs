//! Options for a cluster's policy.

use std::time::Duration;

use clap::Args;

use super::plan::LimitArgs;
use super::settings::duration;
use crate::wire::{LimitsPatch, PolicyPatch};

/// How plans of a cluster are reviewed and paced.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Review")]
pub struct PolicyArgs {
    /// Approvals a plan needs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=2))]
    pub approvals: Option<u8>,
    /// Whether the author's own approval counts
    #[arg(long, value_name = "BOOL")]
    pub author_may_approve: Option<bool>,
    /// How long a proposal waits before it expires, such as 24h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub ttl: Option<Duration>,
    /// Plans that move at most so many slots need no approval; none: every plan does
    #[arg(long, value_name = "N|none", value_parser = number_or_none)]
    pub auto_approve_max_slots: Option<Bound>,
    /// Pace of rollouts.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// A number, or `none` to lift a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound(pub Option<u32>);

/// Reads a number or `none`.
///
/// # Errors
/// What is expected.
pub fn number_or_none(text: &str) -> Result<Bound, String> {
    if text == "none" {
        return Ok(Bound(None));
    }
    text.parse().map(|number| Bound(Some(number))).map_err(|_| format!("{text:?} is neither a number nor none"))
}

impl PolicyArgs {
    /// What was given, as a change; none when nothing was.
    #[must_use]
    pub fn patch(&self) -> Option<PolicyPatch> {
        let patch = PolicyPatch {
            approvals: self.approvals,
            author_may_approve: self.author_may_approve,
            ttl_ms: self.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
            auto_approve_max_slots: self.auto_approve_max_slots.map(|bound| bound.0),
            limits: limits(&self.limits),
        };
        if patch == PolicyPatch::default() { None } else { Some(patch) }
    }
}

/// What was given, as a change; none when nothing was.
#[must_use]
pub fn limits(args: &LimitArgs) -> Option<LimitsPatch> {
    if args.is_empty() {
        return None;
    }
    Some(LimitsPatch {
        moves_per_source: args.moves_per_source,
        moves_per_target: args.moves_per_target,
        slots_per_move: args.slots_per_move,
        slots_per_second: args.slots_per_second.map(Some),
        bytes_per_second: args.bytes_per_second.map(Some),
        overlap_ms: args.overlap_ms,
        windows: args.windows(),
    })
}
