"""Taps in the process of the scheduler: requests, schedules, drafts, masks, commits.

They sit on the scheduler that actually runs. What they take along are copies of short lists; the rows of a batch's
masks are the largest of them.
"""

from __future__ import annotations

import atexit
import json
import logging
import threading
from dataclasses import dataclass, field
from typing import Any

from . import identity, records
from .link import Listener
from .params import SOURCES, resolved
from .recorder import Recorder
from .settings import Settings
from .taps import Failures, Taps

logger = logging.getLogger("stepscope_vllm")

ENGINES: list["Engine"] = []
"""The engines of this process; a worker in the same process hands its rows over directly."""


@dataclass
class _Drafts:
    """What became of a drafter's proposal before it was scheduled."""

    raw: list[int]
    legal: int


@dataclass
class _Sequence:
    """What the recorder keeps of a request that runs."""

    number: int
    request: Any
    client_stop_tokens: list[int] | None = None
    drafts: _Drafts | None = None
    last_emitted: int | None = None
    prompt_read: int = 0
    grammar: "_Consumed | None" = None
    is_ended: bool = False


@dataclass
class _Planned:
    """One request in a step that was scheduled."""

    name: str
    sequence: _Sequence
    q_len: int
    first: int
    drafts: list[int]
    placeholders: bool
    proposal: _Drafts | None
    cached_prefix: int | None
    masks: list[bytes] | None = None
    consumed: int | None = None
    reasoning: bool = False


@dataclass
class _Plan:
    """A step between its schedule and its commit."""

    step: int
    requests: dict[str, _Planned] = field(default_factory=dict)


