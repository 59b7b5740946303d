//! The SDK's HTTP client against a controller that answers what the test tells it to.

use std::time::Duration;

use serde_json::{Value, json};
use slotkeeper::client::{Client, ClientError};
use slotkeeper::domain::{ClusterName, PlanId};
use slotkeeper::wire::{EndRequest, Revision, Text};

use crate::scripted::{Scripted, nobody, within};

fn default() -> ClusterName {
    ClusterName::new("default").unwrap()
}

fn receipt() -> Value {
    json!({"generation": 7, "epoch": 5})
}

#[tokio::test]
async fn a_problem_is_an_answer_and_is_not_asked_for_twice() {
    let (mut first, mut second) = (Scripted::start().await, Scripted::start().await);
    let client = Client::new([&*first.address, &*second.address]).unwrap();
    let plan = client.cluster(&default()).plan(&PlanId::new("p-1").unwrap());
    let call = tokio::spawn(async move { plan.withdraw(&EndRequest::default()).await });
    let asked = first.asked().await;
    assert_eq!((asked.method.as_str(), &*asked.target), ("POST", "/v1/clusters/default/plans/p-1/withdrawal"));
    assert_eq!(asked.header("content-type"), "application/json");
    asked.refuse(409, "plan-state");
    let error = within(call).await.unwrap().unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(409), Some("plan-state")));
    assert_eq!(error.to_string(), "plan-state! (plan-state)");
    assert!(!first.is_asked() && !second.is_asked());
}

#[tokio::test]
async fn a_write_goes_to_the_next_endpoint_under_the_same_key() {
    let (mut first, mut second) = (Scripted::start().await, Scripted::start().await);
    let endpoints = [format!("http://{}/", first.address), second.address.clone()];
    let client = Client::builder(endpoints).token("sk_t_secret").build().unwrap();
    let cluster = client.cluster(&default()).because(Text::new("no longer needed").unwrap());
    let delete = || {
        let cluster = cluster.clone();
        tokio::spawn(async move { cluster.delete(Revision(3)).await })
    };
    let call = delete();
    let asked = first.asked().await;
    let key = asked.header("idempotency-key").to_owned();
    assert_eq!(key.len(), 32);
    asked.refuse(503, "unavailable");
    let asked = second.asked().await;
    assert_eq!((asked.method.as_str(), &*asked.target), ("DELETE", "/v1/clusters/default?reason=no%20longer%20needed"));
    assert_eq!(asked.header("idempotency-key"), key);
    assert_eq!(asked.header("authorization"), "Bearer sk_t_secret");
    assert_eq!(asked.header("if-match"), "\"r3\"");
    assert!(asked.body.is_empty());
    asked.reply(200, &receipt());
    assert_eq!(within(call).await.unwrap().unwrap().epoch, 5);

    let call = delete();
    let asked = second.asked().await;
    assert_ne!(asked.header("idempotency-key"), key, "another write");
    asked.reply(200, &receipt());
    within(call).await.unwrap().unwrap();
    assert!(!first.is_asked(), "the endpoint that answered last is asked first");
}

#[tokio::test]
async fn a_connection_that_breaks_is_tried_again() {
    let mut first = Scripted::start().await;
    let address = first.address.clone();
    let client = Client::new([&*address]).unwrap();
    let call = tokio::spawn(async move { client.clusters().await });
    let asked = first.asked().await;
    assert_eq!(asked.target, "/v1/clusters?limit=1000");
    asked.reply_text(502, "<html>a proxy without its server</html>");
    first.asked().await.reply(200, &json!({"items": []}));
    assert_eq!(within(call).await.unwrap().unwrap(), []);
}

#[tokio::test]
async fn an_endpoint_that_hangs_leaves_time_for_the_next() {
    let (mut first, mut second) = (Scripted::start().await, Scripted::start().await);
    let client = Client::builder([&*first.address, &*second.address]).timeout(Duration::from_secs(2)).build().unwrap();
    let call = tokio::spawn(async move { client.clusters().await });
    let hanging = first.asked().await;
    second.asked().await.reply(200, &json!({"items": []}));
    within(call).await.unwrap().unwrap();
    hanging.given_up().await;
}

