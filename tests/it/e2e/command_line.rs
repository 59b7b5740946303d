//! The command line against a controller: every group that asks one, its output and its exit codes.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use super::*;
use crate::harness::{BINARY, PATIENCE};

/// Masters of `01-3m3r.nodes.txt`.
const FIRST: &str = "256f8fad71da49fc9bd8d75955ece32c6c0cd817";
const LAST: &str = "3ff99ba2b5e26e3974d67804ec06fc2106c86fea";
/// A replica of the last.
const REPLICA: &str = "80ad6197a3463699a3e5cf35e01b589d759c2136";
/// Keeps a rollout of 4096 slots going for more than a minute.
const SLOW: [&str; 2] = ["--slots-per-second", "50"];
/// Ends it within seconds.
const FAST: [&str; 2] = ["--slots-per-second", "4000"];

/// What the command said as JSON.
fn json(member: &Member, args: &[&str]) -> Value {
    let out = member.cli_ok(&[args, &["-o", "json"]].concat());
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}\n{out}"))
}

/// The command ends with this code; what it said on stderr.
#[track_caller]
fn ends(member: &Member, args: &[&str], code: i32) -> String {
    let output = member.cli(args);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
    assert!(!err.contains("panicked"), "{args:?}\n{err}");
    err.into_owned()
}

/// The command says all of this on stdout.
#[track_caller]
fn says(member: &Member, args: &[&str], expected: &[&str]) -> String {
    let out = member.cli_ok(args);
    for words in expected {
        assert!(out.contains(words), "{args:?} does not say {words:?}:\n{out}");
    }
    out
}

fn names<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap()).collect()
}

/// A plan proposed over the command line.
fn propose_by_hand(member: &Member, args: &[&str]) -> Value {
    let answer = json(member, &[&["plan", "create"], args].concat());
    answer["plan"].clone()
}

#[track_caller]
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// Approves with every acknowledgement that is asked for.
fn approve(member: &Member, plan: &Value) {
    let mut args = vec!["plan", "approve", text(plan, "id"), "--digest", text(plan, "digest")];
    for check in plan["checks"].as_array().unwrap().iter().filter(|check| check["needs_ack"] == true) {
        args.extend(["--ack", text(check, "code")]);
    }
    says(member, &args, &["is approved (1 of 1 approvals)", "plan start"]);
}

