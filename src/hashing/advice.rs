//! Which family to choose, and why: derived from the figures of the comparison, not from what is known of the families.

use std::cmp::Reverse;

use crate::domain::{Comparison, Family, FamilyFigures, Millionths};

/// Families whose waste differs by less are equal in it: 1 %.
const BAND: u64 = 10_000;

/// Sentences; the last tells which to choose.
pub(super) fn advice(comparison: &Comparison) -> Vec<String> {
    let mut ranked: Vec<(Family, &FamilyFigures)> = comparison
        .outcomes
        .iter()
        .filter_map(|outcome| Some((outcome.family, outcome.figures.as_ref().ok()?)))
        .collect();
    let least_waste = ranked.iter().map(|(_, figures)| waste(figures, comparison.keys)).min().unwrap_or(0);
    // In bands from the best on; within a band what carries more events, then what spares the source, then memory.
    ranked.sort_by_key(|(family, figures)| {
        let band = (waste(figures, comparison.keys) - least_waste) / BAND;
        let carries = (Reverse(family.any_may_leave()), Reverse(family.has_weights()));
        (band, carries, figures.misses.peak_per_second, figures.memory_bytes, *family)
    });
    let mut sentences = Vec::new();
    sentences.extend(refused(comparison));
    sentences.extend(worst(&ranked, comparison.keys));
    sentences.push(hot(comparison));
    sentences.push(choice(&ranked, comparison));
    sentences
}

/// What a family does worse than could be: moves above the least, load above the share, keys that moved for nothing.
fn waste(figures: &FamilyFigures, keys: u64) -> u64 {
    let above_one = |ratio: Millionths| ratio.0.saturating_sub(Millionths::ONE.0);
    figures.moved_to_least.map_or(Millionths::ratio(figures.keys_moved, keys).0, above_one)
        + above_one(figures.balance.heaviest)
        + Millionths::ratio(figures.stray_moves, keys).0
}

fn refused(comparison: &Comparison) -> Option<String> {
    let names: Vec<&str> = comparison
        .outcomes
        .iter()
        .filter(|outcome| outcome.figures.is_err())
        .map(|outcome| outcome.family.as_str())
        .collect();
    (!names.is_empty()).then(|| format!("Cannot carry this event: {}.", names.join(", ")))
}

fn worst(ranked: &[(Family, &FamilyFigures)], keys: u64) -> Option<String> {
    let (family, figures) = ranked.iter().max_by_key(|(_, figures)| waste(figures, keys))?;
    let best = ranked.first()?.1;
    if ranked.len() < 2 || waste(figures, keys) < waste(best, keys) + BAND {
        return None;
    }
    Some(format!("Most wasteful: {family}; it {}.", what(figures)))
}

fn what(figures: &FamilyFigures) -> String {
    let least = match figures.moved_to_least {
        Some(ratio) => format!(" ({ratio:.2} x the least)"),
        None => String::new(),
    };
    format!(
        "moves {} keys{least}, its heaviest node bears {:.2} of its share, and the source sees at most {} misses/s",
        figures.keys_moved, figures.balance.heaviest, figures.misses.peak_per_second
    )
}

fn hot(comparison: &Comparison) -> String {
    let hot = &comparison.hot;
    let nodes = u64::try_from(comparison.after.iter().filter(|node| node.weight > 0).count()).expect("few nodes");
    let share = Millionths(hot.hottest.0.saturating_mul(100));
    if hot.hottest <= Millionths::ratio(1, nodes) {
        return format!("No key is hot: the first gets {share:.2} % of the requests, less than a node's share.");
    }
    format!(
        "Hot keys: the first gets {share:.1} % of the requests, more than a node's share, and no family helps; a tree of arity \
         {} brings the heaviest node from {:.1} to {:.1} shares of these requests.",
        hot.arity, hot.owner_alone, hot.nodes_climb
    )
}

fn choice(ranked: &[(Family, &FamilyFigures)], comparison: &Comparison) -> String {
    let Some((best, figures)) = ranked.first() else {
        return "Which to choose: none of these can carry the event.".to_owned();
    };
    let mut text = format!("Which to choose: {best}, because it {}", what(figures));
    if let Some((next, figures)) = ranked.iter().find(|(family, _)| family != best && *family != Family::Slots) {
        let role = if *best == Family::Slots { "without a coordinator" } else { "next" };
        text.extend(["; ", role, " ", next.as_str(), ", which ", &what(figures)]);
    } else if comparison.outcomes.len() == 1 {
        text += "; it was the only one asked for";
    }
    text.push('.');
    text
}
