"""Logged: a line for each call, in which no value of an argument stands."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, Protocol

from weft.groups.calling import Handler, Middleware, ToolCall
from weft.groups.middleware.seen import ending, ending_of

_LOGGER: Final = logging.getLogger("weft.calls")


class Say(Protocol):
    """Takes a sentence and the facts that belong to it, as `weft.telemetry.logs.Log.info` does."""

    def __call__(self, message: str, /, **facts: object) -> object:
        """Say it."""
        ...


def said(message: str, /, **facts: object) -> None:
    """Say it to the logger `weft.calls` of Python's own logging."""
    if _LOGGER.isEnabledFor(logging.INFO):
        _LOGGER.info("%s", "  ".join([message, *(f"{name}={value}" for name, value in facts.items())]))


def logged(log: Say = said, *, clock: Callable[[], float] = perf_counter) -> Middleware:
    """Return middleware that says of each call which it was, whose, how it ended and how long it took."""

    async def middleware(call: ToolCall, next: Handler) -> Any:
        began = clock()
        try:
            value = await next(call)
        except BaseException as error:
            log("call", **_facts(call, clock() - began), **ending_of(error))
            raise
        log("call", **_facts(call, clock() - began), outcome=ending(value))
        return value

    return middleware


def _facts(call: ToolCall, seconds: float) -> dict[str, object]:
    action = {} if call.action is None else {"action": call.action}
    again = {"again": True} if call.again else {}
    return {"tool": call.tool, **action, **again, "principal": call.principal.id, "ms": round(seconds * 1000, 1)}
