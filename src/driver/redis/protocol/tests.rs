//! The function by itself: its usual way, and every place where it must stop.

use super::*;

type Node = &'static str;

fn end(me: Node, owner: Node, flag: Option<Flag<Node>>, keys: u64) -> End<Node> {
    End { me, owner: Some(owner).filter(|owner| !owner.is_empty()), flag, keys }
}

fn step(source: &End<Node>, target: &End<Node>) -> Result<Step, Obstacle<Node>> {
    forward(&Ends { source, target, from: &["s", "s2"], to: &["t", "t2"] })
}

fn undo(source: &End<Node>, target: &End<Node>) -> Result<Step, Obstacle<Node>> {
    back(&Ends { source, target, from: &["s", "s2"], to: &["t", "t2"] })
}

const TO_T: Option<Flag<Node>> = Some(Flag::Migrating("t"));
const FROM_S: Option<Flag<Node>> = Some(Flag::Importing("s"));

#[test]
fn a_move_goes_its_way() {
    let (s, t) = (|flag, keys| end("s", "s", flag, keys), |flag, keys| end("t", "s", flag, keys));
    assert_eq!(step(&s(None, 3), &t(None, 0)), Ok(Step::Import));
    assert_eq!(step(&s(None, 3), &t(FROM_S, 0)), Ok(Step::Migrate));
    assert_eq!(step(&s(TO_T, 3), &t(FROM_S, 0)), Ok(Step::Drain));
    assert_eq!(step(&s(TO_T, 1), &t(FROM_S, 2)), Ok(Step::Drain));
    assert_eq!(step(&s(TO_T, 0), &t(FROM_S, 3)), Ok(Step::Own));
    assert_eq!(step(&s(TO_T, 0), &end("t", "t", None, 3)), Ok(Step::Release));
    assert_eq!(step(&end("s", "t", None, 0), &end("t", "t", None, 3)), Ok(Step::Done));
}

#[test]
fn the_target_never_owns_while_the_source_holds_keys_or_a_flag_is_missing() {
    let flags =
        [None, TO_T, FROM_S, Some(Flag::Migrating("x")), Some(Flag::Importing("x")), Some(Flag::Migrating("t2"))];
    for (source_flag, target_flag) in flags.iter().flat_map(|a| flags.iter().map(move |b| (a, b))) {
        for (owner, keys) in [("s", 0), ("s", 1), ("t", 0), ("t", 1), ("t2", 0), ("x", 0), ("", 0)] {
            let (s, t) = (end("s", owner, source_flag.clone(), keys), end("t", "s", target_flag.clone(), 5));
            if step(&s, &t) == Ok(Step::Own) {
                assert!(keys == 0 && matches!(target_flag, Some(Flag::Importing("s"))), "{s:?} {t:?}");
                assert!(owner != "s" || *source_flag == TO_T, "{s:?} {t:?}");
            }
        }
    }
}

#[test]
fn the_source_lets_go_only_after_the_target_owns() {
    for keys in [0, 4] {
        for flag in [None, TO_T] {
            assert_ne!(step(&end("s", "s", flag, keys), &end("t", "s", FROM_S, 0)), Ok(Step::Release));
        }
    }
}

#[test]
fn after_a_failover_flags_name_the_new_primary() {
    assert_eq!(step(&end("s2", "s2", None, 3), &end("t", "s", FROM_S, 1)), Ok(Step::Import), "named anew");
    assert_eq!(step(&end("s2", "s2", None, 3), &end("t", "s", Some(Flag::Importing("s2")), 1)), Ok(Step::Migrate));
    assert_eq!(step(&end("s", "s", TO_T, 3), &end("t2", "s", None, 1)), Ok(Step::Import));
    assert_eq!(step(&end("s", "s", TO_T, 3), &end("t2", "s", FROM_S, 1)), Ok(Step::Migrate), "to the new primary");
    assert_eq!(step(&end("s", "t", None, 0), &end("t2", "t", None, 1)), Ok(Step::Import), "the owner died");
    assert_eq!(step(&end("s", "t", None, 0), &end("t2", "t", FROM_S, 1)), Ok(Step::Own));
}

#[test]
fn two_that_claim_the_slot_do_not_lose_what_the_source_accepted() {
    let owner = end("t", "t", None, 9);
    assert_eq!(step(&end("s2", "s2", None, 1), &owner), Ok(Step::Migrate));
    assert_eq!(step(&end("s2", "s2", None, 0), &owner), Ok(Step::Migrate), "it could accept one now");
    assert_eq!(step(&end("s2", "s2", TO_T, 1), &owner), Ok(Step::Drain));
    assert_eq!(step(&end("s2", "s2", TO_T, 0), &owner), Ok(Step::Release));
}

