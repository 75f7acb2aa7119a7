"""Quotas: how often somebody may call a tool (W8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from time import monotonic
from typing import Literal

from weft.errors import LimitExceeded
from weft.gateway.policy import ToolFacts
from weft.groups.middleware.buckets import Buckets
from weft.ports import Principal


class QuotaExceeded(LimitExceeded):
    """A quota is used up for now (HTTP 429); `retry_after` says until when."""

    def __init__(self, quota: Quota, pause: float) -> None:
        super().__init__("QuotaExceeded", quota.calls, f"quota {quota.name!r}: too many calls in {quota.per:g} s")
        self.retry_after = pause
        self.retryable = "yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """So many calls in a time, saved up to `burst`; counted for each caller and tool, or for one of both."""

    name: str
    calls: int
    per: float
    burst: int | None = None
    tools: tuple[str, ...] = ("*",)
    agents: tuple[str, ...] = ()
    """Globs of the agents that it is for; none is for all callers."""

    by: Literal["caller-tool", "caller", "tool"] = "caller-tool"

    def is_for(self, principal: Principal, tool: ToolFacts) -> bool:
        """Tell whether a call counts."""
        named = not self.agents or any(fnmatchcase(principal.agent_name or "", glob) for glob in self.agents)
        return named and any(fnmatchcase(name, glob) for name in tool.names for glob in self.tools)

    def key(self, principal: Principal, tool: ToolFacts) -> str:
        """Return what a call is counted under."""
        who = "" if self.by == "tool" else principal.id
        return who if self.by == "caller" else f"{who} {tool.server or ''} {tool.names[-1]}"


class Quotas:
    """The quotas of one worker; `exceeded` counts by quota, for telemetry to read."""

    def __init__(self, quotas: Iterable[Quota] = (), *, now: Callable[[], float] = monotonic) -> None:
        self.exceeded = Counter[str]()
        self._all = [(one, Buckets(one.calls / one.per, one.burst or one.calls, now=now)) for one in quotas]

    def take(self, principal: Principal, tool: ToolFacts) -> None:
        """Count a call; one that a quota refuses counts in none.

        Raises:
            QuotaExceeded: with the time after which to call again.
        """
        if not self._all:
            return
        met = [(one, buckets, one.key(principal, tool)) for one, buckets in self._all if one.is_for(principal, tool)]
        for quota, buckets, key in met:
            if (pause := buckets.wait(key)) > 0:
                self.exceeded[quota.name] += 1
                raise QuotaExceeded(quota, pause)
        for _, buckets, key in met:
            buckets.take(key)
