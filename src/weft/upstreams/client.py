"""The MCP client over one transport: both eras, told apart by asking."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from weft.errors import (
    DeadlineExceeded,
    SessionGone,
    UpstreamAuth,
    UpstreamProtocolError,
    UpstreamRefused,
    UpstreamUnavailable,
    WeftError,
    shown,
)
from weft.ports import is_object
from weft.upstreams.asked import OnRequest
from weft.upstreams.eras import (
    CAPABILITIES,
    ENVELOPE,
    INFO,
    LEGACY,
    UNKNOWN,
    VERSION,
    Era,
    Greeting,
    discovered,
    initialized,
    own_version,
    speaks_modern,
)
from weft.upstreams.headers import MODERN, Mirrored, mirrored_by, modern_headers
from weft.upstreams.hearing import Hearer, Hearing, OnProgress
from weft.upstreams.pages import all_pages
from weft.upstreams.transport import OnMessage, Transport

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
PROBE = 5.0
GRACE = 1.0
SERVER_REQUESTS = 32
REPLIES = 256
"""More answers than this on their way to a server that does not take them, and further ones are dropped."""


class McpClient:
    """A client of one MCP server; `connect` finds out the `era` and the `version`, and what the server says of itself.

    Deadlines are absolute times of the running loop's clock. Dicts of the server are relayed as they came. `on_message`
    and `on_request` may be replaced at any time: they hear what comes outside of any request's own stream, and over
    stdio, where all share one, whatever is not progress.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        server: str,
        era: Era | None = None,
        info: Mapping[str, Any] | None = None,
        offers: Mapping[str, Any] | None = None,
        on_message: OnMessage | None = None,
        on_request: OnRequest | None = None,
    ) -> None:
        """Make a client; `era` spares the question, `offers` are the client capabilities, requests may bring others."""
        self._transport = transport
        self._server = server
        self._known_era = era
        self._info = dict(info or {"name": "weft", "version": own_version()})
        self._offers = dict(offers or {})
        self.on_message = on_message
        self.on_request = on_request
        self._ids = itertools.count(1)
        self._mirrored: dict[str, Mirrored] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._hearer = Hearer(self, write=self._reply, limit=SERVER_REQUESTS)
        self._greeting = asyncio.Lock()
        self._sessions = 0
        self._ready = self._closed = False
        self.era: Era | None = None
        self.version = ""
        self.server_info: dict[str, Any] = {}
        self.capabilities: dict[str, Any] = {}
        self.instructions: str | None = None

    @property
    def failed_listeners(self) -> int:
        """How many times a listener raised."""
        return self._hearer.failures

    async def connect(self, deadline: float) -> None:
        """Start the transport and greet the server: a modern one is discovered, any other gets the handshake.

        Raises:
            UpstreamRefused: the server refused the handshake.
            UpstreamProtocolError: it speaks no version that weft knows.
        """
        await self._transport.start(on_message=self.take, on_request=self._hearer.answer)
        silent = False
        if self._known_era != "legacy":
            try:
                if await self._discover(deadline):
                    return
            except DeadlineExceeded:
                # Some legacy servers say nothing at all to what they do not know.
                if asyncio.get_running_loop().time() >= deadline or self._known_era is not None:
                    raise
                silent = True
        try:
            await self._initialize(deadline)
        except UpstreamRefused:
            # A modern server that was slow to start has taken the question for the beginning.
            if not silent or not await self._discover(deadline):
                raise

    async def list_tools(self, *, deadline: float) -> list[dict[str, Any]]:
        """Return all tools, from all pages, and remember which of their arguments go into headers."""
        tools = await self.list_all("tools/list", "tools", deadline=deadline)
        declared = ((tool.get("name"), mirrored_by(tool.get("inputSchema"))) for tool in tools)
        self._mirrored = {name: mirrored for name, mirrored in declared if mirrored and isinstance(name, str)}
        return tools

    async def list_all(self, method: str, key: str, *, deadline: float) -> list[dict[str, Any]]:
        """Return all items of a list method, from all pages; no cursor, or an empty one, ends it.

        Raises:
            UpstreamProtocolError: the pages do not end, or are none.
        """

        async def page(params: dict[str, Any]) -> dict[str, Any]:
            return await self.request(method, params, deadline=deadline)

        return await all_pages(page, server=self._server, method=method, key=key)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        deadline: float,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Call a tool and return its result as it came; see `request`."""
        params = {"name": name, "arguments": arguments if is_object(arguments) else dict(arguments)}
        return await self.request("tools/call", params, deadline=deadline, on_progress=on_progress, meta=meta)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        deadline: float,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
        on_request: OnRequest | None = None,
        on_notification: OnMessage | None = None,
    ) -> dict[str, Any]:
        """Ask the server and return its result; cancelling the task cancels the request there too.

        Over HTTP, `on_request` answers what the server asks on this request's own stream, as long as the request lasts,
        and `on_notification` hears what it says there beside progress; without them the client's own do. A legacy
        session that the server has forgotten is begun again, once.

        Raises:
            UpstreamRefused: the server answered with a JSON-RPC error.
            InfrastructureError: there is no answer, as `Transport.request` says.
        """
        await self._greeted(deadline)
        session = self._sessions
        hearing = None
        if on_progress is not None or on_request is not None or on_notification is not None:
            hearing = Hearing(on_progress, on_request, on_notification)
        try:
            return await self._ask(method, params or {}, meta or {}, deadline, hearing)
        except SessionGone:
            if session == self._sessions:
                self._ready = False
            await self._greeted(deadline)
            return await self._ask(method, params or {}, meta or {}, deadline, hearing)

    async def listen(
        self, filter: Mapping[str, Any], *, on_message: OnMessage, on_ready: OnMessage | None = None
    ) -> None:
        """Hear what a modern server tells its subscribers, until it ends that or the task is cancelled.

        `filter` says of what: toolsListChanged, promptsListChanged, resourcesListChanged, resourceSubscriptions.
        `on_ready` is told the params of the acknowledgement, whose `notifications` is the part that the server grants.

        Raises:
            UpstreamRefused: the server has no subscriptions, or is a legacy one.
            InfrastructureError: the subscription broke, as `Transport.follow` says.
        """
        await self._greeted(math.inf)
        method = "subscriptions/listen"
        if self.era != "modern":
            raise UpstreamRefused(self._server, method, {"code": -32601, "message": "a legacy server has none"})

        def heard(message: dict[str, Any]) -> None:
            if message.get("method") != ACKNOWLEDGED:
                self._hearer.tell(on_message, message)
            else:
                self._hearer.tell(on_ready, message.get("params") or {})

        params = {"notifications": dict(filter), "_meta": self._envelope({})}
        message, headers = _request(next(self._ids), method, params), self._headers(method, params)
        self._result(method, await self._transport.follow(message, on_message=heard, headers=headers))

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params:
            message["params"] = dict(params)
        await self._transport.notify(message, headers=self._headers(method, params or {}))

    def take(self, message: dict[str, Any]) -> None:
        """Take what the server sent unasked: progress goes to its call, requests are answered, the rest is passed on.

        Whoever listens elsewhere (a session's own stream, a child's stdout) gives it here.
        """
        self._hearer.give(message)

    async def close(self) -> None:
        """End the connection; what is in flight fails."""
        self._ready, self._closed = False, True
        self._hearer.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE)
        for task in self._tasks:
            task.cancel()
        await self._transport.close()

    # The beginning.

    async def _discover(self, deadline: float, *, refused: bool = False) -> bool:
        """Ask what a modern server is; anything that is not such an answer says that it is none.

        One that refuses the version and names it among its own is asked once more.
        """
        now = asyncio.get_running_loop().time()
        within = deadline if self._known_era == "modern" else min(deadline, now + PROBE, now + (deadline - now) / 2)
        method = "server/discover"
        try:
            question = _request(next(self._ids), method, {"_meta": self._envelope({})})
            found = await self._exchange(question, within, modern_headers(method, {}), self.take)
        except (UpstreamRefused, UpstreamProtocolError, UpstreamAuth) as error:
            if not refused and isinstance(error, UpstreamRefused) and speaks_modern(error.rpc_code, error.rpc_data):
                return await self._discover(deadline, refused=True)
            if self._known_era == "modern":
                raise
            return False
        except UpstreamUnavailable as error:
            if error.status not in UNKNOWN or self._known_era == "modern":
                raise
            return False
        greeting = discovered(found)
        if greeting is not None:
            self._adopt(greeting)
        elif self._known_era == "modern":
            versions = shown(found.get("supportedVersions"))
            raise UpstreamProtocolError(self._server, f"it speaks {versions}, not {MODERN}")
        return greeting is not None

    async def _initialize(self, deadline: float) -> None:
        hello = {"protocolVersion": LEGACY[-1], "capabilities": self._offers, "clientInfo": self._info}
        found = await self._exchange(_request(next(self._ids), "initialize", hello), deadline, {}, self.take)
        greeting = initialized(found, server=self._server)
        await self._transport.notify(
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            headers={"MCP-Protocol-Version": greeting.version},
        )
        self._adopt(greeting)

    def _adopt(self, greeting: Greeting) -> None:
        self.era, self.version = greeting.era, greeting.version
        self.server_info, self.capabilities = greeting.server_info, greeting.capabilities
        self.instructions = greeting.instructions
        self._sessions += 1
        self._ready = True

    async def _greeted(self, deadline: float) -> None:
        """Wait for a session that is being begun again, or begin it."""
        if self._ready:
            return
        if self.era is None or self._closed:
            raise UpstreamUnavailable(self._server, "it is not connected")
        try:
            async with asyncio.timeout_at(deadline), self._greeting:
                if not self._ready:
                    await self._initialize(deadline)
        except TimeoutError:
            raise DeadlineExceeded(f"Upstream '{self._server}' began no new session by the deadline") from None

    # Each request.

    async def _ask(
        self,
        method: str,
        params: Mapping[str, Any],
        meta: Mapping[str, Any],
        deadline: float,
        hearing: Hearing | None,
    ) -> dict[str, Any]:
        id_, own, headers = next(self._ids), self._envelope(meta), self._headers(method, params)
        if isinstance(parent := meta.get("traceparent"), str) and parent.isascii() and parent.isprintable():
            # For what stands before the server, or records its requests without knowing MCP.
            headers["traceparent"] = parent
        if hearing is None:
            sent = {**params, "_meta": own} if own else dict(params)
            return await self._exchange(_request(id_, method, sent), deadline, headers, self.take)
        if hearing.on_progress is not None:
            own["progressToken"] = id_
        sent = {**params, "_meta": own} if own else dict(params)
        ear = self._hearer.open(hearing, token=id_, callers_token=meta.get("progressToken"))
        try:
            return await self._exchange(_request(id_, method, sent), deadline, headers, ear.take)
        finally:
            ear.close()

    async def _exchange(
        self, message: dict[str, Any], deadline: float, headers: Mapping[str, str], on_message: OnMessage
    ) -> dict[str, Any]:
        """Send a request and return its result."""
        method: str = message["method"]
        try:
            answer = await self._transport.request(message, deadline=deadline, on_message=on_message, headers=headers)
        except (asyncio.CancelledError, DeadlineExceeded):
            # The end of the stream is enough for a modern server, and the wire of a child says it by itself.
            if self.era == "legacy" and method != "initialize":
                self._spawn(lambda: self.notify("notifications/cancelled", {"requestId": message["id"]}))
            raise
        return self._result(method, answer)

    def _result(self, method: str, answer: dict[str, Any]) -> dict[str, Any]:
        if "error" in answer:
            error: object = answer["error"]
            if not is_object(error):
                raise UpstreamProtocolError(self._server, f"{method}: an error that is no object: {shown(error)}")
            raise UpstreamRefused(self._server, method, error)
        result: object = answer.get("result")
        if not is_object(result):
            raise UpstreamProtocolError(self._server, f"{method}: a result that is no object: {shown(result)}")
        return result

    def _envelope(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """Return the `_meta` of a request: the caller's, but what is between weft and the server is weft's own."""
        if self.era == "legacy":
            return {key: value for key, value in meta.items() if key not in ENVELOPE and key != "progressToken"}
        own = {INFO: self._info, CAPABILITIES: self._offers, **meta, VERSION: MODERN}
        own.pop("progressToken", None)
        return own

    def _headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        if self.era == "modern":
            mirrored = self._mirrored.get(str(params.get("name"))) if method == "tools/call" else None
            return modern_headers(method, params, mirrored)
        return {"MCP-Protocol-Version": self.version}

    # What goes on beside.

    def _reply(self, message: dict[str, Any]) -> None:
        # A modern server asks by its results; over HTTP it has no place for an answer to anything else.
        if self.era != "modern" and len(self._tasks) < REPLIES:
            self._spawn(lambda: self._transport.notify(message, headers=self._headers("", {})))

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        async def quietly() -> None:
            with contextlib.suppress(WeftError):  # whether the server hears it changes nothing for anybody here
                await work()

        task = asyncio.get_running_loop().create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _request(id_: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
