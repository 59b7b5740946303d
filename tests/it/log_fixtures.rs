//! What version 1 wrote is read for ever: logs with every kind of command, a store, a backup, and the states they must
//! come to, kept under `tests/fixtures/log/v1`. A new kind of command is not in them, and fails
//! [`every_kind_of_command_is_in_a_recorded_log`] until a log with it is recorded beside them.
//!
//! `SLOTKEEPER_RECORD_LOG=1 cargo test --test it log_fixtures` records them anew. That is for the time before a release:
//! once version 1 is out its files never change, and what a later version adds goes into a folder of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use slotkeeper::domain::{Instant, Principal, PrincipalName, Role};
use slotkeeper::raft::{self, Act, Config, FatalHook, Raft, Tuning};
use slotkeeper::state::{COMMAND_VERSION, Change, Command, MemberChange, Noted, Op, Place, State, SteerVerb};
use tempfile::TempDir;

use crate::harness::eventually;
use crate::scene::{Words, command};

/// The conversation whose log is kept as a store.
const STORED: &str = "03-grow-with-manual";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/log/v1")
}

fn recording() -> bool {
    std::env::var_os("SLOTKEEPER_RECORD_LOG").is_some_and(|value| value == "1")
}

/// The commands of a conversation with the state machine, as `scripts` submits them.
fn commands_of(script: &Path) -> Vec<Command> {
    let (mut state, mut seconds, mut log) = (State::default(), 1000, Vec::new());
    for line in fs::read_to_string(script).unwrap().lines().filter_map(|line| line.strip_prefix("> ")) {
        let words = Words::of(line);
        match words.word(0) {
            "show" => {}
            "wait" => seconds += words.word(1).parse::<u64>().unwrap(),
            _ => {
                seconds += 1;
                let back: u64 = words.get("clock_back").unwrap_or(0);
                let command = command(&state, line, Instant((seconds - back) * 1000));
                state.apply(&command);
                log.push(command);
            }
        }
    }
    log
}

/// What no conversation has: members that come and go, and executors of terms.
fn members_and_terms() -> Vec<Command> {
    let admin = Principal { name: PrincipalName::new("root").unwrap(), role: Role::Admin, token: None };
    let add = MemberChange::Add {
        address: "10.0.0.4:7474".into(),
        above: 3,
        token: "join-4".parse().unwrap(),
        secret_sha256: "ab".repeat(32),
        expires_at: Instant(2_000_000),
    };
    let in_term = |term| Op::InTerm { term, what: Box::new(Op::Expire) };
    let member = |change| (admin.clone(), Op::Member { change });
    let note = |what| (admin.clone(), Op::Note { what });
    let executor = |op| (Principal::system("executor"), op);
    let all = [
        member(add),
        executor(Op::Lead { term: 2 }),
        executor(in_term(2)),
        executor(in_term(1)),
        member(MemberChange::Promote { member: 4 }),
        member(MemberChange::Remove { member: 4, forced: false }),
        member(MemberChange::Remove { member: 3, forced: true }),
        note(Noted::Transfer { member: 2 }),
        note(Noted::Backup),
        executor(Op::Tell {
            cluster: "main".parse().unwrap(),
            plan: "p-1".parse().unwrap(),
            cause: Some("action a-1: slot 5: 127.0.0.1:7001 does not answer".into()),
        }),
    ];
    let command = |(number, (by, op))| Command {
        version: COMMAND_VERSION,
        at: Instant(1_000_000 + number * 1000),
        by,
        reason: None,
        idempotency: None,
        op,
    };
    (0_u64..).zip(all).map(command).collect()
}

fn hash_of(log: &[Command]) -> String {
    let mut state = State::default();
    for command in log {
        state.apply(command);
    }
    state.hash()
}

