//! One life of a cluster from its creation to a completed rollout, for each driver. Everything else is told in
//! `tests/scripts/` and in `tests/it/state.rs`.

use std::sync::Arc;

use super::super::fixture::{command, create, id, import, plan};
use super::super::{Applied, AuditHead, Change, Op, Place, State};
use crate::domain::{
    ActionId, DriverKind, Epoch, Host, Node, NodeState, PlanState, Principal, RolloutState, Slot, Weight,
};

struct Life {
    state: State,
    seconds: u64,
    chain: AuditHead,
}

impl Life {
    fn new() -> Self {
        Self { state: State::default(), seconds: 0, chain: AuditHead::default() }
    }

    fn accept(&mut self, op: Op) -> Applied {
        let system = matches!(op, Op::Complete { .. } | Op::Block { .. } | Op::Expire);
        self.seconds += 1;
        let mut command = command(self.seconds, op);
        if system {
            command.by = Principal::system("executor");
        }
        let applied = self.state.apply(&command);
        if let Err(rejection) = &applied.outcome {
            panic!("{rejection}");
        }
        self.chain = self.chain.verify(&applied.audit).unwrap();
        assert_eq!(self.chain, self.state.audit_head);
        applied
    }

    fn epoch(&self) -> Epoch {
        self.state.clusters[&id::<crate::domain::ClusterName>("main")].epoch
    }
}

#[test]
fn a_cluster_grows_by_a_shard_with_either_driver() {
    for driver in [DriverKind::Flip, DriverKind::Manual] {
        let mut life = Life::new();
        life.accept(create("main", driver));
        life.accept(import("main", &[("a", "0-8191"), ("b", "8192-16383")]));
        assert_eq!(life.epoch(), Epoch(2));
        let node = Node {
            id: id("node-c"),
            host: Host::new("127.0.0.1").unwrap(),
            port: 7002,
            zone: None,
            state: NodeState::Active,
        };
        let place = Place::NewShard { shard: id("c"), weight: Weight::ONE };
        let changes = vec![Change::AddNode { node, place }];
        let ahead = life.state.clusters[&id::<crate::domain::ClusterName>("main")].with_changes(&changes).unwrap();
        let plan = Arc::new(plan(&ahead, "p-1", &[("a", "c", "0-9"), ("b", "c", "8192-8201")]));
        life.accept(Op::Change { cluster: id("main"), changes, plan: Some(plan) });
        assert_eq!((life.epoch(), ahead.epoch), (Epoch(3), Epoch(3)));

        let (cluster, plan) = (id("main"), id("p-1"));
        life.accept(Op::Start { cluster, plan });
        let actions = vec![ActionId(1), ActionId(2)];
        life.accept(Op::Begin { cluster: id("main"), plan: id("p-1"), actions: actions.clone() });
        assert_eq!(life.epoch(), Epoch(4));
        life.accept(Op::Finish { cluster: id("main"), plan: id("p-1"), actions });
        // A flip without overlap was done when it began.
        assert_eq!(life.epoch(), if driver == DriverKind::Flip { Epoch(4) } else { Epoch(5) });
        life.accept(Op::Complete { cluster: id("main"), plan: id("p-1") });

        let cluster = &life.state.clusters[&id::<crate::domain::ClusterName>("main")];
        let record = &cluster.plans[&id::<crate::domain::PlanId>("p-1")];
        assert_eq!(record.state, PlanState::Succeeded);
        assert_eq!(record.rollout.as_ref().unwrap().state, RolloutState::Succeeded);
        assert_eq!(cluster.active, None);
        assert_eq!(cluster.table.owner(Slot::at(9)).unwrap().as_str(), "c");
        assert_eq!(cluster.table.count_of(&id("c")), 20);
    }
}
