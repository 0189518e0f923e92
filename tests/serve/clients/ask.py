"""Asks a server through the official Python client; argv: address, model, requests as JSON. Prints what came, as JSON."""

import json
import sys

import openai

address, model, requests = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
client = openai.OpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0)
answers = []
for request in requests:
    extra = {"extra_body": request.pop("extra_body", {})}
    whole = client.chat.completions.create(model=model, **request, **extra)
    calls, text, reasons, usage = {}, "", [], None
    options = {"stream": True, "stream_options": {"include_usage": True}}
    for chunk in client.chat.completions.create(model=model, **request, **options, **extra):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for piece in choice.delta.tool_calls or []:
                call = calls.setdefault(piece.index, {"name": "", "arguments": ""})
                call["name"] += piece.function.name or ""
                call["arguments"] += piece.function.arguments or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
    message = whole.choices[0].message
    told = [{"name": call.function.name, "arguments": call.function.arguments} for call in message.tool_calls or []]
    answers.append({
        "whole": {"calls": told, "text": message.content or "", "reasons": [whole.choices[0].finish_reason],
                  "tokens": whole.usage.total_tokens},
        "streamed": {"calls": list(calls.values()), "text": text, "reasons": reasons, "tokens": usage.total_tokens},
    })
try:
    client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hi"}], temperature=-1)
    refused = None
except openai.BadRequestError as error:
    refused = error.param
models = [model.id for model in client.models.list()]
print(json.dumps({"answers": answers, "models": models, "refused": refused}))
