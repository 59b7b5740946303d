//! Clients that read and write registers through the SDK, and what they saw. A register is the zone of a node: a read
//! is linearizable, a write names the revision it expects and a value that nobody else writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use slotkeeper::client::{Client, ClientError, Cluster};
use slotkeeper::domain::{ClusterName, NodeId, Zone};
use slotkeeper::wire::{NodePatch, NodeView};
use tokio::task::JoinHandle;

use super::Trial;
use crate::harness::{eventually, fixture};
use crate::linearizability::{Answer, Call, Operation, check};

/// Nobody's value: what a register holds at first.
const FIRST: &str = "none";
const CLUSTER: &str = "registers";

/// Clients at work.
pub struct Registers {
    nodes: Vec<NodeId>,
    clients: Vec<JoinHandle<()>>,
    record: Arc<Record>,
}

/// What all clients saw.
struct Record {
    clock: Instant,
    stopped: AtomicBool,
    written: AtomicUsize,
    operations: Mutex<BTreeMap<NodeId, Vec<Operation>>>,
    /// The revision that each value of each register had.
    revisions: Mutex<BTreeMap<(NodeId, String), u64>>,
}

impl Registers {
    /// Makes the registers and starts so many clients, each with another member as its favourite.
    pub async fn start(trial: &Trial, clients: usize) -> Self {
        let member = trial.member(0);
        member.post("/v1/clusters", json!({"name": CLUSTER, "driver": "flip"})).await.expect(201);
        let nodes = Value::String(fixture("01-3m3r.nodes.txt"));
        member.post(&format!("/v1/clusters/{CLUSTER}/import"), nodes).await.expect(200);
        let nodes = cluster(&trial.client(0)).nodes().await.unwrap();
        // Few, so that clients get in each other's way.
        let nodes: Vec<NodeId> = nodes.into_iter().take(4).map(|node| node.id).collect();
        let record = Arc::new(Record {
            clock: Instant::now(),
            stopped: AtomicBool::new(false),
            written: AtomicUsize::new(0),
            operations: Mutex::default(),
            revisions: Mutex::default(),
        });
        let clients = (0..clients)
            .map(|number| {
                let worker = Worker {
                    number,
                    cluster: cluster(&trial.client(number)),
                    nodes: nodes.clone(),
                    record: Arc::clone(&record),
                    random: StdRng::seed_from_u64(trial.seed.wrapping_add(number as u64)),
                };
                tokio::spawn(worker.work())
            })
            .collect();
        Self { nodes, clients, record }
    }

    /// Waits until so many more writes were acknowledged.
    pub async fn go_on(&self, trial: &Trial, writes: usize) {
        let started = Instant::now();
        let before = self.record.written.load(Ordering::Relaxed);
        let wanted = before + writes;
        eventually("the clients' writes go on", || async {
            (self.record.written.load(Ordering::Relaxed) >= wanted).then_some(())
        })
        .await;
        trial.note(format!("{writes} more writes in {:?}", started.elapsed()));
    }

    /// Writes that were acknowledged so far.
    pub fn written(&self) -> usize {
        self.record.written.load(Ordering::Relaxed)
    }

    /// Ends the clients, lets everyone agree, and checks: every history is linearizable, what was acknowledged is in the
    /// audit once, and what is read at the end is there on every member. Returns the audit and the term.
    pub async fn finish(self, trial: &Trial) -> (Vec<Value>, u64) {
        self.record.stopped.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.unwrap();
        }
        for index in 0..trial.group.members.len() {
            let client = Client::builder([trial.member(index).url.clone()]).token(trial.member(0).token.clone());
            let cluster = cluster(&client.build().unwrap());
            for id in &self.nodes {
                read(&self.record, 100 + index, &cluster, id).await.expect("everyone is there again");
            }
        }
        let (audit, term) = trial.all_agree().await;
        let operations = self.record.operations.lock().unwrap().clone();
        for (id, operations) in &operations {
            if let Err(violation) = check(FIRST, operations) {
                let all: Vec<String> = operations.iter().map(ToString::to_string).collect();
                panic!("node {id}: {violation}\nthe whole history:\n{}", all.join("\n"));
            }
        }
        let all = || operations.values().flatten();
        let count = |wanted: &dyn Fn(&Operation) -> bool| all().filter(|operation| wanted(operation)).count();
        trial.note(format!(
            "{} operations: {} swapped, {} refused, {} writes of unknown outcome",
            all().count(),
            count(&|operation| matches!(operation.end, Some((_, Answer::Swapped(true))))),
            count(&|operation| matches!(operation.end, Some((_, Answer::Swapped(false))))),
            count(&|operation| operation.end.is_none()),
        ));
        audit_has_each_once(&audit, all());
        (audit, term)
    }
}

