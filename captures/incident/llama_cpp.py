"""The incident's models in llama.cpp: the same greedy text as in Stepscope, free of any grammar and without drafts.

    python -m venv venv && venv/bin/pip install xllamacpp==2026.10.11549
    venv/bin/python captures/incident/llama_cpp.py --stepscope path/to/stepscope

For each model and request both sides go on from the same tokens of the prompt. Sums are ordered differently on the two sides, so that
an answer may part where two tokens are nearly as good as each other: such answers are printed, and the exit status is 1.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import xllamacpp

HERE = Path(__file__).resolve().parent
LONGEST = 96
"""Most tokens of an answer."""


def post(url, payload):
    request = urllib.request.Request(url, json.dumps(payload).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


def recorded(stepscope, model, folder):
    """Prompt and answer of each request, in tokens, as Stepscope decodes them plainly and without a grammar."""
    requests, capture = folder / "requests.jsonl", folder / "capture.mcap"
    with open(HERE / "requests.jsonl", encoding="utf-8") as lines, open(requests, "w", encoding="utf-8") as out:
        for line in map(json.loads, lines):
            line["body"] |= {"tool_choice": "auto", "max_tokens": LONGEST}
            out.write(json.dumps(line) + "\n")
    record = [stepscope, "record", "--model", model, "--requests", requests, "--out", capture, "--tool-format", "tagged"]
    subprocess.run([*record, "--tier", "off"], check=True, stdout=subprocess.DEVNULL)
    dumped = subprocess.run([stepscope, "dump", capture, "--json"], check=True, capture_output=True, text=True).stdout
    prompts, answers = {}, {}
    for record in map(json.loads, dumped.splitlines()):
        record = record.get("record", record)
        if "admitted" in record:
            prompts[record["admitted"]["request"]] = record["admitted"]["prompt_tokens"]
        if "emitted" in record:
            answers.setdefault(record["request"], []).extend(record["emitted"])
    return [(prompts[request], answers[request]) for request in prompts]


def theirs(model, prompts):
    """What llama.cpp answers to each prompt, in tokens."""
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx, params.n_parallel = 512, 1
    server = xllamacpp.Server(params)
    asked = {"temperature": 0, "n_predict": LONGEST, "return_tokens": True, "cache_prompt": False}
    return [post(f"{server.listening_address}/completion", {"prompt": prompt, **asked})["tokens"] for prompt in prompts]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stepscope", required=True)
    args = parser.parse_args()
    differing = 0
    for name in ["target", "draft"]:
        model = HERE / f"{name}.gguf"
        with tempfile.TemporaryDirectory() as folder:
            ours = recorded(args.stepscope, model, Path(folder))
        answers = theirs(model, [prompt for prompt, _ in ours])
        same = 0
        for index, ((_, mine), other) in enumerate(zip(ours, answers, strict=True)):
            # Whether the ending token is told of is each side's own way.
            length = min(len(mine), len(other))
            if length and mine[:length] == other[:length] and abs(len(mine) - len(other)) <= 1:
                same += 1
            else:
                print(f"{name}: request {index}: ours {mine}, theirs {other}")
        print(f"{name}: {same} of {len(ours)} answers are the same")
        differing += len(ours) - same
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
