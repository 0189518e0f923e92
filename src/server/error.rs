//! Error responses: always an OpenAI error object.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::clerk::Stopped;
use crate::params::RequestFault;
use crate::params::response::{ErrorBody, ErrorObject};

/// Why a request is answered by an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    status: StatusCode,
    error: ErrorObject,
    retry_after: Option<u32>,
}

impl ApiError {
    fn new(status: StatusCode, message: impl Into<String>, param: Option<&str>, code: Option<&str>) -> Self {
        let r#type = if status.is_server_error() { "server_error" } else { "invalid_request_error" };
        let (param, code) = (param.map(str::to_owned), code.map(str::to_owned));
        Self { status, error: ErrorObject { message: message.into(), r#type, param, code }, retry_after: None }
    }

    /// 400: the request is not accepted, for this field if it is one.
    pub fn refused(message: impl Into<String>, field: Option<&str>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message, field, None)
    }

    /// 401: no key, or a wrong one.
    pub fn unauthorized() -> Self {
        let message = "expected the server's API key as `Authorization: Bearer KEY`";
        Self::new(StatusCode::UNAUTHORIZED, message, None, Some("invalid_api_key"))
    }

    /// 403: the request comes from where none is taken from.
    pub fn forbidden(message: impl Into<String>, code: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, message, None, Some(code))
    }

    /// 404: no such thing here.
    pub fn not_found(message: impl Into<String>, field: Option<&str>, code: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, message, field, Some(code))
    }

    /// 405: the route takes another method.
    pub fn wrong_method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "the route takes another method", None, None)
    }

    /// 408: the body did not come in time.
    pub fn too_slow(seconds: u64) -> Self {
        let message = format!("the body did not come within {seconds} seconds");
        Self::new(StatusCode::REQUEST_TIMEOUT, message, None, Some("request_timeout"))
    }

    /// 413: the body is too long.
    pub fn too_long(limit: usize) -> Self {
        let message = format!("the body is longer than {limit} bytes, the limit of this server (--body-limit)");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, message, None, Some("request_too_large"))
    }

    /// 429: the queue is full.
    pub fn busy(places: usize) -> Self {
        let message = format!("all {places} places of the queue are taken; try again later");
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, message, None, Some("queue_full"));
        Self { retry_after: Some(1), ..error }
    }

    /// 500: the request failed while it ran.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message, None, Some("generation_failed"))
    }

    /// 503: the server is stopping, or its engine has stopped.
    pub fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping", None, Some("stopping"))
    }

    /// The error object.
    pub fn body(&self) -> ErrorBody {
        ErrorBody { error: self.error.clone() }
    }

    /// What the error says.
    pub fn message(&self) -> &str {
        &self.error.message
    }
}

impl From<RequestFault> for ApiError {
    fn from(fault: RequestFault) -> Self {
        Self::refused(fault.to_string(), fault.field())
    }
}

impl From<Stopped> for ApiError {
    fn from(_: Stopped) -> Self {
        Self::stopping()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = json(self.status, &self.body());
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// A response that is JSON.
pub(super) fn json(status: StatusCode, body: &impl serde::Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => (status, [(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
        Err(error) => {
            tracing::error!("a response could not be written: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
