"""Where parameters came from."""

import json

from stepscope_vllm import params


class Params:
    """As vLLM's, with a few of its fields."""

    def __init__(self, **changes):
        self.temperature, self.top_p, self.top_k, self.seed, self.max_tokens = 1.0, 1.0, 0, None, 16
        self.logit_bias, self.stop_token_ids, self.extra_args, self._eos_token_id = None, [], None, 2
        self.output_kind = "delta"
        vars(self).update(changes)


class ChatCompletionRequest:
    """A parsed body that says which fields were written."""

    def __init__(self, **written):
        self.stop_token_ids = None
        vars(self).update(written)
        self.model_fields_set = set(written)


def sources(note):
    return {name: source for name, source in note["sources"].items() if source != "protocol_default"}


def test_a_field_that_the_client_wrote_is_the_clients():
    body = ChatCompletionRequest(temperature=0.0, max_completion_tokens=9, seed=None)
    note = params.note_request(body, Params(temperature=0.0), {"temperature": 0.6, "top_p": 0.8}, {})
    assert sources(note) == {"temperature": "client", "max_tokens": "client", "top_p": "generation_config"}
    assert note["endpoint"] == "/v1/chat/completions"


def test_an_objects_values_are_the_clients_where_they_are_not_the_default():
    assert sources(params.note_object(Params(top_k=5, seed=0), None)) == {"top_k": "client", "seed": "client"}


def test_resolved_values_say_null_for_no_limit_and_leave_out_what_is_not_known():
    given = Params(stop_token_ids=[7, 2])
    note = params.note_object(given, None) | {"stop_token_ids": [7]}
    del note["sources"]["top_p"]
    found = {field["name"]: json.loads(field["value"]) for field in params.resolved(given, note)}
    assert found["top_k"] is None and found["seed"] is None and found["max_tokens"] == 16
    assert found["stop_token_ids"] == [7] and found["logit_bias"] == {}
    assert "top_p" not in found
    assert not {"output_kind", "extra_args", "_eos_token_id"} & found.keys()
