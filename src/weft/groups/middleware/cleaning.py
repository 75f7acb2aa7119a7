"""One result without what is hidden: its values and texts, and the names in them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from time import perf_counter
from typing import Any, Final, cast

import orjson
from pydantic_core import PydanticSerializationError, to_jsonable_python

from weft.errors import ExecutionFailed
from weft.groups.middleware.hiding import PAGE_SAID, By, Hiding
from weft.ports import is_object
from weft.redaction import HIDDEN, SHORTEST, Known, redact

PATIENCE: Final = 0.1
"""Seconds that a pattern may look at one text, which others choose,"""
BUDGET: Final = 0.5
"""and all of them at all texts of a result."""

_PLAIN: Final = 8
"""A name of fewer letters is a word: it stays, though a secret is the same word."""
_FORMED: Final = 13
"""So many characters has what is secret by its form, at least, if it is one word."""

_NAME_SAID: Final = re.compile(r'"\s*:')


class Cleaning:
    """Hides in JSON values and texts, which are never changed themselves, what is hidden in any of `told`."""

    def __init__(self, hiding: Hiding, *told: Any) -> None:
        self._hiding = hiding
        self._left = BUDGET
        self._names: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._spelled: dict[str, Any] = {}
        self._counted = 0
        self._known = Known(self._said_elsewhere(list(told)))

    def value(self, value: Any, name: str | None = None) -> Any:
        """Return a JSON value, which may stand under a name.

        Raises:
            ExecutionFailed: it is not JSON, or nested too deeply.
        """
        try:
            return self._value(value, None if name is None else self._hiding.by(name, None))
        except RecursionError:
            raise ExecutionFailed("the result is nested too deeply", code="NotJson") from None

    def _said_elsewhere(self, told: Any) -> Iterator[str]:
        """Yield the texts that stand under names that are hidden: they are hidden wherever they are said again."""
        waiting: list[tuple[Any, By]] = [(told, None)]
        by_name = self._hiding.by
        while waiting:
            one, by = waiting.pop()
            if isinstance(one, str):
                if by is not None:
                    yield from _spellings(one)
                elif (spelled := self._json(one)) is not None:
                    waiting.append((spelled, None))
            elif is_object(one):
                waiting.extend((item, by_name(key, by)) for key, item in one.items())
            elif isinstance(one, list | tuple):
                waiting.extend((item, by) for item in cast("Sequence[Any]", one))
            elif isinstance(one, int | float):
                if by == "order" and not isinstance(one, bool):
                    yield from _spellings(str(one))
            elif one is not None:
                waiting.append((_as_json(one), by))

    def _json(self, text: str) -> Any:
        """Return the object or list that a text spells, or None."""
        if text[:1] not in ("{", "[") and text.lstrip()[:1] not in ("{", "["):
            return None
        if text not in self._spelled:
            try:
                self._spelled[text] = orjson.loads(text)
            except orjson.JSONDecodeError:
                self._spelled[text] = None
        return self._spelled[text]

    def _value(self, value: Any, by: By) -> Any:
        if isinstance(value, str):
            return HIDDEN if value and by is not None else self._text(value)
        if value is None or isinstance(value, bool):
            return HIDDEN if by == "order" and value is not None else value
        if isinstance(value, int | float):
            # A number is no secret by its name: there are many such as `max_tokens`.
            return HIDDEN if by == "order" or self._is_known_number(str(value)) else value
        if is_object(value):
            self._counted += len(value)
            made: dict[str, Any] = {}
            for name, item in value.items():
                made[_other_than(made, self._name(str(name)))] = self._value(item, self._hiding.by(name, by))
            return made
        if isinstance(value, list | tuple):
            return [self._value(item, by) for item in cast("Sequence[Any]", value)]
        return self._value(_as_json(value), by)

    def _text(self, text: str) -> str:
        """Return a text; one that is JSON stays JSON."""
        spelled = self._json(text)
        if spelled is None:
            return self._plain(text)
        before, self._counted = self._counted, 0
        made = self._value(spelled, None)
        counted, self._counted = self._counted, before
        if made == spelled and not _says_twice(text, counted):
            return text
        return orjson.dumps(made, option=orjson.OPT_INDENT_2 if "\n" in text else 0).decode()

    def _is_known_number(self, digits: str) -> bool:
        return digits in self._known or (bool(self._hiding.patterns) and self._fitted(digits) != digits)

    def _name(self, name: str) -> str:
        made = self._names.get(name)
        if made is None:
            word = name.isidentifier()
            if word and len(name) < _FORMED:
                hidden = self._known.hidden_in(name) if self._known and len(name) >= _PLAIN else name
                made = self._fitted(hidden)
            else:
                made = self._plain(name)
            self._names[name] = made
        return made

    def _plain(self, text: str) -> str:
        # A result says most of what it says twice: in its content, and as it is structured.
        made = self._texts.get(text)
        if made is None:
            made = self._texts[text] = self._fitted(self._without_secrets(text))
        return made

    def _without_secrets(self, text: str) -> str:
        if "token" in text.lower():
            parts = PAGE_SAID.split(text)
            made = "".join(part if index % 2 else redact(part, self._known) for index, part in enumerate(parts))
        else:
            made = redact(text, self._known)
        if self._hiding.said is not None and (":" in made or "=" in made):
            made = self._hiding.said.sub(rf"\1{HIDDEN}", made)
        return made

    def _fitted(self, text: str) -> str:
        """Return a text without what fits a pattern; nothing of it when that takes too long."""
        for pattern in self._hiding.patterns:
            if self._left <= 0:
                return HIDDEN
            began = perf_counter()
            try:
                text = pattern.sub(HIDDEN, text, timeout=min(PATIENCE, self._left))
            except TimeoutError:
                return HIDDEN
            finally:
                self._left -= perf_counter() - began
        return text


def _says_twice(text: str, names: int) -> bool:
    """Tell whether JSON has a name twice in an object, of which a reader takes one, and another perhaps the other.

    `names` is how many there are when each counts once.
    """
    # A text that has what ends a name in its middle makes for more, but nothing makes for fewer.
    if len(_NAME_SAID.findall(text)) == names:
        return False
    found = 0

    def count(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found += len(pairs)

    try:
        json.loads(text, object_pairs_hook=count)
    except (RecursionError, ValueError):
        return True
    return found != names


def _spellings(text: str) -> tuple[str, ...]:
    """Return a text as it is, and as it stands in JSON; none if it is a part of too many words."""
    if len(text) < SHORTEST:
        return ()
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return (text,)
    return text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]


def _other_than(taken: Collection[str], name: str) -> str:
    """Return a name that is not taken: two that are hidden look the same."""
    made, number = name, len(taken)
    while made in taken:
        number += 1
        made = f"{name} {number}"
    return made


def _as_json(value: Any) -> Any:
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError as error:
        raise ExecutionFailed(f"the result is not JSON: {error}", code="NotJson") from None
