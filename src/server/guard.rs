//! What is refused before anything looks at a request: ambiguous framing, missing or foreign hosts, oversized heads,
//! representations nobody offers.

use axum::extract::Request;
use axum::http::header::{ACCEPT, HOST, ORIGIN, TRANSFER_ENCODING};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version};

use super::App;
use super::context::Context;
use super::error::ApiError;

/// Most bytes of a URI.
const URI_MAX_BYTES: usize = 8 * 1024;
/// Most bytes of all header names and values.
const HEADERS_MAX_BYTES: usize = 16 * 1024;
/// Most headers.
const HEADERS_MAX: usize = 100;

/// Refuses a request that must not get any further.
pub fn inspect(app: &App, request: &Request) -> Result<(), ApiError> {
    let connection = request.extensions().get::<Context>().and_then(|context| context.connection.as_ref());
    if connection.is_some_and(|connection| connection.head().is_ambiguous(request.headers())) {
        return Err(ApiError::malformed("the request tells the length of its body more than once").close());
    }
    if !is_chunked_alone(request.headers()) {
        return Err(ApiError::malformed("the only transfer coding taken is chunked, by itself").close());
    }
    let uri = request.uri();
    let uri_bytes = uri.path_and_query().map_or(0, |part| part.as_str().len());
    if uri_bytes > URI_MAX_BYTES {
        let detail = format!("the URI has {uri_bytes} bytes, more than {URI_MAX_BYTES}");
        return Err(ApiError::new(StatusCode::URI_TOO_LONG, "uri-too-long", detail));
    }
    let headers = request.headers();
    let header_bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if header_bytes > HEADERS_MAX_BYTES || headers.len() > HEADERS_MAX {
        let detail = format!(
            "{} headers of {header_bytes} bytes are more than {HEADERS_MAX} or {HEADERS_MAX_BYTES} bytes",
            headers.len()
        );
        return Err(ApiError::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers-too-large", detail));
    }
    check_host(request, app.config.insecure_dev)?;
    if uri.path().starts_with("/v1/") && !accepts_json(headers) {
        let detail = "answers are application/json and application/problem+json";
        return Err(ApiError::new(StatusCode::NOT_ACCEPTABLE, "not-acceptable", detail).field("Accept"));
    }
    Ok(())
}

/// Whether `Transfer-Encoding`, where there is one, is `chunked` and nothing else: no other coding is undone here.
fn is_chunked_alone(headers: &HeaderMap) -> bool {
    headers
        .get_all(TRANSFER_ENCODING)
        .iter()
        .all(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))
}

/// Without tokens only pages of this machine may ask: a web page elsewhere could otherwise reach the controller
/// through the browser of somebody here, by a name that resolves to loopback.
fn check_host(request: &Request, loopback_only: bool) -> Result<(), ApiError> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (host, another) = (hosts.next(), hosts.next());
    if another.is_some() {
        return Err(ApiError::malformed("the request has several Host headers").close());
    }
    if !loopback_only && host.is_some_and(is_plain_host) {
        return Ok(());
    }
    let named = host.map(|host| host.to_str().ok().and_then(|text| text.parse::<Authority>().ok()));
    let authority = match named {
        Some(None) => return Err(ApiError::malformed("the Host header is not a host").close()),
        Some(Some(authority)) => Some(authority),
        None => request.uri().authority().cloned(),
    };
    if authority.is_none() && request.version() >= Version::HTTP_11 {
        return Err(ApiError::malformed("the request has no Host header").close());
    }
    if loopback_only {
        let origin = request.headers().get(ORIGIN).map(|origin| {
            let text = origin.to_str().unwrap_or_default();
            text.split_once("://").and_then(|(_, rest)| rest.parse::<Authority>().ok())
        });
        let foreign = |authority: &Authority| !is_loopback(authority.host());
        if authority.as_ref().is_some_and(foreign) || origin.is_some_and(|o| o.as_ref().is_none_or(foreign)) {
            let detail = "without tokens only loopback host names and origins are served";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "host-refused", detail));
        }
    }
    Ok(())
}

/// Whether it is a name or an IPv4 address with or without a port: what nearly everybody sends, told without parsing.
fn is_plain_host(host: &HeaderValue) -> bool {
    let mut parts = host.as_bytes().splitn(2, |&b| b == b':');
    let is_name = parts.next().is_some_and(|name| {
        !name.is_empty() && name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
    });
    is_name && parts.next().is_none_or(|port| (1..=5).contains(&port.len()) && port.iter().all(u8::is_ascii_digit))
}

fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether `Accept` admits JSON; a quality of 0 does not.
fn accepts_json(headers: &HeaderMap) -> bool {
    let mut ranges = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
    if ranges.peek().is_none() {
        return true;
    }
    ranges.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let excluded = parts.any(|p| p.strip_prefix("q=").is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0)));
        let offered = ["*/*", "application/*", "application/json", "application/problem+json", ""];
        offered.iter().any(|offered| offered.eq_ignore_ascii_case(media)) && !excluded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_refused_only_where_it_is_not_wanted() {
        let accepts = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            accepts_json(&headers)
        };
        for yes in ["*/*", "application/json", "text/html, application/*;q=0.5", "Application/JSON;q=0.1"] {
            assert!(accepts(yes), "{yes}");
        }
        for no in ["text/html", "application/json;q=0", "application/xml, text/*"] {
            assert!(!accepts(no), "{no}");
        }
        assert!(accepts_json(&HeaderMap::new()));
    }

    #[test]
    fn loopback_is_told_by_name_and_address() {
        for yes in ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "[::1]"] {
            assert!(is_loopback(yes), "{yes}");
        }
        for no in ["example.org", "localhost.example.org", "10.0.0.1", "[::2]", ""] {
            assert!(!is_loopback(no), "{no}");
        }
    }
}
