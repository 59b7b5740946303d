//! Tests of the values. Expected numbers come from the Redis Cluster specification, from a naive model, or from
//! `hashlib` over bytes written out by hand (`tests/fixtures/digest_golden.py`).

use proptest::prelude::*;

use super::*;

fn slot(number: u16) -> Slot {
    Slot::new(number).unwrap()
}

fn shard(id: &str) -> ShardId {
    ShardId::new(id).unwrap()
}

#[test]
fn the_check_value_of_crc16_xmodem_is_that_of_the_specification() {
    assert_eq!(Slot::of_key(b"123456789").get(), 0x31c3 & 0x3fff);
}

#[test]
fn hash_tags_are_those_of_the_specification() {
    for (key, hashed) in [
        ("{user1000}.following", "user1000"),
        ("foo{}{bar}", "foo{}{bar}"),
        ("foo{{bar}}zap", "{bar"),
        ("foo{bar}{zap}", "bar"),
        ("foo{bar", "foo{bar"),
        ("foo}bar{x}", "x"),
        ("{}", "{}"),
        ("", ""),
        ("{a}", "a"),
    ] {
        assert_eq!(hash_tag(key.as_bytes()), hashed.as_bytes(), "{key}");
    }
}

#[test]
fn slots_and_ranges_refuse_what_is_out_of_bounds() {
    assert!(Slot::new(16383).is_ok());
    assert_eq!(Slot::new(16384).unwrap_err().to_string(), "slot: 16384 is not in 0..=16383");
    assert_eq!("7".parse::<SlotRange>().unwrap(), SlotRange::single(slot(7)));
    assert_eq!("3-7".parse::<SlotRange>().unwrap().count(), 5);
    for bad in ["", "-1", "5-1", "16384", "0-16384", "1-2-3", "a", "1 ", " 1", "+1", "000001", "1-", "-"] {
        assert!(bad.parse::<SlotRange>().is_err(), "{bad:?}");
    }
    assert!(serde_json::from_str::<SlotRange>("[5,1]").is_err());
    assert_eq!(serde_json::to_string(&SlotRange::ALL).unwrap(), "[0,16383]");
}

#[test]
fn names_refuse_what_could_hide_in_them() {
    for good in ["a", "shard-e", "10.0.0.1", &"a".repeat(64)] {
        assert!(ShardId::new(good).is_ok(), "{good:?}");
    }
    for bad in ["", "-a", ".a", "a b", "a/b", "a\n", "a\u{202e}b", "é", &"a".repeat(65)] {
        assert!(ShardId::new(bad).is_err(), "{bad:?}");
    }
    let error = ShardId::new("a\u{202e}b").unwrap_err().to_string();
    assert!(error.contains("\\u{202e}") && !error.contains('\u{202e}'), "shown escaped: {error}");
}

