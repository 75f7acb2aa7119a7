"""Timed: how long calls take, for the client to read and for somebody to count."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, TypeAlias

from weft.errors import WeftError
from weft.groups.calling import Handler, Middleware, ToolCall
from weft.groups.middleware.seen import ending, ending_of, marked

MS: Final = "weft/ms"
"""Where the `_meta` of a result says how long it took."""

Observe: TypeAlias = Callable[[str, float, str], object]
"""Is told the name of a tool (and action), the seconds, and how it ended."""


def timed(observe: Observe | None = None, *, clock: Callable[[], float] = perf_counter) -> Middleware:
    """Return middleware that adds the milliseconds to results, and tells `observe` of each call, also of a failed one.

    A plain value of a Python action becomes an outcome, since a value has no place for it.
    """

    async def middleware(call: ToolCall, next: Handler) -> Any:
        began = clock()
        try:
            value = await next(call)
        except BaseException as error:
            seconds = clock() - began
            if observe is not None:
                observe(call.name, seconds, ending_of(error)["outcome"])
            if isinstance(error, WeftError):
                marked(error, MS, _ms(seconds))
            raise
        seconds = clock() - began
        if observe is not None:
            observe(call.name, seconds, ending(value))
        return marked(value, MS, _ms(seconds))

    return middleware


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
