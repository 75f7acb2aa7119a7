"""What paths do with values: prepared functions for the simple form, counted ones for every other.

Whatever takes a `Visit` charges it for what it looks at, so that no path works longer than its budget.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeAlias

import regex
from iregexp_check import check as is_iregexp

from weft.errors import LimitExceeded
from weft.ports import Json

MAX_VISITED = 50_000
MAX_REGEX_SECONDS = 0.05
MAX_REGEX = 1024
MAX_REGEX_GROUPS = 50
MAX_REGEX_PARTS = 10_000


class Missing(Enum):
    """The type of MISSING: there is nothing at that path, not even null."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING

Segment: TypeAlias = str | int | None
"""A name, an index, or None for the wildcard."""
Found: TypeAlias = "Json | Missing"
Find: TypeAlias = Callable[[Any], Any]


def singular(steps: tuple[Segment, ...], absent: object) -> Find:
    """Return the function that gives the one value below names and indexes, or `absent`."""
    names = tuple(step for step in steps if isinstance(step, str))
    if len(names) < len(steps):
        return _mixed(steps, absent)
    match names:
        case ():
            return lambda value: value
        case (name,):
            return _one_name(name, absent)
        case (first, last):
            return _two_names(first, last, absent)
        case _:
            return _names(names, absent)


def _one_name(name: str, absent: object) -> Find:
    def find(value: Found) -> object:
        return value.get(name, absent) if isinstance(value, dict) else absent

    return find


def _two_names(first: str, last: str, absent: object) -> Find:
    def find(value: Found) -> object:
        if isinstance(value, dict):
            value = value.get(first)
            if isinstance(value, dict):
                return value.get(last, absent)
        return absent

    return find


def _names(names: tuple[str, ...], absent: object) -> Find:
    *before, last = names

    def find(value: Found) -> object:
        for name in before:
            if not isinstance(value, dict):
                return absent
            value = value.get(name)
        return value.get(last, absent) if isinstance(value, dict) else absent

    return find


def _mixed(steps: tuple[Segment, ...], absent: object) -> Find:
    def find(value: Found) -> object:
        for step in steps:
            if isinstance(step, int):
                if not isinstance(value, list) or not -len(value) <= step < len(value):
                    return absent
                value = value[step]
            elif step is not None and isinstance(value, dict) and step in value:
                value = value[step]
            else:
                return absent
        return value

    return find


def many(steps: tuple[Segment, ...]) -> Find:
    """Return the function that lists every value below steps of which at least one is a wildcard.

    It needs no budget: such a path visits no part of a value twice.
    """
    cuts = [-1, *(at for at, step in enumerate(steps) if step is None), len(steps)]
    parts = [steps[start + 1 : end] for start, end in itertools.pairwise(cuts)]
    head, *between = [singular(part, MISSING) for part in parts[:-1]]
    each = _each(parts[-1])

    def find(value: Found) -> list[Any]:
        rows = children(head(value))
        for step in between:
            rows = [child for row in rows for child in children(step(row))]
        return each(rows)

    return find


def _each(steps: tuple[Segment, ...]) -> Callable[[Sequence[Any]], list[Any]]:
    match steps:
        case ():
            return list
        case (str(name),):
            return lambda rows: [row[name] for row in rows if isinstance(row, dict) and name in row]
        case _:
            get = singular(steps, MISSING)
            return lambda rows: [found for row in rows if (found := get(row)) is not MISSING]


def children(value: Found) -> Sequence[Json]:
    """Return the elements of an array or the values of an object; of anything else, nothing."""
    if isinstance(value, list):
        return value
    return list(value.values()) if isinstance(value, dict) else ()


class Visit:
    """What is left to one evaluation of a query."""

    __slots__ = ("left", "root", "seconds")

    def __init__(self, root: Json) -> None:
        self.root = root
        self.left = MAX_VISITED
        self.seconds = MAX_REGEX_SECONDS

    def charge(self, nodes: int) -> None:
        """Count visited nodes.

        Raises:
            LimitExceeded: the budget is spent.
        """
        self.left -= nodes
        if self.left < 0:
            raise LimitExceeded("NodeBudget", MAX_VISITED, "the path visits too many values")


Select: TypeAlias = Callable[[Any, Visit], Sequence[Any]]


def at_most_one(find: Find) -> Select:
    """Return the selector of a name or an index."""

    def select(value: Json, visit: Visit) -> Sequence[Json]:
        visit.charge(1)
        found = find(value)
        return () if found is MISSING else (found,)

    return select


def sliced(part: slice) -> Select:
    """Return the selector of a slice; a step of 0 selects nothing."""

    def select(value: Json, visit: Visit) -> Sequence[Json]:
        found = value[part] if isinstance(value, list) and part.step != 0 else ()
        visit.charge(1 + len(found))
        return found

    return select


def wildcard(value: Json, visit: Visit) -> Sequence[Json]:
    """Select all children."""
    found = children(value)
    visit.charge(len(found) or 1)
    return found


