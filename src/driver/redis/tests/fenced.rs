//! A leader that stood still while another took over: it makes nobody a member, and nobody forget one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::fixture::{Cluster, Server, driver};
use crate::domain::Address;
use crate::driver::nodes::{Candidate, Mandate, NodesError};
use crate::driver::redis::{Credentials, Failpoints, Redis, Secret, Settings};
use crate::driver::{Driver as _, Lease};

fn address(server: &Server) -> Address {
    format!("127.0.0.1:{}", server.port).parse().unwrap()
}

fn mandate(cluster: &Cluster, lease: Lease) -> Mandate {
    Mandate { cluster: cluster.name.clone(), lease }
}

/// How many nodes each server knows, itself included.
fn known(servers: &[Server]) -> Vec<usize> {
    servers.iter().map(|server| server.text(&["CLUSTER", "NODES"]).lines().count()).collect()
}

/// A driver whose lease ends at a place, and its lease.
fn that_stands_still_at(place: &'static str) -> (Redis, Lease) {
    let holds = Arc::new(AtomicBool::new(true));
    let lease = Lease::new(4, {
        let holds = Arc::clone(&holds);
        move || holds.load(Ordering::Relaxed)
    });
    let failpoints = Failpoints::new(move |reached| {
        if reached == place {
            holds.store(false, Ordering::Relaxed);
        }
        Box::pin(std::future::ready(()))
    });
    (driver(Settings { failpoints, ..Settings::default() }), lease)
}

#[tokio::test(flavor = "multi_thread")]
async fn whose_lease_is_over_meets_nobody_and_has_nobody_forgotten() {
    // The last one owns nothing.
    let cluster = Cluster::start(3, 1, 0, &[]);
    let (mut topology, stranger) = (cluster.topology(), Server::start(&[]));
    let over = |answer: Result<(), NodesError>| {
        assert!(matches!(&answer, Err(NodesError::Unavailable(why)) if why.contains("leads no more")), "{answer:?}");
    };
    let (driver, lease) = that_stands_still_at("before-meet");
    let newcomer: Candidate = driver.nodes().unwrap().inspect(&topology, &address(&stranger)).await.unwrap();
    over(driver.nodes().unwrap().admit(&mandate(&cluster, lease), &topology, &newcomer, None).await);
    assert_eq!((known(&cluster.servers), known(std::slice::from_ref(&stranger))), (vec![4; 4], vec![1]));

    let leaving = cluster.servers[3].id();
    let (driver, lease) = that_stands_still_at("before-reset");
    over(driver.nodes().unwrap().forget(&mandate(&cluster, lease), &topology, &leaving).await.map(drop));
    assert_eq!(known(&cluster.servers), [4; 4]);
    let (driver, lease) = that_stands_still_at("before-forget");
    over(driver.nodes().unwrap().forget(&mandate(&cluster, lease), &topology, &leaving).await.map(drop));
    // It was told to forget the others before; they were not told to forget it.
    assert_eq!(known(&cluster.servers[..3]), [4; 3]);
    topology.shards.retain(|shard| shard.primary.id != leaving);

    let (driver, lease) = that_stands_still_at("before-replicate");
    let shard = &topology.shards[0].primary.id;
    over(driver.nodes().unwrap().admit(&mandate(&cluster, lease), &topology, &newcomer, Some(shard)).await);
    assert!(stranger.is_master(), "it was met, and does not copy anybody");
    // The next leader goes on from there.
    let driver = super::fixture::driver(Settings::default());
    let mandate = mandate(&cluster, Lease::new(5, || true));
    driver.nodes().unwrap().admit(&mandate, &topology, &newcomer, Some(shard)).await.unwrap();
    assert!(!stranger.is_master());
}

#[tokio::test(flavor = "multi_thread")]
async fn whose_user_is_gone_meets_nobody_and_has_nobody_forgotten_whatever_it_believes() {
    let cluster = Cluster::start(3, 1, 0, &[]);
    let (topology, stranger) = (cluster.topology(), Server::start(&[]));
    for server in cluster.servers.iter().chain([&stranger]) {
        server.ask(&["ACL", "SETUSER", "admin", "on", ">canary", "~*", "&*", "+@all"]);
    }
    let admin = Credentials { username: Some("admin".to_owned()), password: Secret::new("canary") };
    let settings = Settings { credentials: Some(admin), fence_with_acl: true, ..Settings::default() };
    let (old, new) = (driver(settings.clone()), driver(settings));
    // Both believe that they lead: the old one has not woken up to it.
    let (lease, next) = (Lease::new(4, || true), Lease::new(5, || true));
    old.fence(&cluster.name, &topology, &lease).await.unwrap();
    let candidate = old.nodes().unwrap().inspect(&topology, &address(&stranger)).await.unwrap();
    let leaving = cluster.servers[3].id();
    new.fence(&cluster.name, &topology, &next).await.unwrap();

    let (before, after) = (mandate(&cluster, lease), mandate(&cluster, next));
    for _ in 0..2 {
        // On a connection that it had, and on a new one.
        let met = old.nodes().unwrap().admit(&before, &topology, &candidate, None).await;
        assert!(matches!(met, Err(NodesError::Unavailable(_))), "{met:?}");
        let forgotten = old.nodes().unwrap().forget(&before, &topology, &leaving).await;
        assert!(matches!(forgotten, Err(NodesError::Unavailable(_))), "{forgotten:?}");
    }
    assert_eq!((known(&cluster.servers), known(std::slice::from_ref(&stranger))), (vec![4; 4], vec![1]));
    assert!(!format!("{:?}", stranger.ask(&["ACL", "USERS"])).contains("-t4"));

    new.nodes().unwrap().admit(&after, &topology, &candidate, None).await.unwrap();
    cluster.wait("all know it", || known(&cluster.servers) == [5; 4]);
    new.nodes().unwrap().forget(&after, &topology, &leaving).await.unwrap();
    cluster.wait("nobody knows it", || known(&cluster.servers[..3]) == [4; 3]);
    // The fence is made once in a term: the second one changes nothing, and ends no connection.
    let users = || format!("{:?}", cluster.servers[0].ask(&["ACL", "GETUSER", "slotkeeper-live-t5"]));
    let first = users();
    new.fence(&cluster.name, &topology, &after.lease).await.unwrap();
    assert_eq!(users(), first);
}
