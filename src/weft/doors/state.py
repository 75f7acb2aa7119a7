"""What operators ask about state, on the admin listener: sagas, dead letters, circuits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol
from urllib.parse import parse_qs

import orjson

from weft.doors.asgi import BadRequest, Headers, Receive, Scope, Send, answer_json, read_body, retry_after_header
from weft.doors.peers import Peers
from weft.errors import ExecutionFailed, InputError, NotFound, WeftError, nearest
from weft.ports import is_object
from weft.run.journal import began

STATE_PATHS: Final = ("/sagas", "/dead-letters", "/circuits")
MOST_BODY: Final = 64 * 1024
MOST_REASON: Final = 2000
LETTERS: Final = 100
MOST_LETTERS: Final = 10_000
PATIENCE: Final = 30.0
"""Seconds that another worker has to read and change its circuits."""

Change = Literal["reset", "open"]


class StateOperations(Protocol):
    """What an operator can ask of one worker; its errors are those of `weft.app.operating`."""

    async def sagas(self, *, ended: bool, store: str | None) -> dict[str, Any]: ...
    async def saga(self, which: str, *, store: str | None) -> dict[str, Any]: ...
    async def retry_saga(self, which: str, *, store: str | None) -> dict[str, Any]: ...
    async def abandon_saga(self, which: str, reason: str, *, store: str | None) -> dict[str, Any]: ...
    async def own_sagas(self, *, ended: bool, store: str | None) -> list[dict[str, Any]]: ...
    async def letters(self, *, tool: str | None, limit: int) -> dict[str, Any]: ...
    async def letter(self, id: str) -> dict[str, Any]: ...
    async def redrive(self, id: str | None) -> dict[str, Any]: ...
    async def circuits(self) -> list[dict[str, Any]]: ...
    async def change_circuit(self, name: str, change: Change) -> list[dict[str, Any]]: ...


def is_state(path: str) -> bool:
    """Tell whether a path is about state."""
    return path.startswith(STATE_PATHS)


def status_of(error: WeftError) -> int:
    """Return what HTTP calls an error of an operation."""
    if isinstance(error, BadRequest):
        return error.status
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, InputError) or error.origin == "caller":
        return 400
    return 409 if isinstance(error, ExecutionFailed) else 503


def answer_about_state(peers: Peers, operations: StateOperations) -> None:
    """Let the worker that has the admin listener ask this one about what each has for itself."""

    async def circuits(message: dict[str, Any]) -> dict[str, Any]:
        return {"worker": peers.index, "circuits": await operations.circuits()}

    async def change_circuit(message: dict[str, Any]) -> dict[str, Any]:
        changed = await operations.change_circuit(str(message["name"]), message["change"])
        return {"worker": peers.index, "circuits": changed}

    async def own_sagas(message: dict[str, Any]) -> dict[str, Any]:
        rows = await operations.own_sagas(ended=message["ended"], store=message["store"])
        return {"sagas": [{**row, "worker": peers.index} for row in rows]}

    async def do_saga(message: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"saga": {**await _done(operations, message), "worker": peers.index}}
        except NotFound:
            return {}
        except WeftError as error:
            return {"refused": {"message": error.message, "code": error.code, "hint": error.hint}}

    for handler in (circuits, change_circuit, own_sagas, do_saga):
        peers.on(handler.__name__, handler)


async def _done(operations: StateOperations, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Do with a saga what is asked: show, retry or abandon it."""
    which, store = asked["which"], asked["store"]
    if asked["action"] == "show":
        return await operations.saga(which, store=store)
    if asked["action"] == "retry":
        return await operations.retry_saga(which, store=store)
    return await operations.abandon_saga(which, asked["reason"], store=store)


