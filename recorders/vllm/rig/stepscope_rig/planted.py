"""When and to whom a fault happened: what a capture of it has to say."""

from __future__ import annotations

import functools
import json
import os
from typing import Any

_step: list[int | None] = [None]


def follow_steps() -> None:
    """Keeps the number of the step that is computed, or committed, in this process. The recorder numbers steps."""
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    for owner, name in ((Scheduler, "update_from_output"), (GPUModelRunner, "execute_model")):
        setattr(owner, name, _following(getattr(owner, name)))


def note(fault: str, request: str) -> None:
    """`fault` happens to `request` in the step that is at work."""
    path = os.environ.get("STEPSCOPE_PLANTED")
    if path:
        with open(path, "a") as stream:
            stream.write(json.dumps({"fault": fault, "request": request, "step": _step[0]}) + "\n")


def _following(original: Any) -> Any:
    @functools.wraps(original)
    def follow(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        _step[0] = getattr(scheduler_output, "stepscope_step", None)
        return original(self, scheduler_output, *args, **kwargs)

    return follow
