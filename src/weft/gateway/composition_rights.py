"""Rights over compositions on ways that are no calls of tools: decided, counted and recorded as if they were."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from weft.errors import InputError
from weft.gateway.auditing import Auditor
from weft.gateway.live import Live
from weft.gateway.quotas import QuotaExceeded
from weft.gateway.tools import Tool
from weft.gateway.unforeseen import Unforeseen
from weft.ports import Principal
from weft.telemetry import Telemetry


class NotAllowed(InputError):
    """Somebody may not do this; why is told to those who run the gateway."""

    code = "NotAllowed"


@dataclass(slots=True)
class Use:
    """One use of a right: how it went, for the audit log."""

    outcome: str = "ok"
    trace_id: str | None = None


class CompositionRights:
    """Asks for each use what a call of the tool that does the same is asked; clients need not have these tools."""

    def __init__(self, tools: Iterable[Tool], live: Live, telemetry: Telemetry, auditor: Auditor) -> None:
        self._facts = {tool.name: tool.facts for tool in tools}
        self._live = live
        self._metrics = telemetry.metrics
        self._auditor = auditor
        self._unforeseen = Unforeseen(telemetry.metrics)

    @asynccontextmanager
    async def use(
        self, principal: Principal, tool: str, arguments: dict[str, Any], *, way: str, counts: bool = True
    ) -> AsyncGenerator[Use]:
        """Let somebody do what a tool does, and record it; `way` says how they came, `counts` whether quotas count it.

        Raises:
            NotAllowed: the policy, or what the registry says of the caller, does not let them.
            QuotaExceeded: they have done it too often.
            InfrastructureError: it cannot be recorded (AuditUnavailable).
        """
        facts = self._facts[tool]
        decision = self._live.scope.decide(principal, facts)
        if not decision.callable:
            await self._denied(principal, tool, f"{decision.reason} ({way})", arguments)
            raise NotAllowed(f"this takes the right to {tool}, which the caller does not have")
        self._unforeseen.note(principal, tool, decision)
        if counts:
            try:
                self._live.access.quotas.take(principal, facts)
            except QuotaExceeded as error:
                self._metrics.limit_exceeded(error.code)
                await self._denied(principal, tool, f"{error.message} ({way})", arguments)
                raise
        use, began, reason = Use(), perf_counter(), decision.reason
        try:
            yield use
        except asyncio.CancelledError:
            use.outcome = "cancelled"
            raise
        except NotAllowed as error:
            use.outcome, reason = "denied", error.message
            raise
        except BaseException:
            use.outcome = "error"
            raise
        finally:
            if self._auditor.on:
                await self._auditor.call(
                    principal,
                    tool,
                    None,
                    decision="deny" if use.outcome == "denied" else "allow",
                    reason=f"{reason} ({way})",
                    arguments=arguments,
                    outcome=use.outcome,
                    ms=(perf_counter() - began) * 1000,
                    trace_id=use.trace_id,
                )

    async def _denied(self, principal: Principal, tool: str, reason: str, arguments: dict[str, Any]) -> None:
        if self._auditor.on:
            await self._auditor.call(
                principal, tool, None, decision="deny", reason=reason, arguments=arguments, outcome="denied"
            )
