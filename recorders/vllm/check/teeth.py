"""Planted faults, each of which replay has to find, with the request and the step that the rig says it planted it in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import support

Place = tuple[str, int]
"""A request and a step."""


@dataclass(frozen=True)
class Expected:
    """How a fault shows."""

    check: str
    """The check that has to find it."""
    fact: str
    """And in which fact."""
    lasts: bool = False
    """Whether a request is out of joint from there on, so that its first finding is what counts."""
    event: str | None = None
    """An event that the recorder writes where it happened."""


FAULTS = {
    "neighbours-mask": Expected("applied-mask", "applied_mask"),
    "unmasked-bonus": Expected("applied-mask", "applied_mask"),
    "late-grammar": Expected("signs", "grammar_out_of_step", lasts=True),
    "wrong-accept": Expected("signs", "not_the_best_token"),
    "past-the-end": Expected("termination", "stop", lasts=True),
    "nan-row": Expected("validity", "emitted", event="invalid_row"),
    "ignored-seed": Expected("sampler", "random source", event="seed_not_used"),
}


def planted(model: str, stepscope: str, captures: Path, fault: str) -> list[str]:
    """Records a run with a fault; what replay failed to say of it."""
    log = captures / f"{fault}.jsonl"
    log.unlink(missing_ok=True)
    variables = {"STEPSCOPE_FAULTS": fault, "STEPSCOPE_PLANTED": str(log), "STEPSCOPE_RIG": "repair-expand"}
    # Three processes would import vLLM one after another, and where the worker runs makes no difference to a fault.
    path, _ = support.record(captures, fault, [support.HERE / "run.py", model, "--in-process"], variables)
    if path is None:
        return ["vLLM failed, or there is no finished capture"]
    notes = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return judge(fault, notes, support.read(path), support.replay(stepscope, path))


def judge(fault: str, notes: list[dict[str, Any]], records: dict[str, Any], said: dict[str, Any]) -> list[str]:
    """Holds findings against places. Every place that decided a token must be found, and nothing beside."""
    expected = FAULTS[fault]
    places = {(note["request"], note["step"]) for note in notes}
    names = {entry["admitted"]["request"]: entry["admitted"]["client_id"] for entry in records["request"] if "admitted" in entry}
    recorded = {(names[step["request"]], step["step"]) for step in records["step"]}
    # A surplus step of a sequence that had ended has no record.
    places &= recorded
    found = [(finding["check"], finding["fact"], (finding["client_id"], finding["step"])) for finding in said["findings"]]
    right = {place for check, fact, place in found if (check, fact.split(" ")[0]) == (expected.check, expected.fact.split(" ")[0])}
    failed = []
    if not places:
        failed.append("nothing was planted")
    if said["findings_left_out"]:
        failed.append("replay left findings out")
    if expected.lasts:
        right, places = first(right), first(places)
    if expected.event is not None:
        told = {(names[event["request"]], event["step"]) for event in records["event"] if event["kind"] == expected.event}
        if told != places:
            failed.append(f"events at {sorted(told)[:4]}, planted at {sorted(places)[:4]}")
    # An invalid row behind a rejected draft decides nothing.
    deciding = {place for place in places if emits_all(records, names, place)} if fault == "nan-row" else places
    if right != deciding:
        failed.append(f"{expected.check} found it at {sorted(right - deciding)[:4]}, and not at {sorted(deciding - right)[:4]}")
    bystanders = {place[0] for _, _, place in found} - {name for name, _ in places}
    if bystanders:
        failed.append(f"findings on requests that nothing was planted in: {sorted(bystanders)}")
    checks = sorted({check for check, _, _ in found})
    print(f"{fault}: planted at {len(places)} places, {expected.check} ({expected.fact}) found {len(right & deciding)} of the "
          f"{len(deciding)} that decided a token; all findings by {', '.join(checks)}")  # fmt: skip
    return failed


def first(places: set[Place]) -> set[Place]:
    """The first step of each request."""
    earliest: dict[str, int] = {}
    for name, step in sorted(places, key=lambda place: place[1]):
        earliest.setdefault(name, step)
    return set(earliest.items())


def emits_all(records: dict[str, Any], names: dict[int, str], place: Place) -> bool:
    """Whether the last row of the step gave a token."""
    step = next(step for step in records["step"] if (names[step["request"]], step["step"]) == place)
    return len(step["emitted"]) == len(step["rows"])
