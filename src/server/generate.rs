//! Chat completions and completions: from a body to an answer, whole or in pieces.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::Front;
use super::choice::ChoiceStream;
use super::error::{ApiError, json};
use super::events::Events;
use super::worker::{Arrival, Command, Update};
use crate::engine::{FinishedChoice, Received, Submission, Tooling};
use crate::exchange::{About, Preparation, answer};
use crate::params::response::Pieces;
use crate::params::{Endpoint, Request, Streaming, chain};
use crate::types::FinishReason;

/// With this header set to `1`, a response says what its request ran with, in a header of the same name.
const PARAMS_HEADER: &str = "x-stepscope-params";
/// Longest such header.
const PARAMS_BYTES: usize = 8 << 10;

/// What the answer needs to know of its request.
struct Prepared {
    endpoint: Endpoint,
    stream: Option<Streaming>,
    choices: usize,
    prompt_tokens: u32,
    wants_logprobs: bool,
    tooling: Option<Tooling>,
    params: String,
}

/// Answers a request that came with the id `id`.
pub(super) async fn generate(
    front: &Arc<Front>,
    endpoint: Endpoint,
    id: String,
    headers: &HeaderMap,
    body: String,
) -> Result<Response, ApiError> {
    let since = Instant::now();
    let Ok(place) = Arc::clone(&front.places).try_acquire_owned() else {
        front.metrics.turned_away.add(1);
        return Err(ApiError::busy(front.capacity));
    };
    let (sender, mut updates) = unbounded_channel();
    let (shared, client_id) = (Arc::clone(front), id.clone());
    let prepare = move |preparation: &Preparation<'_>| {
        let received =
            Received { client_id: Some(client_id), endpoint: Some(endpoint.path().to_owned()), body: Some(body) };
        match prepare(&shared, preparation, endpoint, &received) {
            Ok((prepared, submission)) => {
                let arrival = Arrival { submission, updates: sender, place, since };
                let sent = shared.commands.send(Command::Run(Box::new(arrival)));
                sent.map(|()| prepared).map_err(|_| ApiError::stopping())
            }
            Err(error) => {
                // Without an engine there is nothing to record.
                let _ = shared.commands.send(Command::Refuse(received, error.message().to_owned()));
                Err(error)
            }
        }
    };
    let prepared = front.clerk.ask(prepare).await??;
    match updates.recv().await {
        Some(Update::Refused(reason)) => {
            return Err(ApiError::refused(reason.to_string(), Some(endpoint.prompt_field())));
        }
        Some(_) => {}
        None => return Err(ApiError::stopping()),
    }
    let params = headers.get(PARAMS_HEADER).is_some_and(|value| value == "1").then(|| prepared.params.clone());
    let mut response = match prepared.stream {
        Some(streaming) => stream(front, prepared, streaming, &id, updates),
        None => whole(front, &prepared, &id, updates).await?,
    };
    if let Some(params) = params.as_deref().and_then(|params| HeaderValue::from_str(params).ok()) {
        response.headers_mut().insert(PARAMS_HEADER, params);
    }
    Ok(response)
}

fn prepare(
    front: &Front,
    preparation: &Preparation<'_>,
    endpoint: Endpoint,
    received: &Received,
) -> Result<(Prepared, Submission), ApiError> {
    let request = Request::parse(received.body.as_deref().unwrap_or_default(), Some(endpoint))?;
    front.check_model(request.model.as_deref())?;
    let submission = preparation.submission(&request, received.clone())?;
    let params = chain::told(&submission.resolved);
    let params = match params.len() {
        ..=PARAMS_BYTES => params,
        length => format!("{{\"error\":\"{length} bytes are too many for a header; ask /v1/params\"}}"),
    };
    let prepared = Prepared {
        endpoint,
        stream: request.stream,
        choices: submission.sampling.choices as usize,
        prompt_tokens: submission.prompt.tokens.len() as u32,
        wants_logprobs: submission.sampling.logprobs.is_some(),
        tooling: submission.tools.clone(),
        params,
    };
    Ok((prepared, submission))
}

fn stream(
    front: &Front,
    prepared: Prepared,
    streaming: Streaming,
    id: &str,
    updates: UnboundedReceiver<Update>,
) -> Response {
    let created = now();
    let about = about(front, &prepared, id, created);
    let pieces = Pieces::new(
        prepared.endpoint,
        about.answer_id(),
        created,
        front.model.clone(),
        streaming,
        prepared.choices,
        prepared.wants_logprobs,
    );
    let choice = |_| ChoiceStream::new(Arc::clone(&front.tokenizer), prepared.tooling.clone());
    let choices = (0..prepared.choices).map(choice).collect();
    let events = Events::new(updates, pieces, choices, prepared.prompt_tokens);
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, axum::body::Body::new(events)).into_response()
}

async fn whole(
    front: &Front,
    prepared: &Prepared,
    id: &str,
    mut updates: UnboundedReceiver<Update>,
) -> Result<Response, ApiError> {
    let mut choices: Vec<FinishedChoice> = Vec::new();
    while choices.len() < prepared.choices {
        match updates.recv().await {
            Some(Update::Finished(choice)) => match &choice.reason {
                FinishReason::Failed(message) => return Err(ApiError::failed(message)),
                FinishReason::Cancelled => return Err(ApiError::stopping()),
                _ => choices.push(choice),
            },
            Some(_) => {}
            None => return Err(ApiError::stopping()),
        }
    }
    choices.sort_by_key(|choice| choice.id.choice);
    let about = about(front, prepared, id, now());
    Ok(json(StatusCode::OK, &answer(&about, choices, &front.tokenizer).into_body()))
}

fn about<'a>(front: &'a Front, prepared: &Prepared, id: &'a str, created: u64) -> About<'a> {
    About {
        endpoint: prepared.endpoint,
        id,
        created,
        model: &front.model,
        prompt_tokens: prepared.prompt_tokens,
        wants_logprobs: prepared.wants_logprobs,
    }
}

/// Seconds since the Unix epoch.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
