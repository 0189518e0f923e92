"""What the recorder's thread makes of copied rows."""

import struct

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
zstandard = pytest.importorskip("zstandard")

from stepscope_vllm import rows  # noqa: E402


def copies(raw, sampled, counts=None, **more):
    raw = torch.tensor(raw)
    counts = counts or [1] * raw.shape[0]
    names = [chr(ord("a") + i) for i in range(len(counts))]
    return rows.StepCopies(0, names, counts, raw=raw, sampled=torch.tensor(sampled), **more)


def summarized(found, tier="topk", top=2):
    return [row for request in rows.summarize(found, tier, top, True)["requests"] for row in request["rows"]]


def test_top_values_come_in_order_and_equals_by_id():
    (row,) = summarized(copies([[1.0, 3.0, 2.0, 3.0, 3.0]], [[3]]), top=2)
    payload = row["payload"]["topk"]
    assert struct.unpack("<2I", payload["ids"]) == (1, 3)
    assert struct.unpack("<2f", payload["values"]) == (3.0, 3.0)
    assert row["judged"] == {"token": 3, "rank": 1, "margin": 0.0}


def test_a_mask_shows_in_what_the_sampler_was_given():
    raw = [[0.0, 1.0, -torch.inf, 2.0]] * 2
    forbidden = torch.tensor([[False, True, True, False], [False, False, True, False]])
    masked, free = summarized(copies(raw, [[0], [3]], forbidden=forbidden))
    # Token 2 was -infinity before: nobody can tell whether a mask took it.
    assert masked["applied"] == bytes([0b1101]) and masked["was_masked"]
    assert free["applied"] is None and free["was_masked"]


def test_a_forced_token_has_its_standing_in_the_raw_row():
    words = numpy.array([[0b0100], [-1]], dtype="<i4")
    first, second = summarized(
        copies([[5.0, 1.0, 3.0], [5.0, 1.0, 3.0]], [[2, 0]], [2], grammar_requests=["a"], grammar_words=words)
    )
    assert first["forced"] == {"token": 2, "rank": 1, "margin": 2.0}
    assert second["forced"] is None


def test_an_invalid_row_is_kept_whole_and_ranks_nothing():
    (row,) = summarized(copies([[1.0, torch.nan, 3.0]], [[0]]))
    whole = row["payload"]["full"]
    shuffled = numpy.frombuffer(zstandard.ZstdDecompressor().decompress(whole["bytes"]), dtype=numpy.uint8)
    values = numpy.ascontiguousarray(shuffled.reshape(4, -1).T).view("<f4").ravel()
    assert row["invalid"] and whole["length"] == 3
    assert values[0] == 1.0 and numpy.isnan(values[1]) and values[2] == 3.0
    assert row["judged"] == {"token": 0, "rank": None, "margin": None}
    assert row["statistics"]["argmax"] is None and row["statistics"]["nan_count"] == 1


def test_half_precision_rows_are_recorded_as_the_same_values():
    found = copies([[1.0, 2.5]], [[1]])
    found.raw = found.raw.to(torch.bfloat16)
    (row,) = summarized(found)
    assert struct.unpack("<2f", row["payload"]["topk"]["values"]) == (2.5, 1.0)


def test_sampled_tokens_are_counted_by_the_runner_or_end_at_the_padding():
    found = copies([[0.0, 1.0]] * 3, [[1, -1, -1]], [3])
    assert rows.summarize(found, "topk", 1, False)["requests"][0]["sampled"] == [1]
    found.sampled, found.sampled_counts = torch.tensor([[1, 0, 9]]), torch.tensor([2])
    assert rows.summarize(found, "topk", 1, False)["requests"][0]["sampled"] == [1, 0]
