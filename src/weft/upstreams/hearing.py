"""What a server says unasked, and who hears it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from weft.ports import is_object
from weft.upstreams.asked import Asked, OnRequest, unknown
from weft.upstreams.transport import OnMessage

OnProgress: TypeAlias = Callable[[dict[str, Any]], object]
"""Told the params of each progress notification, under the caller's own token if it has one; it must not block."""


class Listeners(Protocol):
    """Who hears what belongs to no request; asked anew each time."""

    on_message: OnMessage | None
    on_request: OnRequest | None


@dataclass(frozen=True, slots=True)
class Hearing:
    """Who hears what comes on the stream of one request."""

    on_progress: OnProgress | None
    on_request: OnRequest | None
    on_notification: OnMessage | None


class Ear:
    """What comes while one request is under way: to its own listeners, else to everybody's."""

    __slots__ = ("_hearer", "_hearing", "_questions", "_token")

    def __init__(self, hearer: Hearer, hearing: Hearing, token: int) -> None:
        self._hearer, self._hearing, self._token = hearer, hearing, token
        self._questions: list[asyncio.Task[None]] = []

    def take(self, message: dict[str, Any]) -> None:
        """Take the next message of the stream."""
        own = self._hearing
        question = self._hearer.give(message, own.on_request, own.on_notification)
        if question is not None and own.on_request is not None:
            self._questions.append(question)

    def close(self) -> None:
        """Hear nothing more; what the server asked is moot: it has answered, or nobody waits for that any more."""
        self._hearer.forget(self._token)
        for question in self._questions:
            question.cancel()


class Hearer:
    """Gives each message of a server to who should hear it; `failures` counts the listeners that raised."""

    def __init__(self, listeners: Listeners, *, write: Callable[[dict[str, Any]], None], limit: int) -> None:
        self._listeners = listeners
        self._asked = Asked(None, write=write, limit=limit)
        self._progress: dict[int, OnProgress] = {}
        self.failures = 0

    def open(self, hearing: Hearing, *, token: int, callers_token: Any) -> Ear:
        """Begin to hear for a request, whose progress comes under the token."""
        if hearing.on_progress is not None:
            self._progress[token] = _renamed(hearing.on_progress, callers_token)
        return Ear(self, hearing, token)

    def forget(self, token: int) -> None:
        """Hear no more progress under the token."""
        self._progress.pop(token, None)

    def give(
        self,
        message: dict[str, Any],
        on_request: OnRequest | None = None,
        on_notification: OnMessage | None = None,
    ) -> asyncio.Task[None] | None:
        """Give a message to the listeners named, else to everybody's; return the task of a question's answer."""
        method = message.get("method")
        if not isinstance(method, str):
            return None
        if "id" in message:
            return self._asked.take(message, on_request or self._listeners.on_request)
        if method == "notifications/progress":
            params: object = message.get("params")
            token: object = params.get("progressToken") if is_object(params) else None
            listener = self._progress.get(token) if type(token) is int else None
            if listener is not None and is_object(params):
                self.tell(listener, params)
        elif not self._asked.cancelled_by(message):
            self.tell(on_notification or self._listeners.on_message, message)
        return None

    async def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer a request that came over a wire of its own."""
        on_request = self._listeners.on_request
        return unknown(message) if on_request is None else await on_request(message)

    def tell(self, listener: OnMessage | None, value: dict[str, Any]) -> None:
        """Tell a listener; whatever it raises, the call must go on."""
        try:
            if listener is not None:
                listener(value)
        except Exception:
            self.failures += 1

    def close(self) -> None:
        """Give up what is being answered."""
        self._asked.cancel_all()


def _renamed(on_progress: OnProgress, token: Any) -> OnProgress:
    """Return a listener that is told the caller's own token, or none."""

    def tell(params: dict[str, Any]) -> None:
        told = {key: value for key, value in params.items() if key != "progressToken"}
        on_progress(told if token is None else {**told, "progressToken": token})

    return tell
