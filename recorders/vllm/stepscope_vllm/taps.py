"""Puts taps around vLLM's functions. A tap that fails is reported and never felt by a request."""

from __future__ import annotations

import functools
import logging
from typing import Any, Callable

logger = logging.getLogger("stepscope_vllm")

Before = Callable[..., Any]
After = Callable[..., None]
Report = Callable[[str, BaseException], None]


class Taps:
    """What was tapped in this process, and what could not be found."""

    def __init__(self, report: Report) -> None:
        self.missing: list[str] = []
        self._report = report

    def around(self, owner: Any, name: str, before: Before | None = None, after: After | None = None) -> bool:
        """Calls `before` with the arguments of `owner.name`, and `after` with what `before` gave, the result and the
        arguments. Says whether there is such a function."""
        original = getattr(owner, name, None)
        if not callable(original):
            self.lacks(f"{_name(owner)}.{name}")
            return False
        if getattr(original, "_stepscope", False):
            return True
        where, report = f"{_name(owner)}.{name}", self._report

        @functools.wraps(original)
        def tapped(*args: Any, **kwargs: Any) -> Any:
            found = None
            if before is not None:
                try:
                    found = before(*args, **kwargs)
                except Exception as error:
                    report(where, error)
            result = original(*args, **kwargs)
            if after is not None:
                try:
                    after(found, result, *args, **kwargs)
                except Exception as error:
                    report(where, error)
            return result

        tapped._stepscope = True
        setattr(owner, name, tapped)
        return True

    def lacks(self, what: str) -> None:
        """Notes what this vLLM does not have."""
        if what not in self.missing:
            self.missing.append(what)
            logger.warning("stepscope: this vLLM has no %s; what it would tell is not recorded", what)


class Failures:
    """Counts failures of taps and tells of the first of each kind."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        self._lost = lost
        self._seen: set[tuple[str, str]] = set()

    def report(self, where: str, error: BaseException) -> None:
        """A tap at `where` failed."""
        reason = f"the recorder failed at {where}: {type(error).__name__}: {error}"
        key = (where, type(error).__name__)
        if key not in self._seen:
            self._seen.add(key)
            logger.warning("stepscope: %s; requests go on", reason, exc_info=error)
        try:
            self._lost(reason[:500])
        except Exception:
            logger.exception("stepscope: a loss could not be recorded")


def _name(owner: Any) -> str:
    return owner.__name__ if hasattr(owner, "__name__") else type(owner).__name__
