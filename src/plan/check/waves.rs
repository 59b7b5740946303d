//! The waves: each action once, within the limits, and no fewer waves possible.

use std::collections::BTreeMap;

use super::Faults;
use crate::domain::{ActionId, ActionKind, Limits, PlanBody, ShardId};

/// One end of an action.
type End = fn(&ActionKind) -> Option<&ShardId>;

pub(super) fn check(limits: &Limits, body: &PlanBody, faults: &mut Faults) {
    let mut listed: Vec<ActionId> = body.waves.iter().flatten().copied().collect();
    listed.sort_unstable();
    if !listed.iter().eq(body.actions.iter().map(|action| &action.id)) {
        faults.add("the waves do not list each action exactly once");
    }
    let mut apart = 0;
    for (number, wave) in (1..).zip(&body.waves) {
        let kinds: Vec<&ActionKind> =
            wave.iter().filter_map(|id| body.action(*id)).map(|action| &action.kind).collect();
        if kinds.is_empty() {
            faults.add(format_args!("wave {number} is empty"));
        }
        let without_slots = kinds.iter().filter(|kind| kind.target().is_none()).count();
        if without_slots > 0 {
            apart += 1;
            if without_slots < kinds.len() {
                faults.add(format_args!("wave {number} mixes actions with and without slots"));
            }
        }
        let ends: [(_, End, _); 2] = [
            ("leave", ActionKind::source, limits.moves_per_source),
            ("enter", ActionKind::target, limits.moves_per_target),
        ];
        for (end, shard_at, limit) in ends {
            for (shard, degree) in degrees(&kinds, shard_at).into_iter().filter(|(_, degree)| *degree > limit) {
                faults.add(format_args!("in wave {number} {degree} actions {end} {shard}; the limit is {limit}"));
            }
        }
    }
    let all: Vec<&ActionKind> = body.actions.iter().map(|action| &action.kind).collect();
    let rounds =
        |end: End, limit: u32| degrees(&all, end).values().map(|d| d.div_ceil(limit.max(1))).max().unwrap_or(0);
    let slots =
        rounds(ActionKind::source, limits.moves_per_source).max(rounds(ActionKind::target, limits.moves_per_target));
    let bound = slots + apart;
    faults.differ("summary: waves_lower_bound", body.summary.waves_lower_bound, bound);
    faults.differ("summary: waves", body.summary.waves as usize, body.waves.len());
    if body.waves.len() != bound as usize {
        faults.add(format_args!("{} waves, but {bound} are enough and needed", body.waves.len()));
    }
}

/// How many actions leave or enter each shard.
fn degrees<'a>(kinds: &[&'a ActionKind], end: End) -> BTreeMap<&'a ShardId, u32> {
    let mut degrees = BTreeMap::new();
    for shard in kinds.iter().filter_map(|kind| end(kind)) {
        *degrees.entry(shard).or_insert(0) += 1;
    }
    degrees
}