/// Every recorded log by name, with the hash of the state that it must come to.
fn recorded() -> BTreeMap<String, (Vec<Command>, String)> {
    let hashes = fs::read_to_string(folder().join("hashes.txt")).unwrap();
    let hashes = hashes.lines().map(|line| line.split_once(' ').unwrap());
    let read = |name: &str| -> Vec<Command> {
        let path = folder().join(format!("{name}.jsonl"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    hashes.map(|(hash, name)| (name.to_owned(), (read(name), hash.to_owned()))).collect()
}

fn record_logs() {
    fs::create_dir_all(folder()).unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut names: Vec<_> = fs::read_dir(scripts).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let mut logs: Vec<(String, Vec<Command>)> = names
        .iter()
        .map(|script| (script.file_stem().unwrap().to_str().unwrap().to_owned(), commands_of(script)))
        .collect();
    logs.push(("17-members-and-terms".to_owned(), members_and_terms()));
    let mut hashes = Vec::new();
    for (name, log) in logs {
        let lines: Vec<_> = log.iter().map(|command| serde_json::to_string(command).unwrap() + "\n").collect();
        fs::write(folder().join(format!("{name}.jsonl")), lines.concat()).unwrap();
        hashes.push(format!("{} {name}\n", hash_of(&log)));
    }
    fs::write(folder().join("hashes.txt"), hashes.concat()).unwrap();
}

/// Names of the variants of a type, and which one a value is: a variant that is not listed does not compile.
macro_rules! kinds {
    ($of:ident, $all:ident, $type:ident { $($variant:ident),+ $(,)? }) => {
        const $all: &[&str] = &[$(stringify!($variant)),+];
        fn $of(value: &$type) -> &'static str {
            match value { $($type::$variant { .. } => stringify!($variant)),+ }
        }
    };
}

kinds!(
    op_kind,
    OPS,
    Op {
        CreateCluster,
        ConfigureCluster,
        DeleteCluster,
        Change,
        Approve,
        Reject,
        Withdraw,
        Start,
        Steer,
        Throttle,
        Begin,
        Finish,
        Fail,
        Block,
        Tell,
        Complete,
        Observe,
        Expire,
        Member,
        Note,
        Lead,
        InTerm,
        CreateToken,
        RevokeToken,
    }
);
kinds!(
    change_kind,
    CHANGES,
    Change { Import, AddNode, SetNode, DrainNode, UndrainNode, RemoveNode, SetShard, DrainShard, UndrainShard }
);
kinds!(verb_kind, VERBS, SteerVerb { Pause, Resume, Abort, RollBack });
kinds!(place_kind, PLACES, Place { NewShard, ReplicaOf });
kinds!(noted_kind, NOTES, Noted { Transfer, Backup });
kinds!(member_kind, MEMBER_CHANGES, MemberChange { Add, Promote, Remove });

#[test]
fn every_kind_of_command_is_in_a_recorded_log() {
    let mut seen = BTreeSet::new();
    for command in recorded().into_values().flat_map(|(log, _)| log) {
        seen.insert(op_kind(&command.op));
        match &command.op {
            Op::Member { change } => drop(seen.insert(member_kind(change))),
            Op::Note { what } => drop(seen.insert(noted_kind(what))),
            Op::Steer { verb, .. } => drop(seen.insert(verb_kind(verb))),
            Op::Change { changes, .. } => {
                for change in changes {
                    seen.insert(change_kind(change));
                    if let Change::AddNode { place, .. } = change {
                        seen.insert(place_kind(place));
                    }
                }
            }
            _ => {}
        }
    }
    let all = [OPS, CHANGES, VERBS, PLACES, MEMBER_CHANGES, NOTES].concat();
    let missing: Vec<_> = all.into_iter().filter(|kind| !seen.contains(kind)).collect();
    assert!(missing.is_empty(), "in no recorded log: {missing:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_version_1_wrote_comes_to_the_same_states() {
    if recording() {
        record_logs();
        record_store().await;
    }
    let recorded = recorded();
    assert!(recorded.len() >= 15);
    for (name, (log, hash)) in &recorded {
        assert_eq!(hash_of(log), *hash, "{name} comes to another state than it did");
    }

    // The store: its snapshot, the log after it, and the audit.
    let store = copy(&folder().join("store"));
    let raft = open(store.path()).await;
    let (log, hash) = &recorded[STORED];
    assert_eq!(raft.state_hash().1, *hash);
    let audit = raft.audit(0, 10_000).await.unwrap();
    let accepted = |log: &[Command]| {
        let mut state = State::default();
        log.iter().filter_map(|command| state.apply(command).audit).collect::<Vec<_>>()
    };
    assert_eq!(audit, accepted(log));
    raft.shutdown().await;

    // The backup: what it says of itself, and a group made of it.
    let backup = folder().join("backup.snapshot");
    let summary = raft::inspect(&backup).unwrap();
    assert_eq!(summary.state_hash, *hash);
    assert_eq!(summary.audit, Some((1, audit.len() as u64)));
    let dir = TempDir::new().unwrap();
    let by = Principal { name: PrincipalName::new("alice").unwrap(), role: Role::Admin, token: None };
    let act = Act { by, at: Instant(1_900_000_000_000), reason: "test".into() };
    let members = BTreeMap::from([(1, "127.0.0.1:0".to_owned())]);
    raft::restore(&backup, &dir.path().join("new"), 1, &members, &act).unwrap();
    let raft = open(&dir.path().join("new")).await;
    assert_eq!(raft.audit(0, 10_000).await.unwrap().len(), audit.len() + 1);
    raft.shutdown().await;
}

async fn open(dir: &Path) -> Raft {
    let on_fatal = FatalHook::new(|reason| panic!("fatal: {reason}"));
    let tuning = Tuning { snapshot_every: 20, entries_kept: 5, ..Tuning::default() };
    let config = Config { tuning, on_fatal, ..Config::new(dir, "127.0.0.1:0") };
    let (raft, _) = Raft::open(config).await.unwrap();
    let mut recovered = raft.recovered();
    tokio::time::timeout(crate::harness::PATIENCE, recovered.wait_for(|&yes| yes)).await.unwrap().unwrap();
    raft
}

/// Commands submitted to a real member, which snapshots and purges in between.
async fn record_store() {
    let dir = TempDir::new().unwrap();
    let raft = open(dir.path()).await;
    let (log, _) = &recorded()[STORED];
    for (number, command) in log.iter().enumerate() {
        eventually("a leader", || async { raft.submit(command.clone()).await.ok() }).await;
        if number == log.len() / 2 {
            raft.take_snapshot().await.unwrap();
        }
    }
    let backup = raft.backup().await.unwrap().into_stream();
    let pieces: Vec<_> = futures::StreamExt::collect::<Vec<_>>(backup).await;
    let bytes: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.unwrap()).collect();
    fs::write(folder().join("backup.snapshot"), bytes).unwrap();
    raft.shutdown().await;
    let store = folder().join("store");
    let _ = fs::remove_dir_all(&store);
    fs::create_dir_all(&store).unwrap();
    for entry in fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        if name == "slotkeeper.db" || Path::new(&name).extension().is_some_and(|kind| kind == "jsonl") {
            fs::copy(entry.path(), store.join(name)).unwrap();
        }
    }
}

fn copy(from: &Path) -> TempDir {
    let to = TempDir::new().unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}
