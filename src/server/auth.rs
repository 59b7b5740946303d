//! The one authorisation point: who asks, and whether the route lets them.

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::ApiError;
use super::routes::{Access, Route, find};
use super::{App, Shared};
use crate::domain::{Principal, PrincipalName, Role};

/// Lets a request through when its route is open or its token's role grants what the route needs; the principal then
/// travels with it.
pub async fn authorise(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    // Without a match there is nothing behind: the fallback answers 404.
    let Some(path) = path else { return next.run(request).await };
    let Some(route) = find(request.method(), path.as_str()) else {
        return unlisted(request, next, path.as_str()).await;
    };
    match admit(&app, route, &request) {
        Ok(principal) => {
            if let Some(principal) = principal {
                request.extensions_mut().insert(principal);
            }
            request.extensions_mut().insert(*route);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

/// A path that is there with a method that is not gets its 405 from the router. Anything else that is not in the
/// table was forgotten there, and is refused.
async fn unlisted(request: Request, next: Next, path: &str) -> Response {
    let methods = [Method::GET, Method::POST, Method::PATCH, Method::DELETE];
    if methods.iter().any(|method| find(method, path).is_some()) {
        let response = next.run(request).await;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            return response;
        }
    }
    tracing::error!(path, "a route is missing in the table of routes");
    ApiError::new(StatusCode::FORBIDDEN, "forbidden", "nobody may use this route").into_response()
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
            let bearer = value.to_str().ok().and_then(|text| {
                let (scheme, token) = text.split_once(' ')?;
                scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
            });
            match bearer.and_then(|bearer| app.controller.authenticate(bearer)) {
                Some(principal) => Ok(principal),
                None => refuse("the token is unknown, revoked or expired"),
            }
        }
    }
}

fn dev_principal() -> Principal {
    Principal { name: PrincipalName::new("dev").expect("a valid name"), role: Role::Admin, token: None }
}
