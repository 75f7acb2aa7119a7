"""Types flow through a workflow: what each step is given against what it takes, before anything runs."""

from __future__ import annotations

from graphlib import TopologicalSorter

from weft.errors import Loc
from weft.expr.interpolation import NOTHING, Reference, references_in
from weft.expr.paths import quote
from weft.expr.shapes import ANY, array_of, items_of, object_of, properties_of
from weft.patterns.contract import Flow
from weft.patterns.flows import at_path
from weft.patterns.workflow_names import INDEX, Names, implied, waits_of
from weft.ports import Json, Schema, is_array, is_object


def flow_through(names: Names, output: Json, given: Schema, f: Flow) -> Schema:
    """Return the schema of what a workflow gives; report what cannot fit."""
    known: dict[str, Schema] = {"input": given, "context": ANY}
    waits = waits_of(names)
    order = TopologicalSorter({index: one.hard | one.first for index, one in enumerate(waits)}).static_order()
    for index in order:
        step = names.steps[index]
        at: Loc = ("steps", index)
        for loc, other in implied(index, names):
            told = f"step {step.id!r} reads {other!r} and does not depend on it"
            f.warning("ImplicitDependency", told, *at, *loc, expected=f"{other!r} among depends_on")
        local = known
        if step.for_each is not None:
            items = _schema(step.for_each.items, known, names, f, (*at, "forEach", "items"))
            local = {**known, step.for_each.name: items_of(items), INDEX: {"type": "integer"}}
        result: Schema = ANY
        if step.does is not None:
            into = _schema(step.parameters, local, names, f, (*at, "parameters"))
            result = f.operation(step.does, into, *at, "operation" if step.tool is None else "tool")
        elif step.elicit is not None:
            result = step.elicit.requested
        if step.for_each is not None:
            result = array_of(result)
        if step.when is not None or step.on_error == "continue":
            result = ANY
        known[step.id] = known[step.key] = result
    if output is not None:
        return _schema(output, known, names, f, ("output",))
    return object_of({step.key: known[step.id] for step in names.steps}) if _is_whole(names) else ANY


def _is_whole(names: Names) -> bool:
    return all(step.when is None and step.on_error == "fail" for step in names.steps)


def _schema(value: Json, known: dict[str, Schema], names: Names, f: Flow, at: Loc) -> Schema:
    if is_object(value):
        return object_of({key: _schema(item, known, names, f, (*at, key)) for key, item in value.items()})
    if is_array(value):
        return {"type": "array"}
    if not isinstance(value, str) or not (found := references_in(value)):
        return {"const": value}
    if len(found) != 1 or found[0].text != value:
        return {"type": "string"}
    return _referred(found[0], known, names, f, at)


def _referred(one: Reference, known: dict[str, Schema], names: Names, f: Flow, at: Loc) -> Schema:
    source, path = known.get(one.head, ANY), one.path
    if path and path[0] == names.heads.get(one.head) and path[0] not in properties_of(source):
        path = path[1:]
    if one.default is not NOTHING:
        return ANY
    return at_path(source, quote(path), f, *at)
