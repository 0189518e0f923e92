"""Conditions that vLLM's CPU build does not offer by itself."""

from __future__ import annotations

import contextlib
from typing import Any

import torch


def keep_async() -> None:
    """Asynchronous scheduling, which the CPU platform turns off. Its CUDA streams and events become nothing: on the CPU
    everything is done when the call returns."""
    from vllm.platforms.cpu import CpuPlatform

    original = CpuPlatform.check_and_update_config.__func__

    def check_and_update_config(cls: Any, config: Any) -> None:
        wanted = config.scheduler_config.async_scheduling
        original(cls, config)
        config.scheduler_config.async_scheduling = wanted

    CpuPlatform.check_and_update_config = classmethod(check_and_update_config)
    _stand_in_for_cuda()


def _stand_in_for_cuda() -> None:
    if torch.cuda.is_available():
        return

    class Nothing:
        def __init__(self, *_: Any, **__: Any) -> None:
            self.device = torch.device("cpu")

        def __getattr__(self, _: str) -> Any:
            return lambda *_, **__: None

    torch.Event = torch.cuda.Event = torch.cuda.Stream = Nothing
    torch.cuda.current_stream = torch.cuda.default_stream = lambda *_, **__: Nothing()
    torch.cuda.stream = lambda *_, **__: contextlib.nullcontext()
    torch.Tensor.record_stream = lambda *_, **__: None


def repair_expand() -> None:
    """vLLM 0.32.0's CPU kernel that spreads temperature, top-k and top-p over the rows of drafts writes into a copy
    unless these are 64-bit integers, so that sampled rows of drafts are divided by uninitialized memory. This spreads
    them as documented."""
    from vllm.v1.sample import rejection_sampler

    def expand_batch_to_tokens(
        x: torch.Tensor, cu_num_tokens: torch.Tensor, num_tokens: int, replace_from: int = 0, replace_to: int = 0
    ) -> torch.Tensor:
        counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
        values = torch.where(x == replace_from, torch.full_like(x, replace_to), x)
        return torch.repeat_interleave(values, counts.to(torch.int64), output_size=num_tokens)

    rejection_sampler.expand_batch_to_tokens = expand_batch_to_tokens


CONDITIONS = {"async": keep_async, "repair-expand": repair_expand}
"""Conditions by name."""
