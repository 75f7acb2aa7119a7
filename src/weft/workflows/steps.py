"""The steps of a workflow document as plain JSON: their tools, and who waits for whom.

This reads what was found valid elsewhere; of what was not, it takes what it understands.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic.alias_generators import to_camel

from weft.errors import ExpressionInvalid
from weft.expr.durations import as_ms
from weft.expr.interpolation import names_in_condition, references_in
from weft.ports import is_array, is_object


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentStep:
    """One step of a document, as far as its place among the others goes."""

    id: str
    depends_on: tuple[str, ...] = ()
    """As it is written."""
    reads: frozenset[str] = frozenset()
    """The steps whose results it uses."""
    first: bool = False
    """Whether the first of `depends_on` that succeeds is enough."""
    timeout_ms: int | None = None
    retry_count: int | None = None
    repeats: bool = False
    """Whether it is done for each item of a list."""
    asks: bool = False
    """Whether it asks a person."""
    at_most_once: bool = False


_OTHERS: Final = {"parameters": "arguments", "when": "condition", "timeout_ms": "timeout"}


def field(node: Mapping[str, Any], name: str) -> Any:
    """Return what an object has under a snake_case name, in any of its spellings."""
    spellings = (name, to_camel(name), _OTHERS.get(name, name))
    return next((node[one] for one in spellings if node.get(one) is not None), None)


def tools_of(composition: Mapping[str, Any]) -> list[str]:
    """Return the tools that the steps call, or are undone with; each once, in the order of the document."""
    named: dict[str, None] = {}
    for step in _objects(composition):
        undo = step.get("undo")
        for tool in (step.get("tool"), undo.get("tool") if is_object(undo) else None):
            name = tool.get("name") if is_object(tool) else tool
            if isinstance(name, str) and name:
                named[name] = None
    return list(named)


def steps_of(composition: Mapping[str, Any]) -> list[DocumentStep]:
    """Return the steps of a document, in its order."""
    steps = {step["id"]: step for step in _objects(composition) if isinstance(step.get("id"), str)}
    owners = {id: id for id in steps}
    for id, step in steps.items():
        if isinstance(key := field(step, "output_key"), str):
            owners.setdefault(key, id)
    return [_step(id, step, owners, steps) for id, step in steps.items()]


def _step(id: str, step: Mapping[str, Any], owners: Mapping[str, str], ids: Container[object]) -> DocumentStep:
    written = field(step, "depends_on")
    retries = field(step, "retry_count")
    depends_on = [one for one in written if isinstance(one, str) and one in ids] if is_array(written) else []
    return DocumentStep(
        id=id,
        depends_on=tuple(dict.fromkeys(depends_on)),
        reads=frozenset(owners[name] for name in _names(step) if name in owners) - {id},
        first=step.get("join") == "any",
        timeout_ms=_milliseconds(field(step, "timeout_ms")),
        retry_count=retries if isinstance(retries, int) else None,
        repeats=field(step, "for_each") is not None,
        asks=step.get("elicit") is not None,
        at_most_once=field(step, "at_most_once") is True,
    )


def _names(step: Mapping[str, Any]) -> Iterator[str]:
    """Yield every name that a step reads by: heads of references, variables of its condition."""
    local = _local(step)
    try:
        for part in ("parameters", "for_each", "elicit", "undo"):
            for reference in references_in(field(step, part)):
                if reference.head not in local:
                    yield reference.head
        if isinstance(when := field(step, "when"), str):
            variables, named = names_in_condition(when)
            yield from (*variables, *named)
    except ExpressionInvalid:
        return  # A document with that in it does not run.


def _local(step: Mapping[str, Any]) -> set[str]:
    """Return the names of the items of a list, which are no steps."""
    each = field(step, "for_each")
    if each is None:
        return set()
    named = each.get("as") if is_object(each) else None
    return {"index", named if isinstance(named, str) else "item"}


def _milliseconds(value: object) -> int | None:
    try:
        return None if value is None else as_ms(value)
    except ExpressionInvalid:
        return None


def _objects(composition: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    steps = composition.get("steps")
    return [step for step in steps if is_object(step)] if is_array(steps) else []
