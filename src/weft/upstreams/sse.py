"""Server-sent events, read as the bytes arrive."""

from __future__ import annotations

from dataclasses import dataclass

BOM = b"\xef\xbb\xbf"


class EventTooLarge(ValueError):
    """One event, or one line of it, is over the limit."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `data` stays as bytes, so that text which is not UTF-8 is refused by its reader and never mended."""

    data: bytes
    type: str = "message"


class SseParser:
    """Bytes in, whole events out; `last_id` and `retry` (milliseconds) are what the stream said last."""

    __slots__ = ("_at_start", "_cr", "_data", "_id", "_limit", "_line", "_size", "_type", "last_id", "retry")

    def __init__(self, *, limit: int, last_id: str = "", retry: int | None = None) -> None:
        self.last_id = last_id
        self.retry = retry
        self._limit = limit
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._type = ""
        self._id = last_id
        self._at_start = True
        self._cr = False

    @property
    def pending(self) -> bool:
        """Whether an event has begun and not ended."""
        return bool(self._line or self._data)

    def feed(self, piece: bytes) -> list[Event]:
        """Take the next bytes and return the events that they complete.

        Raises:
            EventTooLarge: the event that is being read passed the limit.
        """
        events: list[Event] = []
        lines = self._lines(piece)
        for line in lines:
            if line:
                self._field(line)
            elif (event := self._dispatch()) is not None:
                events.append(event)
        if self._size + len(self._line) > self._limit:
            raise EventTooLarge(f"an event of more than {self._limit} bytes")
        return events

    def _lines(self, piece: bytes) -> list[bytes]:
        """Return the lines that are now whole; what follows the last line end waits for more."""
        if self._cr and piece:
            # The line ended with the CR that closed the last piece: an LF here is its other half.
            piece = piece[1:] if piece.startswith(b"\n") else piece
            self._cr = False
        self._line += piece
        if not (b"\n" in piece or b"\r" in piece):
            return []
        whole = bytes(self._line)
        self._cr = whole.endswith(b"\r")
        if b"\r" in whole:
            whole = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = whole.split(b"\n")
        self._line = bytearray(rest)
        if self._at_start:
            self._at_start = False
            lines[0] = lines[0].removeprefix(BOM)
        return lines

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            if self._size > self._limit:
                raise EventTooLarge(f"an event of more than {self._limit} bytes")
        elif name == b"event":
            self._type = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= 9:
            self.retry = int(value)

    def _dispatch(self) -> Event | None:
        data, kind = self._data, self._type
        self.last_id = self._id
        self._data, self._size, self._type = [], 0, ""
        return Event(b"\n".join(data), kind or "message") if data else None
