//! Puts a plan body together: layout, actions, waves, figures and certificate.

use super::actions::{Scale, Step, Urgency, steps};
use super::aim::Aim;
use super::layout::{self, Flow};
use super::survey::Survey;
use super::waves::{Edge, colour};
use crate::domain::{
    Action, ActionId, ActionKind, Band, Certificate, Figures, Limits, LoadMetric, PlanBody, Shard, ShardChange,
    ShardState, Slot, SlotRange, Summary,
};

/// The owners that bring every shard to its target, with few ranges; only slots that `may_move` do.
pub(super) fn owners(survey: &Survey<'_>, aim: &Aim, may_move: impl Fn(usize) -> bool) -> Vec<u16> {
    let mut give: Vec<u32> = survey.counts.iter().zip(&aim.targets).map(|(c, t)| c.saturating_sub(*t)).collect();
    let mut take: Vec<u32> = survey.counts.iter().zip(&aim.targets).map(|(c, t)| t.saturating_sub(*c)).collect();
    give.push(survey.unassigned - aim.left_unassigned);
    take.push(0);
    if give.iter().all(|&slots| slots == 0) {
        return survey.owners.clone();
    }
    layout::choose(&survey.owners, |slot| !may_move(slot), &Flow { give, take })
}

/// The body that turns the owners now into these. `aim.targets` must be their counts.
pub(super) fn between(survey: &Survey<'_>, aim: &Aim, after: &[u16], limits: &Limits) -> PlanBody {
    of_steps(survey, aim, after, &ordered_steps(survey, after, limits), limits)
}

/// The same with the steps in an order that is given.
pub(super) fn of_steps(survey: &Survey<'_>, aim: &Aim, after: &[u16], steps: &[Step], limits: &Limits) -> PlanBody {
    let (actions, waves) = schedule(survey, steps, limits);
    let bound = aim.bands.lower_bound(&survey.counts, survey.unassigned);
    let slots_of = |step: &Step| step.pieces.iter().map(|(first, last)| last - first + 1).sum::<u32>();
    let sum = |nobody: bool| steps.iter().filter(|s| (s.from == survey.nobody) == nobody).map(slots_of).sum();
    let summary = Summary {
        slots: sum(false),
        assigned: sum(true),
        ranges_before: ranges(&survey.owners, survey.nobody),
        ranges_after: ranges(after, survey.nobody),
        lower_bound: bound.moves,
        waves: u32::try_from(waves.len()).expect("at most one wave a slot"),
        waves_lower_bound: u32::try_from(waves.len()).expect("at most one wave a slot"),
        keys_est: moved(survey, after, LoadMetric::Keys),
        bytes_est: moved(survey, after, LoadMetric::Bytes),
        eta_seconds: None,
        worst_before: worst(survey, &survey.counts),
        worst_after: worst(survey, &aim.targets),
    };
    let band = |(i, shard): (usize, &Shard)| Band { shard: shard.id.clone(), lo: aim.bands.lo[i], hi: aim.bands.hi[i] };
    let change = |(i, shard): (usize, &Shard)| ShardChange {
        id: shard.id.clone(),
        weight: shard.weight,
        state: shard.state,
        quota: survey.shares.quota(i),
        before: survey.counts[i],
        after: aim.targets[i],
        bounds: shard.into(),
    };
    let certificate = Certificate {
        surplus: bound.surplus,
        deficit: bound.deficit,
        unassigned: survey.unassigned,
        bands: survey.shards.iter().enumerate().map(band).collect(),
    };
    let shards = survey.shards.iter().enumerate().map(change).collect();
    let figures = Figures::default();
    PlanBody { summary, certificate, shards, actions, waves, figures, empty_because: None, placement: None }
}

fn ordered_steps(survey: &Survey<'_>, after: &[u16], limits: &Limits) -> Vec<Step> {
    let weights: Vec<u32> = survey.bounds.iter().map(|b| b.weight.max(1)).collect();
    let mut urgency: Vec<Urgency> = (0..survey.shards.len()).map(|shard| survey.urgency(shard)).collect();
    urgency.push(Urgency::Unserved);
    let mut counts = survey.counts.clone();
    counts.push(survey.unassigned);
    let scale = Scale { shares: &survey.shares, weights: &weights, urgency: &urgency };
    steps(&survey.owners, after, &counts, limits.slots_per_move, &scale)
}

/// Numbers the actions wave by wave, in each wave in the order of the steps.
fn schedule(survey: &Survey<'_>, steps: &[Step], limits: &Limits) -> (Vec<Action>, Vec<Vec<ActionId>>) {
    let edges: Vec<Edge> =
        steps.iter().map(|s| Edge { from: (s.from != survey.nobody).then_some(s.from), to: s.to }).collect();
    let (waves_of, rounds) = colour(&edges, survey.shards.len(), limits.moves_per_source, limits.moves_per_target);
    let mut waves: Vec<Vec<ActionId>> = vec![Vec::new(); rounds as usize];
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|&step| waves_of[step]);
    let mut actions = Vec::with_capacity(steps.len());
    for (number, step) in (1..).zip(order) {
        let id = ActionId(number);
        waves[waves_of[step] as usize].push(id);
        actions.push(Action { id, kind: action(survey, &steps[step]) });
    }
    (actions, waves)
}

fn action(survey: &Survey<'_>, step: &Step) -> ActionKind {
    let slot = |number: u32| Slot::at(number as usize);
    let range = |&(first, last): &(u32, u32)| SlotRange::new(slot(first), slot(last)).expect("pieces are not empty");
    let ranges = step.pieces.iter().map(range).collect();
    let from = survey.shards.get(usize::from(step.from)).map(|shard| shard.id.clone());
    let to = survey.shards[usize::from(step.to)].id.clone();
    match from {
        Some(from) if !survey.lost[usize::from(step.from)] => ActionKind::MoveSlots { from, to, ranges },
        from => ActionKind::AssignSlots { from, to, ranges },
    }
}

/// Contiguous ranges that have an owner.
pub(super) fn ranges(owners: &[u16], nobody: u16) -> u32 {
    let runs = owners.chunk_by(|a, b| a == b).filter(|run| run[0] != nobody).count();
    u32::try_from(runs).expect("at most one range a slot")
}

/// The sum of a figure over the slots that leave an owner, where it is known.
pub(super) fn moved(survey: &Survey<'_>, after: &[u16], metric: LoadMetric) -> Option<u64> {
    let figures = survey.statistics?.of(metric)?;
    let owners = survey.owners.iter().zip(after);
    let moved = owners.zip(figures).filter(|((from, to), _)| from != to && **from != survey.nobody);
    Some(moved.map(|(_, figure)| figure).sum())
}

/// The deviation of the shard that is farthest from its share, the first of those.
fn worst(survey: &Survey<'_>, counts: &[u32]) -> i64 {
    let deviations = counts.iter().enumerate().map(|(i, &count)| survey.shares.deviation(i, count));
    let farthest = deviations.reduce(|worst, next| if next.abs() > worst.abs() { next } else { worst });
    farthest.unwrap_or(0) / survey.shares.unit
}

/// Why a body without actions has nothing to do.
pub(super) fn draining_shards<'a>(survey: &'a Survey<'_>) -> impl Iterator<Item = usize> + 'a {
    (0..survey.shards.len()).filter(|&i| survey.shards[i].state == ShardState::Draining)
}
