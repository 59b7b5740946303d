//! The route table × the roles, and what proves who one is.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fixture::{Answer, Server};
use crate::controller::{Caller, Op};
use crate::domain::{DriverKind, PrincipalName, Role};
use crate::server::ServerConfig;
use crate::server::routes::{Access, ROUTES};

/// A path with something in every hole.
fn filled(path: &str) -> String {
    let parts: Vec<&str> = path
        .split('/')
        .map(|part| match part {
            "{cluster}" => "default",
            "{slot}" => "7",
            "{action}" => "a-1",
            "{*rest}" => "index.css",
            hole if hole.starts_with('{') => "nobody",
            other => other,
        })
        .collect();
    parts.join("/")
}

#[tokio::test]
async fn every_route_lets_in_the_roles_it_should_and_no_other() {
    let server = Server::start().await;
    for route in ROUTES {
        for role in Role::OF_TOKENS {
            // With nothing in the body and no If-Match nobody gets further than the form of the request.
            let answer = server.send(role, route.method, &filled(route.path), &[], b"").await;
            let let_in = answer.status != 403 && answer.status != 401;
            let expected = match route.access {
                Access::Open => true,
                Access::Needs(permission) => role.may(permission),
            };
            let at = format!("{role} {} {}: {}", route.method, route.path, answer.status);
            assert_eq!(expected, let_in, "{at}");
            assert_ne!(405, answer.status, "{at}");
            if !let_in {
                assert_eq!("forbidden", answer.problem(403), "{at}");
            }
        }
    }
}

#[tokio::test]
async fn without_a_token_only_health_answers() {
    let server = Server::start().await;
    for route in ROUTES {
        let request = format!(
            "{} {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            route.method,
            filled(route.path)
        );
        let answer = server.raw(request.as_bytes()).await;
        if route.access == Access::Open {
            assert_eq!(200, answer.status, "{}", route.path);
        } else {
            assert_eq!("unauthenticated", answer.problem(401), "{}", route.path);
            assert_eq!(Some("Bearer realm=\"slotkeeper\""), answer.header("www-authenticate"));
        }
    }
}

#[tokio::test]
async fn what_is_no_valid_token_is_401() {
    let server = Server::start().await;
    let good = server.token(Role::Viewer).to_owned();
    for authorization in [
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer nonsense".to_owned(),
        format!("Basic {good}"),
        format!("Bearer {good}x"),
        format!("Bearer {}", &good[..good.len() - 1]),
        format!("Bearer {good}\r\nauthorization: Bearer {good}"),
    ] {
        let request = format!(
            "GET /v1/whoami HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: {authorization}\r\n\r\n"
        );
        assert_eq!("unauthenticated", server.raw(request.as_bytes()).await.problem(401), "{authorization}");
    }
    let request =
        format!("GET /v1/whoami HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: bearer {good}\r\n\r\n");
    let me = server.raw(request.as_bytes()).await.json();
    assert_eq!(("viewer", "viewer"), (me["name"].as_str().unwrap(), me["role"].as_str().unwrap()));
    assert_eq!(serde_json::json!(["read_topology", "read"]), me["permissions"]);
}

