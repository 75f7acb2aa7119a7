"""One connection to a server, for clients that can all do the same, and the calls in flight on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from weft.errors import UpstreamProtocolError, WeftError
from weft.ports import Caller, is_object
from weft.upstreams.asked import OnRequest
from weft.upstreams.asking import ROUNDS, answer, offered, with_answers
from weft.upstreams.client import McpClient
from weft.upstreams.eras import CAPABILITIES, LOG_LEVEL, Era
from weft.upstreams.http import HttpTransport
from weft.upstreams.httpsse import SseTransport
from weft.upstreams.stdio import Exit, StdioTransport
from weft.upstreams.transport import OnMessage

Wire: TypeAlias = StdioTransport | HttpTransport | SseTransport

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Session:
    """A client on a wire of its own; what its server says unasked goes to the calls that it belongs to, or to `heard`.

    A wire without streams per request (a child, HTTP+SSE) cannot say whom a question or a log message is for: it goes
    to the only call in flight, and to nobody when there are several.
    """

    def __init__(self, key: str, *, offers: Mapping[str, Any], heard: OnMessage) -> None:
        self.key = key
        self.offers = offers
        self.calls = 0
        self.ending: str | None = None
        """How it ended, once it has and not because it was closed: a child died, a stream was cut."""
        self.gone = asyncio.Event()
        self.on_gone: Callable[[], object] | None = None
        self._heard = heard
        self._idle: asyncio.Event | None = None
        self._callers: dict[object, Caller] = {}
        self._asking: set[asyncio.Task[Any]] = set()
        self._loudest: tuple[str | None, int] = (None, len(LEVELS))
        self._beside: list[asyncio.Task[None]] = []
        self._modern = self._closing = False

    def use(self, wire: Wire, *, era: Era | None) -> None:
        """Speak over a wire."""
        self.wire = wire
        self.client = McpClient(
            wire, server=self.key, era=era, offers=self.offers, on_message=self.hear, on_request=self.answer
        )

    async def open(self, deadline: float) -> None:
        """Connect, or leave nothing behind."""
        try:
            await self.client.connect(deadline)
        except BaseException:
            await self.close()
            raise
        self._modern = self.client.era == "modern"

    async def close(self) -> None:
        """End it; what is in flight fails."""
        self._closing = True
        for task in [*self._asking, *self._beside]:
            task.cancel()
        if self._beside:
            await asyncio.wait(self._beside)
        await self.client.close()

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something as long as the session lasts."""
        self._beside.append(asyncio.get_running_loop().create_task(work))

    async def drained(self) -> None:
        """Wait until no call is in flight."""
        if self.calls:
            self._idle = self._idle or asyncio.Event()
            await self._idle.wait()

    # Each request.

    async def request(
        self, method: str, params: Mapping[str, Any], *, deadline: float, caller: Caller | None
    ) -> dict[str, Any]:
        """Ask the server on behalf of a client; see Server.request."""
        self.calls += 1
        try:
            if caller is None:
                return await self.client.request(method, params, deadline=deadline)
            if self._modern:
                return await self._modern_request(method, params, deadline, caller)
            return await self._legacy_request(method, params, deadline, caller)
        finally:
            self.calls -= 1
            if self._idle is not None and not self.calls:
                self._idle.set()
                self._idle = None

    async def _modern_request(
        self, method: str, params: Mapping[str, Any], deadline: float, caller: Caller
    ) -> dict[str, Any]:
        call = None
        meta = {**caller.meta, CAPABILITIES: offered(caller.capabilities)}
        listener: OnMessage | None = None
        if caller.log_level is not None:
            meta[LOG_LEVEL] = caller.log_level
            listener = self._listener(caller)
            call = self._enter(caller)
        progress = caller.progress if caller.wants_progress else None
        try:
            for _ in range(ROUNDS + 1):
                result = await self.client.request(
                    method, params, deadline=deadline, on_progress=progress, meta=meta, on_notification=listener
                )
                if result.get("resultType") != "input_required" or caller.relays_input:
                    return result
                params = await with_answers(params, result, caller, server=self.key, deadline=deadline)
        finally:
            if call is not None:
                del self._callers[call]
        raise UpstreamProtocolError(self.key, f"{method} asked for input more than {ROUNDS} times")

    async def _legacy_request(
        self, method: str, params: Mapping[str, Any], deadline: float, caller: Caller
    ) -> dict[str, Any]:
        if caller.log_level is not None:
            await self._speak_up(caller.log_level, deadline)
        asks: OnRequest | None = (lambda message: answer(message, caller)) if self.offers else None
        call = self._enter(caller)
        try:
            return await self.client.request(
                method,
                params,
                deadline=deadline,
                on_progress=caller.progress if caller.wants_progress else None,
                meta=caller.meta,
                on_request=asks,
                on_notification=self._listener(caller),
            )
        finally:
            del self._callers[call]
            if not self._callers:
                # A question whose call is over is nobody's any more.
                for task in list(self._asking):
                    task.cancel()

    async def _speak_up(self, level: str, deadline: float) -> None:
        """Have a legacy server log from a level on, unless it does; each call then gets what it asked for."""
        rank = LEVELS.index(level) if level in LEVELS else len(LEVELS)
        session = self._session_id()
        if "logging" not in self.client.capabilities or (self._loudest[0] == session and self._loudest[1] <= rank):
            return
        with contextlib.suppress(WeftError):  # without log messages, the call is still worth making
            await self.client.request("logging/setLevel", {"level": level}, deadline=deadline)
            self._loudest = (self._session_id(), rank)

    def _session_id(self) -> str | None:
        # What was set is forgotten with the session, and the client begins a new one by itself.
        return self.wire.session_id if isinstance(self.wire, HttpTransport) else None

    # What the server says unasked.

    def hear(self, message: dict[str, Any]) -> None:
        """Give a notification to whom it belongs."""
        if message["method"] != "notifications/message":
            self._heard(message)
        elif (caller := self._only_caller()) is not None:
            _tell(caller, message)

    async def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer a question that came on no call's own stream."""
        caller = self._only_caller() if self.offers else None
        task = asyncio.current_task()
        assert task is not None
        self._asking.add(task)
        try:
            return await answer(message, caller)
        finally:
            self._asking.discard(task)

    def ended(self, how: Exit | str) -> None:
        """Note that the child is gone, or the stream on which everything comes."""
        if not self._closing:
            self.ending = str(how)
        self.gone.set()
        if self.on_gone is not None:
            self.on_gone()

    def _enter(self, caller: Caller) -> object:
        # By a key of its own, as one client may have several calls here.
        call = object()
        self._callers[call] = caller
        return call

    def _only_caller(self) -> Caller | None:
        return next(iter(self._callers.values()), None) if self.calls == 1 else None

    def _listener(self, caller: Caller) -> OnMessage:
        def listen(message: dict[str, Any]) -> None:
            if message.get("method") == "notifications/message":
                _tell(caller, message)
            else:
                self.hear(message)

        return listen


def _tell(caller: Caller, message: dict[str, Any]) -> None:
    """Tell a client a log message, if it wants such."""
    params: object = message.get("params")
    level = caller.log_level
    if level is None or not is_object(params):
        return
    said: object = params.get("level")
    if said not in LEVELS or level not in LEVELS or LEVELS.index(said) >= LEVELS.index(level):
        caller.log(params)
