"""Recipient list: let the value itself say which of the allowed tools get it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, cast

from pydantic import Field

from weft.errors import ExecutionFailed, Loc, nearest, shown
from weft.expr.fields import is_path, path_text
from weft.expr.paths import compile_path
from weft.expr.shapes import any_of, array_of
from weft.ir.bindings import PathRef
from weft.ir.nodes import OneOf, PathText
from weft.ir.normalise import made
from weft.ir.operations import Name, Operation
from weft.patterns.aggregation import Aggregation, AggregationOp, aggregation
from weft.patterns.contract import (
    Call,
    Compiler,
    Flow,
    Op,
    Pattern,
    Pure,
    Run,
    Step,
    Value,
    operand,
    perform,
    type_name,
)
from weft.patterns.copies import OFTEN, Copies, bounded, repeats, together
from weft.patterns.fanout import row_count, scatter
from weft.patterns.flows import at_path
from weft.ports import Schema, is_array, is_object


class Recipients(OneOf):
    """A path to the names in the value, or an operation that gives them."""

    noun: ClassVar[str] = "source of recipients"

    path: PathText | None = None
    operation: Operation | None = None

    @classmethod
    def spell(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"path": value} if value.startswith("$") else {"operation": value}
        if is_object(value) and value.keys().isdisjoint({"path", "operation"}):
            return {"operation": value}
        return value


class RecipientList(Pattern):
    """Names that are not in `allowed` are refused; recipients work at the same moment, in the order of the names."""

    aliases: ClassVar[Mapping[str, str]] = {"aggregate": "aggregation"}

    recipients: Recipients
    input: PathRef | None = None
    allowed: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    aggregation: Aggregation = Aggregation.model_construct(ops=[])
    fail_fast: bool = False

    def compile(self, c: Compiler) -> Run | Pure:
        tools = {name: c.named(name) for name in self.allowed}
        find = compile_path(self.recipients.path).get if self.recipients.path is not None else None
        ask = c.operation(self.recipients.operation, "recipients") if self.recipients.operation is not None else None
        read = compile_path(self.input.path).get if self.input is not None else None
        combine, fail_fast = self.aggregation.compile(), self.fail_fast
        shared = self.copies(c).shared

        async def run(value: Value, call: Call) -> Value:
            names = find(value) if find is not None else await perform(cast(Step, ask), value, call)
            steps = _chosen(names, tools)
            given = value if read is None else read(value)
            results = await scatter(steps, given, call, fail_fast=fail_fast, min_success=1) if steps else []
            call.root.spend_rows(row_count(results))
            return combine(bounded(results) if shared else results)

        return run

    def copies(self, c: Compiler) -> Copies:
        if self.input is not None and repeats(compile_path(self.input.path)):
            return OFTEN
        return together(c.copies(name) for name in self.allowed)

    def flow(self, given: Schema, f: Flow) -> Schema:
        if self.recipients.path is not None:
            at_path(given, self.recipients.path, f, "recipients", "path")
        elif self.recipients.operation is not None:
            f.operation(self.recipients.operation, given, "recipients", "operation")
        into = given if self.input is None else at_path(given, self.input.path, f, "input", "path")
        results = [f.named(name, into, "allowed", index) for index, name in enumerate(self.allowed)]
        return self.aggregation.flow(array_of(any_of(results)), f, "aggregation")

    def names(self) -> Iterable[tuple[str, Loc]]:
        return [(name, ("allowed", index)) for index, name in enumerate(self.allowed)]


def _chosen(names: Value, tools: Mapping[str, Step]) -> list[Step]:
    if isinstance(names, str):
        names = [names]
    if not is_array(names):
        raise ExecutionFailed(f"Recipients must be a list of names, not {type_name(names)}")
    chosen: dict[str, Step] = {}
    for name in names:
        if not isinstance(name, str) or name not in tools:
            close = nearest(name, tools)
            raise ExecutionFailed(
                f"Recipient {shown(name)} is not allowed", hint=f"did you mean {close!r}?" if close else None
            )
        chosen[name] = tools[name]
    return list(chosen.values())


def recipient_list(
    recipients: object,
    *,
    allowed: list[str | Op[Any, Any]],
    input: object = None,
    aggregate: AggregationOp | list[AggregationOp] | dict[str, Any] | None = None,
    fail_fast: bool = False,
) -> Op[Any, Any]:
    """Send to the tools that the value names: `w.recipient_list(p.channels, allowed=["email", "sms"])`.

    `recipients` is a path to the names, or an operation that gives them. `allowed` are names, tools or compositions.
    """
    parts: list[Op[Any, Any]] = []
    names: list[str] = []
    for one in allowed:
        names.append(one if isinstance(one, str) else tool_name(operand(one, "w.recipient_list")))
        parts += [] if isinstance(one, str) else [one]
    body: dict[str, Any] = {"allowed": names, "failFast": fail_fast}
    if is_path(recipients) or isinstance(recipients, str):
        body["recipients"] = {"path": path_text(recipients)}
    else:
        asked = operand(recipients, "w.recipient_list")
        parts.append(asked)
        body["recipients"] = {"operation": asked.node}
    if input is not None:
        body["input"] = {"path": path_text(input)}
    if aggregate is not None:
        body["aggregation"] = aggregation(aggregate)
    return Op(made(RecipientList, body), parts)


def tool_name(operation: Op[Any, Any]) -> str:
    """Return the name under which an operation is called; patterns written in place have none."""
    name = getattr(operation.node, "name", None)
    if not isinstance(name, str):
        raise TypeError("w.recipient_list allows tools and compositions by name; give a pattern one with w.named(..)")
    return name
