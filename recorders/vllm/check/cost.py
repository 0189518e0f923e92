"""What recording costs a real vLLM: the same requests with the recorder off, on, and on with whole rows, in turns.

    python check/cost.py MODEL [--rounds 3] [--turns 3] [-- arguments of run.py]

Prints tokens per second of every run and the ratio of each turn to its own run without the recorder. Machines drift; a
turn's runs stand next to each other, so trust the ratios and their spread, not the rates.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
KINDS = {"off": None, "topk": {"STEPSCOPE_LOGITS": "topk"}, "full": {"STEPSCOPE_LOGITS": "full"}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    # What stands behind `--` is for run.py.
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args = parser.parse_args(sys.argv[1:split])
    args.more = sys.argv[split + 1 :]
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for turn in range(args.turns):
        for kind in KINDS if turn % 2 == 0 else reversed(KINDS):
            rates[kind].append(rate(args, KINDS[kind]))
            print(f"turn {turn} {kind}: {rates[kind][-1]:.2f} tokens/s", flush=True)
    for kind in KINDS:
        ratios = [one / other for one, other in zip(rates[kind], rates["off"])]
        print(f"{kind}: median {statistics.median(ratios):.3f} of off, {min(ratios):.3f} to {max(ratios):.3f}")
    return 0


def rate(args, variables) -> float:
    with tempfile.TemporaryDirectory() as folder:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("STEPSCOPE_CAPTURE")}
        if variables is not None:
            environment |= {"STEPSCOPE_CAPTURE": folder, **variables}
        command = [sys.executable, HERE / "run.py", args.model, "--rounds", args.rounds, *args.more]
        done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr[-2000:])
    # vLLM's processes write to the same stream when they end.
    last = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"tokens"')))
    return last["tokens"] / last["seconds"]


if __name__ == "__main__":
    sys.exit(main())
