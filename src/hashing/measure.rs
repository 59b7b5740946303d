//! What is counted for every family: moves, balance, stale views, takeover, copies.

use super::key::{Key, Numbers};
use super::placement::{Member, Placement, preference};
use super::question::Question;
use crate::domain::{Balance, CopyFigures, Millionths, Takeover, ViewFigures, Zone};

/// Keys that are looked up in stale views.
const VIEW_KEYS: usize = 5_000;
/// Keys whose copies are placed.
pub(super) const COPY_KEYS: usize = 2_000;
/// Nodes that are made to leave.
const LEAVERS: usize = 4;

/// Keys of each node.
pub(super) fn tally(owners: &[u16], counts: Option<&[u64]>, universe: usize) -> Vec<u64> {
    let mut tally = vec![0; universe];
    match counts {
        None => owners.iter().for_each(|&owner| tally[usize::from(owner)] += 1),
        Some(counts) => owners.iter().zip(counts).for_each(|(&owner, count)| tally[usize::from(owner)] += count),
    }
    tally
}

/// Each node that has a weight against its share.
fn loads(members: &[Member], tally: &[u64]) -> Vec<u64> {
    let total: u64 = tally.iter().sum();
    let weights: u64 = members.iter().map(|member| u64::from(member.node.weight)).sum();
    let load = |member: &Member| {
        let share = u128::from(total) * u128::from(member.node.weight);
        let scaled = u128::from(tally[usize::from(member.id)]) * u128::from(weights) * 1_000_000;
        u64::try_from((scaled + share / 2) / share).unwrap_or(u64::MAX)
    };
    members.iter().filter(|member| member.node.weight > 0).map(load).collect()
}

/// The heaviest node against its share.
pub(super) fn heaviest(members: &[Member], tally: &[u64]) -> Millionths {
    Millionths(loads(members, tally).into_iter().max().unwrap_or(0))
}

/// How even the keys lie.
pub(super) fn balance(members: &[Member], tally: &[u64]) -> Balance {
    let loads = loads(members, tally);
    let count = u128::try_from(loads.len()).expect("few nodes");
    let squares: u128 = loads.iter().map(|&load| u128::from(load.abs_diff(Millionths::ONE.0)).pow(2)).sum();
    let variation = u64::try_from((squares / count).isqrt()).expect("a root of a square");
    let bound = |bound: Option<&u64>| Millionths(*bound.expect("some node has a weight"));
    Balance {
        heaviest: bound(loads.iter().max()),
        lightest: bound(loads.iter().min()),
        variation: Millionths(variation),
    }
}

/// Keys with another owner, and those among them that moved between nodes which did not change.
pub(super) fn moves(question: &Question, before: &[u16], after: &[u16]) -> (u64, u64) {
    let weight = |members: &[Member], id: usize| {
        members.iter().find(|member| usize::from(member.id) == id).map(|member| member.node.weight)
    };
    let steady: Vec<bool> = (0..question.universe)
        .map(|id| {
            let (then, now) = (weight(&question.before, id), weight(&question.after, id));
            then.is_some() && then == now
        })
        .collect();
    let (mut moved, mut stray) = (0, 0);
    for (&from, &to) in before.iter().zip(after).filter(|(from, to)| from != to) {
        moved += 1;
        stray += u64::from(steady[usize::from(from)] && steady[usize::from(to)]);
    }
    (moved, stray)
}

/// Keys that have to move whatever the family: what the shares of nodes shrink by.
pub(super) fn least_moves(question: &Question, keys: usize) -> u64 {
    let total = |members: &[Member]| members.iter().map(|member| u128::from(member.node.weight)).sum::<u128>();
    let (before, after) = (total(&question.before), total(&question.after));
    let shrinks = |member: &Member| {
        let then = u128::from(member.node.weight) * after;
        let now = question.after.iter().find(|other| other.id == member.id);
        then.saturating_sub(now.map_or(0, |now| u128::from(now.node.weight) * before))
    };
    let shrunk: u128 = question.before.iter().map(shrinks).sum();
    let whole = before * after;
    let keys = u128::try_from(keys).expect("fits in memory");
    u64::try_from((keys * shrunk + whole / 2) / whole).expect("at most all keys")
}

/// Karger's spread and load: clients that each know at least 1/t of the nodes, at random.
pub(super) fn views(question: &Question, placement: &dyn Placement, keys: &[Key]) -> ViewFigures {
    let keys = &keys[..keys.len().min(VIEW_KEYS)];
    let members = &question.after;
    let mut numbers = Numbers::seeded(u64::from(question.terms.view_part));
    let mut owners: Vec<Vec<u16>> = Vec::new();
    for _ in 0..question.terms.views {
        let known = view(members, question.terms.view_part, &mut numbers);
        // A client that cannot place keys on what it knows gives no node any.
        owners.extend(placement.seen(&known).map(|seen| seen.place(keys)));
    }
    let (mut most, mut total) = (0_u32, 0_u64);
    let mut loads = vec![0_u64; question.universe];
    let mut of_key: Vec<u16> = Vec::with_capacity(owners.len());
    for index in 0..keys.len() {
        of_key.clear();
        of_key.extend(owners.iter().map(|owners| owners[index]));
        of_key.sort_unstable();
        of_key.dedup();
        let spread = u32::try_from(of_key.len()).expect("few views");
        most = most.max(spread);
        total += u64::from(spread);
        for &node in &of_key {
            loads[usize::from(node)] += 1;
        }
    }
    let count = u64::try_from(keys.len()).expect("few keys");
    let nodes = u64::try_from(members.len()).expect("few nodes");
    let heaviest = loads.into_iter().max().unwrap_or(0);
    ViewFigures {
        spread_max: most,
        spread_mean: Millionths::ratio(total, count),
        load_max: Millionths::ratio(heaviest * nodes, count),
    }
}

