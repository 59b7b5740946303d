//! Which servers the tests run against.

use std::path::PathBuf;
use std::process::Command;

use crate::driver::redis::atomic::Dialect;

/// The server of every test that asks for no other: `redis-server`, or what `SLOTKEEPER_TEST_SERVER` names.
pub fn usual() -> PathBuf {
    named("SLOTKEEPER_TEST_SERVER").unwrap_or_else(|| "redis-server".into())
}

/// Servers that move slots by themselves, as far as `SLOTKEEPER_TEST_VALKEY` and `SLOTKEEPER_TEST_REDIS84` name some; says
/// which. Without any the protocols are tested against scripted nodes only (`tests/tasks.rs`).
pub fn that_move_slots(test: &str) -> Vec<(Dialect, PathBuf)> {
    let known = [("SLOTKEEPER_TEST_VALKEY", Dialect::Valkey), ("SLOTKEEPER_TEST_REDIS84", Dialect::Redis)];
    let mut found = Vec::new();
    for (name, dialect) in known {
        match named(name) {
            Some(binary) => {
                let output = Command::new(&binary).arg("--version").output();
                let output = output.unwrap_or_else(|error| panic!("{name}={}: {error}", binary.display()));
                println!("{test}: against a real server: {}", String::from_utf8_lossy(&output.stdout).trim());
                found.push((dialect, binary));
            }
            None => println!("{test}: not against a real server: {name} names none"),
        }
    }
    found
}

fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}
