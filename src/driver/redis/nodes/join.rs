//! A server becomes a member: it is looked at, met, and waited for until everybody knows it.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::{Instant, sleep};

use super::{Servers, nodes_of};
use crate::domain::{Address, NodeId, Topology};
use crate::driver::nodes::{Candidate, Depth, Durability, Facts, Mandate, NodesError, Survey};
use crate::nodes_text::{Role, View};

/// How long nodes may take to come to know a new one, and its role.
const KNOWN_TIME: Duration = Duration::from_secs(20);
/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A meeting that came to nothing is asked for again after so long.
const MEET_AGAIN: Duration = Duration::from_secs(3);
/// Where the bus of a server is by default: that far above its port.
const BUS_OFFSET: u32 = 10_000;
/// The oldest servers that can be members.
const MAJOR_MIN: u32 = 4;

/// Whether a server can join a cluster.
pub(super) async fn inspect(
    servers: &Servers,
    topology: &Topology,
    address: &Address,
) -> Result<Candidate, NodesError> {
    let server = servers.at(address);
    let (text, facts) = server.whole().await?;
    let view = server.view_of(&text)?;
    let members: BTreeSet<&NodeId> = nodes_of(topology).map(|(id, _)| id).collect();
    let (id, known) = fit(address, &view, &facts, &members)?;
    let bus_port = bus_port(&text).filter(|bus| u32::from(*bus) != u32::from(address.port) + BUS_OFFSET);
    let mut notes = remarks(address, &facts);
    if known {
        notes.push(format!("{address} knew the cluster already, from an attempt that did not come to its end"));
    }
    Ok(Candidate { id, address: address.clone(), bus_port, notes })
}

/// Whether what a server says of itself allows it to join the members: its id, and whether it knows them already.
fn fit(
    address: &Address,
    view: &View,
    facts: &Facts,
    members: &BTreeSet<&NodeId>,
) -> Result<(NodeId, bool), NodesError> {
    let refused = |why: String| Err(NodesError::Refused(format!("{address} cannot join: {why}")));
    if !facts.cluster {
        return refused("it is not in cluster mode (cluster-enabled no)".to_owned());
    }
    if facts.loading {
        return Err(NodesError::Unavailable(format!("{address} is still loading its data")));
    }
    let major = facts.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < MAJOR_MIN) {
        return refused(format!("it runs version {:?}, and {MAJOR_MIN}.0 is the oldest that can", facts.version));
    }
    let Some(me) = view.myself() else { return refused("it does not say which node it is".to_owned()) };
    if members.contains(&me.id) {
        return refused(format!("it is node {} of the cluster already", me.id));
    }
    let others: Vec<&NodeId> = view.nodes.iter().filter(|node| !node.myself).map(|node| &node.id).collect();
    if let Some(stranger) = others.iter().find(|node| !members.contains(**node)) {
        return refused(format!("it knows node {stranger} of another cluster: CLUSTER RESET it first"));
    }
    let owned: usize = me.ranges.iter().map(|range| range.count()).sum();
    if owned > 0 || !me.open.is_empty() {
        let mut has = Vec::new();
        for (number, what) in [(owned as u64, "slots"), (me.open.len() as u64, "open slots"), (facts.keys, "keys")] {
            if number > 0 {
                has.push(format!("{number} {what}"));
            }
        }
        return refused(format!("it has {}: empty it, then CLUSTER RESET it", has.join(", ")));
    }
    // A replica of a member holds its primary's keys: an attempt that did not come to its end left it so.
    if me.role == Role::Master && facts.keys > 0 {
        return refused(format!("it holds {} keys: FLUSHALL it first", facts.keys));
    }
    Ok((me.id.clone(), !others.is_empty()))
}

/// The bus port, as the server prints it of itself: `host:port@bus`.
fn bus_port(text: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(text).ok()?.lines().find(|line| line.contains("myself"))?;
    let digits = line.split(' ').nth(1)?.split('@').nth(1)?.split(',').next()?;
    digits.parse().ok().filter(|port| *port > 0)
}

fn remarks(address: &Address, facts: &Facts) -> Vec<String> {
    let mut notes = Vec::new();
    if facts.durability != Durability::Always {
        notes.push(format!("{address} is lossy on crash: {}", facts.durability.as_str()));
    }
    if facts.replica_migration == Some(true) {
        notes.push(format!(
            "{address} copies another shard by itself once empty: cluster-allow-replica-migration is on"
        ));
    }
    if !facts.denied.is_empty() {
        notes.push(format!("{address} does not allow the controller's user {}", facts.denied.join(", ")));
    }
    notes
}

