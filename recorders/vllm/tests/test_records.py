"""Records encode to the golden bytes of docs/capture-format.md."""

import re
from pathlib import Path

import msgpack
import pytest

from stepscope_vllm import records

FORMAT = Path(__file__).resolve().parents[3] / "docs" / "capture-format.md"


def _golden(topic: str) -> bytes:
    block = re.search(rf"```golden {topic} msgpack\n(.*?)```", FORMAT.read_text(), re.DOTALL)
    return bytes.fromhex(block.group(1))


@pytest.mark.parametrize("topic", list(records.TOPICS))
def test_a_record_has_the_golden_bytes(topic):
    golden = _golden(topic)
    assert records.encode(msgpack.unpackb(golden)) == golden


def test_builders_lay_their_fields_out_like_the_golden_records():
    mask = msgpack.unpackb(_golden("mask"))
    assert records.encode(records.mask(mask["hash"], mask["tokens"], mask["bits"])) == _golden("mask")
    row = msgpack.unpackb(_golden("logits"))
    assert records.encode(records.logits(12, 3, 1, row["payload"])) == _golden("logits")
    event = msgpack.unpackb(_golden("event"))
    built = records.event(event["time_ns"], event["kind"], event["message"], event["request"], event["step"])
    assert records.encode(built) == _golden("event")


def test_what_is_not_known_is_left_out_and_zero_is_not():
    record = records.step(step=0, q_len=None, emitted=[], cached_prefix=0)
    assert record == {"step": 0, "emitted": [], "cached_prefix": 0}
