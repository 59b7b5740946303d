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
    Refusal(Response),
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
            return Answer::Refusal(error.into_response());
        }
        match auth::authorise(&self.app, &mut request) {
            Ok(Admission::Granted) => Answer::Handler(self.route.call(request)),
            Ok(Admission::Unlisted(path)) => Answer::Unlisted(self.route.call(request), path),
            Err(error) => Answer::Refusal(error.into_response()),
        }
    }
}

fn infallible(response: Result<Response, Infallible>) -> Response {
    response.unwrap_or_else(|never| match never {})
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
        let app = Arc::clone(&self.app);
        Box::pin(async move {
            let answered = match answer {
                Ok(Answer::Refusal(response)) => Ok(response),
                Ok(Answer::Handler(handler)) => AssertUnwindSafe(handler).catch_unwind().await.map(infallible),
                Ok(Answer::Unlisted(handler, path)) => {
                    let answered = AssertUnwindSafe(handler).catch_unwind().await;
                    answered.map(|response| auth::unlisted(infallible(response), path.as_str()))
                }
                Err(panic) => Err(panic),
            };
            Ok(observation.finish(&app, answered))
        })
    }
}
