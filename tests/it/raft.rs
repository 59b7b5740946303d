//! Real members with real stores, talking over loopback: alone, in threes, killed, restarted, damaged.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use slotkeeper::domain::{ClusterId, ClusterName, DriverKind, Instant, MemberId, Policy, Principal};
use slotkeeper::raft::{Committed, Config, FatalHook, OpenError, Raft, RaftError, Tuning};
use slotkeeper::state::{COMMAND_VERSION, Command, Op};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Commands after which a member that missed them needs a snapshot.
const TURNS: usize = 700;
/// No step of a test takes longer on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

pub fn create(name: &str) -> Command {
    Command {
        version: COMMAND_VERSION,
        at: Instant(1_000),
        by: Principal::system("test"),
        reason: None,
        idempotency: None,
        op: Op::CreateCluster {
            name: ClusterName::new(name).unwrap(),
            id: ClusterId::new(&format!("id-{name}")).unwrap(),
            driver: DriverKind::Manual,
            policy: Policy::default_for(DriverKind::Manual),
        },
    }
}

/// A command that leaves nothing but an audit record behind: creates and deletes by turns, so that no bound is reached.
pub fn turn(number: usize) -> Command {
    let name = ClusterName::new("turn").unwrap();
    match number % 2 {
        0 => create("turn"),
        _ => Command { op: Op::DeleteCluster { name, if_match: None }, ..create("turn") },
    }
}

pub fn names(raft: &Raft) -> Vec<String> {
    raft.read(|state| state.clusters.keys().map(ToString::to_string).collect())
}

