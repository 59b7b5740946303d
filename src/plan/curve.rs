//! How the fewest moves fall as the tolerance grows: the step curve beside a plan.

use super::survey::Survey;
use crate::domain::{CurvePoint, Goal, Tolerance};

/// Where the curve is looked at, in parts per million.
pub(super) const TOLERANCES: [u32; 14] =
    [0, 5_000, 10_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000, 200_000, 300_000, 500_000, 750_000, 1_000_000];

/// The curve from exact balance to the first tolerance that asks for no move; empty when none is needed, and for goals
/// that are not about balance.
pub(super) fn of(goal: Goal, survey: &Survey<'_>) -> Vec<CurvePoint> {
    if matches!(goal, Goal::DrainOnly | Goal::BalanceLoad { .. }) {
        return Vec::new();
    }
    until_none(|tolerance| moves(survey, tolerance))
}

/// The points up to the first that needs no move.
pub(super) fn until_none(moves: impl Fn(Tolerance) -> u32) -> Vec<CurvePoint> {
    let mut curve: Vec<CurvePoint> = Vec::new();
    for tolerance in TOLERANCES.map(Tolerance) {
        let moves = moves(tolerance);
        curve.push(CurvePoint { tolerance, moves });
        if moves == 0 {
            break;
        }
    }
    if curve.len() == 1 && curve[0].moves == 0 { Vec::new() } else { curve }
}

/// `M*` of one tolerance. The bands are those of `targets`, but only the shards outside their exact band are looked at,
/// and shares fit into 64 bits: 14 points must not be felt.
fn moves(survey: &Survey<'_>, tolerance: Tolerance) -> u32 {
    const WHOLE: i64 = 1_000_000;
    let (shares, ppm) = (&survey.shares, i64::from(tolerance.0));
    let (mut surplus, mut deficit) = (0_u32, 0_u32);
    for (shard, (&count, bounds)) in survey.counts.iter().zip(&survey.bounds).enumerate() {
        let (num, unit) = (shares.nums[shard], shares.unit);
        // Slots × unit × 10^6 is below 2^63: at most 16384 shards of weight 10000 share 16384 slots.
        if count > shares.ceil(shard) {
            let wide = num / WHOLE * (WHOLE + ppm) + num % WHOLE * (WHOLE + ppm) / WHOLE;
            let wide = u32::try_from(wide / unit).expect("at most twice the total");
            let hi = if bounds.weight == 0 { shares.floor(shard) } else { wide.max(shares.ceil(shard)).min(bounds.ub) };
            surplus += count.saturating_sub(hi);
        } else if count < shares.floor(shard) {
            let narrow = num / WHOLE * (WHOLE - ppm) + (num % WHOLE * (WHOLE - ppm) + WHOLE - 1) / WHOLE;
            let narrow = u32::try_from((narrow + unit - 1) / unit).expect("at most the total");
            let lo =
                if bounds.weight == 0 { shares.floor(shard) } else { narrow.min(shares.floor(shard)).max(bounds.lb) };
            deficit += lo.saturating_sub(count);
        }
    }
    surplus.max(deficit.saturating_sub(survey.unassigned))
}
