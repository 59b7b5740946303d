//! Durable writes per second of one member on a real disk: 64 clients against one, in turn, in one run. Batches reach
//! the disk together, so that many clients share one wait for it: at least four times as many writes.
//!
//! `cargo bench --bench writes`

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use slotkeeper::domain::{Instant as At, Principal, PrincipalName, Role, TokenId};
use slotkeeper::raft::{Config, Raft};
use slotkeeper::state::{COMMAND_VERSION, Command, Op};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);
const MANY: usize = 64;

/// Each client makes its own token and revokes it, by turns: every command is accepted and leaves an audit record.
fn command(client: usize, turn: u64) -> Command {
    let id = TokenId::new(&format!("t-{client}")).expect("a valid name");
    let op = if turn.is_multiple_of(2) {
        let name = PrincipalName::new(&format!("client-{client}")).expect("a valid name");
        Op::CreateToken { id, name, role: Role::Viewer, secret_sha256: "0".repeat(64), expires_at: None }
    } else {
        Op::RevokeToken { id, may_be_last: true }
    };
    let by = Principal::system("bench");
    Command { version: COMMAND_VERSION, at: At(1), by, reason: None, idempotency: None, op }
}

async fn writes_per_second(raft: &Raft, clients: usize) -> f64 {
    let stop = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let (raft, stop, written) = (raft.clone(), Arc::clone(&stop), Arc::clone(&written));
            tokio::spawn(async move {
                let mut turn = 0;
                // An even number of turns: the next round starts without the token.
                while !stop.load(Ordering::Relaxed) || turn % 2 == 1 {
                    let committed = raft.submit(command(client, turn)).await.expect("a leader of one member");
                    committed.applied.outcome.expect("accepted");
                    written.fetch_add(1, Ordering::Relaxed);
                    turn += 1;
                }
            })
        })
        .collect();
    tokio::time::sleep(ROUND).await;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("no client panics");
    }
    written.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::main]
async fn main() {
    // `cargo test --benches` starts this too, and wants no figures.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let dir = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a directory on a real disk");
    let (raft, _) = Raft::open(Config::new(dir.path(), "127.0.0.1:1")).await.expect("a new store");
    raft.leading().wait_for(Option::is_some).await.expect("a leader");
    let (mut one, mut many) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        one.push(writes_per_second(&raft, 1).await);
        many.push(writes_per_second(&raft, MANY).await);
        println!("round {}: 1 client {:.0}/s, {MANY} clients {:.0}/s", round + 1, one[round], many[round]);
    }
    let (one, many) = (median(one), median(many));
    let ratio = many / one;
    println!(
        "durable writes, median of {ROUNDS}: 1 client {one:.0}/s, {MANY} clients {many:.0}/s, ratio {ratio:.1} (at least 4)"
    );
    raft.shutdown().await;
}