class StateDoor:
    """An ASGI application for the paths above."""

    def __init__(self, operations: StateOperations, *, peers: Peers | None = None) -> None:
        self._operations = operations
        self._peers = peers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            status, told, headers = 200, await self._do(scope, receive), None
        except WeftError as error:
            status, told, headers = status_of(error), {"error": error.to_json()}, _headers(error)
        await answer_json(send, status, told, headers=headers)

    async def _do(self, scope: Scope, receive: Receive) -> dict[str, Any]:
        path, method = scope["path"], scope["method"]
        asked = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        query = {key: values[-1] for key, values in asked.items()}
        kind, below, rest = path[1:].partition("/")
        # What is named may have slashes in its name: only the last word can be what to do with it.
        name, named, action = rest.rpartition("/") if method == "POST" else (rest, below, "")
        if named and not name:
            raise BadRequest(400, "NoName", "the name is empty", hint=f"/{kind} alone has all")
        if kind == "sagas":
            return await self._sagas(method, name, action, query, (scope, receive))
        if kind == "dead-letters":
            return await self._letters(method, name, action, query)
        if kind == "circuits":
            return await self._circuits(method, name, action)
        raise BadRequest(404, "NotFound", f"nothing is at {path}", hint=f"there is {', '.join(STATE_PATHS)}")

    async def _sagas(
        self, method: str, name: str, action: str, query: dict[str, str], request: tuple[Scope, Receive]
    ) -> dict[str, Any]:
        store = query.get("store")
        if method == "GET" and not name:
            ended = query.get("ended", "false")
            if ended not in ("true", "false"):
                raise BadRequest(400, "InvalidQuery", "ended is true or false")
            told = await self._operations.sagas(ended=ended == "true", store=store)
            return await self._with_own_sagas(told, {"ended": ended == "true", "store": store})
        asked = {"which": name, "store": store, "action": "show"}
        if method != "GET":
            _check(method, name, action, ("retry", "abandon"))
            asked["action"] = action
            if action == "abandon":
                asked["reason"] = _reason(await read_body(*request, limit=MOST_BODY))
        return await self._saga(asked)

    async def _saga(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Do something with a saga; one in the memory of another worker is that worker's to do."""
        try:
            return await _done(self._operations, asked)
        except NotFound:
            if self._peers is None:
                raise
            for answer in await self._peers.tell_all({"op": "do_saga", **asked}, timeout=PATIENCE):
                if (refused := answer.get("refused")) is not None:
                    raise ExecutionFailed(refused["message"], code=refused["code"], hint=refused["hint"]) from None
                if (saga := answer.get("saga")) is not None:
                    return saga
            raise

    async def _with_own_sagas(self, told: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
        """Return sagas with those that are in the memory of other workers."""
        if self._peers is None:
            return told
        others = await self._peers.tell_all({"op": "own_sagas", **asked}, timeout=PATIENCE)
        silent = self._peers.count - 1 - len(others)
        rows = [*told["sagas"], *(row for one in others for row in one["sagas"])]
        return {**told, "sagas": sorted(rows, key=began), **({"silentWorkers": silent} if silent else {})}

    async def _letters(self, method: str, id: str, action: str, query: dict[str, str]) -> dict[str, Any]:
        do = self._operations
        if method == "GET" and not id:
            return await do.letters(tool=query.get("tool"), limit=_limit(query.get("limit")))
        if method == "GET":
            return await do.letter(id)
        _check(method, id or "all", action, ("redrive",))
        return await do.redrive(id or None)

    async def _circuits(self, method: str, name: str, action: str) -> dict[str, Any]:
        if method == "GET":
            told = await self._all_circuits()
            if name:
                told["circuits"] = [one for one in told["circuits"] if one["name"] == name]
        else:
            _check(method, name, action, ("reset", "open"))
            change: Change = "reset" if action == "reset" else "open"
            changed = await self._operations.change_circuit(name, change)
            told = await self._with_others(changed, {"op": "change_circuit", "name": name, "change": change})
        if name and not told["circuits"]:
            raise NotFound("Circuit", name, {one["name"] for one in (await self._all_circuits())["circuits"]})
        return told

    async def _all_circuits(self) -> dict[str, Any]:
        return await self._with_others(await self._operations.circuits(), {"op": "circuits"})

    async def _with_others(self, mine: list[dict[str, Any]], message: dict[str, Any]) -> dict[str, Any]:
        """Return the circuits of all workers: those that are in a store once, the others for each worker."""
        if self._peers is None:
            return {"circuits": mine}
        others = await self._peers.tell_all(message, timeout=PATIENCE)
        workers: list[tuple[int, list[dict[str, Any]]]] = [(self._peers.index, mine)]
        workers += [(one["worker"], one["circuits"]) for one in others]
        found: dict[tuple[str, str, int], dict[str, Any]] = {}
        for worker, circuits in workers:
            for one in circuits:
                shared = "store" in one
                key = (one["name"], one.get("scope", ""), -1 if shared else worker)
                found.setdefault(key, one if shared else {**one, "worker": worker})
        silent = self._peers.count - len(workers)
        return {"circuits": [found[key] for key in sorted(found)], **({"silentWorkers": silent} if silent else {})}


def _check(method: str, name: str, action: str, actions: Sequence[str]) -> None:
    if method != "POST":
        raise BadRequest(405, "MethodNotAllowed", "this takes GET, or POST to change something")
    if not name or action not in actions:
        close = nearest(action, actions)
        hint = f"did you mean {close!r}?" if close else f"POST .../{' or .../'.join(actions)}"
        raise BadRequest(404, "NotFound", "that cannot be done", hint=hint)


def _headers(error: WeftError) -> Headers:
    allow: Headers = [(b"allow", b"GET, POST")] if status_of(error) == 405 else []
    return [*allow, *([] if error.retry_after is None else [retry_after_header(error.retry_after)])]


def _limit(asked: str | None) -> int:
    """Return how many letters are asked for.

    Raises:
        BadRequest: that is no number, or too many.
    """
    if asked is None:
        return LETTERS
    if not re.fullmatch(r"[0-9]{1,5}", asked) or not 0 < int(asked) <= MOST_LETTERS:
        raise BadRequest(400, "InvalidQuery", f"limit is a number from 1 to {MOST_LETTERS}")
    return int(asked)


def _reason(body: bytes) -> str:
    """Return why a saga is given up.

    Raises:
        BadRequest: nobody says.
    """
    try:
        told: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        told = None
    reason: object = told.get("reason") if is_object(told) else None
    if not isinstance(reason, str) or not reason.strip() or len(reason) > MOST_REASON:
        expected = f'expected {{"reason": "..."}}, of at most {MOST_REASON} characters'
        raise BadRequest(400, "InvalidBody", "say why the saga is given up", hint=expected)
    return reason.strip()
