//! The thread that prepares requests: it parses, renders, tokenizes and compiles, so that neither the engine nor the
//! connections wait for it.

use std::sync::mpsc::{Receiver, Sender};

use tokio::sync::oneshot;

use crate::exchange::Preparation;

/// Something to do with the preparation.
pub(super) type Job = Box<dyn for<'a> FnOnce(&Preparation<'a>) + Send>;

/// Hands jobs to the thread.
#[derive(Clone)]
pub(super) struct Clerk(Sender<Job>);

/// The server is stopping, and prepares nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopped;

impl Clerk {
    pub fn new(jobs: Sender<Job>) -> Self {
        Self(jobs)
    }

    /// Has `job` done, in turn. A job whose asker has gone is passed over.
    pub async fn ask<T: Send + 'static>(
        &self,
        job: impl for<'a> FnOnce(&Preparation<'a>) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (answer, answered) = oneshot::channel();
        let job = move |preparation: &Preparation<'_>| {
            if !answer.is_closed() {
                // An asker that went meanwhile needs no answer.
                let _ = answer.send(job(preparation));
            }
        };
        self.0.send(Box::new(job)).map_err(|_| Stopped)?;
        answered.await.map_err(|_| Stopped)
    }
}

/// Does jobs until nobody can ask for one any more.
pub(super) fn work(preparation: &Preparation<'_>, jobs: &Receiver<Job>) {
    jobs.iter().for_each(|job| job(preparation));
}
