"""Places: where a value begins in its text, found for one value or remembered for all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_SPACE = re.compile(r"[ \t\n\r]*+")
# Up to the next comma: a key if there is one, then the value if it holds nothing. A container ends the match.
_CHILD = re.compile(
    r"""[ \t\n\r]*+(?:(?P<key>"(?:[^"\\]++|\\.)*+")[ \t\n\r]*+:[ \t\n\r]*+)?+
        (?:(?P<scalar>"(?:[^"\\]++|\\.)*+"|[^"\[\]{},:\s]++)[ \t\n\r]*+(?P<more>,?+))?+""",
    re.VERBOSE,
)
_COMMA = re.compile(r"[ \t\n\r]*+,")
_skipping = json.JSONDecoder(parse_int=len, parse_float=len)


@dataclass(slots=True)
class Place:
    """The offset at which a value begins, and the places of what it holds."""

    at: int
    children: dict[str, Place] | None = None

    def child(self, step: str) -> Place | None:
        """Return the place of what stands under a key or index."""
        return None if self.children is None else self.children.get(step)


class JsonPlace:
    """A place in sound JSON that looks for what it holds when asked, and no further than it must.

    Problems are few and documents may be huge: what stands beside the way is skipped and never taken apart.
    """

    __slots__ = ("_opened", "_passed", "_rest", "_text", "at")

    def __init__(self, text: str, at: int) -> None:
        self._text, self.at = text, at
        self._passed: dict[str, int] = {}
        self._opened: dict[str, JsonPlace] = {}
        self._rest = _children(text, at)

    def child(self, step: str) -> JsonPlace | None:
        """Return the place of what stands under a key or index.

        Raises:
            ValueError: the text is not sound.
        """
        if (opened := self._opened.get(step)) is None and (at := self._offset(step)) is not None:
            opened = self._opened[step] = JsonPlace(self._text, at)
        return opened

    def _offset(self, step: str) -> int | None:
        passed = self._passed
        if (known := passed.get(step)) is not None:
            return known
        for name, at in self._rest:
            passed[name] = at
            if name == step:
                return at
        return None


def json_place(text: str) -> JsonPlace:
    """Return the place of a whole JSON text."""
    return JsonPlace(text, after_space(text, 0))


def find(place: Place | JsonPlace, loc: Sequence[str | int]) -> int:
    """Return the offset of the value at a place (or JSON Pointer), or of the deepest value on the way to it."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in loc.split("/")[1:]] if isinstance(loc, str) else loc
    for step in steps:
        known = place.child(str(step))
        if known is None:
            break
        place = known
    return place.at


def _children(text: str, at: int) -> Iterator[tuple[str, int]]:
    """Yield the key or index of each value that a container of sound JSON holds, and where it begins."""
    if text[at : at + 1] not in ("[", "{"):
        return
    at, index, more = at + 1, 0, True
    while more:
        found = _CHILD.match(text, at)
        assert found is not None, "it matches nothing, too"
        key, scalar = found["key"], found["scalar"]
        at = found.end() if scalar is None else found.start("scalar")
        if scalar is None and (begins := text[at : at + 1]) not in ("[", "{"):
            if begins and begins in "]}":
                return
            raise ValueError("not sound JSON")
        name = str(index) if key is None else json.loads(key) if "\\" in key else key[1:-1]
        yield name, at
        index += 1
        if scalar is not None:
            at, more = found.end(), found["more"] == ","
        else:
            comma = _COMMA.match(text, _end(text, at))
            at, more = (at, False) if comma is None else (comma.end(), True)


def _end(text: str, at: int) -> int:
    try:
        return _skipping.raw_decode(text, at)[1]
    except RecursionError as error:
        raise ValueError("not sound JSON") from error


def after_space(text: str, at: int) -> int:
    """Return where the next thing begins."""
    found = _SPACE.match(text, at)
    return found.end() if found else at