#[tokio::test]
async fn nobody_there_names_every_endpoint() {
    let (first, second) = (nobody().await, nobody().await);
    let client = Client::new([&*first, &*second]).unwrap();
    let error = within(client.whoami()).await.unwrap_err();
    assert!(matches!(&error, ClientError::Unreachable { tried } if tried.len() == 2), "{error}");
    for endpoint in [first, second] {
        assert!(error.to_string().contains(&format!("http://{endpoint}: Connection refused")), "{error}");
    }
}

#[tokio::test]
async fn no_answer_in_time_is_told_apart() {
    let mut server = Scripted::start().await;
    let client = Client::builder([&*server.address]).timeout(Duration::from_millis(200)).build().unwrap();
    let call = tokio::spawn(async move { client.whoami().await });
    server.asked().await.given_up().await;
    let error = within(call).await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Timeout { .. }), "{error}");
}

#[tokio::test]
async fn answers_of_something_else_are_told_apart() {
    let mut server = Scripted::start().await;
    let client = Client::new([&*server.address]).unwrap();
    for (status, body) in [(200, "<html>hello</html>"), (404, "not here"), (302, "")] {
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.whoami().await }
        });
        server.asked().await.reply_text(status, body);
        let error = within(call).await.unwrap().unwrap_err();
        assert!(matches!(error, ClientError::Protocol { .. }), "{status}: {error}");
    }
}

#[tokio::test]
async fn every_page_of_a_list_is_read() {
    let mut server = Scripted::start().await;
    let client = Client::new([&*server.address]).unwrap();
    let call = tokio::spawn(async move { client.tokens().await });
    let token = |id: &str| json!({"id": id, "name": "ops", "role": "viewer", "created_at": "2026-03-02T14:05:00Z", "expires_at": null, "later": 1});
    server.asked().await.reply(200, &json!({"items": [token("a")], "next": "61"}));
    let asked = server.asked().await;
    assert_eq!(asked.target, "/v1/tokens?limit=1000&cursor=61");
    asked.reply(200, &json!({"items": [token("b")]}));
    let ids: Vec<String> = within(call).await.unwrap().unwrap().iter().map(|token| token.id.to_string()).collect();
    assert_eq!(ids, ["a", "b"]);
}

#[tokio::test]
async fn keys_are_bytes() {
    let mut server = Scripted::start().await;
    let cluster = Client::new([&*server.address]).unwrap().cluster(&default());
    let call = tokio::spawn(async move { cluster.key_slot(b"a b{\0\xff}&=%").await });
    let asked = server.asked().await;
    assert_eq!(asked.target, "/v1/clusters/default/keyslot?key=a%20b%7B%00%FF%7D%26%3D%25");
    asked.refuse(404, "not-found");
    within(call).await.unwrap().unwrap_err();
}

#[test]
fn bad_settings_are_refused() {
    let refusal = |endpoints: &[&str]| Client::new(endpoints.iter().copied()).unwrap_err().to_string();
    assert_eq!(refusal(&[]), "endpoint: none is given");
    for bad in ["", "http://", "ftp://h:1", "http://user:pw@h:1", "http://h:1/?a=b", "http://h:1/#x", "h:99999"] {
        assert!(refusal(&["h:1", bad]).starts_with("endpoint: "), "{bad}");
    }
    assert!(!refusal(&["http://user:pw@h:1"]).contains("pw"));
    assert!(Client::builder(["h:1"]).token("a\nb").build().is_err());
    assert!(Client::builder(["h:1"]).authorities("no certificate").identity("none").build().is_err());
    let client = Client::builder(["h:1", "http://[::1]:7/"]).token("sk_t_secret").build().unwrap();
    assert_eq!(client.endpoints(), ["http://h:1", "http://[::1]:7"]);
    assert!(!format!("{client:?}").contains("secret"));
}