#[tokio::test]
async fn a_revoked_token_works_no_more_and_secrets_are_shown_once() {
    let server = Server::start().await;
    let created = server.post("/v1/tokens", r#"{"name":"ci","role":"viewer"}"#).await;
    assert_eq!(201, created.status);
    let created = created.json();
    let (id, secret) = (created["token"]["id"].as_str().unwrap(), created["secret"].as_str().unwrap());
    let whoami =
        format!("GET /v1/whoami HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {secret}\r\n\r\n");
    assert_eq!(200, server.raw(whoami.as_bytes()).await.status);
    let listed = String::from_utf8(server.get("/v1/tokens").await.body).unwrap();
    let key = secret.rsplit('_').next().unwrap();
    assert!(listed.contains(id) && !listed.contains(key));
    let audit = String::from_utf8(server.get("/v1/audit").await.body).unwrap();
    assert!(audit.contains(id) && !audit.contains(key));
    let revoked = server.send(Role::Admin, "DELETE", &format!("/v1/tokens/{id}?reason=gone"), &[], b"").await;
    assert_eq!(id, revoked.json()["revoked"]);
    assert_eq!("unauthenticated", server.raw(whoami.as_bytes()).await.problem(401));
    let none = server.post("/v1/tokens", r#"{"name":"root","role":"system"}"#).await;
    assert_eq!("invalid", none.problem(422));
    assert_eq!("role", none.json()["field"]);
}

#[tokio::test]
async fn insecure_dev_needs_no_token_but_a_loopback_host_and_origin() {
    let config = ServerConfig { insecure_dev: true, ..ServerConfig::default() };
    let server = Server::start_with(config, DriverKind::Flip).await;
    let ask = |host: &'static str, more: &'static str| {
        format!("GET /v1/whoami HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{more}\r\n")
    };
    let me = server.raw(ask("localhost:1", "").as_bytes()).await;
    assert_eq!((200, "dev"), (me.status, me.json()["name"].as_str().unwrap()));
    assert_eq!(200, server.raw(ask("127.0.0.1", "origin: http://localhost:3\r\n").as_bytes()).await.status);
    for (host, more) in
        [("evil.example", ""), ("127.0.0.1", "origin: https://evil.example\r\n"), ("127.0.0.1", "origin: null\r\n")]
    {
        assert_eq!("host-refused", server.raw(ask(host, more).as_bytes()).await.problem(403), "{host} {more}");
    }
    let bad = server.raw(ask("localhost", "authorization: Bearer sk_x_y\r\n").as_bytes()).await;
    assert_eq!("unauthenticated", bad.problem(401), "a wrong token is never ignored");
}

#[tokio::test]
async fn a_request_that_waits_ends_with_its_token() {
    let server = Server::start().await;
    let (generation, epoch) = server.import_published().await;
    let path = format!("/v1/clusters/default/topology?after={generation}.{epoch}&wait=50s");
    let poll = server.request(Role::Client, "GET", &path, &[], b"");
    let id = server.token(Role::Client).split('_').nth(1).unwrap().to_owned();
    let revoking = async {
        server.somebody_waits().await;
        let other = server.get("/v1/tokens").await.json()["items"].as_array().unwrap().len();
        let revoked = server.send(Role::Admin, "DELETE", &format!("/v1/tokens/{id}"), &[], b"").await;
        assert_eq!(200, revoked.status);
        other
    };
    let started = std::time::Instant::now();
    let (received, tokens) = tokio::join!(server.exchange(&poll), revoking);
    assert_eq!("unauthenticated", Answer::parse(&received).problem(401));
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "it would have waited for 46 s at least");
    assert_eq!(tokens - 1, server.get("/v1/tokens").await.json()["items"].as_array().unwrap().len());
}

#[tokio::test]
async fn a_request_that_waits_ends_when_its_token_expires() {
    let server = Server::start().await;
    let (generation, epoch) = server.import_published().await;
    let (caller, name) = (Caller::system("test"), PrincipalName::new("short").unwrap());
    let end = Some(server.controller.now().plus_ms(1500));
    let (_, secret) = server.controller.create_token(&caller, name, Role::Client, end).await.unwrap();
    let poll = format!(
        "GET /v1/clusters/default/topology?after={generation}.{epoch}&wait=50s HTTP/1.1\r\nhost: {}\r\n\
         connection: close\r\nauthorization: Bearer {secret}\r\n\r\n",
        server.address
    );
    assert_eq!("unauthenticated", server.raw(poll.as_bytes()).await.problem(401));
}

#[tokio::test]
async fn the_last_admin_token_stays() {
    let server = Server::start().await;
    let admins = server.get("/v1/tokens").await.json();
    let admins = admins["items"].as_array().unwrap().iter().filter(|token| token["role"] == "admin");
    let admins: Vec<String> = admins.map(|token| token["id"].as_str().unwrap().to_owned()).collect();
    let own = server.token(Role::Admin).split('_').nth(1).unwrap();
    // One that expires counts until it has.
    for id in admins.iter().filter(|id| *id != own) {
        assert_eq!(200, server.send(Role::Admin, "DELETE", &format!("/v1/tokens/{id}"), &[], b"").await.status);
    }
    let path = format!("/v1/tokens/{own}");
    let refused = server.send(Role::Admin, "DELETE", &path, &[], b"").await;
    assert_eq!("last-admin-token", refused.problem(409));
    let another = server.post("/v1/tokens", r#"{"name":"heir","role":"admin"}"#).await;
    assert_eq!(201, another.status);
    assert_eq!(200, server.send(Role::Admin, "DELETE", &path, &[], b"").await.status);
    assert_eq!("unauthenticated", server.get("/v1/tokens").await.problem(401));
}

#[tokio::test]
async fn without_tokens_the_last_one_may_go() {
    let config = ServerConfig { insecure_dev: true, ..ServerConfig::default() };
    let server = Server::start_with(config, DriverKind::Flip).await;
    let tokens = server.get("/v1/tokens").await.json();
    let head = format!("host: {}\r\nconnection: close\r\n\r\n", server.address);
    for token in tokens["items"].as_array().unwrap() {
        let request = format!("DELETE /v1/tokens/{} HTTP/1.1\r\n{head}", token["id"].as_str().unwrap());
        assert_eq!(200, server.raw(request.as_bytes()).await.status);
    }
    let left = server.raw(format!("GET /v1/tokens HTTP/1.1\r\n{head}").as_bytes()).await.json();
    assert_eq!(serde_json::json!([]), left["items"]);
}

/// The status of the answer to a request on a connection that stays open.
async fn ask(stream: &mut TcpStream, bearer: &str) -> u16 {
    let head = "GET /v1/clusters/default/topology HTTP/1.1\r\nhost: localhost\r\n";
    stream.write_all(format!("{head}authorization: Bearer {bearer}\r\n\r\n").as_bytes()).await.unwrap();
    let mut received = Vec::new();
    loop {
        assert!(stream.read_buf(&mut received).await.unwrap() > 0, "the connection stays open");
        let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(received[..end].to_vec()).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if received.len() == end + 4 + length.parse::<usize>().unwrap() {
            return head[9..12].parse().unwrap();
        }
    }
}

#[tokio::test]
async fn a_connection_that_knew_a_token_asks_again_whether_it_is_good() {
    let server = Server::start().await;
    server.import_published().await;
    let caller = Caller::system("test");
    let name = PrincipalName::new("short").unwrap();
    let (receipt, bearer) = server.controller.create_token(&caller, name, Role::Client, None).await.unwrap();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for expected in [200, 200] {
        assert_eq!(expected, ask(&mut stream, &bearer).await);
    }
    let forged = format!("{}{}", &bearer[..bearer.len() - 1], if bearer.ends_with('0') { '1' } else { '0' });
    assert_eq!(401, ask(&mut stream, &forged).await);
    assert_eq!(200, ask(&mut stream, &bearer).await);
    server
        .controller
        .submit(&caller, Op::RevokeToken { id: receipt.token.unwrap(), may_be_last: false })
        .await
        .unwrap();
    for token in [&bearer, &bearer] {
        assert_eq!(401, ask(&mut stream, token).await, "revoked");
    }
    assert_eq!(200, ask(&mut stream, server.token(Role::Client)).await);
}
