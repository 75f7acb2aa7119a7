"""Text blocks of results, and the JSON that is in some of them."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

from weft.groups.rule import ResponseRule
from weft.groups.shaping.cutting import within, written
from weft.groups.shaping.places import ELLIPSIS, Places
from weft.ports import is_object

BLOCK: Final = 32
"""What each further block counts beside its text, so that not even empty ones come by the thousand."""

OPENED: Final = re.compile(r"\s*[\[{]")
LONG: Final = re.compile(r"[0-9]{19}")


def text_of(block: Any) -> str | None:
    """Return the text of a text block; None of any other."""
    text: object = block.get("text") if is_object(block) and block.get("type") == "text" else None
    return text if isinstance(text, str) else None


def parsed(text: str) -> Any:
    """Return the object or list that a text is the JSON of, with all digits of its integers; None when it is not."""
    if OPENED.match(text) is None:
        return None
    try:
        if LONG.search(text) is None:
            return orjson.loads(text)
        # orjson reads an integer of more than 64 bits as a float.
        return json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        return None


def _finite(text: str) -> float:
    number = float(text)
    if not number - number == 0:
        raise ValueError(text)
    return number


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are equal; those that are too deep to be compared are not."""
    try:
        return one is other or one == other
    except RecursionError:
        return False


def rounded(text: str, exact: Any) -> Any:
    """Return the JSON of a text as most programs read it: integers of more than 64 bits are floats."""
    try:
        return exact if LONG.search(text) is None else orjson.loads(text)
    except ValueError:
        return exact


def rewritten(block: dict[str, Any], before: Any, after: Any, *, most: int | None = None) -> dict[str, Any]:
    """Return a text block with another value; what is the same, and not too long, keeps the way it was written."""
    if (after is before or is_same(after, before)) and (most is None or weight(block["text"]) <= most):
        return block
    return {**block, "text": after if isinstance(after, str) else written(after).decode()}


def weight(text: str) -> int:
    """Return how many bytes a text has."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


class Texts:
    """Cuts one text block after the other, until there is no room for more; None is no limit."""

    __slots__ = ("_asked", "_left", "_places", "_rule", "_shown", "used")

    def __init__(self, rule: ResponseRule, *, room: int | None) -> None:
        self._rule = rule
        self._left = room
        self._asked = self._shown = 0
        self.used = 0
        self._places = Places()

    def of(self, block: dict[str, Any], before: Any, after: Any) -> dict[str, Any] | None:
        """Return a block that had one value, with as much of another as there is room for; None when there is none."""
        between = BLOCK if self._shown else 0
        left = None if self._left is None else self._left - self.used - between
        full = self._asked > self._shown
        self._asked += 1
        if left is not None and (full or left < (min(len(after), 1) if isinstance(after, str) else 2)):
            return None
        made, places = self._plain(after, left) if isinstance(after, str) else self._json(after, left)
        self._places.add(places)
        block = rewritten(block, before, made, most=left)
        self._shown += 1
        self.used += weight(block["text"]) + between
        return block

    @property
    def places(self) -> Places:
        """What was cut, and how many blocks there was no room for."""
        if self._shown < self._asked:
            self._places.note("", "texts", self._shown, self._asked, times=0)
        return self._places

    def _json(self, value: Any, left: int | None) -> tuple[Any, Places]:
        return within(value, items=self._rule.max_items, text=self._rule.max_text, size=left)

    def _plain(self, text: str, left: int | None) -> tuple[str, Places]:
        places, kept, most = Places(), text, self._rule.max_text
        if most is not None and len(kept) > most:
            kept = kept[: most - 1] + ELLIPSIS if most else ""
        if left is not None and weight(kept) > left:
            kept = _beginning(text if most is None else text[:most], left)
        if kept is not text:
            places.note("", "characters", len(kept), len(text))
        return kept, places


def _beginning(text: str, size: int) -> str:
    """Return the beginning of a text that has too many bytes."""
    end = ELLIPSIS if size > 3 else ""
    return text[:size].encode(errors="replace")[: size - len(end.encode())].decode(errors="ignore") + end
