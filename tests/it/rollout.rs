//! Three members with their own controllers and executors, over real raft: the leader goes away in the middle of a
//! rollout, and the rollout goes on by itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use slotkeeper::controller::{
    Caller, Change, Choice, Cluster, ControlError, Controller, FirstStart, Op, Place, PlanRecord, Propose,
};
use slotkeeper::domain::{
    ActionState, ClusterName, DriverKind, Goal, Host, Limits, Node, NodeState, Policy, Principal, PrincipalName, Role,
    RolloutState, Shard, SlotTable, Tolerance, Version, Weight,
};
use slotkeeper::driver::{Driver, Flip};
use slotkeeper::executor;
use slotkeeper::raft::{Config, FatalHook, Raft, Tuning};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::scene::id;

const DEADLINE: Duration = Duration::from_secs(60);

struct Member {
    raft: Raft,
    controller: Controller,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    serving: JoinHandle<()>,
}

impl Member {
    async fn start(config: Config) -> Self {
        let address: SocketAddr = config.peer_address.parse().unwrap();
        let (raft, router) = Raft::open(config).await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        let listener = socket.listen(64).unwrap();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let controller = Controller::new(raft.clone());
        let (stop, stopping) = watch::channel(false);
        let drivers = executor::drivers([Arc::new(Flip) as Arc<dyn Driver>]);
        let executing = executor::spawn(controller.clone(), drivers, stopping.clone());
        let tasks = vec![controller.spawn_background(stopping), executing];
        Self { raft, controller, stop, tasks, serving }
    }

    async fn stop(self) {
        self.serving.abort();
        self.stop.send(true).unwrap();
        for task in self.tasks {
            task.await.unwrap();
        }
        self.raft.shutdown().await;
    }

    fn cluster(&self) -> Arc<Cluster> {
        self.controller.cluster(&default_cluster()).unwrap()
    }

    fn record(&self) -> Arc<PlanRecord> {
        self.cluster().plans.values().next().unwrap().clone()
    }

    /// Collects every version this member publishes; they must only grow.
    fn watch_versions(&self) -> JoinHandle<Vec<Version>> {
        let publisher = self.controller.publisher().clone();
        tokio::spawn(async move {
            let (name, mut seen) = (default_cluster(), vec![Version::default()]);
            while let Some(next) = publisher.wait_newer(&name, seen[seen.len() - 1], Duration::from_secs(4)).await {
                assert!(next.topology.version > seen[seen.len() - 1]);
                seen.push(next.topology.version);
            }
            seen
        })
    }
}

fn default_cluster() -> ClusterName {
    id("default")
}

fn admin() -> Caller {
    let principal = Principal { name: PrincipalName::new("root").unwrap(), role: Role::Admin, token: None };
    Caller { principal, reason: None, idempotency: None }
}

async fn three() -> (Vec<TempDir>, Vec<Member>) {
    let dirs: Vec<TempDir> = (0..3).map(|_| TempDir::new().unwrap()).collect();
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    let addresses: Vec<String> = held.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    drop(held);
    let initial_members: BTreeMap<u64, String> = (1..).zip(addresses.clone()).collect();
    let tuning = Tuning { heartbeat_ms: 50, election_min_ms: 200, election_max_ms: 400, ..Tuning::default() };
    let mut members = Vec::new();
    for (dir, address) in dirs.iter().zip(&addresses) {
        let (initial_members, tuning) = (initial_members.clone(), tuning.clone());
        let on_fatal = FatalHook::new(|reason| panic!("fatal: {reason}"));
        let config = Config { initial_members, tuning, on_fatal, ..Config::new(dir.path(), address) };
        members.push(Member::start(config).await);
    }
    (dirs, members)
}

