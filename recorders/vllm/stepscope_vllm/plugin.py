"""The entry point that vLLM calls in every process."""

from __future__ import annotations

import logging
import signal
from typing import Any

from .settings import SettingError, Settings

logger = logging.getLogger("stepscope_vllm")

_registered = False


def register() -> None:
    """Prepares this process for recording, if `STEPSCOPE_CAPTURE` asks for it. vLLM runs on whatever happens here."""
    global _registered
    if _registered:
        return
    _registered = True
    try:
        settings = Settings.read()
        if settings is not None:
            _register(settings)
    except SettingError as error:
        logger.error("stepscope: nothing is recorded: %s", error)
    except Exception:
        logger.exception("stepscope: nothing is recorded")


def _register(settings: Settings) -> None:
    import vllm.v1.core.sched.scheduler as scheduling
    import vllm.v1.worker.worker_base as working

    from . import engine, frontend, worker
    from .link import Address, Sender
    from .signals import held_off
    from .taps import Failures, Taps

    address = Address()
    sender: list[Sender] = []
    early: list[dict[str, Any]] = []

    def send(message: dict[str, Any]) -> None:
        """To the recorder in this process, or else to the parent's. A worker in the scheduler's own process speaks
        before there is a scheduler."""
        if engine.ENGINES:
            recorder = engine.ENGINES[-1].recorder
            while early:
                recorder.put(early.pop(0))
            recorder.put(message)
            return
        if message["kind"] == "hello":
            early.append(dict(message))
        if not sender:
            sender.append(Sender(address.parent))
        sender[0].send(message)

    def lost(reason: str) -> None:
        if engine.ENGINES:
            engine.ENGINES[-1].recorder.lost(reason)

    taps = Taps(Failures(lost).report)

    def after_scheduler(_: Any, __: Any, scheduler: Any, *___: Any, **____: Any) -> None:
        engine.begin(scheduler, settings, address.own)

    def after_device(_: Any, __: Any, wrapper: Any, *___: Any, **____: Any) -> None:
        worker.tap(getattr(wrapper, "worker", wrapper), settings, send)

    def before_shutdown(core: Any, *_: Any, **__: Any) -> None:
        recording = getattr(getattr(core, "scheduler", None), "_stepscope", None)
        if recording is not None:
            with held_off(signal.SIGTERM):
                recording.close()

    taps.around(scheduling.Scheduler, "__init__", after=after_scheduler)
    taps.around(working.WorkerWrapperBase, "init_device", after=after_device)
    frontend.tap(taps, settings.end_seconds)
    import vllm.v1.engine.core as core

    taps.around(core.EngineCore, "shutdown", before=before_shutdown)
