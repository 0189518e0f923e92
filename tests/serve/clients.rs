//! The official clients.
