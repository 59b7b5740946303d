//! A running cluster from any of its nodes.

use futures::StreamExt as _;
use futures::stream;

use super::{Servers, TOGETHER, agreement};
use crate::domain::{Address, NodeId};
use crate::driver::nodes::{Discovery, Durability, Facts, NodesError};
use crate::nodes_text::{self, Health, NodesTextError, Role, View};

/// What one master told.
struct Told {
    at: Address,
    view: View,
    facts: Facts,
}

/// Asks the seed, then every master that it knows, and adopts what they agree on.
pub(super) async fn discover(servers: &Servers, seed: &Address) -> Result<Discovery, NodesError> {
    let server = servers.at(seed);
    let (text, facts) = server.whole().await?;
    if !facts.cluster {
        return Err(NodesError::Refused(format!("{seed} is not in cluster mode (cluster-enabled no)")));
    }
    let view = server.view_of(&text)?;
    let masters = masters(&view, seed)?;
    let asked = masters.into_iter().map(|(id, at)| async move {
        let told = ask(servers, &id, &at).await;
        told.map_err(|error| NodesError::Unavailable(format!("master {id}, as {seed} names it: {error}")))
    });
    let told: Vec<Result<Told, NodesError>> = stream::iter(asked).buffered(TOGETHER).collect().await;
    let told: Vec<Told> = told.into_iter().collect::<Result<_, _>>()?;
    let mut views = vec![(seed.to_string(), view)];
    views.extend(told.iter().map(|told| (told.at.to_string(), told.view.clone())));
    let faults = agreement::faults(&views);
    if !faults.is_empty() {
        return Err(NodesError::Refused(format!("the nodes do not agree: {}", faults.join("; "))));
    }
    let mut adopted = nodes_text::adopt(&text, Some(&seed.host)).map_err(|error| match error {
        NodesTextError::Malformed { .. } | NodesTextError::OpenSlot { .. } => {
            NodesError::Refused(format!("what {seed} answers to CLUSTER NODES: {error}"))
        }
    })?;
    adopted.notes.extend(remarks(&told));
    let keys = told.iter().map(|told| told.facts.keys).sum();
    Ok(Discovery { adopted, keys })
}

/// The masters that the seed knows, itself among them when it is one. A failing one without slots is left out: it is not
/// adopted either.
fn masters(view: &View, seed: &Address) -> Result<Vec<(NodeId, Address)>, NodesError> {
    let masters = view.nodes.iter().filter(|node| node.role == Role::Master);
    let relevant = masters.filter(|node| node.health == Health::Good || !node.ranges.is_empty());
    relevant
        .map(|node| match &node.host {
            _ if node.myself => Ok((node.id.clone(), seed.clone())),
            Some(host) if node.port > 0 => Ok((node.id.clone(), Address { host: host.clone(), port: node.port })),
            _ => Err(NodesError::Refused(format!("{seed} knows no address of master {}", node.id))),
        })
        .collect()
}

async fn ask(servers: &Servers, id: &NodeId, at: &Address) -> Result<Told, NodesError> {
    let server = servers.at(at);
    let (text, facts) = server.whole().await?;
    let view = server.view_of(&text)?;
    match view.myself() {
        Some(me) if me.id == *id => Ok(Told { at: at.clone(), view, facts }),
        Some(me) => Err(NodesError::Refused(format!("{at} answers as {}", me.id))),
        None => Err(NodesError::Refused(format!("{at} does not say which node it is"))),
    }
}

/// What a person should know of the servers.
fn remarks(told: &[Told]) -> Vec<String> {
    let mut notes = Vec::new();
    let names = |of: &dyn Fn(&Told) -> bool| {
        let names: Vec<String> = told.iter().filter(|told| of(told)).map(|told| told.at.to_string()).collect();
        names.join(", ")
    };
    let lossy = names(&|told| told.facts.durability != Durability::Always);
    if !lossy.is_empty() {
        notes.push(format!("lossy on crash, without appendfsync always: {lossy}"));
    }
    let migrating = names(&|told| told.facts.replica_migration == Some(true));
    if !migrating.is_empty() {
        notes.push(format!(
            "cluster-allow-replica-migration is on: an emptied node will copy another shard by itself: {migrating}"
        ));
    }
    let denied = names(&|told| !told.facts.denied.is_empty());
    if let Some(user) = told.iter().find(|told| !told.facts.denied.is_empty()) {
        let missing = user.facts.denied.join(", ");
        notes.push(format!("the user lacks commands of a move ({missing}): {denied}"));
    }
    let mut versions: Vec<String> = told.iter().map(|t| format!("{} {}", t.facts.server, t.facts.version)).collect();
    versions.sort();
    versions.dedup();
    notes.push(format!("{} masters run {}", told.len(), versions.join(", ")));
    notes
}
