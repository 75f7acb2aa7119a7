"""`/api/v1/compositions`: templates, running them, and what became of their runs, over plain HTTP.

What the routes are is in `composition_routes`, what they send in `openapi_schemas`; errors are `problem+json`. A
workflow that ran and failed is an answer like any other: 200, with `"success": false`.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

from weft.doors.asgi import (
    GONE,
    PRINCIPAL,
    BadRequest,
    ClientGone,
    Headers,
    Receive,
    Scope,
    Send,
    answer,
    any_json,
    header,
    read_body,
    respond,
)
from weft.doors.composition_events import HEARTBEAT, EventStreams, no_more, resumed_at
from weft.doors.composition_query import read_query
from weft.doors.composition_routes import BASE, IF_MATCH, ROUTES, Route, found
from weft.doors.composition_runs import Everywhere
from weft.doors.openapi import openapi
from weft.doors.peers import Peers
from weft.doors.plain import LIMITS, check_json, trace_context
from weft.doors.problems import Unreadable, answer_problem
from weft.errors import DocumentInvalid, WeftError, nearest, shown
from weft.gateway.callers import Nobody
from weft.gateway.composition_rights import CompositionRights
from weft.gateway.composition_tools import is_well
from weft.gateway.compositions import Compositions
from weft.ir.read import CALL_LIMITS, DocumentLimits, read
from weft.ports import ANONYMOUS, Principal, is_object

_ETAGS: Final = re.compile(r'((W/)?"[!#-~]*"[ \t]*(,[ \t]*(?!$)|$))+')
T = TypeVar("T")
NEVER: Final = -1
"""A version that no template has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, read."""

    principal: Principal
    scope: Scope
    name: str
    """What its path names, if it names something."""
    query: Mapping[str, Any]
    body: Any


@dataclass(frozen=True, slots=True)
class Told:
    """An answer: a value, or nothing."""

    status: int
    value: Any = None
    headers: Headers = ()


class CompositionsDoor:
    """An ASGI application for all below `/api/v1/compositions`; `exceeded` counts the limits met."""

    def __init__(
        self,
        compositions: Compositions,
        *,
        rights: CompositionRights,
        peers: Peers | None = None,
        limits: DocumentLimits = CALL_LIMITS,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self.exceeded: Counter[str] = Counter()
        self._service = compositions
        self._rights = rights
        self._runs = Everywhere(compositions, peers)
        self._runs.answer_others()
        self._limits = limits
        self._streams = EventStreams(heartbeat=heartbeat)
        self._openapi = any_json(openapi())
        self._do: dict[str, Callable[[Asked], Awaitable[Told]]] = {
            "listTemplates": self._list_templates,
            "createTemplate": self._create,
            "getTemplate": self._get_template,
            "replaceTemplate": self._replace,
            "deleteTemplate": self._delete,
            "getTemplateStats": self._stats,
            "execute": self._execute,
            "validate": self._validate,
            "listRuns": self._list_runs,
            "getRun": self._get_run,
            "cancelRun": self._cancel,
        }

    def close(self) -> None:
        """End the streams, which would last as long as their runs."""
        self._streams.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers: Headers = ()
        try:
            routes, name = _place(scope)
            route = routes.get(scope["method"])
            if route is None:
                allowed = ", ".join(sorted(routes))
                headers = [(b"allow", allowed.encode())]
                raise BadRequest(405, "MethodNotAllowed", f"this takes {allowed}")
            asked = await self._read(route, name, scope, receive)
            if route.tool is None:
                await answer(send, 200, self._openapi)
            elif route.name == "followRun":
                await self._follow(asked, await self._by_right(route, route.tool, asked, self._events), send)
            else:
                await _answer(send, await self._by_right(route, route.tool, asked, self._do[route.name]))
        except ClientGone:
            return
        except WeftError as error:
            self.exceeded.update(LIMITS & {error.code})
            await answer_problem(send, error, headers=headers)

    async def _read(self, route: Route, name: str, scope: Scope, receive: Receive) -> Asked:
        query = read_query(scope["query_string"], route.query)
        body: Any = None
        if route.body is not None:
            check_json(scope)
            body = _parsed(await read_body(scope, receive, limit=self._limits.bytes), self._limits)
        principal = scope["state"].get(PRINCIPAL, ANONYMOUS)
        return Asked(principal=principal, scope=scope, name=name, query=query, body=body)

    async def _by_right(self, route: Route, tool: str, asked: Asked, do: Callable[[Asked], Awaitable[T]]) -> T:
        """Do what is asked for, if the caller has the right to the tool that does the same."""
        way = f"HTTP {route.method} {route.path}"
        async with self._rights.use(asked.principal, tool, _arguments(asked), way=way, counts=route.counts) as use:
            done = await do(asked)
            if isinstance(done, Told) and is_object(done.value):
                use.trace_id = done.value.get("trace_id")
                if route.name == "execute" and not is_well(done.value):
                    use.outcome = "error"
            return done

    # Templates.

    async def _list_templates(self, asked: Asked) -> Told:
        return Told(200, {"templates": await self._service.templates(asked.principal, **asked.query)})

    async def _create(self, asked: Asked) -> Told:
        made = await self._service.create(asked.principal, asked.body)
        return Told(201, made, [_location("templates", made["id"]), *_etag(made)])

    async def _get_template(self, asked: Asked) -> Told:
        kept = await self._service.template(asked.principal, asked.name)
        return Told(200, kept, _etag(kept))

    async def _replace(self, asked: Asked) -> Told:
        version = await self._version(asked)
        made = await self._service.update(asked.principal, asked.name, asked.body, version=version)
        return Told(200, made, _etag(made))

    async def _delete(self, asked: Asked) -> Told:
        await self._service.delete(asked.principal, asked.name, version=await self._version(asked))
        return Told(204)

    async def _version(self, asked: Asked) -> int | None:
        """Return which version of a template is meant to be changed; None for whichever there is."""
        said = header(asked.scope, IF_MATCH.encode())
        if said is None or said.strip() == b"*":
            return None
        text = said.decode("latin-1").strip()
        if _ETAGS.fullmatch(text) is None:
            hint = "send the ETag as it came, in its quotation marks"
            raise BadRequest(400, "InvalidETag", f"{shown(text)} is not an ETag", hint=hint)
        kept = await self._service.template(asked.principal, asked.name)
        # A weak one never matches (RFC 9110, 13.1.1).
        tags = re.split(r"[ \t]*,[ \t]*", text)
        return int(kept["etag"]) if "etag" in kept and f'"{kept["etag"]}"' in tags else NEVER

    async def _stats(self, asked: Asked) -> Told:
        return Told(200, await self._service.stats(asked.principal, asked.name))

    # Running.

    async def _execute(self, asked: Asked) -> Told:
        caller = Nobody(principal=asked.principal, meta=trace_context(asked.scope))
        if (on_gone := asked.scope.get(GONE)) is not None and (task := asyncio.current_task()) is not None:
            on_gone(task.cancel)
        result = await self._service.execute(caller, asked.body)
        if result.get("status") == "running":
            return Told(202, result, [_location("runs", result["run_id"])])
        return Told(200, result)

    async def _validate(self, asked: Asked) -> Told:
        return Told(200, await self._service.validate(asked.principal, asked.body))

    # Runs.

    async def _list_runs(self, asked: Asked) -> Told:
        return Told(200, await self._service.runs(asked.principal, **asked.query))

    async def _get_run(self, asked: Asked) -> Told:
        return Told(200, await self._runs.run(asked.principal, asked.name))

    async def _cancel(self, asked: Asked) -> Told:
        return Told(200, await self._runs.cancel(asked.principal, asked.name))

    async def _events(self, asked: Asked) -> AsyncGenerator[dict[str, Any]] | None:
        after = resumed_at(asked.scope)
        if after is None:
            await self._runs.run(asked.principal, asked.name)
            return None
        return await self._runs.follow(asked.principal, asked.name, after)

    async def _follow(self, asked: Asked, events: AsyncGenerator[dict[str, Any]] | None, send: Send) -> None:
        if events is None:
            await no_more(send)
        else:
            await self._streams.send(asked.scope, send, events)


def _place(scope: Scope) -> tuple[dict[str, Route], str]:
    """Return what is at the path of a request, and what the path names; a name may have an escaped slash in it."""
    path = scope["raw_path"].decode("ascii").rstrip("/").removeprefix(BASE).lstrip("/")
    routes, names = found(tuple(unquote(part) for part in path.split("/")))
    if not routes:
        paths = sorted({route.path for route in ROUTES})
        close = nearest(unquote(path), paths)
        hint = f"did you mean {close!r}?" if close else f"below {BASE} there is {', '.join(paths)}"
        raise BadRequest(404, "NotFound", f"nothing is at {shown(scope['path'])}", hint=hint)
    return routes, names.get("id", "")


def _parsed(body: bytes, limits: DocumentLimits) -> dict[str, Any]:
    try:
        value: object = read(body, name="body", format="json", limits=limits, whole_document=False).value
    except DocumentInvalid as error:
        raise Unreadable(error) from None
    if not is_object(value):
        raise BadRequest(400, "InvalidRequest", f"the body must be an object, not {shown(value)}")
    return value


def _arguments(asked: Asked) -> dict[str, Any]:
    """Return what is asked for as arguments of a tool: what an audit log has the fingerprint of."""
    named = {"id": asked.name} if asked.name else {}
    return {**(asked.body or {}), **asked.query, **named}


def _location(*parts: str) -> tuple[bytes, bytes]:
    return b"location", "/".join((BASE, *(quote(part, safe="") for part in parts))).encode()


def _etag(kept: Mapping[str, Any]) -> Headers:
    return [(b"etag", f'"{kept["etag"]}"'.encode())] if "etag" in kept else []


async def _answer(send: Send, told: Told) -> None:
    if told.value is None:
        await respond(send, told.status, headers=told.headers)
    else:
        await answer(send, told.status, any_json(told.value), headers=told.headers)
