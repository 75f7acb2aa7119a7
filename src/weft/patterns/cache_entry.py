"""What a cache keeps: a value with how long it is fresh, as bytes that say in which format they are."""

from __future__ import annotations

import struct
from typing import Any, Final, Literal, NamedTuple

import orjson

from weft.errors import ToolFailed
from weft.patterns.contract import Value
from weft.ports import Stored, is_object

Kind = Literal["value", "error"]

_JSON_ONLY: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_HEAD: Final = struct.Struct(">4sdd")
_MARKS: Final[dict[bytes, Kind]] = {b"wc1v": "value", b"wc1e": "error"}
_MARK_OF: Final[dict[Kind, bytes]] = {kind: mark for mark, kind in _MARKS.items()}
ROUNDING: Final = 1e-6
"""What arithmetic with seconds may lose: an entry whose time has come counts as such."""
SLACK: Final = 1.0
"""How much longer than its whole life an entry may seem to live before its store's clock must have gone back."""


class Undecodable(Exception):
    """Bytes that no cache of this format wrote."""


class Entry(NamedTuple):
    """A stored result: `age` in seconds, `fresh` for how long it is fresh."""

    kind: Kind
    body: memoryview | bytes
    fresh: float
    age: float

    def past(self, window: float) -> bool:
        """Tell whether the entry is older than its freshness and a window after it."""
        return self.age >= self.fresh + window - ROUNDING

    def load(self) -> Value:
        """Return what is stored, as a value of its own each time.

        Raises:
            Undecodable: the bytes are not JSON, or not what they say.
        """
        try:
            value: Any = orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise Undecodable(str(error)) from None
        if self.kind == "error" and not (is_object(value) and isinstance(value.get("tool"), str)):
            raise Undecodable("it is no refusal")
        return value

    def give(self, loaded: Value) -> Value:
        """Return a loaded value, or raise the refusal that it is.

        Raises:
            ToolFailed: what was stored is the refusal of a tool.
        """
        if self.kind == "error":
            raise ToolFailed(loaded["tool"], loaded.get("content"))
        return loaded


def body_of(value: Value) -> bytes | None:
    """Return a value as bytes; None when it cannot be written so that it reads as the same."""
    try:
        return orjson.dumps(value, option=_JSON_ONLY)
    except TypeError:
        return None


def body_of_error(error: ToolFailed) -> bytes | None:
    """Return a tool's refusal as bytes."""
    return body_of({"tool": error.tool, "content": error.content})


def sealed(kind: Kind, body: bytes, *, fresh: float, life: float) -> bytes:
    """Return what is stored: `life` is how long the store is to keep it."""
    return _HEAD.pack(_MARK_OF[kind], fresh, life) + body


def opened(stored: Stored) -> Entry | None:
    """Return the entry in what was stored; None when its time is over, or its store's clock went back.

    Its age is told by the time that the store still gives it, so no other clock is asked.

    Raises:
        Undecodable: it is damaged, or in another format.
    """
    value = stored.value
    if len(value) < _HEAD.size:
        raise Undecodable("it is too short")
    mark, fresh, life = _HEAD.unpack_from(value)
    kind = _MARKS.get(mark)
    # Not so written, NaN would pass.
    if kind is None or not (0 < fresh <= life):
        raise Undecodable("it is of another format")
    left = stored.ttl
    if left is None or left <= 0 or left > life + SLACK:
        return None
    return Entry(kind, memoryview(value)[_HEAD.size :], fresh, max(0.0, life - left))
