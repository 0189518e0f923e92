//! Why a backend could not start or could not take a step.

/// A failure of a backend.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The backend does not exist in this build or on this machine.
    #[error("backend `{backend}` is not available: {reason}")]
    Unavailable {
        /// The backend that was asked for.
        backend: &'static str,
        /// Why, and what to do instead.
        reason: String,
    },

    /// The configuration cannot be met.
    #[error("cannot start the backend: {0}")]
    Configuration(String),

    /// The model's parts do not fit together.
    #[error("cannot run this model: {0}")]
    Model(String),

    /// An entry of a batch breaks a rule of [`crate::backend::Backend`].
    #[error("batch entry {entry}: {message}")]
    Entry {
        /// Index of the entry.
        entry: usize,
        /// The rule, what was expected and what was found.
        message: String,
    },

    /// A page, slot or snapshot that does not exist or holds nothing.
    #[error("{kind} {id}: {message}")]
    Resource {
        /// `page`, `state slot`, `snapshot`.
        kind: &'static str,
        /// Its number.
        id: u32,
        /// What is wrong with it.
        message: String,
    },

    /// A worker thread panicked; the step's results are lost and the backend takes no further step.
    #[error("a worker thread panicked: {0}; start a new engine")]
    Panicked(String),
}
