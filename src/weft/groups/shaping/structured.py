"""Results that have a value: what is left of it, of the text that tells it again, and of the texts for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from weft.groups.rule import ResponseRule
from weft.groups.shaping.cutting import size_of, within
from weft.groups.shaping.places import Places
from weft.groups.shaping.selecting import Selection, selected
from weft.groups.shaping.texts import Texts, is_same, parsed, rewritten, rounded, text_of
from weft.ports import is_array, is_object

AROUND: Final = len('{"result":}')


@dataclass(frozen=True, slots=True)
class Value:
    """What a result is of; MCP wants an object, so that another value is wrapped into one."""

    inner: Any
    wrapped: bool

    def around(self, inner: Any) -> Any:
        """Return another value as this one is told."""
        return {"result": inner} if self.wrapped else inner

    def room(self, most: int | None) -> int | None:
        """Return how many bytes are left for the value where there are so many for all; None is no limit."""
        return None if most is None else max(most - (AROUND if self.wrapped else 0), 0)


def value_in(structured: Any) -> Value:
    """Return the value that a structuredContent tells."""
    if is_object(structured) and structured.keys() == {"result"}:
        return Value(structured["result"], wrapped=True)
    return Value(structured, wrapped=False)


@dataclass(frozen=True, slots=True)
class Shares:
    """What is left of the two parts of a result, which names were not there, and what was cut."""

    inner: Any
    content: list[Any]
    missing: list[str]
    places: Places


def shape_structured(value: Value, content: list[Any], *, select: Sequence[str] | None, rule: ResponseRule) -> Shares:
    """Return what was asked for of a value and of the texts beside it, both together within the limits."""
    select = _inside(select) if value.wrapped else select
    chosen, missing = (value.inner, []) if select is None else selected(value.inner, select)
    most = value.room(rule.max_bytes)
    inner, places = within(chosen, items=rule.max_items, text=rule.max_text, size=most)
    # Where it is too much for both, the texts for people get what the value leaves, and at least the half.
    others = Texts(rule, room=None if most is None else max(most // 2, most - size_of(inner)))
    made: list[Any] = list(content)
    first: tuple[int, Told] | None = None
    for at, block in enumerate(content):
        text = text_of(block)
        if text is None:
            continue
        told = _told(text, value)
        if told.again and first is None:
            first = at, told
        else:
            made[at] = others.of(block, told.value, told.around(_asked(told, select)))
    if most is not None and size_of(inner) > most - others.used:
        most -= others.used
        inner, places = within(chosen, items=rule.max_items, text=rule.max_text, size=most)
    if first is not None:
        at, told = first
        asked = _asked(told, select)
        # Its integers may have digits that those of the value have lost.
        exact = (
            inner if is_same(asked, chosen) else within(asked, items=rule.max_items, text=rule.max_text, size=most)[0]
        )
        made[at] = rewritten(content[at], told.value, told.around(exact), most=rule.max_bytes)
    places.add(others.places)
    return Shares(inner, [block for block in made if block is not None], missing, places)


def _inside(select: Sequence[str] | None) -> Sequence[str] | None:
    """Return names that may begin outside, with the `result` that wraps a value, as those within it."""
    if select is None or "result" in select:
        return None
    return [name.removeprefix("result.") for name in select]


@dataclass(frozen=True, slots=True)
class Told:
    """What a text says: JSON or just a text, and whether that is the value of its result again."""

    value: Any
    again: bool = False
    wrapped: bool = False

    @property
    def inner(self) -> Any:
        """The value without what is around it."""
        return self.value["result"] if self.wrapped else self.value

    def around(self, inner: Any) -> Any:
        """Return another value as this one is told."""
        return {"result": inner} if self.wrapped else inner


def _told(text: str, value: Value) -> Told:
    if text == value.inner:
        return Told(text, again=True)
    found = parsed(text)
    if not is_object(found) and not is_array(found):
        return Told(text)
    for one in (found, rounded(text, found)):
        if is_same(one, value.inner):
            return Told(found, again=True)
        if value.wrapped and is_same(one, value.around(value.inner)):
            return Told(found, again=True, wrapped=True)
    return Told(found)


def _asked(told: Told, select: Sequence[str] | None) -> Any:
    """Return what was asked for of a text that is the value again; any other is for people, and stays."""
    return Selection(select).of(told.inner) if told.again and select is not None else told.inner
