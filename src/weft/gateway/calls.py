"""Calls of tools: relayed to the server that has them, or run by the engine; failures become content for the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from time import perf_counter
from typing import Any, Literal

from weft.errors import (
    DeadlineExceeded,
    ExecutionFailed,
    InputError,
    LimitExceeded,
    NotFound,
    UpstreamMessageTooLarge,
    UpstreamProtocolError,
    UpstreamRefused,
    WeftError,
    shown,
)
from weft.gateway.auditing import Auditor
from weft.gateway.callers import Inside, can_be_asked
from weft.gateway.calling import METHOD, Calling
from weft.gateway.grouping import Meant
from weft.gateway.patience import Patient
from weft.gateway.performing import check_arguments, performed
from weft.gateway.progress import steps_told
from weft.gateway.quotas import QuotaExceeded, Quotas
from weft.gateway.results import failed, served
from weft.gateway.rounds import Answers, Rounds
from weft.gateway.tools import Tool
from weft.gateway.unforeseen import Unforeseen
from weft.gateway.values import warned, without
from weft.gateway.views import View
from weft.groups.execution.results import wire
from weft.groups.middleware.seen import is_result
from weft.ir.document import ToolDef
from weft.plan.inputs import accept
from weft.plan.typeflow import declared_output
from weft.ports import Caller, Principal, is_array, is_object
from weft.redaction import redact
from weft.run.engine import Engine
from weft.telemetry import Active, Telemetry
from weft.upstreams.onward import Onward
from weft.upstreams.results import outcome_of
from weft.upstreams.server import Server

LIMITS = (LimitExceeded, DeadlineExceeded, UpstreamMessageTooLarge)
"""The errors that say that a limit was met; each is counted under its code."""


class ToolCalls:
    """Calls the tools of a view for a client."""

    def __init__(self, engine: Engine, rounds: Rounds, telemetry: Telemetry, auditor: Auditor) -> None:
        self._engine = engine
        self._rounds = rounds
        self._telemetry = telemetry
        self._auditor = auditor
        self._unforeseen = Unforeseen(telemetry.metrics)

    async def call(
        self,
        view_name: str | None,
        view: View,
        params: Mapping[str, Any],
        caller: Caller,
        answers: Answers | None,
        *,
        quotas: Quotas,
    ) -> dict[str, Any]:
        """Call a tool and return its result; whatever goes wrong in it is told as its content.

        Raises:
            NotFound: the view has no such tool, or none for this caller.
            QuotaExceeded: the caller has called it too often.
            InputError: the request itself is wrong.
            UpstreamRefused: the server refused the request with a JSON-RPC error.
        """
        name: object = params.get("name")
        if not isinstance(name, str):
            raise InputError(f"name must be a string, not {shown(name)}", code="InvalidParams")
        principal = caller.principal
        found = view.named(principal, name)
        arguments: object = params.get("arguments")
        if found is None and name not in view.groups:
            await self._denied(principal, name, view.why_not(principal, name), arguments)
            raise NotFound("Tool", name, (await view.look(principal)).served_names)
        if arguments is None:
            arguments = {}
        elif not is_object(arguments):
            raise InputError(f"arguments must be an object, not {shown(arguments)}", code="InvalidParams")
        meant = None
        if found is None:
            meant = await self._meant(view, name, arguments, caller)
            if not isinstance(meant, Meant):
                return meant
            arguments, params = meant.arguments, {**params, "name": meant.member.tool.name}
            tool, decision = meant.member.tool, view.scope.decide(principal, meant.member.tool.facts)
        else:
            tool, decision = found
        self._unforeseen.note(principal, tool.key, decision)
        try:
            quotas.take(principal, tool.facts)
        except QuotaExceeded as error:
            self._telemetry.metrics.limit_exceeded(error.code)
            await self._denied(principal, tool.key, error.message, arguments)
            raise
        active = self._telemetry.begin(METHOD, tool.name, caller.meta)
        calling = Calling(view_name, tool, params, arguments, active, meant=meant)
        if not self._auditor.on:
            return await self._done(calling, caller, answers)
        through = "" if meant is None else f" (as {meant.member.key!r} of {name!r})"
        return await self._audited(calling, caller, answers, decision.reason + through)

    async def _meant(self, view: View, name: str, arguments: dict[str, Any], caller: Caller) -> Meant | dict[str, Any]:
        """Return which tool a call of a group means for its caller; else the result: an explanation, or what is wrong.

        Raises:
            NotFound: the group has nothing for this caller.
        """
        principal = caller.principal
        sight = await view.look(principal)
        group = sight.groups.get(name)
        if group is None:
            await self._denied(principal, name, "nothing in the group is for the caller", arguments)
            raise NotFound("Tool", name, sight.served_names)
        try:
            found = group.meant(arguments)
        except ExecutionFailed as error:
            asked = arguments.get(group.rule.discriminator) if error.code == "UnknownAction" else None
            barred = view.groups[name].members.get(asked) if isinstance(asked, str) else None
            if barred is not None:
                await self._denied(principal, barred.tool.key, view.why_not(principal, barred.tool.name), arguments)
            active = await self._answered(name, caller, arguments, error)
            return failed(error, tool=name, trace_id=active.trace_id)
        if isinstance(found, Meant):
            return found
        active = await self._answered(name, caller, arguments)
        return served(found, warnings=(), trace_id=active.trace_id)

    async def _answered(
        self, group: str, caller: Caller, arguments: dict[str, Any], error: ExecutionFailed | None = None
    ) -> Active:
        """Record a call of a group that came to none of its tools."""
        active = self._telemetry.begin(METHOD, group, caller.meta)
        active.end("ok" if error is None else "error", error=None if error is None else error.message)
        if self._auditor.on:
            await self._auditor.call(
                caller.principal,
                group,
                None,
                decision="allow",
                reason="help of the group" if error is None else f"no action of the group is meant ({error.code})",
                arguments=arguments,
                outcome=active.outcome,
                ms=(perf_counter() - active.began) * 1000,
                trace_id=active.trace_id,
            )
        return active

    async def _done(self, calling: Calling, caller: Caller, answers: Answers | None) -> dict[str, Any]:
        tool = calling.tool
        around = calling.around
        try:
            calling.check()
            if around is None:
                result = await self._work(calling, caller, answers)
            else:

                async def work(arguments: dict[str, Any]) -> dict[str, Any]:
                    given = replace(calling, arguments=arguments)
                    # Middleware may have changed them, also in place.
                    given.check()
                    return await self._work(given, caller, answers)

                # Who answers a question goes on with a call; only a state that is signed says that there is one.
                again = answers is not None and bool(answers.state)
                given: object = await around(calling.passing(caller, work, again=again))
                result = given if is_result(given) else wire(given)
            result = calling.shaped(result)
        except BaseException as error:
            if isinstance(error, LIMITS):
                self._telemetry.metrics.limit_exceeded(error.code)
            if around is not None and isinstance(error, ExecutionFailed) and error.code == "NotAllowed":
                calling.barred.append(error.message)
            return _told(error, calling)
        if tool.server is not None:
            calling.active.end(outcome_of(result), server=tool.server.spec.key)
        elif around is not None and result.get("resultType") != "input_required":
            # Middleware may have answered in the tool's place.
            calling.active.end(outcome_of(result))
        return result

    async def _work(self, calling: Calling, caller: Caller, answers: Answers | None) -> dict[str, Any]:
        tool = calling.tool
        doubts = calling.accepted()
        if tool.server is not None and answers is None and not can_be_asked(caller):
            # Nothing can come up that needs more than one request: by far the most calls are such.
            result = await self._relay(calling, tool.server, caller)
        else:
            result = await self._in_rounds(calling, caller, answers)
        return calling.delivered(result, doubts)

    async def _audited(self, calling: Calling, caller: Caller, answers: Answers | None, reason: str) -> dict[str, Any]:
        outcome = "error"
        decision: Literal["allow", "deny"] = "allow"
        try:
            result = await self._done(calling, caller, answers)
            outcome = outcome_of(result)
            if calling.barred:
                decision, outcome, reason = "deny", "denied", "middleware does not let the caller"
            return result
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            tool, active = calling.tool, calling.active
            await self._auditor.call(
                caller.principal,
                tool.key,
                tool.spec_hash,
                decision=decision,
                reason=reason,
                arguments=calling.arguments,
                outcome=outcome,
                # A composition that waits for an answer has not ended.
                ms=(perf_counter() - active.began) * 1000,
                trace_id=active.trace_id,
            )

    async def _denied(self, principal: Principal, tool: str, reason: str, arguments: object) -> None:
        """Note a call that was not let through; of a tool that is not there as of one that is not for this caller."""
        if self._auditor.on:
            given = arguments if is_object(arguments) else None
            await self._auditor.call(
                principal, tool, None, decision="deny", reason=reason, arguments=given, outcome="denied"
            )

    async def _in_rounds(self, calling: Calling, caller: Caller, answers: Answers | None) -> dict[str, Any]:
        tool = calling.tool

        async def work(client: Caller, brought: Mapping[str, Any]) -> dict[str, Any]:
            if tool.server is not None:
                return await self._asking(calling, tool.server, client, brought)
            return await (
                self._run(calling, client) if tool.perform is None else performed(calling, tool.perform, client)
            )

        def bound() -> str:
            return calling.bound(caller)

        legacy = tool.server is None or tool.server.inventory.era == "legacy"
        parks = legacy and caller.relays_input and can_be_asked(caller)
        # Without the state, nobody waits here for these answers: what can be asked in the middle begins anew.
        if answers is not None and (answers.state or not parks):
            return await self._rounds.again(work, caller, bound=bound(), answers=answers)
        return await self._rounds.begin(work, caller, bound=bound, parks=parks)

    async def _relay(self, calling: Calling, server: Server, caller: Caller) -> dict[str, Any]:
        deadline = asyncio.get_running_loop().time() + self._engine.limits.timeout
        onward = Onward(caller, calling.along(caller))
        return _checked(await server.request(METHOD, calling.sent(), deadline=deadline, caller=onward), server)

    async def _asking(
        self, calling: Calling, server: Server, caller: Caller, brought: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Relay a call in whose middle the client may be asked: the time that it takes to answer does not count."""
        limits = self._engine.limits
        longest = asyncio.get_running_loop().time() + limits.max_timeout
        try:
            async with asyncio.timeout(limits.timeout) as timer:
                client = Patient(caller, calling.along(caller), timer)
                sent = {**calling.sent(), **brought}
                return _checked(await server.request(METHOD, sent, deadline=longest, caller=client), server)
        except TimeoutError:
            raise DeadlineExceeded(f"'{calling.tool.name}' did not finish within {limits.timeout:g} s") from None

    async def _run(self, calling: Calling, caller: Caller) -> dict[str, Any]:
        tool, active, definition = calling.tool, calling.active, calling.tool.definition
        assert definition is not None, "what no server has is the registry's"
        value = _value(tool, definition, calling.arguments)
        client = Inside(caller, active.meta, facts=tool.facts, trace_id=active.trace_id, secrets=calling.inner)
        on_step = steps_told(caller) if caller.wants_progress else None
        result = await self._engine.run(tool.key, value, caller=client, on_step=on_step)
        spans = without(result.tracing(), calling.secrets()) if result.has_failures else result.tracing()
        try:
            told = served(result.value, warnings=result.warnings, trace_id=active.trace_id, marks=result.marks)
            told = told if tool.misfits is None else _as_advertised(told, tool)
        except ExecutionFailed as error:
            # All steps went well, and the client is told no: that counts, and the steps show why.
            active.end("error", error=redact(error.message, calling.secrets()), spans=spans, size=result.spans)
            raise
        active.end("ok", spans=spans, size=result.spans)
        return told