async fn until(what: &str, wanted: impl Fn() -> bool) {
    let poll = async {
        while !wanted() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, poll).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// As a client does it: what is refused for want of a leader is sent again.
async fn retried<T, F: Future<Output = Result<T, ControlError>>>(mut ask: impl FnMut() -> F) -> T {
    let patient = async {
        loop {
            match ask().await {
                Err(ControlError::Unavailable(_)) => sleep(Duration::from_millis(20)).await,
                other => return other.unwrap(),
            }
        }
    };
    timeout(DEADLINE, patient).await.expect("no leader in time")
}

/// Shards a, b and c as redis-cli makes them.
fn thirds() -> Change {
    let (mut table, mut nodes, mut shards) = (SlotTable::new(), Vec::new(), Vec::new());
    for (name, range, port) in [("a", "0-5460", 7001), ("b", "5461-10922", 7002), ("c", "10923-16383", 7003)] {
        table.insert_shard(id(name));
        table.assign(id(range), Some(&id(name))).unwrap();
        nodes.push(node(name, port));
        shards.push(Shard::new(id(name), id(&format!("node-{name}")), Weight::ONE));
    }
    Change::Import { nodes, shards, table }
}

fn node(shard: &str, port: u16) -> Node {
    let host = Host::new("10.0.0.1").unwrap();
    Node { id: id(&format!("node-{shard}")), host, port, zone: None, state: NodeState::Active }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_goes_on_when_its_leader_goes_away() {
    let (_dirs, mut members) = three().await;
    let limits = Limits { slots_per_second: Some(1024), ..DriverKind::Flip.default_limits() };
    let policy = Policy { approvals: 0, limits, ..Policy::default_for(DriverKind::Flip) };
    let first = FirstStart { driver: DriverKind::Flip, policy };
    let shown = Arc::new(Mutex::new(Vec::new()));
    let starts = members.iter().map(|member| {
        let (controller, first, shown) = (member.controller.clone(), first.clone(), Arc::clone(&shown));
        tokio::spawn(async move {
            controller.bootstrap(&first, |bearer| shown.lock().unwrap().push(bearer.to_owned())).await.unwrap();
        })
    });
    for start in starts.collect::<Vec<_>>() {
        timeout(DEADLINE, start).await.expect("a first start").unwrap();
    }
    let shown = shown.lock().unwrap().clone();
    let works = |bearer: &String| members.iter().all(|member| member.controller.authenticate(bearer).is_some());
    until("the first token works everywhere", || shown.iter().filter(|bearer| works(bearer)).count() == 1).await;

    let leads = |member: &Member| member.raft.leading().borrow().is_some();
    let leader = members.iter().position(leads).expect("a leader");
    let asked = members[(leader + 1) % 3].controller.clone();
    let (root, name) = (admin(), default_cluster());
    retried(|| asked.change(&root, &name, vec![thirds()], None, false)).await;
    let place = Place::NewShard { shard: id("d"), weight: Weight::ONE };
    let add = Change::AddNode { node: node("d", 7004), place };
    let goal = Goal::Balance { tolerance: Tolerance(0) };
    let propose = Propose {
        goal,
        reason: String::new(),
        limits: None,
        choice: Choice::default(),
        supersedes: None,
        reverts: None,
        placement: None,
        repair: false,
    };
    let changed = retried(|| asked.change(&root, &name, vec![add.clone()], Some(propose.clone()), false)).await;
    let record = changed.plan.expect("a plan");
    assert_eq!(record.plan.body.summary.slots, 4096);
    let start = Op::Start { cluster: default_cluster(), plan: record.plan.id.clone() };
    let watching: Vec<_> = members.iter().map(Member::watch_versions).collect();
    retried(|| asked.submit(&root, start.clone())).await;

    let moved = |member: &Member| member.cluster().table.count_of(&id("d"));
    until("a quarter moved", || moved(&members[leader]) >= 1024).await;
    let gone = members.remove(leader);
    let before = moved(&gone);
    gone.stop().await;
    assert!(before < 4096, "the rollout was under way");
    let state = |member: &Member| member.record().rollout.as_ref().unwrap().state;
    until("done", || members.iter().all(|member| state(member) == RolloutState::Succeeded)).await;

    for member in &members {
        assert_eq!(moved(member), 4096);
        let record = member.record();
        let rollout = record.rollout.as_ref().unwrap();
        assert_eq!(rollout.in_state(&[ActionState::Done]).count(), record.plan.body.actions.len());
        assert!(rollout.actions.values().all(|action| action.attempts == 1), "no action was begun twice");
        assert_eq!(member.cluster().moving, []);
    }
    assert_eq!(members[0].controller.state_hash().1, members[1].controller.state_hash().1);
    let last = members[0].cluster().version();
    for (number, versions) in watching.into_iter().enumerate() {
        let versions = versions.await.expect("versions only grow");
        assert!(number == leader || *versions.last().unwrap() == last, "the last version is published");
    }
    for member in members {
        member.stop().await;
    }
}
