//! Tests of the room: golden values with their sources, the rulings where sources differ, and the measures.

mod figures;
mod golden;
mod rulings;
mod trees;

use super::{Key, Member, Placement, Tuning, build};
use crate::domain::{Family, NodeId, PlacedNode};

/// Members of these names and weights, in this order; names must ascend.
fn weighted(nodes: &[(&str, u32)]) -> Vec<Member> {
    assert!(nodes.is_sorted_by(|a, b| a.0 < b.0), "numbers follow names");
    let member = |(id, &(name, weight)): (u16, &(&str, u32))| Member {
        id,
        node: PlacedNode { name: NodeId::new(name).unwrap(), weight, zone: None },
    };
    (0..).zip(nodes).map(member).collect()
}

/// `node-0000` and so on, all alike.
fn equal(count: usize) -> Vec<Member> {
    let names: Vec<String> = (0..count).map(|number| format!("node-{number:04}")).collect();
    weighted(&names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>())
}

fn placed(family: Family, members: &[Member]) -> Box<dyn Placement> {
    build(family, members, Tuning::default(), None).unwrap()
}

fn keys(count: usize) -> Vec<Key> {
    (0..count).map(|number| Key::of(format!("key:{number}").as_bytes())).collect()
}

/// Keys whose owners differ.
fn moved(before: &dyn Placement, after: &dyn Placement, keys: &[Key]) -> usize {
    before.place(keys).iter().zip(after.place(keys)).filter(|(a, b)| **a != *b).count()
}

/// The heaviest node over the mean.
fn peak(placement: &dyn Placement, keys: &[Key], nodes: usize) -> f64 {
    let mut counts = vec![0_u32; nodes];
    placement.place(keys).iter().for_each(|&node| counts[usize::from(node)] += 1);
    f64::from(*counts.iter().max().unwrap()) * nodes as f64 / keys.len() as f64
}
