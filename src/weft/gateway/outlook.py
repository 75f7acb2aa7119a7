"""What a workflow would do: its order, what may run at once, and what each step would be given."""

from __future__ import annotations

from typing import Any

from weft.errors import ExecutionFailed
from weft.expr.interpolation import compile_interpolation, references_in
from weft.patterns.workflow import Workflow
from weft.patterns.workflow_names import Names, texts_of, waits_of
from weft.ports import Json, is_array, is_object


def outlook(workflow: Workflow, input: Any, context: dict[str, Any]) -> dict[str, Any]:
    """Return the plan of a workflow for an input; nothing is run.

    `parameters` has what each step would be given, as far as the input says; what only steps will tell is written as in
    the document, and named in `unknown`.
    """
    names = Names(workflow.steps)
    waits = waits_of(names)
    after = _order([wait.hard | wait.first for wait in waits])
    level: dict[int, int] = {}
    steps: list[dict[str, Any]] = []
    scope = {"input": input, "context": context}
    for index in after:
        step, wait = workflow.steps[index], waits[index]
        level[index] = 1 + max((level[one] for one in (*wait.hard, *wait.first)), default=0)
        given, unknown = filled(step.parameters, scope)
        told: dict[str, Any] = {
            "id": step.id,
            "level": level[index],
            "waits_for": sorted(workflow.steps[one].id for one in (*wait.hard, *wait.first)),
            "parameters": given,
        }
        if step.tool is not None:
            told["tool"] = step.tool.name
        elif step.elicit is not None:
            told["asks"] = step.elicit.message
        else:
            told["operation"] = step.does.to_ir() if step.does is not None else None
        others = (value for loc, value, _ in texts_of(step, names) if loc != ("parameters",))
        more = [ref.text for value in others for ref in references_in(value) if ref.head not in scope]
        unknown = list(dict.fromkeys([*unknown, *more]))
        if unknown:
            told["unknown"] = unknown
        for key, value in (("when", step.when), ("for_each", None if step.for_each is None else step.for_each.items)):
            if value is not None:
                told[key] = value
        if step.undo is not None:
            told["undo"] = step.undo.tool.name
        steps.append(told)
    widths = [sum(1 for one in level.values() if one == depth) for depth in range(1, max(level.values()) + 1)]
    handling = workflow.error_handling
    return {
        "steps": steps,
        "order": [workflow.steps[index].id for index in after],
        "levels": [
            [workflow.steps[index].id for index in after if level[index] == depth]
            for depth in range(1, len(widths) + 1)
        ],
        "concurrency": min(max(widths), workflow.max_concurrency),
        "max_concurrency": workflow.max_concurrency,
        "error_strategy": handling.failure_strategy,
        "rolls_back": handling.rolls_back,
        "durable": workflow.store is not None,
    }


def _order(waits: list[frozenset[int]]) -> list[int]:
    """Return the steps in an order in which each comes after those it waits for; else in that of the document."""
    left = [set(one) for one in waits]
    order: list[int] = []
    done = set[int]()
    ready = [index for index, one in enumerate(left) if not one]
    dependants: dict[int, list[int]] = {}
    for index, one in enumerate(waits):
        for other in one:
            dependants.setdefault(other, []).append(index)
    while ready:
        index = ready.pop(0)
        order.append(index)
        done.add(index)
        for other in dependants.get(index, ()):
            left[other].discard(index)
            if not left[other]:
                ready.append(other)
    return order


def filled(value: Json, scope: dict[str, Any]) -> tuple[Json, list[str]]:
    """Return a value with what is known filled in, and the references that are not known yet."""
    if is_object(value):
        made = {key: filled(item, scope) for key, item in value.items()}
        return {key: one for key, (one, _) in made.items()}, [ref for _, (_, refs) in made.items() for ref in refs]
    if is_array(value):
        several = [filled(item, scope) for item in value]
        return [one for one, _ in several], [ref for _, refs in several for ref in refs]
    if not isinstance(value, str):
        return value, []
    found = references_in(value)
    unknown = [one.text for one in found if one.head not in scope]
    if unknown or not found:
        return (value if unknown else compile_interpolation(value, {}).render({})), unknown
    try:
        return compile_interpolation(value, dict.fromkeys(scope)).render(scope), []
    except ExecutionFailed:
        return value, [one.text for one in found]
