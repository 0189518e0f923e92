//! The signals that stop the server.

use std::io;
use std::sync::Arc;

use tokio::sync::{Semaphore, oneshot};

/// SIGTERM and SIGINT, counted.
pub(super) struct Signals(Arc<Semaphore>);

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// If the signals cannot be listened to.
    #[cfg(unix)]
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let seen = Arc::new(Semaphore::new(0));
        let count = Arc::clone(&seen);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => count.add_permits(1),
                    _ = interrupt.recv() => count.add_permits(1),
                }
            }
        });
        Ok(Self(seen))
    }

    /// Listens to Ctrl+C from now on.
    #[cfg(not(unix))]
    pub fn listen() -> io::Result<Self> {
        let seen = Arc::new(Semaphore::new(0));
        let count = Arc::clone(&seen);
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                count.add_permits(1);
            }
        });
        Ok(Self(seen))
    }

    /// Ends with the first signal, or when `has_ended` says that there is nothing left to serve with.
    pub async fn first(&self, has_ended: oneshot::Receiver<()>) {
        tokio::select! {
            () = self.wait() => {}
            _ = has_ended => {}
        }
    }

    /// Ends with a signal that comes after the first.
    pub async fn second(&self) {
        self.wait().await;
    }

    async fn wait(&self) {
        match self.0.acquire().await {
            Ok(signal) => signal.forget(),
            // Nobody closes it.
            Err(_) => std::future::pending().await,
        }
    }
}
