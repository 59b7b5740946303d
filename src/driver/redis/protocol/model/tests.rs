//! What holds in everything that can happen, and what breaks with each flaw.

use stateright::{Checker as _, Model as _};

use super::{Flaw, Move};

/// Explores everything that can happen; the names of the properties that do not hold.
fn broken(model: Move) -> Vec<&'static str> {
    let checker = model.checker().spawn_bfs().join();
    let always = checker.model().properties().into_iter().filter(|p| p.expectation == stateright::Expectation::Always);
    always.map(|property| property.name).filter(|name| checker.discovery(name).is_some()).collect()
}

#[test]
fn no_key_is_lost_however_servers_and_coordinators_die() {
    let checker = Move { writes: 3, crashes: 4, ..Move::default() }.checker().spawn_bfs().join();
    checker.assert_properties();
    assert!(checker.unique_state_count() > 5_000, "{} states only", checker.unique_state_count());
}

#[test]
fn no_key_is_lost_when_a_successor_takes_the_move_back() {
    let checker = Move { writes: 1, crashes: 1, aborts: true, ..Move::default() }.checker().spawn_bfs().join();
    checker.assert_properties();
}

#[test]
fn no_key_is_lost_when_an_end_fails_over() {
    assert_eq!(broken(Move { writes: 1, crashes: 1, failovers: 1, ..Move::default() }), [""; 0]);
}

#[test]
fn finalising_before_the_source_is_empty_loses_the_key() {
    let broken = broken(Move { flaw: Flaw::EarlyFinalise, ..Move::default() });
    assert!(broken.contains(&"an acknowledged write is held"), "{broken:?}");
}

#[test]
fn letting_the_source_go_first_sends_clients_in_a_circle() {
    let broken = broken(Move { flaw: Flaw::SourceFirst, ..Move::default() });
    assert!(broken.contains(&"somebody serves"), "{broken:?}");
}

#[test]
fn closing_a_target_that_holds_keys_loses_them() {
    let broken = broken(Move { flaw: Flaw::DirtyAbort, writes: 1, aborts: true, ..Move::default() });
    assert!(broken.contains(&"an acknowledged write is held") || broken.contains(&"done is done"), "{broken:?}");
}

#[test]
fn a_deposed_coordinator_without_a_fence_loses_what_was_acknowledged() {
    let broken = broken(Move { flaw: Flaw::NoFence, writes: 1, aborts: true, ..Move::default() });
    assert!(broken.contains(&"an acknowledged write is held"), "{broken:?}");
}
