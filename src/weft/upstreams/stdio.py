"""The wire to a child process: JSON-RPC messages as lines on its stdin and stdout, many requests at once."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from weft.errors import (
    DeadlineExceeded,
    UpstreamDied,
    UpstreamMessageTooLarge,
    UpstreamUnavailable,
    WeftError,
)
from weft.upstreams.asked import Asked, OnRequest
from weft.upstreams.calls import Calls, Sent
from weft.upstreams.lines import Lines, read_message, sample, write_message
from weft.upstreams.process import Patience, Process, environment, told_status
from weft.upstreams.stderr import Log, Stderr
from weft.upstreams.transport import OnMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioLimits:
    """What a child may cost: bytes, counts and seconds."""

    line: int = 8 * 1024 * 1024
    garbage_lines: int = 20
    silent_timeouts: int = 3
    probe: float = 2.0
    notify: float = 5.0
    unread: int = 1024 * 1024
    server_requests: int = 32
    patience: Patience = field(default_factory=Patience)


@dataclass(slots=True)
class StdioCounters:
    """What went wrong on one wire without failing a call, for metrics."""

    garbage_lines: int = 0
    unknown_replies: int = 0
    late_replies: int = 0
    unwritten_messages: int = 0
    failed_handlers: int = 0
    garbage_sample: str = ""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a child ended: by itself, or because weft stopped it for a reason."""

    status: int
    stderr: str
    stopped: str | None = None

    def __str__(self) -> str:
        told = told_status(self.status)
        if self.stopped is not None:
            told = f"{self.stopped} ({told})"
        return f"{told}; stderr: {self.stderr}" if self.stderr else told


OnExit: TypeAlias = Callable[[Exit], object]


