"""Taps in the worker: what the model read and computed, and what the sampler was given and gave.

They sit on the model runner that actually runs, whichever it is, and only make copies on the device. The rest happens
on a thread of the recorder.
"""

from __future__ import annotations

import logging
import queue
import threading
from typing import Any, Callable

import torch

from .rows import DraftOdds, StepCopies, summarize
from .settings import Settings
from .taps import Failures, Taps

logger = logging.getLogger("stepscope_vllm")

Send = Callable[[dict[str, Any]], None]


def tap(worker: Any, settings: Settings, send: Send) -> None:
    """Taps the model runner of a worker whose device is set up."""
    runner = getattr(worker, "model_runner", None)
    if runner is None:
        send({"kind": "lost", "channel": "logits", "reason": f"{type(worker).__name__} has no model runner to tap"})
        return
    if getattr(runner, "_stepscope", None) is not None or not _is_first_rank():
        return
    runner._stepscope = _Recording(runner, settings, send)


def _is_first_rank() -> bool:
    from vllm.distributed.parallel_state import get_tp_group

    return get_tp_group().rank_in_group == 0


class _Recording:
    """One model runner's recording."""

    def __init__(self, runner: Any, settings: Settings, send: Send) -> None:
        self.settings = settings
        self.outlet = _Outlet(settings, send)
        failures = Failures(self.outlet.lost)
        self.taps = Taps(failures.report)
        self.runner = runner
        self.step: int | None = None
        self.copies: StepCopies | None = None
        self.state_metadata: Any = None
        self.looked_for_state = False
        self.at_begin: Callable[[], None] = lambda: None
        # The newer runner computes its logits inside `sample`; the older one has them ready for `sample_tokens`.
        newer = hasattr(type(runner), "sample") and not hasattr(type(runner), "_sample")
        self.taps.around(runner, "execute_model", before=self.begin)
        if newer:
            _tap_newer(self)
        else:
            _tap_older(self)
        self.outlet.put(_hello(runner, newer, self.taps.missing))

    def begin(self, scheduler_output: Any, *_: Any, **__: Any) -> None:
        """A step begins."""
        self.step = getattr(scheduler_output, "stepscope_step", None)
        self.copies = None
        self.state_metadata = None
        if not self.looked_for_state:
            self.looked_for_state = True
            _tap_state(self)
        self.at_begin()

    def submit(self) -> None:
        """All of a step is copied."""
        copies, self.copies, self.step = self.copies, None, None
        if copies is not None:
            copies.state = _state_parts(self.state_metadata)
            self.outlet.put(copies)

    def keep_raw(self, copies: StepCopies, logits: torch.Tensor, hidden: torch.Tensor | None) -> None:
        """Copies the logits, unless too much waits already."""
        if self.settings.tier == "off" and not self.settings.statistics:
            copies.dropped = ""
            return
        size = logits.numel() * (logits.element_size() + 1)
        if not self.outlet.has_room(size):
            copies.dropped = "the recorder's queue was full"
            return
        copies.bytes = size
        copies.raw = logits.detach().clone()
        if self.settings.tier == "hidden" and hidden is not None:
            copies.hidden = hidden.detach().clone()


def _tap_older(recording: _Recording) -> None:
    runner, taps = recording.runner, recording.taps

    def before_sampling(grammar_output: Any = None, *_: Any, **__: Any) -> None:
        state = runner.execute_model_state
        logits = getattr(state, "logits", None)
        if recording.step is None or logits is None:
            return
        metadata = state.spec_decode_metadata
        requests = list(runner.input_batch.req_ids)
        if metadata is None:
            counts = [1] * len(requests)
            indices = runner.query_start_loc.gpu[1 : len(requests) + 1] - 1
        else:
            counts = [1 + drafts for drafts in metadata.num_draft_tokens]
            indices = metadata.logits_indices
        copies = StepCopies(recording.step, requests, counts)
        copies.read = runner.input_ids.gpu[indices].clone()
        copies.positions = runner.positions[indices].clone()
        _copy_grammar(copies, grammar_output)
        recording.keep_raw(copies, logits, getattr(state, "sample_hidden_states", None))
        recording.copies = copies

    def before_sampler(logits: torch.Tensor, *_: Any, **__: Any) -> None:
        if recording.copies is not None and recording.copies.raw is not None:
            _copy_forbidden(recording.copies, logits)
        if recording.copies is not None:
            generators = runner.input_batch.sampling_metadata.generators
            recording.copies.seeds = {
                recording.copies.requests[index]: generator.initial_seed() for index, generator in generators.items()
            }

    def after_sampler(_: Any, output: Any, *__: Any, **___: Any) -> None:
        if recording.copies is not None:
            recording.copies.sampled = output.sampled_token_ids.detach().clone()
            recording.submit()

    taps.around(runner, "sample_tokens", before=before_sampling)
    taps.around(runner, "_sample", before=before_sampler, after=after_sampler)
    _tap_odds(recording)


