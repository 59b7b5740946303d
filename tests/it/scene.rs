//! Commands of the state machine in one line each, for scripts and for random runs. Plans are made here, not by the
//! planner: what apply accepts must not depend on who wrote a plan.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::str::FromStr;
use std::sync::Arc;

use slotkeeper::domain::{
    Action, ActionId, ActionKind, Base, Certificate, Check, CheckLevel, DriverKind, Figures, Goal, Host, Instant,
    Intent, Limits, Node, NodeState, Plan, PlanBody, Policy, Principal, PrincipalName, Quota, Role, Shard, ShardBounds,
    ShardChange, ShardId, SlotTable, Summary, Tolerance, Weight,
};
use slotkeeper::state::{
    COMMAND_VERSION, Change, Cluster, Command, Failover, Idempotency, Op, Place, State, SteerVerb,
};

/// Words of a line: bare ones, and `key=value` ones.
pub struct Words<'a> {
    pub line: &'a str,
    bare: Vec<&'a str>,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    pub fn of(line: &'a str) -> Self {
        let (pairs, bare): (Vec<_>, Vec<_>) = line.split_whitespace().partition(|word| word.contains('='));
        Self { line, bare, pairs: pairs.iter().filter_map(|pair| pair.split_once('=')).collect() }
    }

    pub fn word(&self, place: usize) -> &'a str {
        self.bare.get(place).unwrap_or_else(|| panic!("{:?} has no word {place}", self.line))
    }

    fn has(&self, word: &str) -> bool {
        self.bare.contains(&word)
    }

    pub fn get<T: FromStr<Err: Debug>>(&self, key: &str) -> Option<T> {
        let (_, value) = self.pairs.iter().find(|(name, _)| *name == key)?;
        Some(value.parse().unwrap_or_else(|error| panic!("{}: {key}={value}: {error:?}", self.line)))
    }

    /// `key=none` clears, `key=5` sets.
    #[expect(clippy::option_option, reason = "the shape of the fields it is for")]
    fn clearable<T: FromStr<Err: Debug>>(&self, key: &str) -> Option<Option<T>> {
        self.get::<String>(key).map(|value| (value != "none").then(|| id(&value)))
    }

    fn list(&self, key: &str) -> BTreeSet<String> {
        self.get::<String>(key).map(|list| list.split(',').map(str::to_owned).collect()).unwrap_or_default()
    }

    fn actions(&self, place: usize) -> Vec<ActionId> {
        self.word(place).split(',').map(|number| ActionId(id(number))).collect()
    }
}

pub fn id<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error:?}"))
}

pub fn principal(name: &str, role: Role) -> Principal {
    Principal { name: PrincipalName::new(name).unwrap(), role, token: None }
}

/// The command of a line at a time. `by=NAME:ROLE[:TOKEN]`, `reason=A_B`, `key=K`, `version=N` go with any.
pub fn command(state: &State, line: &str, at: Instant) -> Command {
    let words = Words::of(line);
    let system = matches!(words.word(0), "block" | "complete" | "observe" | "expire");
    let by = words.get::<String>("by").map_or_else(
        || if system { Principal::system("executor") } else { principal("root", Role::Admin) },
        |by| {
            let mut parts = by.split(':');
            let name = parts.next().unwrap();
            let role = parts.next().unwrap_or("admin");
            let role = if role == "system" { Role::System } else { id(role) };
            Principal { token: parts.next().map(id), ..principal(name, role) }
        },
    );
    let key = words.get::<String>("key");
    let op = op(state, &words, &by, at);
    let request: Vec<_> = line.split_whitespace().filter(|word| !word.starts_with("key=")).collect();
    let request = words.get("request").unwrap_or_else(|| request.join(" ").chars().take(128).collect());
    Command {
        version: words.get("version").unwrap_or(COMMAND_VERSION),
        at,
        by,
        reason: words.get::<String>("reason").map(|reason| reason.replace('_', " ")),
        idempotency: key.map(|key| Idempotency { key, request }),
        op,
    }
}

