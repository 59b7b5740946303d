//! Balancing keys, bytes or operations: the fewest moves that bring every shard's load near its share. NP-hard, so the
//! plan carries a lower bound beside its moves, and says so where the band cannot be reached.
//!
//! `bands` (shares, hot slots, what can be reached at all), `bound`, `price` and `whole` (the certificate), `solve` (who gets
//! what), `repair` (swaps, and moves that turn out not to be needed), `pairs` (two moves into one), `search` (other ways for a
//! few shards at a time), `order` (which move first).

use super::PlanError;
use super::aim::Aim;
use super::body;
use super::curve;
use super::survey::Survey;
use super::targets::Bands;
use crate::domain::{HotSlot, Limits, LoadFigures, LoadMetric, PlanBody, ShardLoad, Slot, Tolerance};

mod bands;
mod bound;
mod order;
mod pairs;
mod price;
mod repair;
mod search;
mod solve;
mod whole;

use bands::LoadBands;
use bound::{Bound, Ranking};
use solve::Book;

/// The plan for one metric.
pub(super) fn plan(
    survey: &Survey<'_>,
    metric: LoadMetric,
    tolerance: Tolerance,
    limits: &Limits,
) -> Result<PlanBody, PlanError> {
    let loads = survey.figures_of(metric, "the goal balance_load")?;
    let ranking = Ranking::new(survey, loads);
    let bands = LoadBands::new(survey, loads, &ranking, tolerance);
    let bound = Bound::of(survey, loads, &ranking, &bands);
    let after = solve::owners(survey, loads, &bands, bound.moves);
    let mut targets = vec![0_u32; survey.shards.len()];
    after.iter().filter(|&&owner| owner != survey.nobody).for_each(|&owner| targets[usize::from(owner)] += 1);
    let within = survey.bounds.iter().map(|b| (b.lb, b.ub)).unzip();
    let aim = Aim { bands: Bands { lo: within.0, hi: within.1 }, targets, left_unassigned: 0 };
    let steps = order::steps(survey, loads, &bands, &after, limits.slots_per_move);
    let mut body = body::of_steps(survey, &aim, &after, &steps, limits);
    body.summary.lower_bound = bound.moves;
    let before = Book::loads(survey, loads, &survey.owners);
    let figures =
        figures(survey, metric, tolerance, loads, &bands, &bound, [&before, &Book::loads(survey, loads, &after)]);
    body.figures.curve = curve::until_none(|tolerance| {
        let bands = LoadBands::new(survey, loads, &ranking, tolerance);
        Bound::of(survey, loads, &ranking, &bands).moves
    });
    if body.actions.is_empty() {
        body.empty_because = Some(match &figures.unreached {
            Some(why) => format!("no move brings the {} nearer to balance: {why}", metric.as_str()),
            None => {
                format!("every shard's {} are within {} % of its share already", metric.as_str(), tolerance.percent())
            }
        });
    }
    body.figures.load = Some(figures);
    Ok(body)
}

fn figures(
    survey: &Survey<'_>,
    metric: LoadMetric,
    asked: Tolerance,
    loads: &[u64],
    bands: &LoadBands,
    bound: &Bound,
    [before, after]: [&[u64]; 2],
) -> LoadFigures {
    let (reached, farthest) = bands.farthest(after);
    let hot = bands.hot.iter().map(|&(slot, shard)| HotSlot {
        slot: Slot::at(usize::from(slot)),
        load: loads[usize::from(slot)],
        shard: survey.shards[usize::from(shard)].id.clone(),
    });
    let shard = |i: usize| ShardLoad {
        shard: survey.shards[i].id.clone(),
        before: before[i],
        after: after[i],
        lo: bands.lo[i],
        hi: bands.hi[i],
        shed: bound.shed[i],
        fill: bound.fill[i],
    };
    let mut figures = LoadFigures {
        metric,
        total: loads.iter().sum(),
        asked,
        before: bands.farthest(before).0,
        reached,
        floor: bands.floor,
        unreached: None,
        hot: hot.collect(),
        shards: (0..survey.shards.len()).map(shard).collect(),
    };
    let out_of_band = (0..survey.shards.len()).any(|i| !(bands.lo[i]..=bands.hi[i]).contains(&after[i]));
    if reached > asked && (out_of_band || !figures.hot.is_empty() || bands.floor > asked) {
        figures.unreached = Some(why_not(survey, &figures, farthest));
    }
    figures
}

/// Why the band was not reached, and what would help.
fn why_not(survey: &Survey<'_>, figures: &LoadFigures, farthest: usize) -> String {
    let (metric, asked, floor) = (figures.metric.as_str(), figures.asked.percent(), figures.floor.percent());
    if let Some(hot) = figures.hot.first() {
        let more = match figures.hot.len() {
            1 => String::new(),
            count => format!(" ({count} slots are hotter than a whole band)"),
        };
        return format!(
            "slot {} alone has {} of {} {metric}, more than any shard may have within {asked} %{more}; no owners bring \
             every shard within less than {floor} %: read its keys from replicas, or split its hottest key",
            hot.slot, hot.load, figures.total
        );
    }
    let shard = &survey.shards[farthest].id;
    let reached = figures.reached.percent();
    if figures.floor > figures.asked {
        return format!(
            "no owners bring every shard within less than {floor} %, for single slots and pins are too large for it; the \
             farthest, {shard}, ends {reached} % from its share"
        );
    }
    format!(
        "the planner found no owners within {asked} %: the slots are too few or too unequal, or min_slots and max_slots \
         bind; the farthest, {shard}, ends {reached} % from its share"
    )
}

#[cfg(test)]
mod tests;
