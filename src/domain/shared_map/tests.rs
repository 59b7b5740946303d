//! The map beside `BTreeMap`, under random changes of copies of each other.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{LEAF_MAX, SharedMap};

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, u8),
    Change(u16),
    Remove(u16),
    /// Removes from here on, so that leaves empty and join.
    RemoveFrom(u16, u16),
    Fill(u16, u16),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..600_u16;
    prop_oneof![
        4 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Step::Insert(key, value)),
        2 => key.clone().prop_map(Step::Change),
        4 => key.clone().prop_map(Step::Remove),
        1 => (key.clone(), 0..100_u16).prop_map(|(key, many)| Step::RemoveFrom(key, many)),
        2 => (key, 0..100_u16).prop_map(|(key, many)| Step::Fill(key, many)),
    ]
}

type Pair = (SharedMap<u16, u8>, BTreeMap<u16, u8>);

fn take((map, model): &mut Pair, step: &Step) {
    match *step {
        Step::Insert(key, value) => assert_eq!(map.insert(key, value), model.insert(key, value)),
        Step::Remove(key) => assert_eq!(map.remove(&key), model.remove(&key)),
        Step::RemoveFrom(from, many) => {
            map.retain(|key, _| !(from..from + many).contains(key));
            model.retain(|key, _| !(from..from + many).contains(key));
        }
        Step::Fill(from, many) => {
            for key in from..from + many {
                assert_eq!(map.insert(key, 1), model.insert(key, 1));
            }
        }
        Step::Change(key) => {
            let (value, expected) = (map.get_mut(&key), model.get_mut(&key));
            assert_eq!(value, expected);
            if let (Some(value), Some(expected)) = (value, expected) {
                (*value, *expected) = (value.wrapping_add(1), expected.wrapping_add(1));
            }
        }
    }
}

fn check((map, model): &Pair) {
    assert!(map.iter().eq(model.iter()));
    assert!(map.keys().eq(model.keys()) && map.values().eq(model.values()));
    assert_eq!((map.len(), map.iter().len(), map.is_empty()), (model.len(), model.len(), model.is_empty()));
    for key in 0..720 {
        assert_eq!((map.get(&key), map.contains_key(&key)), (model.get(&key), model.contains_key(&key)));
    }
    let full = map.leaves.iter().all(|leaf| (1..=LEAF_MAX).contains(&leaf.len()));
    assert!(full, "an empty or an overfull leaf");
    let json = serde_json::to_string(map).unwrap();
    assert_eq!(json, serde_json::to_string(model).unwrap());
    assert_eq!(serde_json::from_str::<SharedMap<u16, u8>>(&json).unwrap(), *map);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn it_is_a_map_and_tells_every_difference_between_its_copies(
        before in prop::collection::vec(step(), 0..40),
        after in prop::collection::vec(step(), 0..12),
        others in prop::collection::vec(step(), 0..12),
    ) {
        let mut old = Pair::default();
        for step in &before { take(&mut old, step); }
        let (mut new, mut other) = (old.clone(), old.clone());
        for step in &after { take(&mut new, step); }
        for step in &others { take(&mut other, step); }
        for pair in [&old, &new, &other] {
            check(pair);
        }
        for (a, b) in [(&old, &new), (&new, &old), (&new, &other)] {
            let told: Vec<_> = a.0.differences(&b.0, u8::eq).map(|(key, x, y)| (*key, x.copied(), y.copied())).collect();
            let all = (0..=u16::MAX).map(|key| (key, a.1.get(&key).copied(), b.1.get(&key).copied()));
            prop_assert_eq!(told, all.filter(|(_, x, y)| x != y).collect::<Vec<_>>());
            prop_assert_eq!(a.0 == b.0, a.1 == b.1);
        }
    }
}

/// A thousand entries: one changed copies one leaf and asks about one leaf.
#[test]
fn what_is_not_changed_is_shared() {
    let before: SharedMap<u32, u32> = (0..1000).map(|key| (key, key)).collect();
    assert!(before.leaves.len() <= 1000_usize.div_ceil(LEAF_MAX), "ascending keys fill their leaves");
    let mut after = before.clone();
    assert!(after.is_same(&before));
    *after.get_mut(&500).unwrap() = 7;
    assert!(!after.is_same(&before));
    let shared = before.leaves.iter().zip(after.leaves.iter()).filter(|(a, b)| std::sync::Arc::ptr_eq(a, b)).count();
    assert_eq!(shared, before.leaves.len() - 1);
    let asked = std::cell::Cell::new(0);
    let same = |a: &u32, b: &u32| {
        asked.set(asked.get() + 1);
        a == b
    };
    assert_eq!(before.differences(&after, same).collect::<Vec<_>>(), [(&500, Some(&500), Some(&7))]);
    assert!(asked.get() <= LEAF_MAX);
}