def _tap_odds(recording: _Recording) -> None:
    """The older runner draws with generators, so that what it drew has to be recorded."""
    from vllm.v1.sample import rejection_sampler

    drawn: list[torch.Tensor] = []

    def after_uniforms(_: Any, uniforms: torch.Tensor, *__: Any, **___: Any) -> None:
        drawn[:] = [uniforms.clone()]

    def before(draft_token_ids: Any, num_draft_tokens: Any, max_spec_len: Any, cu_num_draft_tokens: Any,
               draft_probs: Any, target_logits: Any, bonus_token_ids: Any, sampling_metadata: Any,
               *_: Any, **__: Any) -> Any:  # fmt: skip
        drawn.clear()
        if recording.copies is None or sampling_metadata.all_greedy:
            return None
        drafts = draft_token_ids.to(torch.int64).clamp(min=0)[:, None]
        p = target_logits.softmax(dim=-1, dtype=torch.float32).gather(1, drafts)[:, 0]
        q = draft_probs.gather(1, drafts)[:, 0] if draft_probs is not None else None
        greedy = None if sampling_metadata.all_random else (sampling_metadata.temperature == 0).clone()
        return p, q, greedy

    def after(odds: Any, *_: Any, **__: Any) -> None:
        if odds is not None and drawn and recording.copies is not None:
            p, q, greedy = odds
            recording.copies.odds = DraftOdds(p, q, drawn[0], greedy)

    recording.taps.around(rejection_sampler, "generate_uniform_probs", after=after_uniforms)
    recording.taps.around(rejection_sampler, "rejection_sample", before=before, after=after)


def _tap_newer(recording: _Recording) -> None:
    runner, taps = recording.runner, recording.taps

    def before_sample(hidden_states: torch.Tensor, input_batch: Any, grammar_output: Any = None, *_: Any, **__: Any):
        if recording.step is None:
            return
        if getattr(runner, "batch_sharder", None) is not None:
            recording.outlet.lost("rows are sampled in shards over ranks, which is not supported")
            return
        offsets = input_batch.cu_num_logits_np[: input_batch.num_reqs + 1].tolist()
        counts = [end - start for start, end in zip(offsets, offsets[1:])]
        copies = StepCopies(recording.step, list(input_batch.req_ids), counts)
        indices = input_batch.logits_indices
        copies.read = input_batch.input_ids[indices].clone()
        copies.positions = input_batch.positions[indices].clone()
        copies.seeds = dict(zip(input_batch.req_ids, runner.sampler.sampling_states.seeds.np[input_batch.idx_mapping_np].tolist()))
        _copy_grammar(copies, grammar_output)
        if recording.settings.tier == "hidden":
            copies.hidden = hidden_states[indices].clone()
        recording.copies = copies

    def before_mask(logits: torch.Tensor, *_: Any, **__: Any) -> None:
        if recording.copies is not None:
            recording.keep_raw(recording.copies, logits, None)

    def before_sampler(_: Any, logits: torch.Tensor, *__: Any, **___: Any) -> None:
        copies = recording.copies
        if copies is None:
            return
        if copies.raw is None and copies.dropped is None:
            recording.keep_raw(copies, logits, None)
        elif copies.raw is not None:
            _copy_forbidden(copies, logits)

    def after_sample(_: Any, result: Any, *__: Any, **___: Any) -> None:
        copies = recording.copies
        if copies is None:
            return
        output, counted = result[0], result[1]
        copies.sampled = output.sampled_token_ids.detach().clone()
        copies.sampled_counts = counted.detach().clone() if isinstance(counted, torch.Tensor) else None
        recording.submit()

    def tap_parts() -> None:
        # These come to be when the model is loaded, after the device is set up.
        for name in ("sampler", "rejection_sampler"):
            part = getattr(runner, name, None)
            if part is not None:
                taps.around(type(part), "__call__", before=before_sampler)
        if getattr(runner, "structured_outputs_worker", None) is not None:
            taps.around(runner.structured_outputs_worker, "apply_grammar_bitmask", before=before_mask)

    recording.at_begin = tap_parts
    taps.around(runner, "sample", before=before_sample, after=after_sample)


