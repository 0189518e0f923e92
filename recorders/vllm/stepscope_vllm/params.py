"""Where the parameters of a request came from.

Only the front end knows what a client wrote; only the engine knows what it ran with. What the front end noted travels
with the request, under one key of `extra_args`, and is taken out before the scheduler sees it.
"""

from __future__ import annotations

import json
from typing import Any

SOURCES = "stepscope"
"""The key of the note in `SamplingParams.extra_args`."""

# How a parameter is turned off in vLLM, where the capture says `null`.
_NO_LIMIT = {"top_k": (0, -1)}
_EMPTY = {"logit_bias": {}, "stop": [], "stop_token_ids": [], "bad_words": []}
_NOT_PARAMETERS = {"output_kind", "skip_clone", "output_text_buffer_length", "structured_outputs", "extra_args"}


def note_request(body: Any, params: Any, defaults: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """The note of an OpenAI request: `body` is the parsed request, `defaults` what the server fills in."""
    written = {name for name in body.model_fields_set if getattr(body, name, None) is not None}
    if {"max_completion_tokens", "max_output_tokens"} & written:
        written.add("max_tokens")
    if "top_logprobs" in written or "logprobs" in written:
        written.add("logprobs")
    sources = {}
    for name in names(params):
        if name in written:
            sources[name] = "client"
        elif name in overrides:
            sources[name] = "server_override"
        elif name in defaults:
            sources[name] = "generation_config"
        else:
            sources[name] = "protocol_default"
    stops = list(body.stop_token_ids or []) if hasattr(body, "stop_token_ids") else None
    return {"sources": sources, "stop_token_ids": stops, "endpoint": _endpoint(body)}


def note_object(params: Any, from_server: dict[str, Any] | None) -> dict[str, Any]:
    """The note of a request that came as a `SamplingParams`. Whether its author wrote a value that equals the default
    cannot be told, and makes no difference. `from_server` are the defaults of a server that made the object itself."""
    default = type(params)()
    sources = {}
    for name in names(params):
        if from_server is not None and name in from_server:
            sources[name] = "generation_config"
        elif getattr(params, name) != getattr(default, name):
            sources[name] = "client"
        else:
            sources[name] = "protocol_default"
    return {"sources": sources, "stop_token_ids": list(params.stop_token_ids or []), "endpoint": None}


def names(params: Any) -> list[str]:
    """The parameters by their names in the protocol."""
    fields = getattr(params, "__struct_fields__", None) or tuple(vars(params))
    return [name for name in fields if not name.startswith("_") and name not in _NOT_PARAMETERS]


def resolved(params: Any, note: dict[str, Any]) -> list[dict[str, str]]:
    """Every parameter with its value and where it came from; one whose source was not noted is left out."""
    found = []
    for name in names(params):
        source = note["sources"].get(name)
        if source is None:
            continue
        value = getattr(params, name)
        if name == "stop_token_ids" and note.get("stop_token_ids") is not None:
            # vLLM adds the model's further end tokens to what the client wrote.
            value = note["stop_token_ids"]
        if value in _NO_LIMIT.get(name, ()):
            value = None
        if value is None and name in _EMPTY:
            value = _EMPTY[name]
        found.append({"name": name, "value": json.dumps(value, default=str), "source": source})
    return found


def _endpoint(body: Any) -> str | None:
    return {
        "ChatCompletionRequest": "/v1/chat/completions",
        "CompletionRequest": "/v1/completions",
        "ResponsesRequest": "/v1/responses",
    }.get(type(body).__name__)
