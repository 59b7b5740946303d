//! Connections: over TLS, with passwords, to servers that do not answer, and across terms.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redis::cmd;

use super::fixture::Server;
use crate::domain::{ClusterName, Host, Node, NodeId, NodeState};
use crate::driver::redis::{Credentials, LinkError, Links, Networks, Secret, Settings, Tls};

fn pem(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name).to_str().unwrap().to_owned()
}

pub(super) fn node(port: u16) -> Node {
    let host = Host::new("127.0.0.1").unwrap();
    Node { id: NodeId::new("n").unwrap(), host, port, zone: None, state: NodeState::Active }
}

/// Asks a server for a sign of life over a connection of its own.
pub(super) async fn ping(settings: Settings, port: u16) -> Result<redis::Value, LinkError> {
    let links = Links::new(settings);
    let link = links.shared(&ClusterName::new("c").unwrap(), &node(port)).await?;
    link.call(&cmd("PING")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_and_passwords_are_checked_and_never_shown() {
    let plain = Server::start(&["--requirepass", "canary"]);
    let credentials = |password: &str| Some(Credentials { username: None, password: Secret::new(password) });
    assert!(ping(Settings { credentials: credentials("canary"), ..Settings::default() }, plain.port).await.is_ok());
    let wrong = ping(Settings { credentials: credentials("canary2"), ..Settings::default() }, plain.port).await;
    assert!(matches!(wrong, Err(LinkError::Denied { .. })) && !format!("{wrong:?}").contains("canary"), "{wrong:?}");
    let none = ping(Settings::default(), plain.port).await;
    assert!(matches!(none, Err(LinkError::Denied { .. })), "{none:?}");

    let (cert, key, ca) = (pem("server.pem"), pem("server.key"), pem("ca.pem"));
    let port = super::fixture::free_port();
    let tls_port = port.to_string();
    let _server = Server::start(&[
        "--tls-port",
        &tls_port,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
    ]);
    let read = |name: &str| std::fs::read(pem(name)).unwrap();
    let identity = || Some((read("client.pem"), Secret::new(&String::from_utf8(read("client.key")).unwrap())));
    let settings = |tls| Settings { tls: Some(tls), ..Settings::default() };
    let tls = Tls { ca: read("ca.pem"), identity: identity(), server_name: None };
    ping(settings(tls.clone()), port).await.unwrap();
    ping(settings(Tls { server_name: Some("localhost".to_owned()), ..tls.clone() }), port).await.unwrap();
    for (wrong, what) in [
        (Tls { server_name: Some("elsewhere".to_owned()), ..tls.clone() }, "another name"),
        (Tls { identity: None, ..tls.clone() }, "no certificate of its own"),
        (Tls { ca: read("server.pem"), ..tls }, "another authority"),
    ] {
        assert!(ping(settings(wrong), port).await.is_err(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_failed_is_replaced_and_a_term_that_is_over_ends_them_all() {
    let mut server = Server::start(&[]);
    let (links, cluster) = (Arc::new(Links::new(Settings::default())), ClusterName::new("c").unwrap());
    let at = node(server.port);
    // Replies stand by themselves: an error stops none of those after it.
    let link = links.shared(&cluster, &at).await.unwrap();
    let replies = link.pipeline(vec![cmd("PING"), cmd("NONSENSE"), cmd("PING")], link.timeout()).await.unwrap();
    assert!(replies[0].is_ok() && replies[2].is_ok());
    assert!(replies[1].as_ref().is_err_and(|refusal| refusal.text().contains("unknown command")), "{replies:?}");
    let (kept, own) = (links.own(&cluster, &at).await.unwrap(), links.own(&cluster, &at).await.unwrap());
    kept.call(&cmd("PING")).await.unwrap();
    drop(kept);

    server.signal("STOP");
    let late = link.ask(&cmd("PING"), Duration::from_millis(50)).await;
    assert!(matches!(&late, Err(LinkError::Timeout { .. })) && link.is_broken(), "{late:?}");
    server.signal("CONT");
    let again = links.shared(&cluster, &at).await.unwrap();
    again.call(&cmd("PING")).await.unwrap();
    server.kill();
    assert!(again.call(&cmd("PING")).await.is_err_and(|error| error.passes()));
    let gone = links.shared(&cluster, &at).await;
    assert!(matches!(&gone, Err(LinkError::Unreachable { .. })), "{gone:?}");
    server.run();

    // A connection that was kept is found to be dead when it is used.
    drop(links.own(&cluster, &at).await.unwrap().call(&cmd("PING")).await);

    // A call that waits ends with the term.
    let mut waits = links.own(&cluster, &at).await.unwrap();
    // One that was kept did not outlive the server.
    while waits.call(&cmd("PING")).await.is_err() {
        waits = links.own(&cluster, &at).await.unwrap();
    }
    server.signal("STOP");
    let call = tokio::spawn(async move { waits.ask(&cmd("PING"), Duration::from_secs(60)).await });
    while !call.is_finished() {
        links.step_down();
        tokio::task::yield_now().await;
    }
    assert_eq!(call.await.unwrap(), Err(LinkError::SteppedDown));
    server.signal("CONT");
    assert_eq!(own.call(&cmd("PING")).await, Err(LinkError::SteppedDown));
    links.shared(&cluster, &at).await.unwrap().call(&cmd("PING")).await.unwrap();

    let networks = Networks { allowed: vec!["10.0.0.0/8".parse().unwrap()], own: Vec::new() };
    let refused = ping(Settings { networks, ..Settings::default() }, server.port).await;
    assert!(matches!(&refused, Err(error @ LinkError::Address { .. }) if !error.passes()), "{refused:?}");
}
