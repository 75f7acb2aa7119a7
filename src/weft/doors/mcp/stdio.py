"""MCP over stdin and stdout, for a client that starts weft as its child: one message a line, in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

import orjson

from weft.doors.mcp.exchange import Reason
from weft.doors.mcp.faults import PARSE_ERROR, Era, Refusal, fault
from weft.doors.mcp.legacy import Legacy
from weft.doors.mcp.listening import FLAGS, Listeners, Listening, acknowledgement, tag, wanted
from weft.doors.mcp.messages import MessageLimits, id_of, is_id, kind_of, parse, result
from weft.doors.mcp.methods import PROTOCOL_VERSION
from weft.doors.mcp.modern import Modern, check_version, envelope, is_modern
from weft.doors.mcp.pipes import Incoming, Outgoing, standard_pipes
from weft.doors.mcp.serves import Serves
from weft.doors.mcp.sessions import Agreed, Sessions, agree
from weft.ports import ANONYMOUS, Principal, is_object

GRACE = 1.5
"""For how long requests may still be answered when stdin has ended; clients wait 2 s before they use force."""


class Running:
    """A request that is being served."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def give_up(self, reason: Reason) -> None:
        """Cancel what is done for it; nobody waits for an answer."""
        self._task.cancel()


class StdioDoor:
    """The door for one MCP client, over stdin and stdout, or over another pair of file descriptors."""

    def __init__(
        self,
        gateway: Serves,
        *,
        incoming: int | None = None,
        outgoing: int | None = None,
        view: str | None = None,
        principal: Principal = ANONYMOUS,
        limits: MessageLimits | None = None,
        ttl_ms: int = 0,
    ) -> None:
        self._gateway = gateway
        self._fds = (incoming, outgoing)
        self._view = view
        self._principal = principal
        self._limits = limits or MessageLimits()
        self._modern = Modern(gateway, ttl_ms=ttl_ms)
        self._sessions = Sessions()
        self._legacy = Legacy(gateway, self._sessions)
        self._agreed: Agreed | None = None
        self._running: dict[str | int, Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Serve the client until it ends stdin or reads stdout no more."""
        incoming, outgoing = self._fds
        if incoming is not None and outgoing is not None:
            return await self._serve(incoming, outgoing)
        with standard_pipes() as (stdin, stdout):
            return await self._serve(stdin, stdout)

    async def _serve(self, incoming: int, outgoing: int) -> None:
        self._out = Outgoing(outgoing)
        self._listeners = Listeners(self._gateway)
        reading = asyncio.create_task(self._read(Incoming(incoming, limit=self._limits.body)))
        left = asyncio.create_task(self._out.broken.wait())
        try:
            await asyncio.wait({reading, left}, return_when=asyncio.FIRST_COMPLETED)
            self._listeners.close()
            answering = asyncio.create_task(self._answer_the_rest())
            self._tasks.add(answering)
            await asyncio.wait({answering, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end({reading, left, *self._tasks})
            await self._out.flush(GRACE)
            self._out.close()

    async def _answer_the_rest(self) -> None:
        if asked := list(self._tasks - {asyncio.current_task()}):
            # What was piped in at once is asked before the servers behind the gateway have started.
            await self._gateway.ready()
            await asyncio.wait(asked, timeout=GRACE)

    async def _read(self, incoming: Incoming) -> None:
        async for line in incoming.lines():
            if line is None:
                self._tell(fault(self._too_long()).message(None))
            elif line.strip():
                self._take(line)
            await self._out.room()

    def _take(self, line: bytes) -> None:
        message: dict[str, Any] | None = None
        try:
            message = parse(line, self._limits)
            kind = kind_of(message)
            if kind == "request":
                self._request(message)
            elif kind == "notification":
                self._notice(message)
            elif self._agreed is not None:
                self._legacy.questions.answer(self._agreed.id, message)
        except Exception as error:
            self._tell(fault(error).message(id_of(message)))

    def _request(self, message: dict[str, Any]) -> None:
        id_, method = message["id"], message["method"]
        params: dict[str, Any] = message.get("params") or {}
        if method == "initialize":
            self._begin(id_, params)
        elif is_modern(message):
            meta = envelope(message)
            check_version(meta[PROTOCOL_VERSION])
            self._start(self._serve_modern(id_, method, params, meta), id_, method, "modern")
        elif self._agreed is not None:
            client = self._legacy.client(self._agreed, params, principal=self._principal, tell=self._tell)
            work = self._legacy.serve(self._agreed, self._view, method, params, client)
            self._start(work, id_, method, "legacy")
        elif method == "ping":
            self._tell(result(id_, {}))
        else:
            raise Refusal(f"send initialize first, or name the version of each request in _meta as {PROTOCOL_VERSION}")

    def _begin(self, id_: str | int, params: Mapping[str, Any]) -> None:
        agreed = agree(params)
        if self._agreed is not None:
            for listening in self._sessions.state(self._agreed.id).streams:
                self._listeners.remove(listening)
            self._sessions.end(self._agreed.id)
        self._agreed = agreed
        self._start(self._legacy.welcome(agreed, self._view, self._principal), id_, "initialize", "legacy")

    def _notice(self, message: Mapping[str, Any]) -> None:
        params = message.get("params")
        if message["method"] == "notifications/cancelled" and is_object(params) and is_id(params.get("requestId")):
            running = self._running.get(params["requestId"])
            if running is not None:
                running.give_up("cancelled")
        elif message["method"] == "notifications/initialized" and self._agreed is not None:
            self._hear(self._agreed)

    def _hear(self, agreed: Agreed) -> None:
        """Tell a legacy client of changes from now on."""
        state = self._sessions.state(agreed.id)
        if not state.streams:
            listening = self._listening(set(FLAGS.values()), None)
            listening.uris = state.uris
            self._listeners.add(listening)
            state.streams.append(listening)

    def _start(self, work: Coroutine[Any, Any, dict[str, Any]], id_: str | int, method: str, era: Era) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(work, id_, method, era))
        running = self._running[id_] = Running(task)
        self._tasks.add(task)

        def ended(_: object) -> None:
            self._tasks.discard(task)
            if self._running.get(id_) is running:
                del self._running[id_]

        task.add_done_callback(ended)

    async def _answer(self, work: Coroutine[Any, Any, dict[str, Any]], id_: str | int, method: str, era: Era) -> None:
        try:
            self._tell(result(id_, await work))
        except Exception as error:
            self._tell(fault(error, method=method, era=era).message(id_))

    async def _serve_modern(
        self, id_: str | int, method: str, params: dict[str, Any], meta: dict[str, Any]
    ) -> dict[str, Any]:
        await self._modern.check_method(method, self._view)
        if method == "subscriptions/listen":
            return await self._listen(id_, params)
        client = self._modern.client(meta, principal=self._principal, tell=self._tell)
        return await self._modern.serve(self._view, method, params, client)

    async def _listen(self, id_: str | int, params: Mapping[str, Any]) -> dict[str, Any]:
        flags, uris = wanted(params)
        listening = self._listening({FLAGS[flag] for flag in flags}, tag(id_))
        listening.uris = uris
        try:
            honoured = listening.uris = await listening.hold_all()
            self._listeners.add(listening)
            self._tell(acknowledgement(flags, honoured, tag(id_)))
            await listening.over.wait()
            return self._modern.stamped("", {"_meta": tag(id_)})
        finally:
            self._listeners.remove(listening)
            await listening.release_all()

    def _listening(self, methods: set[str], meta: dict[str, Any] | None) -> Listening:
        return Listening(
            self._gateway, self._tell, view=self._view, principal=self._principal, methods=methods, uris=(), meta=meta
        )

    def _tell(self, message: dict[str, Any], *, droppable: bool = False) -> None:
        self._out.put(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE), droppable=droppable)

    def _too_long(self) -> Refusal:
        return Refusal(f"the line is longer than {self._limits.body} bytes", rpc=PARSE_ERROR)


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
