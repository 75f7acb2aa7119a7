"""Prompts, resources and completions: each goes to the server that has it, under the name that it has there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from weft.errors import InputError, NotFound, WeftError, shown
from weft.gateway.auditing import Auditor
from weft.gateway.callers import can_be_asked
from weft.gateway.calls import LIMITS
from weft.gateway.rounds import Answers, Rounds
from weft.gateway.signing import digest
from weft.gateway.views import View
from weft.ports import Caller, is_array, is_object
from weft.run.engine import Engine
from weft.telemetry import Active, Telemetry
from weft.upstreams.onward import Onward
from weft.upstreams.results import outcome_of
from weft.upstreams.server import Server


class ResourceNotFound(NotFound):
    """No server has a resource of that address."""

    code = "ResourceNotFound"


class OtherRequests:
    """Everything that clients ask for beside lists and calls of tools."""

    def __init__(self, engine: Engine, rounds: Rounds, telemetry: Telemetry, auditor: Auditor) -> None:
        self._auditor = auditor
        self._engine = engine
        self._rounds = rounds
        self._telemetry = telemetry

    async def request(
        self, view: View, method: str, params: Mapping[str, Any], caller: Caller, answers: Answers | None
    ) -> dict[str, Any]:
        """Do what a client asks for, and return the result; it is counted and traced as a call of a tool is."""
        name: object = params.get("uri", params.get("name"))
        active = self._telemetry.begin(method, name if isinstance(name, str) else "", caller.meta)
        client = Onward(caller, {**caller.meta, **active.meta})
        try:
            result = await self._do(view, method, params, client, answers)
            outcome = outcome_of(result)
        except asyncio.CancelledError:
            active.end("cancelled")
            raise
        except Exception as error:
            if isinstance(error, LIMITS):
                self._telemetry.metrics.limit_exceeded(error.code)
            active.end("error", error=error.message if isinstance(error, WeftError) else repr(error))
            await self._audit(caller, active, "error")
            raise
        active.end(outcome)
        await self._audit(caller, active, outcome)
        return result

    async def _audit(self, caller: Caller, active: Active, outcome: str) -> None:
        """Record what was read or filled in; what a tool is in a call, the method and the name are here."""
        if self._auditor.on:
            await self._auditor.call(
                caller.principal,
                f"{active.method} {active.name}",
                None,
                decision="allow",
                outcome=outcome,
                ms=(active.ended - active.began) * 1000,
                trace_id=active.trace_id,
            )

    async def _do(
        self, view: View, method: str, params: Mapping[str, Any], caller: Caller, answers: Answers | None
    ) -> dict[str, Any]:
        if method == "prompts/get":
            return await self.prompt(view, params, caller, answers)
        if method == "resources/read":
            return await self.read(view, params, caller, answers)
        if method == "completion/complete":
            return await self.complete(view, params, caller)
        server, uri = whose(view, text_of(params, "uri"))
        await (server.subscribe(uri) if method == "resources/subscribe" else server.unsubscribe(uri))
        return {}

    async def prompt(
        self, view: View, params: Mapping[str, Any], caller: Caller, answers: Answers | None
    ) -> dict[str, Any]:
        """Return a prompt, filled in."""
        name = text_of(params, "name")
        found = view.prompts.get(name)
        if found is None:
            raise NotFound("Prompt", name, view.prompts)
        sent = {**params, "name": found.upstream_name}
        return await self._in_rounds("prompts/get", found.server, sent, caller, answers)

    async def read(
        self, view: View, params: Mapping[str, Any], caller: Caller, answers: Answers | None
    ) -> dict[str, Any]:
        """Return the contents of a resource, under the address by which it was asked for."""
        uri = text_of(params, "uri")
        server, original = whose(view, uri)
        result = await self._in_rounds("resources/read", server, {**params, "uri": original}, caller, answers)
        return result if uri == original else _readdressed(result, uri.removesuffix(original))

    async def complete(self, view: View, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """Return what an argument of a prompt, or of a template, may be completed to."""
        ref: object = params.get("ref")
        if not is_object(ref):
            raise InputError(f"ref must be an object, not {shown(ref)}", code="InvalidParams")
        if ref.get("type") == "ref/prompt":
            name = text_of(ref, "name")
            prompt = view.prompts.get(name)
            if prompt is None:
                raise NotFound("Prompt", name, view.prompts)
            return await self._ask(
                "completion/complete", prompt.server, {**params, "ref": {**ref, "name": prompt.upstream_name}}, caller
            )
        if ref.get("type") != "ref/resource":
            raise InputError(
                f"ref.type must be 'ref/prompt' or 'ref/resource', not {shown(ref.get('type'))}", code="InvalidParams"
            )
        server, original = whose_template(view, text_of(ref, "uri"))
        return await self._ask("completion/complete", server, {**params, "ref": {**ref, "uri": original}}, caller)

    async def _in_rounds(
        self, method: str, server: Server, params: Mapping[str, Any], caller: Caller, answers: Answers | None
    ) -> dict[str, Any]:
        async def work(client: Caller, brought: Mapping[str, Any]) -> dict[str, Any]:
            return await self._ask(method, server, {**params, **brought}, client)

        bound = f"{caller.principal.id}|{server.spec.key}|{method}|{digest(params)}"
        parks = server.inventory.era == "legacy" and caller.relays_input and can_be_asked(caller)
        # Without the state, nobody waits here for these answers: what can be asked in the middle begins anew.
        if answers is not None and (answers.state or not parks):
            return await self._rounds.again(work, caller, bound=bound, answers=answers)
        return await self._rounds.begin(work, caller, bound=lambda: bound, parks=parks)

    async def _ask(self, method: str, server: Server, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        deadline = asyncio.get_running_loop().time() + self._engine.limits.timeout
        sent = {key: value for key, value in params.items() if key != "_meta"}
        return await server.request(method, sent, deadline=deadline, caller=Onward(caller, caller.meta))


def text_of(params: Mapping[str, Any], key: str) -> str:
    """Return a param that must be a text.

    Raises:
        InputError: it is not there, or is something else.
    """
    value: object = params.get(key)
    if not isinstance(value, str):
        raise InputError(f"{key} must be a string, not {shown(value)}", code="InvalidParams")
    return value


def whose(view: View, uri: str) -> tuple[Server, str]:
    """Return the server that has a resource, and the address by which it knows it.

    Raises:
        ResourceNotFound: no server has it.
    """
    owned = view.resources.get(uri)
    if owned is not None:
        return owned.server, owned.upstream_name
    for template in view.templates:
        original = template.original(uri)
        if original is not None:
            return template.owned.server, original
    # A server may know addresses that it does not list; with one such server there is no doubt whom to ask.
    able = [server for server in view.servers if "resources" in server.inventory.capabilities]
    if len(able) == 1 and view.whole:
        return able[0], uri
    raise ResourceNotFound("Resource", uri, view.resources)


def whose_template(view: View, uri: str) -> tuple[Server, str]:
    """Return the server that has a template, and how it spells it there."""
    for template in view.templates:
        if uri == template.prefix + template.owned.upstream_name:
            return template.owned.server, template.owned.upstream_name
    return whose(view, uri)


def _readdressed(result: dict[str, Any], prefix: str) -> dict[str, Any]:
    contents: object = result.get("contents")
    if not is_array(contents):
        return result
    told = [{**one, "uri": f"{prefix}{one['uri']}"} if is_object(one) and "uri" in one else one for one in contents]
    return {**result, "contents": told}
