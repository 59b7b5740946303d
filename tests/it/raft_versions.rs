//! Members of neighbouring versions in one group, and snapshots taken in pieces from whoever sends them. The version to
//! come is played by members that tell a higher feature level, and by one that is made up here altogether.

use futures::StreamExt;
use serde_json::{Value, json};
use slotkeeper::domain::Rejection;
use slotkeeper::raft::{Config, RaftError};
use slotkeeper::state::Command;

use crate::raft::*;

/// What this version does not know.
fn newer(name: &str) -> Command {
    Command { version: 2, ..create(name) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_kind_of_command_waits_until_every_member_knows_it() {
    let mut three = Three::new(quick()).await;
    for member in [0, 1] {
        three.configs[member].level = 2;
    }
    let mut members = three.start_all().await;
    must_submit(&members[0].raft, &create("a")).await;
    same_state(&members).await;
    for member in &members {
        let refused = member.raft.submit(newer("b")).await;
        assert!(matches!(refused, Err(RaftError::NotYet { needs: 2, group: 1 })), "{refused:?}");
    }
    // What everybody knows goes on, and nothing of the other kind was written.
    must_submit(&members[2].raft, &create("c")).await;
    same_state(&members).await;
    assert_eq!(names(&members[2].raft), ["a", "c"]);

    // The last member is upgraded: the group follows by itself. That the command is then refused by the state shows that
    // it was written: this version cannot apply it.
    members.pop().unwrap().stop().await;
    three.configs[2].level = 2;
    members.push(three.start(2).await);
    let upgraded = || async {
        match members[2].raft.submit(newer("b")).await {
            Ok(committed) => {
                assert_eq!(committed.applied.outcome, Err(Rejection::UnknownVersion { version: 2 }));
                true
            }
            Err(_) => false,
        }
    };
    eventually("the group is at level 2", upgraded).await;
    same_state(&members).await;
    for member in members {
        member.stop().await;
    }
}

/// A member of a group of one, and requests to its peer listener as from member 2.
struct Faked {
    member: Member,
    url: String,
    group: String,
    client: reqwest::Client,
    _dir: tempfile::TempDir,
}

impl Faked {
    async fn start() -> Self {
        let dir = tempfile::TempDir::new().unwrap();
        let address = free_addresses(1).await[0];
        let member = Member::start(Config { ..config(dir.path(), address) }).await;
        must_submit(&member.raft, &create("a")).await;
        let group = member.raft.status().group_id;
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { member, url: format!("http://{address}/raft/v1/1"), group, client, _dir: dir }
    }

    async fn ask(&self, verb: &str, body: Vec<u8>) -> (u16, String) {
        let request = self
            .client
            .post(format!("{}/{verb}", self.url))
            .header("x-slotkeeper-group", &self.group)
            .header("x-slotkeeper-member", "2")
            .header("x-slotkeeper-incarnation", "first")
            .header("x-slotkeeper-level", "2");
        let response = request.body(body).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn piece(&self, of: &Value, bytes: &[u8]) -> (u16, Value) {
        let body = [of.to_string().as_bytes(), b"\n", bytes].concat();
        let (status, text) = self.ask("snapshot", body).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_a_leader_of_a_version_to_come_are_refused_by_name_and_the_member_lives_on() {
    let faked = Faked::start().await;
    let id = json!({"leader_id": {"term": 9}, "index": 50});
    let command = |op: Value| json!({"version": 2, "at": 1, "by": {"name": "x", "role": "admin", "token": null}, "reason": null, "idempotency": null, "op": op});
    let known = json!({"op": "expire"});
    let unknown = json!({"op": "teleport", "slots": [1, 2]});
    for op in [known, unknown] {
        let body = json!({
            "vote": {"leader_id": {"term": 9, "voted_for": 2}, "committed": true},
            "prev_log_id": null,
            "entries": [{"log_id": id, "payload": {"Normal": command(op)}}],
            "leader_commit": null,
        });
        let (status, text) = faked.ask("append", body.to_string().into_bytes()).await;
        let expected = "the leader sent an entry of version 2; this member knows up to 1: upgrade it to take part";
        assert_eq!((status, text.as_str()), (400, expected));
    }
    must_submit(&faked.member.raft, &create("b")).await;
    faked.member.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_arrives_in_pieces_goes_on_after_a_lost_one_and_is_refused_when_it_is_not_what_was_announced() {
    let faked = Faked::start().await;
    let backup = faked.member.raft.backup().await.unwrap().into_stream();
    let pieces: Vec<_> = backup.map(Result::unwrap).collect().await;
    let bytes = pieces.concat();
    let sha256 = std::str::from_utf8(&bytes[bytes.len() - 67..bytes.len() - 3]).unwrap();
    // Of a leader long deposed: what it sends is taken and not used.
    let vote = json!({"leader_id": {"term": 0, "voted_for": 2}, "committed": true});
    let head = |sha256: &str, offset: usize, install: bool| json!({"vote": vote, "sha256": sha256, "bytes": bytes.len(), "offset": offset, "install": install});
    let there = |count: usize| (200, json!({"bytes": count}));
    let half = bytes.len() / 2;
    assert_eq!(faked.piece(&head(sha256, 0, false), b"").await, there(0));
    assert_eq!(faked.piece(&head(sha256, 0, false), &bytes[..100]).await, there(100));
    // Sent twice, and one that comes too early: each time it says what it has.
    assert_eq!(faked.piece(&head(sha256, 0, false), &bytes[..100]).await, there(100));
    assert_eq!(faked.piece(&head(sha256, half, false), &bytes[half..]).await, there(100));
    assert_eq!(faked.piece(&head(sha256, 100, true), b"").await, there(100));
    assert_eq!(faked.piece(&head(sha256, 100, false), &bytes[100..half]).await, there(half));
    assert_eq!(faked.piece(&head(sha256, half, false), &bytes[half..]).await, there(bytes.len()));
    let (status, answer) = faked.piece(&head(sha256, bytes.len(), true), b"").await;
    assert_eq!(status, 200, "{answer}");
    assert!(answer["installed"]["vote"]["leader_id"]["term"].as_u64().unwrap() >= 1, "{answer}");

    // Another content than announced.
    let wrong = "0".repeat(64);
    assert_eq!(faked.piece(&head(&wrong, 0, false), &bytes).await, there(bytes.len()));
    let (status, why) = faked.piece(&head(&wrong, bytes.len(), true), b"").await;
    assert!(
        status == 422 && why.as_str().unwrap().contains("not the snapshot of this group that was announced"),
        "{why}"
    );
    let mut bent = bytes.clone();
    bent[half] ^= 1;
    assert_eq!(faked.piece(&head(sha256, 0, false), &bent).await, there(bytes.len()));
    let (status, why) = faked.piece(&head(sha256, bytes.len(), true), b"").await;
    assert!(status == 422 && why.as_str().unwrap().contains("the file is cut off or was changed"), "{why}");
    must_submit(&faked.member.raft, &create("b")).await;
    faked.member.stop().await;
}
