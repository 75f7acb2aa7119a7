"""The admin listener, on loopback only: reload, traces, upstreams, state; of all workers together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import parse_qs

from weft.doors.asgi import Receive, Scope, Send, answer_json, refuse
from weft.doors.peers import Peers
from weft.doors.state import StateDoor, is_state, status_of
from weft.errors import WeftError, shown

TRACES = 100
RELOADING = 60.0
"""Seconds that a worker has to load a registry."""


class Operations(Protocol):
    """What an operator can ask of one worker."""

    async def reload(self) -> Mapping[str, Any]:
        """Read registry and configuration again; return the generation, and the problems if it was not taken."""
        ...

    async def traces(self, limit: int) -> list[dict[str, Any]]:
        """Return the latest calls, newest first, each with its `time`, by which those of all workers are ordered."""
        ...

    async def trace(self, trace_id: str) -> list[dict[str, Any]]:
        """Return the calls of a trace, each with its steps."""
        ...

    async def upstreams(self) -> Mapping[str, Any]:
        """Return the state of each upstream."""
        ...


def answer_peers(peers: Peers, operations: Operations) -> None:
    """Let the worker that has the admin listener ask this one."""

    async def reload(message: dict[str, Any]) -> dict[str, Any]:
        return dict(await operations.reload())

    async def traces(message: dict[str, Any]) -> dict[str, Any]:
        return {"traces": await operations.traces(int(message["limit"]))}

    async def trace(message: dict[str, Any]) -> dict[str, Any]:
        return {"calls": await operations.trace(str(message["id"]))}

    async def upstreams(message: dict[str, Any]) -> dict[str, Any]:
        return {"upstreams": dict(await operations.upstreams())}

    for handler in (reload, traces, trace, upstreams):
        peers.on(handler.__name__, handler)


class AdminDoor:
    """An ASGI application for operators; put it behind a Guard of its own, whose site is loopback."""

    def __init__(self, operations: Operations, *, state: StateDoor | None = None, peers: Peers | None = None) -> None:
        self._operations = operations
        self._state = state
        self._peers = peers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path, method = scope["path"].rstrip("/"), scope["method"]
        if self._state is not None and is_state(path):
            await self._state(scope, receive, send)
            return
        allowed = "POST" if path == "/reload" else "GET"
        if method != allowed:
            headers = [(b"allow", allowed.encode())]
            await refuse(scope, send, 405, "MethodNotAllowed", f"{path} takes {allowed}", headers=headers)
            return
        try:
            status, told = await self._do(path, scope["query_string"])
        except WeftError as error:
            status, told = status_of(error), {"error": error.to_json()}
        await answer_json(send, status, told)

    async def _do(self, path: str, query: bytes) -> tuple[int, dict[str, Any]]:
        if path == "/reload":
            return await self._reload()
        if path == "/upstreams":
            others = await self._others({"op": "upstreams"})
            workers = [dict(await self._operations.upstreams()), *(one["upstreams"] for one in others)]
            return 200, {"upstreams": workers[0], **({"otherWorkers": workers[1:]} if others else {})}
        if path == "/traces":
            return 200, {"traces": await self._traces(_limit(query))}
        return await self._trace(path.removeprefix("/traces/"))

    async def _reload(self) -> tuple[int, dict[str, Any]]:
        mine = dict(await self._operations.reload())
        others = await self._others({"op": "reload"}, timeout=RELOADING)
        # Each worker reads the same files; one that saw other problems saw another moment of them.
        well = not any(one.get("problems") for one in (mine, *others))
        return 200 if well else 422, {**mine, **({"otherWorkers": others} if others else {})}

    async def _traces(self, limit: int) -> list[dict[str, Any]]:
        found = await self._operations.traces(limit)
        others = await self._others({"op": "traces", "limit": limit})
        return sorted([*found, *_all(others, "traces")], key=_time, reverse=True)[:limit]

    async def _trace(self, trace_id: str) -> tuple[int, dict[str, Any]]:
        found = await self._operations.trace(trace_id)
        others = await self._others({"op": "trace", "id": trace_id})
        calls = sorted([*found, *_all(others, "calls")], key=_time)
        if calls:
            return 200, {"id": trace_id, "calls": calls}
        message = f"no trace {shown(trace_id)} is kept"
        return 404, {"error": {"code": "NotFound", "message": message, "hint": "GET /traces has the latest"}}

    async def _others(self, message: dict[str, Any], *, timeout: float | None = None) -> list[dict[str, Any]]:
        return [] if self._peers is None else await self._peers.tell_all(message, timeout=timeout)


def _all(answers: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    return [one for answer in answers for one in answer[key]]


def _time(call: dict[str, Any]) -> str:
    return str(call.get("time", ""))


def _limit(query: bytes) -> int:
    asked = parse_qs(query.decode("latin-1")).get("limit", [""])[0]
    return min(int(asked), 1000) if asked.isdigit() and len(asked) < 7 else TRACES
