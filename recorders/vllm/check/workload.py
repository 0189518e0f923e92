"""Requests for live runs: a handful that is quick, and forty that differ in all that vLLM lets a client ask for."""

from __future__ import annotations

import json
from typing import Any, Iterator

from schemas import BOOKING, CITY
from vllm import SamplingParams
from vllm.sampling_params import StructuredOutputsParams

Request = tuple[str, str, SamplingParams]
"""A name, a question, and parameters."""

DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
SUMS = 'root ::= sum " = " number\nsum ::= number (" + " number)+\nnumber ::= [1-9] [0-9]*\n'


def few(most_tokens: int) -> list[Request]:
    """Six requests: constrained and free, greedy and sampled."""
    params = _Parameters(most_tokens)
    return [
        ("schema", 'Give the city Paris and n 3 as JSON. {"city": "Paris", "n": 3}', params(json=CITY)),
        (
            "booking",
            'Book a table as JSON: {"name": "Ada", "day": "friday", "seats": 4}. Answer with the JSON alone.',
            params(0.8, 11, json=json.dumps(BOOKING)),
        ),
        ("date", "When did the war end? Write a date such as 1945-05-08.", params(regex=DATE)),
        ("choice", "Is the sky green? Answer yes or no.", params(0.7, 5, choice=["yes", "no", "maybe"])),
        ("free", "What is the capital of France?", params()),
        ("sampled", "Write the word tea four times: tea tea tea tea", params(0.9, 7, top_p=0.95)),
    ]


def long(most_tokens: int) -> list[Request]:
    """Three requests that go on to the last token."""
    params = _Parameters(most_tokens)
    return [
        ("story", "Tell a story about a fox, a crow and a piece of cheese.", params(ignore_eos=True)),
        ("poem", "Write a poem about the rain.", params(0.8, 25, ignore_eos=True)),
        ("list", "List the planets.", params(ignore_eos=True)),
    ]


def varied(most_tokens: int, with_drafts: bool, backend: str) -> list[Request]:
    """Forty requests. vLLM takes `min_p` and `logit_bias` without drafts alone."""
    params = _Parameters(most_tokens)
    grammar = SUMS if backend == "xgrammar" else 'start: NUMBER (" + " NUMBER)+ " = " NUMBER\nNUMBER: /[1-9][0-9]*/\n'
    found = [*few(most_tokens), *_calls(params)]
    found += [
        ("list", "List five fruits as a JSON array of strings.", params(json=_array({"type": "string"}, 5))),
        ("any-json", "Describe yourself as a JSON object.", params(0.6, 3, json_object=True)),
        ("phone", "Give a phone number such as (030) 555-0199.", params(0.9, 21, regex=r"\([0-9]{3}\) [0-9]{3}-[0-9]{4}")),
        ("words", "Say three words.", params(regex=r"[a-z]+ [a-z]+ [a-z]+\.")),
        ("address", "Write an e-mail address.", params(1.0, 22, regex=r"[a-z]{2,12}@[a-z]{2,12}\.(com|org)")),
        ("mood", "Is 'what a lovely day' positive or negative?", params(choice=["positive", "negative"])),
        ("colour", "Name a colour.", params(1.2, 23, choice=["red", "dark red", "reddish brown", "blue"])),
        ("sum", "Add 12 and 30. Write it as 12 + 30 = 42", params(grammar=grammar)),
        ("sums", "Add 1, 2 and 3. Write it as 1 + 2 + 3 = 6", params(0.8, 24, grammar=grammar)),
        ("story", "Tell a story about a fox, a crow and a piece of cheese.", params()),
        ("poem", "Write a poem: the rain, the rain, the rain falls down.", params(0.8, 25, n=2)),
        ("code", "Write a Python function that adds two numbers, and call it.", params(0.2, 26)),
        ("warm", "Invent a name for a ship, and say why.", params(1.5, 27, top_k=40)),
        ("unseeded", "Name three rivers and three mountains.", params(0.7)),
        ("unseeded-too", "What is a comet?", params(1.0, top_p=0.8, top_k=20)),
        ("cold", "Count from one to twenty in words.", params(0.05, 28)),
        ("repeated", "Repeat: the cat sat on the mat. the cat sat on the mat.", params(repetition_penalty=1.3)),
        ("present", "Write about the sea, the sea, the sea.", params(0.8, 29, presence_penalty=0.8)),
        ("frequent", "Write the letter a many times.", params(0.8, 30, frequency_penalty=1.1)),
        ("least", "Say hello.", params(min_tokens=24)),
        ("least-json", 'Give n 1 as JSON. {"city": "Rome", "n": 1}', params(json=CITY, min_tokens=4)),
        ("endless", "Say goodbye.", params(0.6, 31, ignore_eos=True)),
        ("stop-word", "Count: one two three four five six.", params(stop=["four"])),
        ("stop-token", "Write one sentence about tea.", params(stop_token_ids=[30])),
        ("bad-words", "Write one sentence about dogs.", params(bad_words=["dog", "dogs"])),
        ("alternatives", "What is two plus two?", params(logprobs=5)),
        ("told-prompt", "What is three plus three?", params(0.8, 32, logprobs=2, prompt_logprobs=1)),
        ("some-tokens", "Say anything.", params(allowed_token_ids=list(range(300, 900)))),
    ]
    if with_drafts:
        found += [
            ("quoted", "Say it again: 'a rose is a rose is a rose is a rose'", params()),
            ("quoted-too", "Say it again: 'row, row, row your boat, row, row your boat'", params(0.5, 33)),
        ]
    else:
        found += [
            ("probable", "Name a planet.", params(1.0, 34, min_p=0.1)),
            ("biased", "Name an animal.", params(0.8, 35, logit_bias={345: 4.0, 260: -100.0})),
        ]
    assert len(found) == 40, len(found)
    return found


def _calls(params: "_Parameters") -> Iterator[Request]:
    """Tool calls, as JSON schemas make them."""
    text, number = {"type": "string", "maxLength": 30}, {"type": "number"}
    tools: dict[str, dict[str, Any]] = {
        "get_weather": {"city": text, "unit": {"enum": ["celsius", "fahrenheit"]}},
        "send_mail": {"to": _array(text, 3), "subject": text, "urgent": {"type": "boolean"}},
        "move": {"from": _object({"x": number, "y": number}), "to": _object({"x": number, "y": number})},
        "set_alarm": {"time": {"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"}, "days": _array({"enum": ["mon", "tue", "wed"]}, 3)},
    }  # fmt: skip
    for number_of, (name, properties) in enumerate(tools.items()):
        call = _object({"name": {"const": name}, "arguments": _object(properties)})
        question = f'Call the tool {name} with arguments {", ".join(properties)}. Answer as {{"name": "{name}", ...}}.'
        if number_of % 2:
            yield name, question, params(0.7, 40 + number_of, json=call)
        else:
            yield name, question, params(json=call)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _array(items: dict[str, Any], most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": most}


class _Parameters:
    """Makes parameters; what a grammar is made of goes into `structured_outputs`."""

    def __init__(self, most_tokens: int) -> None:
        self._most_tokens = most_tokens

    def __call__(self, temperature: float = 0.0, seed: int | None = None, **more: Any) -> SamplingParams:
        structure = {name: more.pop(name) for name in ("json", "regex", "choice", "grammar", "json_object") if name in more}
        return SamplingParams(
            temperature=temperature,
            seed=seed,
            max_tokens=self._most_tokens,
            structured_outputs=StructuredOutputsParams(**structure) if structure else None,
            **more,
        )
