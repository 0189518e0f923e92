"""What the recorder does in the process that takes requests."""

import sys
import time
from types import ModuleType

from stepscope_vllm import frontend
from stepscope_vllm.taps import Taps


class Process:
    """Ends `seconds` after it was told to."""

    def __init__(self, seconds):
        self.seconds, self.told, self.alive = seconds, 0, True

    def is_alive(self):
        return self.alive

    def terminate(self):
        self.told += 1

    def join(self, timeout):
        if self.told and timeout >= self.seconds:
            self.alive = False
        else:
            time.sleep(0)


def test_engines_may_end_before_they_are_killed(monkeypatch):
    killed = []
    engines = ModuleType("vllm.v1.engine.utils")
    engines.shutdown = lambda processes, timeout=None: killed.extend(one for one in processes if one.is_alive())
    monkeypatch.setitem(sys.modules, "vllm.v1.engine.utils", engines)
    failures = []
    frontend.tap(Taps(lambda where, error: failures.append((where, error))))
    quick, slow, gone = Process(1), Process(60), Process(0)
    gone.alive = False
    engines.shutdown([quick, slow, gone], timeout=0)
    assert killed == [slow] and gone.told == 0 and not failures
