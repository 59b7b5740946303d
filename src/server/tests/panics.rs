//! A panic ends nothing but its request.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::controller::{Controller, Local};
use crate::server::metrics::Metrics;
use crate::server::{App, ServerConfig, layered};

#[tokio::test]
async fn a_panic_is_a_problem_and_is_counted() {
    let controller = Controller::new(Local::new());
    let metrics = Metrics::new(controller.clone());
    let document = bytes::Bytes::new();
    let config = ServerConfig { insecure_dev: true, ..ServerConfig::default() };
    let app = Arc::new(App { controller, config, metrics, document });
    let routes = axum::Router::new().route("/livez", get(|| async { panic!("of the test") as &'static str }));
    let service = layered(routes, Arc::clone(&app));
    let request = Request::get("/livez").header("host", "localhost").body(Body::empty()).unwrap();
    let answer = service.oneshot(request).await.unwrap();
    assert_eq!(500, answer.status().as_u16());
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let problem: crate::wire::Problem = serde_json::from_slice(&body).unwrap();
    assert_eq!(("internal", 500, 16), (problem.code.as_str(), problem.status, problem.request_id.len()));
    assert!(!problem.detail.contains("of the test"), "what a panic says is for the log");
    assert!(app.metrics.render().contains("slotkeeper_http_panics_total 1\n"));
}
