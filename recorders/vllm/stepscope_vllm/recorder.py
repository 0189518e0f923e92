"""The recorder of one engine: a thread that joins, encodes and writes what the taps hand over."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from typing import Any, Callable

from . import records
from .capture import CaptureFile
from .join import Joiner
from .settings import Settings

logger = logging.getLogger("stepscope_vllm")

FLUSH_SECONDS = 2.0
BACKEND_SECONDS = 10.0
WORKER_SECONDS = 300.0
ROWS_SECONDS = 2.0
CLOSE_SECONDS = 15.0


class Recorder:
    """Takes messages from any thread. Nothing it does is felt where they come from."""

    def __init__(self, settings: Settings, header: Callable[["Recorder"], dict[str, Any]]) -> None:
        self.settings = settings
        self.epoch_ns = time.time_ns()
        self._start = time.monotonic_ns()
        self.hello: dict[str, Any] | None = None
        self.grammar_backend: str | None = None
        self._make_header = header
        self._held: list[tuple[str, dict[str, Any], int]] | None = []
        self._admitted: float | None = None
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        self._file = CaptureFile(settings.folder, f"{settings.name}-{stamp}-{os.getpid()}", self.epoch_ns)
        self._joiner = Joiner(self._emit, self.now, settings.tier)
        self._flushed = time.monotonic()
        self._failed: str | None = None
        self._done = threading.Event()
        self._closing = threading.Lock()
        self._is_closed = False
        threading.Thread(target=self._run, name="stepscope-recorder", daemon=True).start()
        logger.info("stepscope: recording to %s", self._file.path)

    def now(self) -> int:
        """Monotonic nanoseconds since the capture's epoch."""
        return time.monotonic_ns() - self._start

    def put(self, message: dict[str, Any]) -> None:
        """Takes a message; `kind` says what it is."""
        self._queue.put(message)

    def lost(self, reason: str, channel: str = "*") -> None:
        """Something should be in the capture and is not."""
        self.put({"kind": "lost", "channel": channel, "reason": reason, "time_ns": self.now()})

    def close(self) -> None:
        """Ends the capture. Rows that are still on their way are waited for, for a while."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            self._queue.put({"kind": "close"})
            if not self._done.wait(CLOSE_SECONDS):
                logger.warning("stepscope: the capture was not ended in %.0f s and stays partial", CLOSE_SECONDS)

    def _run(self) -> None:
        deadline: float | None = None
        while True:
            try:
                message = self._queue.get(timeout=0.25)
            except queue.Empty:
                message = None
            try:
                if message is not None and message["kind"] == "close":
                    # The process may be killed any moment now: what is here comes first.
                    deadline = time.monotonic() + ROWS_SECONDS
                    self._release(at_once=True)
                    self._file.flush()
                elif message is not None:
                    self._take(message)
                self._joiner.expire()
                if deadline is not None and (self._joiner.is_idle() or time.monotonic() > deadline):
                    self._end()
                    return
                self._look_at_the_clock()
            except Exception as error:
                self._fail(error)
                if self._failed is not None and deadline is not None:
                    self._done.set()
                    return

    def _take(self, message: dict[str, Any]) -> None:
        kind = message.pop("kind")
        if kind == "step":
            self._joiner.scheduler_half(message)
        elif kind == "rows":
            self._joiner.worker_half(message)
        elif kind == "unread":
            self._joiner.worker_half(
                {"step": message["step"], "requests": [], "dropped": message["reason"], "vocabulary": None}
            )
        elif kind == "admit":
            self._admitted = self._admitted or time.monotonic()
            self._grammar(message["backend"])
            self._joiner.admit(message["record"])
        elif kind == "end":
            self._joiner.end(message["record"])
        elif kind == "event":
            self._emit("event", message["record"], message["record"]["time_ns"])
        elif kind == "lost":
            time_ns = message.get("time_ns") or self.now()
            self._emit("loss", records.loss(time_ns, message["channel"], message["reason"]), time_ns)
        elif kind == "hello":
            self.hello = message

    def _grammar(self, backend: str | None) -> None:
        if backend is None or backend == self.grammar_backend:
            return
        if self._held is None:
            # The header cannot be changed any more.
            time_ns = self.now()
            self._emit("event", records.event(time_ns, "grammar_backend", f"grammars are run by {backend}"), time_ns)
        self.grammar_backend = backend

    def _emit(self, topic: str, record: dict[str, Any], time_ns: int) -> None:
        if self._failed is not None:
            return
        if self._held is not None:
            self._held.append((topic, record, time_ns))
            self._release()
        else:
            self._file.write(topic, record, time_ns)

    def _release(self, at_once: bool = False) -> None:
        """Writes the header when all is known that it should say, or when that takes too long.

        Which library runs the grammars is known when the first request asks for one, and few captures begin so; which
        runner runs, when the worker has run its first step.
        """
        waited = time.monotonic() - self._admitted if self._admitted is not None else 0.0
        knows_backend = self.grammar_backend is not None or waited > BACKEND_SECONDS
        knows_worker = self.hello is not None or waited > WORKER_SECONDS
        if self._held is None or not (at_once or (knows_backend and knows_worker)):
            return
        held, self._held = self._held, None
        self._file.write("header", self._make_header(self), 0)
        for message in held:
            self._file.write(*message)

    def _look_at_the_clock(self) -> None:
        self._release()
        if time.monotonic() - self._flushed > FLUSH_SECONDS and self._failed is None:
            self._file.flush()
            self._flushed = time.monotonic()

    def _end(self) -> None:
        self._joiner.expire(everything=True)
        self._release(at_once=True)
        if self._failed is None:
            self._file.finish()
            logger.info("stepscope: %s is complete", self._file.path)
        self._done.set()

    def _fail(self, error: Exception) -> None:
        """A disk that is full ends the recording, not the engine; anything else costs the message it was in."""
        if isinstance(error, OSError):
            if self._failed is None:
                logger.error("stepscope: recording ends: %s", error)
            self._failed = str(error)
            return
        logger.warning("stepscope: a message could not be recorded", exc_info=error)
        try:
            reason = f"the recorder failed: {type(error).__name__}: {error}"
            self._emit("loss", records.loss(self.now(), "*", reason[:500]), self.now())
        except Exception:
            logger.exception("stepscope: a loss could not be recorded")
