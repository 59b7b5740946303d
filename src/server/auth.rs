//! The one authorisation point: who asks, and whether the route lets them.

use axum::extract::{MatchedPath, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::App;
use super::context::Context;
use super::error::ApiError;
use super::routes::{Access, Route, find};
use crate::controller::Bearer;
use crate::domain::{Principal, PrincipalName, Role};

/// Where a request that is not refused goes.
pub enum Admission {
    /// To its handler: that of the route, or the one for paths that lead nowhere.
    Granted(Option<&'static Route>),
    /// Nowhere, unless the router knows the path with other methods: see [`unlisted`].
    Unlisted(MatchedPath),
}

/// Lets a request through when its route is open or its token's role grants what the route needs; the principal then
/// travels with it.
pub fn authorise(app: &App, request: &mut Request) -> Result<Admission, ApiError> {
    // Without a match there is nothing behind: the fallback answers 404.
    let Some(path) = request.extensions().get::<MatchedPath>() else { return Ok(Admission::Granted(None)) };
    let Some(route) = find(request.method(), path.as_str()) else {
        let methods = [Method::GET, Method::POST, Method::PATCH, Method::DELETE];
        let is_listed = methods.iter().any(|method| find(method, path.as_str()).is_some());
        return if is_listed { Ok(Admission::Unlisted(path.clone())) } else { Err(forgotten(path.as_str())) };
    };
    let principal = admit(app, route, request)?;
    let context = request.extensions_mut().get_or_insert_default::<Context>();
    (context.principal, context.route) = (principal, Some(route));
    Ok(Admission::Granted(Some(route)))
}

/// A path that is there with a method that is not gets its 405 from the router. Anything else that is not in the
/// table was forgotten there, and is refused.
pub fn unlisted(response: Response, path: &str) -> Response {
    if response.status() == StatusCode::METHOD_NOT_ALLOWED { response } else { forgotten(path).into_response() }
}

fn forgotten(path: &str) -> ApiError {
    tracing::error!(path, "a route is missing in the table of routes");
    ApiError::new(StatusCode::FORBIDDEN, "forbidden", "nobody may use this route")
}

fn admit(app: &App, route: &Route, request: &Request) -> Result<Option<Principal>, ApiError> {
    let Access::Needs(permission) = route.access else { return Ok(None) };
    let principal = authenticate(app, request)?;
    if principal.role.may(permission) {
        Ok(Some(principal))
    } else {
        let detail = format!("role {} may not {} {}", principal.role, route.method, route.path);
        Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", detail))
    }
}

fn authenticate(app: &App, request: &Request) -> Result<Principal, ApiError> {
    let refuse = |why: &str| Err(ApiError::new(StatusCode::UNAUTHORIZED, "unauthenticated", why));
    let mut values = request.headers().get_all(AUTHORIZATION).iter();
    let (value, another) = (values.next(), values.next());
    match (value, another) {
        (None, _) if app.config.insecure_dev => Ok(dev_principal()),
        (None, _) => refuse("send Authorization: Bearer and a token"),
        (Some(_), Some(_)) => refuse("send one Authorization header"),
        (Some(value), None) => {
            let connection = request.extensions().get::<Context>().and_then(|context| context.connection.as_ref());
            let bearer = match connection {
                Some(connection) => connection.bearer(value, read_bearer),
                None => read_bearer(value),
            };
            match bearer.and_then(|bearer| app.controller.principal(&bearer)) {
                Some(principal) => Ok(principal),
                None => refuse("the token is unknown, revoked or expired"),
            }
        }
    }
}

fn read_bearer(value: &HeaderValue) -> Option<Bearer> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") { Bearer::read(token.trim()) } else { None }
}

fn dev_principal() -> Principal {
    Principal { name: PrincipalName::new("dev").expect("a valid name"), role: Role::Admin, token: None }
}
