"""Calls of tools: relayed to the server that has them, or run by the engine; failures become content for the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
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
from weft.gateway.callers import Inside, can_be_asked
from weft.gateway.catalogue import Tool, View
from weft.gateway.patience import Patient
from weft.gateway.results import WARNINGS, failed, served
from weft.gateway.rounds import Answers, Rounds
from weft.gateway.signing import digest
from weft.ir.document import ToolDef
from weft.plan.inputs import accept, misfits
from weft.plan.typeflow import declared_output
from weft.ports import Caller, is_array, is_object
from weft.run.call import OnStep, Place
from weft.run.engine import Engine
from weft.telemetry import Active, Telemetry
from weft.upstreams.onward import Onward
from weft.upstreams.results import outcome_of
from weft.upstreams.server import Server

METHOD = "tools/call"
LIMITS = (LimitExceeded, DeadlineExceeded, UpstreamMessageTooLarge)
"""The errors that say that a limit was met; each is counted under its code."""

TOLD = 1000
DEPTH = 2
MISFITS = 20


@dataclass(frozen=True, slots=True)
class Calling:
    """One call of a tool: of which view, with what, and as what it is recorded."""

    view: str | None
    tool: Tool
    params: Mapping[str, Any]
    arguments: dict[str, Any]
    active: Active

    def sent(self) -> dict[str, Any]:
        """Return the params as the tool's server takes them; what weft does not know of them stays."""
        arguments = self.arguments if self.tool.prepare is None else self.tool.prepare(self.arguments)
        sent = {**self.params, "name": self.tool.upstream_name, "arguments": arguments}
        sent.pop("_meta", None)
        return sent

    def along(self, caller: Caller) -> Mapping[str, Any]:
        """Return what goes along in `_meta`: what the client sent, in weft's own place of the trace."""
        return {**caller.meta, **self.active.meta} if caller.meta else self.active.meta

    def bound(self, caller: Caller) -> str:
        """Return what state that is signed for this call holds for: nobody else, and nothing else."""
        return f"{caller.principal.id}|{self.view}|{METHOD}|{self.tool.name}|{digest(self.arguments)}"


class ToolCalls:
    """Calls the tools of a view for a client."""

    def __init__(self, engine: Engine, rounds: Rounds, telemetry: Telemetry) -> None:
        self._engine = engine
        self._rounds = rounds
        self._telemetry = telemetry

    async def call(
        self, view_name: str | None, view: View, params: Mapping[str, Any], caller: Caller, answers: Answers | None
    ) -> dict[str, Any]:
        """Call a tool and return its result; whatever goes wrong in it is told as its content.

        Raises:
            NotFound: the view has no such tool.
            InputError: the request itself is wrong.
            UpstreamRefused: the server refused the request with a JSON-RPC error.
        """
        name: object = params.get("name")
        tool = view.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise _unknown(name, view)
        arguments: object = params.get("arguments")
        if arguments is None:
            arguments = {}
        elif not is_object(arguments):
            raise InputError(f"arguments must be an object, not {shown(arguments)}", code="InvalidParams")
        calling = Calling(view_name, tool, params, arguments, self._telemetry.begin(METHOD, tool.name, caller.meta))
        try:
            if tool.server is not None and answers is None and not can_be_asked(caller):
                # Nothing can come up that needs more than one request: by far the most calls are such.
                result = await self._relay(calling, tool.server, caller)
            else:
                result = await self._in_rounds(calling, caller, answers)
        except BaseException as error:
            if isinstance(error, LIMITS):
                self._telemetry.metrics.limit_exceeded(error.code)
            return _told(error, tool, calling.active)
        if tool.server is not None:
            calling.active.end(outcome_of(result), server=tool.server.spec.key)
        return result

    async def _in_rounds(self, calling: Calling, caller: Caller, answers: Answers | None) -> dict[str, Any]:
        tool = calling.tool

        async def work(client: Caller, brought: Mapping[str, Any]) -> dict[str, Any]:
            if tool.server is None:
                return await self._run(calling, client)
            return await self._asking(calling, tool.server, client, brought)

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
        client = Inside(caller, active.meta)
        on_step = steps_told(caller) if caller.wants_progress else None
        result = await self._engine.run(tool.name, value, caller=client, on_step=on_step)
        try:
            told = served(result.value, warnings=result.warnings, trace_id=active.trace_id)
            told = told if tool.misfits is None else _as_advertised(told, tool)
        except ExecutionFailed as error:
            # All steps went well, and the client is told no: that counts, and the steps show why.
            active.end("error", error=error.message, spans=result.tracing(), size=result.spans)
            raise
        active.end("ok", spans=result.tracing(), size=result.spans)
        return told


def _value(tool: Tool, definition: ToolDef, arguments: dict[str, Any]) -> Any:
    """Return the arguments as the engine takes them.

    Raises:
        ExecutionFailed: they are not what the tool says that it takes.
        InputError: they are not one value, and the tool takes one.
    """
    value = accept(definition, arguments)
    wrong = misfits(definition, value)
    if tool.unfit is not None:
        wrong += [f"{one.pointer or 'the input'}: {one.message}" for one in tool.unfit(arguments)]
    if wrong:
        told = "; ".join(list(dict.fromkeys(wrong))[:MISFITS])
        raise ExecutionFailed(f"the arguments do not fit: {told}", code="InvalidArguments")
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
    meta = told["_meta"]
    return {**told, "_meta": {**meta, WARNINGS: [*meta.get(WARNINGS, ()), sentence]}}


def _told(error: BaseException, tool: Tool, active: Active) -> dict[str, Any]:
    """End a call that went wrong, and return what its model is told; what is no fault of the tool goes on up."""
    server = None if tool.server is None else tool.server.spec.key
    if isinstance(error, asyncio.CancelledError):
        active.end("cancelled", server=server)
        raise error
    if not isinstance(error, WeftError):
        active.end("error", server=server, error=repr(error))
        raise error
    trace: Any = error.trace
    spans: Callable[[], Any] | None = None if trace is None else lambda: trace
    active.end("error", server=server, error=error.message, spans=spans)
    # The server's own refusal, and a state that is not valid, are about the request: no model can help that.
    if isinstance(error, UpstreamRefused) and tool.server is not None:
        raise error
    if isinstance(error, InputError) and error.code == "InvalidRequestState":
        raise error
    return failed(error, tool=tool.name, trace_id=active.trace_id)


def _unknown(name: object, view: View) -> WeftError:
    if not isinstance(name, str):
        return InputError(f"name must be a string, not {shown(name)}", code="InvalidParams")
    return NotFound("Tool", name, view.tools)


def steps_told(caller: Caller) -> OnStep:
    """Return what tells a client of each step of a composition that has ended, down to a depth that is worth it."""
    told = 0

    def tell(place: Place) -> None:
        nonlocal told
        if place.parent is None or told >= TOLD or _depth(place) > DEPTH:
            return
        told += 1
        took = (place.ended - place.began) * 1000
        name = place.name or place.step.name
        how = "done" if place.outcome == "ok" else place.outcome
        caller.progress({"progress": told, "message": f"{name}: {how} ({took:.0f} ms)"})

    return tell


def _depth(place: Place) -> int:
    depth, above = 0, place.parent
    while above is not None and depth <= DEPTH:
        depth, above = depth + 1, above.parent
    return depth
