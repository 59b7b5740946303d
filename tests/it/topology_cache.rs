//! The SDK's topology cache against a controller that answers what the test tells it to.

use std::time::Duration;

use slotkeeper::client::{CacheError, CacheOptions, Client, ClientError, TopologyCache};
use slotkeeper::domain::{ClusterName, Version};
use tokio::time::Instant;

use crate::scripted::{DEADLINE, Scripted, nobody, topology, within};

fn cache<const N: usize>(endpoints: [&str; N]) -> TopologyCache {
    let client = Client::new(endpoints).unwrap();
    TopologyCache::start(&client, &ClusterName::new("default").unwrap(), CacheOptions::default())
}

/// A cache that holds version 7.5 with port 1, and its controller.
async fn holding() -> (TopologyCache, Scripted) {
    let mut server = Scripted::start().await;
    let cache = cache([&server.address]);
    server.asked().await.reply(200, &topology("c", 7, 5, 1));
    cache.ready(DEADLINE).await.unwrap();
    (cache, server)
}

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

async fn reaches(cache: &TopologyCache, text: &str) {
    let mut versions = cache.watch();
    within(versions.wait_for(|now| *now == Some(version(text)))).await.unwrap();
}

fn port(cache: &TopologyCache) -> u16 {
    cache.route(b"any").unwrap().port
}

#[tokio::test]
async fn takes_the_first_map_and_waits_for_the_next() {
    let mut server = Scripted::start().await;
    let cache = cache([&server.address]);
    assert!(cache.route(b"any").is_none() && cache.version().is_none());
    let first = server.asked().await;
    assert_eq!(first.target, "/v1/clusters/default/topology");
    first.reply(200, &topology("c", 7, 5, 1));
    assert_eq!(cache.ready(DEADLINE).await.unwrap().version(), version("7.5"));
    assert_eq!(port(&cache), 1);
    for _ in 0..2 {
        let poll = server.asked().await;
        assert_eq!(poll.target, "/v1/clusters/default/topology?after=7.5&wait=30000ms");
        poll.reply_unchanged();
    }
    server.asked().await.reply(200, &topology("c", 7, 6, 2));
    reaches(&cache, "7.6").await;
    assert_eq!(port(&cache), 2);
    let poll = server.asked().await;
    assert!(poll.target.contains("after=7.6"), "{}", poll.target);
    let status = cache.status();
    assert_eq!((status.version, status.error, status.failures), (Some(version("7.6")), None, 0));
}

#[tokio::test]
async fn never_goes_back() {
    let (cache, mut server) = holding().await;
    for (generation, epoch) in [(7, 4), (7, 5), (6, 99)] {
        server.asked().await.reply(200, &topology("c", generation, epoch, 9));
        let next = server.asked().await;
        assert!(next.target.contains("after=7.5"), "{}", next.target);
        let error = cache.status().error.unwrap();
        assert!(matches!(error, CacheError::NotNewer { .. }), "{error}");
        assert_eq!((port(&cache), cache.version()), (1, Some(version("7.5"))));
        next.reply_unchanged();
    }
    server.asked().await.reply(200, &topology("c", 7, 8, 2));
    reaches(&cache, "7.8").await;
    server.asked().await.reply(200, &topology("c", 8, 1, 3));
    reaches(&cache, "8.1").await;
    assert_eq!(port(&cache), 3, "a higher generation replaces everything");
    server.asked().await.reply(200, &topology("c", 7, 1000, 9));
    server.asked().await.reply_unchanged();
    assert_eq!((port(&cache), cache.version()), (3, Some(version("8.1"))));
}

#[tokio::test]
async fn refuses_the_map_of_another_cluster() {
    let (cache, mut server) = holding().await;
    server.asked().await.reply(200, &topology("other", 9, 1, 9));
    let next = server.asked().await;
    assert!(next.target.contains("after=7.5"));
    let error = cache.status().error.unwrap();
    assert!(
        matches!(&error, CacheError::OtherCluster { held, offered } if held.as_str() == "c" && offered.as_str() == "other"),
        "{error}"
    );
    assert_eq!(port(&cache), 1);
    next.reply(200, &topology("c", 7, 6, 2));
    reaches(&cache, "7.6").await;
}

