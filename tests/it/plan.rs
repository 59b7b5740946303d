//! Plans over real `CLUSTER NODES` outputs, through the public face of the crate.

use std::collections::BTreeSet;

use slotkeeper::domain::{DriverKind, Goal, NodeId, Shard, ShardId, ShardState, Tolerance, Weight};
use slotkeeper::nodes_text::{Adopted, adopt};
use slotkeeper::plan::{Input, check, check_revert, plan, revert};

const HEALTHY: &[u8] = include_bytes!("../fixtures/redis/01-3m3r.nodes.txt");
const BALANCE: Goal = Goal::Balance { tolerance: Tolerance(0) };

fn three_masters() -> Adopted {
    adopt(HEALTHY, None).expect("the fixture is sound")
}

/// Adds an empty shard whose id sorts after all node ids.
fn add(cluster: &mut Adopted, name: &str) {
    let id = ShardId::new(name).expect("valid");
    assert!(cluster.table.insert_shard(id.clone()));
    cluster.shards.push(Shard::new(id, NodeId::new(name).expect("valid"), Weight::ONE));
}

#[test]
fn three_masters_and_a_fourth() {
    let mut cluster = three_masters();
    add(&mut cluster, "new-1");
    let (lost, limits) = (BTreeSet::new(), DriverKind::Redis.default_limits());
    let input = Input { table: &cluster.table, shards: &cluster.shards, lost: &lost, statistics: None };
    let body = plan(&input, BALANCE, &limits).expect("feasible");
    check(&input, BALANCE, &limits, &body).expect("sound");
    // 3→4 of the design, and one receiver adds ⌈3/2⌉ ranges.
    assert_eq!((body.summary.slots, body.summary.lower_bound), (4096, 4096));
    assert_eq!((body.summary.ranges_before, body.summary.ranges_after), (3, 5));
}

#[test]
fn add_two_and_drain_one_and_back() {
    let mut cluster = three_masters();
    add(&mut cluster, "new-1");
    add(&mut cluster, "new-2");
    cluster.shards[1].state = ShardState::Draining;
    let (lost, limits) = (BTreeSet::new(), DriverKind::Flip.default_limits());
    let input = Input { table: &cluster.table, shards: &cluster.shards, lost: &lost, statistics: None };
    let body = plan(&input, BALANCE, &limits).expect("feasible");
    check(&input, BALANCE, &limits, &body).expect("sound");
    // Two new shards of 4096 each are filled: from 5461 that leave, and from what two others have above 4096.
    assert_eq!(body.summary.slots, 8192);
    let mut after = cluster.table.clone();
    for action in &body.actions {
        for range in action.kind.ranges() {
            after.assign(*range, action.kind.target()).expect("listed");
        }
    }
    assert_eq!(after.counts(), [4096, 0, 4096, 4096, 4096]);
    let input = Input { table: &after, ..input };
    let back = revert(&input, &body, &limits).expect("every source is there");
    check_revert(&input, &body, &limits, &back).expect("sound");
    assert_eq!(back.summary.slots, 8192);
}
