//! The one layer around every route: what `observe`, `guard` and `auth` do, in this order. One layer and not three:
//! each would box a future and clone what it wraps, for every request.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::{MatchedPath, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::Route;
use futures::FutureExt;
use futures::future::BoxFuture;
use tower::Service;

use super::api;
use super::auth::{self, Admission};
use super::observe::Observation;
use super::{Shared, guard};

/// A route with everything around it.
#[derive(Clone)]
pub struct Entry {
    route: Route,
    app: Shared,
}

/// What answers a request.
enum Answer {
    /// A refusal, or what needs no handler.
    Ready(Response),
    Handler(<Route as Service<Request>>::Future),
    /// A route that the table does not list: nobody gets an answer of its handler.
    Unlisted(<Route as Service<Request>>::Future, MatchedPath),
}

impl Entry {
    /// Surrounds a route.
    pub const fn new(route: Route, app: Shared) -> Self {
        Self { route, app }
    }

    fn admit(&mut self, mut request: Request) -> Answer {
        if let Err(error) = guard::inspect(&self.app, &request) {
            return Answer::Ready(error.into_response());
        }
        match auth::authorise(&self.app, &mut request) {
            Ok(Admission::Granted(route)) => match route.and_then(|route| api::at_once(&self.app, route, &request)) {
                Some(response) => Answer::Ready(response),
                None => Answer::Handler(self.route.call(request)),
            },
            Ok(Admission::Unlisted(path)) => Answer::Unlisted(self.route.call(request), path),
            Err(error) => Answer::Ready(error.into_response()),
        }
    }
}

fn ready(response: Response) -> BoxFuture<'static, Result<Response, Infallible>> {
    Box::pin(std::future::ready(Ok(response)))
}

impl Service<Request> for Entry {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // A route always is.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let observation = Observation::begin(&request);
        let answer = catch_unwind(AssertUnwindSafe(|| self.admit(request)));
        let (handler, unlisted) = match answer {
            Ok(Answer::Ready(response)) => return ready(observation.finish(&self.app, Ok(response))),
            Err(panic) => return ready(observation.finish(&self.app, Err(panic))),
            Ok(Answer::Handler(handler)) => (handler, None),
            Ok(Answer::Unlisted(handler, path)) => (handler, Some(path)),
        };
        let app = Arc::clone(&self.app);
        Box::pin(async move {
            let answered = AssertUnwindSafe(handler).catch_unwind().await.map(|response| {
                let response = response.unwrap_or_else(|never| match never {});
                match unlisted {
                    Some(path) => auth::unlisted(response, path.as_str()),
                    None => response,
                }
            });
            Ok(observation.finish(&app, answered))
        })
    }
}
