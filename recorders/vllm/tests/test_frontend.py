"""What the recorder does in the process that takes requests."""

import sys
import time
from types import ModuleType

import pytest
from stepscope_vllm import frontend
from stepscope_vllm.taps import Taps


class Process:
    """Ends `seconds` after it was told to, or by itself."""

    def __init__(self, seconds, ends_alone=False):
        self.seconds, self.ends_alone, self.told, self.alive = seconds, ends_alone, 0, True

    def is_alive(self):
        return self.alive

    def terminate(self):
        self.told += 1

    def join(self, timeout):
        if (self.told or self.ends_alone) and timeout >= self.seconds:
            self.alive = False
        else:
            time.sleep(0)


@pytest.mark.parametrize("seconds, late", [(5, ["slow", "slower"]), (90, ["slower"])])
def test_engines_may_end_before_they_are_killed(monkeypatch, seconds, late):
    killed = []
    engines = ModuleType("vllm.v1.engine.utils")
    engines.shutdown = lambda processes, timeout=None: killed.extend(one for one in processes if one.is_alive())
    monkeypatch.setitem(sys.modules, "vllm.v1.engine.utils", engines)
    failures = []
    frontend.tap(Taps(lambda where, error: failures.append((where, error))), seconds)
    processes = {"quick": Process(1), "slow": Process(60), "slower": Process(100), "gone": Process(0)}
    processes["gone"].alive = False
    engines.shutdown(list(processes.values()), timeout=0)
    assert killed == [processes[name] for name in late] and processes["gone"].told == 0 and not failures


def test_engines_that_end_by_themselves_are_not_told_to():
    ending, running = Process(0, ends_alone=True), Process(1)
    frontend._let_end([ending, running], 5)
    assert (ending.told, ending.alive) == (0, False)
    assert (running.told, running.alive) == (1, False)
