"""The worker's half of a step: what is copied on vLLM's own thread, and what the recorder's thread makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from . import statistics
from .masks import from_words, only_token


@dataclass
class StepCopies:
    """Copies of what one step computed, still on the device. Making them is all that the worker's thread does."""

    step: int
    requests: list[str]
    """Ids in batch order."""
    row_counts: list[int]
    """Logits rows of each."""
    raw: torch.Tensor | None = None
    """Logits before any mask; `None` when they were dropped or are not to be kept."""
    forbidden: torch.Tensor | None = None
    """Where the sampler's input is -infinity; `None` when no grammar was applied."""
    hidden: torch.Tensor | None = None
    """What the LM head read."""
    read: torch.Tensor | None = None
    """The token that was fed at each row's position."""
    positions: torch.Tensor | None = None
    """Each row's position."""
    sampled: torch.Tensor | None = None
    """Tokens the sampler gave per request, padded with -1."""
    sampled_counts: torch.Tensor | None = None
    """How many of them count, where the runner says so."""
    grammar_requests: list[str] = field(default_factory=list)
    """Requests that a mask came for, in the order of its rows."""
    grammar_words: Any = None
    """The mask's rows as they came."""
    state: dict[str, torch.Tensor] = field(default_factory=dict)
    """State rows and accepted counts as the recurrent kernels got them, by the part of the batch they are for."""
    seeds: dict[str, int | None] | None = None
    """Seeds of the generators that requests draw with, `None` for the one that all share. `None` where that is not known."""
    odds: "DraftOdds | None" = None
    """What chance decided of the drafts."""
    bytes: int = 0
    """What this holds of the recorder's queue."""
    dropped: str | None = None
    """Why the rows are not here."""


@dataclass
class DraftOdds:
    """What the rejection sampler tested drafts with: one entry per draft, all requests in batch order."""

    p: torch.Tensor
    q: torch.Tensor | None
    u: torch.Tensor
    greedy: torch.Tensor | None


def summarize(copies: StepCopies, tier: str, top: int, with_statistics: bool) -> dict[str, Any]:
    """What goes to the capture, in plain values: the message that a worker sends."""
    message: dict[str, Any] = {
        "step": copies.step,
        "dropped": copies.dropped,
        "vocabulary": None,
        "requests": [],
    }
    read = _list(copies.read)
    positions = _list(copies.positions)
    sampled = _sampled(copies)
    states = _states(copies)
    odds = _odds(copies)
    rows = _Rows(copies, tier, top, with_statistics, sampled) if copies.raw is not None else None
    if rows is not None:
        message["vocabulary"] = rows.vocabulary
    start = draft = 0
    for index, (request, count) in enumerate(zip(copies.requests, copies.row_counts)):
        end = start + count
        message["requests"].append(
            {
                "id": request,
                "count": count,
                "read": read[start:end] if read is not None else None,
                "positions": positions[start:end] if positions is not None else None,
                "sampled": sampled[index] if sampled is not None else None,
                "state": states[index] if states is not None else None,
                "draws": {"seed": copies.seeds.get(request)} if copies.seeds is not None else None,
                "odds": odds[draft : draft + count - 1] if odds is not None else None,
                "rows": [rows.row(place) for place in range(start, end)] if rows is not None else None,
            }
        )
        start, draft = end, draft + count - 1
    return message


class _Rows:
    """Rows of a batch, computed together."""

    def __init__(
        self, copies: StepCopies, tier: str, top: int, with_statistics: bool, sampled: list[list[int]] | None
    ) -> None:
        rows = copies.raw.float()
        self.vocabulary = rows.shape[1]
        self._tier = tier
        self._rows = rows
        self._counts = statistics.counts(rows)
        self._checksums = statistics.checksums(rows) if with_statistics else None
        self._sums = statistics.log_sum_exp(rows, self._counts) if with_statistics else None
        self._top = _top(rows, top) if tier == "topk" else None
        self._hidden = copies.hidden.float().cpu() if tier == "hidden" and copies.hidden is not None else None
        self._applied = _applied(copies, rows)
        self._judged = self._tokens(copies, sampled)
        self._forced = self._forced_tokens(copies)

    def row(self, place: int) -> dict[str, Any]:
        counts = self._counts
        facts = None
        if self._checksums is not None:
            facts = {
                "argmax": counts.argmax[place],
                "maximum": counts.maximum[place],
                "log_sum_exp": self._sums[place],
                "nan_count": counts.nan[place],
                "positive_infinity_count": counts.positive_infinity[place],
                "negative_infinity_count": counts.negative_infinity[place],
                "checksum": self._checksums[place],
            }
        return {
            "invalid": not counts.is_valid(place),
            "statistics": facts,
            "payload": self._payload(place),
            "applied": self._applied[place] if self._applied is not None else None,
            "was_masked": self._applied is not None,
            "judged": self._standing(place, self._judged.get(place)),
            "forced": self._standing(place, self._forced.get(place)),
        }

    def _payload(self, place: int) -> dict[str, Any] | None:
        if self._tier == "full" or not self._counts.is_valid(place):
            return {"full": {"length": self.vocabulary, "bytes": full(self._rows[place])}}
        if self._top is not None:
            ids, values = self._top[place]
            return {"topk": {"ids": ids, "values": values}}
        if self._hidden is not None:
            return {"hidden_float": {"values": self._hidden[place].numpy().astype("<f4").tobytes()}}
        return None

    def _standing(self, place: int, token: int | None) -> dict[str, Any] | None:
        """A token's rank in its row and its distance from the best; unknown in a row that cannot be ordered."""
        if token is None:
            return None
        standing = {"token": token, "rank": None, "margin": None}
        if 0 <= token < self.vocabulary and self._counts.is_valid(place):
            row = self._rows[place]
            value = row[token]
            before = (row > value).sum() + (row[:token] == value).sum()
            standing["rank"] = int(before)
            standing["margin"] = float(torch.tensor(self._counts.maximum[place], dtype=torch.float32) - value.cpu())
        return standing

    def _tokens(self, copies: StepCopies, sampled: list[list[int]] | None) -> dict[int, int]:
        found, start = {}, 0
        for index, count in enumerate(copies.row_counts):
            for offset, token in enumerate((sampled[index] if sampled is not None else [])[:count]):
                found[start + offset] = token
            start += count
        return found

    def _forced_tokens(self, copies: StepCopies) -> dict[int, int]:
        if copies.grammar_words is None:
            return {}
        starts, start = {}, 0
        for request, count in zip(copies.requests, copies.row_counts):
            starts[request] = (start, count)
            start += count
        found, mask_row = {}, 0
        for request in copies.grammar_requests:
            start, count = starts.get(request, (0, 0))
            for offset in range(count):
                if mask_row + offset >= len(copies.grammar_words):
                    break
                words = copies.grammar_words[mask_row + offset].tobytes()
                token = only_token(from_words(words, self.vocabulary))
                if token is not None:
                    found[start + offset] = token
            mask_row += count
        return found


