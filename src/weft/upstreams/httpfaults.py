"""What an HTTP answer means when it is not the response that was asked for."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import time
from collections.abc import Iterable
from typing import Any, cast

import orjson

from weft.errors import (
    SessionGone,
    UpstreamAuth,
    UpstreamDied,
    UpstreamProtocolError,
    UpstreamUnavailable,
    WeftError,
    shown,
)
from weft.ports import is_object
from weft.upstreams.httppool import Response
from weft.upstreams.leniently import read_json

NOT_TAKEN = frozenset({408, 425, 429, 503})
"""The server says that it did not begin: the request may be sent again, whatever it does."""

EXCERPT = 200


class Reading:
    """Reads the answers of one server; of those that are wrong it tells the beginning, never weft's own credentials."""

    def __init__(self, name: str, *, limit: int, secrets: Iterable[str]) -> None:
        self._name, self._limit = name, limit
        self._secrets = [part for value in secrets for part in (value, value.rpartition(" ")[2]) if len(part) >= 8]

    def parsed(self, data: bytes | bytearray, *, framed: bool = True) -> object:
        """Return a whole text as the JSON that it is."""
        try:
            return read_json(data)
        except ValueError as error:
            if not framed:
                reason = "its answer ended with the connection, and is not whole"
                raise UpstreamDied(self._name, f"{reason}; the request may have been handled") from None
            raise UpstreamProtocolError(self._name, f"not JSON: {error}: {self._excerpt(data)}") from None

    def checked(self, message: object, id_: Any) -> dict[str, Any]:
        """Return a message if it is the response to the request."""
        if is_object(message) and "result" in message and "error" not in message and "method" not in message:
            found = message.get("id")
            if type(found) is type(id_) and found == id_:
                return message
        if not isinstance(message, dict) or ("result" in message) == ("error" in message) or "method" in message:
            raise UpstreamProtocolError(self._name, f"not a JSON-RPC response: {shown(cast(object, message))}")
        answer = cast("dict[str, Any]", message)
        if not isinstance(answer.get("error", {}), dict):
            raise UpstreamProtocolError(self._name, f"a JSON-RPC error that is none: {shown(answer['error'])}")
        found = answer.get("id")
        if found is None and "error" in answer:
            # A server that could not read the id says null; the exchange says whose it is.
            return {**answer, "id": id_}
        if type(found) is not type(id_) or found != id_:
            raise UpstreamProtocolError(self._name, f"a response to request {shown(found)}, not to {shown(id_)}")
        return answer

    async def refused(self, response: Response, *, session: str | None, id_: Any) -> dict[str, Any]:
        """Return the JSON-RPC error that a status other than 2xx carries, or raise what the status means."""
        status = response.status
        if status in (401, 403):
            raise UpstreamAuth(self._name, f"status {status}: {await self._beginning(response)}", status=status)
        if status == 404 and session is not None:
            raise SessionGone(self._name, "status 404: it does not know the session", status=status)
        if status < 400:
            where = shown(response.header(b"location"))
            reason = f"status {status} points to {where}; redirects are not followed"
            raise UpstreamProtocolError(self._name, reason, status=status)
        if status in NOT_TAKEN or status >= 500:
            raise UpstreamUnavailable(
                self._name,
                f"status {status}: {await self._beginning(response)}",
                sent=status not in NOT_TAKEN,
                status=status,
                retry_after=retry_after(response),
                code="UpstreamRateLimited" if status == 429 else None,
            )
        return await self._rpc_error(response, id_)

    async def _rpc_error(self, response: Response, id_: Any) -> dict[str, Any]:
        if media_type(response) != "application/json":
            raise await self.no_answer(response)
        body = await response.body(self._limit)
        with contextlib.suppress(orjson.JSONDecodeError):
            found = orjson.loads(body)
            message = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
            if isinstance(message.get("error"), dict):
                # Whatever id a server gives to what it turned away: the exchange says whose it is.
                return {**message, "id": id_}
        reason = f"status {response.status} without a JSON-RPC error: {self._excerpt(body)}"
        raise UpstreamProtocolError(self._name, reason, status=response.status)

    async def no_answer(self, response: Response) -> UpstreamProtocolError:
        """Return the error of an answer with another content type than MCP knows."""
        kind = shown(response.header(b"content-type")) if response.header(b"content-type") else "no content type"
        reason = f"status {response.status}, {kind}: {await self._beginning(response)}"
        return UpstreamProtocolError(self._name, reason, status=response.status)

    async def _beginning(self, response: Response) -> str:
        """Return the first characters of a body that is no answer, if they come soon."""
        start = b""
        with contextlib.suppress(WeftError, TimeoutError):
            async with asyncio.timeout(1.0):
                while len(start) < 4 * EXCERPT and (piece := await response.read()):
                    start += piece
        return self._excerpt(start)

    def _excerpt(self, data: bytes | bytearray) -> str:
        """Return the beginning of a text that a server wrote, escaped, without weft's own credentials."""
        text = bytes(data[: 16 * EXCERPT]).decode("utf-8", "replace")
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return ascii(text[:EXCERPT])


def media_type(response: Response) -> str:
    """Return the content type without its parameters."""
    return response.header(b"content-type").partition(";")[0].strip().lower()


def retry_after(response: Response) -> float | None:
    """Return the seconds that a server asked to wait for; a date counts from the server's own clock, if it tells it."""
    text = response.header(b"retry-after").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    when = moment(text)
    if when is None:
        return None
    return max(0.0, when - (moment(response.header(b"date")) or time.time()))


def moment(text: str) -> float | None:
    """Return an HTTP date as seconds since the epoch."""
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
