"""The capture's messages in MessagePack, as docs/capture-format.md lays them out."""

from __future__ import annotations

from typing import Any

import msgpack

TOPICS = {
    "header": "Header",
    "request": "RequestRecord",
    "step": "StepRecord",
    "mask": "MaskRecord",
    "logits": "LogitsRecord",
    "sketch": "SketchRecord",
    "event": "EventRecord",
    "loss": "LossRecord",
}
"""Channels, and the type of what is on them."""

PAYLOADS = {"logits", "sketch"}
"""Channels that stand in chunks of their own."""

# In these fields floats have 64 bits; in all others 32.
_DOUBLES = {"verdicts"}


def encode(record: dict[str, Any]) -> bytes:
    """One message. `record` is a map from field names, or from the name of a case to its content."""
    narrow, wide = msgpack.Packer(use_single_float=True), msgpack.Packer()
    parts = [narrow.pack_map_header(len(record))]
    for name, value in record.items():
        parts.append(narrow.pack(name))
        parts.append((wide if name in _DOUBLES else narrow).pack(value))
    return b"".join(parts)


def header(**fields: Any) -> dict[str, Any]:
    """`Header`."""
    return fields


def step(**fields: Any) -> dict[str, Any]:
    """`StepRecord`; what is left out is not known."""
    return {name: value for name, value in fields.items() if value is not None}


def mask(digest: bytes, tokens: int, bits: bytes) -> dict[str, Any]:
    """`MaskRecord`."""
    return {"hash": digest, "tokens": tokens, "bits": bits}


def logits(step: int, request: int, row: int, payload: dict[str, Any]) -> dict[str, Any]:
    """`LogitsRecord`."""
    return {"step": step, "request": request, "choice": 0, "row": row, "payload": payload}


def event(time_ns: int, kind: str, message: str, request: int | None = None, step: int | None = None) -> dict[str, Any]:
    """`EventRecord`."""
    choice = None if request is None else 0
    return {
        "time_ns": time_ns, "kind": kind, "request": request, "choice": choice, "step": step, "message": message,
    }  # fmt: skip


def loss(
    time_ns: int, channel: str, reason: str, messages: int | None = None, steps: tuple[int, int] | None = None
) -> dict[str, Any]:
    """`LossRecord`."""
    return {
        "time_ns": time_ns, "channel": channel, "messages": messages, "bytes": None,
        "steps": list(steps) if steps else None, "reason": reason,
    }  # fmt: skip
