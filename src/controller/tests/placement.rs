//! Placing copies over zones: planned, carried out, undone.

use super::*;
use crate::domain::{ActionKind, PlacementGoal, SlotTable, Spread};

fn one_replica() -> Propose {
    Propose { placement: Some(PlacementGoal { replicas: 1, spread: Spread::Zone }), ..balance() }
}

/// Three shards, each with its primary and its replica in one zone.
async fn crowded() -> Stage {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let mut changes = Vec::new();
    for (number, name) in (1..).zip(["a", "b", "c"]) {
        let zone: crate::domain::Zone = id(&format!("zone-{name}"));
        changes.push(Change::SetNode {
            node: id(&format!("node-{name}")),
            if_match: None,
            host: Some(Host::new(&format!("10.0.0.{number}")).unwrap()),
            port: None,
            zone: Some(Some(zone.clone())),
        });
        let host = Host::new(&format!("10.0.1.{number}")).unwrap();
        let node = Node { host, zone: Some(zone), ..node(&format!("replica-{name}"), 7100) };
        changes.push(Change::AddNode { node, place: Place::ReplicaOf { shard: id(name) } });
    }
    stage.controller.change(&admin(), &main(), changes, None, false).await.unwrap();
    stage
}

fn zones_of(cluster: &Cluster, shard: &str) -> Vec<String> {
    let shard = &cluster.shards[&id::<ShardId>(shard)].value;
    shard.nodes().map(|node| cluster.nodes[node].value.zone.clone().unwrap().to_string()).collect()
}

#[tokio::test]
async fn copies_are_placed_over_zones_with_the_fewest_changes_and_a_revert_brings_them_back() {
    let stage = crowded().await;
    let before = stage.cluster();
    let record = stage.change(Vec::new(), one_replica()).await.unwrap().plan.unwrap();
    let placement = record.plan.body.placement.as_ref().unwrap();
    assert_eq!((3, 0, 0), (placement.changes, placement.failovers, record.plan.body.summary.slots));
    assert!(record.plan.body.actions.iter().all(|action| matches!(action.kind, ActionKind::SetReplicaOf { .. })));
    stage.carry_out(&record).await;
    let after = stage.cluster();
    for shard in ["a", "b", "c"] {
        let zones = zones_of(&after, shard);
        assert!(zones.len() == 2 && zones[0] != zones[1], "{shard}: {zones:?}");
        assert_ne!(after.shards[&id(shard)].value.replicas, before.shards[&id(shard)].value.replicas);
    }
    let again = stage.change(Vec::new(), one_replica()).await.unwrap();
    assert_eq!(
        Some("every shard owns its exact share already, and every copy is where it is asked for"),
        again.empty_because.as_deref()
    );
    let revert = Propose { reverts: Some(record.plan.id.clone()), ..balance() };
    let undo = stage.change(Vec::new(), revert).await.unwrap().plan.unwrap();
    stage.carry_out(&undo).await;
    for shard in ["a", "b", "c"] {
        let replicas = |cluster: &Cluster| cluster.shards[&id(shard)].value.replicas.clone();
        assert_eq!(replicas(&before), replicas(&stage.cluster()), "{shard}");
    }
}

#[tokio::test]
async fn a_placement_goes_stale_with_a_node_that_moves_to_another_zone() {
    let stage = crowded().await;
    let record = stage.change(Vec::new(), one_replica()).await.unwrap().plan.unwrap();
    assert_eq!(Vec::<String>::new(), stage.cluster().stale_because(&record.plan));
    let change =
        Change::SetNode { node: id("node-a"), if_match: None, host: None, port: None, zone: Some(Some(id("zone-b"))) };
    stage.controller.change(&admin(), &main(), vec![change], None, false).await.unwrap();
    assert_eq!(
        vec!["a node of the placement has another zone or address".to_owned()],
        stage.cluster().stale_because(&record.plan)
    );
}

#[tokio::test]
async fn a_placement_without_zones_or_hosts_is_refused_by_name() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let error = stage.change(Vec::new(), one_replica()).await.unwrap_err().to_string();
    assert!(error.contains("the zone of 3 nodes is not known (node-a, node-b, node-c)"), "{error}");
}

#[tokio::test]
async fn a_shard_that_was_drained_finds_its_slots_again() {
    let quarters = [("a", "0-4095"), ("b", "4096-8191"), ("c", "8192-12287"), ("d", "12288-16383")];
    let stage = Stage::of(DriverKind::Flip, &quarters).await;
    let before = stage.cluster().table.clone();
    let pairs = [("b", "d"), ("d", "a")];
    for (first, second) in pairs {
        for drained in [first, second] {
            let drain = Change::DrainShard { shard: id(drained) };
            let record = stage.change(vec![drain], balance()).await.unwrap().plan.unwrap();
            stage.carry_out(&record).await;
            assert_eq!(0, stage.cluster().table.count_of(&id(drained)));
            let back = Change::UndrainShard { shard: id(drained) };
            let record = stage.change(vec![back], balance()).await.unwrap().plan.unwrap();
            assert_eq!(4096, record.plan.body.summary.slots);
            stage.carry_out(&record).await;
            let owners = |table: &SlotTable| Slot::all().map(|slot| table.owner(slot).cloned()).collect::<Vec<_>>();
            assert!(owners(&before) == owners(&stage.cluster().table), "{drained} does not own what it owned");
        }
    }
}
