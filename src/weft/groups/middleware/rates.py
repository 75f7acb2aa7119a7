"""Rate limited: so many calls a second, saved up to so many at once."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from time import monotonic
from typing import Any, Final, Literal, TypeAlias, get_args

from weft.errors import LimitExceeded
from weft.groups.calling import Handler, Middleware, ToolCall
from weft.groups.middleware.buckets import Buckets

Apart: TypeAlias = Literal["caller", "tool", "all"]
"""What is counted apart: each caller, each tool (and action), or nothing."""

SLOWEST: Final = 1e-6
FASTEST: Final = 1e6
"""How many a second a limit may allow: from one in twelve days to a million."""
RATES: Final = f"from {SLOWEST:f} to {FASTEST:.0f}"


class RateLimited(LimitExceeded):
    """Too many calls in too short a time; `retry_after` says when there is room for the next."""

    def __init__(self, name: str, per_second: float, pause: float) -> None:
        told = f"{name!r} is called too often; the next call is free in {_pause(pause)}"
        super().__init__("RateLimited", per_second, told)
        self.message = f"{told} ({per_second:g} a second)"
        self.args = (self.message,)
        self.retry_after = pause
        self.retryable = "yes"


def rate_limited(
    *, per_second: float, burst: int | None = None, by: Apart = "caller", clock: Callable[[], float] = monotonic
) -> Middleware:
    """Return middleware that refuses calls over a rate; `burst` of them may come at once, as many as in a second.

    Each process counts for itself, and callers that are not known are one. The answer to a question is no new call.

    Raises:
        ValueError: the rate is not from SLOWEST to FASTEST, the burst not above 0, or `by` none of the choices.
    """
    if not SLOWEST <= per_second <= FASTEST:
        raise ValueError(f"per_second must be {RATES}, not {per_second!r}")
    if burst is not None and burst < 1:
        raise ValueError(f"burst must be at least 1, not {burst!r}")
    if by not in get_args(Apart):
        raise ValueError(f"by must be one of {', '.join(get_args(Apart))}, not {by!r}")
    buckets = Buckets(per_second, burst or max(1, ceil(per_second)), now=clock)

    def key(call: ToolCall) -> str:
        return call.principal.id if by == "caller" else call.name if by == "tool" else ""

    async def middleware(call: ToolCall, next: Handler) -> Any:
        if not call.again and (pause := buckets.take(key(call))) > 0:
            raise RateLimited(call.name, per_second, pause)
        return await next(call)

    return middleware


def _pause(seconds: float) -> str:
    return f"{ceil(seconds)} s" if seconds >= 1 else f"{ceil(seconds * 1000)} ms"