def containers(values: list[Json], visit: Visit) -> list[Json]:
    """Return the arrays and objects among the values and below them, parents first, without recursion."""
    found: list[Json] = []
    for value in values:
        waiting = [value]
        while waiting:
            node = waiting.pop()
            if isinstance(node, (dict, list)):
                below = children(node)
                # Passing over a child is cheaper than visiting it, yet not free.
                visit.charge(1 + len(below) // 4)
                found.append(node)
                waiting += [child for child in reversed(below) if isinstance(child, (dict, list))]
    return found


def length(value: Found) -> int | Missing:
    """Count characters, elements or members."""
    return len(value) if isinstance(value, (str, list, dict)) else MISSING


def equal(left: Found, right: Found, visit: Visit) -> bool:
    """Compare as JSON does: `1` is `1.0` but never `true`, at any depth."""
    if not isinstance(left, (dict, list)):
        return _same(left, right, visit)
    waiting: list[tuple[Found, Found]] = [(left, right)]
    while waiting:
        left, right = waiting.pop()
        if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            visit.charge(len(left))
            waiting += zip(left, right, strict=True)
        elif isinstance(left, dict) and isinstance(right, dict) and len(left) == len(right):
            visit.charge(len(left))
            if left.keys() != right.keys():
                return False
            waiting += [(value, right[name]) for name, value in left.items()]
        elif not _same(left, right, visit):
            return False
    return True


def _same(left: Found, right: Found, visit: Visit) -> bool:
    # Containers come here only when they differ in kind or length.
    if isinstance(left, (dict, list)) or isinstance(left, bool) is not isinstance(right, bool):
        return False
    if isinstance(left, str) and isinstance(right, str):
        _charge_text(left, right, visit)
    return left == right


def less(left: Found, right: Found, visit: Visit) -> bool:
    """Tell whether two strings, or two numbers, are in ascending order."""
    if isinstance(left, str) and isinstance(right, str):
        _charge_text(left, right, visit)
        return left < right
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    return isinstance(left, (int, float)) and isinstance(right, (int, float)) and left < right


def _charge_text(left: str, right: str, visit: Visit) -> None:
    # Comparing a thousand characters takes about as long as visiting a node.
    if (shorter := min(len(left), len(right))) > 1000:
        visit.charge(shorter // 1000)


COMPARE: Final[dict[str, Callable[[Found, Found, Visit], bool]]] = {
    "==": equal,
    "!=": lambda left, right, visit: not equal(left, right, visit),
    "<": less,
    ">": lambda left, right, visit: less(right, left, visit),
    "<=": lambda left, right, visit: less(left, right, visit) or equal(left, right, visit),
    ">=": lambda left, right, visit: less(right, left, visit) or equal(left, right, visit),
}

_DOT = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\.", re.DOTALL)
_COUNT = re.compile(r"\{([0-9]+)(?:,([0-9]*))?\}")
_PART = re.compile(rf"{_COUNT.pattern}|\\[pP]\{{\w*\}}|\\.|\[(?:\\.|[^\]\\])*\]|.", re.DOTALL)


def why_refused(pattern: str) -> str | None:
    """Return why a pattern is not run, or None when it is fine.

    The limit on time begins after a pattern is prepared; these keep that short.
    """
    if len(pattern) > MAX_REGEX:
        return f"the pattern is longer than {MAX_REGEX} characters"
    if pattern.count("(") > MAX_REGEX_GROUPS:
        return f"the pattern has more than {MAX_REGEX_GROUPS} groups"
    if _written_out(pattern) > MAX_REGEX_PARTS:
        return f"the pattern, its counts written out, has more than {MAX_REGEX_PARTS} parts"
    return None


@lru_cache(maxsize=256)
def _written_out(pattern: str) -> int:
    """Return how many parts a pattern has when `a{3}` is written as `aaa`, which is how it is prepared."""
    groups: list[list[int]] = [[]]
    for part in _PART.finditer(pattern):
        if part[1] and groups[-1]:
            groups[-1][-1] *= max(1, int(part[2] or part[1]))
        elif part[0] == "(":
            groups.append([])
        elif part[0] == ")" and len(groups) > 1:
            inner = sum(groups.pop())
            groups[-1].append(1 + inner)
        else:
            groups[-1].append(1)
    return sum(sum(group) for group in groups)


@lru_cache(maxsize=256)
def prepared_pattern(pattern: str) -> regex.Pattern[str] | None:
    """Return a pattern ready to run, or None when it is not an I-Regexp (RFC 9485)."""
    try:
        # The checker knows counts of one digit only.
        if not is_iregexp(_COUNT.sub("{1}", pattern)):
            return None
        return regex.compile(_DOT.sub(lambda part: r"[^\n\r]" if part[0] == "." else part[0], pattern))
    except (regex.error, UnicodeEncodeError):
        return None


def matched(text: Found, pattern: Found, visit: Visit, *, whole: bool) -> bool:
    """Tell whether a pattern matches a text, or some part of it; values that are no strings never match.

    Raises:
        LimitExceeded: the pattern is refused, or the patterns of this evaluation took too long together.
    """
    if not isinstance(text, str) or not isinstance(pattern, str):
        return False
    began = time.thread_time()
    found = None
    if (reason := why_refused(pattern)) is not None:
        raise LimitExceeded("RegexNotAllowed", MAX_REGEX, reason)
    try:
        if (ready := prepared_pattern(pattern)) is not None:
            found = (ready.fullmatch if whole else ready.search)(text, timeout=visit.seconds)
    except TimeoutError:
        visit.seconds = 0
    visit.seconds -= time.thread_time() - began
    if visit.seconds <= 0:
        raise LimitExceeded("RegexBudget", MAX_REGEX_SECONDS, "matching a path's patterns takes too many seconds")
    return found is not None