#[test]
fn hosts_are_names_or_addresses_without_port() {
    for good in ["10.0.0.1", "::1", "fe80::1", "localhost", "node-1.example.test", "a_b.c"] {
        assert!(Host::new(good).is_ok(), "{good:?}");
    }
    for bad in ["", "[::1]", "a b", "a:b", "-a", "a..b", "1.2.3.4:5", &"a.".repeat(127)] {
        assert!(Host::new(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn versions_read_what_they_write_and_nothing_else() {
    let version = Version { generation: Generation(1_772_460_300), epoch: Epoch(41) };
    assert_eq!(version.to_string(), "1772460300.41");
    assert_eq!("1772460300.41".parse::<Version>().unwrap(), version);
    for bad in ["", "1", "1.", ".1", "1.2.3", "1.18446744073709551616", "+1.2", "1.-2", "1. 2", "01.2", "1.02", "00.0"]
    {
        assert!(bad.parse::<Version>().is_err(), "{bad:?}");
    }
}

#[test]
fn an_action_has_one_name() {
    for (text, id) in [("a-1", 1), ("a-0", 0), ("a-10", 10), ("a-4294967295", u32::MAX)] {
        assert_eq!(text.parse(), Ok(ActionId(id)));
        assert_eq!(ActionId(id).to_string(), text);
    }
    for bad in ["", "a-", "1", "a-01", "a-00", "a-+1", "a--1", "a-1 ", "A-1", "a-4294967296"] {
        assert!(bad.parse::<ActionId>().is_err(), "{bad:?}");
    }
}

#[test]
fn tolerances_are_percentages() {
    for (text, ppm) in [("0", 0), ("0.5", 5_000), ("2", 20_000), ("10.25", 102_500), ("100", 1_000_000), ("0.0001", 1)]
    {
        assert_eq!(Tolerance::from_percent(text).unwrap(), Tolerance(ppm), "{text}");
    }
    for bad in ["", "-1", "101", "100.0001", "1.23456", ".", "1.", "1e3", "NaN", "inf"] {
        assert!(Tolerance::from_percent(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn roles_grant_what_the_design_says() {
    use Permission as P;
    let table: [(Role, &[Permission]); 8] = [
        (Role::Client, &[P::ReadTopology]),
        (Role::Mover, &[P::ReadTopology, P::Read, P::Move]),
        (Role::Viewer, &[P::ReadTopology, P::Read]),
        (Role::Operator, &[P::ReadTopology, P::Read, P::Operate]),
        (Role::Approver, &[P::ReadTopology, P::Read, P::Review]),
        (Role::Admin, &P::ALL),
        (Role::System, &P::ALL),
        (Role::Joiner, &[P::Join]),
    ];
    for (role, granted) in table {
        for permission in P::ALL {
            assert_eq!(role.may(permission), granted.contains(&permission), "{role} {permission:?}");
        }
    }
}

#[test]
fn a_rollout_never_leaves_a_final_state_and_blocked_needs_an_operator() {
    for (from, _, _) in RolloutState::TRANSITIONS {
        assert!(!from.is_final(), "{from:?}");
    }
    for verb in [RolloutVerb::Pause, RolloutVerb::Succeed, RolloutVerb::Block, RolloutVerb::EndAbort] {
        assert_eq!(RolloutState::Blocked.after(verb), None);
    }
    assert_eq!(RolloutState::Blocked.after(RolloutVerb::Resume), Some(RolloutState::Running));
}

#[test]
fn a_table_follows_its_shards() {
    let mut table = SlotTable::new();
    assert!(table.insert_shard(shard("b")));
    table.assign("0-9".parse().unwrap(), Some(&shard("b"))).unwrap();
    assert!(table.insert_shard(shard("a")), "indexes of others shift");
    assert!(!table.insert_shard(shard("a")));
    assert_eq!(table.owner(slot(9)), Some(&shard("b")));
    assert_eq!(table.owner(slot(10)), None);
    assert_eq!((table.count_of(&shard("a")), table.count_of(&shard("b"))), (0, 10));
    assert!(table.remove_shard(&shard("b")).unwrap_err().to_string().contains("still owns 10 slots"));
    table.remove_shard(&shard("a")).unwrap();
    assert_eq!(table.ranges_of(&shard("b")), ["0-9".parse().unwrap()]);
    assert!(table.assign(SlotRange::ALL, Some(&shard("x"))).is_err());
    assert_eq!((table.range_count(), table.unassigned().len()), (1, 16374));
}

#[test]
fn a_damaged_table_is_refused() {
    for bad in [
        r#"{"shards":["b","a"],"runs":[]}"#,
        r#"{"shards":["a","a"],"runs":[]}"#,
        r#"{"shards":["a"],"runs":[[0,5,0],[5,6,0]]}"#,
        r#"{"shards":["a"],"runs":[[0,5,1]]}"#,
        r#"{"shards":["a"],"runs":[[6,5,0]]}"#,
        r#"{"shards":["a"],"runs":[[0,16384,0]]}"#,
    ] {
        assert!(serde_json::from_str::<SlotTable>(bad).is_err(), "{bad}");
    }
}

fn naive_ranges(owners: &[Option<&ShardId>], shard: &ShardId) -> Vec<SlotRange> {
    ranges_of(Slot::all().filter(|slot| owners[slot.index()] == Some(shard)))
}

proptest! {
    #[test]
    fn a_set_agrees_with_a_naive_one(numbers in prop::collection::btree_set(0_u16..16384, 0..200)) {
        let set: SlotSet = numbers.iter().map(|&n| slot(n)).collect();
        prop_assert_eq!(set.len(), numbers.len());
        prop_assert_eq!(set.iter().map(Slot::get).collect::<Vec<_>>(), numbers.iter().copied().collect::<Vec<_>>());
        let ranges = set.ranges();
        prop_assert!(ranges.windows(2).all(|pair| pair[0].last().get() + 1 < pair[1].first().get()), "maximal");
        prop_assert_eq!(SlotSet::from_ranges(ranges).unwrap(), set.clone());
        let mut emptied = set.clone();
        for &n in &numbers { assert!(emptied.remove(slot(n)) && !emptied.contains(slot(n))); }
        prop_assert_eq!((emptied == SlotSet::new(), emptied == set), (true, numbers.is_empty()));
        prop_assert!(emptied.is_empty() && emptied.iter().next().is_none());
    }

    #[test]
    fn a_table_survives_its_serialisation(writes in prop::collection::vec((0_u16..16384, 0_u16..16384, 0_usize..4), 0..40)) {
        let ids = ["a", "b", "c"].map(shard);
        let mut table = SlotTable::new();
        for id in &ids {
            table.insert_shard(id.clone());
        }
        let mut naive = vec![None; SLOT_COUNT];
        for (x, y, owner) in writes {
            let range = SlotRange::new(slot(x.min(y)), slot(x.max(y))).unwrap();
            // A copy keeps what it was, and what it was asked before.
            let (copy, then) = (table.clone(), naive.clone());
            prop_assert_eq!(copy.ranges_of(&ids[0]), naive_ranges(&naive, &ids[0]));
            table.assign(range, ids.get(owner)).unwrap();
            naive[range.first().index()..=range.last().index()].fill(ids.get(owner));
            prop_assert_eq!(copy.ranges_of(&ids[0]), naive_ranges(&then, &ids[0]));
            let differing = (0..SLOT_COUNT).filter(|&slot| then[slot] != naive[slot]).map(Slot::at);
            prop_assert!(table.differing_slots(&copy).eq(differing));
            prop_assert_eq!(table == copy, then == naive);
            for id in &ids {
                let before = table.count_of(id);
                prop_assert_eq!(table.ranges_of(id), naive_ranges(&naive, id));
                let owned = naive.iter().filter(|owner| **owner == Some(id)).count();
                prop_assert_eq!((before, table.count_of(id)), (u32::try_from(owned).unwrap(), u32::try_from(owned).unwrap()));
            }
            prop_assert_eq!(table.unassigned_count(), naive.iter().filter(|owner| owner.is_none()).count());
        }
        for (index, owner) in naive.iter().enumerate() {
            prop_assert_eq!(table.owner(Slot::at(index)), *owner);
        }
        prop_assert_eq!(table.runs().map(|(range, _)| range.count()).sum::<usize>(), SLOT_COUNT);
        let text = serde_json::to_string(&table).unwrap();
        prop_assert_eq!(serde_json::from_str::<SlotTable>(&text).unwrap(), table);
    }
}

/// The plan written out by hand in `tests/fixtures/digest_golden.py`.
fn golden_plan() -> Plan {
    let (a, b) = (shard("shard-a"), shard("shard-b"));
    let mut table = SlotTable::new();
    table.insert_shard(a.clone());
    table.insert_shard(b.clone());
    table.assign("0-99".parse().unwrap(), Some(&a)).unwrap();
    let shards = [
        Shard::new(a.clone(), NodeId::new("n1").unwrap(), Weight::ONE),
        Shard::new(b.clone(), NodeId::new("n2").unwrap(), Weight::new(2).unwrap()),
    ];
    let moved = SlotSet::from_ranges(["3-4".parse().unwrap(), "16383".parse().unwrap()]).unwrap();
    let kinds = [
        ActionKind::MoveSlots { from: a.clone(), to: b.clone(), ranges: vec!["3-4".parse().unwrap()] },
        ActionKind::AssignSlots { from: None, to: b.clone(), ranges: vec!["16383".parse().unwrap()] },
        ActionKind::Promote { shard: a, from: NodeId::new("n1").unwrap(), to: NodeId::new("n3").unwrap() },
        ActionKind::SetReplicaOf { node: NodeId::new("n4").unwrap(), shard: b.clone() },
        ActionKind::RepairSlot { slot: slot(7), owner: b.clone() },
    ];
    let actions = (1..).zip(kinds).map(|(id, kind)| Action { id: ActionId(id), kind }).collect();
    let ack = Check {
        code: "W1".into(),
        name: "data-loss".into(),
        level: CheckLevel::Warn,
        text: "not in the digest".into(),
        needs_ack: true,
    };
    Plan {
        id: PlanId::new("p-golden").unwrap(),
        supersedes: None,
        reverts: Some(PlanId::new("p-before").unwrap()),
        intent: Intent {
            goal: Goal::Balance { tolerance: Tolerance(5000) },
            add: vec![(b, Weight::new(2).unwrap())],
            drain: vec![],
            reweight: vec![],
            reason: "golden".into(),
            placement: None,
        },
        base: Base {
            cluster_id: ClusterId::new("c1").unwrap(),
            version: Version { generation: Generation(9), epoch: Epoch(41) },
            fingerprint: Fingerprint::of(&table, &shards, &moved),
        },
        body: PlanBody {
            summary: Summary::default(),
            certificate: Certificate { surplus: 0, deficit: 0, unassigned: 0, bands: vec![] },
            shards: vec![],
            actions,
            waves: vec![vec![ActionId(1), ActionId(2)], vec![ActionId(3)]],
            figures: Figures::default(),
            empty_because: None,
            placement: None,
        },
        checks: vec![ack],
        limits: DriverKind::Flip.default_limits(),
        approvals_required: 1,
        author_may_approve: false,
        author: Principal::system("test"),
        created_at: Instant(1),
        expires_at: Instant(2),
    }
}

#[test]
fn digest_and_fingerprint_are_frozen() {
    let golden: std::collections::BTreeMap<String, String> =
        serde_json::from_str(include_str!("../../tests/fixtures/digest_golden.json")).unwrap();
    let plan = golden_plan();
    assert_eq!(plan.base.fingerprint.to_string(), golden["fingerprint"]);
    assert_eq!(Digest::of_plan(&plan).to_string(), golden["digest"]);
}

#[test]
fn the_digest_names_what_is_approved_and_nothing_else() {
    let plan = golden_plan();
    let digest = Digest::of_plan(&plan);
    let mut same = plan.clone();
    same.body.summary.eta_seconds = Some((1, 2));
    same.created_at = Instant(77);
    same.checks[0].text = "other words".into();
    assert_eq!(Digest::of_plan(&same), digest);
    let changes: [fn(&mut Plan); 10] = [
        |p| p.intent.reason.push('!'),
        |p| p.base.version.epoch.0 += 1,
        |p| p.body.waves.swap(0, 1),
        |p| p.limits.slots_per_second = None,
        |p| p.limits.overlap_ms += 1,
        |p| p.limits.windows = vec!["mon-fri 22:00-06:00".parse().unwrap()],
        |p| p.approvals_required = 0,
        |p| p.author_may_approve = true,
        |p| p.checks.clear(),
        |p| p.body.actions[2].kind = p.body.actions[3].kind.clone(),
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut other = plan.clone();
        change(&mut other);
        assert_ne!(Digest::of_plan(&other), digest, "change {index}");
    }
    assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
    assert!("sha256:00".parse::<Digest>().is_err());
}
