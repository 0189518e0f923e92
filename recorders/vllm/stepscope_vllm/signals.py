"""Holding off the signal that would end a process before its capture has ended."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_off(number: signal.Signals) -> Iterator[None]:
    """Lets a signal wait until the block is left. Signals are handled on the main thread, and elsewhere nothing is held off.

    A server that is stopped sends SIGTERM to its engines. One that Ctrl-C reached as well is ending by then, and vLLM has
    taken its handlers off: the signal would kill it in the middle of the capture's end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = signal.signal(number, lambda received, _: arrived.append(received))
    try:
        yield
    finally:
        # A handler that Python did not install cannot be put back by it.
        signal.signal(number, signal.SIG_DFL if before is None else before)
        if arrived:
            os.kill(os.getpid(), number)
