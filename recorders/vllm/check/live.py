"""Records real runs of vLLM and checks the captures.

    python check/live.py MODEL --stepscope BINARY [--captures FOLDER] [--only NAME ...]

Clean runs must verify, replay without a finding, and hold what the run's conditions promise; runs over HTTP must say
where parameters came from; a planted fault must be found in its request and step. Exit status 1 when a check fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import support
import teeth

# The newer model runner is all Triton kernels, which this lets run without a GPU, slowly.
INTERPRETED = {
    "PYTHONPATH": str(support.HERE.parent / "rig" / "interpreted"),
    "TRITON_INTERPRET": "1",
    "TRITON_DEFAULT_BACKEND": "cpu",
}
VARIED = ["--requests", "varied", "--max-tokens", "80", "--max-seqs", "8"]
CLEAN: dict[str, tuple[list[str], str, dict[str, Any]]] = {
    # Name: (arguments of run.py, conditions of the rig, what the steps must show).
    "varied-sync": (VARIED, "repair-expand", {"scheduler": "sync", "trims": True}),
    "varied-async": (
        [*VARIED, "--async", "--drafter", "model", "--drafts", "4"],
        "repair-expand,async",
        {"scheduler": "async", "pads": True},
    ),
    "varied-plain": ([*VARIED, "--drafter", "none"], "", {"scheduler": "sync", "verifies": False}),
    "sync-guidance": (["--backend", "guidance"], "repair-expand", {"scheduler": "sync"}),
    "async-v2": (
        ["--v2", "--async", "--drafter", "model", "--drafts", "3", "--requests", "greedy"],
        "async",
        # A step takes seconds, and the one that runs when vLLM stops has to end before the capture can.
        {"scheduler": "async", "STEPSCOPE_END_SECONDS": "180", **INTERPRETED},
    ),
    "async-plain": (["--async", "--drafter", "none"], "async", {"scheduler": "async", "verifies": False}),
    "in-process": (["--in-process", "--requests", "greedy"], "", {"scheduler": "sync"}),
    "preempted": (
        # Two blocks of 128 tokens for two sequences at a time, each of which needs a second one in the end.
        ["--drafter", "none", "--blocks", "3", "--max-model-len", "256", "--max-tokens", "110", "--requests", "long"],
        "",
        {"scheduler": "sync", "verifies": False},
    ),
    "full-rows": (["--requests", "greedy"], "", {"scheduler": "sync", "STEPSCOPE_LOGITS": "full"}),
    "hidden-rows": (["--requests", "greedy"], "", {"scheduler": "sync", "STEPSCOPE_LOGITS": "hidden"}),
}
LEAST_ROWS = 3000
"""Rows that the varied runs must come to, together."""

# Checks that a capture of vLLM with forty different requests gives something to do; the others are skipped, and say why.
APPLY = ("validity", "logits", "drafts", "applied-mask", "sampler", "accept", "commit", "termination", "signs")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--stepscope", default="stepscope")
    parser.add_argument("--captures", type=Path, default=Path("captures"))
    names = [*CLEAN, "http", *teeth.FAULTS]
    parser.add_argument("--only", nargs="*", choices=names, default=names, metavar="NAME", help=", ".join(names))
    args = parser.parse_args()
    args.captures.mkdir(parents=True, exist_ok=True)
    failures: list[str] = []
    said: dict[str, dict[str, Any]] = {}
    for name in args.only:
        if name in CLEAN:
            failed = clean(args, name, *CLEAN[name], said)
        elif name == "http":
            failed = over_http(args)
        else:
            failed = teeth.planted(args.model, args.stepscope, args.captures, name)
        print("".join(f"  FAILED {what}\n" for what in failed), end="", flush=True)
        failures += [f"{name}: {what}" for what in failed]
    varied = {name: report for name, report in said.items() if name.startswith("varied")}
    if varied:
        failures += table(varied)
    print("\n".join(["", *failures, f"{len(failures)} failures"]))
    return 1 if failures else 0


def clean(
    args: argparse.Namespace, name: str, arguments: list[str], rig: str, promised: dict[str, Any], said: dict[str, Any]
) -> list[str]:
    """Records a run without a fault; what its capture fails to hold."""
    variables = {key: value for key, value in promised.items() if key.isupper()}
    command = [support.HERE / "run.py", args.model, *arguments]
    path, _ = support.record(args.captures, name, command, {"STEPSCOPE_RIG": rig, **variables})
    if path is None:
        return ["vLLM failed, or there is no finished capture"]
    records = support.read(path)
    steps = records["step"]
    counts = Counter(step["path"] for step in steps if step.get("path"))
    rows = sum(len(step["rows"]) for step in steps)
    print(f"{name}: {len(steps)} steps {dict(counts)}, {rows} rows, {path.stat().st_size} bytes", flush=True)
    failed = support.verify(args.stepscope, path) + broken_promises(records, counts, promised)
    if name == "preempted" and not any(event["kind"] == "preempted" for event in records["event"]):
        failed.append("expected a preemption")
    said[name] = report = support.replay(args.stepscope, path)
    for finding in report["findings"][:3]:
        failed.append(f"replay: {finding['client_id']}, step {finding['step']}: {finding['check']} {finding['fact']}")
    return failed


def broken_promises(records: dict[str, Any], counts: Counter[str], promised: dict[str, Any]) -> list[str]:
    """What the steps should show and do not."""
    steps, failed = records["step"], []
    if {step["scheduler"] for step in steps} != {promised["scheduler"]}:
        failed.append(f"expected all steps to be {promised['scheduler']}")
    if (counts["verify"] > 0) != promised.get("verifies", True):
        failed.append(f"expected {'some' if promised.get('verifies', True) else 'no'} steps with drafts")
    if promised.get("trims") and not any(len(step.get("drafts_raw") or []) > len(step["drafts"]) for step in steps):
        failed.append("expected trimmed drafts")
    if promised.get("pads") and not any(-1 in step["drafts"] for step in steps):
        failed.append("expected padded drafts")
    if records["loss"]:
        failed.append(f"losses: {[loss['reason'] for loss in records['loss']][:3]}")
    odd = [event["message"] for event in records["event"] if event["kind"] in ("disagreement", "seed_not_used")]
    if odd:
        failed.append(f"events: {odd[:2]}")
    return failed


def over_http(args: argparse.Namespace) -> list[str]:
    """Records a server that clients talk to, and that Ctrl-C stops."""
    command = [support.HERE / "serve.py", args.model, "--captures", args.captures / "http"]
    # On a machine that others use, the step that runs at Ctrl-C can take longer than the usual five seconds.
    variables = {"STEPSCOPE_RIG": "repair-expand", "STEPSCOPE_END_SECONDS": "60"}
    path, printed = support.record(args.captures, "http", command, variables)
    if path is None:
        return ["the server failed, or there is no finished capture"]
    records = support.read(path)
    failed = support.verify(args.stepscope, path)
    if support.run([args.stepscope, "info", path]).returncode != 0:
        failed.append("info fails")
    report = support.replay(args.stepscope, path)
    failed += [f"replay: {finding['check']} {finding['fact']}, step {finding['step']}" for finding in report["findings"][:3]]
    admitted = [entry["admitted"] for entry in records["request"] if "admitted" in entry]
    ends = {entry["finished"]["request"]: entry["finished"] for entry in records["request"] if "finished" in entry}
    expected = json.loads(printed.strip().splitlines()[-1])
    for key, wanted in expected.items():
        of_it = [record for record in admitted if key in (record["client_id"] or "")]
        if not of_it:
            failed.append(f"{wanted['name']} is not in the capture")
        for record in of_it:
            sources = {field["name"]: field["source"] for field in record["params"] or []}
            wrong = {name: sources.get(name) for name, source in wanted["sources"].items() if sources.get(name) != source}
            if wrong:
                failed.append(f"{wanted['name']}: sources {wrong}, expected {wanted['sources']}")
            if record["endpoint"] != wanted["endpoint"]:
                failed.append(f"{wanted['name']}: endpoint {record['endpoint']}, expected {wanted['endpoint']}")
            kind = (record["constraint"] or {}).get("kind")
            if kind != wanted["constraint"]:
                failed.append(f"{wanted['name']}: constraint {kind}, expected {wanted['constraint']}")
            end = ends.get(record["request"], {}).get("stop")
            if (end == "cancelled") != wanted["cancelled"]:
                failed.append(f"{wanted['name']}: ended by {end}")
    print(f"http: {len(admitted)} requests, {len(records['step'])} steps, {path.stat().st_size} bytes, ended by "
          f"{Counter(str(end['stop']) for end in ends.values()).most_common()}")  # fmt: skip
    return failed


def table(said: dict[str, dict[str, Any]]) -> list[str]:
    """Prints what replay did with the varied runs, and says where that is too little."""
    totals: dict[str, Counter[str]] = {}
    reasons: dict[str, Counter[str]] = {}
    for report in said.values():
        for check, counts in report["checks"].items():
            totals.setdefault(check, Counter()).update({part: counts[part] for part in ("checked", "skipped", "findings")})
            reasons.setdefault(check, Counter()).update({why["reason"]: why["count"] for why in counts["reasons"]})
    rows = sum(report["rows"] for report in said.values())
    print(f"\n{', '.join(said)}: {sum(report['records'] for report in said.values())} records, {rows} logits rows")
    print(f"{'check':14}{'checked':>9}{'skipped':>9}{'findings':>10}  not checked, in whole or in part, because")
    for check, counts in totals.items():
        why = [f"{reason} ({count})" for reason, count in reasons[check].most_common()] or [""]
        print(f"{check:14}{counts['checked']:9}{counts['skipped']:9}{counts['findings']:10}  {why[0]}")
        print("".join(f"{'':44}{more}\n" for more in why[1:]), end="")
    failed = [f"{check} had nothing to check" for check in APPLY if not totals[check]["checked"]]
    if rows < LEAST_ROWS:
        failed.append(f"the varied runs have {rows} rows; expected {LEAST_ROWS}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
