"""The MCP client over one transport: both eras, told apart by asking."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.metadata
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

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
from weft.ports import is_array, is_object
from weft.upstreams.asked import Asked, OnRequest
from weft.upstreams.headers import MODERN, Mirrored, mirrored_by, modern_headers
from weft.upstreams.transport import OnMessage, Transport

Era: TypeAlias = Literal["legacy", "modern"]
OnProgress: TypeAlias = Callable[[dict[str, Any]], object]
"""Told the params of each progress notification, under the caller's own token if it has one; it must not block."""

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
RESERVED = "io.modelcontextprotocol/"
VERSION, CAPABILITIES, INFO, LOG_LEVEL, SERVER_INFO = (
    RESERVED + key for key in ("protocolVersion", "clientCapabilities", "clientInfo", "logLevel", "serverInfo")
)
ENVELOPE = frozenset({VERSION, CAPABILITIES, INFO, LOG_LEVEL})
"""What a modern request says of its client, and a legacy one may not."""

UNKNOWN = frozenset({500, 501})
"""Statuses above 4xx with which some servers answer a method that they do not know."""

PAGES = 1000
PROBE = 5.0
GRACE = 1.0
SERVER_REQUESTS = 32


class McpClient:
    """A client of one MCP server; `connect` finds out the `era` and the `version`, and what the server says of itself.

    Deadlines are absolute times of the running loop's clock. Dicts of the server are relayed as they came.
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
        self._on_message = on_message
        self._ids = itertools.count(1)
        self._progress: dict[int, OnProgress] = {}
        self._mirrored: dict[str, Mirrored] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked = Asked(on_request, write=self._reply, limit=SERVER_REQUESTS)
        self._greeting = asyncio.Lock()
        self._sessions = 0
        self._ready = self._closed = False
        self.era: Era | None = None
        self.version = ""
        self.server_info: dict[str, Any] = {}
        self.capabilities: dict[str, Any] = {}
        self.instructions: str | None = None
        self.failed_listeners = 0

    async def connect(self, deadline: float) -> None:
        """Start the transport and greet the server: a modern one is discovered, any other gets the handshake.

        Raises:
            UpstreamRefused: the server refused the handshake.
            UpstreamProtocolError: it speaks no version that weft knows.
        """
        await self._transport.start()
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
        found: list[dict[str, Any]] = []
        seen: set[str] = set()
        params: dict[str, Any] = {}
        while True:
            page = await self.request(method, params, deadline=deadline)
            items: object = page.get(key)
            if not is_array(items) or not all(map(is_object, items)):
                raise UpstreamProtocolError(self._server, f"{method} without a list of {key}: {shown(items)}")
            found += items
            cursor: object = page.get("nextCursor")
            if cursor is None or cursor == "":
                return found
            if not isinstance(cursor, str):
                raise UpstreamProtocolError(self._server, f"{method}: a cursor that is no string: {shown(cursor)}")
            if cursor in seen or len(seen) + 1 >= PAGES:
                why = "gave the same cursor twice" if cursor in seen else f"has more than {PAGES} pages"
                raise UpstreamProtocolError(self._server, f"{method} {why}")
            seen.add(cursor)
            params = {"cursor": cursor}

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
        params = {"name": name, "arguments": dict(arguments)}
        return await self.request("tools/call", params, deadline=deadline, on_progress=on_progress, meta=meta)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        deadline: float,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Ask the server and return its result; cancelling the task cancels the request there too.

        A legacy session that the server has forgotten is begun again, once.

        Raises:
            UpstreamRefused: the server answered with a JSON-RPC error.
            InfrastructureError: there is no answer, as `Transport.request` says.
        """
        await self._greeted(deadline)
        session = self._sessions
        try:
            return await self._ask(method, params or {}, meta or {}, deadline=deadline, on_progress=on_progress)
        except SessionGone:
            if session == self._sessions:
                self._ready = False
            await self._greeted(deadline)
            return await self._ask(method, params or {}, meta or {}, deadline=deadline, on_progress=on_progress)

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
        method = message.get("method")
        if not isinstance(method, str):
            return
        if "id" in message:
            self._asked.take(message)
        elif method == "notifications/progress":
            params: object = message.get("params")
            token: object = params.get("progressToken") if is_object(params) else None
            listener = self._progress.get(token) if type(token) is int else None
            if listener is not None and is_object(params):
                self._guarded(listener, params)
        elif not self._asked.cancelled_by(message) and self._on_message is not None:
            self._guarded(self._on_message, message)

    async def close(self) -> None:
        """End the connection; what is in flight fails."""
        self._ready, self._closed = False, True
        self._asked.cancel_all()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE)
        for task in self._tasks:
            task.cancel()
        await self._transport.close()

    # The beginning.

    async def _discover(self, deadline: float) -> bool:
        """Ask what a modern server is; anything that is not such an answer says that it is none."""
        now = asyncio.get_running_loop().time()
        within = deadline if self._known_era == "modern" else min(deadline, now + PROBE, now + (deadline - now) / 2)
        method = "server/discover"
        try:
            found = await self._exchange(method, {"_meta": self._envelope({})}, within, modern_headers(method, {}))
        except (UpstreamRefused, UpstreamProtocolError, UpstreamAuth):
            if self._known_era == "modern":
                raise
            return False
        except UpstreamUnavailable as error:
            if error.status not in UNKNOWN or self._known_era == "modern":
                raise
            return False
        versions: object = found.get("supportedVersions")
        if not is_array(versions) or MODERN not in versions:
            if self._known_era == "modern":
                raise UpstreamProtocolError(self._server, f"it speaks {shown(versions)}, not {MODERN}")
            return False
        meta: object = found.get("_meta")
        self._adopt("modern", MODERN, found, meta.get(SERVER_INFO) if is_object(meta) else None)
        return True

    async def _initialize(self, deadline: float) -> None:
        hello = {"protocolVersion": LEGACY[-1], "capabilities": self._offers, "clientInfo": self._info}
        found = await self._exchange("initialize", hello, deadline, {})
        version: object = found.get("protocolVersion")
        if not isinstance(version, str) or version not in LEGACY:
            raise UpstreamProtocolError(self._server, f"it speaks version {shown(version)}, which weft does not")
        await self._transport.notify(
            {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers={"MCP-Protocol-Version": version}
        )
        self._adopt("legacy", version, found, found.get("serverInfo"))

    def _adopt(self, era: Era, version: str, found: dict[str, Any], info: object) -> None:
        capabilities: object = found.get("capabilities")
        instructions: object = found.get("instructions")
        self.era, self.version = era, version
        self.server_info = info if is_object(info) else {}
        self.capabilities = capabilities if is_object(capabilities) else {}
        self.instructions = instructions if isinstance(instructions, str) else None
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
        *,
        deadline: float,
        on_progress: OnProgress | None,
    ) -> dict[str, Any]:
        own = self._envelope(meta)
        token = next(self._ids)
        if on_progress is not None:
            own["progressToken"] = token
            self._progress[token] = _renamed(on_progress, meta.get("progressToken"))
        sent = {**params, "_meta": own} if own else dict(params)
        try:
            return await self._exchange(method, sent, deadline, self._headers(method, params))
        finally:
            self._progress.pop(token, None)

    async def _exchange(
        self, method: str, params: dict[str, Any], deadline: float, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """Send a request and return its result."""
        id_ = next(self._ids)
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        try:
            answer = await self._transport.request(message, deadline=deadline, on_message=self.take, headers=headers)
        except (asyncio.CancelledError, DeadlineExceeded):
            # The end of the stream is enough for a modern server, and the wire of a child says it by itself.
            if self.era == "legacy" and method != "initialize":
                self._spawn(lambda: self.notify("notifications/cancelled", {"requestId": id_}))
            raise
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
        self._spawn(lambda: self._transport.notify(message, headers=self._headers("", {})))

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        async def quietly() -> None:
            with contextlib.suppress(WeftError):  # whether the server hears it changes nothing for anybody here
                await work()

        task = asyncio.get_running_loop().create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _guarded(self, listener: Callable[[dict[str, Any]], object], value: dict[str, Any]) -> None:
        try:
            listener(value)
        except Exception:  # whatever a listener raises, the call must go on
            self.failed_listeners += 1


@functools.cache
def own_version() -> str:
    """Return the version of weft."""
    return importlib.metadata.version("weft")


def _renamed(on_progress: OnProgress, token: Any) -> OnProgress:
    """Return a listener that is told the caller's own token, or none."""

    def tell(params: dict[str, Any]) -> None:
        told = {key: value for key, value in params.items() if key != "progressToken"}
        on_progress(told if token is None else {**told, "progressToken": token})

    return tell
