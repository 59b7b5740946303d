//! Comparing hash families over HTTP: the figures of the command line, and what cannot be, by field.

use super::*;

/// Without what the clock says.
fn timeless(mut comparison: Value) -> Value {
    for family in comparison["families"].as_array_mut().unwrap() {
        if let Some(figures) = family.get_mut("figures").and_then(Value::as_object_mut) {
            assert!(figures.remove("lookup_ns").is_some());
        }
    }
    comparison
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_over_http_has_the_figures_of_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let member = Member::dev(folder.path());
    member.ready().await;
    let m = &member;
    let grow = json!({"count": 4, "to": 5, "sample": 2000});
    let answer = m.post("/v1/comparisons", grow).await.expect(200);
    assert_eq!((&answer["keys"], &answer["least_keys"]), (&json!(2000), &json!(400)));
    assert_eq!(answer["families"].as_array().unwrap().len(), 11);
    let told_grow = told(m, &["compare", "--nodes", "4", "--to", "5", "--sample", "2000"]);
    assert_eq!(timeless(answer), timeless(told_grow));

    let nodes =
        json!([{"name": "a", "weight": 2, "zone": "x"}, {"name": "b", "zone": "y"}, {"name": "c", "zone": "z"}]);
    let body =
        json!({"nodes": nodes, "drain": ["b"], "families": ["jump", "rendezvous", "slots"], "keys": ["k", "l", "k"]});
    let answer = m.post("/v1/comparisons", body).await.expect(200);
    assert_eq!((&answer["keys"], &answer["requests"]), (&json!(2), &json!(3)));
    for family in answer["families"].as_array().unwrap() {
        let refused = family["family"] == "jump";
        assert_eq!((family["refused"].is_string(), family["figures"].is_object()), (refused, !refused), "{family}");
    }

    // The shards of the cluster, of which one leaves.
    import(m, "01-3m3r.nodes.txt").await;
    topology(m).await;
    let current =
        told(m, &["compare", "--current", "--drain", "256f8fad71da49fc9bd8d75955ece32c6c0cd817", "--sample", "2000"]);
    assert_eq!((current["before"].as_array().unwrap().len(), current["after"].as_array().unwrap().len()), (3, 2));

    for (body, status, field) in [
        (json!({"count": 3, "to": 3}), 422, "body"),
        (json!({"count": 3, "to": 4, "x": 1}), 422, "x"),
        (json!({"count": -1, "to": 4}), 422, "count"),
        (json!({"count": 3, "to": 4, "families": ["crc"]}), 422, "families[0]"),
        (json!({"nodes": [{"name": "a", "weight": 1.5}], "to": 2}), 422, "nodes[0].weight"),
        (json!({"count": 3, "to": 4, "sample": 5_000_000}), 422, "sample"),
        (json!([]), 422, "body"),
    ] {
        let refused = m.post("/v1/comparisons", body.clone()).await.expect(status);
        assert_eq!(refused["field"], field, "{body}: {refused}");
    }
}