class Engine:
    """The recording of one scheduler."""

    def __init__(self, scheduler: Any, settings: Settings, link: str) -> None:
        self.scheduler = scheduler
        self.config = scheduler.vllm_config
        self.settings = settings
        weights = identity.weights(str(self.config.model_config.model), settings.hash_bytes)
        self.recorder = Recorder(settings, lambda recorder: identity.header(self.config, scheduler, recorder, weights))
        configured = getattr(getattr(self.config, "structured_outputs_config", None), "backend", "auto")
        if configured != "auto":
            self.recorder.grammar_backend = configured
        self._end_tokens = set(identity.end_tokens(self.config, scheduler) or ())
        self._vocabulary = self.config.model_config.get_vocab_size()
        self._is_async = bool(getattr(self.config.scheduler_config, "async_scheduling", False))
        self._sequences: dict[str, _Sequence] = {}
        self._numbers = 0
        self._steps = 0
        self._plans: dict[int, _Plan] = {}
        self._listener = self._listen(link)
        failures = Failures(self.recorder.lost)
        self._taps = Taps(failures.report)
        self._tap()
        warning = identity.unsupported(identity.vllm_version())
        for message in ([warning] if warning else []) + [f"this vLLM has no {what}" for what in self._taps.missing]:
            self._event("warning", message)
        ENGINES.append(self)
        atexit.register(self.close)

    def close(self) -> None:
        """Ends the capture, and with it what an engine that failed left behind."""
        for name, sequence in list(self._sequences.items()):
            if not sequence.is_ended:
                is_finished = sequence.request.is_finished()
                if not is_finished:
                    self._event("warning", "the engine ended before the request did", sequence.number)
                self._end(name, sequence, None if is_finished else "cancelled")
        self.recorder.close()
        if self._listener is not None:
            self._listener.close()
        if self in ENGINES:
            ENGINES.remove(self)

    def _listen(self, link: str) -> Listener | None:
        try:
            return Listener(link, self.recorder.put)
        except OSError as error:
            # A worker in this process needs no link.
            self.recorder.lost(f"worker processes cannot be listened to at {link}: {error}", "logits")
            return None

    def _tap(self) -> None:
        scheduler, taps = self.scheduler, self._taps
        taps.around(scheduler, "add_request", before=self._before_admission)
        taps.around(scheduler, "schedule", after=self._after_schedule)
        taps.around(
            scheduler, "update_draft_token_ids", before=self._before_drafts, after=self._after_drafts
        )
        taps.around(
            scheduler,
            "update_draft_token_ids_in_output",
            before=self._before_drafts_in_output,
            after=self._after_drafts_in_output,
        )
        taps.around(
            scheduler, "get_grammar_bitmask", before=self._before_masks, after=self._after_masks
        )
        taps.around(scheduler, "update_from_output", before=self._before_commit, after=self._after_commit)
        taps.around(scheduler, "finish_requests", after=self._after_finish)

    def _event(self, kind: str, message: str, number: int | None = None, step: int | None = None) -> None:
        record = records.event(self.recorder.now(), kind, message, number, step)
        self.recorder.put({"kind": "event", "record": record})

    # Requests.

    def _before_admission(self, request: Any, *_: Any, **__: Any) -> None:
        name = request.request_id
        known = self._sequences.get(name)
        if known is not None and not known.request.is_finished():
            self._event("warning", "a request went on with further input, which is not recorded", known.number)
            return
        if request.sampling_params is None:
            return
        # What the front end noted travels inside the request; vLLM itself must not see it.
        params = request.sampling_params
        noted = (params.extra_args or {}).get(SOURCES)
        if noted is not None:
            params.extra_args = {k: v for k, v in params.extra_args.items() if k != SOURCES} or None
        sequence = _Sequence(self._numbers, request)
        sequence.client_stop_tokens = (noted or {}).get("stop_token_ids")
        self._numbers += 1
        self._sequences[name] = sequence
        prompt = list(request.prompt_token_ids or [])
        keep = self.settings.prompts
        warnings = []
        if request.prompt_embeds is not None:
            warnings.append("part of the prompt was given as embeddings, which are not recorded")
        if request.mm_features:
            warnings.append("the prompt has images or other media, which are not recorded")
        record = {
            "request": sequence.number,
            "client_id": name if keep else None,
            "time_ns": self.recorder.now(),
            "endpoint": (noted or {}).get("endpoint"),
            "prompt_tokens": prompt if keep else [0] * len(prompt),
            "params": resolved(params, noted) if noted is not None else None,
            "choices": 1,
            "warnings": warnings,
            "constraint": self._constraint(request) if keep else None,
        }
        self.recorder.put({"kind": "admit", "record": record, "backend": _backend(params)})

    def _constraint(self, request: Any) -> dict[str, Any] | None:
        structured = request.structured_output_request
        if structured is None:
            return None
        option, source = structured.structured_output_key
        kind = {
            "JSON": "json_schema", "JSON_OBJECT": "json_object", "REGEX": "regex", "CHOICE": "choice",
            "STRUCTURAL_TAG": "structural_tag",
        }.get(option.name)  # fmt: skip
        if kind is None:
            is_lark = _backend(request.sampling_params) == "guidance" and "::=" not in source
            kind = "lark" if is_lark else "ebnf" if option.name == "GRAMMAR" else option.name.lower()
        if not isinstance(source, str):
            source = json.dumps(source)
        return {"kind": kind, "source": source, "begins_after": self._reasoning_end(request)}

    def _reasoning_end(self, request: Any) -> int | None:
        manager = self.scheduler.structured_output_manager
        if not self._is_reasoning(request) or not hasattr(manager, "_get_reasoner"):
            return None
        token = getattr(manager._get_reasoner(request), "end_token_id", None)
        return token if isinstance(token, int) else None

    def _is_reasoning(self, request: Any) -> bool:
        manager = self.scheduler.structured_output_manager
        if getattr(manager, "reasoner_cls", None) is None or getattr(manager, "enable_in_reasoning", False):
            return False
        return not request.structured_output_request.reasoning_ended

    def _after_finish(self, _: Any, finished: Any, *__: Any, **___: Any) -> None:
        for name, sequence in list(self._sequences.items()):
            if not sequence.is_ended and sequence.request.is_finished():
                self._end(name, sequence)

    def _end(self, name: str, sequence: _Sequence, stop: Any = None) -> None:
        request = sequence.request
        sequence.is_ended = True
        del self._sequences[name]
        record = {
            "request": sequence.number,
            "choice": 0,
            "time_ns": self.recorder.now(),
            "stop": stop or self._stop(sequence),
            "emitted_tokens": request.num_output_tokens,
        }
        self.recorder.put({"kind": "end", "record": record})

    def _stop(self, sequence: _Sequence) -> Any:
        request = sequence.request
        status, params = request.status.name, request.sampling_params
        if status == "FINISHED_STOPPED" and request.num_output_tokens:
            last = request.output_token_ids[-1]
            by_client = sequence.client_stop_tokens is None or last in sequence.client_stop_tokens
            if last == getattr(params, "eos_token_id", None):
                return {"end_token": last}
            if request.stop_reason == last:
                return {"end_token": last} if last in self._end_tokens and not by_client else {"stop_token": last}
        if status == "FINISHED_LENGTH_CAPPED":
            return "max_tokens" if request.num_output_tokens >= request.max_tokens else "context_full"
        if status == "FINISHED_ERROR":
            return {"failed": "the engine ended the request with an error"}
        if status == "FINISHED_ABORTED" and not params.stop:
            return "cancelled"
        # With stop strings an abort can be the front end's way of saying that one was found.
        return None

    # Steps.

    def _after_schedule(self, _: Any, output: Any, *__: Any, **___: Any) -> None:
        if not output.total_num_scheduled_tokens:
            return
        plan = _Plan(self._steps)
        self._steps += 1
        firsts = {new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs}
        cached = output.scheduled_cached_reqs
        firsts_again = dict(zip(cached.req_ids, cached.num_computed_tokens))
        for name, q_len in output.num_scheduled_tokens.items():
            sequence = self._sequences.get(name)
            if sequence is None:
                continue
            is_new = name in firsts
            drafts = list(output.scheduled_spec_decode_tokens.get(name) or ())
            plan.requests[name] = _Planned(
                name=name,
                sequence=sequence,
                q_len=q_len,
                first=firsts[name] if is_new else firsts_again.get(name, 0),
                drafts=drafts,
                placeholders=bool(drafts) and all(draft == -1 for draft in drafts),
                proposal=sequence.drafts,
                cached_prefix=firsts[name] if is_new else 0,
            )
            sequence.drafts = None
        self._plans[plan.step] = plan
        # Travels with the schedule to the worker, so that both halves know which step they are of.
        output.stepscope_step = plan.step

    def _before_drafts(self, drafts: Any, *_: Any, **__: Any) -> dict[str, list[int]]:
        return {name: list(tokens) for name, tokens in zip(drafts.req_ids, drafts.draft_token_ids)}

    def _after_drafts(self, raw: dict[str, list[int]] | None, *_: Any, **__: Any) -> None:
        for name, tokens in (raw or {}).items():
            sequence = self._sequences.get(name)
            request = self.scheduler.requests.get(name)
            if sequence is None or request is None or getattr(request, "is_prefill_chunk", False):
                continue
            sequence.drafts = _Drafts(tokens, len(request.spec_token_ids))

    def _before_drafts_in_output(self, drafts: Any, *_: Any, **__: Any) -> dict[str, list[int]]:
        return self._before_drafts(drafts)

    def _after_drafts_in_output(self, raw: Any, _: Any, drafts: Any, output: Any, *__: Any, **___: Any) -> None:
        plan = self._plans.get(getattr(output, "stepscope_step", -1))
        if plan is None:
            return
        for name, tokens in (raw or {}).items():
            planned = plan.requests.get(name)
            scheduled = output.scheduled_spec_decode_tokens.get(name)
            if planned is None or not planned.drafts or scheduled is None:
                continue
            planned.drafts = list(scheduled)
            # Drafts that were all refused are known; placeholders are not.
            planned.placeholders = all(token == -1 for token in tokens)
            if not planned.placeholders:
                legal = next((i for i, token in enumerate(scheduled) if token == -1), len(scheduled))
                planned.proposal = _Drafts(tokens, legal)

    def _before_masks(self, output: Any, *_: Any, **__: Any) -> None:
        plan = self._plans.get(getattr(output, "stepscope_step", -1))
        for planned in plan.requests.values() if plan is not None else ():
            request = planned.sequence.request
            structured = request.structured_output_request
            if structured is None:
                continue
            grammar = structured.grammar
            planned.reasoning = self._is_reasoning(request)
            if planned.sequence.grammar is None and hasattr(grammar, "accept_tokens"):
                planned.sequence.grammar = _Consumed(grammar)
            if planned.sequence.grammar is not None:
                planned.consumed = planned.sequence.grammar.count()

    def _after_masks(self, _: Any, grammar_output: Any, output: Any, *__: Any, **___: Any) -> None:
        plan = self._plans.get(getattr(output, "stepscope_step", -1))
        if plan is None or grammar_output is None:
            return
        # vLLM fills the same buffer again in the next step.
        words, row = grammar_output.grammar_bitmask.copy(), 0
        for name in grammar_output.structured_output_request_ids:
            count = 1 + len(output.scheduled_spec_decode_tokens.get(name) or ())
            planned = plan.requests.get(name)
            if planned is not None:
                planned.masks = [words[row + index].tobytes() for index in range(count) if row + index < len(words)]
            row += count

    def _before_commit(self, output: Any, result: Any, *_: Any, **__: Any) -> Any:
        sampled = result.sampled_token_ids
        before = {}
        for name in output.num_scheduled_tokens:
            sequence = self._sequences.get(name)
            index = result.req_id_to_index.get(name)
            if sequence is None:
                continue
            tokens = list(sampled[index]) if sampled and index is not None else None
            before[name] = (sequence.request.num_output_tokens, sequence.request.is_finished(), tokens)
        return before

    def _after_commit(self, before: Any, _: Any, output: Any, *__: Any, **___: Any) -> None:
        plan = self._plans.pop(getattr(output, "stepscope_step", -1), None)
        if plan is None or before is None:
            return
        time_ns = self.recorder.now()
        half: dict[str, Any] = {
            "kind": "step",
            "step": plan.step,
            "time_ns": time_ns,
            "scheduler": "async" if self._is_async else "sync",
            "vocabulary": self._vocabulary,
            "requests": [],
        }
        ended = []
        for name, planned in plan.requests.items():
            if name in before:
                half["requests"].append(self._committed(planned, *before[name]))
                if planned.sequence.request.is_finished():
                    ended.append((name, planned.sequence))
        self.recorder.put(half)
        for name, sequence in ended:
            if name in self._sequences:
                self._end(name, sequence)

    def _committed(
        self, planned: _Planned, outputs: int, was_finished: bool, sampled: list[int] | None
    ) -> dict[str, Any]:
        sequence, request = planned.sequence, planned.sequence.request
        prompt = request.num_prompt_tokens
        emitted = list(request.output_token_ids[outputs:])
        last = prompt + outputs - 1
        is_prompt = outputs == 0
        ends_prompt = is_prompt and planned.first + planned.q_len >= prompt
        # Only what was scheduled as a continuation is one: after a preemption a request reads everything again.
        if is_prompt:
            recomputes = planned.first < sequence.prompt_read
            first = max(planned.first, min(sequence.prompt_read, prompt - 1))
            sequence.prompt_read = max(sequence.prompt_read, planned.first + planned.q_len)
        else:
            recomputes, first = planned.q_len != 1 + len(planned.drafts), last
        if recomputes:
            self._event("preempted", f"{planned.q_len} positions were computed again", sequence.number)
        discarded = was_finished or (recomputes and not emitted)
        fact = {
            "id": planned.name,
            "number": sequence.number,
            "discarded": discarded,
            "is_prompt": is_prompt,
            "recomputes": recomputes,
            "first_position": first,
            "row_position": last,
            "has_rows": ends_prompt or not is_prompt,
            "q_len": planned.q_len,
            "drafts": planned.drafts,
            "placeholders": planned.placeholders,
            "drafts_raw": planned.proposal.raw if planned.proposal is not None else None,
            "legal_drafts": planned.proposal.legal if planned.proposal is not None else None,
            "cached_prefix": planned.cached_prefix if not recomputes else None,
            "prev_accepted": None if is_prompt or recomputes else sequence.last_emitted,
            "emitted": emitted,
            "sampled": sampled,
            "by_chance": (request.sampling_params.temperature or 0) > 0,
            "seed": request.sampling_params.seed,
            "masks": planned.masks if not planned.reasoning else None,
            "grammar": self._grammar_step(planned),
            "stop": self._stop(sequence) if request.is_finished() and not was_finished else None,
        }
        if emitted:
            sequence.last_emitted = len(emitted)
        return fact

    def _grammar_step(self, planned: _Planned) -> dict[str, Any] | None:
        grammar = planned.sequence.grammar
        if grammar is None or planned.consumed is None:
            return None
        return {
            "before": planned.consumed,
            "after": grammar.count(),
            "terminated": grammar.is_terminated(),
            "reasoning": planned.reasoning,
        }


