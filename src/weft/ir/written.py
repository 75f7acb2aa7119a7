"""Places as they were written: from a place in the canonical form back to the text of a person."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pydantic.alias_generators import to_snake

from weft.errors import Loc
from weft.ir.nodes import Node
from weft.ir.operations import kinds
from weft.ports import is_array, is_object

MAX_PATTERN_DEPTH = 30
WRAPPERS = ("pattern", "composition")
CONSTANT = frozenset({"literal", "constant", "value"})
BESIDE = frozenset({"defaults", "hideFields", "vars", "separator", "path"})
"""Keys that some spellings put beside what they belong into."""


def written(value: Any, loc: Sequence[str | int]) -> Loc:
    """Translate a place in the canonical form into the place where a person wrote it.

    Other spellings leave keys out, rename them, wrap them or put beside a value what belongs into it; a key that is
    nowhere to be found leaves the place as it is.
    """
    out: list[str | int] = []
    parent: Any = None
    for key in loc:
        if steps := _steps(value, key):
            parent = value
        elif key in BESIDE and (steps := _steps(parent, key)):
            value = parent
            del out[-1:]
        for step in steps:
            value = value[step]
            out.append(step)
    return tuple(out)


def _steps(value: Any, key: str | int) -> list[str | int]:
    if is_array(value):
        return [key] if isinstance(key, int) and key < len(value) else []
    if not is_object(value) or not isinstance(key, str):
        return []
    if key in value:
        return [key]
    for spelling in (_snake(key), *_other_spellings().get(key, ())):
        if spelling in value:
            return [spelling]
    for wrapper in WRAPPERS:
        if is_object(inner := value.get(wrapper)) and (steps := _steps(inner, key)):
            return [wrapper, *steps]
    return []


_snake = lru_cache(maxsize=1024)(to_snake)


@lru_cache(maxsize=1)
def _other_spellings() -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {
        "predicate": {"when", "condition"},
        # What v1 documents say in an output schema.
        "outputTransform": {"outputSchema", "output_schema"},
        "mappings": {"properties"},
        "path": {"sourceField", "source_field"},
    }
    pending = [Node]
    while pending:
        model = pending.pop()
        pending += model.__subclasses__()
        for spelling, canonical in model.spellings().items():
            if spelling != canonical:
                found.setdefault(canonical, set()).add(spelling)
    return {canonical: tuple(sorted(spellings)) for canonical, spellings in found.items()}


def value_at(value: Any, loc: Loc) -> Any:
    """Return what stands at a place."""
    for key in loc:
        value = value[key]
    return value


def pattern_depth(entry: Any) -> tuple[int, Loc]:
    """Return how many patterns of a tool are nested in each other, and where the deepest that is allowed stands.

    This looks at the text as it was written, so that what is too deep is never read any further.
    """
    names = _patterns(len(kinds()))
    deepest, place = 0, ()
    top = entry if is_object(entry) else {}
    pending: list[tuple[Any, int, Any]] = [
        (top.get(key), 0, (None, key)) for key in ("spec", "outputTransform", "output_transform")
    ]
    if "spec" not in top:
        # The steps of a workflow that has nothing around it.
        pending.append((top.get("steps"), 1, (None, "steps")))
    while pending:
        item, depth, trail = pending.pop()
        if is_object(item):
            if isinstance(item.get("pattern"), str):
                depth += 1
            if depth > deepest:
                deepest, place = depth, trail if depth <= MAX_PATTERN_DEPTH + 1 else place
            pending += [
                (inner, depth + (key in names and isinstance(inner, dict)), (trail, key))
                for key, inner in item.items()
                if key not in CONSTANT
            ]
        elif is_array(item):
            pending += [(inner, depth, (trail, index)) for index, inner in enumerate(item)]
    return deepest, _loc(place)


@lru_cache(maxsize=4)
def _patterns(_count: int) -> frozenset[str]:
    """Return the keys of patterns in every spelling; there are more of them once the union of operations is closed."""
    return frozenset({*kinds(), *(to_snake(kind) for kind in kinds())} - {"tool", "composition", "agent"})


def _loc(trail: Any) -> Loc:
    out: list[str | int] = []
    while trail:
        trail, key = trail
        out.append(key)
    return tuple(reversed(out))
