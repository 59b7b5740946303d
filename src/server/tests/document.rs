//! The document and the table of routes agree.

use std::collections::BTreeSet;

use super::fixture::Server;
use crate::server::openapi;
use crate::server::routes::ROUTES;

fn operations() -> Vec<(String, String, serde_json::Value)> {
    let document = serde_json::to_value(openapi()).unwrap();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    operations
}

#[test]
fn every_listed_route_is_documented() {
    let documented: BTreeSet<(String, String)> = operations().into_iter().map(|(m, p, _)| (m, p)).collect();
    let listed: BTreeSet<(String, String)> = ROUTES
        .iter()
        .filter(|route| !route.path.starts_with("/docs"))
        .map(|route| (route.method.to_owned(), route.path.to_owned()))
        .collect();
    assert_eq!(listed, documented);
    assert_eq!(listed.len() + 3, ROUTES.len(), "a route is listed twice");
}

#[test]
fn every_operation_documents_its_answers() {
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations() {
        let at = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{at}: its id is taken");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{at}");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{at}");
        for status in ["400", "500", "503"] {
            assert!(responses.contains_key(status), "{at}: {status}");
        }
        if operation.get("requestBody").is_some() {
            for status in ["408", "409", "413", "415", "422"] {
                assert!(responses.contains_key(status), "{at}: {status}");
            }
        }
        let names_revision = serde_json::to_string(&operation["parameters"]).unwrap().contains("If-Match");
        assert_eq!(names_revision, responses.contains_key("428") && responses.contains_key("412"), "{at}");
        for (status, response) in responses.iter().filter(|(status, _)| status.as_str() >= "400") {
            let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
            assert_eq!("#/components/schemas/Problem", schema, "{at}: {status}");
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn references(value: &serde_json::Value, found: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Object(map) => {
                found.extend(map.get("$ref").and_then(|r| r.as_str()).map(str::to_owned));
                map.values().for_each(|value| references(value, found));
            }
            serde_json::Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = serde_json::to_value(openapi()).unwrap();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 40);
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("a local reference");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[tokio::test]
async fn the_document_and_its_browser_are_served_from_the_binary() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await;
    assert_eq!((200, Some("application/json")), (document.status, document.header("content-type")));
    assert_eq!(serde_json::to_value(openapi()).unwrap(), document.json());
    let page = server.get("/docs/").await;
    assert_eq!(200, page.status);
    let page = String::from_utf8(page.body).unwrap();
    assert!(page.contains("swagger-ui-bundle.js") && !page.contains("https://"), "{page}");
    let script = server.get("/docs/swagger-ui-bundle.js").await;
    assert!(script.status == 200 && script.body.len() > 100_000);
    let initializer = String::from_utf8(server.get("/docs/swagger-initializer.js").await.body).unwrap();
    assert!(initializer.contains("/openapi.json"), "{initializer}");
    let index = server.get("/").await.json();
    assert_eq!("/docs", index["docs"]);
}

#[tokio::test]
async fn metrics_tell_of_requests_epochs_raft_and_the_process() {
    let server = Server::start().await;
    server.import_two().await;
    server.get("/v1/clusters/default").await;
    let answer = server.get("/metrics").await;
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let text = String::from_utf8(answer.body).unwrap();
    for line in [
        "slotkeeper_http_requests_total{method=\"GET\",route=\"/v1/clusters/{cluster}\",status=\"200\"} 1\n",
        "slotkeeper_http_panics_total 0\n",
        "slotkeeper_topology_waiters 0\n",
        "slotkeeper_raft_term 1\n",
        "slotkeeper_raft_role{role=\"leader\"} 1\n",
        "slotkeeper_cluster_shards{cluster=\"default\"} 2\n",
        "slotkeeper_process_open_fds ",
        "# EOF\n",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
