//! The real binary: one controller, which adopts the cluster, takes the new server in, and carries the plan out.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::Care;
use super::cluster::Cluster;
use super::server::until;

const BINARY: &str = env!("CARGO_BIN_EXE_slotkeeper");

/// A controller with an approved plan.
pub struct Prepared {
    child: Child,
    endpoint: String,
    plan: String,
}

/// Starts a controller, adopts the cluster, adds the server, and approves the plan for it.
pub fn prepare(folder: &Path, cluster: &Cluster, new: usize, care: Care) -> Prepared {
    let listen = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let log = std::fs::File::create(folder.join("controller.log")).expect("a file");
    let config = folder.join("slotkeeper.toml");
    std::fs::write(&config, format!("[redis]\nbusy_us = {}\n", care.busy_us)).expect("a file");
    let child = Command::new(BINARY)
        .args(["serve", "--insecure-dev", "--listen", &listen.to_string(), "--data-dir"])
        .arg(folder.join("controller"))
        .arg("--config")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a handle"))
        .stderr(log)
        .spawn()
        .expect("it starts");
    let mut prepared = Prepared { child, endpoint: format!("http://{listen}"), plan: String::new() };
    until("the controller is ready", || prepared.call(&["cluster", "show", "default"]).map(drop));
    let seed = cluster.servers[0].address().to_string();
    prepared.must(&["cluster", "import", "--seed", &seed]);
    let moves = care.moves_per_target.to_string();
    prepared.must(&["cluster", "configure", "default", "--moves-per-target", &moves]);
    let added = prepared.must(&["node", "add", &cluster.servers[new].address().to_string()]);
    let plan = &added["plan"];
    plan["id"].as_str().expect("a plan").clone_into(&mut prepared.plan);
    let shown = prepared.must(&["plan", "show", &prepared.plan]);
    let mut approve = vec!["plan", "approve", &prepared.plan, "--digest", shown["digest"].as_str().expect("a digest")];
    for check in shown["checks"].as_array().expect("checks").iter().filter(|check| check["needs_ack"] == true) {
        approve.extend(["--ack", check["code"].as_str().expect("a code")]);
    }
    prepared.must(&approve);
    prepared
}

impl Prepared {
    fn call(&self, args: &[&str]) -> Result<Value, String> {
        let output = Command::new(BINARY)
            .args(args)
            .args(["--endpoint", &self.endpoint, "-o", "json"])
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        if !output.status.success() {
            return Err(format!("{args:?}: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    fn must(&self, args: &[&str]) -> Value {
        self.call(args).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Starts the plan and follows it to its end.
    pub fn carry_out(self) {
        self.must(&["plan", "start", &self.plan, "--yes"]);
        self.must(&["rollout", "watch", &self.plan]);
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
