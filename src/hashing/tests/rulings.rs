//! What was decided where sources differ.

use super::super::circle::Circle;
use super::super::error::HashingError;
use super::super::key::mix;
use super::super::preference;
use super::*;
use crate::domain::{SLOT_COUNT, Slot, Zone};

/// Karger: the first point at or after the key, wrapping; not strictly after.
#[test]
fn the_owner_is_the_first_point_at_or_after_the_key() {
    let circle = Circle::new(vec![(10, 0), (20, 1), (30, 2)]);
    for (hash, owner) in [(0, 0), (10, 0), (11, 1), (20, 1), (21, 2), (30, 2), (31, 0), (u64::MAX, 0)] {
        assert_eq!(owner, circle.owner(hash), "{hash}");
    }
}

/// A joining machine takes (predecessor, itself] from its clockwise successor, and nothing else changes.
#[test]
fn who_joins_takes_from_its_clockwise_successor() {
    let before = Circle::new(vec![(10, 0), (30, 2)]);
    let after = Circle::new(vec![(10, 0), (20, 1), (30, 2)]);
    for hash in 0..40 {
        if (11..=20).contains(&hash) {
            assert_eq!((2, 1), (before.owner(hash), after.owner(hash)), "{hash}");
        } else {
            assert_eq!(before.owner(hash), after.owner(hash), "{hash}");
        }
    }
}

/// Equal points: the lower id wins, and removing one restores the other.
#[test]
fn of_equal_points_the_lower_id_wins() {
    let both = Circle::new(vec![(20, 5), (20, 3), (40, 9)]);
    assert_eq!(3, both.owner(15));
    assert_eq!(3, both.owner(20));
    assert_eq!(9, both.owner(21));
    assert_eq!(5, Circle::new(vec![(20, 5), (40, 9)]).owner(15), "without 3");
    assert_eq!(3, Circle::new(vec![(20, 3), (40, 9)]).owner(15), "without 5");
}

/// Rendezvous with the score −(clockwise distance) is the ring.
#[test]
fn rendezvous_by_distance_is_the_ring() {
    let points: Vec<(u64, u16)> = (0..50_u16).map(|id| (mix(u64::from(id) + 1), id)).collect();
    let circle = Circle::new(points.clone());
    for key in keys(2000) {
        let nearest = points.iter().min_by_key(|(point, _)| point.wrapping_sub(key.hash)).unwrap();
        assert_eq!(nearest.1, circle.owner(key.hash));
    }
}

/// CRC16 is linear: χ²/df per slot of 200 000 sequential keys is 0.5 for `user:%d`, 2.4 for `user:%08d`, 7.6 for `%016x`; MD5 1.0. Ten
/// contiguous shards stay within 0.5 %.
#[test]
fn crc_fills_slots_unevenly_and_shards_evenly() {
    const KEYS: u32 = 200_000;
    let chi = |slots: &mut dyn Iterator<Item = usize>| {
        let (mut counts, mut shards) = (vec![0.0_f64; SLOT_COUNT], [0_u32; 10]);
        for slot in slots {
            counts[slot] += 1.0;
            shards[slot * 10 / SLOT_COUNT] += 1;
        }
        let mean = f64::from(KEYS) / 16384.0;
        let worst = shards.iter().map(|&keys| (f64::from(keys) / f64::from(KEYS / 10) - 1.0).abs()).fold(0.0, f64::max);
        (counts.iter().map(|count| (count - mean).powi(2) / mean).sum::<f64>() / 16383.0, worst)
    };
    let crc = |key: String| Slot::of_key(key.as_bytes()).index();
    let (chi_plain, worst) = chi(&mut (0..KEYS).map(|n| crc(format!("user:{n}"))));
    assert!((chi_plain - 0.5).abs() < 0.05 && worst < 0.005, "{chi_plain} {worst}");
    let (chi_padded, worst) = chi(&mut (0..KEYS).map(|n| crc(format!("user:{n:08}"))));
    assert!((chi_padded - 2.4).abs() < 0.05 && worst < 0.005, "{chi_padded} {worst}");
    let (chi_hex, worst) = chi(&mut (0..KEYS).map(|n| crc(format!("{n:016x}"))));
    assert!((chi_hex - 7.6).abs() < 0.05 && worst < 0.005, "{chi_hex} {worst}");
    let (chi_md5, _) =
        chi(&mut (0..KEYS).map(|n| Key::of(format!("user:{n}").as_bytes()).ketama as usize % SLOT_COUNT));
    assert!((chi_md5 - 1.0).abs() < 0.05, "{chi_md5}");
}

