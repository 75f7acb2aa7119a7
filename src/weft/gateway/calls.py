"""Calls of tools: relayed to the server that has them, or run by the engine; failures become content for the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter
from typing import Any

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
from weft.expr.schemas import SchemaProblem
from weft.gateway.auditing import Auditor
from weft.gateway.callers import Inside, can_be_asked
from weft.gateway.patience import Patient
from weft.gateway.progress import steps_told
from weft.gateway.quotas import QuotaExceeded, Quotas
from weft.gateway.results import failed, served
from weft.gateway.rounds import Answers, Rounds
from weft.gateway.signing import digest
from weft.gateway.unforeseen import Unforeseen
from weft.gateway.values import secrets_of, warned, without
from weft.gateway.views import Perform, Tool, View
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

METHOD = "tools/call"
LIMITS = (LimitExceeded, DeadlineExceeded, UpstreamMessageTooLarge)
"""The errors that say that a limit was met; each is counted under its code."""

MISFITS = 20


@dataclass(frozen=True, slots=True)
class Calling:
    """One call of a tool: of which view, with what, and as what it is recorded."""

    view: str | None
    tool: Tool
    params: Mapping[str, Any]
    arguments: dict[str, Any]
    active: Active
    inner: set[str] = field(default_factory=set[str])
    """Secrets that steps which failed were given."""

    def sent(self) -> dict[str, Any]:
        """Return the params as the tool's server takes them; what weft does not know of them stays."""
        arguments = self.arguments if self.tool.prepare is None else self.tool.prepare(self.arguments)
        sent = {**self.params, "name": self.tool.upstream_name, "arguments": arguments}
        sent.pop("_meta", None)
        return sent

    def along(self, caller: Caller) -> Mapping[str, Any]:
        """Return what goes along in `_meta`: what the client sent, in weft's own place of the trace."""
        return {**caller.meta, **self.active.meta} if caller.meta else self.active.meta

    def secrets(self) -> tuple[str, ...]:
        """Return the secrets among the arguments: what a tool says may quote them, and traces are kept."""
        return (*secrets_of(self.arguments, self.tool.listed.get("inputSchema")), *self.inner)

    def bound(self, caller: Caller) -> str:
        """Return what state that is signed for this call holds for: nobody else, and nothing else."""
        return f"{caller.principal.id}|{self.view}|{METHOD}|{self.tool.key}|{digest(self.arguments)}"


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
        if found is None:
            await self._denied(principal, name, view.why_not(principal, name), arguments)
            raise NotFound("Tool", name, (await view.look(principal)).tools)
        tool, decision = found
        if arguments is None:
            arguments = {}
        elif not is_object(arguments):
            raise InputError(f"arguments must be an object, not {shown(arguments)}", code="InvalidParams")
        self._unforeseen.note(principal, tool.key, decision)
        try:
            quotas.take(principal, tool.facts)
        except QuotaExceeded as error:
            self._telemetry.metrics.limit_exceeded(error.code)
            await self._denied(principal, tool.key, error.message, arguments)
            raise
        calling = Calling(view_name, tool, params, arguments, self._telemetry.begin(METHOD, tool.name, caller.meta))
        if not self._auditor.on:
            return await self._done(calling, caller, answers)
        return await self._audited(calling, caller, answers, decision.reason)

    async def _done(self, calling: Calling, caller: Caller, answers: Answers | None) -> dict[str, Any]:
        tool = calling.tool
        try:
            doubts = () if tool.values is None else tool.values.accept(tool.key, calling.arguments)
            if tool.server is not None and answers is None and not can_be_asked(caller):
                # Nothing can come up that needs more than one request: by far the most calls are such.
                result = await self._relay(calling, tool.server, caller)
            else:
                result = await self._in_rounds(calling, caller, answers)
            if tool.values is not None:
                result = tool.values.deliver(tool.key, result, doubts)
        except BaseException as error:
            if isinstance(error, LIMITS):
                self._telemetry.metrics.limit_exceeded(error.code)
            return _told(error, calling)
        if tool.server is not None:
            calling.active.end(outcome_of(result), server=tool.server.spec.key)
        return result

    async def _audited(self, calling: Calling, caller: Caller, answers: Answers | None, reason: str) -> dict[str, Any]:
        outcome = "error"
        try:
            result = await self._done(calling, caller, answers)
            outcome = outcome_of(result)
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
                decision="allow",
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
                self._run(calling, client) if tool.perform is None else _performed(calling, tool.perform, client)
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


async def _performed(calling: Calling, perform: Perform, caller: Caller) -> dict[str, Any]:
    """Return what a tool of weft's own gives; what failed in the end still has all that there is to tell of it."""
    tool, active, arguments = calling.tool, calling.active, calling.arguments
    _check_arguments(() if tool.unfit is None else tool.unfit(arguments))
    done = await perform(Onward(caller, calling.along(caller)), arguments)
    told = served(done.value, warnings=(), trace_id=active.trace_id)
    if done.failed is None:
        active.end("ok")
        return told
    active.end("error", error=redact(done.failed, calling.secrets()))
    return {**told, "content": [{"type": "text", "text": done.failed}, *told["content"]], "isError": True}


def _value(tool: Tool, definition: ToolDef, arguments: dict[str, Any]) -> Any:
    """Return the arguments as the engine takes them.

    Raises:
        ExecutionFailed: they are not what the tool says that it takes.
        InputError: they are not one value, and the tool takes one.
    """
    value = accept(definition, arguments)
    # A virtual tool has its own way with values that are not objects, when it is called.
    own = tool.declared if definition.spec is not None or is_object(value) else None
    _check_arguments(
        [*(own(value) if own is not None else ()), *(tool.unfit(arguments) if tool.unfit is not None else ())]
    )
    return arguments["input"] if tool.whole else value


def _check_arguments(found: Iterable[SchemaProblem]) -> None:
    wrong = [f"{one.pointer or 'the input'}: {one.message}" for one in found]
    if wrong:
        told = "; ".join(list(dict.fromkeys(wrong))[:MISFITS])
        raise ExecutionFailed(f"the arguments do not fit: {told}", code="InvalidArguments")


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
