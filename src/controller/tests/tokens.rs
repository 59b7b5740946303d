//! Bearer tokens and the first start.

use std::sync::Mutex;

use super::*;
use crate::domain::{PrincipalName, TokenId};

#[tokio::test]
async fn a_token_works_until_it_expires_or_is_revoked() {
    let stage = Stage::empty();
    let (controller, name) = (&stage.controller, PrincipalName::new("ops-1").unwrap());
    let end = Instant(START_MS + 1000);
    let (_, short) = controller.create_token(&admin(), name.clone(), Role::Operator, Some(end)).await.unwrap();
    let (receipt, long) = controller.create_token(&admin(), name.clone(), Role::Viewer, None).await.unwrap();
    let known = controller.authenticate(&short).unwrap();
    assert_eq!((known.name.as_str(), known.role), ("ops-1", Role::Operator));
    assert_eq!(controller.authenticate(&long).unwrap().token, receipt.token);
    stage.pass_ms(1000);
    assert_eq!(controller.authenticate(&short), None, "expired");
    stage.submit(Op::RevokeToken { id: receipt.token.unwrap(), may_be_last: false }).await.unwrap();
    assert_eq!(controller.authenticate(&long), None, "revoked");
}

#[tokio::test]
async fn what_is_not_exactly_a_token_is_nobody() {
    let stage = Stage::empty();
    let name = PrincipalName::new("ops-1").unwrap();
    let (_, bearer) = stage.controller.create_token(&admin(), name, Role::Admin, None).await.unwrap();
    let (head, secret) = bearer.rsplit_once('_').unwrap();
    assert_eq!(secret.len(), 64, "256 bits as hex");
    let stored = stage.controller.tokens().remove(0).secret_sha256;
    assert_ne!(stored, secret);
    for wrong in [
        "",
        "sk_",
        "sk__",
        head,
        secret,
        &bearer[..bearer.len() - 1],
        &format!("{bearer}0"),
        &format!("{head}_{}", secret.to_uppercase()),
        &format!("{head}_{stored}"),
        &format!("{head}_"),
        &format!("sk_nobody_{secret}"),
        &format!(" {bearer}"),
    ] {
        assert_eq!(stage.controller.authenticate(wrong), None, "{wrong:?}");
    }
    assert!(stage.controller.authenticate(&bearer).is_some());
    let log = format!("{:?}{}", stage.local.log(), stage.controller.state_hash().1);
    assert!(!log.contains(secret), "the secret is nowhere in the log");
}

#[tokio::test]
async fn a_secret_is_not_shown_again() {
    let stage = Stage::empty();
    let idempotency = Some(Idempotency { key: "k".to_owned(), request: "r".to_owned() });
    let caller = Caller { idempotency, ..admin() };
    let create = || stage.controller.create_token(&caller, id("ops"), Role::Viewer, None);
    create().await.unwrap();
    let again = create().await.unwrap_err();
    assert!(matches!(again, ControlError::Rejected(Rejection::Conflict { .. })), "{again}");
    assert_eq!(stage.controller.tokens().len(), 1);
}

fn first() -> FirstStart {
    FirstStart { driver: DriverKind::Flip, policy: Policy::default_for(DriverKind::Flip) }
}

#[tokio::test]
async fn the_first_start_makes_a_token_and_a_cluster_once() {
    let stage = Stage::empty();
    let shown = Mutex::new(Vec::new());
    let announce = |bearer: &str| shown.lock().unwrap().push(bearer.to_owned());
    stage.controller.bootstrap(&first(), announce).await.unwrap();
    stage.controller.bootstrap(&first(), announce).await.unwrap();
    let shown = shown.into_inner().unwrap();
    assert_eq!(shown.len(), 1);
    assert_eq!(stage.controller.authenticate(&shown[0]).unwrap().role, Role::Admin);
    let names: Vec<_> = stage.controller.clusters().iter().map(|cluster| cluster.name.to_string()).collect();
    assert_eq!(names, ["default"]);
}

#[tokio::test]
async fn a_first_start_that_broke_off_is_begun_anew() {
    let stage = Stage::empty();
    let (caller, id) = (Caller::system("first-start"), TokenId::new("first").unwrap());
    let name = PrincipalName::new("admin").unwrap();
    let (_, old) = stage.controller.create_token_as(&caller, id, name, Role::Admin, None).await.unwrap();
    let mut shown = String::new();
    stage.controller.bootstrap(&first(), |bearer| shown = bearer.to_owned()).await.unwrap();
    assert!(stage.controller.authenticate(&shown).is_some());
    assert_eq!(stage.controller.authenticate(&old), None);
}

#[tokio::test]
async fn a_member_that_does_not_lead_waits_for_the_one_that_does() {
    let stage = Stage::empty();
    stage.local.set_leading(None);
    let follower = tokio::spawn({
        let controller = stage.controller.clone();
        async move { controller.bootstrap(&first(), |_| {}).await }
    });
    tokio::task::yield_now().await;
    assert!(!follower.is_finished() && stage.local.log().is_empty());
    stage.local.set_leading(Some(1));
    follower.await.unwrap().unwrap();
    assert_eq!(stage.controller.clusters().len(), 1);
}