/// No family but fixed slots looks at the slot, and so at CRC; ketama looks at MD5 alone.
#[test]
fn ring_families_never_use_crc() {
    let members = equal(9);
    for family in Family::ALL {
        let placement = placed(family, &members);
        let depends =
            |change: fn(Key) -> Key| keys(500).iter().any(|key| placement.owner(key) != placement.owner(&change(*key)));
        assert_eq!(family == Family::Slots, depends(|key| Key { slot: key.slot ^ 0x1555, ..key }), "{family}");
        assert_eq!(family == Family::Ketama, depends(|key| Key { ketama: !key.ketama, ..key }), "{family}");
    }
}

/// A node that joins takes keys and nobody else does: every family but modulo and Maglev (and weighted ketama) is monotone.
#[test]
fn who_joins_takes_keys_and_no_other_node_does() {
    let all = equal(12);
    let keys = keys(20_000);
    // A bound so tight that keys overflow.
    let tuning = Tuning { epsilon: crate::domain::Millionths(10_000), ..Tuning::default() };
    for family in Family::ALL {
        let before = build(family, &all[..11], tuning, None).unwrap();
        let after = before.changed(&all).unwrap();
        let stray = before.place(&keys).iter().zip(after.place(&keys)).filter(|(a, b)| **a != *b && *b != 11).count();
        let loose = matches!(family, Family::Modulo | Family::Maglev | Family::BoundedLoad);
        assert_eq!(loose, stray > 0, "{family}: {stray} strayed");
    }
    let (light, heavy) = (weighted(&[("a", 1), ("b", 1), ("c", 1)]), weighted(&[("a", 1), ("b", 1), ("c", 4)]));
    let before = placed(Family::Ketama, &light);
    let after = before.changed(&heavy).unwrap();
    let stray = before.place(&keys).iter().zip(after.place(&keys)).filter(|(a, b)| **a != *b && *b != 2).count();
    assert!(stray > 0, "weighted ketama is not monotone");
}

/// A node that leaves and comes back finds its keys.
#[test]
fn who_comes_back_finds_its_keys() {
    let all = equal(10);
    let mut without = all.clone();
    without.remove(4);
    let keys = keys(20_000);
    for family in Family::ALL.into_iter().filter(|family| !matches!(family, Family::Jump | Family::Slots)) {
        let before = placed(family, &all);
        let back = before.changed(&without).unwrap().changed(&all).unwrap();
        assert_eq!(0, moved(&*before, &*back, &keys), "{family}");
    }
    // Anchor: two leave and come back in the opposite order.
    let before = placed(Family::Anchor, &all);
    let once = before.changed(&all[1..]).unwrap();
    let twice = once.changed(&all[2..]).unwrap();
    let back = twice.changed(&all[1..]).unwrap().changed(&all).unwrap();
    assert_eq!(0, moved(&*before, &*back, &keys));
    let gone = before.place(&keys).iter().zip(twice.place(&keys)).filter(|(a, b)| **a != *b && **a > 1).count();
    assert_eq!(0, gone, "only the keys of those who left moved");
}

#[test]
fn what_a_family_cannot_is_refused_by_name() {
    let uneven = weighted(&[("a", 1), ("b", 3)]);
    for family in Family::ALL {
        let built = build(family, &uneven, Tuning::default(), None);
        assert_eq!(family.has_weights(), built.is_ok(), "{family}");
        if let Err(error) = built {
            let text = error.to_string();
            assert!(text.contains("b has 3") && text.contains("a has 1") && text.contains(family.as_str()), "{text}");
        }
    }
    let all = equal(4);
    let leaving = [all[0].clone(), all[1].clone(), all[3].clone()];
    let error = placed(Family::Jump, &all).changed(&leaving).err().unwrap();
    assert!(
        matches!(&error, HashingError::OnlyTheLastLeaves { leaving, last }
        if leaving.as_str() == "node-0002" && last.as_str() == "node-0003"),
        "{error}"
    );
    assert!(placed(Family::Jump, &all).changed(&all[..3]).is_ok(), "the last may");
}

/// Dynamo: the first R distinct machines clockwise, in distinct zones where there are some.
#[test]
fn copies_lie_on_distinct_nodes_and_zones() {
    let circle_zones = ["x", "x", "x", "y", "y", "z"].map(|zone| Some(Zone::new(zone).unwrap()));
    let members = equal(6);
    for family in Family::ALL {
        let placement = placed(family, &members);
        for key in keys(300) {
            let list = preference(&*placement, &key, 3, &circle_zones, 3);
            assert_eq!(placement.owner(&key), list[0], "{family}: the first is the owner");
            let zones: std::collections::BTreeSet<_> =
                list.iter().map(|&node| &circle_zones[usize::from(node)]).collect();
            assert_eq!((3, 3), (list.len(), zones.len()), "{family}: {list:?}");
            let list = preference(&*placement, &key, 5, &circle_zones, 3);
            let nodes: std::collections::BTreeSet<_> = list.iter().collect();
            assert_eq!(5, nodes.len(), "{family}: more copies than zones still lie on distinct nodes: {list:?}");
        }
    }
}