/// Makes a server a member, and a replica where that is asked for.
pub(super) async fn admit(
    servers: &Servers,
    mandate: &Mandate,
    topology: &Topology,
    candidate: &Candidate,
    replica_of: Option<&NodeId>,
) -> Result<(), NodesError> {
    let deadline = Instant::now() + KNOWN_TIME;
    let mut met: Option<Instant> = None;
    while let Some(missing) = unknown_to(servers, topology, candidate).await? {
        if Instant::now() >= deadline {
            return Err(NodesError::Unavailable(format!(
                "{} is not known to all: {missing}; ask again (nodes that have just forgotten it do not take it in for a minute), or CLUSTER FORGET {} everywhere",
                candidate.address, candidate.id
            )));
        }
        if met.is_none_or(|met| met.elapsed() >= MEET_AGAIN) {
            meet(servers, mandate, topology, candidate).await?;
            met = Some(Instant::now());
        }
        sleep(LOOK_EVERY).await;
    }
    let Some(primary) = replica_of else { return Ok(()) };
    loop {
        let view = servers.at(&candidate.address).view().await?;
        let mine = view.myself().map(|me| &me.role) == Some(&Role::ReplicaOf(primary.clone()));
        if !mine {
            let replicate = ["CLUSTER", "REPLICATE", primary.as_str()];
            servers.at(&candidate.address).order(mandate, &replicate, "before-replicate").await?;
        } else if seen_as_replica(&survey(servers, topology).await, &candidate.id, primary) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let why = format!("not every node sees {} as a replica of {primary} yet: ask again", candidate.address);
            return Err(NodesError::Unavailable(why));
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn survey(servers: &Servers, topology: &Topology) -> Survey {
    servers.survey_of(topology, Depth::Views).await
}

fn seen_as_replica(survey: &Survey, node: &NodeId, primary: &NodeId) -> bool {
    let role = Role::ReplicaOf(primary.clone());
    survey.answers().all(|(_, answer)| answer.view.node(node).is_some_and(|seen| seen.role == role))
}

/// Who does not know the candidate, or whom it does not know; a sentence. Primaries must answer.
async fn unknown_to(
    servers: &Servers,
    topology: &Topology,
    candidate: &Candidate,
) -> Result<Option<String>, NodesError> {
    let (survey, own) =
        futures::future::join(survey(servers, topology), async { servers.at(&candidate.address).view().await }).await;
    // A server that has just met the others prints replicas whose primaries it has not heard of: it is asked again.
    let own = match own {
        Ok(own) => own,
        Err(NodesError::Refused(why)) => return Ok(Some(why)),
        Err(error) => return Err(error),
    };
    for shard in &topology.shards {
        if let Some(Err(why)) = survey.nodes.get(&shard.primary.id).map(|node| &node.answer) {
            let at = Address::from(&shard.primary);
            return Err(NodesError::Unavailable(format!("the primary of shard {} at {at}: {why}", shard.id)));
        }
    }
    let is_member = |view: &View, node: &NodeId| {
        view.node(node).is_some_and(|seen| matches!(seen.role, Role::Master | Role::ReplicaOf(_)))
    };
    for (id, answer) in survey.answers() {
        let at = &survey.nodes[id].address;
        if !is_member(&answer.view, &candidate.id) {
            return Ok(Some(format!("{at} does not know it")));
        }
        if !is_member(&own, id) {
            return Ok(Some(format!("it does not know {at}")));
        }
        // Nodes come to know each other before they know what each owns, and a plan wants to see them agree.
        let slots = |view: &View| view.node(id).map(|node| node.ranges.clone());
        if answer.view.node(id).is_some_and(|node| node.role == Role::Master) && slots(&own) != slots(&answer.view) {
            return Ok(Some(format!("it does not know the slots of {at}")));
        }
        if let Some(node) = answer.view.nodes.iter().find(|node| node.role == Role::Handshake) {
            return Ok(Some(format!("{at} has node {} in handshake", node.id)));
        }
    }
    Ok(None)
}

/// Has a primary meet the candidate. The nodes take addresses only, no names.
async fn meet(
    servers: &Servers,
    mandate: &Mandate,
    topology: &Topology,
    candidate: &Candidate,
) -> Result<(), NodesError> {
    let Some(shard) = topology.shards.first() else {
        return Err(NodesError::Refused("the cluster has no node that the new one could meet".to_owned()));
    };
    let Address { host, port } = &candidate.address;
    let resolved = lookup_host((host.as_str(), *port)).await;
    let resolved = resolved.map_err(|error| NodesError::Unavailable(format!("{host} has no address: {error}")))?;
    let networks = &servers.links.settings().networks;
    let allowed = resolved.into_iter().find(|address| networks.check(*address).is_ok());
    let ip = allowed.ok_or_else(|| NodesError::Refused(format!("{host} has no address that may be dialled")))?.ip();
    let (ip, port, bus) =
        (ip.to_canonical().to_string(), port.to_string(), candidate.bus_port.map(|bus| bus.to_string()));
    let mut words = vec!["CLUSTER", "MEET", &ip, &port];
    words.extend(bus.as_deref());
    servers.at(&Address::from(&shard.primary)).order(mandate, &words, "before-meet").await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes_text::view;

    const ME: &str = "256f8fad71da49fc9bd8d75955ece32c6c0cd817";
    const OTHER: &str = "3ff99ba2b5e26e3974d67804ec06fc2106c86fea";

    fn facts() -> Facts {
        Facts { cluster: true, version: "7.0.15".to_owned(), ..Facts::default() }
    }

    fn verdict(text: &str, facts: &Facts, members: &[&str]) -> Result<bool, String> {
        let members: Vec<NodeId> = members.iter().map(|id| NodeId::new(id).unwrap()).collect();
        let view = view(text.as_bytes(), None).unwrap();
        let fit = fit(&"10.0.0.9:7".parse().unwrap(), &view, facts, &members.iter().collect());
        fit.map(|(_, known)| known).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_server_that_knows_nobody_can_join() {
        let alone = format!("{ME} 10.0.0.9:7@10007 myself,master - 0 0 0 connected\n");
        let other = format!("{alone}{OTHER} 10.0.0.1:7@10007 master - 0 0 0 connected\n");
        assert_eq!(verdict(&alone, &facts(), &[OTHER]), Ok(false));
        assert_eq!(verdict(&other, &facts(), &[OTHER]), Ok(true), "an attempt before came half-way");
        let owns = alone.replace("connected", "connected 0-9");
        for (text, facts, members, words) in [
            (&alone, Facts { cluster: false, ..facts() }, vec![], "not in cluster mode"),
            (&alone, Facts { loading: true, ..facts() }, vec![], "still loading"),
            (&alone, Facts { version: "3.2.12".to_owned(), ..facts() }, vec![], "3.2.12"),
            (&alone, Facts { version: String::new(), ..facts() }, vec![], "version \"\""),
            (&alone, facts(), vec![ME], "of the cluster already"),
            (&other, facts(), vec![], OTHER),
            (&owns, facts(), vec![], "it has 10 slots: empty it"),
            (&owns, Facts { keys: 3, ..facts() }, vec![], "it has 10 slots, 3 keys: empty it"),
            (&alone, Facts { keys: 3, ..facts() }, vec![], "it holds 3 keys"),
        ] {
            let why = verdict(text, &facts, &members).unwrap_err();
            assert!(why.contains(words) && why.contains("10.0.0.9:7"), "{why}");
        }
        let copies = format!(
            "{ME} 10.0.0.9:7@10007 myself,slave {OTHER} 0 0 0 connected\n{OTHER} 10.0.0.1:7@10007 master - 0 0 0 connected\n"
        );
        assert_eq!(verdict(&copies, &Facts { keys: 3, ..facts() }, &[OTHER]), Ok(true));
    }

    #[test]
    fn the_bus_port_is_that_of_the_server_itself() {
        let line = |address: &str| format!("x 1.1.1.1:1@2 master\n{ME} {address} myself,master - 0 0 0 connected");
        for (address, bus) in
            [("10.0.0.9:7@10007", Some(10007)), ("::1:7@99,name,shard-id=x", Some(99)), (":7@0", None), ("h:7", None)]
        {
            assert_eq!(bus_port(line(address).as_bytes()), bus, "{address}");
        }
    }
}