fn op(state: &State, words: &Words<'_>, by: &Principal, at: Instant) -> Op {
    let name = || id(words.word(1));
    let plan = || id(words.word(2));
    let steer = |verb| Op::Steer { cluster: name(), plan: plan(), verb, acks: words.list("ack") };
    let rest = |from: usize| words.bare[from..].join(" ");
    match words.word(0) {
        "create" => {
            let driver = words.get("driver").map_or(DriverKind::Flip, |driver: String| driver_kind(&driver));
            let policy = policy(words, &Policy::default_for(driver));
            let id = words.get("id").unwrap_or_else(|| id(&format!("id-{}", words.word(1))));
            Op::CreateCluster { name: name(), id, driver, policy }
        }
        "configure" => {
            let current = state.clusters.get::<slotkeeper::domain::ClusterName>(&name());
            let driver = words.get("driver").map(|driver: String| driver_kind(&driver));
            let policy = current.map(|cluster| policy(words, &cluster.policy));
            Op::ConfigureCluster { name: name(), if_match: words.get("if"), driver, policy }
        }
        "delete" => Op::DeleteCluster { name: name(), if_match: words.get("if") },
        "change" | "plan" => change(state, words, by, at),
        "approve" => {
            let digest = words.get("digest").unwrap_or_else(|| {
                let cluster = state.clusters.get::<slotkeeper::domain::ClusterName>(&name());
                let record = cluster.and_then(|c| c.plans.get::<slotkeeper::domain::PlanId>(&plan()));
                record.map_or_else(|| id(&format!("sha256:{}", "0".repeat(64))), |record| record.digest)
            });
            Op::Approve { cluster: name(), plan: plan(), digest, acks: words.list("ack") }
        }
        "reject" => Op::Reject { cluster: name(), plan: plan(), revert_intent: words.has("revert") },
        "withdraw" => Op::Withdraw { cluster: name(), plan: plan(), revert_intent: words.has("revert") },
        "start" => Op::Start { cluster: name(), plan: plan() },
        "pause" => steer(SteerVerb::Pause),
        "resume" => steer(SteerVerb::Resume),
        "abort" => steer(SteerVerb::Abort),
        "rollback" => steer(SteerVerb::RollBack),
        "throttle" => {
            let slots_per_second = words.clearable("pace").expect("pace=N or pace=none");
            Op::Throttle { cluster: name(), plan: plan(), slots_per_second }
        }
        "begin" => Op::Begin { cluster: name(), plan: plan(), actions: words.actions(3) },
        "finish" => Op::Finish { cluster: name(), plan: plan(), actions: words.actions(3) },
        "fail" => Op::Fail { cluster: name(), plan: plan(), action: ActionId(id(words.word(3))), error: rest(4) },
        "block" => Op::Block { cluster: name(), plan: plan(), cause: rest(3) },
        "complete" => Op::Complete { cluster: name(), plan: plan() },
        "observe" => {
            let failover = |word: &str| {
                let parts: Vec<_> = word.split(':').collect();
                Failover { shard: id(parts[0]), from: id(parts[1]), to: id(parts[2]) }
            };
            Op::Observe { cluster: name(), failovers: words.bare[2..].iter().map(|word| failover(word)).collect() }
        }
        "expire" => Op::Expire,
        "token" => Op::CreateToken {
            id: id(words.word(1)),
            name: id(words.word(2)),
            role: id(words.word(3)),
            secret_sha256: words.get("secret").unwrap_or_else(|| "ab".repeat(32)),
            expires_at: words.get("expires").map(|seconds: u64| Instant(seconds * 1000)),
        },
        "revoke" => Op::RevokeToken { id: id(words.word(1)), may_be_last: !words.has("keep") },
        other => panic!("{other:?} is no command of a script"),
    }
}

fn driver_kind(name: &str) -> DriverKind {
    match name {
        "flip" => DriverKind::Flip,
        "manual" => DriverKind::Manual,
        "redis" => DriverKind::Redis,
        other => panic!("{other:?} is no driver"),
    }
}

fn policy(words: &Words<'_>, base: &Policy) -> Policy {
    Policy {
        approvals: words.get("approvals").unwrap_or(base.approvals),
        author_may_approve: words.get("author_may_approve").unwrap_or(base.author_may_approve),
        ttl_ms: words.get("ttl").map_or(base.ttl_ms, |seconds: u64| seconds * 1000),
        auto_approve_max_slots: words.get("auto").or(base.auto_approve_max_slots),
        limits: limits(words, &base.limits),
    }
}

fn limits(words: &Words<'_>, base: &Limits) -> Limits {
    Limits {
        moves_per_source: words.get("per_source").unwrap_or(base.moves_per_source),
        moves_per_target: words.get("per_target").unwrap_or(base.moves_per_target),
        slots_per_move: words.get("per_move").unwrap_or(base.slots_per_move),
        slots_per_second: words.clearable("pace").unwrap_or(base.slots_per_second),
        bytes_per_second: words.clearable("bytes").unwrap_or(base.bytes_per_second),
        overlap_ms: words.get("overlap").unwrap_or(base.overlap_ms),
        windows: words.get::<String>("windows").map_or_else(
            || base.windows.clone(),
            |list| list.split(',').filter(|text| *text != "none").map(|text| id(&text.replace('_', " "))).collect(),
        ),
    }
}

