"""Interpolation: `{{name.field}}` anywhere in a JSON value, filled in one pass; what a value holds is not expanded."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

from weft.errors import ExecutionFailed, LimitExceeded, nearest, shown
from weft.expr.celnames import ConditionNames, may_be_variable, names_in_condition
from weft.expr.fastpath import MISSING, singular
from weft.expr.references import (
    NOTHING,
    Nothing,
    Place,
    Reference,
    ReferenceInvalid,
    Written,
    pieces_of,
    texts_in,
)
from weft.expr.templates import scalar_text
from weft.ports import Json, is_array, is_object

__all__ = [
    "MAX_BYTES",
    "NOTHING",
    "ConditionNames",
    "Interpolated",
    "Nothing",
    "Reference",
    "ReferenceInvalid",
    "compile_interpolation",
    "may_be_variable",
    "names_in_condition",
    "references_in",
]

MAX_BYTES: Final = 1024 * 1024
"""How long a text may become that references are joined into."""
MOST_NAMED: Final = 20
"""How many names an error lists."""

_Fill: TypeAlias = Callable[[Mapping[str, Any]], Any]
_Slot: TypeAlias = tuple[int, Any, _Fill]
"""The number of a copy, the key in it, and what goes there."""
# Heads that no step gives; errors speak of them in other words.
_GIVEN: Final = frozenset({"input", "context", "item", "index", "output", "parameters"})
_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class Interpolated:
    """A compiled value; what `render` returns shares with it everything that no reference stands in."""

    value: Json
    references: tuple[Reference, ...]
    render: Callable[[Mapping[str, Any]], Any] = field(repr=False, compare=False)

    @property
    def constant(self) -> bool:
        """Whether there is no reference, so that `render` always gives the same object."""
        return not self.references


def references_in(value: Json) -> tuple[Reference, ...]:
    """Return the references of a value in the order in which they are written; what they name is not looked at.

    Raises:
        ReferenceInvalid: `{{` with anything but a reference after it.
    """
    pieces = (piece for place in texts_in(value) for piece in pieces_of(place))
    return tuple(piece.reference for piece in pieces if isinstance(piece, Written))


def compile_interpolation(
    value: Json, heads: Mapping[str, str | None], *, close: Callable[[str, Iterable[str]], str | None] = nearest
) -> Interpolated:
    """Return a value whose references start with one of `heads`: names, with the output key of the step they name.

    `close` finds what a name that is none of them most likely meant.

    Raises:
        ReferenceInvalid: a reference that is malformed, or that starts with another name.
    """
    copies = _Copies()
    slots: list[_Slot] = []
    references: list[Reference] = []
    render: _Fill = lambda scope: value  # noqa: E731  (the other renderers are functions too)
    for place in texts_in(value):
        pieces = pieces_of(place)
        for written in pieces:
            if isinstance(written, Written):
                _check_head(written, heads, close)
                references.append(written.reference)
        if place.parent is None:
            render = _filler(pieces, heads)
        else:
            slots.append((copies.number(place.parent), place.key, _filler(pieces, heads)))
    if slots:
        render = _renderer(copies.made, slots)
    if not references:
        fixed = render({})
        return Interpolated(value, (), lambda scope: fixed)
    return Interpolated(value, tuple(references), render)


def _check_head(
    written: Written, heads: Mapping[str, str | None], close: Callable[[str, Iterable[str]], str | None]
) -> None:
    head = written.reference.head
    if head not in heads:
        raise ReferenceInvalid(
            f"{_brief(written.reference.text)} names {shown(head)}, and nothing here is called that",
            code="UnknownReference",
            value=head,
            expected=f"one of {_listed(heads)}" if heads else "no references here",
            suggestion=close(head, heads),
            position=written.position,
            loc=written.reference.loc,
        )


# -- filling ---------------------------------------------------------------------------------------------------------


class _Copies:
    """The containers on the way to references, outer ones first, each with the number of the one that it is in."""

    def __init__(self) -> None:
        self.made: list[tuple[Place, int]] = []
        self._numbers: dict[int, int] = {}

    def number(self, place: Place) -> int:
        """Return the number of a container, which it is given now unless it has one."""
        around: list[Place] = []
        at: Place | None = place
        while at is not None and id(at) not in self._numbers:
            around.append(at)
            at = at.parent
        for one in reversed(around):
            self._numbers[id(one)] = len(self.made)
            self.made.append((one, -1 if one.parent is None else self._numbers[id(one.parent)]))
        return self._numbers[id(place)]


def _renderer(copied: list[tuple[Place, int]], slots: list[_Slot]) -> _Fill:
    outermost = copied[0][0].value
    inner = [(place.value, number, place.key) for place, number in copied[1:]]

    def render(scope: Mapping[str, Any]) -> Any:
        whole = outermost.copy()
        copies = [whole]
        for container, number, key in inner:
            copies[number][key] = copy = container.copy()
            copies.append(copy)
        for number, key, fill in slots:
            copies[number][key] = fill(scope)
        return whole

    return render


def _filler(pieces: list[str | Written], heads: Mapping[str, str | None]) -> _Fill:
    """Return the function that gives what a text stands for: the value of its one reference, or a text."""
    if not any(isinstance(piece, Written) for piece in pieces):
        fixed = "".join(piece for piece in pieces if isinstance(piece, str))
        return lambda scope: fixed
    parts = [
        (piece, None) if isinstance(piece, str) else (piece.reference.text, _resolver(piece.reference, heads))
        for piece in pieces
    ]
    if len(parts) == 1 and (whole := parts[0][1]) is not None:
        return whole

    def fill(scope: Mapping[str, Any]) -> str:
        out: list[str] = []
        length = 0
        for text, resolve in parts:
            if resolve is not None:
                value = resolve(scope)
                text = value if isinstance(value, str) else _text(text, value)  # noqa: PLW2901
            length += len(text)
            # Checked before joining: a short text can name a large value thousands of times.
            if length > MAX_BYTES:
                raise _too_long()
            out.append(text)
        done = "".join(out)
        if not done.isascii() and len(done.encode(errors="surrogatepass")) > MAX_BYTES:
            raise _too_long()
        return done

    return fill


def _text(reference: str, value: Any) -> str:
    text = scalar_text(value, lambda: _brief(reference))
    if text is not None:
        return text
    try:
        return _compact(value)
    except RecursionError:
        raise ExecutionFailed(f"{_brief(reference)} is nested too deeply to become text") from None
    except (TypeError, ValueError):
        raise ExecutionFailed(f"{_brief(reference)} holds what JSON cannot") from None


def _too_long() -> LimitExceeded:
    return LimitExceeded("InterpolationSize", MAX_BYTES, "a text with its references filled in is longer than 1 MiB")


# -- finding ---------------------------------------------------------------------------------------------------------


def _resolver(reference: Reference, heads: Mapping[str, str | None]) -> _Fill:
    head, path, default = reference.head, reference.path, reference.default
    find = _finder(path)
    key = heads[head] if path and heads[head] == path[0] else None
    inside = _finder(path[1:])

    def resolve(scope: Mapping[str, Any]) -> Any:
        value = scope.get(head, MISSING)
        # A field of the output comes first; the output key stands for the whole output only where there is none.
        whole = key is not None and not (isinstance(value, dict) and key in value)
        found = inside(value) if whole else find(value)
        if found is not MISSING:
            return found
        if default is not NOTHING:
            return default
        raise _unresolved(reference, value, skipped=int(whole))

    return resolve


def _finder(path: tuple[str | int, ...]) -> Callable[[Any], Any]:
    if all(isinstance(step, str) for step in path):
        return singular(path, MISSING)

    def find(value: Any) -> Any:
        for step in path:
            value = _below(value, step)
        return value

    return find


def _below(value: Any, step: str | int) -> Any:
    """Return what is one step below a value: a number is an index in a list, and a key in an object."""
    if is_object(value):
        return value.get(str(step), MISSING)
    if is_array(value) and isinstance(step, int) and -len(value) <= step < len(value):
        return value[step]
    return MISSING


def _unresolved(reference: Reference, value: Any, *, skipped: int) -> ExecutionFailed:
    """Return the error that says how far a reference got, and what was there."""
    told = f"{_brief(reference.text)} has no value"
    if value is MISSING:
        nothing = "is not there" if reference.head in _GIVEN else "gave nothing"
        return ExecutionFailed(f"{told}: {shown(reference.head)} {nothing}", code="UnresolvedReference")
    done = skipped
    while (below := _below(value, reference.path[done])) is not MISSING:
        value, done = below, done + 1
    so_far = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in reference.path[:done])
    verb = "is" if so_far or reference.head in _GIVEN else "gave"
    close = nearest(reference.path[done], map(str, value)) if is_object(value) else None
    hint = None if close is None else f"did you mean {close!r}?"
    message = f"{told}: {shown(reference.head + so_far)} {verb} {_kind(value)}"
    return ExecutionFailed(message, code="UnresolvedReference", hint=hint)


def _kind(value: Any) -> str:
    if is_object(value):
        return f"an object with {_listed(value)}" if value else "an empty object"
    if is_array(value):
        return f"a list of {len(value)}" if value else "an empty list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    return "a text" if isinstance(value, str) else "a number"


def _listed(names: Collection[str]) -> str:
    first = [str(name) for name in islice(names, MOST_NAMED)]
    told = ", ".join(name if name.isprintable() and len(name) <= 40 else shown(name[:40]) for name in first)
    return told if len(names) <= MOST_NAMED else f"{told} and {len(names) - MOST_NAMED} more"


def _brief(text: str) -> str:
    """Return a reference as an error may show it: as it is written, if that is not too long."""
    return text if len(text) <= 80 and text.isprintable() else shown(text)