/// Retries what may be refused while there is no leader. Only for commands whose repetition does no harm here.
pub async fn must_submit(raft: &Raft, command: &Command) -> Committed {
    let submit = async {
        loop {
            match raft.submit(command.clone()).await {
                Ok(committed) => return committed,
                Err(RaftError::NoLeader | RaftError::Timeout) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    timeout(DEADLINE, submit).await.expect("no write went through")
}

pub async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let poll = async {
        while !holds().await {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, poll).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// A member with its listener, stopped when dropped.
pub struct Member {
    pub raft: Raft,
    serving: JoinHandle<()>,
}

impl Member {
    pub async fn start(config: Config) -> Self {
        let address: SocketAddr = config.peer_address.parse().unwrap();
        let (raft, router) = Raft::open(config).await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        let listener = socket.listen(64).unwrap();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { raft, serving }
    }

    pub async fn stop(self) {
        self.serving.abort();
        self.raft.shutdown().await;
    }

    pub async fn recovered(&self) {
        let mut recovered = self.raft.recovered();
        timeout(DEADLINE, recovered.wait_for(|&yes| yes)).await.expect("recovered in time").unwrap();
    }
}

pub fn quick() -> Tuning {
    Tuning { heartbeat_ms: 50, election_min_ms: 200, election_max_ms: 400, ..Tuning::default() }
}

pub fn config(dir: &Path, address: SocketAddr) -> Config {
    let on_fatal = FatalHook::new(|reason| panic!("fatal: {reason}"));
    Config { tuning: quick(), on_fatal, ..Config::new(dir, &address.to_string()) }
}

/// Addresses nobody listens at. Held together, so that they differ.
pub async fn free_addresses(count: usize) -> Vec<SocketAddr> {
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    held.iter().map(|listener| listener.local_addr().unwrap()).collect()
}

/// Configurations of a group of three.
pub struct Three {
    _dirs: Vec<TempDir>,
    pub configs: Vec<Config>,
}

impl Three {
    pub async fn new(tuning: Tuning) -> Self {
        let dirs: Vec<TempDir> = (0..3).map(|_| TempDir::new().unwrap()).collect();
        let addresses = free_addresses(3).await;
        let initial_members: BTreeMap<MemberId, String> =
            (1..).zip(addresses.iter().map(ToString::to_string)).collect();
        let configs = dirs
            .iter()
            .zip(&addresses)
            .map(|(dir, address)| Config {
                initial_members: initial_members.clone(),
                tuning: tuning.clone(),
                ..config(dir.path(), *address)
            })
            .collect();
        Self { _dirs: dirs, configs }
    }

    pub async fn start(&self, member: usize) -> Member {
        Member::start(self.configs[member].clone()).await
    }

    pub async fn start_all(&self) -> Vec<Member> {
        let mut members = Vec::new();
        for member in 0..3 {
            members.push(self.start(member).await);
        }
        members
    }
}

/// Position of the member that leads, once one does.
pub async fn leader_of(members: &[Member]) -> usize {
    let seek = async {
        loop {
            if let Some(found) = members.iter().position(|member| member.raft.leading().borrow().is_some()) {
                return found;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, seek).await.expect("a leader in time")
}

/// Index of the first entry in the log of a member's store.
pub fn first_entry(dir: &Path) -> Option<u64> {
    let connection = rusqlite::Connection::open(dir.join("slotkeeper.db")).unwrap();
    let first: Option<i64> = connection.query_row("SELECT min(idx) FROM raft_log", [], |row| row.get(0)).unwrap();
    first.map(|first| u64::try_from(first).unwrap())
}

pub async fn same_state(members: &[Member]) {
    eventually("the same state on all members", || async {
        let hashes: Vec<_> = members.iter().map(|member| member.raft.state_hash()).collect();
        hashes.iter().all(|hash| *hash == hashes[0])
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_member_starts_itself_and_keeps_what_it_acknowledged() {
    let dir = TempDir::new().unwrap();
    let address = free_addresses(1).await[0];
    let member = Member::start(config(dir.path(), address)).await;
    let committed = must_submit(&member.raft, &create("a")).await;
    assert!(committed.applied.outcome.is_ok());
    assert!(*member.raft.applied().borrow() >= committed.index);
    member.raft.linearize().await.unwrap();
    let status = member.raft.status();
    assert_eq!((status.id, status.leader, status.role, status.stale_ms), (1, Some(1), "leader", Some(0)));
    assert_eq!(status.members, [(1, address.to_string())]);
    assert!(status.recovered && status.committed >= committed.index);
    assert_eq!(*member.raft.leading().borrow(), Some(status.term));
    let hash = member.raft.state_hash();
    let audit = member.raft.audit(0, 10).await.unwrap();
    assert_eq!(audit.len(), 1);
    member.stop().await;

    let member = Member::start(config(dir.path(), address)).await;
    member.recovered().await;
    member.raft.linearize().await.unwrap();
    assert_eq!(names(&member.raft), ["a"]);
    assert_eq!(member.raft.state_hash().1, hash.1);
    assert_eq!(member.raft.audit(0, 10).await.unwrap(), audit);
    assert_eq!(member.raft.status().group_id, status.group_id);
    member.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_members_start_in_any_order_and_any_of_them_takes_writes() {
    for order in [[0, 1, 2], [2, 0, 1]] {
        let three = Three::new(quick()).await;
        let mut members = Vec::new();
        for member in order {
            members.push(three.start(member).await);
        }
        for (number, member) in members.iter().enumerate() {
            let name = format!("by-{number}");
            let committed = must_submit(&member.raft, &create(&name)).await;
            // Applied here too, whoever leads.
            assert!(names(&member.raft).contains(&name), "{committed:?}");
            member.raft.linearize().await.unwrap();
            assert_eq!(names(&member.raft).len(), number + 1);
        }
        same_state(&members).await;
        let statuses: Vec<_> = members.iter().map(|member| member.raft.status()).collect();
        assert!(statuses.iter().all(|status| status.group_id == statuses[0].group_id && status.recovered));
        assert!(statuses.iter().all(|status| status.leader == statuses[0].leader && status.members.len() == 3));
        assert!(statuses.iter().all(|status| status.stale_ms.is_some_and(|stale| stale < 10_000)), "{statuses:?}");
        for member in members {
            member.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_leader_decided_in_a_term_is_not_carried_to_another_leader_or_term() {
    let three = Three::new(quick()).await;
    let members = three.start_all().await;
    must_submit(&members[0].raft, &create("before")).await;
    let (leader, other) = (leader_of(&members).await, |leader: usize| (leader + 1) % 3);
    let (old, next) = (&members[leader].raft, &members[other(leader)].raft);
    let term = old.status().term;
    assert!(old.submit_in(term, create("in-time")).await.unwrap().applied.outcome.is_ok());
    let refused =
        |answer: Result<Committed, RaftError>| assert!(matches!(answer, Err(RaftError::NoLeader)), "{answer:?}");
    refused(old.submit_in(term + 1, create("too-soon")).await);
    refused(next.submit_in(term, create("elsewhere")).await);

    old.transfer_leader(next.status().id).await.unwrap();
    eventually("the other leads", || async { next.leading().borrow().is_some_and(|now| now > term) }).await;
    // Whether or not it has heard of its successor, which a plain write would be forwarded to.
    refused(old.submit_in(term, create("too-late")).await);
    must_submit(old, &create("forwarded")).await;
    same_state(&members).await;
    assert_eq!(names(next), ["before", "forwarded", "in-time"]);
    for member in members {
        member.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_ends_and_another_goes_on_and_nothing_is_lost_over_a_restart_of_all() {
    let three = Three::new(quick()).await;
    let mut members = three.start_all().await;
    must_submit(&members[0].raft, &create("before")).await;
    let leader = leader_of(&members).await;
    let old_term = members[leader].raft.status().term;
    let id = members[leader].raft.status().id;
    members.remove(leader).stop().await;
    must_submit(&members[0].raft, &create("after")).await;
    let next = leader_of(&members).await;
    assert!(members[next].raft.status().term > old_term);
    same_state(&members).await;

    let returned = three.start(usize::try_from(id).unwrap() - 1).await;
    returned.recovered().await;
    returned.raft.linearize().await.unwrap();
    assert_eq!(names(&returned.raft), ["after", "before"]);
    members.push(returned);
    same_state(&members).await;
    let hash = members[0].raft.state_hash().1;

    for member in members {
        member.stop().await;
    }
    let members = three.start_all().await;
    // Asked from the first moment on: a read waits or is refused, but never answers from before the restart.
    futures::future::join_all(members.iter().map(|member| async {
        timeout(DEADLINE, async { while member.raft.linearize().await.is_err() {} }).await.expect("a read in time");
        assert_eq!(names(&member.raft), ["after", "before"]);
    }))
    .await;
    for member in &members {
        assert!(member.raft.status().recovered);
        assert_eq!(member.raft.state_hash().1, hash);
        assert_eq!(member.raft.audit(0, 10).await.unwrap().len(), 2);
    }
    for member in members {
        member.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_without_a_majority_answers_within_its_time() {
    let three = Three::new(quick()).await;
    let mut members = three.start_all().await;
    must_submit(&members[0].raft, &create("a")).await;
    members.remove(0).stop().await;
    members.remove(0).stop().await;
    let alone = members.pop().unwrap();
    let started = std::time::Instant::now();
    // A leader that lost its followers has written the command and cannot know what becomes of it; the others know.
    let refused = alone.raft.submit(create("b")).await;
    assert!(matches!(refused, Err(RaftError::NoLeader | RaftError::Timeout)), "{refused:?}");
    assert!(matches!(alone.raft.linearize().await, Err(RaftError::NoLeader)));
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    eventually("it knows that it is stale", || async { alone.raft.status().stale_ms > Some(400) }).await;
    alone.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_lagged_behind_the_purged_log_catches_up_from_a_snapshot() {
    let tuning = Tuning { snapshot_every: 200, entries_kept: 20, ..quick() };
    let three = Three::new(tuning).await;
    let mut members = three.start_all().await;
    must_submit(&members[0].raft, &create("first")).await;
    same_state(&members).await;
    let lagging = members.remove(2);
    let (lagging_at, _) = lagging.raft.state_hash();
    lagging.stop().await;

    leader_of(&members).await;
    for number in 0..TURNS {
        must_submit(&members[0].raft, &turn(number)).await;
    }
    for member in &three.configs[..2] {
        eventually("what the lagging member needs is purged", || async {
            first_entry(&member.data_dir).is_some_and(|first| first > lagging_at + 1)
        })
        .await;
    }
    let member = three.start(2).await;
    member.recovered().await;
    members.push(member);
    same_state(&members).await;
    let (index, _) = members[2].raft.state_hash();
    assert!(index >= lagging_at + TURNS as u64);
    let audits: Vec<_> = {
        let mut audits = Vec::new();
        for member in &members {
            audits.push(member.raft.audit(0, 5000).await.unwrap());
        }
        audits
    };
    assert_eq!(audits[0].len(), TURNS + 1);
    assert!(audits.iter().all(|audit| *audit == audits[0]), "the audit chain came with the snapshot");

    // The member goes on from the snapshot that it was given.
    members.pop().unwrap().stop().await;
    let member = three.start(2).await;
    member.recovered().await;
    members.push(member);
    same_state(&members).await;
    for member in members {
        member.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_lost_its_store_may_not_act_under_its_old_id() {
    let three = Three::new(quick()).await;
    let mut members = three.start_all().await;
    for member in &members {
        must_submit(&member.raft, &create("a")).await;
    }
    same_state(&members).await;
    // A follower: the leader's own store is what the others follow.
    let leader = leader_of(&members).await;
    let lost = (leader + 1) % 3;
    members.remove(lost).stop().await;
    std::fs::remove_dir_all(&three.configs[lost].data_dir).unwrap();
    let (sent, mut fatal) = tokio::sync::mpsc::unbounded_channel();
    let on_fatal = FatalHook::new(move |reason| drop(sent.send(reason.to_owned())));
    let wiped = Member::start(Config { on_fatal, ..three.configs[lost].clone() }).await;

    // With its vote, an old leader could be elected again: it has none, and it ends.
    let reason = timeout(DEADLINE, fatal.recv()).await.expect("it is told in time").unwrap();
    assert!(reason.contains("has another store than before"), "{reason}");
    assert!(wiped.raft.submit(create("c")).await.is_err());
    must_submit(&members[0].raft, &create("b")).await;
    assert_eq!(names(&members[0].raft), ["a", "b"]);
    same_state(&members).await;
    for member in members {
        member.stop().await;
    }
    wiped.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lead_is_handed_over_on_request() {
    let three = Three::new(quick()).await;
    let members = three.start_all().await;
    must_submit(&members[0].raft, &create("a")).await;
    same_state(&members).await;
    let leader = leader_of(&members).await;
    let next = (leader + 1) % 3;
    members[leader].raft.transfer_leader(members[next].raft.status().id).await.unwrap();
    let mut leading = members[next].raft.leading();
    timeout(DEADLINE, leading.wait_for(Option::is_some)).await.expect("it leads in time").unwrap();
    must_submit(&members[leader].raft, &create("b")).await;
    for member in members {
        member.stop().await;
    }
}

async fn open_error(config: Config) -> OpenError {
    Raft::open(config).await.err().expect("refused")
}

#[tokio::test]
async fn a_contradiction_in_the_configuration_or_a_foreign_store_is_refused() {
    let three = Three::new(quick()).await;
    let first = &three.configs[0];

    let unlisted = Config { peer_address: "127.0.0.1:9".into(), ..first.clone() };
    assert!(open_error(unlisted.clone()).await.to_string().contains("is not among the initial members"));
    let wrong_id = Config { member_id: Some(2), ..first.clone() };
    assert!(open_error(wrong_id).await.to_string().contains("is member 1 of the initial members, not 2"));
    let unknown_id = Config { member_id: Some(7), ..unlisted };
    assert!(open_error(unknown_id).await.to_string().contains("member 7 is not among the initial members"));
    let hasty = Config { tuning: Tuning { heartbeat_ms: 500, ..quick() }, ..first.clone() };
    assert_eq!(open_error(hasty).await.exit_code(), 2);

    let (raft, _) = Raft::open(first.clone()).await.unwrap();
    let error = open_error(first.clone()).await;
    assert!(matches!(error, OpenError::Locked { .. }) && error.exit_code() == 2, "{error}");
    raft.shutdown().await;

    let other_member = Config { data_dir: first.data_dir.clone(), ..three.configs[1].clone() };
    let error = open_error(other_member).await;
    assert!(error.to_string().contains("is of member 1, not of member 2") && error.exit_code() == 10, "{error}");
    let mut other_group = first.clone();
    other_group.initial_members.remove(&3);
    let error = open_error(other_group).await;
    assert!(error.to_string().contains("is of group ") && error.exit_code() == 10, "{error}");

    // Without the list the store itself says who it is.
    let bare = Config { initial_members: BTreeMap::new(), ..first.clone() };
    let (raft, _) = Raft::open(bare).await.unwrap();
    assert_eq!(raft.status().id, 1);
    raft.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_peer_listener_answers_members_of_its_group_only() {
    let dir = TempDir::new().unwrap();
    let address = free_addresses(1).await[0];
    let member = Member::start(config(dir.path(), address)).await;
    must_submit(&member.raft, &create("a")).await;
    let group = member.raft.status().group_id;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let ask = async |path: &str, group: &str, incarnation: &str, body: Vec<u8>| {
        let request = client
            .post(format!("http://{address}{path}"))
            .header("x-slotkeeper-group", group)
            .header("x-slotkeeper-member", "2")
            .header("x-slotkeeper-incarnation", incarnation);
        let response = request.body(body).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let (status, text) = ask("/raft/v1/1/read-index", &group, "first", b"null".to_vec()).await;
    assert!(status == 200 && text.contains("from"), "{status} {text}");
    for (path, group, incarnation, body, status, says) in [
        ("/raft/v1/3/read-index", &*group, "first", "null", 421, "this is member 1, not 3"),
        ("/raft/v1/1/read-index", "another", "first", "null", 403, "not \"another\""),
        ("/raft/v1/1/read-index", &group, "second", "null", 409, "has another store than before"),
        ("/raft/v1/1/vote", &group, "first", "{", 400, "EOF"),
        ("/raft/v1/1/append", &group, "first", "[]", 400, "invalid length"),
        ("/raft/v1/1/snapshot", &group, "first", "", 400, "head"),
        ("/raft/v1/x/vote", &group, "first", "{}", 400, ""),
        ("/raft/v2/1/vote", &group, "first", "{}", 404, ""),
    ] {
        let (found, text) = ask(path, group, incarnation, body.as_bytes().to_vec()).await;
        assert!(found == status && text.contains(says), "{path} {body}: {found} {text}");
    }
    assert_eq!(ask("/raft/v1/1/vote", &group, "first", vec![b' '; 65 << 10]).await.0, 413);

    let large = Command { reason: Some("x".repeat(512 << 10)), ..create("b") };
    assert!(matches!(member.raft.submit(large).await, Err(RaftError::TooLarge { .. })));
    member.stop().await;
}
