"""A made-up scheduler runs under the taps; the capture must keep the format's rules."""

import os
import subprocess
from types import SimpleNamespace as Thing

import msgpack
import pytest
from mcap.reader import make_reader

numpy = pytest.importorskip("numpy")

from stepscope_vllm import engine, identity  # noqa: E402
from stepscope_vllm.params import SOURCES  # noqa: E402
from stepscope_vllm.settings import Settings  # noqa: E402

VOCABULARY = 64
END = 2


class Params:
    def __init__(self, **changes):
        self.temperature, self.max_tokens, self.stop, self.stop_token_ids = 0.0, 8, [], []
        self.structured_outputs, self.extra_args, self.eos_token_id, self.seed = None, None, END, None
        vars(self).update(changes)


class Request:
    def __init__(self, name, prompt, params, grammar=None):
        self.request_id, self.prompt_token_ids, self.sampling_params = name, prompt, params
        self.prompt_embeds, self.mm_features, self.stop_reason, self.spec_token_ids = None, [], None, []
        self.output_token_ids, self.status, self.max_tokens = [], Thing(name="RUNNING"), params.max_tokens
        self.structured_output_request = None
        if grammar is not None:
            key = (Thing(name="CHOICE"), '["a"]')
            self.structured_output_request = Thing(grammar=grammar, structured_output_key=key, reasoning_ended=None)

    num_prompt_tokens = property(lambda self: len(self.prompt_token_ids))
    num_output_tokens = property(lambda self: len(self.output_token_ids))

    def is_finished(self):
        return self.status.name.startswith("FINISHED")


class Grammar:
    """Allows 5, then 6, then the end."""

    def __init__(self):
        self.order, self.at = [5, 6, END], 0

    def accept_tokens(self, _, tokens):
        self.at += len(tokens)
        return True

    def rollback(self, count):
        self.at -= count

    def is_terminated(self):
        return self.at == len(self.order)


class Scheduler:
    """As much of vLLM's as the taps touch."""

    def __init__(self):
        config = Thing(
            model="tiny", max_model_len=99, hf_config=Thing(model_type="llama"), get_vocab_size=lambda: VOCABULARY,
            try_get_generation_config=lambda: {"eos_token_id": END},
        )  # fmt: skip
        self.vllm_config = Thing(
            model_config=config,
            scheduler_config=Thing(async_scheduling=False),
            structured_outputs_config=Thing(backend="guidance", disable_any_whitespace=False),
        )
        self.structured_output_manager = Thing(tokenizer=None, reasoner_cls=None)
        self.requests, self.read = {}, {}

    def add_request(self, request):
        self.requests[request.request_id] = request
        self.read[request.request_id] = 0

    def schedule(self):
        new, counts, drafts = [], {}, {}
        for name, request in self.requests.items():
            if not request.output_token_ids:
                new.append(Thing(req_id=name, num_computed_tokens=0))
                counts[name] = request.num_prompt_tokens
            else:
                counts[name] = 1 + len(request.spec_token_ids)
                if request.spec_token_ids:
                    drafts[name] = request.spec_token_ids
                request.spec_token_ids = []
        old = [name for name in counts if all(one.req_id != name for one in new)]
        cached = Thing(req_ids=old, num_computed_tokens=[self.read[name] for name in old])
        return Thing(
            scheduled_new_reqs=new, scheduled_cached_reqs=cached, num_scheduled_tokens=counts,
            total_num_scheduled_tokens=sum(counts.values()), scheduled_spec_decode_tokens=drafts,
        )  # fmt: skip

    def update_draft_token_ids(self, drafts):
        for name, tokens in zip(drafts.req_ids, drafts.draft_token_ids):
            if name in self.requests:
                self.requests[name].spec_token_ids = tokens[:1]

    def update_draft_token_ids_in_output(self, drafts, output):
        raise AssertionError("not synchronous")

    def get_grammar_bitmask(self, output):
        names = [n for n in output.num_scheduled_tokens if self.requests[n].structured_output_request]
        if not names:
            return None
        rows = []
        for name in names:
            grammar = self.requests[name].structured_output_request.grammar
            for offset in range(1 + len(output.scheduled_spec_decode_tokens.get(name, ()))):
                place = min(grammar.at + offset, len(grammar.order) - 1)
                rows.append([1 << grammar.order[place], 0])
        return Thing(structured_output_request_ids=names, grammar_bitmask=numpy.array(rows, dtype="<i4"))

    def update_from_output(self, output, result):
        for name in list(output.num_scheduled_tokens):
            request = self.requests[name]
            tokens = result.sampled_token_ids[result.req_id_to_index[name]]
            request.output_token_ids += tokens
            self.read[name] = request.num_prompt_tokens + request.num_output_tokens - 1
            if request.structured_output_request:
                request.structured_output_request.grammar.accept_tokens(name, tokens)
            if tokens[-1] == END:
                request.status = Thing(name="FINISHED_STOPPED")
                del self.requests[name]

    def finish_requests(self, names, status):
        for name in names:
            self.requests.pop(name).status = status


def rows(step, requests):
    row = {
        "invalid": False, "statistics": None, "applied": None, "was_masked": False, "judged": None, "forced": None,
        "payload": {"topk": {"ids": b"\5\0\0\0", "values": b"\0\0\0\0"}},
    }  # fmt: skip
    return {
        "kind": "rows", "step": step, "dropped": None, "vocabulary": VOCABULARY,
        "requests": [
            {
                "id": name, "count": len(read), "read": read, "positions": None, "sampled": sampled, "state": None,
                "odds": None, "draws": None, "rows": [row] * len(read),
            }
            for name, read, sampled in requests
        ],
    }  # fmt: skip


