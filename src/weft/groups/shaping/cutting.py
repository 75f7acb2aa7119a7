"""Limits of values: lists and texts that are cut until they fit, and what is said of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import orjson

from weft.groups.shaping.places import ELLIPSIS, Places, below
from weft.ports import is_array, is_object

DEPTH: Final = 200
"""How many levels of a value are gone into: less than can be written as JSON."""


class _TooLarge(Exception):
    """A value has more bytes than there is room for."""


class Limits(NamedTuple):
    """How many items of a list, characters of a text and fields of an object may stay; None is no limit."""

    items: int | None = None
    text: int | None = None
    fields: int | None = None


class Cut:
    """Cuts values down to limits, and remembers where it did if it has `places` for that.

    With `room` it gives up as soon as what is left cannot be written in so many bytes, so that to try costs no more
    than what may stay.
    """

    __slots__ = ("_fields", "_items", "_places", "_room", "_text")

    def __init__(self, limits: Limits, *, room: int | None = None, places: Places | None = None) -> None:
        self._items, self._text, self._fields = limits
        self._room = sys.maxsize if room is None else room
        self._places = places

    def of(self, value: Any, place: str = "", depth: int = 0) -> Any:
        """Return a value within the limits: the very same object where nothing in it had to be cut."""
        if isinstance(value, str):
            most = self._text
            if most is not None and len(value) > most:
                self._note(place, "characters", most, len(value))
                value = value[: most - 1] + ELLIPSIS if most else ""
            self._take(len(value) + 2)
            return value
        self._take(1)
        if depth == DEPTH and value and (is_array(value) or is_object(value)):
            self._note(place, "levels", DEPTH, DEPTH)
            return emptied(value)
        if is_array(value):
            return self._list(value, place, depth)
        return self._object(value, place, depth) if is_object(value) else value

    def _take(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise _TooLarge

    def _note(self, place: str, what: str, kept: int, of: int) -> None:
        if self._places is not None:
            self._places.note(place, what, kept, of)

    def _list(self, value: list[Any], place: str, depth: int) -> list[Any]:
        kept = value
        if self._items is not None and len(value) > self._items:
            self._note(place, "items", self._items, len(value))
            kept = value[: self._items]
        same, made = kept is value, list[Any]()
        for inner in kept:
            self._take(1)
            cut = self.of(inner, place, depth + 1)
            same = same and cut is inner
            made.append(cut)
        return value if same else made

    def _object(self, value: dict[str, Any], place: str, depth: int) -> dict[str, Any]:
        many = self._fields is not None and len(value) > self._fields
        if many and self._fields is not None:
            self._note(place, "fields", self._fields, len(value))
        same, made, told = not many, dict[str, Any](), self._places is not None
        for key, inner in value.items():
            if many and len(made) == self._fields:
                break
            self._take(len(key) + 4)
            cut = self.of(inner, below(place, key) if told else "", depth + 1)
            same = same and cut is inner
            made[key] = cut
        return value if same else made


def within(value: Any, *, items: int | None, text: int | None, size: int | None) -> tuple[Any, Places]:
    """Return as much of a value as the limits allow, and where it was cut; `size` is that of the whole as JSON.

    For the size, lists lose their ends, all alike; if one item each is too much, texts are cut, and fields last. What
    is left has the kind that it had: of an object at least `{}`, also where that is too much.
    """
    places = Places()
    if items is None and text is None and (size is None or size_of(value) <= size):
        return value, places
    limits = Limits(items, text) if size is None else _enough(value, Limits(items, text), size)
    if limits is not None:
        return Cut(limits, places=places).of(value), places
    places.note("", "bytes", 0, size_of(value))
    return emptied(value), places


def _enough(value: Any, given: Limits, size: int) -> Limits | None:
    """Return limits by which a value has no more than a number of bytes, and not much less; None when none will do."""
    if _fits(value, given, size):
        return given
    items, text = given.items, given.text
    # Each way is tried only when the one before cannot do it.
    ways: list[Callable[[int], Limits]] = [
        lambda n: Limits(_less(n + 1, items), text),
        lambda n: Limits(_less(1, items), _less(n + 8, text)),
        lambda n: Limits(0, _less(n + 8, text)),
        lambda n: Limits(0, _less(8, text), n),
        lambda n: Limits(0, _less(n, text), 0),
    ]
    for way in ways:
        found = _largest(lambda n, way=way: _fits(value, way(n), size), limit=size)
        if found is not None:
            return way(found)
    return None


def _less(one: int, other: int | None) -> int:
    return one if other is None else min(one, other)


def _fits(value: Any, limits: Limits, size: int) -> bool:
    try:
        return size_of(Cut(limits, room=size).of(value)) <= size
    except _TooLarge:
        return False


def _largest(fits: Callable[[int], bool], *, limit: int) -> int | None:
    """Return about the largest number that fits, None when even 0 does not."""
    if not fits(0):
        return None
    low, step = 0, 1
    while low + step <= limit and fits(low + step):
        low, step = low + step, step * 2
    high = min(low + step, limit + 1)
    # Of large numbers the last few per cent are not worth as many attempts again.
    while high - low > max(1, low // 32):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def emptied(value: Any) -> Any:
    """Return the least that there is of a kind of value."""
    if isinstance(value, str):
        return ""
    return [] if is_array(value) else {} if is_object(value) else None


def size_of(value: Any) -> int:
    """Return how many bytes a value has as JSON; of one that is too deep to be written, more than any limit."""
    try:
        return len(written(value))
    except RecursionError:
        return sys.maxsize


def written(value: Any) -> bytes:
    """Return a value as JSON, also one that has integers of more than 64 bits."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # Whoever writes the result says what is wrong with it, if anything is.
        return json.dumps(value, separators=(",", ":"), default=str).encode()
