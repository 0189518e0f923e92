"""A made-up engine's run, joined and written, keeps the format's rules."""

import itertools

import msgpack
import pytest
from mcap.reader import make_reader

from stepscope_vllm import masks
from stepscope_vllm.capture import CaptureFile
from stepscope_vllm.join import PATIENCE_NS, Joiner
from stepscope_vllm.records import PAYLOADS

VOCABULARY = 64
ALL = (1 << VOCABULARY) - 1


class Run:
    """Collects what a joiner emits."""

    def __init__(self, tier="topk"):
        self.time = 0
        self.emitted = []
        self.joiner = Joiner(lambda *message: self.emitted.append(message), lambda: self.time, tier)

    def of(self, topic):
        return [record for kind, record, _ in self.emitted if kind == topic]

    def step(self, number=0):
        return next(record for record in self.of("step") if record["step"] == number)


def words(bits):
    return bits.to_bytes(VOCABULARY // 8, "little")


def request(name="a", **changes):
    fact = {
        "id": name, "number": 0, "discarded": False, "is_prompt": False, "recomputes": False, "first_position": 4,
        "row_position": 4, "has_rows": True, "q_len": 1, "drafts": [], "placeholders": False, "drafts_raw": None,
        "legal_drafts": None, "cached_prefix": 0, "prev_accepted": 1, "emitted": [7], "sampled": [7], "by_chance": False,
        "seed": None,
        "masks": None, "grammar": None, "stop": None,
    }  # fmt: skip
    return {**fact, **changes}


def half(*requests, step=0, time_ns=10):
    return {"step": step, "time_ns": time_ns, "scheduler": "sync", "vocabulary": VOCABULARY, "requests": list(requests)}


def row(token=None, applied=None, was_masked=False, forced=None, invalid=False):
    judged = {"token": token, "rank": 0, "margin": 0.0} if token is not None else None
    return {
        "invalid": invalid, "statistics": None, "payload": {"topk": {"ids": b"\7\0\0\0", "values": b"\0\0\0\0"}},
        "applied": applied, "was_masked": was_masked, "judged": judged, "forced": forced,
    }  # fmt: skip


def rows(*requests, step=0):
    return {"step": step, "dropped": None, "vocabulary": VOCABULARY, "requests": list(requests)}


def read(name="a", tokens=(5,), sampled=(7,), position=4, found=None, draws=None):
    tokens = list(tokens)
    return {
        "id": name, "count": len(tokens), "read": tokens, "positions": [position + i for i in range(len(tokens))],
        "sampled": list(sampled), "state": None, "odds": None, "draws": draws,
        "rows": found if found is not None else [row(t) for t in itertools.islice([*sampled, *[None] * 9], len(tokens))],
    }  # fmt: skip


def test_halves_join_in_any_order():
    for order in (0, 1):
        run = Run()
        parts = [lambda: run.joiner.scheduler_half(half(request())), lambda: run.joiner.worker_half(rows(read()))]
        for part in parts if order else reversed(parts):
            part()
        assert run.step()["rows"] == [{"position": 4, "token": 7, "rank": 0, "margin": 0.0}]
        assert run.of("logits") and not run.of("loss") and not run.of("event")


def test_trimmed_drafts_say_why():
    run = Run()
    run.joiner.worker_half(rows(read(tokens=[5, 1], sampled=[1, 2])))
    fact = request(q_len=2, drafts=[1], drafts_raw=[1, 2, 3, 4], legal_drafts=3, emitted=[1, 2], sampled=[1, 2])
    run.joiner.scheduler_half(half(fact))
    step = run.step()
    assert step["withheld"] == [
        {"index": 1, "reason": "limit"}, {"index": 2, "reason": "limit"}, {"index": 3, "reason": "grammar"},
    ]  # fmt: skip
    assert step["verdicts"][0]["reason"] == "match" and step["bonus"] is True
    assert "input_tokens" not in step


def test_padded_drafts_say_why_and_what_was_read():
    run = Run()
    run.joiner.worker_half(rows(read(tokens=[5, 1, 2, 3], sampled=[1, 9])))
    fact = request(
        q_len=4, drafts=[1, -1, -1], drafts_raw=[1, 2], legal_drafts=1, emitted=[1, 9], sampled=[1, 9]
    )  # fmt: skip
    run.joiner.scheduler_half(half(fact))
    step = run.step()
    assert step["withheld"] == [{"index": 1, "reason": "grammar"}, {"index": 2, "reason": "missing"}]
    assert [verdict["reason"] for verdict in step["verdicts"]] == ["match", "grammar", "after_rejection"]
    assert step["input_tokens"] == [5, 1, 2, 3]
    assert step["bonus"] is False


@pytest.mark.parametrize("raw", [None, [-1, -1]])
def test_placeholders_are_what_the_worker_read(raw):
    run = Run()
    run.joiner.worker_half(rows(read(tokens=[5, 1, 2], sampled=[1, 2, 3])))
    fact = request(
        q_len=3, drafts=[-1, -1], drafts_raw=raw, placeholders=True, emitted=[1, 2, 3], sampled=[1, 2, 3]
    )
    run.joiner.scheduler_half(half(fact))
    assert run.step()["drafts"] == run.step()["drafts_raw"] == [1, 2]


def test_drafts_past_the_end_were_not_committed():
    run = Run()
    run.joiner.worker_half(rows(read(tokens=[5, 1, 2, 3], sampled=[1, 2, 3, 4])))
    fact = request(q_len=4, drafts=[1, 2, 3], drafts_raw=[1, 2, 3], emitted=[1, 2], sampled=[1, 2, 3, 4],
                   stop={"end_token": 2})  # fmt: skip
    run.joiner.scheduler_half(half(fact))
    assert [v["reason"] for v in run.step()["verdicts"]] == ["match", "match", "after_end"]
    assert [r.get("token") for r in run.step()["rows"]] == [1, 2, None, None]


def test_masks_are_recorded_as_filled_and_as_applied():
    run = Run()
    filled = [words(1 << 7), words(0b11), words(ALL)]
    found = [
        row(7, words(1 << 7), True, {"token": 7, "rank": 3, "margin": 1.5}),
        row(1, words(0b101), True),
        row(None, None, True),
    ]
    run.joiner.worker_half(rows(read(tokens=[5, 7, 1], sampled=[7, 1], found=found)))
    run.joiner.scheduler_half(half(request(q_len=3, drafts=[7, 1], emitted=[7, 1], sampled=[7, 1], masks=filled)))
    first, second, third = run.step()["rows"]
    assert first["scheduler_mask"] == first["applied_mask"] and first["mask_population"] == 1
    assert first["forced"] == {"token": 7, "rank": 3, "margin": 1.5}
    assert second["scheduler_mask"] != second["applied_mask"]
    assert third["applied_mask"] == third["scheduler_mask"] and third["mask_population"] == VOCABULARY
    assert len(run.of("mask")) == len({mask["hash"] for mask in run.of("mask")}) == 4
    assert all(mask["bits"] == masks.from_words(mask["bits"], VOCABULARY) for mask in run.of("mask"))


def test_rows_that_do_not_come_are_a_loss():
    run = Run()
    run.joiner.scheduler_half(half(request()))
    run.joiner.expire()
    assert not run.of("step")
    run.time = PATIENCE_NS + 11
    run.joiner.expire()
    assert run.step()["emitted"] == [7] and run.step()["rows"] == []
    assert run.of("loss")[0]["steps"] == [0, 0]
    # The step has no rows that it could be the payload of: readers count those alone.
    assert run.of("step")[0]["rows"] == [] and run.of("loss")[0]["messages"] is None


def test_dropped_rows_leave_their_tokens():
    run = Run()
    part = read()
    part["rows"] = None
    run.joiner.worker_half({**rows(part), "dropped": "the recorder's queue was full"})
    run.joiner.scheduler_half(half(request()))
    assert run.step()["rows"] == [{"position": 4, "token": 7}]
    assert run.of("loss")[0]["reason"] == "the recorder's queue was full"


def test_an_end_waits_for_the_steps_before_it():
    run = Run()
    run.joiner.scheduler_half(half(request()))
    run.joiner.end({"request": 0, "choice": 0, "time_ns": 12, "stop": "max_tokens", "emitted_tokens": 1})
    assert not run.emitted
    run.joiner.worker_half(rows(read()))
    assert [kind for kind, _, _ in run.emitted] == ["step", "logits", "request"]


def test_halves_that_disagree_are_an_event():
    run = Run()
    run.joiner.worker_half(rows(read(sampled=[8], position=5)))
    run.joiner.scheduler_half(half(request()))
    said = " ".join(event["message"] for event in run.of("event"))
    assert "the sampler gave [8]" in said and "first row is at 5" in said
    assert "rank" not in run.step()["rows"][0]


def test_a_batch_with_an_unrecorded_member_has_no_places():
    run = Run()
    run.joiner.worker_half(rows(read("b"), read("a")))
    run.joiner.scheduler_half(half(request("a"), request("b", number=1)))
    assert run.of("step")[0]["batch"] == {"slot": 1, "neighbours": [[1, 0]]}
    run.joiner.worker_half(rows(read("b"), read("a"), step=1))
    run.joiner.scheduler_half(half(request("a"), request("b", number=1, discarded=True), step=1))
    assert "batch" not in run.step(1)


def test_invalid_rows_are_events_and_keep_their_payload_whatever_the_tier():
    run = Run(tier="off")
    bad = row(7, invalid=True)
    bad["payload"] = {"full": {"length": 1, "bytes": b""}}
    run.joiner.worker_half(rows(read(found=[bad])))
    run.joiner.scheduler_half(half(request()))
    assert run.of("event")[0]["kind"] == "invalid_row" and len(run.of("logits")) == 1


def test_a_capture_keeps_rows_and_records_apart_and_gets_its_name_at_the_end(tmp_path):
    file = CaptureFile(tmp_path, "run", 1_000)
    file.write("header", {"format_version": 2}, 0)
    run = Run()
    run.joiner.worker_half(rows(read()))
    run.joiner.scheduler_half(half(request()))
    for message in run.emitted:
        file.write(*message)
    assert [path.name for path in tmp_path.iterdir()] == ["run.mcap.partial"]
    file.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["run.mcap"]
    with open(tmp_path / "run.mcap", "rb") as stream:
        reader = make_reader(stream)
        assert reader.get_header().profile == "stepscope"
        topics = {number: channel.topic for number, channel in reader.get_summary().channels.items()}
        for chunk in reader.get_summary().chunk_indexes:
            kinds = {topics[number] in PAYLOADS for number in chunk.message_index_offsets}
            assert len(kinds) == 1
        found = [
            (channel.topic, message.log_time, message.sequence, msgpack.unpackb(message.data))
            for _, channel, message in reader.iter_messages(log_time_order=False)
        ]
    assert found[0][:3] == ("header", 1_000, 1)
    times = {topic: time for topic, time, _, _ in found}
    assert times["step"] == times["logits"] == 1_010


def test_a_capture_replaces_nothing(tmp_path):
    for expected in ("run.mcap", "run-1.mcap"):
        file = CaptureFile(tmp_path, "run", 0)
        file.finish()
        assert (tmp_path / expected).exists()


@pytest.mark.parametrize("draft", [1, -1])
def test_chance_is_recorded_where_it_decided(draft):
    run = Run()
    part = read(tokens=[5, 1], sampled=[7])
    part["odds"] = [[0.25, 1.0, 0.5]]
    run.joiner.worker_half(rows(part))
    fact = request(q_len=2, drafts=[draft], drafts_raw=[1], legal_drafts=0, by_chance=True)
    run.joiner.scheduler_half(half(fact))
    verdict = run.step()["verdicts"][0]
    if draft == 1:
        assert verdict == {"p": 0.25, "q": 1.0, "u": 0.5, "accepted": False, "reason": "ratio"}
    else:
        assert verdict == {"p": None, "q": None, "u": None, "accepted": False, "reason": "grammar"}


@pytest.mark.parametrize(
    "seed, by_chance, draws, is_told",
    [
        (7, True, {"seed": 7}, False),
        (7, True, {"seed": None}, True),
        (7, True, {"seed": 8}, True),
        (-1, True, {"seed": (1 << 64) - 1}, False),
        (7, True, None, False),
        (7, False, {"seed": None}, False),
        (None, True, {"seed": None}, False),
    ],
)
def test_draws_with_another_seed_than_the_requests_are_told(seed, by_chance, draws, is_told):
    run = Run()
    run.joiner.worker_half(rows(read(draws=draws)))
    run.joiner.scheduler_half(half(request(seed=seed, by_chance=by_chance)))
    told = [(event["kind"], event["request"], event["step"]) for event in run.of("event")]
    assert told == ([("seed_not_used", 0, 0)] if is_told else [])