/// A command that runs until it is ended: a line of its output at a time.
struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Running {
    fn start(member: &Member, args: &[&str]) -> Self {
        // What started the tests in the background may have left Ctrl-C ignored, and that is inherited.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", BINARY]).args(args).args(["--endpoint", &member.url]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Self { child, lines }
    }

    /// The next line with these words.
    fn until(&mut self, words: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => seen.push(line),
                Err(error) => {
                    drop(self.child.kill());
                    panic!("no line says {words:?} ({error}): {seen:#?}\n{}", self.stderr());
                }
            }
        }
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// Ctrl-C; the exit code, none when the signal ended it, and what stderr said.
    fn interrupt(mut self) -> (Option<i32>, String) {
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        self.end()
    }

    fn end(&mut self) -> (Option<i32>, String) {
        let text = self.stderr();
        (self.child.wait().unwrap().code(), text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A controller whose cluster `default` is the real one of the fixture.
async fn adopted(folder: &std::path::Path) -> Member {
    let member = Member::dev(folder);
    member.ready().await;
    let file = folder.join("nodes.txt");
    std::fs::write(&file, fixture("01-3m3r.nodes.txt")).unwrap();
    let said = says(&member, &["cluster", "import", file.to_str().unwrap()], &["6 nodes in 3 shards"]);
    assert!(said.contains("0 slots without an owner"), "{said}");
    // Published too, once a linearizable read has seen it.
    says(&member, &["cluster", "check"], &["3 shards, 3 ranges, 16384 of 16384 slots owned"]);
    member
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_members_tokens_and_settings() {
    let folder = tempfile::tempdir().unwrap();
    let member = adopted(folder.path()).await;
    let m = &member;
    says(m, &["status"], &["ready", "you are", "default"]);
    assert_eq!(json(m, &["status"])["role"], "leader");
    assert_eq!(json(m, &["member", "list"]).as_array().unwrap().len(), 1);
    says(m, &["member", "list"], &["PEER ADDRESS", "leader"]);

    says(m, &["cluster", "create", "other", "--driver", "manual", "--reason", "try"], &["other", "manual"]);
    assert!(ends(m, &["cluster", "create", "other"], 3).contains("other"));
    let list = json(m, &["cluster", "list"]);
    assert_eq!(names(&list, "name"), ["default", "other"]);
    let set = ["cluster", "configure", "other", "--approvals", "2", "--slots-per-second", "7"];
    says(m, &set, &["2 approvals", "slots/s 7"]);
    let shown = json(m, &["cluster", "show", "other"]);
    assert_eq!((&shown["policy"]["approvals"], &shown["policy"]["limits"]["slots_per_second"]), (&json!(2), &json!(7)));
    assert!(ends(m, &["cluster", "configure", "other"], 2).contains("nothing to change"));
    let nights = ["cluster", "configure", "other", "--approvals", "1", "--window", "mon-fri 22:00-06:00"];
    let said = says(m, &nights, &["1 approval,", "mon-fri 22:00-06:00 (UTC)"]);
    assert!(!said.contains("1 approvals"), "{said}");
    ends(m, &["cluster", "configure", "other", "--window", "22:00-06:00"], 2);
    says(m, &["cluster", "configure", "other", "--window", "none"], &["any time"]);
    ends(m, &["cluster", "show", "nobody"], 5);
    ends(m, &["cluster", "check", "other"], 3);

    // What is exported can be adopted again, with the same owners.
    let exported = folder.path().join("exported.txt");
    std::fs::write(&exported, m.cli_ok(&["cluster", "export"])).unwrap();
    says(m, &["--cluster", "other", "cluster", "import", exported.to_str().unwrap()], &["6 nodes in 3 shards"]);
    says(m, &["cluster", "check", "other"], &["16384 of 16384 slots owned"]);
    let owners = |cluster| json(m, &["--cluster", cluster, "topology", "get"])["shards"].clone();
    assert_eq!(owners("other"), owners("default"));
    std::fs::write(&exported, "").unwrap();
    let refused = ends(m, &["cluster", "import", exported.to_str().unwrap()], 2);
    assert!(refused.contains("the text is empty") && !refused.contains("line 0"), "{refused}");

    assert!(ends(m, &["cluster", "delete", "other"], 8).contains("--yes"));
    says(m, &["cluster", "delete", "other", "--yes"], &["other is deleted"]);
    ends(m, &["cluster", "delete", "other", "--yes"], 5);

    let created = json(m, &["token", "create", "alice", "--role", "viewer", "--expires-in", "1h"]);
    let id = text(&created["token"], "id");
    let secret = folder.path().join("alice.token");
    std::fs::write(&secret, text(&created, "secret")).unwrap();
    let readable = ends(m, &["--token-file", secret.to_str().unwrap(), "status"], 2);
    assert!(readable.contains("alice.token") && readable.contains("chmod 600"), "{readable}");
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let alice = ["--token-file", secret.to_str().unwrap()];
    says(m, &[&["status"][..], &alice].concat(), &["you are alice (viewer)"]);
    ends(m, &[&["cluster", "create", "mine"][..], &alice].concat(), 4);
    assert!(names(&json(m, &["token", "list"]), "name").contains(&"alice"));
    assert!(ends(m, &["token", "revoke", id], 8).contains("--yes"));
    says(m, &["token", "revoke", id, "-y"], &["is revoked"]);
    ends(m, &[&["status"][..], &alice].concat(), 4);
    ends(m, &["token", "revoke", "nobody", "-y"], 5);

    says(m, &["config", "check"], &["ok"]);
    assert_eq!(json(m, &["config", "show"])["endpoints"], json!([m.url]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_shards_change_what_is_desired() {
    let folder = tempfile::tempdir().unwrap();
    let member = adopted(folder.path()).await;
    let m = &member;
    let added = json(m, &["node", "add", "127.0.0.1:21003", "--name", "new-1", "--zone", "a", "--reason", "more"]);
    assert_eq!((&added["shard"], &added["plan"]["slots"]), (&json!("new-1"), &json!(4096)));
    says(m, &["node", "add", "127.0.0.1:21013", "--name", "new-2", "--replica-of", "new-1"], &["new-2"]);
    assert!(ends(m, &["node", "add", "127.0.0.1:21003"], 3).contains("21003"));
    assert_eq!(json(m, &["node", "list"]).as_array().unwrap().len(), 8);
    says(m, &["node", "list"], &["NODE", "new-1", &FIRST[..8]]);
    says(m, &["node", "set", "new-1", "--zone", "b"], &["is changed"]);
    // By a beginning of the id, by address.
    assert_eq!(json(m, &["node", "show", "new-1"])["zone"], "b");
    assert_eq!(json(m, &["node", "show", "127.0.0.1:21000"])["id"], FIRST);
    assert_eq!(json(m, &["node", "show", &REPLICA[..6]])["shard"], LAST);
    ends(m, &["node", "show", "nobody"], 5);
    assert!(ends(m, &["node", "remove", FIRST, "--yes"], 3).contains("in use"));
    assert!(ends(m, &["node", "remove", "new-2"], 8).contains("--yes"));
    says(m, &["node", "remove", "new-2", "--yes"], &["new-2 is removed"]);
    ends(m, &["node", "show", "new-2"], 5);

    // Its shard has another node, so that the shard stays.
    assert!(ends(m, &["node", "drain", LAST], 8).contains("--yes"));
    let drained = json(m, &["node", "drain", LAST, "--yes"]);
    assert_eq!(drained["node"]["state"], "draining", "{drained}");
    assert!(drained["plan"]["id"].is_string(), "{drained}");
    assert_eq!(json(m, &["shard", "show", LAST])["state"], "active");
    let said = says(m, &["node", "undrain", LAST], &["is active again", &LAST[..8]]);
    assert!(!said.contains(LAST), "{said}");
    assert_eq!(json(m, &["node", "show", LAST])["state"], "active");

    assert_eq!(json(m, &["shard", "list"]).as_array().unwrap().len(), 4);
    says(m, &["shard", "list"], &["WEIGHT", &LAST[..8], "10923-16383"]);
    assert_eq!(json(m, &["shard", "show", FIRST])["slots"], 5461);
    let set = json(m, &["shard", "set", FIRST, "--weight", "2", "--max-slots", "8000", "--pin", "0-9"]);
    assert_eq!((&set["shard"]["weight"], &set["shard"]["max_slots"]), (&json!(2), &json!(8000)));
    assert!(set["plan"]["id"].is_string(), "{set}");
    assert!(ends(m, &["shard", "drain", LAST], 8).contains("--yes"));
    let said = says(m, &["shard", "drain", LAST, "-y", "--no-propose"], &["is draining", &LAST[..8]]);
    assert!(!said.contains(LAST), "{said}");
    assert_eq!(json(m, &["shard", "show", LAST])["state"], "draining");
    says(m, &["shard", "undrain", LAST], &["is active again"]);
    ends(m, &["shard", "show", "nobody"], 5);

    // Ids are short for people, whole where asked for.
    let shown = says(m, &["slot", "show", "5"], &[&FIRST[..8], "127.0.0.1:21000"]);
    assert!(!shown.contains(FIRST), "{shown}");
    says(m, &["slot", "show", "5", "-o", "wide"], &[FIRST]);
    assert_eq!(json(m, &["slot", "show", "5"])["shard"], FIRST);
    let explained = says(m, &["slot", "explain", "5"], &[&FIRST[..8], "pinned"]);
    assert!(!explained.contains(FIRST), "{explained}");
    assert_eq!(m.cli_ok(&["slot", "of-key", "foo"]).trim(), "12182");
    let audit = says(m, &["audit", "list"], &["node.add", &LAST[..8], " | more"]);
    assert!(!audit.contains(LAST), "{audit}");
    assert!(audit.lines().all(|line| line.chars().count() <= 94), "{audit}");
    says(m, &["audit", "list", "-o", "wide"], &[LAST]);
    let adds = json(m, &["audit", "list", "--action", "node.add"]);
    assert_eq!(names(&adds, "subject"), ["new-1", "new-2"]);

    // The tail prints what is there, and then what comes.
    let mut tail = Running::start(m, &["audit", "tail", "--action", "token.create"]);
    m.cli_ok(&["token", "create", "bob", "--role", "viewer"]);
    tail.until("bob");
    m.cli_ok(&["token", "create", "carol", "--role", "viewer"]);
    tail.until("carol");
    let (_, said) = tail.interrupt();
    assert_eq!(said, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_are_proposed_compared_and_reviewed() {
    let folder = tempfile::tempdir().unwrap();
    let member = adopted(folder.path()).await;
    let m = &member;
    let nodes = folder.path().join("nodes.json");
    std::fs::write(&nodes, json(m, &["topology", "get"]).to_string()).unwrap();
    let add = ["--add", "127.0.0.1:21003,name=new-1"];
    ends(m, &[&["plan", "create", "--dry-run", "--detailed-exitcode"][..], &add].concat(), 10);
    ends(m, &["plan", "create", "--dry-run", "--detailed-exitcode"], 0);
    assert_eq!(json(m, &["plan", "list"]), json!([]), "a dry run stores nothing");
    let first = propose_by_hand(m, &[&add[..], &["--reason", "more"]].concat());
    let (id, digest) = (text(&first, "id"), text(&first, "digest"));
    says(m, &["plan", "show", id], &["PROPOSED", digest, "4096", "MINIMAL", "plan approve"]);
    says(m, &["plan", "show", id, "--slot", "16383"], &["16383"]);
    ends(m, &["plan", "show", "p-nobody"], 5);

    let file = folder.path().join("plan.json");
    std::fs::write(&file, json(m, &["plan", "show", id]).to_string()).unwrap();
    let check = ["plan", "check", file.to_str().unwrap(), "--nodes", nodes.to_str().unwrap()];
    says(m, &check, &["is what it says it is"]);

    // The same again, and one that asks for something else.
    let same = propose_by_hand(m, &["--reason", "more"]);
    let said = m.cli_ok(&["plan", "diff", id, text(&same, "id")]);
    assert!(said.contains("nothing differs") && !said.contains("0 moves"), "{said}");
    let slower = propose_by_hand(m, &["--reason", "slower", "--slots-per-second", "9"]);
    let differs = ["reason            more   slower", "slots per second  64     9", "Both move the same slots."];
    says(m, &["plan", "diff", id, text(&slower, "id")], &differs);
    let other = propose_by_hand(m, &["--drain-shard", &LAST[..8], "--slots-per-move", "3"]);
    says(m, &["plan", "diff", id, text(&other, "id")], &["drain", "slots per move", "moved only by the second"]);
    let diff = json(m, &["plan", "diff", id, text(&other, "id")]);
    assert!(!diff["only_in_second"].as_array().unwrap().is_empty(), "{diff}");
    ends(m, &["plan", "diff", id, "p-nobody"], 5);

    let states = json(m, &["plan", "list"]);
    assert_eq!(names(&states, "id").len(), 4, "{states}");
    let wrong = "sha256:".to_owned() + &"0".repeat(64);
    let last = text(&other, "id");
    assert!(ends(m, &["plan", "approve", last, "--digest", &wrong], 3).contains("digest"));
    assert_eq!(json(m, &["plan", "show", last])["state"], "proposed");
    let said = says(m, &["plan", "reject", last, "--revert-intent", "--reason", "not now"], &["is rejected"]);
    assert!(said.contains("Taken back: ") || said.contains("Left as it is: "), "{said}");
    assert_eq!(json(m, &["shard", "show", LAST])["state"], "active");
    assert!(ends(m, &["plan", "start", last, "--yes"], 3).contains(last));
    let listed = json(m, &["plan", "list", "--state", "rejected"]);
    assert_eq!(names(&listed, "id"), [last]);

    // A change of the cluster makes a plan stale; refreshed it can be taken back.
    let stale = propose_by_hand(m, &["--weight", &format!("{}=2", &FIRST[..8])]);
    says(m, &["shard", "set", FIRST, "--weight", "3", "--no-propose"], &["is changed"]);
    let refused = ends(m, &["plan", "approve", text(&stale, "id"), "--digest", text(&stale, "digest")], 3);
    assert!(refused.contains("plan refresh"), "{refused}");
    let fresh = json(m, &["plan", "refresh", text(&stale, "id")])["plan"].clone();
    assert_eq!(fresh["supersedes"], stale["id"]);
    assert_eq!(json(m, &["plan", "show", text(&stale, "id")])["state"], "superseded");
    says(m, &["plan", "withdraw", text(&fresh, "id")], &["is withdrawn"]);
    ends(m, &["rollout", "show"], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn rollouts_are_watched_and_steered() {
    let folder = tempfile::tempdir().unwrap();
    let member = adopted(folder.path()).await;
    let m = &member;
    let plan = propose_by_hand(m, &[&["--add", "127.0.0.1:21003,name=new-1"][..], &SLOW].concat());
    let id = text(&plan, "id");
    approve(m, &plan);
    let mut topology = Running::start(m, &["topology", "watch"]);
    topology.until("epoch");
    assert!(ends(m, &["plan", "start", id], 8).contains("--yes"));
    says(m, &["plan", "start", id, "--yes"], &["is running", "rollout watch"]);
    topology.until("slots moving");
    topology.until("new-1:");
    drop(topology);

    let mut watch = Running::start(m, &["rollout", "watch"]);
    watch.until("running");
    let (code, said) = watch.interrupt();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("the rollout continues") && said.contains(id), "{said}");
    assert_eq!(json(m, &["rollout", "show"])["state"], "running");

    says(m, &["rollout", "throttle", "--slots-per-second", "20"], &["throttled to 20 slots/s (approved: 50 slots/s)"]);
    ends(m, &["rollout", "throttle", "--slots-per-second", "51"], 2);
    ends(m, &["rollout", "throttle", "--slots-per-second", "none"], 0);
    says(m, &["rollout", "pause", "--reason", "look"], &["paused"]);
    says(m, &["rollout", "resume"], &["running"]);
    let said = says(m, &["rollout", "show", id, "--full"], &["4096 slots", "started by", &LAST[..8]]);
    assert!(!said.contains(LAST), "{said}");
    assert!(ends(m, &["rollout", "abort"], 8).contains("--yes"));
    assert!(ends(m, &["rollout", "rollback"], 8).contains("--yes"));
    m.cli_ok(&["rollout", "abort", "--yes", "--reason", "enough"]);
    ends(m, &["rollout", "watch", id], 7);
    assert_eq!(json(m, &["rollout", "show", id])["state"], "aborted");

    // The rest, back, and to the end.
    let plan = propose_by_hand(m, &SLOW);
    approve(m, &plan);
    m.cli_ok(&["plan", "start", text(&plan, "id"), "--yes"]);
    until_slots_done(m, &plan, 1).await;
    assert!(ends(m, &["rollout", "rollback", "--yes"], 3).contains("stale-cache"));
    m.cli_ok(&["rollout", "rollback", "--yes", "--ack", "stale-cache"]);
    ends(m, &["rollout", "watch", text(&plan, "id")], 7);
    assert_eq!(json(m, &["rollout", "show", text(&plan, "id")])["state"], "rolled_back");
    says(m, &[&["cluster", "configure"][..], &FAST].concat(), &["slots/s 4000"]);
    let plan = propose_by_hand(m, &[]);
    approve(m, &plan);
    let lines = m.cli_ok(&["plan", "start", text(&plan, "id"), "--yes", "--watch", "-o", "jsonl"]);
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(last["state"], "succeeded");
    says(m, &["cluster", "check"], &["4 shards"]);
    says(m, &["topology", "get"], &["new-1"]);
    assert_eq!(json(m, &["shard", "show", "new-1"])["slots"], 4096);
    ends(m, &["plan", "create", "--detailed-exitcode"], 0);
    let undo = propose_by_hand(m, &["--revert", text(&plan, "id")]);
    assert_eq!(undo["reverts"], plan["id"]);
    says(m, &["plan", "withdraw", text(&undo, "id")], &["is withdrawn"]);
}