def commit(scheduler, output, sampled):
    names = list(sampled)
    result = Thing(sampled_token_ids=[list(sampled[n]) for n in names], req_id_to_index={n: i for i, n in enumerate(names)})
    scheduler.update_from_output(output, result)


@pytest.fixture
def capture(tmp_path, monkeypatch):
    monkeypatch.setattr(identity, "vllm_version", lambda: "0.32.0")
    scheduler = Scheduler()
    engine.begin(scheduler, Settings(tmp_path / "captures"), str(tmp_path / "link"))
    recorder = scheduler._stepscope.recorder
    recorder.put({"kind": "hello", "runner": "fake", "generation": "v1", "device": "cpu", "device_name": None,
                  "isa": None, "threads": 1, "missing": []})  # fmt: skip
    note = {"sources": {"temperature": "client"}, "stop_token_ids": [], "endpoint": None}
    plain = Request("plain", [9, 8, 7], Params(extra_args={SOURCES: note, "mine": 1}))
    bound = Request("bound", [9, 8], Params(structured_outputs=Thing(_backend="guidance")), Grammar())
    aborted = Request("aborted", [4], Params())
    for request in (plain, bound, aborted):
        scheduler.add_request(request)
    assert plain.sampling_params.extra_args == {"mine": 1}

    output = scheduler.schedule()
    scheduler.get_grammar_bitmask(output)
    recorder.put(rows(0, [("plain", [7], [3]), ("bound", [8], [5]), ("aborted", [4], [3])]))
    commit(scheduler, output, {"plain": [3], "bound": [5], "aborted": [3]})
    scheduler.finish_requests(["aborted"], Thing(name="FINISHED_ABORTED"))
    scheduler.update_draft_token_ids(Thing(req_ids=["plain", "bound"], draft_token_ids=[[4, 1], [6, 1]]))

    output = scheduler.schedule()
    scheduler.get_grammar_bitmask(output)
    recorder.put(rows(1, [("plain", [3, 4], [4, END]), ("bound", [5, 6], [6, END])]))
    commit(scheduler, output, {"plain": [4, END], "bound": [6, END]})
    scheduler.add_request(Request("left", [5], Params()))
    scheduler._stepscope.close()
    (path,) = (tmp_path / "captures").glob("*.mcap")
    with open(path, "rb") as stream:
        found = [
            (channel.topic, message.log_time, msgpack.unpackb(message.data))
            for _, channel, message in make_reader(stream).iter_messages(log_time_order=False)
        ]
    return path, found


def of(found, topic):
    return [record for kind, _, record in found if kind == topic]


def test_requests_are_admitted_and_end(capture):
    _, found = capture
    admitted = [record["admitted"] for record in of(found, "request") if "admitted" in record]
    finished = {record["finished"]["request"]: record["finished"] for record in of(found, "request") if "finished" in record}
    assert [record["client_id"] for record in admitted] == ["plain", "bound", "aborted", "left"]
    assert admitted[0]["params"] == [{"name": "temperature", "value": "0.0", "source": "client"}]
    assert admitted[1]["params"] is None and admitted[1]["constraint"]["kind"] == "choice"
    assert finished[0]["stop"] == finished[1]["stop"] == {"end_token": END}
    assert finished[2]["stop"] == "cancelled"
    assert finished[3]["stop"] == "cancelled"
    emitted = dict.fromkeys(finished, 0)
    for step in of(found, "step"):
        emitted[step["request"]] += len(step["emitted"])
    assert emitted == {number: record["emitted_tokens"] for number, record in finished.items()}


def test_steps_join_up(capture):
    _, found = capture
    steps = {(step["request"], step["step"]): step for step in of(found, "step")}
    assert {step["path"] for step in steps.values()} == {"prefill", "verify"}
    first, second = steps[0, 0], steps[0, 1]
    assert (first["first_position"], first["q_len"], first["rows"][0]["position"]) == (0, 3, 2)
    assert (second["first_position"], second["prev_accepted"], second["drafts"]) == (3, 1, [4])
    assert second["drafts_raw"] == [4, 1] and second["withheld"] == [{"index": 1, "reason": "grammar"}]
    assert second["bonus"] and second["stop"] == {"end_token": END}
    assert steps[1, 1]["grammar"] == {"before": 1, "after": 3, "terminated": True, "reasoning": False}
    assert [row["forced"]["token"] for row in steps[1, 1]["rows"]] == [6, END]
    assert steps[1, 0]["batch"] == {"slot": 1, "neighbours": [[0, 0], [2, 0]]}


def test_nothing_is_lost_and_payloads_have_their_steps_times(capture):
    _, found = capture
    assert not of(found, "loss")
    assert [(event["kind"], event["request"]) for event in of(found, "event")] == [("warning", 3)]
    assert found[0][0] == "header"
    assert {"name": "vllm", "version": "0.32.0"} in found[0][2]["components"]
    times = {(record["step"], record["request"]): time for kind, time, record in found if kind == "step"}
    assert all(times[record["step"], record["request"]] == time for kind, time, record in found if kind == "logits")
    known = {mask["hash"] for mask in of(found, "mask")}
    for step in of(found, "step"):
        assert {row.get("scheduler_mask") for row in step["rows"]} <= known | {None}


@pytest.mark.skipif("STEPSCOPE" not in os.environ, reason="STEPSCOPE names the stepscope binary")
def test_the_capture_verifies(capture):
    path, _ = capture
    done = subprocess.run([os.environ["STEPSCOPE"], "verify", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
