"""Requests in flight on one wire: numbers of their own on it, and who waits for what comes back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

from weft.errors import UpstreamProtocolError, WeftError
from weft.upstreams.transport import OnMessage

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


@dataclass(slots=True, eq=False)
class Sent:
    """One request in flight."""

    wire_id: int
    caller_id: Any
    method: object
    token: str | int | None
    on_message: OnMessage | None
    answer: asyncio.Future[dict[str, Any]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def fail(self, error: WeftError) -> None:
        """Fail the request, unless it is over."""
        if not self.answer.done():
            self.answer.set_exception(error)


class Calls:
    """Every request in flight. Callers' ids may collide, so the wire sees numbers that are minted here."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._sent: dict[int, Sent] = {}
        self._tokens: dict[str | int, Sent] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._sent)

    def mint(self) -> int:
        """Return an id that was not on this wire before."""
        self._last += 1
        return self._last

    def open(self, message: dict[str, Any], wire_id: int, on_message: OnMessage | None) -> Sent:
        """Wait for the answer to a request, and for its progress when it has a token and somebody to tell."""
        token = _token(_meta(message).get("progressToken")) if on_message is not None else None
        sent = Sent(wire_id, message.get("id"), message.get("method"), token, on_message)
        self._sent[wire_id] = sent
        if token is not None:
            self._tokens[token] = sent
        return sent

    def close(self, sent: Sent) -> None:
        """Forget a request that is over."""
        self._sent.pop(sent.wire_id, None)
        if sent.token is not None and self._tokens.get(sent.token) is sent:
            del self._tokens[sent.token]
        if sent.answer.done() and not sent.answer.cancelled():
            # Nobody may have awaited it: asyncio would complain of an error that was never looked at.
            sent.answer.exception()

    def answer(self, message: dict[str, Any]) -> bool:
        """Give a response to the request that it answers; return whether there is one."""
        # By type, as 1 == 1.0 == True in Python: only the very number is the answer.
        wire_id = message.get("id")
        sent = self._sent.get(wire_id) if type(wire_id) is int else None
        if sent is None or sent.answer.done():
            return False
        if ("result" in message) == ("error" in message):
            sent.fail(UpstreamProtocolError(self._server, "a response needs either a result or an error"))
        else:
            message["id"] = sent.caller_id
            sent.answer.set_result(message)
        return True

    def was_minted(self, wire_id: object) -> bool:
        """Tell whether an id was on this wire, now or before."""
        return type(wire_id) is int and 0 < wire_id <= self._last

    def listener(self, message: dict[str, Any]) -> OnMessage | None:
        """Return who asked for a notification: by its progress token, or by its subscription."""
        if message["method"] == "notifications/progress":
            params = message.get("params")
            token = _token(cast(dict[str, Any], params).get("progressToken")) if isinstance(params, dict) else None
            sent = self._tokens.get(token) if token is not None else None
            return sent.on_message if sent is not None else None
        meta = _meta(message)
        wire_id = meta.get(SUBSCRIPTION)
        sent = self._sent.get(wire_id) if type(wire_id) is int else None
        if sent is None or sent.on_message is None:
            return None
        # A subscription is named by the id of its request, and the caller knows that by its own.
        meta[SUBSCRIPTION] = sent.caller_id
        return sent.on_message

    def fail_all(self, error: WeftError) -> None:
        """Fail every request in flight, each with an error of its own: callers note on it where it passed."""
        for sent in list(self._sent.values()):
            own = type(error).__new__(type(error), *error.args)
            own.__dict__.update(error.__dict__)
            sent.fail(own)


def _meta(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    meta: object = cast(dict[str, Any], params).get("_meta") if isinstance(params, dict) else None
    return cast(dict[str, Any], meta) if isinstance(meta, dict) else {}


def _token(value: object) -> str | int | None:
    return value if type(value) is str or type(value) is int else None
