"""One attempt at a step: what is tried again when it fails, each time within its own time."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from weft.patterns.contract import Call, Step, Value, perform
from weft.patterns.in_time import InTime, Late
from weft.patterns.retry_rules import AttemptTimedOut
from weft.patterns.timeout import timed_out


class Attempt(Protocol):
    """Does a step once; the name is what traces and errors call it, if not by its own."""

    def __call__(self, value: Value, call: Call, name: str = "") -> Coroutine[Any, Any, Value]: ...


def attempt_at(inner: Step, timeout_ms: int | None) -> Attempt:
    """Return what does a step once, within a time limit of its own if it has one."""
    if timeout_ms is None:
        return lambda value, call, name="": perform(inner, value, call, name)
    seconds = timeout_ms / 1000

    async def bounded(value: Value, call: Call, name: str = "") -> Value:
        clock = call.root.clock
        limit = clock.now() + seconds
        if limit >= call.deadline:
            return await perform(inner, value, call, name)
        try:
            return await InTime(perform(inner, value, call, name, until=limit), call.root, limit)
        except Late as late:
            raise timed_out(timeout_ms, clock.now() - limit, kind=AttemptTimedOut) from late.__cause__

    return bounded
