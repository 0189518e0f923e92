//! The routes, and what goes around all of them: the guard, the request's id, the count of responses.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json as value};
use tokio::sync::oneshot;

use super::error::{ApiError, json};
use super::file::FileBody;
use super::watch::Reason;
use super::worker::Command;
use super::{Front, body, generate, tokens};
use crate::params::{Endpoint, chain, seed};

/// Every response has it; it is the `client_id` of the request in the capture.
const ID_HEADER: &str = "x-request-id";
/// Routes that ask for no key, as vLLM has it: they tell nothing that was asked or answered.
const OPEN: [&str; 3] = ["/health", "/metrics", "/version"];

/// The id of a request.
#[derive(Clone)]
struct RequestIdentity(String);

type Answer = Result<Response, ApiError>;
type Shared = State<Arc<Front>>;

/// The routes of the server.
pub(super) fn router(front: Arc<Front>) -> Router {
    Router::new()
        .route(Endpoint::ChatCompletions.path(), post(chat))
        .route(Endpoint::Completions.path(), post(completions))
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
        .route("/v1/params", post(params))
        .route("/tokenize", post(tokenize))
        .route("/detokenize", post(detokenize))
        .route("/health", get(health))
        .route("/version", get(version))
        .route("/metrics", get(metrics))
        .merge(captures(&front))
        .fallback(async || ApiError::not_found("there is no such route", None, "not_found"))
        .method_not_allowed_fallback(async || ApiError::wrong_method())
        .layer(middleware::from_fn_with_state(Arc::clone(&front), around))
        .with_state(front)
}

/// The routes of captures, where there are any to take.
fn captures(front: &Front) -> Router<Arc<Front>> {
    match front.captures {
        None => Router::new(),
        Some(_) => Router::new()
            .route("/v1/captures", get(list_captures).post(take_capture))
            .route("/v1/captures/{id}", get(download_capture)),
    }
}

async fn around(State(front): Shared, mut request: Request, next: Next) -> Response {
    let id = format!("req-{:016x}", seed::fresh());
    let is_open = OPEN.contains(&request.uri().path());
    let mut response = match front.guard.check(request.uri(), request.headers(), is_open) {
        Ok(()) => {
            request.extensions_mut().insert(RequestIdentity(id.clone()));
            next.run(request).await
        }
        Err(error) => error.into_response(),
    };
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(ID_HEADER, id);
    }
    front.metrics.response(response.status().as_u16());
    response
}

async fn chat(State(front): Shared, request: Request) -> Answer {
    complete(&front, Endpoint::ChatCompletions, request).await
}

async fn completions(State(front): Shared, request: Request) -> Answer {
    complete(&front, Endpoint::Completions, request).await
}

async fn complete(front: &Arc<Front>, endpoint: Endpoint, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let id = parts.extensions.get().map(|RequestIdentity(id)| id.clone()).unwrap_or_default();
    let body = body::text(body, front.body_bytes).await?;
    generate::generate(front, endpoint, id, &parts.headers, body).await
}

async fn params(State(front): Shared, body: Body) -> Answer {
    let body = body::text(body, front.body_bytes).await?;
    let shared = Arc::clone(&front);
    let told = front.clerk.ask(move |preparation| {
        let request = crate::params::Request::parse(&body, None)?;
        shared.check_model(request.model.as_deref())?;
        let submission = preparation.submission(&request, crate::engine::Received::default())?;
        let fits = submission.check_prompt(preparation.context_length());
        fits.map_err(|why| ApiError::refused(why.to_string(), Some(request.endpoint().prompt_field())))?;
        Ok::<Value, ApiError>(chain::json(&request, &shared.model, &submission.resolved))
    });
    Ok(json(StatusCode::OK, &told.await??))
}

async fn tokenize(State(front): Shared, body: Body) -> Answer {
    let body = body::text(body, front.body_bytes).await?;
    let tokenizer = Arc::clone(&front.tokenizer);
    let told = front.clerk.ask(move |preparation| tokens::tokenize(preparation, &tokenizer, &body));
    Ok(json(StatusCode::OK, &told.await??))
}

async fn detokenize(State(front): Shared, body: Body) -> Answer {
    let body = body::text(body, front.body_bytes).await?;
    Ok(json(StatusCode::OK, &tokens::detokenize(&front.tokenizer, &body)?))
}

async fn models(State(front): Shared) -> Response {
    json(StatusCode::OK, &value!({"object": "list", "data": [front.model_card()]}))
}

async fn model(State(front): Shared, Path(name): Path<String>) -> Answer {
    front.check_model(Some(&name))?;
    Ok(json(StatusCode::OK, &front.model_card()))
}

async fn list_captures(State(front): Shared) -> Answer {
    let captures = Arc::clone(front.archive()?);
    let list = tokio::task::spawn_blocking(move || captures.list()).await.unwrap_or_default();
    Ok(json(StatusCode::OK, &value!({"object": "list", "data": list})))
}

async fn take_capture(State(front): Shared) -> Answer {
    let (answer, answered) = oneshot::channel();
    let sent = front.commands.send(Command::Capture(Reason::Operator, Some(answer)));
    sent.map_err(|_| ApiError::stopping())?;
    let taken = answered.await.map_err(|_| ApiError::stopping())?;
    Ok(json(StatusCode::CREATED, &taken.map_err(ApiError::failed)?))
}

async fn download_capture(State(front): Shared, Path(id): Path<String>) -> Answer {
    let path = front.archive()?.file(&id);
    let missing = || ApiError::not_found("there is no such capture (any more)", None, "not_found");
    let file = tokio::fs::File::open(path.ok_or_else(missing)?).await.map_err(|_| missing())?;
    let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
    Ok((kind, Body::new(FileBody(file))).into_response())
}

async fn health(State(front): Shared) -> Answer {
    if front.is_alive() { Ok(StatusCode::OK.into_response()) } else { Err(ApiError::stopping()) }
}

async fn version() -> Response {
    json(StatusCode::OK, &value!({"version": env!("CARGO_PKG_VERSION")}))
}

async fn metrics(State(front): Shared) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, front.metrics.render(&front.model)).into_response()
}
