"""Streamable HTTP: JSON-RPC messages posted, answered by JSON or by a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
import math
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import orjson

from weft.errors import (
    DeadlineExceeded,
    InputError,
    UpstreamAuth,
    UpstreamDied,
    UpstreamMessageTooLarge,
    UpstreamProtocolError,
    UpstreamUnavailable,
    WeftError,
    shown,
)
from weft.upstreams.asked import OnRequest
from weft.upstreams.httpdial import AllowAddress
from weft.upstreams.httpfaults import Reading, media_type
from weft.upstreams.httppool import Pool, Response, not_sent
from weft.upstreams.httpwire import Limits, Target, clean_header
from weft.upstreams.oauth import TokenSource
from weft.upstreams.sse import Event, EventTooLarge, SseParser
from weft.upstreams.transport import OnMessage

OnUnauthorised: TypeAlias = Callable[[], Awaitable[Mapping[str, str] | None]]
"""Asked once after a 401: the headers that replace those refused, or None when there are no better ones."""

OnEvent: TypeAlias = Callable[[Event], "dict[str, Any] | None"]
"""Told each event of a stream; what it returns is the answer, and ends the stream."""

CALLERS = frozenset({"authorization", "cookie"})
"""Only the operator's own headers may carry these: a caller's token never goes upstream."""

HEADS = 256
GRACE = 1.0
RESUMES = 3
"""How many times in a row a stream may be taken up again without a word in it."""


@dataclass(slots=True)
class Asking:
    """A request that waits for its response."""

    id: Any
    session: str | None
    deadline: float
    headers: Mapping[str, str] | None
    on_message: OnMessage | None


class HttpTransport:
    """A way to one MCP server over HTTP; `session_id` is that of a legacy session, from its initialize on."""

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
        on_unauthorised: OnUnauthorised | None = None,
        tokens: TokenSource | None = None,
        allow_address: AllowAddress | None = None,
        proxy: str | None = None,
    ) -> None:
        """Make a way to a server; `tokens` brings and renews its Authorization header, `proxy` is `http://host:port`."""
        target = Target.parse(url)
        self.name = name or target.authority
        self.session_id: str | None = None
        self._limits = limits or Limits()
        self._own = cleaned(headers)
        self._heads: dict[tuple[object, ...], bytes] = {}
        self._reading = self._read_with(self._own)
        self._tokens = tokens
        self._token: Mapping[str, str] | None = None
        self._on_unauthorised = on_unauthorised if tokens is None else self._other_token
        self._refreshing = asyncio.Lock()
        self._pool = Pool(self.name, target, limits=self._limits, tls=tls, allow_address=allow_address, proxy=proxy)

    @property
    def open_connections(self) -> int:
        """How many connections are open now, in use or kept."""
        return self._pool.open_connections

    async def start(self, *, on_message: OnMessage | None = None, on_request: OnRequest | None = None) -> None:
        """Do nothing: connections open when they are needed, and what comes on a stream is told to who opened it."""

    async def request(
        self,
        message: dict[str, Any],
        *,
        deadline: float,
        on_message: OnMessage | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send a request and return its response, as `Transport` says.

        Raises:
            SessionGone: the session of a legacy server is over; nothing was done.
        """
        if message.get("method") == "initialize":
            self.session_id = None
        asking = Asking(message["id"], self.session_id, deadline, headers, on_message)
        response = await self._send("POST", message, deadline=deadline, headers=headers)
        return await self._response(response, message, asking)

    async def follow(
        self, message: dict[str, Any], *, on_message: OnMessage, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a request that lasts, on a connection of its own; see Transport.follow."""
        asking = Asking(message["id"], None, math.inf, headers, on_message)
        return await self._response(await self._send("POST", message, headers=headers), message, asking)

    async def _response(self, response: Response, message: dict[str, Any], asking: Asking) -> dict[str, Any]:
        try:
            if 200 <= response.status < 300:
                answer = await self._answer(response, asking)
            else:
                answer = await self._reading.refused(response, session=asking.session, id_=asking.id)
            if message.get("method") == "initialize" and "result" in answer:
                self.session_id = self._session(response)
        except BaseException:
            response.close()
            raise
        response.close(grace=GRACE)
        return answer

    async def notify(self, message: dict[str, Any], *, headers: Mapping[str, str] | None = None) -> None:
        """Send a notification, or the answer to a server's request."""
        await self.post(message, deadline=asyncio.get_running_loop().time() + self._limits.notify, headers=headers)

    async def post(self, message: dict[str, Any], *, deadline: float, headers: Mapping[str, str] | None = None) -> None:
        """Send a message to which the server has nothing to say here; raises as `request` does."""
        session = self.session_id
        response = await self._send("POST", message, deadline=deadline, headers=headers)
        try:
            if not 200 <= response.status < 300:
                answer = await self._reading.refused(response, session=session, id_=None)
                raise UpstreamProtocolError(
                    self.name, f"it refused a message: {shown(answer.get('error'))}", status=response.status
                )
        except BaseException:
            response.close()
            raise
        response.close(grace=GRACE)

    async def listen(
        self,
        *,
        on_message: OnMessage,
        headers: Mapping[str, str] | None = None,
        on_open: Callable[[], object] | None = None,
    ) -> None:
        """Follow the stream that a legacy server has for the whole session, until the server ends it; see `events`."""
        await self.events(lambda event: self._event(event, None, on_message), headers=headers, on_open=on_open)

    async def events(
        self,
        on_event: OnEvent,
        *,
        headers: Mapping[str, str] | None = None,
        on_open: Callable[[], object] | None = None,
    ) -> None:
        """Follow a stream of events, on a connection of its own, until the server ends it or a listener has enough.

        `on_open` is told when the stream stands: what the server says from then on is heard.

        Raises:
            UpstreamProtocolError: with status 405, the server has no such stream.
            UpstreamDied: it broke, or for long not a byte came, not even a comment.
        """
        session = self.session_id
        response = await self._send("GET", None, headers=headers)
        try:
            if response.status != 200:
                await self._reading.refused(response, session=session, id_=None)
            if media_type(response) != "text/event-stream":
                raise await self._reading.no_answer(response)
            if on_open is not None:
                on_open()
            await self._events(response, SseParser(limit=self._limits.body_bytes), on_event)
        finally:
            response.close()

    async def close(self) -> None:
        """End the legacy session, if there is one, and every connection."""
        if self.session_id is not None:
            deadline = asyncio.get_running_loop().time() + GRACE
            with contextlib.suppress(WeftError):
                (await self._send("DELETE", None, deadline=deadline, headers=None)).close()
            self.session_id = None
        if self._tokens is not None:
            await self._tokens.close()
        await self._pool.close()

    # Sending.

    async def _send(
        self,
        method: str,
        message: dict[str, Any] | None,
        *,
        deadline: float = math.inf,
        headers: Mapping[str, str] | None,
    ) -> Response:
        """Send a message and return the answer to it, a second one if the first refused old credentials.

        Without a deadline the answer is a stream that lasts, which gets a connection of its own.
        """
        try:
            body = None if message is None else orjson.dumps(message)
        except orjson.JSONEncodeError as error:
            raise InputError(f"a message that is not JSON: {error}") from None
        if self._tokens is not None and ((token := self._tokens.now()) is None or token is not self._token):
            await self._authorise(self._tokens, deadline)
        tried = self._own
        response = await self._pool.request(self._head(method, headers), body, deadline=deadline)
        if response.status != 401 or self._on_unauthorised is None:
            return response
        response.close(grace=GRACE)
        await self._refresh(self._on_unauthorised, tried, deadline)
        return await self._pool.request(self._head(method, headers), body, deadline=deadline)

    def _head(self, method: str, headers: Mapping[str, str] | None) -> bytes:
        """Return what a request begins with; requests are much alike, so it is kept for the next one."""
        key = (method, self.session_id, *(headers.items() if headers else ()))
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= HEADS:
                self._heads.clear()
            head = self._heads[key] = self._pool.head(method, self._fields(method, cleaned(headers)))
        return head

    def _fields(self, method: str, extra: dict[str, str]) -> dict[str, str]:
        if not CALLERS.isdisjoint(extra):
            raise InputError("a request may not bring an Authorization or Cookie header of its own")
        fields = {"accept": "text/event-stream"}
        if method == "POST":
            fields = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        if self.session_id is not None:
            fields["mcp-session-id"] = self.session_id
        return fields | self._own | extra

    async def _refresh(self, refresh: OnUnauthorised, tried: dict[str, str], deadline: float) -> None:
        """Get new credentials, unless another request has just done so."""
        try:
            async with asyncio.timeout_at(deadline), self._refreshing:
                if self._own is not tried:
                    return
                better = await refresh()
        except TimeoutError:
            raise DeadlineExceeded(f"Upstream '{self.name}': the deadline passed while renewing credentials") from None
        if better is None:
            raise UpstreamAuth(self.name, "status 401, and there are no other credentials", status=401)
        self._adopt(better)

    async def _authorise(self, tokens: TokenSource, deadline: float) -> None:
        """Have a fresh token, before the one that is here ends."""
        try:
            async with asyncio.timeout_at(deadline):
                token = await tokens.headers()
        except TimeoutError:
            raise not_sent(self.name, "waiting for a token") from None
        if token is not self._token:
            self._token = token
            self._adopt(token)

    async def _other_token(self) -> Mapping[str, str] | None:
        return None if self._tokens is None else await self._tokens.instead_of(self._own)

    def _adopt(self, better: Mapping[str, str]) -> None:
        self._own = self._own | cleaned(better)
        self._heads.clear()
        self._reading = self._read_with(self._own)

    # Reading.

    def _session(self, response: Response) -> str | None:
        session = response.header(b"mcp-session-id")
        if not (session.isascii() and session.isprintable()):
            raise UpstreamProtocolError(self.name, f"a session id that no header may carry: {shown(session)}")
        return session or None

    def _read_with(self, headers: dict[str, str]) -> Reading:
        return Reading(self.name, limit=self._limits.body_bytes, secrets=headers.values())

    async def _answer(self, response: Response, asking: Asking) -> dict[str, Any]:
        kind = "application/json" if response.is_json() else media_type(response)
        if kind == "application/json":
            body = await response.body(self._limits.body_bytes)
            return self._reading.checked(self._reading.parsed(body, framed=response.framed), asking.id)
        if kind != "text/event-stream":
            raise await self._reading.no_answer(response)
        parser = SseParser(limit=self._limits.body_bytes)
        died = UpstreamDied(self.name, "its stream of events ended without the answer; the work may have been done")
        try:
            answer = await self._events(response, parser, self._listener(asking))
        except UpstreamDied as error:
            answer, died = None, error
        if answer is None and asking.session is not None:
            answer = await self._resumed(parser, asking)
        if answer is None:
            raise died
        return answer

    def _listener(self, asking: Asking) -> OnEvent:
        return lambda event: self._event(event, asking.id, asking.on_message)

    async def _events(self, response: Response, parser: SseParser, on_event: OnEvent) -> dict[str, Any] | None:
        """Tell the events of a stream until one of them is the answer, or until the stream ends."""
        response.rest(True)
        while piece := await response.read():
            try:
                events = parser.feed(piece)
            except EventTooLarge:
                raise UpstreamMessageTooLarge(self.name, "one event", limit=self._limits.body_bytes) from None
            for event in events:
                answer = on_event(event)
                if answer is not None:
                    return answer
            response.rest(not parser.pending)
        return None

    async def _resumed(self, parser: SseParser, asking: Asking) -> dict[str, Any] | None:
        """Take a legacy stream up again behind its last event, as long as that brings something new."""
        loop, vain = asyncio.get_running_loop(), 0
        while vain < RESUMES and parser.last_id.isascii() and parser.last_id.isprintable() and parser.last_id:
            pause = 1.0 if parser.retry is None else parser.retry / 1000
            if loop.time() + pause >= asking.deadline or self._pool.closed:
                return None
            await asyncio.sleep(pause)
            before = parser.last_id
            parser = SseParser(limit=self._limits.body_bytes, last_id=before, retry=parser.retry)
            # What becomes of this GET says nothing about the request itself: its outcome stays unknown.
            with contextlib.suppress(UpstreamUnavailable, UpstreamDied, DeadlineExceeded):
                answer = await self._resume(parser, asking)
                if answer is not None:
                    return answer
            vain = vain + 1 if parser.last_id == before else 0
        return None

    async def _resume(self, parser: SseParser, asking: Asking) -> dict[str, Any] | None:
        headers = {**(asking.headers or {}), "last-event-id": parser.last_id}
        response = await self._send("GET", None, deadline=asking.deadline, headers=headers)
        try:
            if response.status != 200 or media_type(response) != "text/event-stream":
                return None
            return await self._events(response, parser, self._listener(asking))
        finally:
            response.close()

    def _event(self, event: Event, id_: Any, on_message: OnMessage | None) -> dict[str, Any] | None:
        if event.type != "message" or not event.data:
            return None
        found = self._reading.parsed(event.data)
        message = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        if "method" not in message:
            if id_ is None:
                return None  # Whoever asked has given up, or reads its answer elsewhere.
            return self._reading.checked(cast(object, found), id_)
        if on_message is not None:
            on_message(message)
        return None


def cleaned(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return headers that may be sent, by their names in lower case."""
    return dict(clean_header(name, value) for name, value in headers.items()) if headers else {}
