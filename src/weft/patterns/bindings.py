"""Bindings, compiled: how a step reads its input, of what schema that is, and what it may hold twice."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from weft.expr.paths import compile_path
from weft.expr.shapes import ANY, object_of
from weft.ir.bindings import Binding
from weft.patterns.contract import Flow, Value
from weft.patterns.copies import Copies, bounded, overlap, repeats
from weft.patterns.flows import at_path
from weft.ports import Schema, is_array, is_object

Read: TypeAlias = Callable[[Value, Value, list[Value]], Value]
"""Where a step's input comes from: (pipeline's input, previous result, results so far) -> value."""


def compile_binding(binding: Binding, index: int, places: Mapping[str, int]) -> Read | None:
    """Return how to read a binding; None for the previous result as it is, by far the most frequent."""
    if binding.step is not None:
        place, get = places[binding.step.step_id], compile_path(binding.step.path).get
        if place == index - 1:
            return _previous(binding.step.path)
        return lambda given, previous, results: get(results[place])
    if binding.input is not None:
        if index == 0:
            return _previous(binding.input.path)
        get = compile_path(binding.input.path).get
        return lambda given, previous, results: get(given)
    if binding.constant is not None:
        value: Value = binding.constant.value
        # A tool may change what it is given; the plan keeps its own.
        if is_array(value) or is_object(value):
            return lambda given, previous, results: copy.deepcopy(value)
        return lambda given, previous, results: value
    if binding.assembled is not None:
        fields = [(name, compile_binding(inner, index, places)) for name, inner in binding.assembled.fields.items()]
        return lambda given, previous, results: {
            name: previous if read is None else read(given, previous, results) for name, read in fields
        }
    return _previous(binding.previous.path if binding.previous is not None else "$")


def _previous(path: str) -> Read | None:
    if path == "$":
        return None
    get = compile_path(path).get
    return lambda given, previous, results: get(previous)


def guarded_read(read: Read) -> Read:
    """Return the binding with its value weighed."""
    return lambda given, previous, results: bounded(read(given, previous, results))


@dataclass(frozen=True, slots=True)
class Held:
    """What a value may hold: parts of the pipeline's input ("") and of results, by step; and whether any part twice."""

    origins: frozenset[str]
    shared: bool = False

    def after(self, step: str, copies: Copies) -> Held:
        """Return what a step's result holds when the step is given this."""
        kept: frozenset[str] = self.origins if copies.times else frozenset()
        return Held(kept | {step}, copies.shared or copies.times > 1 or (self.shared and copies.times > 0))


INPUT = Held(frozenset({""}))


def held_by(binding: Binding | None, previous: str, results: Mapping[str, Held]) -> tuple[Held, bool]:
    """Return what a bound value holds, and whether the binding itself may put one part into two places.

    `results` has the pipeline's input under "", and each step's result; `previous` is the step just before.
    """
    taken = list(_taken(binding, previous))
    copied = any(repeats(compile_path(path)) for _, path in taken) or any(
        overlap([[path], [other_path]]) if source == other else bool(results[source].origins & results[other].origins)
        for (source, path), (other, other_path) in itertools.combinations(taken, 2)
    )
    origins = frozenset[str]().union(*(results[source].origins for source, _ in taken))
    return Held(origins, copied or any(results[source].shared for source, _ in taken)), copied


def _taken(binding: Binding | None, previous: str) -> Iterator[tuple[str, str]]:
    """Yield each source of a binding, "" for the pipeline's input, with the path into it."""
    if binding is None:
        yield previous, "$"
    elif binding.step is not None:
        yield binding.step.step_id, binding.step.path
    elif binding.input is not None:
        yield "", binding.input.path
    elif binding.assembled is not None:
        for inner in binding.assembled.fields.values():
            yield from _taken(inner, previous)
    elif binding.constant is None:
        yield previous, binding.previous.path if binding.previous is not None else "$"


def binding_schema(
    binding: Binding | None, given: Schema, previous: Schema, results: dict[str, Schema], f: Flow, *at: str | int
) -> Schema:
    """Return the schema of a bound value; `given` is the pipeline's input, `previous` the result just before."""
    if binding is None:
        return previous
    if binding.assembled is not None:
        return object_of(
            {
                name: binding_schema(inner, given, previous, results, f, *at, "construct", "fields", name)
                for name, inner in binding.assembled.fields.items()
            }
        )
    if binding.constant is not None:
        return {"const": binding.constant.value}
    source, path = previous, "$"
    if binding.input is not None:
        source, path = given, binding.input.path
    elif binding.step is not None:
        source, path = results.get(binding.step.step_id, ANY), binding.step.path
    elif binding.previous is not None:
        path = binding.previous.path
    return at_path(source, path, f, *at, binding.kind, "path")
