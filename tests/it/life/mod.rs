//! A live cluster around its moves, end to end on real redis-server processes: adopted by a seed, watched, repaired, checked
//! before a plan, and its nodes as they come and go.

mod adopt;
mod drain;
mod drift;
mod encrypted;
mod fenced;
mod membership;
mod stats;
mod third;

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Member, eventually};
use crate::live::cluster::Cluster;
use crate::live::server::Options;

const CLUSTER: &str = "/v1/clusters/default";

/// A controller of one member that adopted a cluster of real servers.
struct Stage {
    member: Member,
    cluster: Cluster,
}

impl Stage {
    async fn new(folder: &Path, primaries: usize, replicas: usize) -> Self {
        let cluster = Cluster::start(folder, primaries, replicas, &Options::default());
        let stage = Self { member: controller(folder, "").await, cluster };
        stage.adopt(0).await;
        stage
    }

    async fn adopt(&self, seed: usize) -> Value {
        let seed = self.cluster.servers[seed].address().to_string();
        self.member.post(&format!("{CLUSTER}/import"), json!({"seed": seed})).await.expect(200)
    }

    async fn topology(&self) -> Value {
        self.member.get(&format!("{CLUSTER}/topology?consistency=linearizable")).await.expect(200)
    }

    async fn drift(&self) -> Vec<Value> {
        self.member.get(&format!("{CLUSTER}/drift")).await.expect(200)["drift"].as_array().unwrap().clone()
    }

    /// Waits until the differences are of these kinds, and gives them.
    async fn until_drift(&self, kinds: &[&str]) -> Vec<Value> {
        eventually(&format!("drift {kinds:?}"), || async {
            let drift = self.drift().await;
            let found: Vec<&str> = drift.iter().map(|item| item["kind"].as_str().unwrap()).collect();
            (found == kinds).then_some(drift)
        })
        .await
    }

    async fn propose(&self, request: Value) -> Value {
        self.member.post(&format!("{CLUSTER}/plans"), request).await.expect(201)["plan"].clone()
    }

    /// Approves with every acknowledgement, starts, and waits for the end.
    async fn carry_out(&self, plan: &Value) {
        self.approve(plan).await;
        let path = format!("{CLUSTER}/plans/{}/rollout", plan["id"].as_str().unwrap());
        self.member.post(&path, json!({})).await.expect(201);
        eventually("the rollout has succeeded", || async {
            let rollout = self.member.get(&path).await.expect(200);
            assert_ne!(rollout["state"], "blocked", "{rollout}");
            (rollout["state"] == "succeeded").then_some(())
        })
        .await;
    }

    async fn approve(&self, plan: &Value) {
        let checks = plan["checks"].as_array().unwrap();
        let acks: Vec<&Value> = checks.iter().filter(|c| c["needs_ack"] == true).map(|c| &c["code"]).collect();
        let body = json!({"digest": plan["digest"], "acks": acks});
        self.member
            .post(&format!("{CLUSTER}/plans/{}/approvals", plan["id"].as_str().unwrap()), body)
            .await
            .expect(200);
    }
}

/// A controller without tokens, with this text in its configuration.
async fn controller(folder: &Path, text: &str) -> Member {
    let config = folder.join("controller.toml");
    std::fs::write(&config, text).unwrap();
    let member = Member::serve(&folder.join("member"), &["--config", config.to_str().unwrap()], Vec::new());
    member.ready().await;
    member
}

/// The check with this name.
fn check<'a>(plan: &'a Value, name: &str) -> &'a Value {
    let mut checks = plan["checks"].as_array().unwrap().iter();
    checks.find(|check| check["name"] == name).unwrap_or_else(|| panic!("no check {name} in {}", plan["checks"]))
}
