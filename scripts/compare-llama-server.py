#!/usr/bin/env python3
"""Constrained outputs beside those of llama.cpp's server, greedy, on the same model.

    python3 scripts/compare-llama-server.py --server path/to/llama-server --stepscope path/to/stepscope --model MODEL.gguf

Sends the same chat to both sides under a handful of JSON schemas and regular expressions (as a GBNF grammar over there), and
prints for each whether both accept it, and what they answer. Answers may differ where two tokens are nearly as good as each
other (the two compute products differently), and in white space, which each side leaves free in its own way.
"""

import argparse
import json
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

PORT = 18080


def schema(value):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": value}}


def obj(properties, **more):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False, **more}


SCHEMAS = {
    "person": obj({"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}}),
    "enum": obj({"colour": {"enum": ["red", "green", "blue"]}, "sure": {"type": "boolean"}}),
    "nested": obj({"city": {"type": "string", "maxLength": 20}, "at": obj({"lat": {"type": "number"}, "lon": {"type": "number"}})}),
    "array": obj({"items": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 2, "maxItems": 3}}),
    "bounds": obj({"score": {"type": "integer", "minimum": 1, "maximum": 10}}),
    "pattern": obj({"date": {"type": "string", "pattern": "^20[0-9]{2}-[01][0-9]-[0-3][0-9]$"}}),
    "union": obj({"value": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}),
    "optional": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "additionalProperties": False},
    "reference": {"$defs": {"word": {"enum": ["yes", "no"]}}, **obj({"answer": {"$ref": "#/$defs/word"}})},
    "not": obj({"value": {"not": {"type": "string"}}}),
    "if": obj({"a": {"type": "integer"}}, **{"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}}),
    "unique": obj({"items": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}}),
    "multiple": obj({"n": {"type": "integer", "multipleOf": 7}}),
    "date-time": obj({"when": {"type": "string", "format": "date-time"}}),
}
REGEXES = {
    "phone": ("[0-9]{3}-[0-9]{4}", 'root ::= [0-9] [0-9] [0-9] "-" [0-9] [0-9] [0-9] [0-9]'),
    "words": ("[a-z]{3,8}( [a-z]{3,8}){1,3}", "root ::= word rest rest? rest?\nrest ::= \" \" word\nword ::= [a-z]{3,8}"),
    "choice": ("(yes|no|maybe)", 'root ::= "yes" | "no" | "maybe"'),
}
QUESTION = "Tell me about Oslo in the form you were given."


def body(**more):
    return {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "max_tokens": 100, **more}


def ask(path, payload):
    """The answer's text and why it ended, or the refusal."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}{path}", json.dumps(payload).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            choice = json.load(response)["choices"][0]
            return choice["message"]["content"], choice["finish_reason"]
    except urllib.error.HTTPError as error:
        return None, "refused: " + error.read().decode()[:160]


def theirs(server, model):
    process = subprocess.Popen(
        [server, "-m", model, "--port", str(PORT), "-t", "2", "-c", "2048"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=2)
                break
            except OSError:
                time.sleep(0.5)
        answers = {name: ask("/v1/chat/completions", body(response_format=schema(value))) for name, value in SCHEMAS.items()}
        for name, (_, grammar) in REGEXES.items():
            answers[name] = ask("/v1/chat/completions", body(grammar=grammar))
        return answers
    finally:
        process.terminate()
        process.wait()


def ours(stepscope, model):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        lines = [(name, body(response_format=schema(value))) for name, value in SCHEMAS.items()]
        lines += [(name, body(structured_outputs={"regex": regex})) for name, (regex, _) in REGEXES.items()]
        requests = [{"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": line} for name, line in lines]
        (path / "requests.jsonl").write_text("\n".join(map(json.dumps, requests)))
        files = ["--requests", path / "requests.jsonl", "--out", path / "c.mcap", "--outputs", path / "o.jsonl"]
        subprocess.run([stepscope, "record", "--model", model, *files], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        answers = {}
        for line in map(json.loads, (path / "o.jsonl").read_text().splitlines()):
            answer = line["response"]["body"]
            if "error" in answer:
                answers[line["custom_id"]] = (None, "refused: " + answer["error"]["message"][:160])
            else:
                choice = answer["choices"][0]
                answers[line["custom_id"]] = (choice["message"]["content"], choice["finish_reason"])
        return answers


def same(a, b):
    """Equal as JSON, or as text."""
    try:
        return json.loads(a) == json.loads(b)
    except (TypeError, ValueError):
        return a == b


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ("server", "stepscope", "model"):
        parser.add_argument(f"--{flag}", required=True)
    options = parser.parse_args()
    left, right = ours(options.stepscope, options.model), theirs(options.server, options.model)
    for name in [*SCHEMAS, *REGEXES]:
        (our_text, our_end), (their_text, their_end) = left[name], right[name]
        verdict = "same" if our_text is not None and same(our_text, their_text) else "differs"
        print(f"{name}: {verdict}\n  stepscope  [{our_end}] {our_text!r}\n  llama.cpp  [{their_end}] {their_text!r}")


if __name__ == "__main__":
    main()
