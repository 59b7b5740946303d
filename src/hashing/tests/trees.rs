//! Random trees: no machine serves more than a logarithmic multiple of its fair share, whatever the hot set.

use proptest::prelude::*;

use super::super::hot::play;
use super::*;
use crate::domain::{Slot, tree::Tree};

#[test]
fn a_tree_is_complete() {
    let tree = Tree::new(10, 3).unwrap();
    // 0 → 1 2 3; 1 → 4 5 6; 2 → 7 8 9; leaves 3..=9.
    assert_eq!((7, 3, 9), (tree.leaves(), tree.leaf(0), tree.leaf(6)));
    assert_eq!(vec![9, 2, 0], tree.path(9).collect::<Vec<_>>());
    assert_eq!(vec![3, 0], tree.path(3).collect::<Vec<_>>());
    let alone = Tree::new(1, 2).unwrap();
    assert_eq!((1, vec![0]), (alone.leaves(), alone.path(alone.leaf(0)).collect()));
    assert_eq!(Slot::of_key(b"{a}b"), Tree::slot(b"{a}b", 0), "the root is the owner");
    assert_ne!(Tree::slot(b"{a}b", 1), Tree::slot(b"{a}c", 1), "every key has a tree of its own");
    assert!(Tree::new(0, 2).is_err() && Tree::new(2, 1).is_err() && Tree::new(16_385, 2).is_err());
}

/// One hot key over 100 nodes.
#[test]
fn climbing_nodes_bear_a_burst_and_climbing_clients_do_not() {
    let hot = play(&equal(100), 4, &keys(1), &[1]);
    assert_eq!(100_000_000, hot.owner_alone.0, "all requests on one of a hundred");
    assert_eq!(hot.clients_climb_cold, hot.owner_alone, "every climbing client of a cold burst reaches the owner");
    assert!(hot.nodes_climb <= hot.bound && hot.clients_climb_warm <= hot.bound, "{hot:?}");
    // log2(100) has 7 digits.
    assert_eq!(14_000_000, hot.bound.0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn the_bound_is_logarithmic_whatever_is_hot(
        nodes in 2_usize..300, arity in 2_u32..9, seed: u64, counts in prop::collection::vec(1_u64..1000, 1..20),
    ) {
        let hot: Vec<Key> = (0..counts.len()).map(|n| Key::of(format!("{seed}:{n}").as_bytes())).collect();
        let relief = play(&equal(nodes), arity, &hot, &counts);
        prop_assert!(relief.nodes_climb <= relief.bound, "{relief:?}");
    }
}
