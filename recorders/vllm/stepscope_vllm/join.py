"""Joins what the scheduler and the worker know of each step into the capture's records.

Nothing here knows vLLM: the two halves are plain values. A half that does not come is a loss, and the other half is
written without it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Callable

from . import masks, records

Emit = Callable[[str, dict[str, Any], int], None]

PATIENCE_NS = 5_000_000_000
"""How long a step waits for its rows."""


class Joiner:
    """Takes halves in any order and writes steps in theirs."""

    def __init__(self, emit: Emit, now: Callable[[], int], tier: str) -> None:
        self._emit = emit
        self._now = now
        self._tier = tier
        self._masks = masks.MaskStore()
        # Steps and ends of requests, in the order the scheduler processed them.
        self._waiting: OrderedDict[Any, dict[str, Any]] = OrderedDict()
        self._rows: dict[int, dict[str, Any]] = {}
        self._ends = 0

    def admit(self, record: dict[str, Any]) -> None:
        """A request begins."""
        self._emit("request", {"admitted": record}, record["time_ns"])

    def scheduler_half(self, half: dict[str, Any]) -> None:
        """What the scheduler knows of a step that was committed."""
        self._waiting[half["step"]] = half
        self._write_ready()

    def worker_half(self, half: dict[str, Any]) -> None:
        """What the worker knows of a step."""
        self._rows[half["step"]] = half
        self._write_ready()

    def end(self, record: dict[str, Any]) -> None:
        """A request ends, after the steps that came before."""
        self._ends += 1
        self._waiting["end", self._ends] = record
        self._write_ready()

    def expire(self, everything: bool = False) -> None:
        """Gives up on rows that took too long, or on all that are missing."""
        while self._waiting:
            half = next(iter(self._waiting.values()))
            if "requests" in half and not everything and self._now() - half["time_ns"] < PATIENCE_NS:
                return
            self._write_first({"requests": [], "dropped": "no rows came from the worker", "vocabulary": None})
            self._write_ready()

    def is_idle(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def _write_ready(self) -> None:
        while self._waiting:
            key = next(iter(self._waiting))
            if isinstance(key, int) and key not in self._rows:
                return
            self._write_first(self._rows.pop(key, {}))

    def _write_first(self, rows: dict[str, Any]) -> None:
        key, half = self._waiting.popitem(last=False)
        if not isinstance(key, int):
            self._emit("request", {"finished": half}, half["time_ns"])
            return
        # Rows of a step that the scheduler never committed are of no use any more.
        for step in [step for step in self._rows if step < key]:
            del self._rows[step]
        self._write_step(half, rows)

    def _write_step(self, half: dict[str, Any], rows: dict[str, Any]) -> None:
        found = {request["id"]: request for request in rows["requests"]}
        order = [request["id"] for request in rows["requests"]]
        kept = [request for request in half["requests"] if not request["discarded"]]
        # A step of a sequence that had ended has no record, and a place among neighbours without one says nothing.
        numbers = {request["id"]: request["number"] for request in kept}
        is_whole = bool(order) and numbers.keys() == set(order)
        batch = [(numbers[name], 0) for name in order] if is_whole else []
        for request in kept:
            place = None
            if is_whole:
                slot = order.index(request["id"])
                place = {"slot": slot, "neighbours": [list(other) for other in batch[:slot] + batch[slot + 1 :]]}
            _Step(self, half, request, found.get(request["id"]), rows).write(place)

    def add_mask(self, bits: bytes, vocabulary: int, time_ns: int) -> bytes:
        """The hash of a mask row, which is written where it is new."""
        digest, is_new = self._masks.add(bits)
        if is_new:
            self._emit("mask", records.mask(digest, vocabulary, bits), time_ns)
        return digest

    def only_token(self, bits: bytes) -> int | None:
        """The one token that a row that was added allows."""
        return self._masks.only_token(bits)

    def population(self, bits: bytes) -> int:
        """How many tokens a row that was added allows."""
        return self._masks.population(bits)

    @property
    def emit(self) -> Emit:
        """Where records go."""
        return self._emit

    @property
    def tier(self) -> str:
        """What is kept of each row."""
        return self._tier


class _Step:
    """One sequence in one step."""

    def __init__(
        self, joiner: Joiner, half: dict[str, Any], request: dict[str, Any], found: dict[str, Any] | None,
        rows: dict[str, Any],
    ) -> None:  # fmt: skip
        self._joiner = joiner
        self._half = half
        self._request = request
        self._found = found
        self._vocabulary = rows.get("vocabulary")
        self._dropped = rows.get("dropped")
        self._time = half["time_ns"]
        self._drafts, self._raw, self._withheld = _drafts(request, found)

    def write(self, place: dict[str, Any] | None) -> None:
        request, half = self._request, self._half
        emitted = request["emitted"]
        verifies = bool(self._drafts)
        # A step that computed a prompt again is told as the one row it decided with.
        again = request["recomputes"]
        record = records.step(
            step=half["step"],
            request=request["number"],
            choice=0,
            first_position=request["first_position"],
            drafts=self._drafts,
            emitted=emitted,
            time_ns=self._time,
            q_len=None if again else request["q_len"],
            prev_accepted=request["prev_accepted"],
            path=None if again else "prefill" if request["is_prompt"] else "verify" if verifies else "decode",
            scheduler=half["scheduler"],
            batch=place,
            input_tokens=self._input_tokens(),
            cached_prefix=request["cached_prefix"],
            drafts_raw=self._raw,
            withheld=self._withheld,
            state=self._state(),
            grammar=request["grammar"],
            verdicts=self._verdicts() if verifies else None,
            bonus=self._is_bonus() if verifies else None,
            stop=request["stop"],
            rows=self._rows(),
        )
        self._joiner.emit("step", record, self._time)
        self._write_payloads(len(record["rows"]))
        self._tell_of_disagreement()
        self._tell_of_other_seeds()

    def _input_tokens(self) -> list[int] | None:
        """What the model read, where that is not the last token and the drafts."""
        read = self._found["read"] if self._found else None
        if self._request["is_prompt"] or read is None or len(read) != len(self._drafts) + 1:
            return None
        return read if read[1:] != self._drafts else None

    def _state(self) -> dict[str, int] | None:
        state = self._found["state"] if self._found else None
        return {"slot": state[0], "column": state[1]} if state and min(state) >= 0 else None

    def _accepted(self) -> int:
        """Drafts that the sampler accepted, of which the end of the sequence may have cut some off."""
        sampled = self._request["sampled"]
        return max(len(sampled) - 1, 0)

    def _is_bonus(self) -> bool:
        return len(self._request["emitted"]) == len(self._drafts) + 1

    def _verdicts(self) -> list[dict[str, Any]] | None:
        request = self._request
        if request["sampled"] is None:
            return None
        accepted, committed = self._accepted(), len(request["emitted"])
        odds = self._found["odds"] if self._found else None
        reasons = {entry["index"]: entry["reason"] for entry in self._withheld or []}
        verdicts = []
        for index, draft in enumerate(self._drafts):
            chance = odds[index] if odds is not None and index < len(odds) else None
            verdict = {"p": None, "q": None, "u": None, "accepted": False, "reason": "after_rejection"}
            tested = index <= accepted and index < committed and draft != -1
            if chance is not None and tested:
                verdict["p"], verdict["q"], verdict["u"] = chance
            if index >= committed and index < len(request["sampled"]):
                verdict["reason"] = "after_end"
            elif draft == -1 and index == accepted:
                verdict["reason"] = "missing" if reasons.get(index) == "missing" else "grammar"
            elif index <= accepted:
                token = request["sampled"][index]
                verdict["accepted"] = token == draft
                by_chance = "ratio" if request["by_chance"] else None
                verdict["reason"] = by_chance or ("match" if token == draft else "mismatch")
            verdicts.append(verdict)
        return verdicts

    def _rows(self) -> list[dict[str, Any]]:
        """The records of the rows. A chunk that does not end the prompt decides nothing and has none."""
        request, found = self._request, self._found
        if not request["has_rows"]:
            return []
        count = len(self._drafts) + 1
        if found is None or (found["rows"] is not None and len(found["rows"]) != count):
            return []
        first = request["row_position"]
        rows = []
        for index in range(count):
            token = request["emitted"][index] if index < len(request["emitted"]) else None
            row: dict[str, Any] = {"position": first + index, "token": token}
            facts = found["rows"][index] if found["rows"] is not None else None
            if facts is not None:
                row["statistics"] = facts["statistics"]
                judged = facts["judged"]
                if judged is not None and judged["token"] == token:
                    row["rank"], row["margin"] = judged["rank"], judged["margin"]
            self._add_masks(row, index, facts)
            rows.append({name: value for name, value in row.items() if value is not None})
        return rows

    def _add_masks(self, row: dict[str, Any], index: int, facts: dict[str, Any] | None) -> None:
        filled, vocabulary = self._request["masks"], self._vocabulary or self._half["vocabulary"]
        if filled is not None and index < len(filled) and vocabulary:
            bits = masks.from_words(filled[index], vocabulary)
            row["scheduler_mask"] = self._joiner.add_mask(bits, vocabulary, self._time)
            only = self._joiner.only_token(bits)
            if only is not None:
                forced = facts["forced"] if facts is not None else None
                known = forced is not None and forced["token"] == only
                row["forced"] = {
                    "token": only,
                    "rank": forced["rank"] if known else None,
                    "margin": forced["margin"] if known else None,
                }
        if facts is None:
            return
        applied = facts["applied"]
        if applied is None and filled is not None and facts["was_masked"]:
            applied = masks.everything(vocabulary)
        if applied is not None:
            row["applied_mask"] = self._joiner.add_mask(applied, vocabulary, self._time)
            row["mask_population"] = self._joiner.population(applied)

    def _write_payloads(self, count: int) -> None:
        step, number = self._half["step"], self._request["number"]
        rows = self._found["rows"] if self._found else None
        missing = 0
        for index in range(count):
            payload = rows[index]["payload"] if rows is not None else None
            if payload is not None:
                self._joiner.emit("logits", records.logits(step, number, index, payload), self._time)
            else:
                missing += 1
            if rows is not None and rows[index]["invalid"]:
                message = f"row {index} is invalid: it has a NaN, +infinity, or nothing above -infinity"
                self._joiner.emit("event", records.event(self._time, "invalid_row", message, number, step), self._time)
        expected = self._request["has_rows"] and not count
        if self._joiner.tier != "off" and (missing or expected):
            reason = self._dropped or "the worker's rows do not fit the scheduler's step"
            # Readers hold a number against the rows of step records, and a step whose rows did not come has none.
            lost = records.loss(self._time, "logits", reason, missing or None, (step, step))
            self._joiner.emit("loss", lost, self._time)

    def _tell_of_disagreement(self) -> None:
        """Scheduler and worker should have seen the same step."""
        found, request = self._found, self._request
        if found is None or not request["has_rows"]:
            return
        sampled, positions = found["sampled"], found["positions"]
        said = []
        if sampled is not None and request["sampled"] is not None and sampled != request["sampled"]:
            said.append(f"the sampler gave {sampled}, the scheduler received {request['sampled']}")
        if positions is not None and positions[0] != request["row_position"]:
            said.append(f"the worker's first row is at {positions[0]}, the scheduler's at {request['row_position']}")
        if found["count"] != len(self._drafts) + 1:
            said.append(f"the worker has {found['count']} rows, the scheduler {len(self._drafts) + 1}")
        for message in said:
            event = records.event(self._time, "disagreement", message, request["number"], self._half["step"])
            self._joiner.emit("event", event, self._time)

    def _tell_of_other_seeds(self) -> None:
        """A request with a seed should be drawn with a generator of that seed."""
        request, draws = self._request, self._found["draws"] if self._found else None
        seed = request["seed"]
        if draws is None or seed is None or not request["by_chance"] or not request["emitted"]:
            return
        found = draws["seed"]
        # A generator tells its seed without a sign.
        if found is not None and (found - seed) % (1 << 64) == 0:
            return
        source = "the generator that requests without a seed share" if found is None else f"a generator of seed {found}"
        message = f"drawn with {source}, not with seed {seed}"
        event = records.event(self._time, "seed_not_used", message, request["number"], self._half["step"])
        self._joiner.emit("event", event, self._time)


def _drafts(
    request: dict[str, Any], found: dict[str, Any] | None
) -> tuple[list[int], list[int] | None, list[dict[str, Any]] | None]:
    """Drafts as they were verified, as they were proposed, and why some were not verified.

    Under asynchronous scheduling the scheduler's own list is nothing but placeholders where it had no need to see the
    drafts; what the model read stands for them then.
    """
    drafts, raw = list(request["drafts"]), request["drafts_raw"]
    if raw and all(token < 0 for token in raw):
        # The newer runner tells of placeholders where nobody has to see the drafts.
        raw = None
    read = found["read"] if found else None
    placeholders = request["placeholders"]
    if placeholders and read is not None and len(read) == len(drafts) + 1:
        drafts = read[1:]
        raw = drafts if raw is None else raw
    if request["is_prompt"]:
        return drafts, None, None
    if raw is not None:
        raw = [token for token in raw if token >= 0]
    withheld = None
    if raw is not None or -1 in drafts:
        legal = request["legal_drafts"]
        proposed = len(raw) if raw is not None else 0
        withheld = []
        for index in range(max(len(drafts), proposed)):
            if index < len(drafts) and drafts[index] != -1:
                continue
            if index >= proposed:
                reason = "missing"
            elif legal is not None and index >= legal:
                reason = "grammar"
            else:
                reason = "limit"
            withheld.append({"index": index, "reason": reason})
    return drafts, raw, withheld
