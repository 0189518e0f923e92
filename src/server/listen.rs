//! Connections: accepted within limits, served by HTTP/1.1, drained at the end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Most headers of a request.
const HEADERS: usize = 64;
/// Most bytes of a request's head.
const HEAD_BYTES: usize = 64 << 10;
/// Longest time for a request's head to come, and for the next request on a connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Wait after an accept that failed: the process may be out of file descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// How connections are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Most connections at a time; further ones wait to be accepted.
    pub connections: usize,
    /// Longest time that requests have to end once the server stops.
    pub drain: Duration,
}

/// Serves until `stop`, accepts no more then, and lets what has begun end: whether all of it did before `hurry` or the time was up.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    holding: Holding,
    stop: impl Future<Output = ()>,
    hurry: impl Future<Output = ()>,
) -> bool {
    let places = Arc::new(Semaphore::new(holding.connections.max(1)));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, stream) = tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next() => continue,
            (place, accepted) = accepted => match accepted {
                Ok((stream, _)) => (place, stream),
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(AFTER_FAILURE).await;
                    continue;
                }
            },
        };
        // Pieces of an answer are small, and wanted at once.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_headers(HEADERS)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection ended: {error}");
            }
            drop(place);
        });
    }
    drop(listener);
    let is_drained = tokio::select! {
        () = graceful.shutdown() => true,
        () = tokio::time::sleep(holding.drain) => false,
        () = hurry => false,
    };
    connections.shutdown().await;
    is_drained
}
