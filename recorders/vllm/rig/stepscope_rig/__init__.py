"""A test rig: plants faults in a running vLLM from outside, and makes the CPU build do what only others do.

`STEPSCOPE_FAULTS` and `STEPSCOPE_RIG` name what is wanted, separated by commas. Without them nothing happens. Where
`STEPSCOPE_PLANTED` names a file, every fault writes there when and to whom it happened.
"""

from __future__ import annotations

import os

_registered = False


def register() -> None:
    """vLLM's plugin entry point, called in every process."""
    global _registered
    if _registered:
        return
    _registered = True
    from . import conditions, faults, planted

    if os.environ.get("STEPSCOPE_FAULTS"):
        planted.follow_steps()

    for variable, known in (("STEPSCOPE_RIG", conditions.CONDITIONS), ("STEPSCOPE_FAULTS", faults.FAULTS)):
        for name in filter(None, os.environ.get(variable, "").split(",")):
            if name not in known:
                raise SystemExit(f"{variable}: expected some of {', '.join(known)}; found {name!r}")
            known[name]()
            print(f"stepscope-rig: {name} in process {os.getpid()}", flush=True)
