"""Auditing of calls: who called what and how it went, as records of the audit log."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Required, TypedDict, Unpack
from urllib.parse import quote

from weft.errors import InfrastructureError
from weft.expr.jcs import hash_of
from weft.ir.document import ToolDef
from weft.ports import ANONYMOUS, Principal
from weft.telemetry.audit import AuditLog
from weft.telemetry.auditrecords import Decision, Entry, Kind
from weft.telemetry.logs import Episodes, Log

AT_ONCE = 100
"""Events of one kind that are recorded one by one within a second; more are counted in the next record."""
SECOND = 1.0


def spec_hash(definition: ToolDef) -> str:
    """Return the hash of a tool as the registry defines it, for records; made once, when it is loaded."""
    return hash_of(definition.to_json())


class How(TypedDict, total=False):
    """How a call or a step went, and whether it was let."""

    decision: Required[Decision]
    reason: str | None
    arguments: Any
    outcome: str | None
    ms: float | None
    trace_id: str | None


@dataclass(slots=True)
class _Flood:
    """Events of one kind within a second: how many were recorded, how many more came, and the last of those."""

    last: Entry
    recorded: int = 0
    more: int = 0


class Auditor:
    """Records calls, inner steps and events of security; without a log it is not `on` and need not be asked."""

    def __init__(self, log: AuditLog | None = None) -> None:
        self.on = log is not None
        self.failed = 0
        self.problem: str | None = None
        """Why nothing can be recorded now."""
        self._log = log
        self._floods: dict[str, _Flood] = {}
        self._tasks = set[asyncio.Task[None]]()
        self._trouble = Episodes(Log("audit"))

    async def call(self, principal: Principal, tool: str, spec: str | None, **how: Unpack[How]) -> None:
        """Record a call of a client; `tool` is `name@version`, and `spec` the hash of what is run.

        Raises:
            InfrastructureError: it cannot be recorded, so that the call must fail (AuditUnavailable).
        """
        await self._record("call", principal, tool, spec, how)

    async def step(self, principal: Principal, tool: str, spec: str | None, **how: Unpack[How]) -> None:
        """Record a step inside a call, for the client that made the call.

        Raises:
            InfrastructureError: it cannot be recorded, so that the call must fail (AuditUnavailable).
        """
        await self._record("step", principal, tool, spec, how)

    async def _record(self, kind: Kind, principal: Principal, tool: str, spec: str | None, how: How) -> None:
        log = self._log
        if log is None:
            return
        arguments = how.get("arguments")
        entry = Entry(
            kind=kind,
            principal=principal_text(principal),
            tenant=principal.tenant,
            label=principal.label,
            tool=tool,
            spec=spec,
            decision=how["decision"],
            reason=how.get("reason"),
            arguments=None if arguments is None else log.fingerprint(arguments),
            outcome=how.get("outcome"),
            ms=how.get("ms"),
            trace=how.get("trace_id"),
        )
        try:
            await log.record(entry)
        except InfrastructureError as error:
            self.failed += 1
            self.problem = error.message
            self._trouble.trouble("log", f"{error.message}; calls fail until it can be")
            raise
        if self.problem is not None:
            self.problem = None
            self._trouble.over("log", "the audit log can be written again")

    def counted(self) -> dict[str, int]:
        """Return how many calls failed because they could not be recorded, and how many records were dropped."""
        return {"AuditUnavailable": self.failed, "AuditDropped": 0 if self._log is None else self._log.dropped}

    def security(
        self,
        event: str,
        *,
        principal: Principal = ANONYMOUS,
        server: str | None = None,
        tool: str | None = None,
        reason: str | None = None,
        decision: Decision = "deny",
        trace_id: str | None = None,
    ) -> None:
        """Record an event of security now, and bring it to the disk soon; of a flood, how many more there were."""
        if self._log is None:
            return
        entry = Entry(
            kind="security",
            event=event,
            principal=principal_text(principal),
            tenant=principal.tenant,
            label=principal.label,
            server=server,
            tool=tool,
            decision=decision,
            reason=reason,
            trace=trace_id,
        )
        if not self._is_one_too_many(event, entry):
            self._put(self._log, entry)

    async def close(self) -> None:
        """Record what is still to be recorded; the log stays open."""
        for event in list(self._floods):
            self._subside(event)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _is_one_too_many(self, event: str, entry: Entry) -> bool:
        flood = self._floods.get(event)
        if flood is None:
            flood = self._floods[event] = _Flood(entry)
            asyncio.get_running_loop().call_later(SECOND, self._subside, event)
        if flood.recorded < AT_ONCE:
            flood.recorded += 1
            return False
        flood.more, flood.last = flood.more + 1, entry
        return True

    def _subside(self, event: str) -> None:
        flood = self._floods.pop(event, None)
        if flood is not None and flood.more and self._log is not None:
            self._put(self._log, replace(flood.last, count=flood.more))

    def _put(self, log: AuditLog, entry: Entry) -> None:
        """Add a record at once, so that a crash does not cost it, and see to the disk beside."""
        work = log.flush() if log.add(entry) else log.record(entry)
        task = asyncio.get_running_loop().create_task(self._seen_to(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _seen_to(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            self._trouble.over("security", "events of security are recorded again")
        except InfrastructureError as error:
            self._trouble.trouble("security", f"an event of security is not recorded: {error.message}")


def principal_text(principal: Principal) -> str:
    """Return who it is in one line: the agent or the subject, and how that is known; nothing in a name can feign it."""
    if principal.method == "none":
        return "anonymous"
    return _text(principal.agent_name, principal.agent_version, principal.subject, principal.method, principal.strength)


@lru_cache(maxsize=4096)
def _text(agent: str | None, version: str | None, subject: str, method: str, strength: str) -> str:
    names = [subject]
    if agent is not None:
        label = f"{agent}@{version}" if version else agent
        names = [label] if subject in (agent, label) else [label, subject]
    told = " of ".join(quote(name, safe="@:/") for name in names)
    return f"{told} ({method}, {strength})"
