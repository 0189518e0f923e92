"""The recorder's thread, from messages to a file."""

import time

import msgpack
import pytest
from mcap.reader import make_reader

from stepscope_vllm import recorder as module
from stepscope_vllm.recorder import Recorder
from stepscope_vllm.settings import Settings


def messages(path):
    with open(path, "rb") as stream:
        return [
            (channel.topic, msgpack.unpackb(message.data))
            for _, channel, message in make_reader(stream).iter_messages(log_time_order=False)
        ]


def header(recorder):
    return {"format_version": 2, "runner": (recorder.hello or {}).get("runner"), "backend": recorder.grammar_backend}


def admission(backend=None, number=0):
    record = {"request": number, "time_ns": 1, "prompt_tokens": [1], "choices": 1}
    return {"kind": "admit", "record": record, "backend": backend}


def closed(folder, *sent):
    recorder = Recorder(Settings(folder), header)
    for message in sent:
        recorder.put(message)
    recorder.close()
    (path,) = folder.glob("*.mcap")
    return messages(path)


def test_the_header_comes_first_and_says_what_ran(tmp_path):
    found = closed(tmp_path, admission("xgrammar"), {"kind": "hello", "runner": "R"})
    assert found[0] == ("header", {"format_version": 2, "runner": "R", "backend": "xgrammar"})
    assert found[1][0] == "request"


def test_a_grammar_library_that_comes_late_is_an_event(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BACKEND_SECONDS", 0.0)
    recorder = Recorder(Settings(tmp_path), header)
    recorder.put({"kind": "hello", "runner": "R"})
    recorder.put(admission())
    time.sleep(0.6)
    recorder.put(admission("guidance", 1))
    recorder.close()
    found = messages(next(tmp_path.glob("*.mcap")))
    assert found[0][1]["backend"] is None
    assert [record["kind"] for topic, record in found if topic == "event"] == ["grammar_backend"]


def test_a_message_that_cannot_be_recorded_is_a_loss(tmp_path):
    found = closed(tmp_path, {"kind": "step", "step": 0}, admission())
    reasons = [record["reason"] for topic, record in found if topic == "loss"]
    assert len(reasons) == 1 and "the recorder failed" in reasons[0]
    assert any(topic == "request" for topic, _ in found)


@pytest.mark.parametrize("again", [1, 2])
def test_closing_twice_is_closing(tmp_path, again):
    recorder = Recorder(Settings(tmp_path), header)
    for _ in range(again):
        recorder.close()
    assert len(list(tmp_path.glob("*.mcap"))) == 1
