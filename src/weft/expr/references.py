"""References: how `{{name.field}}` is written, and where such texts stand in a JSON value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, NoReturn

from weft.errors import ExpressionInvalid, Loc, shown
from weft.ports import Json, is_array, is_object

_EXPECTED: Final = (
    '{{name.field}}, {{name.list[0]}}, {{name["odd key"]}} or {{name ?? default}}; \\{{ stands for braces'
)
_SPACE: Final = re.compile(r"\s*+")
_HEAD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_STEP: Final = re.compile(
    r"""\s*+(?:\.\s*+(?P<name>\w[\w-]*+)
        |\[\s*+(?:(?P<index>-?(?:0|[1-9][0-9]{0,14}))|(?P<key>"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'))\s*+\])""",
    re.VERBOSE | re.DOTALL,
)
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,14}")
_REQUOTED: Final = re.compile(r"""\\.|\"""", re.DOTALL)


class Nothing(Enum):
    """The type of NOTHING: a reference without a default."""

    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING


@dataclass(frozen=True, slots=True)
class Reference:
    """One `{{..}}`: `text` is how it is written, `loc` the place of the text that it stands in."""

    head: str
    path: tuple[str | int, ...]
    default: Json | Nothing
    text: str
    loc: Loc


class ReferenceInvalid(ExpressionInvalid):
    """A reference that does not compile; `loc` is the place of its text in the value, `position` the offset there."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        value: str,
        expected: str,
        position: int,
        loc: Loc,
        suggestion: str | None = None,
    ) -> None:
        super().__init__(message, code=code, value=value, expected=expected, suggestion=suggestion, position=position)
        self.loc = loc


class Place(NamedTuple):
    """A part of a value and what it is in; a loc is made only where it is asked for, since values may be deep."""

    parent: Place | None
    key: Any
    value: Any

    @property
    def loc(self) -> Loc:
        keys: list[str | int] = []
        place = self
        while place.parent is not None:
            keys.append(place.key)
            place = place.parent
        return tuple(reversed(keys))


class Written(NamedTuple):
    """A reference, and the offset at which its name stands in the text."""

    reference: Reference
    position: int


def texts_in(value: Json) -> Iterator[Place]:
    """Yield the texts that may hold references, in order."""
    waiting = [Place(None, None, value)]
    while waiting:
        place = waiting.pop()
        held = place.value
        if isinstance(held, str):
            if "{{" in held:
                yield place
        elif is_object(held):
            waiting.extend(Place(place, key, one) for key, one in reversed(held.items()) if _may_hold(one))
        elif is_array(held):
            last = len(held) - 1
            waiting.extend(Place(place, last - at, one) for at, one in enumerate(reversed(held)) if _may_hold(one))


def _may_hold(value: Any) -> bool:
    return isinstance(value, str | dict | list)


def pieces_of(place: Place) -> list[str | Written]:
    """Cut a text into literal parts and references."""
    text: str = place.value
    pieces: list[str | Written] = []
    literal: list[str] = []
    start = 0
    while (at := text.find("{{", start)) >= 0:
        before = text[start:at]
        bare = before.rstrip("\\")
        slashes = len(before) - len(bare)
        literal += (bare, "\\" * (slashes // 2))
        if slashes % 2:
            literal.append("{{")
            start = at + 2
            continue
        if joined := "".join(literal):
            pieces.append(joined)
        literal.clear()
        written, start = _Reader(place, at).read()
        pieces.append(written)
    if joined := "".join((*literal, text[start:])):
        pieces.append(joined)
    return pieces


class _Reader:
    """Reads the reference that begins at an offset of a text."""

    def __init__(self, place: Place, start: int) -> None:
        self._place, self._start, self._at = place, start, start + 2
        self._text: str = place.value

    def read(self) -> tuple[Written, int]:
        """Return the reference and where it ends."""
        self._skip()
        head = _HEAD.match(self._text, self._at)
        if head is None:
            self._refuse("a name must stand here")
        self._at = head.end()
        path = self._path()
        default: Json | Nothing = NOTHING
        self._skip()
        if self._text.startswith("??", self._at):
            self._at += 2
            default = self._default()
            self._skip()
        if not self._text.startswith("}}", self._at):
            self._refuse("it is not closed" if self._at == len(self._text) else "this cannot stand here")
        end = self._at + 2
        written = self._text[self._start : end]
        return Written(Reference(head[0], path, default, written, self._place.loc), head.start()), end

    def _path(self) -> tuple[str | int, ...]:
        path: list[str | int] = []
        while (step := _STEP.match(self._text, self._at)) is not None:
            if (name := step["name"]) is not None:
                path.append(int(name) if _INDEX.fullmatch(name) else name)
            elif (index := step["index"]) is not None:
                path.append(int(index))
            else:
                path.append(self._key(step["key"], step.start("key")))
            self._at = step.end()
        return tuple(path)

    def _key(self, quoted: str, start: int) -> str:
        if quoted[0] == "'":
            inner = _REQUOTED.sub(lambda part: {"\\'": "'", '"': '\\"'}.get(part[0], part[0]), quoted[1:-1])
            quoted = f'"{inner}"'
        try:
            return _decoder.decode(quoted)
        except ValueError:
            self._at = start
            self._refuse("the key in brackets is not JSON text")

    def _default(self) -> Json:
        self._skip()
        try:
            value, self._at = _decoder.raw_decode(self._text, self._at)
        except RecursionError:
            self._refuse("the default is nested too deeply")
        except ValueError:
            self._refuse("the default must be a JSON value")
        return value

    def _skip(self) -> None:
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at

    def _refuse(self, reason: str) -> NoReturn:
        raise ReferenceInvalid(
            f"Invalid reference {shown(self._text[self._start :][:200])} at {self._at}: {reason}",
            code="ReferenceSyntax",
            value=self._text[self._start :][:200],
            expected=_EXPECTED,
            position=self._at,
            loc=self._place.loc,
        )


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(text)
    return number


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


_decoder: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
