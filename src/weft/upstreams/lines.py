"""Lines of a child's stdout: cut from chunks within a bound, read as JSON-RPC messages or not at all."""

from __future__ import annotations

from typing import Any, cast

import orjson

from weft.errors import InputError
from weft.upstreams.leniently import read_json

SAMPLE = 200


class Lines:
    """Cuts chunks into lines and never holds more than one line of the limit."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._partial = bytearray()
        self.overflowed = False

    def feed(self, chunk: bytes) -> list[bytes | bytearray]:
        """Return the lines that a chunk completes; once one is over the limit, nothing more comes but `overflowed`."""
        if self.overflowed:
            return []
        pieces: list[bytes | bytearray] = [*chunk.split(b"\n")]
        if self._partial:
            # Growing one buffer, instead of joining pieces at the end, keeps a long line in memory once.
            self._partial += pieces[0]
            pieces[0] = self._partial
        rest = pieces.pop()
        if rest is not self._partial:
            self._partial = bytearray(rest)
        if len(self._partial) > self._limit:
            self._overflow()
        if max(map(len, pieces), default=0) <= self._limit:
            return pieces
        self._overflow()
        return pieces[: next(at for at, line in enumerate(pieces) if len(line) > self._limit)]

    def _overflow(self) -> None:
        self.overflowed = True
        self._partial = bytearray()


def read_message(line: bytes | bytearray) -> dict[str, Any] | None:
    """Return the JSON-RPC message on a line, or None when the line is something else."""
    try:
        value: object = read_json(line)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    message = cast(dict[str, Any], value)
    known = isinstance(message["method"], str) if "method" in message else "id" in message
    return message if known and message.get("jsonrpc") == "2.0" else None


def write_message(message: dict[str, Any]) -> bytes:
    """Return a message as a line.

    Raises:
        InputError: it has a value that JSON cannot carry.
    """
    try:
        return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError as error:
        raise InputError(f"The message cannot be written as JSON: {error}", code="NotJson") from error


def sample(line: bytes | bytearray) -> str:
    """Return the start of a line as a log may show it."""
    text = line[:SAMPLE].decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
