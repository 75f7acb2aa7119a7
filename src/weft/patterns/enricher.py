"""Enricher: add to an object what other operations know about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from weft.errors import ExecutionFailed
from weft.expr.fields import path_text
from weft.expr.paths import compile_path
from weft.expr.shapes import ANY, may_be, object_of, with_fields
from weft.ir.bindings import PathRef
from weft.ir.nodes import Node
from weft.ir.normalise import made
from weft.ir.operations import Operation
from weft.patterns.contract import Call, Compiler, Flow, Op, Pattern, Pure, Run, Value, operand, perform, type_name
from weft.patterns.copies import NEW, OFTEN, ONCE, Copies, bounded, repeats, together
from weft.patterns.fanout import all_or_error
from weft.patterns.flows import at_path
from weft.ports import Schema, is_object

Merge = Literal["nested", "spread", "replace"]


class Enrichment(Node):
    """A field to add, the operation that knows it, and the part of the object that the operation is given."""

    aliases: ClassVar[Mapping[str, str]] = {"source": "operation"}

    field: Annotated[str, Field(min_length=1, max_length=256)]
    operation: Operation
    input: PathRef | None = None

    @classmethod
    def spell(cls, value: Any) -> Any:
        if is_object(value) and is_object(given := value.get("input")):
            inner = given.get("input")
            if inner is not None and len(given) == 1:
                return {**value, "input": inner}
        return value


class Enricher(Pattern):
    """Enrichments run at the same moment.

    nested: the object with each result under its field. spread: a result that is an object gives its fields to the
    object itself. replace: only the enrichments are kept.
    """

    aliases: ClassVar[Mapping[str, str]] = {"merge": "mergeStrategy"}

    enrichments: Annotated[list[Enrichment], Field(min_length=1)]
    merge_strategy: Merge = "nested"

    def compile(self, c: Compiler) -> Run | Pure:
        steps = [c.operation(one.operation, one.field) for one in self.enrichments]
        gets = [compile_path(one.input.path).get if one.input is not None else None for one in self.enrichments]
        strategy = self.merge_strategy
        shared = self.copies(c).shared

        async def run(value: Value, call: Call) -> Value:
            if not is_object(value):
                raise ExecutionFailed("Enricher requires object input", hint=f"it was given {type_name(value)}")
            given: list[Value] = [value if get is None else get(value) for get in gets]
            work = [perform(step, one, call) for step, one in zip(steps, given, strict=True)]
            results = [await work[0]] if len(work) == 1 else await all_or_error(work)
            enriched = {} if strategy == "replace" else dict(value)
            for step, result in zip(steps, results, strict=True):
                if strategy == "spread" and is_object(result):
                    enriched |= result
                else:
                    enriched[step.name] = result
            return bounded(enriched) if shared else enriched

        return run

    def copies(self, c: Compiler) -> Copies:
        if any(one.input is not None and repeats(compile_path(one.input.path)) for one in self.enrichments):
            return OFTEN
        kept = NEW if self.merge_strategy == "replace" else ONCE
        return together([kept, *(c.copies(one.operation) for one in self.enrichments)])

    def flow(self, given: Schema, f: Flow) -> Schema:
        if not may_be(given, "object"):
            f.error("NotAnObject", "Enricher requires object input", expected="an object")
            return ANY
        added: dict[str, Schema] = {}
        for index, one in enumerate(self.enrichments):
            place = ("enrichments", index)
            into = given if one.input is None else at_path(given, one.input.path, f, *place, "input", "path")
            added[one.field] = f.operation(one.operation, into, *place, "operation")
        if self.merge_strategy == "replace":
            return object_of(added)
        return with_fields(given, added) if self.merge_strategy == "nested" else {"type": "object"}


def enricher(*, merge: Merge = "nested", **fields: Op[Any, Any] | tuple[object, Op[Any, Any]]) -> Op[Any, Any]:
    """Add fields that other operations know: `w.enricher(author=(p.author_id, w.tool("get_user")))`.

    Each field is an operation on the whole object, or a pair of the part it is given and the operation.
    """
    parts: list[Op[Any, Any]] = []
    enrichments: list[dict[str, Any]] = []
    for field, given in fields.items():
        part, source = given if isinstance(given, tuple) else (None, given)
        operation = operand(source, "w.enricher")
        parts.append(operation)
        entry: dict[str, Any] = {"field": field, "operation": operation.node}
        if part is not None:
            entry["input"] = {"path": path_text(part)}
        enrichments.append(entry)
    return Op(made(Enricher, {"enrichments": enrichments, "mergeStrategy": merge}), parts)
