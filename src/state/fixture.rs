//! Commands and plans for tests: by an admin, at fixed times, without the planner.

use super::{COMMAND_VERSION, Change, Cluster, Command, Op};
use crate::domain::{
    Action, ActionId, ActionKind, Base, Certificate, ClusterId, ClusterName, DriverKind, Figures, Goal, Host, Instant,
    Intent, Node, NodeId, NodeState, Plan, PlanBody, PlanId, Policy, Principal, PrincipalName, Quota, Role, Shard,
    ShardBounds, ShardChange, ShardId, SlotTable, Summary, Tolerance, Weight,
};

/// Any name type from text.
pub(crate) fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// A principal without a token.
pub(crate) fn principal(name: &str, role: Role) -> Principal {
    Principal { name: PrincipalName::new(name).unwrap(), role, token: None }
}

/// A command of `root`, an admin, at 2026-01-01 and so many seconds.
pub(crate) fn command(seconds: u64, op: Op) -> Command {
    let at = Instant(1_767_225_600_000 + seconds * 1000);
    let by = principal("root", Role::Admin);
    Command { version: COMMAND_VERSION, at, by, reason: None, idempotency: None, op }
}

/// Creates a cluster without approvals.
pub(crate) fn create(name: &str, driver: DriverKind) -> Op {
    let policy = Policy { approvals: 0, ..Policy::default_for(driver) };
    Op::CreateCluster { name: id(name), id: ClusterId::new(&format!("id-{name}")).unwrap(), driver, policy }
}

/// Imports shards of one node each; the ranges are written `0-99,200`.
pub(crate) fn import(cluster: &str, shards: &[(&str, &str)]) -> Op {
    let mut table = SlotTable::new();
    let (mut nodes, mut values) = (Vec::new(), Vec::new());
    for ((name, ranges), port) in shards.iter().zip(7000..) {
        let (shard, node): (ShardId, NodeId) = (id(name), id(&format!("node-{name}")));
        table.insert_shard(shard.clone());
        for range in ranges.split(',').filter(|range| !range.is_empty()) {
            table.assign(id(range), Some(&shard)).unwrap();
        }
        let host = Host::new("127.0.0.1").unwrap();
        nodes.push(Node { id: node.clone(), host, port, zone: None, state: NodeState::Active });
        values.push(Shard::new(shard, node, Weight::ONE));
    }
    let changes = vec![Change::Import { nodes, shards: values, table }];
    Op::Change { cluster: ClusterName::new(cluster).unwrap(), changes, plan: None }
}

/// A plan of `root` that stands on the cluster as it is and moves these ranges, one action each: (from, to, range).
pub(crate) fn plan(cluster: &Cluster, name: &str, moves: &[(&str, &str, &str)]) -> Plan {
    let actions: Vec<_> = (1..)
        .zip(moves)
        .map(|(number, (from, to, range))| Action {
            id: ActionId(number),
            kind: ActionKind::MoveSlots { from: id(from), to: id(to), ranges: vec![id(range)] },
        })
        .collect();
    let shards = cluster.shards.values().map(|shard| ShardChange {
        id: shard.value.id.clone(),
        weight: shard.value.weight,
        state: shard.value.state,
        quota: Quota { numerator: 1, denominator: 1 },
        before: cluster.table.count_of(&shard.value.id),
        after: 0,
        bounds: ShardBounds::default(),
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
    let now = command(0, Op::Expire).at;
    Plan {
        id: PlanId::new(name).unwrap(),
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
        author: principal("root", Role::Admin),
        created_at: now,
        expires_at: now.plus_ms(cluster.policy.ttl_ms),
    }
}
