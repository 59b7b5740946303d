//! Publishing and expiry.

use std::time::Duration;

use super::*;
use crate::domain::{PlanState, Version};

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn what_is_applied_is_published_and_what_is_deleted_forgotten() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let (stop, stopped) = watch::channel(false);
    let background = stage.controller.spawn_background(stopped);
    let publisher = stage.controller.publisher();
    let first = publisher.wait_newer(&main(), Version::default(), LONG).await.unwrap();
    assert_eq!(first.topology, stage.cluster().topology());
    let news = tokio::spawn({
        let (publisher, than) = (publisher.clone(), first.topology.version);
        async move { publisher.wait_newer(&main(), than, LONG).await }
    });
    stage.controller.change(&admin(), &main(), vec![add("d", 7300)], None, false).await.unwrap();
    let second = news.await.unwrap().unwrap();
    assert_eq!(second.topology.version, stage.cluster().version());
    assert!(second.topology.shards.iter().any(|shard| shard.id == id("d")));

    let gone = tokio::spawn({
        let (publisher, than) = (publisher.clone(), second.topology.version);
        async move { publisher.wait_newer(&main(), than, LONG).await }
    });
    tokio::task::yield_now().await;
    stage.submit(Op::DeleteCluster { name: main(), if_match: None }).await.unwrap();
    assert!(gone.await.unwrap().is_none());
    assert!(publisher.newest(&main()).is_none());

    stop.send(true).unwrap();
    background.await.unwrap();
}

#[tokio::test]
async fn nothing_is_published_before_the_member_has_caught_up() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    stage.local.set_recovered(false);
    assert!(matches!(stage.controller.ready(), Err(ControlError::Unavailable(_))));
    let (_stop, stopped) = watch::channel(false);
    let _background = stage.controller.spawn_background(stopped);
    let publisher = stage.controller.publisher();
    let early = publisher.wait_newer(&main(), Version::default(), Duration::from_millis(100)).await;
    assert!(early.is_none());
    stage.local.set_recovered(true);
    stage.controller.ready().unwrap();
    let first = publisher.wait_newer(&main(), Version::default(), LONG).await.unwrap();
    assert_eq!(first.topology.version, stage.cluster().version());
}

#[tokio::test]
async fn many_changes_are_published_at_most_once_in_fifty_milliseconds() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let (_stop, stopped) = watch::channel(false);
    let _background = stage.controller.spawn_background(stopped);
    let publisher = stage.controller.publisher();
    let before = tokio::time::Instant::now();
    let (mut seen, mut publications) = (Version::default(), 0);
    let writer = tokio::spawn({
        let controller = stage.controller.clone();
        async move {
            for port in 7300..7340 {
                let changes = vec![add(&format!("s{port}"), port)];
                controller.change(&admin(), &main(), changes, None, false).await.unwrap();
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            controller.cluster(&main()).unwrap().version()
        }
    });
    let (name, mut last, mut writer) = (main(), None, writer);
    while last.is_none_or(|last| seen < last) {
        tokio::select! {
            newer = publisher.wait_newer(&name, seen, LONG) => {
                seen = newer.unwrap().topology.version;
                publications += 1;
            }
            version = &mut writer, if last.is_none() => last = Some(version.unwrap()),
        }
    }
    let most = before.elapsed().as_millis() / 50 + 2;
    assert!(publications <= most, "{publications} publications, at most {most}");
    assert_eq!(stage.cluster().version(), seen, "the last one is published too");
}

#[tokio::test]
async fn a_proposal_that_waits_too_long_expires() {
    let stage = Stage::of(DriverKind::Flip, &THIRDS).await;
    let record = stage.change(vec![add("d", 7300)], balance()).await.unwrap().plan.unwrap();
    let (_stop, stopped) = watch::channel(false);
    let _background = stage.controller.spawn_background(stopped);
    stage.pass_ms(24 * 3600 * 1000);
    let mut applied = stage.controller.applied();
    let expired = async {
        while stage.cluster().plans[&record.plan.id].state != PlanState::Expired {
            applied.changed().await.unwrap();
        }
    };
    tokio::time::timeout(LONG, expired).await.expect("expired");
    let expiries = stage.local.log().iter().filter(|command| matches!(command.op, Op::Expire)).count();
    assert_eq!(expiries, 1);
}
