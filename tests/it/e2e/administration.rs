//! What the operator of a group does beside the clusters: it is in the audit, with who and when; and how to get back in
//! when no token opens the door any more.

use serde_json::json;
use slotkeeper::domain::{Instant, Principal, PrincipalName, Role};
use slotkeeper::raft::{Act, Backup};
use slotkeeper::state::{AuditHead, AuditRecord, COMMAND_VERSION, Command, Noted, Op, State};

use super::*;
use crate::harness::Group;

#[tokio::test(flavor = "multi_thread")]
async fn who_moved_the_lead_or_carried_a_backup_away_is_in_the_audit() {
    let folder = tempfile::tempdir().unwrap();
    let group = Group::start(folder.path(), [0, 1, 2]).await;
    let leader = group.leader().await;
    let next = (leader + 1) % 3;
    let to = (next + 1).to_string();
    group.members[leader].cli_ok(&["member", "transfer", &to, "--reason", "a new kernel"]);
    assert_eq!(group.leader().await, next);
    group.members[leader].cli_ok(&["member", "transfer", &to]);
    assert_eq!(group.members[next].cli(&["member", "transfer", "9"]).status.code(), Some(5));
    let file = folder.path().join("backup");
    group.members[leader].cli_ok(&["snapshot", "save", file.to_str().unwrap()]);

    let audit = audit_is_whole(&group.members[leader]).await;
    let of = |action: &str| audit.iter().filter(|record| record["action"] == action).collect::<Vec<_>>();
    let transfers = of("member.transfer");
    assert_eq!(transfers.len(), 1, "where the lead is already nothing was asked for: {transfers:?}");
    let record = transfers[0];
    assert_eq!((&record["subject"], &record["reason"]), (&json!(to), &json!("a new kernel")));
    assert_eq!((&record["by"]["name"], &record["by"]["role"]), (&json!("admin"), &json!("admin")));
    let backups = of("snapshot.save");
    assert_eq!((backups.len(), &backups[0]["by"]["name"]), (1, &json!("admin")));
    // The one that is carried away knows of itself.
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(backups[0]["hash"].as_str().unwrap()), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_member_has_can_be_carried_away_without_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut group = Group::start(folder.path(), [0, 1, 2]).await;
    group.members[1].kill_9();
    group.members[2].kill_9();
    let asked = &group.members[0];
    assert_eq!(asked.get("/v1/snapshots/latest").await.status, 503);
    let answer = asked.get("/v1/snapshots/latest?consistency=local").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(asked.log_text().contains("a snapshot is carried away by admin"), "{}", asked.log_text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_expires_takes_no_admins_place_and_a_loopback_start_lets_one_in_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("admin.token");
    let args = ["--admin-token-file", file.to_str().unwrap()];
    let mut member = Member::serve_with(folder.path(), "m", &args);
    let token = eventually("the first admin token", || async {
        std::fs::read_to_string(&file).ok().filter(|token| token.ends_with('\n'))
    })
    .await;
    token.trim().clone_into(&mut member.token);
    member.ready().await;
    let created = member.cli(&["token", "create", "heir", "--role", "admin", "--expires-in", "1h"]);
    assert!(created.status.success());
    let refused = member.cli(&["token", "revoke", "first", "--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(3) && said.contains("does not expire"), "{said}");
    assert_eq!(member.get("/v1/tokens").await.status, 200);

    // The secret is lost: whoever has the machine gets in over loopback and makes another.
    "sk_first_lost".clone_into(&mut member.token);
    assert_eq!(member.get("/v1/tokens").await.status, 401);
    assert!(member.terminate().success());
    let mut open = Member::serve(&member.data_dir(), &[], Vec::new());
    open.ready().await;
    let secret = open.cli_ok(&["token", "create", "found", "--role", "admin"]);
    assert!(open.terminate().success());
    member.start();
    secret.trim().clone_into(&mut member.token);
    member.ready().await;
    member.cli_ok(&["token", "revoke", "first", "--yes"]);
    let audit = audit_is_whole(&member).await;
    let by = audit.iter().rev().find(|record| record["action"] == "token.create").unwrap();
    assert_eq!(by["by"]["name"], "dev", "that it was nobody with a token is to be seen");
}

/// A backup whose audit begins in the middle, as that of a group that has been used for years.
async fn aged_backup(path: &std::path::Path) -> Vec<AuditRecord> {
    let mut state = State::default();
    let mut records = Vec::new();
    let by = Principal { name: PrincipalName::new("root").unwrap(), role: Role::Admin, token: None };
    for number in 0..20 {
        let op = Op::Note { what: Noted::Transfer { member: number } };
        let at = Instant(1_700_000_000_000 + number);
        let command = Command { version: COMMAND_VERSION, at, by: by.clone(), reason: None, idempotency: None, op };
        records.extend(state.apply(&command).audit);
    }
    let kept = records.split_off(12);
    let backup = Backup::of_state(20, &state, &kept).unwrap().into_stream();
    let pieces: Vec<_> = futures::StreamExt::collect(backup).await;
    let bytes: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.unwrap()).collect();
    std::fs::write(path, bytes).unwrap();
    kept
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_that_begins_later_says_where_and_stays_one_chain_over_backup_and_restore() {
    let folder = tempfile::tempdir().unwrap();
    let (file, dir) = (folder.path().join("aged"), folder.path().join("m"));
    let mut kept = aged_backup(&file).await;
    let by = Principal { name: PrincipalName::new("alice").unwrap(), role: Role::Admin, token: None };
    let act = Act { by, at: Instant(1_800_000_000_000), reason: "moved".into() };
    let members = BTreeMap::from([(1, "127.0.0.1:0".to_owned())]);
    slotkeeper::raft::restore(&file, &dir, 1, &members, &act).unwrap();
    let member = Member::serve(&dir, &[], Vec::new());
    member.ready().await;

    let listed = member.cli(&["audit", "list"]);
    let said = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert!(said.contains("records 1 to 12 are not kept any more; the chain goes on from 13"), "{said}");
    let records = member.get("/v1/audit?limit=1000").await.expect(200);
    let numbers: Vec<u64> = records["items"].as_array().unwrap().iter().map(|r| r["seq"].as_u64().unwrap()).collect();
    assert!(numbers.len() > 9 && numbers.iter().copied().eq(13..13 + numbers.len() as u64), "{numbers:?}");

    // What was kept is in the next backup as it was, and the chain from it on is whole.
    let again = folder.path().join("again");
    member.cli_ok(&["snapshot", "save", again.to_str().unwrap()]);
    let text = std::fs::read_to_string(&again).unwrap();
    let lines = text.lines().skip(2).filter_map(|line| serde_json::from_str::<AuditRecord>(line).ok());
    let found: Vec<AuditRecord> = lines.collect();
    assert_eq!(found[..kept.len()], kept);
    let before = AuditHead { seq: 12, hash: kept.remove(0).previous };
    let end = before.verify(&found).unwrap();
    assert_eq!(end.seq, 12 + found.len() as u64);
    let summary = slotkeeper::raft::inspect(&again).unwrap();
    assert_eq!(summary.audit, Some((13, end.seq)));
    // A whole audit begins without a word.
    let young = Member::dev(folder.path());
    young.ready().await;
    let said = young.cli(&["audit", "list"]);
    assert!(!String::from_utf8_lossy(&said.stderr).contains("not kept"), "{said:?}");
}