def _value(tool: Tool, definition: ToolDef, arguments: dict[str, Any]) -> Any:
    """Return the arguments as the engine takes them.

    Raises:
        ExecutionFailed: they are not what the tool says that it takes.
        InputError: they are not one value, and the tool takes one.
    """
    value = accept(definition, arguments)
    # A virtual tool has its own way with values that are not objects, when it is called.
    own = tool.declared if definition.spec is not None or is_object(value) else None
    check_arguments(
        [*(own(value) if own is not None else ()), *(tool.unfit(arguments) if tool.unfit is not None else ())]
    )
    return arguments["input"] if tool.whole else value


def _checked(result: dict[str, Any], server: Server) -> dict[str, Any]:
    """Return what a server gave, if it is the result of a tool at all: clients break on what is not."""
    if not is_array(result.get("content")) and "structuredContent" not in result and "resultType" not in result:
        raise UpstreamProtocolError(server.spec.key, f"a result of a tool without content: {shown(result)}")
    return result


def _as_advertised(told: dict[str, Any], tool: Tool) -> dict[str, Any]:
    """Return a result that is what the tool's schema says; one that only weft's own inference doubts gets a warning.

    Raises:
        ExecutionFailed: it is not what the registry declares.
    """
    assert tool.misfits is not None
    assert tool.definition is not None
    found = islice(tool.misfits(told["structuredContent"]), 3)
    wrong = [f"{one.pointer or 'the result'}: {one.message}" for one in found]
    if not wrong:
        return told
    sentence = "the result is not what the outputSchema says: " + "; ".join(wrong)
    if declared_output(tool.definition):
        raise ExecutionFailed(sentence, code="InvalidOutput", hint="mend the composition, or its outputSchema")
    return warned(told, [sentence])


def _told(error: BaseException, calling: Calling) -> dict[str, Any]:
    """End a call that went wrong, and return what its model is told; what is no fault of the tool goes on up."""
    tool, active = calling.tool, calling.active
    server = None if tool.server is None else tool.server.spec.key
    if isinstance(error, asyncio.CancelledError):
        active.end("cancelled", server=server)
        raise error
    secrets = calling.secrets()
    if not isinstance(error, WeftError):
        active.end("error", server=server, error=redact(repr(error), secrets))
        raise error
    trace: Any = error.trace
    spans: Callable[[], Any] | None = None if trace is None else lambda: trace
    active.end("error", server=server, error=redact(error.message, secrets), spans=without(spans, secrets))
    # The server's own refusal, and a state that is not valid, are about the request: no model can help that.
    if isinstance(error, UpstreamRefused) and tool.server is not None:
        raise error
    if isinstance(error, InputError) and error.code == "InvalidRequestState":
        raise error
    return failed(error, tool=tool.name, trace_id=active.trace_id)
