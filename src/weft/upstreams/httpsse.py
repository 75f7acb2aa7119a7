"""The old HTTP+SSE of 2024-11-05: one stream of events for all that the server says, and a place to post to."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urljoin

from weft.errors import (
    DeadlineExceeded,
    InputError,
    UpstreamDied,
    UpstreamProtocolError,
    UpstreamUnavailable,
    WeftError,
    shown,
)
from weft.upstreams.asked import Asked, OnRequest
from weft.upstreams.calls import Calls, Sent
from weft.upstreams.http import HttpTransport
from weft.upstreams.httpdial import AllowAddress
from weft.upstreams.httpwire import Limits, Target
from weft.upstreams.lines import read_message
from weft.upstreams.oauth import TokenSource
from weft.upstreams.sse import Event
from weft.upstreams.transport import OnMessage

OnEnd: TypeAlias = Callable[[WeftError], object]
"""Told once why the stream ended, unless weft closed it."""

SERVER_REQUESTS = 32
FORGOTTEN = frozenset({404, 410})
"""How a server answers who posts to a session that it does not know any more."""


class SseTransport:
    """One session with one server; who wants another makes another transport.

    `skipped` counts events that are no messages, answers that nobody waits for, and listeners that raised.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
        tokens: TokenSource | None = None,
        allow_address: AllowAddress | None = None,
        proxy: str | None = None,
        on_end: OnEnd | None = None,
    ) -> None:
        self._url, self._target = url, Target.parse(url)
        self.name = name or self._target.authority
        self._limits = limits or Limits()
        self._on_end = on_end

        def way(to: str) -> HttpTransport:
            return HttpTransport(
                to,
                name=self.name,
                headers=headers,
                limits=self._limits,
                tls=tls,
                tokens=tokens,
                allow_address=allow_address,
                proxy=proxy,
            )

        self._way = way
        self._stream = way(url)
        self._poster: HttpTransport | None = None
        self._calls = Calls(self.name)
        self._asked = Asked(None, write=self._post_aside, limit=SERVER_REQUESTS)
        self._on_message: OnMessage | None = None
        self._endpoint: asyncio.Future[str] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._heard = False
        self._ended: WeftError | None = None
        self.skipped = 0

    @property
    def open_connections(self) -> int:
        """How many connections are open now, in use or kept."""
        return self._stream.open_connections + (self._poster.open_connections if self._poster is not None else 0)

    async def start(self, *, on_message: OnMessage | None = None, on_request: OnRequest | None = None) -> None:
        """Open the stream and learn where to post.

        Raises:
            UpstreamProtocolError: that is no such stream, or it names a place on another origin.
            UpstreamUnavailable: nothing of the kind came in time.
        """
        if self._endpoint is not None:
            raise UpstreamUnavailable(self.name, "this session was begun before")
        self._on_message, self._asked.on_request = on_message, on_request
        self._endpoint = asyncio.get_running_loop().create_future()
        self._spawn(self._read())
        try:
            async with asyncio.timeout(self._limits.connect):
                self._poster = self._way(await self._endpoint)
        except BaseException as error:
            await self.close()
            if isinstance(error, TimeoutError):
                reason = f"its stream did not say where to post within {self._limits.connect:g} s"
                raise UpstreamUnavailable(self.name, reason) from None
            raise
        self._spawn(self._keep())

    async def request(
        self,
        message: dict[str, Any],
        *,
        deadline: float,
        on_message: OnMessage | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Post a request and return the response that comes on the stream; see Transport.request.

        Cancelling the caller's task, and the deadline, send notifications/cancelled with the id that the wire knows.
        """
        poster = self._running()
        sent = self._calls.open(message, self._calls.mint(), on_message)
        timer = asyncio.get_running_loop().call_at(deadline, self._expire, sent)
        # Aside, as the answer may come before the server has said that it took the question.
        posting = self._spawn(self._post(poster, {**message, "id": sent.wire_id}, deadline, headers, sent))
        try:
            return await sent.answer
        except asyncio.CancelledError:
            if sent.answer.cancelled():
                self._cancel(sent, "the caller gave up")
            raise
        finally:
            timer.cancel()
            posting.cancel()
            self._calls.close(sent)

    async def follow(
        self, message: dict[str, Any], *, on_message: OnMessage, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a request that lasts; see Transport.follow."""
        return await self.request(message, deadline=math.inf, on_message=on_message, headers=headers)

    async def notify(self, message: dict[str, Any], *, headers: Mapping[str, str] | None = None) -> None:
        """Send a notification, or the answer to a server's request.

        A cancellation is not sent: the end of the request's task has sent it, and only the wire knows the id.
        """
        if message.get("method") != "notifications/cancelled":
            await self._running().notify(message, headers=headers)

    async def close(self) -> None:
        """End the session; what is in flight fails."""
        self._end(UpstreamDied(self.name, "weft closed it"))
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._stream.close()
        if self._poster is not None:
            await self._poster.close()

    # What the server says.

    async def _read(self) -> None:
        error: WeftError = UpstreamDied(self.name, "its stream of events ended")
        try:
            await self._stream.events(self._event)
        except WeftError as found:
            error = found
        if self._endpoint is not None and not self._endpoint.done():
            self._endpoint.set_exception(error)
        else:
            self._broke(error)

    def _event(self, event: Event) -> None:
        self._heard = True
        if event.type == "endpoint" and self._endpoint is not None and not self._endpoint.done():
            self._endpoint.set_result(self._place(event.data))
        elif event.type == "message" and event.data:
            message = read_message(event.data)
            if message is None:
                self.skipped += 1
            else:
                self._take(message)

    def _place(self, data: bytes) -> str:
        """Return where to post: never to another origin than the one that the operator named."""
        place = urljoin(self._url, data.decode("latin-1"))
        try:
            target = Target.parse(place)
        except InputError as error:
            raise UpstreamProtocolError(self.name, f"its stream names no place to post to: {error.message}") from None
        here = self._target
        if (target.secure, target.host, target.port) != (here.secure, here.host, here.port):
            raise UpstreamProtocolError(self.name, f"its stream names a place on another origin: {shown(place)}")
        return place

    def _take(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self.skipped += not self._calls.answer(message)
        elif "id" in message:
            self._asked.take(message)
        elif not self._asked.cancelled_by(message):
            listener = self._calls.listener(message) or self._on_message
            try:
                if listener is not None:
                    listener(message)
            except Exception:  # whatever a listener raises, the stream must go on for all others
                self.skipped += 1

    # What weft says.

    def _running(self) -> HttpTransport:
        if self._poster is None or self._ended is not None:
            reason = self._ended.message if self._ended is not None else "its stream is not open"
            raise UpstreamUnavailable(self.name, reason)
        return self._poster

    async def _post(
        self,
        poster: HttpTransport,
        message: dict[str, Any],
        deadline: float,
        headers: Mapping[str, str] | None = None,
        sent: Sent | None = None,
    ) -> None:
        try:
            await poster.post(message, deadline=deadline, headers=headers)
        except WeftError as error:
            if isinstance(error, UpstreamProtocolError) and error.status in FORGOTTEN:
                error = UpstreamUnavailable(self.name, "it does not know the session any more", status=error.status)
                self._broke(error)
                await self._stream.close()
            if sent is not None:
                sent.fail(error)

    def _post_aside(self, message: dict[str, Any]) -> None:
        """Post without waiting, or not at all: a server that takes nothing must not fill the memory."""
        if self._poster is not None and self._ended is None and len(self._tasks) < 256:
            deadline = asyncio.get_running_loop().time() + self._limits.notify
            self._spawn(self._post(self._poster, message, deadline))

    def _expire(self, sent: Sent) -> None:
        if not sent.answer.done():
            self._cancel(sent, "the deadline has passed")
            sent.fail(DeadlineExceeded(f"Upstream '{self.name}' did not answer {sent.method} by the deadline"))

    def _cancel(self, sent: Sent, reason: str) -> None:
        # The protocol forbids to cancel the handshake.
        if sent.method != "initialize":
            params = {"requestId": sent.wire_id, "reason": reason}
            self._post_aside({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    async def _keep(self) -> None:
        """Ask a server that has long been silent for a sign of life: not all send comments, and silence ends a wire."""
        while self._ended is None:
            self._heard = False
            await asyncio.sleep(self._limits.stream_silence / 3)
            if not self._heard:
                self._post_aside({"jsonrpc": "2.0", "id": self._calls.mint(), "method": "ping"})

    def _broke(self, error: WeftError) -> None:
        if self._end(error) and self._on_end is not None:
            self._on_end(error)

    def _end(self, error: WeftError) -> bool:
        """Fail what is in flight; only the first reason counts."""
        if self._ended is not None:
            return False
        self._ended = error
        if self._endpoint is not None and not self._endpoint.done():
            self._endpoint.cancel()
        self._calls.fail_all(error)
        self._asked.cancel_all()
        return True

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