def full(row: torch.Tensor) -> bytes:
    """A whole row: bytes shuffled, then compressed."""
    import numpy
    import zstandard

    shuffled = row.cpu().numpy().astype("<f4").view(numpy.uint8).reshape(-1, 4).T
    return zstandard.ZstdCompressor(level=1).compress(numpy.ascontiguousarray(shuffled).tobytes())


def _top(rows: torch.Tensor, count: int) -> list[tuple[bytes, bytes]]:
    """The best `count` of each row by (value descending, id ascending); torch leaves the order of equals open."""
    import numpy

    count = min(count, rows.shape[1])
    least = rows.topk(count, dim=1).values[:, -1:]
    picked = []
    for row, at_least in zip(rows, (rows >= least)):
        ids = at_least.nonzero()[:, 0].cpu().numpy()
        values = row[at_least].cpu().numpy()
        order = numpy.lexsort((ids, -values))[:count]
        picked.append((ids[order].astype("<u4").tobytes(), values[order].astype("<f4").tobytes()))
    return picked


def _applied(copies: StepCopies, rows: torch.Tensor) -> list[bytes | None] | None:
    """What the mask took away: -infinity for the sampler that was none before. `None` for a row it left alone."""
    if copies.forbidden is None:
        return None
    import numpy

    taken = (copies.forbidden & (rows != -torch.inf)).cpu().numpy()
    bits = numpy.packbits(~taken, axis=1, bitorder="little")
    spare = bits.shape[1] * 8 - taken.shape[1]
    if spare:
        bits[:, -1] &= 0xFF >> spare
    return [row.tobytes() if taken[index].any() else None for index, row in enumerate(bits)]


def _sampled(copies: StepCopies) -> list[list[int]] | None:
    if copies.sampled is None:
        return None
    rows = copies.sampled.tolist()
    if copies.sampled_counts is not None:
        return [row[:count] for row, count in zip(rows, copies.sampled_counts.tolist())]
    return [[token for token in row if token != -1] for row in rows]


def _states(copies: StepCopies) -> list[list[int] | None] | None:
    """Slot and column per request. Convolutions have the decoding requests first and the prompts behind them; gated
    delta layers take requests with drafts out of the batch's order. Without an accepted count a request reads at 0."""
    parts = {part: tensor.tolist() for part, tensor in copies.state.items()}
    accepted = iter(parts.get("accepted", []))
    if "decodes" in parts or "prompts" in parts:
        found = [[slot, next(accepted, 1) - 1] for slot in parts.get("decodes", [])]
        found += [[slot, 0] for slot in parts.get("prompts", [])]
    elif "undrafted" in parts or "drafted" in parts:
        drafted, undrafted = iter(parts.get("drafted", [])), iter(parts.get("undrafted", []))
        found = []
        for is_drafted in parts.get("is_drafted", [False] * len(copies.requests)):
            slot = next(drafted if is_drafted else undrafted, None)
            column = next(accepted, 1) - 1 if is_drafted else 0
            found.append([slot, column] if slot is not None else None)
    else:
        return None
    return (found + [None] * len(copies.requests))[: len(copies.requests)]


def _odds(copies: StepCopies) -> list[list[float | None]] | None:
    if copies.odds is None:
        return None
    p, u = copies.odds.p.tolist(), copies.odds.u.tolist()
    q = copies.odds.q.tolist() if copies.odds.q is not None else [1.0] * len(p)
    drafts = [index for index, count in enumerate(copies.row_counts) for _ in range(count - 1)]
    greedy = copies.odds.greedy.tolist() if copies.odds.greedy is not None else None
    found = []
    for place, index in enumerate(drafts[: len(p)]):
        by_chance = greedy is None or not greedy[index]
        found.append([p[place], q[place], u[place]] if by_chance else None)
    return found


def _list(tensor: torch.Tensor | None) -> list[int] | None:
    return tensor.tolist() if tensor is not None else None