def _copy_grammar(copies: StepCopies, grammar_output: Any) -> None:
    if grammar_output is not None:
        copies.grammar_requests = list(grammar_output.structured_output_request_ids)
        copies.grammar_words = grammar_output.grammar_bitmask.copy()


def _copy_forbidden(copies: StepCopies, logits: torch.Tensor) -> None:
    if copies.grammar_words is not None:
        copies.forbidden = logits == -torch.inf


def _tap_state(recording: _Recording) -> None:
    """Recurrent layers are told where their state is by the metadata that is built for every step."""
    for groups in getattr(recording.runner, "attn_groups", None) or []:
        for group in groups:
            if "MambaSpec" not in {base.__name__ for base in type(group.kv_cache_spec).__mro__}:
                continue

            def after_build(_: Any, metadata: Any, *__: Any, **___: Any) -> None:
                recording.state_metadata = metadata

            for builder in group.metadata_builders:
                recording.taps.around(builder, "build", after=after_build)
            return


def _state_parts(metadata: Any) -> dict[str, torch.Tensor]:
    """What the recurrent kernels were told, copied where it is; `rows` puts it together."""
    names = {
        "accepted": "num_accepted_tokens",
        "decodes": "state_indices_tensor_d",
        "prompts": "state_indices_tensor_p",
        "drafted": "spec_state_indices_tensor",
        "undrafted": "non_spec_state_indices_tensor",
        "is_drafted": "spec_sequence_masks",
    }
    found = {part: getattr(metadata, name, None) for part, name in names.items()}
    # A table has a column per checkpoint; the first names the sequence's row.
    return {
        part: (tensor[:, 0] if tensor.dim() > 1 else tensor).clone()
        for part, tensor in found.items()
        if isinstance(tensor, torch.Tensor)
    }


def _hello(runner: Any, newer: bool, missing: list[str]) -> dict[str, Any]:
    device = getattr(runner, "device", None)
    kind = getattr(device, "type", None)
    name = torch.cuda.get_device_name(device) if kind == "cuda" else None
    isa = ".".join(map(str, torch.cuda.get_device_capability(device))) if kind == "cuda" else None
    if kind == "cpu":
        isa = torch.backends.cpu.get_cpu_capability().lower()
    return {
        "kind": "hello",
        "runner": f"{type(runner).__module__}.{type(runner).__qualname__}",
        "generation": "v2" if newer else "v1",
        "device": kind,
        "device_name": name,
        "isa": isa,
        "threads": torch.get_num_threads() if kind == "cpu" else None,
        "missing": missing,
    }


class _Outlet:
    """The thread that turns copies into messages."""

    def __init__(self, settings: Settings, send: Send) -> None:
        self._settings = settings
        self._send = send
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="stepscope-rows", daemon=True).start()

    def has_room(self, size: int) -> bool:
        """Whether so many more bytes may wait."""
        return self._waiting + size <= self._settings.queue_bytes

    def put(self, item: Any) -> None:
        """Hands over copies, or a message that is ready."""
        if isinstance(item, StepCopies):
            with self._lock:
                self._waiting += item.bytes
            if item.read is not None and item.read.is_cuda:
                # The recorder's thread has a stream of its own and must not run ahead of these copies.
                event = torch.cuda.Event()
                event.record()
                item = (event, item)
        self._queue.put(item)

    def lost(self, reason: str) -> None:
        """Something of the rows is missing."""
        self._queue.put({"kind": "lost", "channel": "logits", "reason": reason})

    def _run(self) -> None:
        stream = None
        while True:
            item = self._queue.get()
            try:
                if isinstance(item, tuple):
                    event, item = item
                    event.synchronize()
                    stream = stream or torch.cuda.Stream(device=item.read.device)
                    with torch.cuda.stream(stream):
                        self._summarize(item)
                elif isinstance(item, StepCopies):
                    self._summarize(item)
                else:
                    self._send(item)
            except Exception as error:
                step = getattr(item, "step", None)
                logger.warning("stepscope: the rows of step %s are lost", step, exc_info=error)
                reason = f"the rows could not be summarized: {type(error).__name__}: {error}"
                self._send({"kind": "unread", "step": step, "reason": reason[:500]})
            finally:
                if isinstance(item, StepCopies):
                    with self._lock:
                        self._waiting -= item.bytes

    def _summarize(self, copies: StepCopies) -> None:
        settings = self._settings
        with torch.inference_mode():
            message = summarize(copies, settings.tier, settings.top, settings.statistics)
        self._send({"kind": "rows", **message})