/// `change C SPEC; SPEC… [=> P ACTION…]`, `plan C P ACTION…`.
fn change(state: &State, words: &Words<'_>, by: &Principal, at: Instant) -> Op {
    let cluster = id(words.word(1));
    let rest = words.line.split_once(words.word(1)).unwrap().1;
    let (specs, plan) = match words.word(0) {
        "plan" => ("", Some(rest)),
        _ => rest.split_once("=>").map_or((rest, None), |(specs, plan)| (specs, Some(plan))),
    };
    let specs = specs.split(';').map(str::trim).filter(|spec| !spec.is_empty());
    let changes: Vec<_> = specs.map(|spec| one_change(&Words::of(spec))).collect();
    let plan = plan.and_then(|line| {
        let before = state.clusters.get(&cluster)?;
        // A plan for changes that are refused is made for what there is: the answer is the refusal.
        let after = before.with_changes(&changes).unwrap_or_else(|_| Cluster::clone(before));
        Some(Arc::new(plan_of(&after, &Words::of(line), by, at)))
    });
    Op::Change { cluster, changes, plan }
}

fn one_change(words: &Words<'_>) -> Change {
    let node = || id(words.word(1));
    let shard = || id(words.word(1));
    match words.word(0) {
        "import" => import(words),
        "add" => Change::AddNode {
            node: node_at(words.word(1), words.get("host"), words.get("port")),
            place: match words.get("replica") {
                Some(shard) => Place::ReplicaOf { shard },
                None => Place::NewShard {
                    shard: words.get("shard").expect("shard= or replica="),
                    weight: words.get("weight").map_or(Weight::ONE, |weight: u32| Weight::new(weight).unwrap()),
                },
            },
        },
        "node" => Change::SetNode {
            node: node(),
            if_match: words.get("if"),
            host: words.get("host").map(|host: String| Host::new(&host).unwrap()),
            port: words.get("port"),
            zone: words.clearable("zone"),
        },
        "drain" => Change::DrainNode { node: node(), lost: words.has("lost") },
        "undrain" => Change::UndrainNode { node: node() },
        "remove" => Change::RemoveNode { node: node(), if_match: words.get("if") },
        "shard" => Change::SetShard {
            shard: shard(),
            if_match: words.get("if"),
            weight: words.get("weight").map(|weight: u32| Weight::new(weight).unwrap()),
            min_slots: words.clearable("min"),
            max_slots: words.clearable("max"),
            pinned: words.get::<String>("pin").map(|pins| pins.split(',').filter(|p| *p != "none").map(id).collect()),
        },
        "drain-shard" => Change::DrainShard { shard: shard() },
        "undrain-shard" => Change::UndrainShard { shard: shard() },
        other => panic!("{other:?} is no change"),
    }
}

/// `a=0-99,200`, with replicas `a=0-99+r1+r2`; the primary of `a` is `node-a`.
fn import(words: &Words<'_>) -> Change {
    let mut table = SlotTable::new();
    let (mut nodes, mut shards) = (Vec::new(), Vec::new());
    for (name, value) in words.pairs.iter().filter(|(name, _)| !["by", "key", "reason"].contains(name)) {
        let mut parts = value.split('+');
        let shard: ShardId = id(name);
        table.insert_shard(shard.clone());
        for range in parts.next().unwrap().split(',').filter(|range| !range.is_empty() && *range != "none") {
            table.assign(id(range), Some(&shard)).unwrap();
        }
        let primary = node_at(&format!("node-{name}"), None, None);
        let mut value = Shard::new(shard, primary.id.clone(), Weight::ONE);
        nodes.push(primary);
        for replica in parts {
            nodes.push(node_at(replica, None, None));
            value.replicas.push(id(replica));
        }
        shards.push(value);
    }
    Change::Import { nodes, shards, table }
}

/// A node; its host is its own name unless another is given.
pub fn node_at(name: &str, host: Option<String>, port: Option<u16>) -> Node {
    let host = Host::new(&host.unwrap_or_else(|| name.to_owned())).unwrap();
    Node { id: id(name), host, port: port.unwrap_or(6379), zone: None, state: NodeState::Active }
}