class StdioTransport:
    """One life of one child; who wants another life makes another transport.

    What a request's own listener has not asked for goes to `on_message`. Requests of the server go to `on_request`,
    whose answer (a dict with a result or an error member) is written back; without it they are refused.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        server: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        limits: StdioLimits | None = None,
        on_message: OnMessage | None = None,
        on_request: OnRequest | None = None,
        on_exit: OnExit | None = None,
        log: Log | None = None,
    ) -> None:
        self._command = list(command)
        self._server = server
        self._env = dict(env or {})
        self._cwd = cwd
        self._limits = limits or StdioLimits()
        self._on_message = on_message
        self._on_exit = on_exit
        self._log: Log = log or (lambda line: None)
        self._process: Process | None = None
        self._calls = Calls(server)
        self._asked = Asked(on_request, write=self._write_if_room, limit=self._limits.server_requests)
        self._lines = Lines(limit=self._limits.line)
        self._garbage_in_a_row = 0
        self._silent_timeouts = 0
        self._heard = asyncio.Event()
        self._probe: asyncio.Task[None] | None = None
        self._stopped: WeftError | None = None
        self._why_stopped: str | None = None
        self.exit: Exit | None = None
        self.counters = StdioCounters()

    async def start(self, *, on_message: OnMessage | None = None, on_request: OnRequest | None = None) -> None:
        """Start the child; listeners that were given at the making stay.

        Raises:
            UpstreamUnavailable: there is no such command or folder, or it may not be run.
        """
        if self._process is not None or self._stopped is not None:
            raise UpstreamUnavailable(self._server, "this child was started before")
        self._on_message = self._on_message or on_message
        self._asked.on_request = self._asked.on_request or on_request
        now = asyncio.get_running_loop().time
        self._stderr = Stderr(now=now, log=self._log, secrets=self._env.values())
        self._process = await Process.start(
            self._command,
            server=self._server,
            owner=self,
            env=environment(self._env, os.environ),
            cwd=self._cwd,
            patience=self._limits.patience,
        )
        if not self._process.guarded:
            self._log("no /bin/sh: should weft be killed, only the end of stdin tells this child")

    @property
    def pid(self) -> int | None:
        """The number of the child's process, which is its group's too."""
        return self._process.pid if self._process is not None else None

    async def request(
        self,
        message: dict[str, Any],
        *,
        deadline: float,
        on_message: OnMessage | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send a request and return its response; see Transport.request.

        Cancelling the caller's task, and the deadline, send notifications/cancelled with the id that the wire knows.
        """
        wire_id = self._calls.mint()
        await self._write(write_message({**message, "id": wire_id}), deadline=deadline, what=message.get("method"))
        sent = self._calls.open(message, wire_id, on_message)
        timer = asyncio.get_running_loop().call_at(deadline, self._expire, sent)
        try:
            return await sent.answer
        except asyncio.CancelledError:
            if sent.answer.cancelled():
                self._cancel(sent, "the caller gave up")
            raise
        finally:
            timer.cancel()
            self._calls.close(sent)

    async def follow(
        self, message: dict[str, Any], *, on_message: OnMessage, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a request that lasts; see Transport.follow."""
        return await self.request(message, deadline=math.inf, on_message=on_message)

    async def notify(self, message: dict[str, Any], *, headers: Mapping[str, str] | None = None) -> None:
        """Send a notification, or the answer to a server's request.

        A cancellation is not sent: the end of the request's task has sent it, and only the wire knows the id.
        """
        if message.get("method") == "notifications/cancelled":
            return
        deadline = asyncio.get_running_loop().time() + self._limits.notify
        await self._write(write_message(message), deadline=deadline, what=message.get("method"))

    async def close(self) -> None:
        """Stop the child, by force if need be; what is in flight fails."""
        self._stop(UpstreamDied(self._server, "weft closed it"), "closed")
        if self._process is not None:
            await self._process.gone()

    def on_stdout(self, chunk: bytes) -> None:
        """Take what the child wrote."""
        for line in self._lines.feed(chunk):
            if self._stopped is not None:
                return
            message = read_message(line)
            if message is None:
                self._skip(line)
            else:
                self._garbage_in_a_row = self._silent_timeouts = 0
                self._heard.set()
                self._take(message)
        if self._lines.overflowed and self._stopped is None:
            limit = self._limits.line
            self._stop(UpstreamMessageTooLarge(self._server, "a line", limit=limit), f"a line of over {limit} bytes")
            if self._process is not None:
                self._process.kill()

    def on_stderr(self, chunk: bytes) -> None:
        """Take what the child wrote on stderr."""
        self._stderr.feed(chunk)

    def on_gone(self, status: int) -> None:
        """Fail what is in flight: the child is gone."""
        self.exit = Exit(status, self._stderr.tail(), self._why_stopped)
        self._stop(UpstreamDied(self._server, str(self.exit)), None)
        if self._on_exit is not None:
            self._guarded(self._on_exit, self.exit)

    async def _write(self, data: bytes, *, deadline: float, what: object) -> None:
        process = self._running()
        if deadline <= asyncio.get_running_loop().time():
            raise DeadlineExceeded(f"The deadline passed before {what} was sent to upstream '{self._server}'")
        try:
            if process.writable:
                process.write_now(data)
            else:
                async with asyncio.timeout_at(deadline):
                    await process.write(data)
        except TimeoutError:
            self._note_timeout()
            raise DeadlineExceeded(f"Upstream '{self._server}' took no input for {what} by the deadline") from None
        except BrokenPipeError:
            raise UpstreamDied(self._server, "it went before the request was written", sent=False) from None

    def _running(self) -> Process:
        if self._process is None:
            raise UpstreamUnavailable(self._server, "its process is not started")
        if self._stopped is not None:
            raise UpstreamUnavailable(self._server, f"its process has ended: {self.exit or self._why_stopped}")
        return self._process

    def _write_if_room(self, message: dict[str, Any]) -> None:
        """Write without waiting, or not at all: a child that does not read must not fill the memory."""
        process = self._process
        if process is None or self._stopped is not None or process.unwritten > self._limits.unread:
            self.counters.unwritten_messages += 1
            return
        try:
            process.write_now(write_message(message))
        except BrokenPipeError:
            self.counters.unwritten_messages += 1

    def _expire(self, sent: Sent) -> None:
        if not sent.answer.done():
            self._cancel(sent, "the deadline has passed")
            sent.fail(DeadlineExceeded(f"Upstream '{self._server}' did not answer {sent.method} by the deadline"))
            self._note_timeout()

    def _cancel(self, sent: Sent, reason: str) -> None:
        # The protocol forbids to cancel the handshake.
        if sent.method != "initialize":
            params = {"requestId": sent.wire_id, "reason": reason}
            self._write_if_room({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def _note_timeout(self) -> None:
        self._silent_timeouts += 1
        if self._silent_timeouts >= self._limits.silent_timeouts and self._probe is None and self._stopped is None:
            self._heard.clear()
            self._probe = asyncio.get_running_loop().create_task(self._stop_unless_alive())

    async def _stop_unless_alive(self) -> None:
        """Ask a child that has long been silent for any sign of life; a slow tool is no reason to kill its server."""
        self._write_if_room({"jsonrpc": "2.0", "id": self._calls.mint(), "method": "ping"})
        try:
            async with asyncio.timeout(self._limits.probe):
                await self._heard.wait()
        except TimeoutError:
            why = f"{self._silent_timeouts} requests in a row timed out and it was silent"
            self._stop(UpstreamDied(self._server, f"weft stops it: {why}"), why)
        finally:
            self._probe = None

    def _stop(self, error: WeftError, why: str | None) -> None:
        """Fail what is in flight and end the child; only the first reason counts."""
        if self._stopped is None:
            self._stopped, self._why_stopped = error, why
            self._calls.fail_all(error)
            self._asked.cancel_all()
            if self._probe is not None:
                self._heard.set()
            if self._process is not None:
                self._process.end()

    def _skip(self, line: bytes | bytearray) -> None:
        self.counters.garbage_lines += 1
        self._garbage_in_a_row += 1
        if self._garbage_in_a_row == 1:
            self.counters.garbage_sample = self._stderr.clean(sample(line))
            self._log(f"not a message on stdout, skipped: {self.counters.garbage_sample}")
        if self._garbage_in_a_row > self._limits.garbage_lines:
            why = f"{self._garbage_in_a_row} lines in a row that are no messages: {self.counters.garbage_sample}"
            self._stop(UpstreamDied(self._server, f"weft stops it: {why}"), why)

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message:
            if "id" in message:
                self._asked.take(message)
            elif not self._asked.cancelled_by(message):
                listener = self._calls.listener(message) or self._on_message
                if listener is not None:
                    self._guarded(listener, message)
        elif not self._calls.answer(message):
            if self._calls.was_minted(message.get("id")):
                self.counters.late_replies += 1
            else:
                self.counters.unknown_replies += 1

    def _guarded(self, callback: Callable[[Any], object], value: object) -> None:
        try:
            callback(value)
        except Exception as error:  # whatever a listener raises, the wire must go on for all others
            self.counters.failed_handlers += 1
            self._log(f"a listener failed: {error!r}")
