//! The listener: connections with timeouts and caps, and a shutdown that ends what waits.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower::ServiceExt;

use super::context::{Connection, Context};
use super::error::ApiError;
use super::framing::{self, Noted};
use super::timer::OneTimer;

/// Bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most connections at one time; one more is answered 503 and closed.
    pub connections_max: usize,
    /// How long a request's head may take, and how long a connection may be idle.
    pub head_timeout: Duration,
    /// How long requests under way may take to end after a shutdown began.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections_max: 12_000, head_timeout: Duration::from_secs(10), drain: Duration::from_secs(2) }
    }
}

/// Most bytes of a head that the HTTP library reads before it gives up by itself: above what the router refuses with a
/// problem, so that the usual refusals say why. The library's own (431, 414, 400) get a general one in [`Noted`]; so does
/// more than its 100 headers, since room for more would be made on the heap for every request.
const HEAD_READ_MAX_BYTES: usize = 128 * 1024;

/// Serves a router on a listener until `shutdown` is there; then ends what waits, and returns when everything under
/// way has ended, or `limits.drain` later.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, shutdown: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let (stop, stopping) = watch::channel(false);
    let permits = Arc::new(Semaphore::new(limits.connections_max));
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, _)) => match Arc::clone(&permits).try_acquire_owned() {
                Ok(permit) => {
                    let (stopping, watcher) = (stopping.clone(), graceful.watcher());
                    tokio::spawn(connection(stream, router.clone(), limits, stopping, watcher, permit));
                }
                Err(_) => drop(tokio::spawn(turn_away(stream))),
            },
            Err(error) => {
                // Most often no file descriptor is left: some connection must end first.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    stop.send_replace(true);
    if tokio::time::timeout(limits.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections were still open at the end of the drain");
    }
}

async fn connection(
    stream: TcpStream,
    router: Router,
    limits: Limits,
    stopping: watch::Receiver<bool>,
    watcher: Watcher,
    permit: OwnedSemaphorePermit,
) {
    // Small answers must not wait for an acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let stream = Noted::new(stream);
    let shared = Arc::new(Connection::new(stream.head(), stopping));
    let service = service_fn(move |mut request: Request<Incoming>| {
        let context = Context { connection: Some(Arc::clone(&shared)), ..Context::default() };
        request.extensions_mut().insert(context);
        answer(router.clone(), request.map(Body::new))
    });
    let connection = http1::Builder::new()
        .timer(OneTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(HEAD_READ_MAX_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended with an error");
    }
    drop(permit);
}

async fn answer(router: Router, request: Request<Body>) -> Result<Response<Body>, Infallible> {
    router.oneshot(request).await
}

/// Says why, without reading a request: there is no room for one more connection.
async fn turn_away(mut stream: TcpStream) {
    const HEAD: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n";
    let answer = framing::with_problem(HEAD, ApiError::unavailable("too many connections"));
    let written: io::Result<()> = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await
    }
    .await;
    if let Err(error) = written {
        tracing::debug!(%error, "a connection over the cap was gone already");
    }
}
