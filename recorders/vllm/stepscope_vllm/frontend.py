"""Taps where requests are taken: they note which parameters the client wrote."""

from __future__ import annotations

import sys
import time
from typing import Any

from .params import SOURCES, note_object, note_request
from .taps import Taps

_REQUESTS = {
    "vllm.entrypoints.openai.chat_completion.protocol": "ChatCompletionRequest",
    "vllm.entrypoints.openai.completion.protocol": "CompletionRequest",
    "vllm.entrypoints.openai.responses.protocol": "ResponsesRequest",
    "vllm.entrypoints.openai.protocol": "ChatCompletionRequest",
}

# How long engines are left alone before they are told to end.
ALONE_SECONDS = 0.25


def tap(taps: Taps, end_seconds: float) -> None:
    """Taps what of the front end is loaded; it may be called again when more is. `end_seconds` is how long engines may take
    to end their captures when a server stops."""
    for module, name in _REQUESTS.items():
        request = getattr(sys.modules.get(module), name, None)
        if request is not None and hasattr(request, "to_sampling_params"):
            taps.around(request, "to_sampling_params", after=_after_parsing)
    processor = getattr(sys.modules.get("vllm.v1.engine.input_processor"), "InputProcessor", None)
    if processor is not None:
        taps.around(processor, "__init__", after=lambda *_, **__: tap(taps, end_seconds))
        taps.around(processor, "process_inputs", before=_before_processing, after=_after_processing)

    engines = sys.modules.get("vllm.v1.engine.utils")
    if engines is not None and hasattr(engines, "shutdown"):
        taps.around(engines, "shutdown", before=lambda processes, *_, **__: _let_end(processes, end_seconds))


def _let_end(processes: list[Any], seconds: float) -> None:
    """A server that is stopped kills its engines at once, unless it was told otherwise; a capture needs a moment to end, and
    the step that runs comes first."""
    deadline = time.monotonic() + seconds
    # Ctrl-C reaches engines, too: those that it does end by themselves.
    for process in processes:
        process.join(max(min(deadline - time.monotonic(), ALONE_SECONDS), 0))
    running = [process for process in processes if process.is_alive()]
    for process in running:
        process.terminate()
    for process in running:
        process.join(max(deadline - time.monotonic(), 0))


def _after_parsing(_: Any, params: Any, body: Any, *args: Any, **kwargs: Any) -> None:
    defaults = kwargs.get("default_sampling_params")
    if defaults is None:
        defaults = next((argument for argument in args if isinstance(argument, dict)), {})
    _attach(params, note_request(body, params, defaults, {}))


def _before_processing(processor: Any, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
    params = kwargs.get("params", args[2] if len(args) > 2 else None)
    if not hasattr(params, "temperature"):
        return None
    noted = (params.extra_args or {}).get(SOURCES)
    overrides = dict(processor.model_config.override_generation_config or {})
    if noted is None:
        noted = note_object(params, None)
    else:
        sources = {
            name: "server_override" if source == "generation_config" and name in overrides else source
            for name, source in noted["sources"].items()
        }
        noted = {**noted, "sources": sources}
    return noted


def _after_processing(noted: dict[str, Any] | None, request: Any, *_: Any, **__: Any) -> None:
    if noted is not None and request.sampling_params is not None:
        _attach(request.sampling_params, noted)


def _attach(params: Any, note: dict[str, Any]) -> None:
    params.extra_args = {**(params.extra_args or {}), SOURCES: note}
