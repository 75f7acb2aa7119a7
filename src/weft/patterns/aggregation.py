"""Aggregation: make one value of the list of results that a fan-out gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from weft.errors import nearest, shown
from weft.expr.fields import path_text
from weft.expr.paths import MISSING, compile_path
from weft.expr.predicates import key_of
from weft.expr.rows import column, names_of
from weft.expr.shapes import ANY, any_of, array_of, items_of, types_of
from weft.ir.nodes import Node, OneOf, PathText, refuse
from weft.ir.normalise import made
from weft.patterns.contract import Flow, Value, require_list
from weft.patterns.flows import at_path, takes_array
from weft.ports import Schema, is_array, is_object

Apply: TypeAlias = Callable[[Value], Value]
NUMBERS = frozenset({int, float})


class Sort(Node):
    """Order by a field: numbers, then strings, each among themselves; what has neither keeps its order, at the end."""

    aliases: ClassVar[Mapping[str, str]] = {"by": "field"}

    field: PathText = "$"
    order: Literal["asc", "desc"] = "asc"

    def compile(self) -> Apply:
        """Return the sort; stable in both directions."""
        path = compile_path(self.field)
        names = names_of(path)
        keys_of: Apply = column(names, path.find) if names else lambda rows: [path.find(row) for row in rows]
        key = itemgetter(*names) if names is not None and len(names) == 1 else path.find
        reverse = self.order == "desc"

        def run(value: Value) -> Value:
            rows = require_list(value, "Sort")
            keys = keys_of(rows)
            types = set(map(type, keys))
            if types <= NUMBERS or types == {str}:
                return sorted(rows, key=key, reverse=reverse)
            return _sort_mixed(rows, keys, reverse)

        return run


def _sort_mixed(rows: list[Value], keys: list[Value], reverse: bool) -> list[Value]:
    at = range(len(rows))
    numbers = sorted((i for i in at if type(keys[i]) in NUMBERS), key=keys.__getitem__, reverse=reverse)
    strings = sorted((i for i in at if type(keys[i]) is str), key=keys.__getitem__, reverse=reverse)
    placed = {*numbers, *strings}
    return [rows[i] for i in (*numbers, *strings, *(i for i in at if i not in placed))]


class Dedupe(Node):
    """Keep the first item for each value of a field; items without the field are all kept."""

    aliases: ClassVar[Mapping[str, str]] = {"by": "field"}

    field: PathText = "$"

    def compile(self) -> Apply:
        """Return the removal of doubles."""
        find = compile_path(self.field).find

        def run(value: Value) -> Value:
            seen = set[Any]()
            kept: list[Value] = []
            for item in require_list(value, "Dedupe"):
                found = find(item)
                if found is MISSING:
                    kept.append(item)
                    continue
                key = key_of(found)
                if key not in seen:
                    seen.add(key)
                    kept.append(item)
            return kept

        return run


class Limit(Node):
    """Take the first few."""

    count: int = Field(ge=0, le=2**31 - 1)

    @classmethod
    def spell(cls, value: Any) -> Any:
        return {"count": value} if isinstance(value, int) else value

    def compile(self) -> Apply:
        """Return the cut."""
        count = self.count
        return lambda value: require_list(value, "Limit")[:count]


def _flatten(value: Value) -> Value:
    flat: list[Value] = []
    for item in require_list(value, "Flatten"):
        if is_array(item):
            flat.extend(item)
        else:
            flat.append(item)
    return flat


def _merge(value: Value) -> Value:
    merged: dict[str, Value] = {}
    for item in require_list(value, "Merge"):
        if is_object(item):
            merged.update(item)
    return merged


class AggregationOp(OneOf):
    """One operation on the list of results, or on what the operation before it made."""

    noun: ClassVar[str] = "aggregation op"

    flatten: Literal[True] | None = None
    sort: Sort | None = None
    dedupe: Dedupe | None = None
    limit: Limit | None = None
    concat: Literal[True] | None = None
    merge: Literal[True] | None = None

    @classmethod
    def spell(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = {value: True}
        if is_object(value):
            for key in value:
                if not key.startswith("$") and key not in cls._keys:
                    known = list(cls.model_fields)
                    raise refuse(
                        "UnknownAggregationOp",
                        f"Unknown aggregation op {shown(key)}",
                        value=shown(key),
                        expected=f"one of {', '.join(known)}",
                        suggestion=nearest(key, known),
                    )
        return value

    def compile(self) -> Apply:
        """Return the operation as a function of the list."""
        if self.flatten is not None:
            return _flatten
        if self.merge is not None:
            return _merge
        if self.concat is not None:
            return lambda value: value
        chosen: Sort | Dedupe | Limit = self.chosen
        return chosen.compile()

    def flow(self, given: Schema, f: Flow, *at: str | int) -> Schema:
        """Return the schema of what this operation makes of such a list."""
        if self.concat is not None:
            return given
        if not takes_array(given, self.kind.title(), f, *at):
            return ANY
        if self.flatten is not None:
            items = items_of(given)
            return array_of(_flat(items)) if items else given
        if self.merge is not None:
            return {"type": "object"}
        if self.sort is not None or self.dedupe is not None:
            at_path(items_of(given), self.chosen.field, f, *at, self.kind, "field")
        return given


def _flat(items: Schema) -> Schema:
    types = types_of(items)
    if types is None:
        return ANY
    inner = [items_of(items)] if "array" in types else []
    rest = [items] if types - {"array"} else []
    return any_of([*inner, *rest])


class Aggregation(Node):
    """Operations in order; none at all leaves the list of results as it is."""

    ops: list[AggregationOp] = []

    @classmethod
    def spell(cls, value: Any) -> Any:
        if is_array(value):
            return {"ops": value}
        if not is_object(value) or "function" not in value:
            return value
        given = {key: item for key, item in value.items() if not key.startswith("$") and item is not None}
        return _named_function(given) if "function" in given else given

    def compile(self) -> Apply:
        """Return the operations as one function."""
        steps = [op.compile() for op in self.ops]

        def run(value: Value) -> Value:
            for step in steps:
                value = step(value)
            return value

        return run

    def flow(self, given: Schema, f: Flow, *at: str | int) -> Schema:
        """Return the schema of the aggregated value."""
        for index, op in enumerate(self.ops):
            given = op.flow(given, f, *at, "ops", index)
        return given


def _named_function(given: dict[str, Any]) -> dict[str, Any]:
    name = given["function"]
    if name != FUNCTION or len(given) != 1:
        raise refuse(
            "UnknownAggregationOp",
            f"Unknown aggregation op {shown(name)}: functions are not called by name",
            value=shown(name),
            expected=f"ops, or only the function {FUNCTION}",
            suggestion=nearest(name, [FUNCTION]),
        )
    return {"ops": [{"flatten": True}, {"sort": {"field": "$.relevance", "order": "desc"}}]}


FUNCTION = "flatten_and_sort_by_relevance"
FLATTEN = {"ops": [{"flatten": True}]}


def flatten() -> AggregationOp:
    """Put the items of all lists into one."""
    return AggregationOp(flatten=True)


def keep_lists() -> AggregationOp:
    """Leave the list of results nested as it is (`concat` in documents)."""
    return AggregationOp(concat=True)


def merge() -> AggregationOp:
    """Make one object of all objects, later ones winning."""
    return AggregationOp(merge=True)


def sort(by: object, order: Literal["asc", "desc"] = "asc") -> AggregationOp:
    """Order by a field."""
    return made(AggregationOp, {"sort": {"field": path_text(by), "order": order}})


def dedupe(by: object) -> AggregationOp:
    """Keep the first item for each value of a field."""
    return made(AggregationOp, {"dedupe": {"field": path_text(by)}})


def limit(count: int) -> AggregationOp:
    """Take the first few."""
    return made(AggregationOp, {"limit": {"count": count}})


def aggregation(given: object) -> Aggregation:
    """Return what an author gave as `aggregate`: ops one after the other, as data or from the builders."""
    if isinstance(given, Aggregation):
        return given
    if isinstance(given, AggregationOp):
        return Aggregation(ops=[given])
    if isinstance(given, dict | list):
        return made(Aggregation, given)
    raise TypeError(f"Unknown aggregation op {shown(given)}: use w.flatten(), w.sort(..) or a list of these")
