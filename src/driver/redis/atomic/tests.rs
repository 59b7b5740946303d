//! What follows from each word that the servers have for the state of a task.

use super::*;

const TARGET: &str = "00000000000000000000000000000000000000aa";

fn set(text: &str) -> SlotSet {
    slots(text).unwrap()
}

fn task(id: &str, text: &str, state: &str, message: &str) -> Task {
    let (source, target) = ("00".repeat(20), TARGET.to_owned());
    let created_s = u64::try_from(id.len()).unwrap();
    Task {
        id: id.to_owned(),
        slots: set(text),
        source,
        target,
        state: state.to_owned(),
        message: message.to_owned(),
        created_s,
        retries: 0,
    }
}

fn asked(dialect: Dialect, left: &str, tasks: &[Task], failures: &mut Failures) -> Result<Next, String> {
    looked(dialect, (left, ""), tasks, failures)
}

fn looked(
    dialect: Dialect,
    (left, between): (&str, &str),
    tasks: &[Task],
    failures: &mut Failures,
) -> Result<Next, String> {
    let (slots, target) = (set("0-9"), NodeId::new(TARGET).unwrap());
    let asked = Asked { dialect, slots: &slots, target: &target, failures_max: FAILURES_MAX };
    asked.next(&Whereabouts { left: set(left), between: set(between) }, tasks, failures)
}

#[test]
fn a_move_is_asked_for_waited_for_and_told_done_by_who_owns_the_slots() {
    for (dialect, busy, ended) in
        [(Dialect::Valkey, "snapshotting", "success"), (Dialect::Redis, "streaming-buffer", "completed")]
    {
        let mut failures = Failures::default();
        assert_eq!(asked(dialect, "0-9", &[], &mut failures), Ok(Next::Start));
        let tasks = [task("t", "0-9", busy, "")];
        assert_eq!(asked(dialect, "0-9", &tasks, &mut failures), Ok(Next::Wait(busy.to_owned())));
        let tasks = [task("t", "0-9", ended, "")];
        assert_eq!(looked(dialect, ("", "3"), &tasks, &mut failures), Ok(Next::Settle), "not everywhere yet");
        assert_eq!(looked(dialect, ("4", "3"), &[], &mut failures), Ok(Next::Settle), "no task is known any more");
        assert_eq!(asked(dialect, "0-9", &tasks, &mut failures), Ok(Next::Start), "they have gone back since");
        assert_eq!(asked(dialect, "", &tasks, &mut failures), Ok(Next::Done));
        assert_eq!(asked(dialect, "", &[], &mut failures), Ok(Next::Done), "tasks are forgotten at a restart");
    }
}

#[test]
fn an_earlier_task_for_other_slots_or_another_target_says_nothing() {
    let mut failures = Failures::default();
    let elsewhere = Task { target: "00".repeat(20), ..task("t", "0-9", "snapshotting", "") };
    let tasks = [task("t", "10-19", "failed", "x"), elsewhere];
    assert_eq!(asked(Dialect::Valkey, "0-9", &tasks, &mut failures), Ok(Next::Start));
}

#[test]
fn the_newest_task_counts_and_one_that_is_under_way_before_all() {
    let mut failures = Failures::default();
    // As Valkey lists them: the newest first, with their times in seconds.
    let at = |id: &str, state: &str, created_s| Task { created_s, ..task(id, "0-9", state, id) };
    let under_way = [at("c", "replicating", 7), at("b", "failed", 7), at("a", "success", 6)];
    assert_eq!(asked(Dialect::Valkey, "0-9", &under_way, &mut failures), Ok(Next::Wait("replicating: c".to_owned())));
    assert_eq!(failures, Failures::default());
    assert_eq!(asked(Dialect::Valkey, "0-9", &under_way[1..], &mut failures), Ok(Next::Start));
    assert_eq!((failures.count, failures.message.as_str()), (1, "b"));
    let same_second = [at("d", "failed", 7), at("b", "failed", 7)];
    assert_eq!(asked(Dialect::Valkey, "0-9", &same_second, &mut failures), Ok(Next::Start));
    assert_eq!((failures.count, failures.message.as_str()), (1, "d"));
}

#[test]
fn the_same_failure_again_and_again_is_given_up_with_its_words() {
    let mut failures = Failures::default();
    for n in 1..=5 {
        let tasks = [task(&"t".repeat(n), "0-9", "failed", "Target node timed out")];
        let answer = asked(Dialect::Valkey, "0-9", &tasks, &mut failures);
        assert_eq!(asked(Dialect::Valkey, "0-9", &tasks, &mut failures), answer, "one task counts once");
        if n < 5 {
            assert_eq!(answer, Ok(Next::Start));
        } else {
            assert_eq!(answer.unwrap_err(), "the servers gave up 5 times: failed: Target node timed out");
        }
    }
    let tasks = [task("tttttt", "0-9", "cancelled", "another reason")];
    assert_eq!(asked(Dialect::Valkey, "0-9", &tasks, &mut failures), Ok(Next::Start), "another fault starts anew");
}

#[test]
fn redis_tries_a_failed_task_again_by_itself_and_is_stopped_after_a_while() {
    let mut failures = Failures::default();
    let again = |retries| [Task { retries, ..task("t", "0-9", "failed", "Unable to connect") }];
    let waits = asked(Dialect::Redis, "0-9", &again(4), &mut failures);
    assert_eq!(waits, Ok(Next::Wait("failed: Unable to connect".to_owned())));
    let ends = Next::Cancel("t".to_owned(), "the target tried 5 times: failed: Unable to connect".to_owned());
    assert_eq!(asked(Dialect::Redis, "0-9", &again(5), &mut failures), Ok(ends));
    let canceled = [task("t", "0-9", "canceled", "")];
    assert_eq!(asked(Dialect::Redis, "0-9", &canceled, &mut failures), Ok(Next::Start));
}

#[test]
fn nothing_is_cancelled_while_a_hand_over_is_under_way() {
    let tasks = |state| [task("t", "0-9", "success", ""), task("u", "90-99", state, "")];
    for (dialect, state, expected) in [
        (Dialect::Valkey, "waiting-to-pause", false),
        (Dialect::Valkey, "failover-paused", true),
        (Dialect::Valkey, "failover-granted", true),
        (Dialect::Redis, "failover-granted", false),
    ] {
        assert_eq!(dialect.hands_over(&tasks(state)), expected, "{state}");
    }
}

#[test]
fn slots_are_read_as_the_servers_print_them_and_written_as_they_take_them() {
    assert_eq!(pairs(&set("0-5 7-7 16383")), [(0, 5), (7, 7), (16383, 16383)]);
    assert_eq!(pairs(&set("")), []);
    for wrong in ["5-1", "16384", "a", "1-", "-1", "1-2-3"] {
        assert!(slots(wrong).is_err(), "{wrong}");
    }
}
