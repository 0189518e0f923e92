//! Reading request bodies, within limits.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody};

use super::error::ApiError;
use crate::params::RequestFault;

/// Longest time for a request's body to come.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Reads a body of at most `limit` bytes as text.
pub(super) async fn text(body: Body, limit: usize) -> Result<String, ApiError> {
    // A body that says it is too long need not be read.
    if body.size_hint().lower() > limit as u64 {
        return Err(ApiError::too_long(limit));
    }
    let bytes = tokio::time::timeout(BODY_TIME, bytes(body, limit)).await;
    let bytes = bytes.map_err(|_| ApiError::too_slow(BODY_TIME.as_secs()))??;
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        ApiError::from(RequestFault::NotText { offset })
    })
}

async fn bytes(mut body: Body, limit: usize) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let broken = |_| ApiError::refused("the body could not be read to its end", None);
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(ApiError::too_long(limit));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}
