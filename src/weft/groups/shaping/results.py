"""Shaping of results: the fields that a caller asked for, within limits, so that a model is not flooded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from weft.groups.rule import ResponseRule
from weft.groups.shaping.cutting import emptied, size_of, within
from weft.groups.shaping.places import Places
from weft.groups.shaping.selecting import SELECT, select_of, selected
from weft.groups.shaping.structured import shape_structured, value_in
from weft.groups.shaping.texts import Texts, parsed, text_of
from weft.ports import is_array, is_object

__all__ = ["CUT", "SELECT", "Shaped", "noted", "select_of", "shape", "shape_result"]

CUT: Final = "weft/cut"
"""Where the `_meta` of a result says what is missing in it."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """What is left of a value, and sentences for a model on what is missing and how to get it."""

    value: Any
    notes: list[str]


def shape(value: Any, *, select: Sequence[str] | None, rule: ResponseRule) -> Shaped:
    """Return the fields of a JSON value that were asked for, within the limits; the value itself is never changed.

    It never fails: what it is of was done.
    """
    if select is None and not is_limited(rule):
        return Shaped(value, [])
    try:
        found, missing = (value, []) if select is None else selected(value, select)
        found, places = within(found, items=rule.max_items, text=rule.max_text, size=rule.max_bytes)
    except Exception:
        return Shaped(*_whole(value, rule.max_bytes))
    return Shaped(found, [*missing, *_told(places, rule)])


def is_limited(rule: ResponseRule) -> bool:
    """Tell whether a rule limits results at all."""
    return rule.max_items is not None or rule.max_text is not None or rule.max_bytes is not None


def _told(places: Places, rule: ResponseRule) -> list[str]:
    ask = "Ask for less with a narrower call" + (" or with _select" if rule.select else "")
    return [*places.sentences, ask] if places else []


def _whole(value: Any, most: int | None) -> tuple[Any, list[str]]:
    """Return a value that could not be gone through: all of it, or nothing where that is too much."""
    if most is None or size_of(value) <= most:
        return value, ["the result is whole, since it is nested too deeply or is no JSON"]
    return emptied(value), [
        f"the result is left out: it has more than {most:,} bytes, and is nested too deeply or is no JSON"
    ]


def shape_result(result: dict[str, Any], *, select: Sequence[str] | None, rule: ResponseRule) -> dict[str, Any]:
    """Return an MCP result with what was asked for of its value, within the limits, and told what was cut.

    `max_bytes` is for structuredContent and all texts together; the text that is the same value again is not counted.
    Of a result that failed only the texts are cut, by `max_text`; images, links and the like stay. It never fails:
    what the result is of was done.
    """
    if select is None and not is_limited(rule):
        return result
    try:
        if result.get("isError") is True:
            return _texts(result, None, ResponseRule(max_text=rule.max_text, select=False))
        if result.get("structuredContent") is None:
            return _texts(result, select, rule)
        return _structured(result, select, rule)
    except Exception:
        return _plainly(result, rule)


def noted(result: dict[str, Any], notes: Sequence[str]) -> dict[str, Any]:
    """Return a result that says, in a last block and in its `_meta`, what is missing in it."""
    if not notes:
        return result
    meta: object = result.get("_meta")
    said = {"type": "text", "text": f"[{'. '.join(notes)}.]"}
    told = {**(meta if is_object(meta) else {}), CUT: list(notes)}
    return {**result, "content": [*_content(result), said], "_meta": told}


def _content(result: dict[str, Any]) -> list[Any]:
    return found if is_array(found := result.get("content")) else []


def _texts(result: dict[str, Any], select: Sequence[str] | None, rule: ResponseRule) -> dict[str, Any]:
    """Return a result whose texts are all that it says, shaped as the values that they are."""
    content = _content(result)
    texts = {at: text for at, block in enumerate(content) if (text := text_of(block)) is not None}
    values = {at: text if (told := parsed(text)) is None else told for at, text in texts.items()}
    chosen, missing = values, list[str]()
    if select is not None and values:
        every = list(values.values())
        found, missing = selected(every[0] if len(every) == 1 else every, select)
        chosen = dict(zip(values, [found] if len(every) == 1 else found, strict=True))
    cut = Texts(rule, room=rule.max_bytes)
    made = [cut.of(block, values[at], chosen[at]) if at in values else block for at, block in enumerate(content)]
    if all(one is block for one, block in zip(made, content, strict=True)) and not missing:
        return result
    return noted(
        {**result, "content": [block for block in made if block is not None]}, [*missing, *_told(cut.places, rule)]
    )


def _structured(result: dict[str, Any], select: Sequence[str] | None, rule: ResponseRule) -> dict[str, Any]:
    value = value_in(structured := result["structuredContent"])
    found = shape_structured(value, _content(result), select=select, rule=rule)
    anew = structured if found.inner is value.inner else value.around(found.inner)
    notes = [*found.missing, *_told(found.places, rule)]
    return noted({**result, "content": found.content, "structuredContent": anew}, notes)


def _plainly(result: dict[str, Any], rule: ResponseRule) -> dict[str, Any]:
    """Return a result that could not be gone through, without looking into it."""
    made, notes, room = dict(result), list[str](), rule.max_bytes
    structured: object = result.get("structuredContent")
    if result.get("isError") is True:
        room = None
    elif structured is not None:
        value = value_in(structured)
        inner, notes = _whole(value.inner, value.room(room))
        made["structuredContent"] = structured if inner is value.inner else value.around(inner)
        room = None if room is None else max(room - size_of(made["structuredContent"]), 0)
    cut = Texts(rule, room=room)
    blocks = [block if (text := text_of(block)) is None else cut.of(block, text, text) for block in _content(result)]
    made["content"] = [block for block in blocks if block is not None]
    return noted(made, [*notes, *_told(cut.places, rule)])
