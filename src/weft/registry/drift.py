"""What changed between two tools, and for whom it matters: breaking, risky, safe or cosmetic, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from weft.errors import Loc, json_pointer, shown
from weft.expr.jcs import canonical
from weft.ports import is_array, is_object
from weft.registry.hidden import hidden_characters
from weft.registry.schemadrift import Direction, Effect, SchemaChange, schema_changes

Impact = Literal["breaking", "risky", "safe", "cosmetic"]
IMPACTS: tuple[Impact, ...] = ("breaking", "risky", "safe", "cosmetic")
_TEXTS = ("title", "description")
_IMPACT: Mapping[tuple[Direction, Effect], Impact] = {
    ("input", "narrower"): "breaking",
    ("input", "wider"): "safe",
    ("output", "narrower"): "safe",
    ("output", "wider"): "breaking",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: how much it matters, where it is, what it is."""

    impact: Impact
    pointer: str
    what: str
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        return f"{self.impact}: {self.pointer or '/'}: {self.what}"

    def to_json(self) -> dict[str, Any]:
        """Return it as `weft diff --json` prints it."""
        told = {"impact": self.impact, "pointer": self.pointer, "what": self.what}
        return told | {
            key: value for key, value in (("before", self.before), ("after", self.after)) if value is not None
        }


def worst(changes: Iterable[Change]) -> Impact | None:
    """Return how much changes matter together, or None when there are none."""
    found = {change.impact for change in changes}
    return next((impact for impact in IMPACTS if impact in found), None)


def tool_changes(before: Mapping[str, Any], after: Mapping[str, Any], *, at: Loc = ()) -> tuple[Change, ...]:
    """Return every difference between two tool objects as servers list them, the most serious first.

    What callers give (inputSchema) may become wider, what they get (outputSchema) narrower. Descriptions and
    annotations steer a model, so that a change in them is risky, unless only spaces, case or punctuation differ.
    """
    found: list[Change] = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old is None and new is None and (key in before) != (key in after):
            # They mean the same, and are not the same tool: what is hashed is what was written.
            found.append(_change("cosmetic", (*at, key), f"{key!r} is null, or left out", old, new))
        elif key in ("inputSchema", "outputSchema"):
            found += _of_schema("input" if key == "inputSchema" else "output", old, new, (*at, key))
        elif key == "schema":
            found += _of_shared(old, new, (*at, key))
        elif not _same(old, new):
            found.append(_of_field(key, old, new, (*at, key)))
    return tuple(sorted(found, key=lambda change: (IMPACTS.index(change.impact), change.pointer, change.what)))


def list_changes(
    before: Mapping[str, Mapping[str, Any]],
    after: Mapping[str, Mapping[str, Any]],
    *,
    at: Loc = (),
    noun: str = "tool",
) -> tuple[Change, ...]:
    """Return every difference between two sets of tools by name; a tool that is gone breaks its callers."""
    found: list[Change] = []
    for name in sorted({*before, *after}):
        if name not in after:
            found.append(Change("breaking", json_pointer((*at, name)), f"the {noun} is gone"))
        elif name not in before:
            found.append(Change("safe", json_pointer((*at, name)), f"a new {noun}"))
        else:
            found += tool_changes(before[name], after[name], at=(*at, name))
    return tuple(sorted(found, key=lambda change: IMPACTS.index(change.impact)))


def text_impact(before: Any, after: Any) -> Impact:
    """Return how much a changed text matters: words and hidden characters may steer a model, spaces do not."""
    old, new = (value if isinstance(value, str) else "" for value in (before, after))
    if hidden_characters(new) and hidden_characters(new) != hidden_characters(old):
        return "risky"
    return "cosmetic" if _words(old) == _words(new) else "risky"


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s.,;:!?'\"()-]", text.casefold())


def _of_field(key: str, old: Any, new: Any, loc: Loc) -> Change:
    if key in _TEXTS:
        impact = text_impact(old, new)
        return _change(impact, loc, _told(f"the {key}", old, new), old, new)
    if key == "version":
        return _change("safe", loc, _told("the version", old, new), old, new)
    if key == "discriminator":
        # Callers of a group give it by its name.
        return _change("breaking", loc, _told("the discriminator", old, new), old, new)
    if key == "icons":
        return _change("cosmetic", loc, _told("the icons", old, new), old, new)
    if key == "annotations":
        hints = {*(old if is_object(old) else {}), *(new if is_object(new) else {})}
        changed = sorted(hint for hint in hints if _got(old, hint) != _got(new, hint))
        told = ", ".join(f"{hint} {shown(_got(old, hint))} -> {shown(_got(new, hint))}" for hint in changed)
        return _change("risky", loc, f"the annotations changed{f': {told}' if told else ''}", old, new)
    return _change("risky", loc, _told(f"{key!r}", old, new), old, new)


def _of_schema(direction: Direction, old: Any, new: Any, loc: Loc) -> Iterator[Change]:
    if _same(old, new):
        return
    changes = schema_changes(_as_schema(old), _as_schema(new))
    for found in changes:
        yield _change(_impact(direction, found), (*loc, *found.loc), found.what, found.before, found.after)
    if not changes:
        empty = _same(_as_schema(old), _as_schema(new))
        told = "an empty schema is written or left out" if empty else "the schema changed where it means nothing"
        yield _change("cosmetic" if empty else "risky", loc, told, old, new)


def _of_shared(old: Any, new: Any, loc: Loc) -> Iterator[Change]:
    """Yield the changes of a schema that others refer to: it may stand for what is given and for what is got."""
    either = zip(_of_schema("input", old, new, loc), _of_schema("output", old, new, loc), strict=True)
    yield from (min(pair, key=lambda change: IMPACTS.index(change.impact)) for pair in either)


def _impact(direction: Direction, found: SchemaChange) -> Impact:
    if found.effect == "text":
        return text_impact(found.before, found.after)
    if found.effect in ("risky", "safe", "cosmetic"):
        return found.effect
    return _IMPACT.get((direction, found.effect), "breaking")


def _change(impact: Impact, loc: Loc, what: str, old: Any, new: Any) -> Change:
    return Change(impact, json_pointer(loc), what, old, new)


def _told(what: str, old: Any, new: Any) -> str:
    if old is None:
        return f"{what} was added: {shown(new)}"
    return f"{what} was removed" if new is None else f"{what} changed: {shown(old)} -> {shown(new)}"


def _as_schema(value: Any) -> Any:
    return value if is_object(value) or isinstance(value, bool) else {} if value is None else {"const": value}


def _got(value: Any, key: str) -> Any:
    return value.get(key) if is_object(value) else None


def _same(old: Any, new: Any) -> bool:
    if old is new:
        return True
    if is_object(old) or is_array(old):
        return type(old) is type(new) and canonical(old) == canonical(new)
    return canonical(old) == canonical(new)
