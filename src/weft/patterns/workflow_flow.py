"""Types flow through a workflow: what each step is given against what it takes, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter

from weft.errors import Loc
from weft.expr.interpolation import NOTHING, Reference, references_in
from weft.expr.paths import quote
from weft.expr.shapes import ANY, array_of, items_of, object_of, properties_of
from weft.ir.operations import Undo
from weft.patterns.contract import Flow
from weft.patterns.flows import at_path
from weft.patterns.workflow_names import INDEX, Names, Waits, implied, texts_of, waits_of
from weft.patterns.workflow_steps import WorkflowStep
from weft.ports import Json, Schema, is_array, is_object


def asked_of_input(names: Names, output: Json, undo: Iterable[Undo]) -> Schema:
    """Return what the references of a workflow ask of its input; needed is what is read whatever happens."""
    fields, needed, whole = dict[str, Schema](), dict[str, None](), False
    texts = [(output, True)] + [(one.parameters, False) for one in undo]
    certain = _certain(names)
    for index, step in enumerate(names.steps):
        texts += [(value, certain[index]) for _, value, _ in texts_of(step, names)]
        texts += [] if step.undo is None else [(step.undo.parameters, False)]
    for value, sure in texts:
        for one in references_in(value):
            if one.head != "input":
                continue
            if not one.path or not isinstance(one.path[0], str):
                whole = True
                continue
            fields.setdefault(one.path[0], {})
            if sure and one.default is NOTHING:
                needed[one.path[0]] = None
    if whole and not fields:
        return ANY
    return {"type": "object", "properties": fields, **({"required": [*needed]} if needed else {})}


def _certain(names: Names) -> list[bool]:
    """Return for each step whether it is done in every run in which nothing fails."""
    waits = waits_of(names)
    certain = [step.when is None for step in names.steps]
    for index in _order(waits):
        certain[index] &= all(certain[one] and not _may_be_without(names.steps[one]) for one in waits[index].needed)
    return certain


def _may_be_without(step: WorkflowStep) -> bool:
    declines = step.elicit is not None and step.elicit.on_decline == "skip"
    return step.when is not None or step.on_error == "continue" or declines


def _order(waits: Sequence[Waits]) -> Iterable[int]:
    return TopologicalSorter({index: one.hard | one.first for index, one in enumerate(waits)}).static_order()


def flow_through(
    names: Names, output: Json, given: Schema, f: Flow, *, undo: Mapping[str, Undo], whole: bool
) -> Schema:
    """Return the schema of what a workflow gives; report what cannot fit.

    `undo` is what it says of tools, by their names; `whole` is whether it gives nothing unless every step went well.
    """
    known: dict[str, Schema] = {"input": given, "context": ANY}
    for index in _order(waits_of(names)):
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
            name = getattr(step.does, "name", None)
            undone = {**local, "output": result, "parameters": into}
            if step.undo is not None:
                _flow_back(step.undo, undone, names, f, (*at, "undo"))
            elif isinstance(name, str) and name in undo:
                _flow_back(undo[name], undone, names, f, ("undo", name))
        elif step.elicit is not None:
            _schema(step.elicit.message, local, names, f, (*at, "elicit", "message"))
            result = step.elicit.requested
        if step.for_each is not None:
            result = array_of(result)
        # Whoever reads it without a default is done only where it is there.
        known[step.id] = known[step.key] = result
    if output is not None:
        gives = _schema(output, known, names, f, ("output",))
        return gives if whole else ANY
    if not whole or any(map(_may_be_without, names.steps)):
        return ANY
    return object_of({step.key: known[step.id] for step in names.steps})


def _flow_back(undo: Undo, known: dict[str, Schema], names: Names, f: Flow, at: Loc) -> None:
    f.operation(undo.tool, _schema(undo.parameters, known, names, f, (*at, "parameters")), *at, "tool")


def _schema(value: Json, known: dict[str, Schema], names: Names, f: Flow, at: Loc) -> Schema:
    if is_object(value):
        return object_of({key: _schema(item, known, names, f, (*at, key)) for key, item in value.items()})
    if is_array(value):
        for index, item in enumerate(value):
            _schema(item, known, names, f, (*at, index))
        return {"type": "array"}
    if not isinstance(value, str):
        return {"const": value}
    found = references_in(value)
    if len(found) == 1 and found[0].text == value:
        return _referred(found[0], known, names, f, at)
    for one in found:
        _referred(one, known, names, f, at)
    return {"type": "string"} if found or "{{" in value else {"const": value}


def _referred(one: Reference, known: dict[str, Schema], names: Names, f: Flow, at: Loc) -> Schema:
    source, path = known.get(one.head, ANY), one.path
    if path and path[0] == names.heads.get(one.head) and path[0] not in properties_of(source):
        path = path[1:]
    if one.default is not NOTHING:
        return ANY
    return at_path(source, quote(path), f, *at)
