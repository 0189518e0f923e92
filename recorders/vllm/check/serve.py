"""Serves a model over HTTP with vLLM, asks it a dozen things as clients do, and says what the capture must hold.

    python check/serve.py MODEL --captures FOLDER [--port 8031]

Streams and does not, leaves parameters out, asks for JSON and for tools, hangs up in the middle, and stops the server
as a person does, with Ctrl-C. Prints one JSON object: per client id what was asked, and how it has to be recorded.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import Any

import schemas

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
# Machines that are shared are slow to start; a server that has ended is not waited for.
START_SECONDS, STOP_SECONDS = 3600, 300


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--captures", required=True)
    parser.add_argument("--port", type=int, default=8031)
    args = parser.parse_args()
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1", **os.environ, "STEPSCOPE_CAPTURE": args.captures,
    }  # fmt: skip
    speculative = {"method": "ngram", "prompt_lookup_max": 3, "prompt_lookup_min": 1, "num_speculative_tokens": 5}
    # What `vllm serve` runs; that command itself does not start in the CPU build, whose package has another name.
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", args.model, "--served-model-name", "small",
        "--host", "127.0.0.1", "--port", str(args.port), "--dtype", "float32", "--max-model-len", "1024",
        "--max-num-seqs", "8", "--enforce-eager", "--speculative-config", json.dumps(speculative),
        "--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--override-generation-config", json.dumps({"top_p": 0.9, "temperature": 0.4}),
    ]  # fmt: skip
    # A session of its own, so that Ctrl-C reaches the server and its children as it would from a terminal.
    server = subprocess.Popen(command, env=environment, stdout=sys.stderr, start_new_session=True)
    try:
        wait(args.port, server)
        expected = ask(args.port)
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGINT)
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            raise
    print(json.dumps(expected))
    return 0


def wait(port: int, server: subprocess.Popen) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if request(port, "GET", "/health").status == 200:
                return
        except OSError:
            time.sleep(0.5)
    raise SystemExit(f"vllm serve did not come up (status {server.poll()})")


def ask(port: int) -> dict[str, Any]:
    """Asks, and gives per client id what must be recorded of it."""
    said = [{"role": "user", "content": "Name a city and count to nine."}]
    city = {"type": "json_schema", "json_schema": {"name": "city", "schema": schemas.CITY}}
    weather = {
        "type": "function",
        "function": {"name": "get_weather", "parameters": schemas.WEATHER},
    }
    forced = {"type": "function", "function": {"name": "get_weather"}}
    # Name: (endpoint, body, sources, kind of constraint).
    asked: dict[str, tuple[str, dict[str, Any], dict[str, str], str | None]] = {
        "omitted": (CHAT, {}, {"temperature": "server_override", "top_p": "server_override", "top_k": "protocol_default"}, None),
        "greedy": (CHAT, {"temperature": 0, "seed": 3}, {"temperature": "client", "seed": "client"}, None),
        "streamed": (CHAT, {"temperature": 0.7, "top_p": 0.9, "stream": True}, {"top_p": "client", "seed": "protocol_default"}, None),
        "schema": (CHAT, {"temperature": 0, "response_format": city}, {"temperature": "client"}, "json_schema"),
        "json-stream": (CHAT, {"seed": 5, "stream": True, "response_format": city}, {"seed": "client", "temperature": "server_override"}, "json_schema"),
        "object": (CHAT, {"temperature": 0.5, "response_format": {"type": "json_object"}}, {"temperature": "client"}, "json_object"),
        "tool": (CHAT, {"temperature": 0, "tools": [weather], "tool_choice": forced}, {"temperature": "client"}, "structural_tag"),
        "regex": (CHAT, {"temperature": 0, "structured_outputs": {"regex": "[0-9]{3}"}}, {"temperature": "client"}, "regex"),
        "told": (CHAT, {"logprobs": True, "top_logprobs": 3, "max_completion_tokens": 9}, {"logprobs": "client", "max_tokens": "client"}, None),
        "completion": (COMPLETIONS, {"prompt": "One, two, three, one, two,", "stop": ["."]}, {"stop": "client", "max_tokens": "client"}, None),
        "several": (CHAT, {"n": 2, "temperature": 0.9, "seed": 8}, {"seed": "client"}, None),
        "response": (RESPONSES, {"input": "Say hello.", "temperature": 0, "max_output_tokens": 12}, {"temperature": "client", "max_tokens": "client"}, None),
    }  # fmt: skip
    expected: dict[str, Any] = {}
    for name, (endpoint, body, sources, constraint) in asked.items():
        full: dict[str, Any] = {"model": "small", "request_id": name, **body}
        if endpoint != RESPONSES and "max_completion_tokens" not in full:
            full["max_tokens"] = 24
        if endpoint == CHAT:
            full["messages"] = said
        answer = request(port, "POST", endpoint, full)
        text = answer.read().decode()
        if answer.status != 200:
            raise SystemExit(f"{name}: {answer.status}: {text[:500]}")
        identity = client_id(text) if endpoint == RESPONSES else name
        expected[identity] = {
            "name": name, "endpoint": endpoint, "sources": sources, "constraint": constraint, "cancelled": False,
        }  # fmt: skip
    # A client that hangs up before any token came, and one that hangs up while they come. What runs is told with tokens
    # alone: after a hang-up it would be an old number.
    for name, stream in (("left-early", False), ("hung-up", True)):
        body = {"model": "small", "request_id": name, "messages": said, "max_tokens": 600, "ignore_eos": True, "stream": stream}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("POST", CHAT, json.dumps(body), {"Content-Type": "application/json"})
        if stream:
            connection.getresponse().read(256)
        else:
            until_running(port)
        connection.sock.close() if connection.sock else None
        connection.close()
        expected[name] = {
            "name": name, "endpoint": CHAT, "sources": {"ignore_eos": "client"}, "constraint": None, "cancelled": True,
        }  # fmt: skip
    # What was hung up takes a moment to end; what still runs at Ctrl-C is the server's to end.
    time.sleep(3)
    return expected


def until_running(port: int) -> None:
    """Waits until the engine has begun with a request."""
    running = re.compile(r"^vllm:num_requests_running\{.*\} [1-9]", re.MULTILINE)
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline:
        if running.search(request(port, "GET", "/metrics").read().decode()):
            return
        time.sleep(0.2)
    raise SystemExit("no request runs")


def client_id(text: str) -> str:
    return json.loads(text)["id"]


def request(port: int, method: str, path: str, body: Any = None) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
    return connection.getresponse()


if __name__ == "__main__":
    sys.exit(main())