fn cluster(client: &Client) -> Cluster {
    client.cluster(&ClusterName::new(CLUSTER).unwrap())
}

/// What was acknowledged is there once, what was refused is not, and what is unknown not twice.
fn audit_has_each_once<'a>(audit: &[Value], operations: impl Iterator<Item = &'a Operation>) {
    let mut written: BTreeMap<&str, usize> = BTreeMap::new();
    for record in audit.iter().filter(|record| record["cluster"] == CLUSTER) {
        if let Some((_, zone)) = record["summary"].as_str().unwrap().rsplit_once(", zone ") {
            *written.entry(zone).or_default() += 1;
        }
    }
    for operation in operations {
        let Call::Swap { new, .. } = &operation.call else { continue };
        let times = written.get(new.as_str()).copied().unwrap_or_default();
        match &operation.end {
            Some((_, Answer::Swapped(true))) => assert_eq!(times, 1, "times in the audit: {operation}"),
            Some(_) => assert_eq!(times, 0, "times in the audit: {operation}"),
            None => assert!(times <= 1, "{times} times in the audit: {operation}"),
        }
    }
}

struct Worker {
    number: usize,
    cluster: Cluster,
    nodes: Vec<NodeId>,
    record: Arc<Record>,
    random: StdRng,
}

impl Worker {
    async fn work(mut self) {
        let mut number = 0;
        while !self.record.stopped.load(Ordering::Relaxed) {
            let id = self.nodes[self.random.random_range(0..self.nodes.len())].clone();
            let Some(seen) = read(&self.record, self.number, &self.cluster, &id).await else { continue };
            self.rest().await;
            if self.random.random_bool(0.6) {
                number += 1;
                self.swap(&id, &seen, &format!("z{}-{number}", self.number)).await;
            }
        }
    }

    /// A pause, so that the load is bounded and a value that was read has time to grow old.
    async fn rest(&mut self) {
        tokio::time::sleep(Duration::from_millis(self.random.random_range(2..25))).await;
    }

    async fn swap(&self, id: &NodeId, seen: &NodeView, new: &str) {
        let from = self.record.now();
        let patch = NodePatch { zone: Some(Some(Zone::new(new).unwrap())), ..NodePatch::default() };
        let answer = match self.cluster.set_node(id, seen.revision, &patch).await {
            Ok(changed) => {
                self.record.written.fetch_add(1, Ordering::Relaxed);
                // The answer may be newer than the write: another client's came in between.
                if changed.node.zone.as_ref().is_some_and(|zone| zone.as_str() == new) {
                    self.record.seen(id, &changed.node);
                }
                Some(Answer::Swapped(true))
            }
            Err(error) if error.status() == Some(412) => Some(Answer::Swapped(false)),
            Err(error) if is_passing(&error) => None,
            Err(error) => panic!("a write was refused: {error}"),
        };
        let end = answer.map(|answer| (self.record.now(), answer));
        let call = Call::Swap { expected: value(seen).to_owned(), new: new.to_owned() };
        self.record.keep(id, Operation { client: self.number, call, from, end });
    }
}

async fn read(record: &Record, client: usize, cluster: &Cluster, id: &NodeId) -> Option<NodeView> {
    let from = record.now();
    match cluster.node(id).await {
        Ok(node) => {
            record.seen(id, &node);
            let end = Some((record.now(), Answer::Value(value(&node).to_owned())));
            record.keep(id, Operation { client, call: Call::Read, from, end });
            Some(node)
        }
        Err(error) if is_passing(&error) => None,
        Err(error) => panic!("a read was refused: {error}"),
    }
}

/// No member answered: what became of a write is unknown.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Problem(problem) => problem.status == 503,
        ClientError::Unreachable { .. } | ClientError::Timeout { .. } => true,
        _ => false,
    }
}

fn value(node: &NodeView) -> &str {
    node.zone.as_ref().map_or(FIRST, |zone| zone.as_str())
}

impl Record {
    fn now(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_nanos()).unwrap()
    }

    fn keep(&self, id: &NodeId, operation: Operation) {
        self.operations.lock().unwrap().entry(id.clone()).or_default().push(operation);
    }

    /// A value has one revision, whoever sees it: a history that forked and came together would show here.
    fn seen(&self, id: &NodeId, node: &NodeView) {
        let key = (id.clone(), value(node).to_owned());
        let first = *self.revisions.lock().unwrap().entry(key).or_insert(node.revision.0);
        assert_eq!(first, node.revision.0, "revisions of {} at node {id}", value(node));
    }
}
