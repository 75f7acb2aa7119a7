"""The steps of compositions: each call of a tool is checked again when it is made, and recorded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from weft.errors import ExecutionFailed
from weft.gateway.auditing import Auditor
from weft.gateway.callers import Inside
from weft.gateway.policy import ToolFacts
from weft.gateway.quotas import Quotas
from weft.gateway.scope import Decision, Lent, Scope
from weft.gateway.values import secrets_of
from weft.ports import Invoke, ToolRef, ToolType
from weft.registry.tools import key_of


class Guarded:
    """A tool that is called only for those who may; `allows` tells whether a call may, without calling it.

    Who gives an answer that the tool gave before, as a cache does, must ask as the tool itself would.
    """

    __slots__ = ("_invoke", "allows")

    def __init__(self, invoke: Invoke, allows: Callable[[Any], bool]) -> None:
        self._invoke = invoke
        self.allows = allows

    def __call__(self, arguments: Any, call: Any) -> Awaitable[Any]:
        return self._invoke(arguments, call)


class Steps:
    """Guards the tools that compositions call, for one state of the registry and the servers.

    `scope` says what holds now, which may be more than what held when a call began: who loses a right while a long
    composition runs loses it for the steps that are left. What the composition itself may call is `lent` to it by the
    state that it was compiled in: a registry that changes undoes nothing that is under way.
    """

    def __init__(
        self,
        scope: Callable[[], Scope],
        auditor: Auditor,
        facts: Callable[[ToolRef], ToolFacts],
        describe: Callable[[ToolRef], ToolType | None],
        quotas: Callable[[], Quotas],
        *,
        lent: Callable[[ToolFacts], Lent],
    ) -> None:
        """Make one; `facts` tells of a tool what decisions about it go by, and `describe` what it takes."""
        self._scope = scope
        self._lent = lent
        self._quotas = quotas
        self._auditor = auditor
        self._facts = facts
        self._describe = describe

    def guarded(self, ref: ToolRef, invoke: Invoke) -> Invoke:
        """Return a tool that is called only for those for whom the composition may call it."""
        named = ref.name if ref.known_as is None else ref.known_as.partition("@")[0]
        audited = self._auditor.on
        known: ToolFacts | None = None

        def allows(call: Any) -> bool:
            inside = call.root.context
            if not isinstance(inside, Inside) or inside.facts is None:
                return True
            return self._decided(inside, inside.facts, self._facts(ref), named).callable

        async def guarded(arguments: Any, call: Any) -> Any:
            nonlocal known
            inside = call.root.context
            if not isinstance(inside, Inside) or inside.facts is None:
                return await invoke(arguments, call)
            # What is served is known only when all is built, which is before anything is called.
            tool = known = known or self._facts(ref)
            decision = self._decided(inside, inside.facts, tool, named)
            if not decision.callable:
                await self._denied(inside, tool, decision.reason, arguments)
                told = f"Tool {named!r} may not be called for this caller"
                raise ExecutionFailed(told, code="StepDenied", hint="ask who runs the gateway")
            if tool != inside.facts:
                self._quotas().take(inside.principal, tool)
            try:
                if not audited or tool == inside.facts:
                    return await invoke(arguments, call)
                return await self._recorded(inside, tool, decision.reason, arguments, invoke(arguments, call))
            except Exception:
                # What it says may quote what it was given, under names that only it knows to be secret.
                described = self._describe(ref)
                inside.secrets.update(secrets_of(arguments, None if described is None else described.input))
                raise

        return Guarded(guarded, allows)

    def _decided(self, inside: Inside, composition: ToolFacts, tool: ToolFacts, named: str) -> Decision:
        scope, principal = self._scope(), inside.principal
        if inside.through is not None:
            return scope.own_step(principal, inside.through, tool, named)
        return scope.step(principal, composition, tool, named, self._lent(composition))

    async def _denied(self, inside: Inside, tool: ToolFacts, reason: str, arguments: Any) -> None:
        if self._auditor.on:
            await self._record(inside, tool, decision="deny", reason=reason, arguments=arguments, outcome="denied")

    async def _recorded(
        self, inside: Inside, tool: ToolFacts, reason: str, arguments: Any, work: Awaitable[Any]
    ) -> Any:
        began = perf_counter()
        outcome = "cancelled"
        try:
            result = await work
            outcome = "ok"
            return result
        except Exception:
            outcome = "error"
            raise
        finally:
            ms = (perf_counter() - began) * 1000
            await self._record(
                inside, tool, decision="allow", reason=reason, arguments=arguments, outcome=outcome, ms=ms
            )

    async def _record(self, inside: Inside, tool: ToolFacts, **how: Any) -> None:
        key = key_of(tool.name, tool.version)
        await self._auditor.step(inside.principal, key, None, trace_id=inside.trace_id, **how)
