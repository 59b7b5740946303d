//! The `OpenAPI` document: what the routes say of themselves, completed by what holds for all of them.

use axum::Router;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::Shared;
use super::routes::{Access, ROUTES, Route};
use crate::wire::Problem;

const BEARER: &str = "bearer";

/// The browser's view of the document, from assets in the binary.
pub fn ui() -> Router<Shared> {
    SwaggerUi::new("/docs").config(Config::from("/openapi.json").validator_url("none")).into()
}

/// Completes the document: title, security, and the problems every route can answer with.
pub fn finish(mut document: OpenApi) -> OpenApi {
    document.info = InfoBuilder::new()
        .title("slotkeeper")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Owns a table of 16384 slots per cluster: exact minimal plans, reviewed, carried out, and published by epoch. \
             Every answer above 399 is a problem (RFC 9457) with a stable `code`.",
        ))
        .license(Some(LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build()))
        .build();
    let mut components = document.components.take().unwrap_or_else(|| ComponentsBuilder::new().build());
    let mut nested = Vec::new();
    Problem::schemas(&mut nested);
    nested.push((Problem::name().into_owned(), Problem::schema()));
    components.schemas.extend(nested);
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("`sk_<id>_<secret>`")).build();
    components.security_schemes.insert(BEARER.to_owned(), RefOr::T(SecurityScheme::Http(bearer)));
    document.components = Some(components);
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            let route = ROUTES.iter().find(|route| route.path == path && route.method == method);
            complete(operation, route.unwrap_or_else(|| panic!("{method} {path} is missing in the table of routes")));
        }
    }
    document
}

/// The operations of a path with their methods.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let PathItem { get, post, patch, delete, .. } = item;
    [("GET", get), ("POST", post), ("PATCH", patch), ("DELETE", delete)]
        .into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn complete(operation: &mut Operation, route: &Route) {
    let mut problems = vec![
        ("400", "Malformed: the request, its query, or its framing."),
        ("403", "The role does not allow it."),
        ("404", "It does not exist."),
        ("406", "`Accept` excludes JSON."),
        ("414", "The URI is longer than 8 KiB."),
        ("431", "The headers are more than 100, or larger than 16 KiB."),
        ("500", "A defect of the server."),
        ("503", "No leader, or this member does not know enough yet: try again."),
    ];
    if let Access::Needs(permission) = route.access {
        problems.push(("401", "A valid token is required."));
        let needs = SecurityRequirement::new(BEARER, Vec::<String>::new());
        operation.security = Some(vec![needs]);
        let note = format!("Needs the permission `{permission:?}`.");
        operation.description = Some(match operation.description.take() {
            Some(text) => format!("{text}\n\n{note}"),
            None => note,
        });
    }
    if route.path.contains('{') {
        problems.push(("422", "Well-formed, but a value cannot be; `field` names it."));
    }
    if route.method != "GET" {
        problems.extend([
            ("408", "The body took more than 10 s to arrive."),
            ("409", "The state does not allow it; `generation` and `epoch` tell the state."),
            ("413", "The body is too large."),
            ("415", "The body's type or coding is not read here."),
            ("422", "Well-formed, but a value cannot be; `field` names it."),
        ]);
    }
    for (status, description) in problems {
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(problem(description)));
    }
}

fn problem(description: &str) -> Response {
    let schema = Ref::from_schema_name(Problem::name());
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new().description(description).content("application/problem+json", content).build()
}
