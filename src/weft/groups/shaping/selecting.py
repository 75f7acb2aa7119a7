"""`_select`: the fields of a result that a model asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from weft.errors import ExecutionFailed, nearest, shown
from weft.groups.shaping.places import short
from weft.ports import Schema, is_array, is_object

SELECTED: Final = "_select"
"""The argument by which callers say which fields of a result they want."""
MOST: Final = 100
"""How many names a caller may send: each is looked for, on the event loop."""

LONGEST: Final = 200
DEEPEST: Final = 16
SELECT: Final[Schema] = {
    "type": "array",
    "items": {"type": "string", "minLength": 1},
    "maxItems": MOST,
    "description": 'Only these fields of the result, dotted: ["id", "owner.login", "items.name"].',
}
"""The field by which a caller says what it wants of the result."""

LOOKED_AT: Final = 50
"""How many objects are looked at, to tell which fields there are."""

COMPARED: Final = 1000
"""How many fields are looked at for the one that was meant."""

TOLD: Final = 10
"""How many names are told of one by one; of the first ones also what was meant."""

EXPLAINED: Final = 5
LISTED: Final = 30
WIDEST: Final = 120
"""How many characters the list of the fields that there are has at most."""

NAMED: Final = 50
"""How many characters of a name are told."""


def select_of(arguments: Mapping[str, Any]) -> tuple[tuple[str, ...] | None, dict[str, Any]]:
    """Return the fields that a caller asks for, None for all, and the arguments without them.

    Raises:
        ExecutionFailed: it is no list of names.
    """
    if SELECTED not in arguments:
        return None, arguments if is_object(arguments) else dict(arguments)
    given: object = arguments[SELECTED]
    rest = {name: value for name, value in arguments.items() if name != SELECTED}
    if given is None:
        return None, rest
    names = [given] if isinstance(given, str) else given
    if not is_array(names):
        raise _wrong(SELECTED, given)
    if len(names) > MOST:
        raise _wrong(SELECTED, names[:8], f"at most {MOST} names", f"has {len(names):,} names")
    for index, name in enumerate(names):
        place = f"{SELECTED}[{index}]" if is_array(given) else SELECTED
        if not isinstance(name, str) or not name:
            raise _wrong(place, name)
        if len(name) > LONGEST:
            raise _wrong(place, name, f"at most {LONGEST} characters", f"has {len(name):,} characters")
        if name.count(".") >= DEEPEST:
            raise _wrong(place, name, f"at most {DEEPEST} parts", f"has {name.count('.') + 1:,} parts")
    return tuple(dict.fromkeys(names)) or None, rest


def _wrong(field: str, sent: object, expected: str | None = None, has: str | None = None) -> ExecutionFailed:
    expected = expected or 'a list of dotted field names such as ["id", "owner.login"]'
    error = ExecutionFailed(f"{field} {has or f'is {shown(sent)}'}, expected {expected}", code="InvalidArguments")
    error.origin = "caller"
    error.add(problems=[{"field": field, "sent": shown(sent), "expected": expected}])
    return error


class Selection:
    """Fields of one level, each with those asked for below it."""

    __slots__ = ("below", "met", "whole")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.below: dict[str, Selection] = {}
        self.whole = False
        """Whether all of it was asked for, whatever else was."""
        self.met = False
        """Whether there was such a field."""
        for name in names:
            level = self
            for part in name.split("."):
                level = level.below.setdefault(part, Selection())
            level.whole = True

    def of(self, value: Any) -> Any:
        """Return what was asked for of a value: objects lose the fields that are not named, nothing else changes."""
        if is_object(value):
            kept: dict[str, Any] = {}
            for key, inner in value.items():
                wanted = self.below.get(key) or (self._deep(key) if "." in key else None)
                if wanted is not None:
                    wanted.met = True
                    kept[key] = inner if wanted.whole else wanted.of(inner)
            return kept
        if is_array(value):
            items: list[Any] = []
            for inner in value:
                # No comprehension: that is one more frame for each level of a deep value.
                items.append(self.of(inner) if is_object(inner) or is_array(inner) else inner)
            return items
        return value

    def _deep(self, key: str) -> Selection | None:
        """Return what is asked for of a field with dots in its own name."""
        level: Selection | None = self
        for part in key.split("."):
            level = None if level is None else level.below.get(part)
        return level

    def unmet(self, before: str = "") -> list[str]:
        """Return the names that no field of the value has, without those below them."""
        found: list[str] = []
        for part, inner in self.below.items():
            name = f"{before}{part}"
            if not inner.met and not _has_met(inner):
                found.append(name)
            elif not inner.whole:
                found += inner.unmet(f"{name}.")
        return found


def _has_met(selection: Selection) -> bool:
    return any(one.met or _has_met(one) for one in selection.below.values())


def selected(value: Any, names: Sequence[str]) -> tuple[Any, list[str]]:
    """Return what names ask for of a value, and sentences on those that it does not have."""
    selection = Selection(names)
    found = selection.of(value)
    unmet = selection.unmet()
    return found, _missing(value, unmet) if unmet else []


def _missing(value: Any, names: Sequence[str]) -> list[str]:
    """Return what to tell of names that were not met: nothing where nothing was there that could have had them."""
    notes: list[str] = []
    levels: dict[str, Level] = {}
    more = 0
    for name in names:
        above, _, last = name.rpartition(".")
        known = above in levels
        level = levels[above] if known else levels.setdefault(above, _level(value, above))
        if not level.fields and not level.plain:
            continue
        if len(notes) == TOLD:
            more += 1
            continue
        told = f"{SELECTED}: there is no '{short(name, NAMED)}'"
        place = f"'{short(above, NAMED)}'" if above else "the result"
        if not level.fields:
            told += f", {place} has no fields"
        elif len(notes) < EXPLAINED:
            told += _meant(above, last, level.fields) + ("" if known else f"{place} has {_listed(level)}")
        notes.append(told.rstrip("; "))
    return [*notes, f"{SELECTED}: {more:,} more names are not there"] if more else notes


class Level(NamedTuple):
    """What is at a place of a value: the fields of its objects, and whether anything is there that has none."""

    fields: list[str]
    plain: bool


def _level(value: Any, above: str) -> Level:
    values = [value]
    for part in above.split(".") if above else ():
        values = [one[part] for one in _objects(values) if part in one]
    keys = islice((key for one in _objects(values) for key in one), LOOKED_AT * COMPARED)
    plain = any(one is not None and not is_array(one) and not is_object(one) for one in values)
    return Level(list(dict.fromkeys(keys)), plain)


def _meant(above: str, last: str, fields: Sequence[str]) -> str:
    close = nearest(last, fields[:COMPARED])
    return f"; did you mean '{short(f'{above}.{close}' if above else close, NAMED)}'? " if close else "; "


def _listed(level: Level) -> str:
    told: list[str] = []
    room = WIDEST
    for field in islice(map(short, level.fields), LISTED):
        room -= len(field) + 2
        if room < 0:
            break
        told.append(field)
    more = len(level.fields) - len(told)
    return ", ".join(told) + (f" and {more:,} more" if more else "")


def _objects(values: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the objects among values and in the lists among them, the first ones."""
    found: list[dict[str, Any]] = []
    for value in islice(values, LOOKED_AT):
        if is_object(value):
            found.append(value)
        elif is_array(value):
            found += _objects(value)
        if len(found) >= LOOKED_AT:
            break
    return found