/// `P FROM>TO:RANGES… [lost>…] [-]>TO:… promote:SHARD:FROM:TO replica:NODE:SHARD repair:SLOT:SHARD`, with
/// `warn=NAME,…`, `ack_needed=NAME`, `failing=NAME`, `supersedes=P`, `reverts=P`, `added=S`, `drained=S`.
fn plan_of(cluster: &Cluster, words: &Words<'_>, by: &Principal, at: Instant) -> Plan {
    let kinds = words.bare[1..].iter().map(|word| action(cluster, word)).collect();
    let mut plan = plan(cluster, words.word(0), kinds, by, at);
    plan.supersedes = words.get("supersedes");
    plan.reverts = words.get("reverts");
    plan.limits = limits(words, &plan.limits);
    plan.approvals_required = words.get("required").unwrap_or(plan.approvals_required);
    plan.author_may_approve = words.get("author_approves").unwrap_or(plan.author_may_approve);
    plan.intent.drain = words.list("drained").iter().map(|shard| id(shard)).collect();
    plan.intent.add = words.list("added").iter().map(|shard| (id(shard), Weight::ONE)).collect();
    if let Some(author) = words.get::<String>("author") {
        plan.author = principal(&author, Role::Operator);
    }
    for (key, level) in [("ack_needed", CheckLevel::Warn), ("failing", CheckLevel::Fail)] {
        for (number, name) in (1..).zip(words.list(key)) {
            let code = format!("{}{number}", if level == CheckLevel::Fail { "F" } else { "W" });
            let (text, needs_ack) = (format!("{name} was found"), level == CheckLevel::Warn);
            plan.checks.push(Check { code, name, level, text, needs_ack });
        }
    }
    plan
}

fn action(cluster: &Cluster, word: &str) -> ActionKind {
    if let Some((ends, ranges)) = word.split_once('>').and_then(|(from, rest)| Some((from, rest.split_once(':')?))) {
        let (to, ranges) = (id(ranges.0), ranges.1.split(',').map(id).collect());
        let lost = |from: &ShardId| {
            let primary = cluster.shards.get(from).map(|shard| &shard.value.primary);
            primary.is_some_and(|primary| cluster.nodes[primary].value.state == NodeState::Lost)
        };
        return match ends {
            "" => ActionKind::AssignSlots { from: None, to, ranges },
            from if from.starts_with('!') || lost(&id(from)) => {
                ActionKind::AssignSlots { from: Some(id(from.trim_start_matches('!'))), to, ranges }
            }
            from => ActionKind::MoveSlots { from: id(from), to, ranges },
        };
    }
    let parts: Vec<_> = word.split(':').collect();
    match parts.as_slice() {
        ["promote", shard, from, to] => ActionKind::Promote { shard: id(shard), from: id(from), to: id(to) },
        ["replica", node, shard] => ActionKind::SetReplicaOf { node: id(node), shard: id(shard) },
        ["repair", slot, owner] => {
            ActionKind::RepairSlot { slot: slotkeeper::domain::Slot::new(id(slot)).unwrap(), owner: id(owner) }
        }
        _ => panic!("{word:?} is no action"),
    }
}

/// A plan that stands on the cluster as it is, one wave per action.
pub fn plan(cluster: &Cluster, name: &str, kinds: Vec<ActionKind>, by: &Principal, at: Instant) -> Plan {
    let actions: Vec<_> = (1..).zip(kinds).map(|(number, kind)| Action { id: ActionId(number), kind }).collect();
    let shards = cluster.shards.values().map(|shard| ShardChange {
        id: shard.value.id.clone(),
        weight: shard.value.weight,
        state: shard.value.state,
        quota: Quota { numerator: 1, denominator: 1 },
        before: cluster.table.count_of(&shard.value.id),
        after: 0,
        bounds: ShardBounds::from(&shard.value),
    });
    let body = PlanBody {
        summary: Summary::default(),
        certificate: Certificate { surplus: 0, deficit: 0, unassigned: 0, bands: Vec::new() },
        shards: shards.collect(),
        waves: actions.iter().map(|action| vec![action.id]).collect(),
        actions,
        figures: Figures::default(),
        empty_because: None,
        placement: None,
    };
    let fingerprint = cluster.fingerprint(&body.moved_slots());
    let goal = Goal::Balance { tolerance: Tolerance(0) };
    let created_at = at;
    Plan {
        id: id(name),
        supersedes: None,
        reverts: None,
        intent: Intent {
            goal,
            add: Vec::new(),
            drain: Vec::new(),
            reweight: Vec::new(),
            reason: String::new(),
            placement: None,
        },
        base: Base { cluster_id: cluster.id.clone(), version: cluster.version(), fingerprint },
        body,
        checks: Vec::new(),
        limits: cluster.policy.limits.clone(),
        approvals_required: cluster.policy.approvals,
        author_may_approve: cluster.policy.author_may_approve,
        author: by.clone(),
        created_at,
        expires_at: created_at.plus_ms(cluster.policy.ttl_ms),
    }
}
