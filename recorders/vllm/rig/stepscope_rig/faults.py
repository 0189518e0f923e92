"""Faults, each of a real bug's shape, planted in the older model runner and the scheduler of a running vLLM."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch

from .planted import note


def neighbours_mask() -> None:
    """Every constrained request gets the mask rows of the one after it."""
    import numpy
    from vllm.v1.worker import gpu_model_runner as runner

    original = runner.apply_grammar_bitmask

    def apply(scheduler_output: Any, grammar_output: Any, input_batch: Any, logits: torch.Tensor) -> None:
        rows = grammar_output.grammar_bitmask
        names = grammar_output.structured_output_request_ids
        if len(names) > 1:
            first = 1 + len(scheduler_output.scheduled_spec_decode_tokens.get(names[0], ()))
            moved = numpy.roll(rows, -first, axis=0)
            row = 0
            for name in names:
                end = row + 1 + len(scheduler_output.scheduled_spec_decode_tokens.get(name, ()))
                if name in input_batch.req_ids and (moved[row:end] != rows[row:end]).any():
                    note("neighbours-mask", name)
                row = end
            grammar_output = dataclasses.replace(grammar_output, grammar_bitmask=moved)
        original(scheduler_output, grammar_output, input_batch, logits)

    runner.apply_grammar_bitmask = apply


def unmasked_bonus() -> None:
    """The row after the last draft is not masked."""
    from vllm.v1.worker import gpu_model_runner as runner

    original = runner.apply_grammar_bitmask

    def apply(scheduler_output: Any, grammar_output: Any, input_batch: Any, logits: torch.Tensor) -> None:
        before = logits.clone()
        original(scheduler_output, grammar_output, input_batch, logits)
        end = 0
        for name in input_batch.req_ids:
            drafts = len(scheduler_output.scheduled_spec_decode_tokens.get(name, ()))
            end += 1 + drafts
            if drafts and not torch.equal(logits[end - 1], before[end - 1]):
                logits[end - 1] = before[end - 1]
                note("unmasked-bonus", name)

    runner.apply_grammar_bitmask = apply


def late_grammar() -> None:
    """The grammar is told of every token one commit late."""
    from vllm.v1.structured_output import StructuredOutputManager

    original = StructuredOutputManager.accept_tokens
    held: dict[str, int] = {}

    def accept_tokens(self: Any, request: Any, new_token_ids: list[int]) -> bool:
        if not request.use_structured_output or not new_token_ids:
            return original(self, request, new_token_ids)
        name = request.request_id
        tokens = ([held.pop(name)] if name in held else []) + list(new_token_ids)
        held[name] = tokens.pop()
        note("late-grammar", name)
        if tokens:
            original(self, request, tokens)
        return True

    StructuredOutputManager.accept_tokens = accept_tokens


def wrong_accept() -> None:
    """A first draft that the target's row does not give is accepted all the same, in greedy requests."""
    from vllm.v1.sample import rejection_sampler as sampler
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    original = sampler.rejection_sample
    original_sample = GPUModelRunner._sample
    names: list[str] = []

    @functools.wraps(original_sample)
    def sample(self: Any, *args: Any, **kwargs: Any) -> Any:
        names[:] = self.input_batch.req_ids
        return original_sample(self, *args, **kwargs)

    @functools.wraps(original)
    def rejection_sample(draft_token_ids: Any, num_draft_tokens: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        output = original(draft_token_ids, num_draft_tokens, *args, **kwargs)
        target_logits, metadata = args[3], args[5]
        start = 0
        for request, count in enumerate(num_draft_tokens):
            is_greedy = metadata.all_greedy or metadata.temperature[request] == 0
            if is_greedy and count > 1 and output[request, 0] != draft_token_ids[start] and draft_token_ids[start] >= 0:
                output[request, 0] = draft_token_ids[start]
                output[request, 1] = target_logits[start + 1].argmax()
                note("wrong-accept", names[request])
            start += count
        return output

    GPUModelRunner._sample = sample
    sampler.rejection_sample = rejection_sample


def past_the_end() -> None:
    """A sequence goes on after its end token, for one step."""
    from vllm.v1.core.sched import scheduler
    from vllm.v1.request import RequestStatus

    original = scheduler.check_stop
    spared: set[str] = set()

    def check_stop(request: Any, max_model_len: int) -> bool:
        stopped = original(request, max_model_len)
        if stopped and request.status == RequestStatus.FINISHED_STOPPED and request.request_id not in spared:
            spared.add(request.request_id)
            request.status = RequestStatus.RUNNING
            request.stop_reason = None
            note("past-the-end", request.request_id)
            return False
        return stopped

    scheduler.check_stop = check_stop


def nan_row() -> None:
    """One logit of the last row of every seventh step is NaN."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    original = GPUModelRunner.execute_model
    steps = [0]

    @functools.wraps(original)
    def execute_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        logits = getattr(self.execute_model_state, "logits", None)
        if logits is not None:
            steps[0] += 1
            if steps[0] % 7 == 0:
                logits[-1, 5] = torch.nan
                note("nan-row", self.input_batch.req_ids[-1])
        return result

    GPUModelRunner.execute_model = execute_model


def ignored_seed() -> None:
    """A request's seed is not used: it draws with the generator that all others share."""
    from vllm.v1.worker.gpu_input_batch import InputBatch
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    original_add = InputBatch.add_request
    original_sample = GPUModelRunner._sample

    @functools.wraps(original_add)
    def add_request(self: Any, request: Any) -> Any:
        request.generator = None
        return original_add(self, request)

    @functools.wraps(original_sample)
    def sample(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in self.input_batch.req_ids:
            params = self.requests[name].sampling_params
            if params.seed is not None and params.temperature > 0:
                note("ignored-seed", name)
        return original_sample(self, *args, **kwargs)

    InputBatch.add_request = add_request
    GPUModelRunner._sample = sample


FAULTS = {
    "neighbours-mask": neighbours_mask,
    "unmasked-bonus": unmasked_bonus,
    "late-grammar": late_grammar,
    "wrong-accept": wrong_accept,
    "past-the-end": past_the_end,
    "nan-row": nan_row,
    "ignored-seed": ignored_seed,
}
"""Faults by name."""
