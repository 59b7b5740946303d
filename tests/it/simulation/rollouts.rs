//! The operator of rollouts: proposes, approves, starts, pauses, aborts and rolls back.

use std::sync::atomic::Ordering;

use axum::http::Method;
use rand::RngExt;
use serde_json::{Value, json};

use super::clients::Client;

impl Client {
    /// Has one plan after the other carried out, steered as operators do.
    pub async fn roll_out(mut self) {
        let mut added: Vec<String> = Vec::new();
        while !self.all.healed() {
            if let Some(plan) = self.propose(&mut added).await {
                self.carry_out(&plan).await;
                self.all.told(|oracle| oracle.counts.rollouts += 1);
            }
            self.pause(300).await;
        }
        // What an answer that was lost may have started is brought to its end as well.
        while !self.all.stopped() {
            match self.get("/v1/clusters/default").await.map(|answer| answer.json["active_plan"].clone()) {
                Some(Value::Null) => self.all.rolled_out.store(true, Ordering::Relaxed),
                Some(Value::String(plan)) => self.carry_out(&plan).await,
                _ => {}
            }
            self.pause(100).await;
        }
    }

    async fn propose(&mut self, added: &mut Vec<String>) -> Option<String> {
        let body = if added.len() >= 2 && self.rng.random_bool(0.5) {
            json!({"drain": [added.remove(0)], "reason": "less room"})
        } else {
            let name = format!("n{}", self.all.serial.fetch_add(1, Ordering::Relaxed));
            added.push(name.clone());
            json!({"add": [{"host": name, "port": 7000, "name": name}], "reason": "more room"})
        };
        let answer = self.insist(Method::POST, "/v1/clusters/default/plans", &[], &body.to_string()).await?;
        let plan = answer.json["plan"]["id"].as_str()?.to_owned();
        let digest = answer.json["plan"]["digest"].as_str()?.to_owned();
        self.all.told(|oracle| oracle.proposed(&plan, &digest));
        let path = format!("/v1/clusters/default/plans/{plan}");
        if self.rng.random_bool(0.3) {
            let wrong = json!({"digest": format!("sha256:{}", "0".repeat(64))}).to_string();
            let answer = self.insist(Method::POST, &format!("{path}/approvals"), &[], &wrong).await;
            if answer.is_some_and(|answer| answer.status.is_success()) {
                self.all.told(|oracle| oracle.violation("S3: a plan was approved by another digest"));
            }
        }
        let approval = json!({"digest": digest}).to_string();
        self.insist(Method::POST, &format!("{path}/approvals"), &[], &approval).await?;
        self.insist(Method::POST, &format!("{path}/rollout"), &[], "").await?;
        Some(plan)
    }

    /// Looks at a rollout until it has ended.
    async fn carry_out(&mut self, plan: &str) {
        let path = format!("/v1/clusters/default/plans/{plan}/rollout");
        while !self.all.stopped() {
            self.pause(150).await;
            let Some(answer) = self.get(&path).await else {
                if self.all.healed() {
                    return;
                }
                continue;
            };
            let state = answer.json["state"].as_str().unwrap_or_default().to_owned();
            let verb = match state.as_str() {
                "succeeded" | "aborted" | "rolled_back" => return,
                "paused" | "blocked" => "resume",
                "running" if !self.all.healed() && self.rng.random_bool(0.08) => {
                    ["pause", "abort", "rollback"][self.rng.random_range(0..3)]
                }
                _ => continue,
            };
            self.insist(Method::POST, &format!("{path}/{verb}"), &[], "").await;
        }
    }
}
