"""Calls that nobody foresaw: told in the log once for each caller and tool, and counted each time."""

from __future__ import annotations

from typing import Final

from weft.gateway.scope import Decision
from weft.ports import Principal
from weft.telemetry.logs import Log
from weft.telemetry.metrics import Metrics

TOLD: Final = 1000
_log = Log("gateway")


class Unforeseen:
    """Tells of calls that are let in and yet are to be warned of."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._told = set[tuple[str, str]]()

    def note(self, principal: Principal, tool: str, decision: Decision) -> None:
        """Tell of a call, if its decision has a finding."""
        if decision.finding is None:
            return
        self._metrics.finding(decision.code)
        told = (principal.id, tool)
        if told not in self._told:
            if len(self._told) >= TOLD:
                self._told.clear()
            self._told.add(told)
            _log.warning(f"{decision.finding}: {tool} was called", principal=principal.id)
