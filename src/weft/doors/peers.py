"""The other workers on this machine: lines of JSON over unix sockets in a folder that only we can enter."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from weft.errors import InfrastructureError, NotFound, WeftError, said_by
from weft.ports import is_object

_log = logging.getLogger("weft.workers")

Handler: TypeAlias = Callable[[dict[str, Any]], "Awaitable[dict[str, Any] | None] | AsyncIterator[dict[str, Any]]"]
"""What a worker does with a message: an async function with one answer, or an async generator with several."""

LINE = 16 * 1024 * 1024
"""Bytes of one message, at most."""

IN_FLIGHT = 64
"""How many messages to one worker wait for their answers at once; others queue."""


class Peers:
    """One worker's way to the others; every message has a connection of its own, so none can hold up another.

    A worker that is not there, or does not answer in time, is a `WorkerUnavailable` error, never a hang.
    """

    def __init__(self, directory: Path, *, index: int, count: int, timeout: float = 5.0) -> None:
        """Make one for the worker `index` of `count`; all share the directory."""
        self.index = index
        self.count = count
        self.lost = 0
        self._directory = directory
        self._timeout = timeout
        self._handlers: dict[str, Handler] = {}
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._slots = [asyncio.Semaphore(IN_FLIGHT) for _ in range(count)]

    def on(self, op: str, handler: Handler) -> None:
        """Do this with every message whose `op` is that."""
        self._handlers[op] = handler

    async def start(self) -> None:
        """Begin to hear the others."""
        path = self._path(self.index)
        path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._heard, path, limit=LINE)

    async def close(self) -> None:
        """Hear the others no more; what they asked for and do not have yet is cancelled."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self._path(self.index).unlink(missing_ok=True)

    async def tell(self, worker: int, message: dict[str, Any], *, timeout: float | None = None) -> dict[str, Any]:
        """Tell one worker, and return its answer.

        Raises:
            InfrastructureError: it does not answer (`WorkerUnavailable`), or could not do it (`WorkerFailed`).
        """
        try:
            async with asyncio.timeout(timeout or self._timeout), aclosing(self.stream(worker, message)) as answers:
                answer = await anext(answers)
        except TimeoutError:
            raise self._gone(worker, "no answer in time") from None
        return {key: value for key, value in answer.items() if key != "done"}

    async def tell_all(self, message: dict[str, Any], *, timeout: float | None = None) -> list[dict[str, Any]]:
        """Tell all the others; return the answers of those who gave one, the rest is logged."""
        others = [worker for worker in range(self.count) if worker != self.index]
        told = await asyncio.gather(
            *(self.tell(worker, message, timeout=timeout) for worker in others), return_exceptions=True
        )
        for answer in told:
            if isinstance(answer, BaseException):
                if not isinstance(answer, InfrastructureError):
                    raise answer
                _log.warning("%s: %s", message.get("op"), answer.message)
        return [answer for answer in told if not isinstance(answer, BaseException)]

    async def stream(self, worker: int, message: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """Tell one worker, and yield its answers, of which the last has `done`; leaving early cancels its work."""
        async with self._slots[worker]:
            try:
                reader, writer = await asyncio.open_unix_connection(self._path(worker), limit=LINE)
            except OSError as error:
                raise self._gone(worker, said_by(error)) from error
            try:
                writer.write(_line(message))
                await writer.drain()
                while True:
                    answer = await self._next(worker, reader)
                    yield answer
                    if answer.get("done") is True:
                        return
            except OSError as error:
                raise self._gone(worker, said_by(error)) from error
            finally:
                writer.close()

    async def _next(self, worker: int, reader: asyncio.StreamReader) -> dict[str, Any]:
        try:
            answer = _message(await reader.readline())
        except ValueError as error:
            raise self._gone(worker, said_by(error)) from error
        if "error" in answer and answer.get("done") is True:
            failed = InfrastructureError(f"Worker {worker} failed: {answer['error']}", code="WorkerFailed")
            failed.retryable = "no"
            raise failed
        return answer

    def _gone(self, worker: int, why: str) -> InfrastructureError:
        self.lost += 1
        return InfrastructureError(f"Worker {worker} does not answer: {why}", code="WorkerUnavailable")

    def _path(self, worker: int) -> Path:
        return self._directory / f"worker-{worker}.sock"

    async def _heard(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one message; who asks no longer waits when its connection ends."""
        answering = asyncio.ensure_future(self._answer(reader, writer))
        self._serving.add(answering)
        try:
            await asyncio.wait({answering})
            if not answering.cancelled() and (error := answering.exception()) is not None:
                _log.error("a message of another worker: %s", said_by(error))
        finally:
            self._serving.discard(answering)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        message = _message(await reader.readline())
        work = asyncio.ensure_future(self._work(message, writer))
        gone = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    async def _work(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        try:
            handler = self._handlers.get(str(message.get("op")))
            if handler is None:
                raise NotFound("Operation", str(message.get("op")), self._handlers)
            made = handler(message)
            if isinstance(made, AsyncIterator):
                async for answer in made:
                    writer.write(_line(answer))
                    await writer.drain()
                last: dict[str, Any] = {"done": True}
            else:
                last = {**(await made or {}), "done": True}
        except WeftError as error:
            last = {"error": error.message, "done": True}
        except Exception as error:
            _log.exception("cannot do %s for another worker", message.get("op"))
            last = {"error": said_by(error), "done": True}
        with contextlib.suppress(OSError):
            writer.write(_line(last))
            await writer.drain()


def _line(message: dict[str, Any]) -> bytes:
    return orjson.dumps(message) + b"\n"


def _message(line: bytes) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise ValueError("the connection ended")
    message: object = orjson.loads(line)
    if not is_object(message):
        raise ValueError("not a message")
    return message
