"""Requests that a server makes of weft: each answered, by a handler or by a refusal, without holding up the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

OnRequest: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Answers a server's request with a dict that has a result or an error member."""

METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
TOO_MANY = -32000


class Asked:
    """The server's requests that are being answered."""

    def __init__(self, on_request: OnRequest | None, *, write: Callable[[dict[str, Any]], None], limit: int) -> None:
        self.on_request = on_request
        self._write = write
        self._limit = limit
        self._tasks: dict[tuple[type, object], asyncio.Task[None]] = {}

    def take(self, message: dict[str, Any], on_request: OnRequest | None = None) -> asyncio.Task[None] | None:
        """Answer a request, now or when the handler has: the one given, or else everybody's."""
        handler = on_request or self.on_request
        if message["method"] == "ping":
            self._reply(message, {"result": {}})
        elif handler is None:
            self._reply(message, unknown(message))
        elif len(self._tasks) >= self._limit:
            self._refuse(message, TOO_MANY, f"More than {self._limit} requests at once")
        else:
            key = _key(message.get("id"))
            task = asyncio.get_running_loop().create_task(self._handle(message, handler))
            self._tasks[key] = task
            task.add_done_callback(lambda done: self._forget(key, done))
            return task
        return None

    def cancelled_by(self, message: dict[str, Any]) -> bool:
        """Give up the request that a notification cancels; return whether it is one of these."""
        params = message.get("params")
        if message["method"] != "notifications/cancelled" or not isinstance(params, dict):
            return False
        task = self._tasks.get(_key(cast(dict[str, Any], params).get("requestId")))
        return task is not None and task.cancel()

    def cancel_all(self) -> None:
        """Give up all of them: nobody is left to be answered."""
        for task in list(self._tasks.values()):
            task.cancel()

    async def _handle(self, message: dict[str, Any], handler: OnRequest) -> None:
        try:
            self._reply(message, await handler(message))
        except Exception as error:  # the server must get an answer, whatever the handler raises
            self._refuse(message, INTERNAL_ERROR, f"weft could not answer: {type(error).__name__}")

    def _refuse(self, message: dict[str, Any], code: int, text: str) -> None:
        self._reply(message, {"error": {"code": code, "message": text}})

    def _reply(self, message: dict[str, Any], answer: dict[str, Any]) -> None:
        self._write({"jsonrpc": "2.0", "id": message["id"], **answer})

    def _forget(self, key: tuple[type, object], task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]


def unknown(message: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request that nobody here can handle."""
    return {"error": {"code": METHOD_NOT_FOUND, "message": f"Method not found: {message['method'][:80]}"}}


def _key(value: object) -> tuple[type, object]:
    # An id may be any JSON by mistake, and a list cannot be a key.
    return type(value), value if isinstance(value, str | int | float) else repr(value)