/// At least 1/t of the members, in their order, and one with a weight among them.
fn view(members: &[Member], part: u32, numbers: &mut Numbers) -> Vec<Member> {
    let count = u64::try_from(members.len()).expect("few nodes");
    let least = count.div_ceil(part.into());
    let size = least + numbers.below(count - least + 1);
    let mut order: Vec<(u64, usize)> = (0..members.len()).map(|index| (numbers.next(), index)).collect();
    order.sort_unstable();
    let mut chosen: Vec<usize> =
        order.into_iter().map(|(_, index)| index).take(usize::try_from(size).expect("few nodes")).collect();
    chosen.sort_unstable();
    let known: Vec<Member> = chosen.into_iter().map(|index| members[index].clone()).collect();
    if known.iter().any(|member| member.node.weight > 0) { known } else { members.to_vec() }
}

/// One node leaves: how many take over its keys, and how much the one that gets most grows. The worst of a few nodes.
pub(super) fn takeover(question: &Question, before: &dyn Placement, keys: &[Key]) -> Option<Takeover> {
    let members = &question.before;
    let owners = before.place(keys);
    let then = tally(&owners, None, question.universe);
    let step = members.len().div_ceil(LEAVERS).max(1);
    let mut worst: Option<Takeover> = None;
    // The last one, too: of some families no other can leave.
    let leavers = (0..members.len() - 1).step_by(step).chain([members.len() - 1]);
    for index in leavers {
        let rest: Vec<Member> =
            members.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, member)| member.clone()).collect();
        if rest.iter().all(|member| member.node.weight == 0) {
            continue;
        }
        let Ok(after) = before.changed(&rest) else { continue };
        let now_owners = after.place(keys);
        let leaver = members[index].id;
        let mut heirs: Vec<u16> =
            owners.iter().zip(&now_owners).filter(|(then, _)| **then == leaver).map(|(_, now)| *now).collect();
        heirs.sort_unstable();
        heirs.dedup();
        let now = tally(&now_owners, None, question.universe);
        let growth = |&heir: &u16| Millionths::ratio(now[usize::from(heir)], then[usize::from(heir)]);
        let found = Takeover {
            heirs: u32::try_from(heirs.len()).expect("few nodes"),
            heir_growth: heirs.iter().map(growth).max().unwrap_or(Millionths::ONE),
        };
        if !heirs.is_empty() && worst.is_none_or(|worst| found.heir_growth > worst.heir_growth) {
            worst = Some(found);
        }
    }
    worst
}

/// Copies of keys: on distinct nodes, in distinct zones, and how many the event moves.
pub(super) fn copies(question: &Question, before: &dyn Placement, after: &dyn Placement, keys: &[Key]) -> CopyFigures {
    let side = |members: &[Member]| {
        let mut zones: Vec<Option<Zone>> = vec![None; question.universe];
        for member in members {
            zones[usize::from(member.id)].clone_from(&member.node.zone);
        }
        let bearing = members.iter().filter(|member| member.node.weight > 0);
        let mut distinct: Vec<&Zone> = bearing.clone().filter_map(|member| member.node.zone.as_ref()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let copies = bearing.count().min(question.terms.copies as usize);
        (copies, distinct.len(), zones)
    };
    let (then, now) = (side(&question.before), side(&question.after));
    let (mut apart, mut in_zones, mut moved, mut placed) = (0, 0, 0, 0);
    for key in keys {
        let was = preference(before, key, then.0, &then.2, then.1);
        let is = preference(after, key, now.0, &now.2, now.1);
        apart += u64::from(is.len() >= now.0);
        let mut zones: Vec<&Zone> = is.iter().filter_map(|&node| now.2[usize::from(node)].as_ref()).collect();
        zones.sort_unstable();
        zones.dedup();
        in_zones += u64::from(zones.len() >= now.0.min(now.1));
        let fresh = is.iter().filter(|node| !was.contains(node)).count();
        moved += u64::try_from(fresh).expect("few copies");
        placed += u64::try_from(is.len()).expect("few copies");
    }
    let count = u64::try_from(keys.len()).expect("few keys");
    CopyFigures {
        copies: u32::try_from(now.0).expect("few copies"),
        distinct_nodes: Millionths::ratio(apart, count),
        distinct_zones: (now.1 > 0).then(|| Millionths::ratio(in_zones, count)),
        moved: Millionths::ratio(moved, placed),
    }
}