#[test]
fn a_flag_that_is_left_behind_is_closed() {
    let owner = end("t", "t", None, 9);
    assert_eq!(step(&end("s", "t", TO_T, 0), &owner), Ok(Step::Release));
    assert_eq!(
        step(&end("s", "t", Some(Flag::Importing("t")), 0), &owner),
        Ok(Step::CloseSource),
        "NODE would leave it"
    );
    assert_eq!(step(&end("s", "t", None, 0), &end("t", "t", FROM_S, 9)), Ok(Step::CloseTarget));
}

#[test]
fn what_others_did_is_for_a_person() {
    let (at, keys) = ("s", 2);
    assert_eq!(step(&end("s", "t", None, 2), &end("t", "t", None, 9)), Err(Obstacle::Stray { at, keys }));
    assert_eq!(step(&end("s", "t", None, 2), &end("t", "s", FROM_S, 9)), Err(Obstacle::Stray { at, keys }));
    let flag = Flag::Migrating("x");
    let open = Obstacle::OpenElsewhere { at, flag: flag.clone() };
    assert_eq!(open.to_string(), "s has it migrating to x");
    assert_eq!(step(&end("s", "s", Some(flag), 2), &end("t", "s", FROM_S, 0)), Err(open));
    let flag = Flag::Importing("x");
    let open = Obstacle::OpenElsewhere { at: "t", flag: flag.clone() };
    assert_eq!(step(&end("s", "s", None, 2), &end("t", "s", Some(flag), 0)), Err(open));
    let owned = Obstacle::OwnedElsewhere { at, owner: "x" };
    assert_eq!(step(&end("s", "x", None, 0), &end("t", "s", None, 0)), Err(owned));
    let owned = Obstacle::OwnedElsewhere { at: "t", owner: "x" };
    assert_eq!(step(&end("s", "s", None, 0), &end("t", "x", None, 0)), Err(owned));
    assert_eq!(step(&end("s", "", None, 0), &end("t", "", None, 0)), Err(Obstacle::Unowned { at }));
}

#[test]
fn a_move_is_taken_back_without_leaving_keys_behind() {
    let (s, t) = (|flag| end("s", "s", flag, 1), |flag, keys| end("t", "s", flag, keys));
    assert_eq!(undo(&s(TO_T), &t(FROM_S, 2)), Ok(Step::CloseSource));
    assert_eq!(undo(&s(None), &t(FROM_S, 2)), Ok(Step::Drain));
    assert_eq!(undo(&s(None), &t(FROM_S, 0)), Ok(Step::CloseTarget));
    assert_eq!(undo(&s(None), &t(None, 2)), Ok(Step::Import), "the flag went, and the keys are there");
    assert_eq!(undo(&s(None), &t(None, 0)), Ok(Step::Done));
    assert!(undo(&end("s", "x", None, 0), &t(FROM_S, 0)).is_err());
}

#[test]
fn what_a_third_node_has_is_closed_at_both_ends_and_left_to_it() {
    let leave =
        |source: &End<Node>, target: &End<Node>| let_go(&Ends { source, target, from: &["s", "s2"], to: &["t", "t2"] });
    for owner in ["x", ""] {
        let (s, t) = (|flag, keys| end("s", owner, flag, keys), |flag, keys| end("t", owner, flag, keys));
        assert_eq!(leave(&s(TO_T, 2), &t(FROM_S, 0)), Ok(Step::CloseSource));
        assert_eq!(leave(&s(None, 2), &t(FROM_S, 0)), Ok(Step::CloseTarget));
        assert_eq!(leave(&s(None, 2), &t(None, 1)), Ok(Step::Done));
        // It has not heard of the owner, as long as it imports.
        assert_eq!(leave(&s(None, 0), &end("t", "s", FROM_S, 0)), Ok(Step::CloseTarget));
        assert!(leave(&s(None, 0), &end("t", "s", None, 0)).is_err(), "news on its way");
        assert!(leave(&s(None, 0), &t(FROM_S, 1)).is_err(), "its keys could not be reached");
        assert!(leave(&s(None, 0), &t(Some(Flag::Importing("x")), 0)).is_err(), "somebody else's");
        assert!(leave(&s(Some(Flag::Migrating("x")), 0), &t(None, 0)).is_err(), "somebody else's");
        assert!(leave(&s(None, 0), &end("t", "t", None, 0)).is_err());
    }
    assert!(leave(&end("s", "s", None, 0), &end("t", "s", None, 0)).is_err(), "it is at home");
    assert!(leave(&end("s", "t2", None, 0), &end("t", "x", None, 0)).is_err());
}
