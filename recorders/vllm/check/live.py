"""Records real runs of vLLM and checks the captures.

    python check/live.py MODEL --stepscope BINARY [--captures FOLDER] [--only NAME ...] [--teeth]

Clean runs must verify and hold what the run's conditions promise; with `--teeth`, runs with a planted fault must be
told apart from clean ones by `stepscope replay`. Exit status 1 when a check fails.
"""

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgpack
from mcap.reader import make_reader

HERE = Path(__file__).resolve().parent

# The newer model runner is all Triton kernels, which this lets run without a GPU, slowly.
INTERPRETED = {
    "PYTHONPATH": str(HERE.parent / "rig" / "interpreted"),
    "TRITON_INTERPRET": "1",
    "TRITON_DEFAULT_BACKEND": "cpu",
}
CLEAN = {
    # Name: (arguments of run.py, conditions of the rig, what the steps must show).
    "sync-ngram": (["--rounds", "2"], "repair-expand", {"scheduler": "sync", "trims": True}),
    "sync-guidance": (["--backend", "guidance"], "repair-expand", {"scheduler": "sync"}),
    "sync-plain": (["--drafter", "none"], "", {"scheduler": "sync", "verifies": False}),
    "async-model": (
        ["--async", "--drafter", "model", "--drafts", "4", "--rounds", "2"],
        "repair-expand,async",
        {"scheduler": "async", "pads": True},
    ),
    "async-v2": (
        ["--v2", "--async", "--drafter", "model", "--drafts", "3", "--requests", "greedy"],
        "async",
        {"scheduler": "async", **INTERPRETED},
    ),
    "async-plain": (["--async", "--drafter", "none"], "async", {"scheduler": "async", "verifies": False}),
    "in-process": (["--in-process", "--requests", "greedy"], "", {"scheduler": "sync"}),
    "preempted": (
        ["--drafter", "none", "--blocks", "3", "--max-tokens", "100", "--requests", "free"],
        "",
        {"scheduler": "sync", "verifies": False},
    ),
    "full-rows": (["--requests", "greedy"], "", {"scheduler": "sync", "STEPSCOPE_LOGITS": "full"}),
    "hidden-rows": (["--requests", "greedy"], "", {"scheduler": "sync", "STEPSCOPE_LOGITS": "hidden"}),
}
FAULTS = ["neighbours-mask", "unmasked-bonus", "late-grammar", "wrong-accept", "past-the-end", "nan-row"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--stepscope", default="stepscope")
    parser.add_argument("--captures", type=Path, default=Path("captures"))
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--teeth", action="store_true")
    args = parser.parse_args()
    args.captures.mkdir(parents=True, exist_ok=True)
    failures: list[str] = []
    for name, (arguments, rig, promised) in CLEAN.items():
        if args.only is None or name in args.only:
            failures += [f"{name}: {what}" for what in clean(args, name, arguments, rig, promised)]
    for fault in FAULTS if args.teeth else []:
        if args.only is None or fault in args.only:
            failures += [f"{fault}: {what}" for what in planted(args, fault)]
    print("\n".join(["", *failures, f"{len(failures)} failures"]))
    return 1 if failures else 0


def clean(args, name: str, arguments: list[str], rig: str, promised: dict) -> list[str]:
    variables = {key: value for key, value in promised.items() if key.isupper()}
    path = record(args, name, arguments, {"STEPSCOPE_RIG": rig, **variables})
    if path is None:
        return ["vLLM failed, or there is no finished capture"]
    failed = []
    verified = run([args.stepscope, "verify", path])
    if verified.returncode != 0:
        failed.append(f"verify: {verified.stdout.strip().splitlines()[-3:]}")
    records = read(path)
    steps = records["step"]
    counts = Counter(step["path"] for step in steps if step.get("path"))
    rows = sum(len(step["rows"]) for step in steps)
    print(f"{name}: {len(steps)} steps {dict(counts)}, {rows} rows, {path.stat().st_size} bytes")
    expected = promised["scheduler"]
    if {step["scheduler"] for step in steps} != {expected}:
        failed.append(f"expected all steps to be {expected}")
    if (counts["verify"] > 0) != promised.get("verifies", True):
        failed.append(f"expected {'some' if promised.get('verifies', True) else 'no'} steps with drafts")
    reasons = {entry["reason"] for step in steps for entry in step.get("withheld") or []}
    if promised.get("trims") and not any(len(step.get("drafts_raw") or []) > len(step["drafts"]) for step in steps):
        failed.append("expected trimmed drafts")
    if promised.get("pads") and not any(-1 in step["drafts"] for step in steps):
        failed.append("expected padded drafts")
    if records["loss"]:
        failed.append(f"losses: {[loss['reason'] for loss in records['loss']][:3]}")
    if name == "preempted" and not any(event["kind"] == "preempted" for event in records["event"]):
        failed.append("expected a preemption")
    said = [event["message"] for event in records["event"] if event["kind"] == "disagreement"]
    if said:
        failed.append(f"scheduler and worker disagree: {said[:2]}")
    print(f"  withheld for {sorted(reasons)}; components {[c['name'] for c in records['header'][0]['components']]}")
    for step in steps:
        for row in step["rows"]:
            if row.get("scheduler_mask") != row.get("applied_mask"):
                failed.append(f"step {step['step']}: the applied mask is not the scheduler's")
    replayed = run([args.stepscope, "replay", path])
    said = replayed.stdout.strip().splitlines() or [replayed.stderr[-200:]]
    print(f"  replay: {said[-1]}")
    return failed


def planted(args, fault: str) -> list[str]:
    path = record(args, fault, [], {"STEPSCOPE_FAULTS": fault, "STEPSCOPE_RIG": "repair-expand"})
    if path is None:
        return ["vLLM failed, or there is no finished capture"]
    if run([args.stepscope, "verify", path]).returncode not in (0, 3):
        return ["the capture does not verify"]
    replayed = run([args.stepscope, "replay", path])
    checks = re.findall(r"^([a-z-]+) +\d+ +\d+ +([1-9]\d*) ", replayed.stdout, re.MULTILINE)
    events = Counter(event["kind"] for event in read(path)["event"])
    print(f"{fault}: findings {dict(checks)}, events {dict(events)}")
    return [] if checks or events["invalid_row"] else ["nothing found"]


def record(args, name: str, arguments: list[str], variables: dict[str, str]) -> Path | None:
    folder = args.captures / name
    for old in folder.glob("*"):
        old.unlink()
    environment = {**os.environ, "STEPSCOPE_CAPTURE": str(folder), **variables}
    done = run([sys.executable, HERE / "run.py", args.model, *arguments], env=environment)
    (args.captures / f"{name}.log").write_text(done.stdout + done.stderr)
    found = list(folder.glob("*.mcap"))
    if done.returncode != 0 or len(found) != 1:
        print(f"{name}: status {done.returncode}, captures {[path.name for path in folder.glob('*')]}")
        return None
    return found[0]


def read(path: Path) -> dict[str, list[dict]]:
    found: dict[str, list[dict]] = {"header": [], "step": [], "event": [], "loss": [], "request": []}
    with open(path, "rb") as stream:
        for _, channel, message in make_reader(stream).iter_messages(log_time_order=False):
            if channel.topic in found:
                found[channel.topic].append(msgpack.unpackb(message.data))
    return found


def run(command, **more) -> subprocess.CompletedProcess:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)


if __name__ == "__main__":
    sys.exit(main())
