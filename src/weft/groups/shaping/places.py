"""The places in a value where something was cut, and the sentences in which a model is told of them."""

from __future__ import annotations

from typing import Final

ELLIPSIS: Final = "…"
TOLD: Final = 10
"""How many places are told of one by one."""

LONGEST: Final = 40
"""How many characters of a field's name are told."""

FARTHEST: Final = 160


def short(name: str, most: int = LONGEST) -> str:
    """Return a name as it is told: of a long one only its beginning."""
    return name if len(name) <= most else name[: most - 1] + ELLIPSIS


def below(place: str, key: str) -> str:
    """Return the place of a field in another; from where that becomes too long to be told, all are one place."""
    if len(place) > FARTHEST:
        return place
    key = short(key)
    return f"{place}.{key}" if place else key


class Places:
    """Where values were cut, how often and by how much."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[int]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def note(self, place: str, what: str, kept: int, of: int, *, times: int = 1) -> None:
        """Remember that of so many items, characters, fields or the like only some were kept."""
        found = self._found.setdefault((place, what), [0, kept, of])
        found[0] += times
        found[1:] = max(found[1], kept), max(found[2], of)

    def add(self, others: Places) -> None:
        """Remember what others do."""
        for (place, what), (times, kept, of) in others._found.items():
            self.note(place, what, kept, of, times=times)

    @property
    def sentences(self) -> list[str]:
        """A sentence for each place, of very many for the first ones."""
        found = list(self._found.items())
        told = [_told(place, what, *numbers) for (place, what), numbers in found[:TOLD]]
        return [*told, f"{len(found) - TOLD:,} more places are cut"] if len(found) > TOLD else told


def _told(place: str, what: str, times: int, kept: int, of: int) -> str:
    before = f"{place}: " if place else ""
    if what == "levels":
        return f"{before}nothing is shown below {kept:,} levels"
    if times > 1:
        return f"{before}at most {kept:,} of up to {of:,} {what} shown, {times:,} times"
    return f"{before}{kept:,} of {of:,} {'' if place and what == 'items' else f'{what} '}shown"
