"""Copies: how often one part of a value may occur in a result, and the guard of results in which it may occur often.

Forty steps that each put a value into two places make an object of 2^40 nodes out of forty dicts. What can do so is
known when a plan is compiled: only such patterns weigh what they made, and no value becomes too large to be written.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from weft.errors import LimitExceeded
from weft.expr.paths import Path, compile_path

MAX_NODES = 1_000_000
MAX_COMPARED = 200
TEXT_OF_A_NODE = 6
"""Text weighs one node more for every 2^6 characters, so that a long one cannot be multiplied instead."""


class Copies(NamedTuple):
    """`times`: how often a part of the input may occur in the result, 2 for often; `shared`: whether anything may."""

    times: int
    shared: bool


NEW = Copies(0, False)
ONCE = Copies(1, False)
OFTEN = Copies(2, True)


def either(options: Iterable[Copies]) -> Copies:
    """Return the copies of a result that is one of several."""
    known = list(options)
    return Copies(max((one.times for one in known), default=0), any(one.shared for one in known))


def together(parts: Iterable[Copies]) -> Copies:
    """Return the copies of a result that holds several at once."""
    known = list(parts)
    times = min(2, sum(one.times for one in known))
    return Copies(times, times > 1 or any(one.shared for one in known))


def repeats(path: Path) -> bool:
    """Tell whether a path may select one node twice, or a node and what is in it."""
    return path.steps is None and (".." in path.text or "," in path.text)


def overlap(sources: Sequence[Sequence[str]]) -> bool:
    """Tell whether a part of the value may be taken twice; each source takes one of its paths."""
    groups = [[compile_path(text) for text in texts] for texts in sources]
    if sum(map(len, groups)) > MAX_COMPARED or any(repeats(path) for group in groups for path in group):
        return True
    return any(_meet(a, b) for one, other in itertools.combinations(groups, 2) for a in one for b in other)


def _meet(a: Path, b: Path) -> bool:
    """Tell whether one path may lead into what the other selects."""
    if a.steps is None or b.steps is None:
        return True
    return all(_may_be_same(one, other) for one, other in zip(a.steps, b.steps, strict=False))


def _may_be_same(a: str | int | None, b: str | int | None) -> bool:
    if a is None or b is None:
        return True
    if isinstance(a, int) and isinstance(b, int):
        # Counted from different ends, two indexes may be the same place.
        return a == b or (a < 0) != (b < 0)
    return a == b


def bounded(value: Any) -> Any:
    """Return the value.

    Raises:
        LimitExceeded: as JSON it would have more than a million nodes.
    """
    if (nodes := weigh(value)) > MAX_NODES:
        told = nodes if nodes < 10**15 else "far too many"
        raise LimitExceeded("NodeLimit", MAX_NODES, f"a value was put into so many places that it has {told} nodes")
    return value


def guarded(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function with its result weighed."""
    return lambda value: bounded(function(value))


_Held: TypeAlias = "list[Any] | dict[str, Any]"
_CONTAINERS = frozenset({list, dict})
_OPEN = -1


def weigh(value: Any) -> int:
    """Return how many nodes a value has as JSON: what occurs twice counts twice, and is walked once."""
    if value.__class__ not in _CONTAINERS:
        return _light(value)
    known: dict[int, int] = {}
    waiting: list[_Held] = [value]
    while waiting:
        top = waiting[-1]
        state = known.get(id(top))
        if state is None:
            known[id(top)] = _OPEN
            waiting += [item for item in _items(top) if item.__class__ in _CONTAINERS and id(item) not in known]
            continue
        waiting.pop()
        if state is _OPEN:
            names = sum(map(len, top)) >> TEXT_OF_A_NODE if type(top) is dict else 0
            inner = sum(known[id(item)] if item.__class__ in _CONTAINERS else _light(item) for item in _items(top))
            known[id(top)] = 1 + names + inner
    return known[id(value)]


def _items(held: _Held) -> Iterable[Any]:
    return held.values() if isinstance(held, dict) else held


def _light(value: Any) -> int:
    return 1 + (len(value) >> TEXT_OF_A_NODE) if value.__class__ is str else 1