class _Consumed:
    """How many tokens a grammar has consumed, by its own count or by watching it."""

    def __init__(self, grammar: Any) -> None:
        self._grammar = grammar
        self._counts_itself = hasattr(grammar, "num_processed_tokens")
        self._watched = 0
        if not self._counts_itself:
            self._watch()

    def count(self) -> int:
        """Tokens consumed and not taken back."""
        return self._grammar.num_processed_tokens if self._counts_itself else self._watched

    def is_terminated(self) -> bool:
        """Whether the grammar says that it is complete."""
        return bool(self._grammar.is_terminated())

    def _watch(self) -> None:
        grammar = self._grammar
        accept, rollback = grammar.accept_tokens, grammar.rollback

        def watched_accept(request_id: str, tokens: list[int]) -> bool:
            # What comes after the end is let pass and consumed by nobody.
            was_terminated = grammar.is_terminated()
            accepted = accept(request_id, tokens)
            if accepted and not was_terminated:
                self._watched += len(tokens)
            return accepted

        def watched_rollback(count: int) -> None:
            rollback(count)
            self._watched = max(self._watched - count, 0)

        grammar.accept_tokens, grammar.rollback = watched_accept, watched_rollback


def _backend(params: Any) -> str | None:
    structured = getattr(params, "structured_outputs", None)
    return getattr(structured, "_backend", None) if structured is not None else None


_LOCK = threading.Lock()


def begin(scheduler: Any, settings: Settings, link: str) -> None:
    """Records a scheduler that was just made."""
    with _LOCK:
        if getattr(scheduler, "_stepscope", None) is None:
            scheduler._stepscope = Engine(scheduler, settings, link)
