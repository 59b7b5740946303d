//! Bad inputs and their answers, over real sockets.

use serde_json::Value;

use super::fixture::Server;
use crate::controller::LEADER_SILENCE_MAX_MS;
use crate::domain::Role;
use crate::server::listener;

const JSON: &str = "content-type: application/json";

#[tokio::test]
async fn bodies_that_are_no_json_are_400() {
    let server = Server::start().await;
    let deep = format!(r#"{{"host":{}"#, "[".repeat(100_000));
    for body in [&b""[..], b"{", b"{\"host\":NaN}", b"{} x", b"{\"host\":\"\xff\"}", deep.as_bytes()] {
        let answer = server.send(Role::Admin, "POST", "/v1/clusters/default/nodes", &[JSON], body).await;
        assert_eq!("malformed", answer.problem(400), "{}", String::from_utf8_lossy(&body[..body.len().min(40)]));
    }
}

#[tokio::test]
async fn values_that_cannot_be_are_422_and_named() {
    let server = Server::start().await;
    server.import_two().await;
    let shard = format!("/v1/clusters/default/shards/{}", "a".repeat(40));
    for (method, path, body, field) in [
        ("POST", "/v1/clusters", r#"{"name":"a b","driver":"flip"}"#, "name"),
        ("POST", "/v1/clusters", r#"{"name":"a","driver":"flip","policy":{"approvals":3}}"#, "policy.approvals"),
        ("POST", "/v1/clusters/default/nodes", r#"{"host":"h","port":1,"prt":2}"#, "prt"),
        ("POST", "/v1/clusters/default/nodes", r#"{"host":"h","port":1,"port":1}"#, "port"),
        ("POST", "/v1/clusters/default/nodes", r#"{"host":"h h","port":1}"#, "host"),
        ("POST", "/v1/clusters/default/nodes", r#"{"host":"h","port":1,"shard":"s","replica_of":"t"}"#, "replica_of"),
        ("POST", "/v1/clusters/default/nodes", "{\"host\":\"h\",\"port\":1,\"reason\":\"a\u{202e}b\"}", "reason"),
        ("POST", "/v1/clusters/default/plans", r#"{"reweight":{"x":1,"x":2}}"#, "reweight.x"),
        ("POST", "/v1/clusters/default/plans", r#"{"drain":["x","x"]}"#, "drain"),
        (
            "POST",
            "/v1/clusters/default/plans",
            r#"{"goal":{"kind":"balance","tolerance_ppm":1000001}}"#,
            "goal.tolerance_ppm",
        ),
        ("POST", "/v1/clusters/default/plans", r#"{"limits":{"slots_per_move":0}}"#, "limits.slots_per_move"),
        ("PATCH", &shard, r#"{"pinned":[[0,5],[5,9]]}"#, "pinned"),
        ("PATCH", &shard, r#"{"pinned":[[9,5]]}"#, "pinned[0]"),
        ("PATCH", &shard, r#"{"pinned":[[1,2,3]]}"#, "pinned[0]"),
        ("PATCH", &shard, r#"{"weight":1e999}"#, "weight"),
        ("PATCH", &shard, r#"{"pinned":[[0,16384]]}"#, "pinned[0][1]"),
        ("PATCH", &shard, r#"{"weight":-1}"#, "weight"),
        ("PATCH", &shard, r#"{"max_slots":1.0}"#, "max_slots"),
        ("PATCH", &shard, r#"{"min_slots":9,"max_slots":3}"#, "min_slots"),
        ("GET", "/v1/clusters/default/slots/16384", "", "slot"),
        ("GET", "/v1/clusters/default/slots/-1", "", "slot"),
        ("GET", "/v1/clusters/default/slots/+1", "", "slot"),
        ("GET", "/v1/clusters/default/slots/007", "", "slot"),
        ("GET", "/v1/clusters/default/slots/1.0", "", "slot"),
        ("GET", "/v1/clusters/a%20b", "", "cluster"),
        ("GET", "/v1/clusters/default/plans/%F0%9F%98%80", "", "plan"),
    ] {
        let answer = server.send(Role::Admin, method, path, &[JSON, "if-match: \"r1\""], body.as_bytes()).await;
        assert_eq!("invalid", answer.problem(422), "{path} {body}");
        let named = answer.json()["field"].as_str().unwrap().to_owned();
        assert_eq!(field, named, "{path} {body}: {}", answer.json());
    }
}

#[tokio::test]
async fn other_types_and_codings_are_415() {
    let server = Server::start().await;
    let body = br#"{"name":"x","driver":"flip"}"#;
    for headers in [
        &["content-type: text/plain"][..],
        &["content-type: application/xml"],
        &["content-type: application/json; charset=latin1"],
        &[],
        &[JSON, "content-encoding: gzip"],
    ] {
        let answer = server.send(Role::Admin, "POST", "/v1/clusters", headers, body).await;
        assert_eq!("unsupported-media-type", answer.problem(415), "{headers:?}");
    }
    let charset = ["content-type: application/json; charset=utf-8"];
    assert_eq!(201, server.send(Role::Admin, "POST", "/v1/clusters", &charset, body).await.status);
}

#[tokio::test]
async fn what_is_not_there_is_404_and_wrong_methods_405() {
    let server = Server::start().await;
    for path in [
        "/nothing",
        "/v1/clusters/nope",
        "/v1/clusters/nope/topology",
        "/v1/clusters/default/nodes/nope",
        "/v1/clusters/default/shards/nope",
        "/v1/clusters/default/plans/p-nope",
        "/v1/clusters/default/plans/p-nope/rollout",
        "/v1/clusters/default/",
        "/V1/clusters",
    ] {
        assert_eq!("not-found", server.get(path).await.problem(404), "{path}");
    }
    let answer = server.send(Role::Admin, "PUT", "/v1/clusters/default", &[], b"").await;
    assert_eq!("method-not-allowed", answer.problem(405));
    let allow: std::collections::BTreeSet<&str> = answer.header("allow").unwrap().split(',').collect();
    assert_eq!(std::collections::BTreeSet::from(["GET", "HEAD", "PATCH", "DELETE"]), allow);
    let head = server.send(Role::Admin, "HEAD", "/v1/clusters/default", &[], b"").await;
    assert_eq!((200, 0), (head.status, head.body.len()));
    let head = server.send(Role::Admin, "HEAD", "/v1/clusters/nope", &[], b"").await;
    assert_eq!((404, 0), (head.status, head.body.len()));
}

#[tokio::test]
async fn revisions_are_required_and_compared() {
    let server = Server::start().await;
    let path = "/v1/clusters/default";
    let body = br#"{"policy":{"approvals":0}}"#;
    let change = |headers: &'static [&'static str]| server.send(Role::Admin, "PATCH", path, headers, body);
    assert_eq!("precondition-required", change(&[JSON]).await.problem(428));
    let mismatch = change(&[JSON, "if-match: \"r9\""]).await;
    assert_eq!("revision-mismatch", mismatch.problem(412));
    assert_eq!("r1", mismatch.json()["revision"]);
    let twice = change(&[JSON, "if-match: \"r1\"", "if-match: \"r1\""]).await;
    assert_eq!(("malformed", "If-Match"), (twice.problem(400).as_str(), twice.json()["field"].as_str().unwrap()));
    for bad in [
        &[JSON, "if-match: r1"],
        &[JSON, "if-match: *"],
        &[JSON, "if-match: W/\"r1\""],
        &[JSON, "if-match: \"r01\""],
        &[JSON, "if-match: \"r+1\""],
        &[JSON, "if-match: \"r1\", \"r2\""],
    ] {
        assert_eq!("malformed", change(bad).await.problem(400), "{bad:?}");
    }
    assert_eq!(Some("\"r1\""), server.get(path).await.header("etag"));
    let patched = change(&[JSON, "if-match: \"r1\""]).await;
    assert_eq!((200, Some("\"r2\"")), (patched.status, patched.header("etag")));
    assert_eq!(0, patched.json()["cluster"]["policy"]["approvals"]);
    let deleted = server.send(Role::Admin, "DELETE", path, &[], b"").await;
    assert_eq!("precondition-required", deleted.problem(428));
    let deleted = server.send(Role::Admin, "DELETE", path, &["if-match: \"r2\""], b"").await;
    assert_eq!(200, deleted.status);
    assert!(deleted.json()["generation"].as_u64().unwrap() > 0);
    assert_eq!("not-found", server.get(path).await.problem(404));
}

#[tokio::test]
async fn sizes_are_bounded() {
    let server = Server::start().await;
    let large = vec![b' '; 3 << 20];
    let answer = server.send(Role::Admin, "POST", "/v1/clusters", &[JSON], &large).await;
    assert_eq!("too-large", answer.problem(413));
    // Announced alone is enough: nothing of it has to arrive.
    let announced = format!(
        "POST /v1/clusters HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{JSON}\r\nauthorization: Bearer {}\r\n\
         content-length: 3145728\r\n\r\n",
        server.token(Role::Admin)
    );
    let answer = tokio::time::timeout(std::time::Duration::from_secs(5), server.exchange(announced.as_bytes())).await;
    assert_eq!("too-large", super::fixture::Answer::parse(&answer.expect("at once")).problem(413));
    let chunked = format!(
        "POST /v1/clusters HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{JSON}\r\nauthorization: Bearer {}\r\n\
         transfer-encoding: chunked\r\n\r\n60000\r\n{}\r\n0\r\n\r\n",
        server.token(Role::Admin),
        " ".repeat(0x60000)
    );
    assert_eq!("too-large", server.raw(chunked.as_bytes()).await.problem(413));
    // A plan may be larger than other bodies.
    let plan = server.send(Role::Admin, "POST", "/v1/clusters/default/plans", &[JSON], &large).await;
    assert_eq!("malformed", plan.problem(400));
    assert_eq!("uri-too-long", server.get(&format!("/v1/clusters?x={}", "y".repeat(9000))).await.problem(414));
    assert_eq!("uri-too-long", server.get(&format!("/v1/{}", "y".repeat(70_000))).await.problem(414));
    let long = format!("x-long: {}", "y".repeat(17_000));
    let answer = server.send(Role::Admin, "GET", "/v1/clusters", &[&long], b"").await;
    assert_eq!(("headers-too-large".to_owned(), Some("1")), (answer.problem(431), answer.header("retry-after")));
    let long = format!("x-long: {}", "y".repeat(600_000));
    let answer = server.send(Role::Admin, "GET", "/v1/clusters", &[&long], b"").await;
    assert_eq!(("headers-too-large".to_owned(), Some("1")), (answer.problem(431), answer.header("retry-after")));
    let many: Vec<String> = (0..200).map(|n| format!("x-{n}: y")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!("headers-too-large", server.send(Role::Admin, "GET", "/v1/clusters", &many, b"").await.problem(431));
}

#[tokio::test]
async fn ambiguous_requests_are_400_and_end_the_connection() {
    let server = Server::start().await;
    let next = "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";
    let token = server.token(Role::Admin);
    for head in [
        "content-length: 3\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 3\r\n",
        "content-length: 3\r\ncontent-length: 4\r\n",
        "content-length: 3\r\ncontent-length: 3\r\n",
        "content-length: 3\r\nx: y\r\nContent-Length: 3\r\n",
        "content-length: 3, 3\r\n",
        "transfer-encoding: gzip\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked, chunked\r\n",
        "transfer-encoding: chunked;q=1\r\n",
        "content-length: x\r\n",
    ] {
        let request = format!(
            "POST /v1/clusters HTTP/1.1\r\nhost: x\r\n{JSON}\r\nauthorization: Bearer {token}\r\n{head}\r\n0\r\n\r\n{next}"
        );
        let received = server.exchange(request.as_bytes()).await;
        let text = String::from_utf8_lossy(&received);
        assert_eq!("malformed", super::fixture::Answer::parse(&received).problem(400), "{head}: {text}");
        assert_eq!(1, text.matches("HTTP/1.1 ").count(), "{head}: nothing may be answered after it: {text}");
    }
    for request in [
        format!("GET /livez HTTP/1.1\r\n\r\n{next}"),
        format!("GET /livez HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n{next}"),
        format!("GET /livez HTTP/1.1\r\nhost: a b\r\n\r\n{next}"),
    ] {
        let received = server.exchange(request.as_bytes()).await;
        let text = String::from_utf8_lossy(&received);
        assert_eq!(1, text.matches("HTTP/1.1 ").count(), "{request}: {text}");
        assert_eq!("malformed", super::fixture::Answer::parse(&received).problem(400), "{request}");
    }
}

#[tokio::test]
async fn queries_are_read_strictly() {
    let server = Server::start().await;
    for path in [
        "/v1/clusters?limit=0",
        "/v1/clusters?limit=1001",
        "/v1/clusters?limit=x",
        "/v1/clusters?limit=1&limit=2",
        "/v1/clusters?cursor=zz",
        "/v1/clusters?unknown=1",
        "/v1/clusters?consistency=perhaps",
        "/v1/clusters/default?x=1",
        "/v1/whoami?x=1",
        "/livez?x=1",
        "/v1/clusters/default/topology?wait=abc",
        "/v1/clusters/default/topology?after=1",
        "/v1/clusters/default/topology?after=1.18446744073709551616",
        "/v1/clusters/default/topology?delta=1",
        "/v1/clusters/default/keyslot",
    ] {
        assert_eq!("malformed", server.get(path).await.problem(400), "{path}");
    }
    // RFC 7240: a preference that cannot be read is none; the answer comes at once.
    let (g, e) = server.import_published().await;
    let path = format!("/v1/clusters/default/topology?after={g}.{e}");
    for preference in ["prefer: wait=abc", "prefer: wait=-1", "prefer: wait", "prefer: wait=0"] {
        assert_eq!(204, server.send(Role::Admin, "GET", &path, &[preference], b"").await.status, "{preference}");
    }
    let answer = server.send(Role::Admin, "GET", "/v1/clusters", &["accept: text/html"], b"").await;
    assert_eq!("not-acceptable", answer.problem(406));
}

#[tokio::test]
async fn without_a_leader_writes_and_fresh_reads_are_503_and_local_reads_go_on() {
    let server = Server::start().await;
    server.group.set_leading(None);
    for (method, path, body) in [
        ("GET", "/v1/clusters", ""),
        ("GET", "/v1/clusters/default/topology?consistency=linearizable", ""),
        ("POST", "/v1/clusters", r#"{"name":"x","driver":"flip"}"#),
        ("POST", "/v1/clusters/default/plans", "{}"),
        ("GET", "/readyz", ""),
    ] {
        let answer = server.as_role(Role::Admin, method, path, body).await;
        assert_eq!("unavailable", answer.problem(503), "{method} {path}");
        assert_eq!(Some("1"), answer.header("retry-after"));
    }
    assert_eq!("stale-member", server.get("/v1/clusters/default/topology?max_stale=5").await.problem(503));
    assert_eq!(200, server.get("/v1/clusters?consistency=local").await.status);
    assert_eq!(200, server.get("/v1/clusters/default/topology").await.status);
}

#[tokio::test]
async fn parameters_at_fault_are_named() {
    let server = Server::start().await;
    for (query, field) in [
        ("limit=x", "limit"),
        ("consistency=local&limit=70000", "limit"),
        ("limit=1&limit=2", "limit"),
        ("limit=%2B5", "limit"),
        ("limit=+5", "limit"),
        ("limit=05", "limit"),
        ("limit=5.0", "limit"),
        ("limit=", "limit"),
        ("consistency=perhaps", "consistency"),
        ("limit=1&unknown=1", "unknown"),
    ] {
        let answer = server.get(&format!("/v1/clusters?{query}")).await;
        assert_eq!("malformed", answer.problem(400), "{query}");
        assert_eq!(field, answer.json()["field"], "{query}: {}", answer.json());
    }
    let topology = "/v1/clusters/default/topology";
    for (path, field) in [
        (format!("{topology}?max_stale=05"), "max_stale"),
        (format!("{topology}?max_stale=%2B5"), "max_stale"),
        (format!("{topology}?wait=%2B5s"), "wait"),
        (format!("{topology}?wait=05"), "wait"),
        (format!("{topology}?after=01.1"), "after"),
        (format!("{topology}?min_epoch=1.%2B1"), "min_epoch"),
        ("/v1/audit?after=%2B1".to_owned(), "after"),
        ("/v1/audit?after=01".to_owned(), "after"),
        ("/v1/audit?limit=01".to_owned(), "limit"),
        // The cursor of +1, of 01, and of 1 in other digits than it was given in.
        ("/v1/audit?cursor=2b31".to_owned(), "cursor"),
        ("/v1/audit?cursor=3031".to_owned(), "cursor"),
        ("/v1/clusters?cursor=6A".to_owned(), "cursor"),
        ("/v1/members/2?force=1".to_owned(), "force"),
    ] {
        let method = if path.contains("force") { "DELETE" } else { "GET" };
        let answer = server.as_role(Role::Admin, method, &path, "").await;
        assert_eq!("malformed", answer.problem(400), "{path}");
        assert_eq!(field, answer.json()["field"], "{path}: {}", answer.json());
    }
    let answer = server.get("/v1/clusters/default/keyslot?key=a&kez=b").await;
    assert_eq!("kez", answer.json()["field"], "{}", answer.json());
}

#[tokio::test]
async fn a_leader_that_is_silent_is_none() {
    let server = Server::start().await;
    server.import_published().await;
    let topology = "/v1/clusters/default/topology";
    let status = server.get("/v1/status").await.json();
    assert_eq!((&Value::from(1), &Value::from(true)), (&status["leader"], &status["ready"]));
    server.group.set_stale_ms(LEADER_SILENCE_MAX_MS);
    assert_eq!(200, server.get("/readyz").await.status, "the silence is not longer than allowed");
    server.group.set_stale_ms(LEADER_SILENCE_MAX_MS + 1);
    let ready = server.get("/readyz?verbose").await;
    assert_eq!("unavailable", ready.problem(503));
    assert!(ready.json()["detail"].as_str().unwrap().contains("leader: none was heard of for 2001 ms"));
    assert_eq!(200, server.get("/livez").await.status);
    let status = server.get("/v1/status").await.json();
    assert_eq!((&Value::Null, &Value::from(false)), (&status["leader"], &status["ready"]));
    assert_eq!(Value::from(false), server.get("/v1/members").await.json()["items"][0]["leader"]);
    let answer = server.get(topology).await;
    assert_eq!((200, None), (answer.status, answer.header("slotkeeper-leader")));
    assert_eq!(Some("2001"), answer.header("slotkeeper-stale-ms"));
    server.group.set_stale_ms(0);
    assert_eq!(Some("1"), server.get(topology).await.header("slotkeeper-leader"));
    assert_eq!(200, server.get("/readyz").await.status);
}

#[tokio::test]
async fn request_ids_are_echoed_when_they_are_harmless() {
    let server = Server::start().await;
    let id = |answer: &super::fixture::Answer| answer.header("x-request-id").unwrap().to_owned();
    let answer = server.send(Role::Admin, "GET", "/livez", &["x-request-id: abc-1"], b"").await;
    assert_eq!("abc-1", id(&answer));
    let answer = server.send(Role::Admin, "GET", "/livez", &["x-request-id: <script>"], b"").await;
    assert_eq!(16, id(&answer).len());
}

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    use tokio::io::AsyncReadExt;
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let limits = listener::Limits { connections_max: 0, ..listener::Limits::default() };
    let serving = tokio::spawn(listener::serve(socket, axum::Router::new(), limits, std::future::pending()));
    let mut received = Vec::new();
    tokio::net::TcpStream::connect(address).await.unwrap().read_to_end(&mut received).await.unwrap();
    let answer = super::fixture::Answer::parse(&received);
    assert_eq!("unavailable", answer.problem(503));
    assert_eq!((Some("1"), Some("close")), (answer.header("retry-after"), answer.header("connection")));
    assert_eq!(16, answer.header("x-request-id").unwrap().len());
    serving.abort();
}