#[tokio::test]
async fn refuses_a_map_that_is_not_sound() {
    let (cache, mut server) = holding().await;
    let mut holed = topology("c", 7, 6, 9);
    holed["shards"][0]["ranges"] = serde_json::json!([[0, 100]]);
    server.asked().await.reply(200, &holed);
    server.asked().await.reply_unchanged();
    assert_eq!((port(&cache), cache.version()), (1, Some(version("7.5"))));
}

#[tokio::test]
async fn goes_on_with_the_next_endpoint() {
    let mut second = Scripted::start().await;
    let mut third = Scripted::start().await;
    let cache = cache([&nobody().await, &second.address, &third.address]);
    second.asked().await.refuse(503, "unavailable");
    third.asked().await.reply(200, &topology("c", 7, 5, 1));
    cache.ready(DEADLINE).await.unwrap();
    third.asked().await.refuse(503, "unavailable");
    let poll = second.asked().await;
    assert!(poll.target.contains("after=7.5"));
    poll.reply(200, &topology("c", 7, 6, 2));
    reaches(&cache, "7.6").await;
    assert!(cache.status().endpoint.ends_with(&second.address));
    assert!(!third.is_asked(), "the endpoint that answers is kept");
}

#[tokio::test]
async fn keeps_the_map_while_the_controller_restarts() {
    let (cache, mut server) = holding().await;
    let address = server.address.clone();
    let poll = server.asked().await;
    drop(server);
    poll.reply_text(500, "the last words of a dying server");
    let gone = within(async {
        loop {
            let status = cache.status();
            if status.failures >= 2 {
                return status;
            }
            tokio::task::yield_now().await;
            assert_eq!(port(&cache), 1, "routes as before");
        }
    })
    .await;
    assert!(matches!(gone.error, Some(CacheError::Client(ClientError::Unreachable { .. }))), "{:?}", gone.error);
    let mut server = Scripted::at(&address).await;
    let poll = server.asked().await;
    assert!(poll.target.contains("after=7.5"));
    poll.reply(200, &topology("c", 7, 6, 2));
    reaches(&cache, "7.6").await;
    assert_eq!(cache.status().failures, 0);
}

#[tokio::test]
async fn refreshes_in_one_flight_and_not_too_often() {
    let (cache, mut server) = holding().await;
    let poll = server.asked().await;
    let refresh = || {
        let cache = cache.clone();
        tokio::spawn(async move { cache.refresh().await })
    };
    let before = Instant::now();
    let callers: Vec<_> = (0..20).map(|_| refresh()).collect();
    let asked = server.asked().await;
    assert!(!asked.target.contains("after"), "a read, no long poll");
    asked.reply(200, &topology("c", 7, 6, 2));
    for caller in callers {
        assert_eq!(within(caller).await.unwrap(), Ok(version("7.6")));
    }
    assert_eq!(port(&cache), 2);

    // They wait together for the next that may be sent, and share its fault as well.
    let callers: Vec<_> = (0..20).map(|_| refresh()).collect();
    let asked = server.asked().await;
    assert!(before.elapsed() >= Duration::from_millis(200), "too early: {:?}", before.elapsed());
    asked.refuse(404, "not-found");
    for caller in callers {
        let error = within(caller).await.unwrap().unwrap_err();
        assert!(matches!(&error, CacheError::Client(error) if error.code() == Some("not-found")), "{error}");
    }
    assert!(!server.is_asked());
    assert_eq!(cache.version(), Some(version("7.6")));

    // The poll that was under way brings what the refresh brought already: no fault.
    poll.reply(200, &topology("c", 7, 6, 2));
    server.asked().await.reply_unchanged();
    assert_eq!(cache.status().error, None);
}

#[tokio::test]
async fn says_why_there_is_no_map() {
    let mut server = Scripted::start().await;
    let cache = cache([&server.address]);
    let waiting = tokio::spawn({
        let cache = cache.clone();
        async move { cache.ready(Duration::from_millis(300)).await }
    });
    server.asked().await.refuse(403, "forbidden");
    let error = within(waiting).await.unwrap().unwrap_err();
    assert!(matches!(&error, CacheError::Client(error) if error.status() == Some(403)), "{error}");
}

#[tokio::test]
async fn ends_with_its_last_clone() {
    let (cache, mut server) = holding().await;
    let poll = server.asked().await;
    let clone = cache.clone();
    drop(cache);
    poll.reply_unchanged();
    let poll = server.asked().await;
    drop(clone);
    poll.given_up().await;
}
