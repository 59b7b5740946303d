//! Help, manual pages, completions.

use super::*;

/// Every command that has its own help, beside `serve` and `dev`.
const COMMANDS: &[&str] = &[
    "status",
    "cluster",
    "cluster create",
    "cluster list",
    "cluster show",
    "cluster configure",
    "cluster import",
    "cluster check",
    "cluster stats",
    "cluster export",
    "cluster delete",
    "node",
    "node add",
    "node drain",
    "node undrain",
    "node list",
    "node show",
    "node set",
    "node remove",
    "shard",
    "shard list",
    "shard show",
    "shard set",
    "shard drain",
    "shard undrain",
    "plan",
    "plan create",
    "plan list",
    "plan show",
    "plan diff",
    "plan check",
    "plan approve",
    "plan reject",
    "plan withdraw",
    "plan refresh",
    "plan start",
    "rollout",
    "rollout show",
    "rollout watch",
    "rollout pause",
    "rollout resume",
    "rollout abort",
    "rollout rollback",
    "rollout throttle",
    "topology",
    "topology get",
    "topology watch",
    "slot",
    "slot show",
    "slot explain",
    "slot of-key",
    "compare",
    "member",
    "member list",
    "token",
    "token create",
    "token list",
    "token revoke",
    "audit",
    "audit list",
    "audit tail",
    "config",
    "config check",
    "config show",
    "completions",
    "man",
    "version",
];

#[test]
fn help_of_every_command() {
    let mut whole = String::new();
    for name in COMMANDS {
        let mut args: Vec<&str> = name.split(' ').collect();
        args.push("-h");
        let run = run(&args);
        assert_eq!(run.code, 0, "{name}: {}", run.stderr);
        // The same everywhere: shown once, with the first command.
        let own = run.stdout.split("\nGlobal options:").next().unwrap();
        let shown = if whole.is_empty() { run.stdout.as_str() } else { own };
        whole.extend(["$ slotkeeper ", name, " -h\n", shown.trim_end(), "\n\n"]);
    }
    insta::assert_snapshot!(whole);
}

#[test]
fn a_manual_page_of_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man");
    assert_eq!(run(&["man", pages.to_str().unwrap()]).code, 0);
    for name in COMMANDS {
        let page = pages.join(format!("slotkeeper-{}.1", name.replace(' ', "-")));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert!(text.contains(".SH OPTIONS"), "{name}");
    }
    assert!(pages.join("slotkeeper.1").is_file());
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused = run(&["man", file.to_str().unwrap()]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains(file.to_str().unwrap()), "{}", refused.stderr);
}

#[test]
fn the_version_and_completions() {
    assert_eq!(run(&["version"]).stdout, format!("slotkeeper {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish"] {
        let run = run(&["completions", shell]);
        assert_eq!(run.code, 0);
        assert!(run.stdout.contains("rollout"), "{shell}");
    }
}
