"""Scatter-gather: give one value to several operations at the same moment and make one answer of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from weft.errors import shown
from weft.expr.durations import Duration, given_ms
from weft.expr.shapes import any_of, array_of
from weft.ir.nodes import Milliseconds, refuse
from weft.ir.normalise import made
from weft.ir.operations import Operation
from weft.patterns.aggregation import FLATTEN, Aggregation, AggregationOp, aggregation
from weft.patterns.contract import Call, Compiler, Flow, Op, Pattern, Pure, Run, Value, operand
from weft.patterns.copies import Copies, bounded, together
from weft.patterns.fanout import row_count, scatter
from weft.ports import Schema, is_array, is_object

MAX_TARGETS = 1000


class ScatterGather(Pattern):
    """All targets get the same value; what fails or is late is dropped with a warning, unless `failFast`."""

    aliases: ClassVar[Mapping[str, str]] = {"aggregate": "aggregation", "timeout": "timeoutMs"}

    targets: Annotated[list[Operation], Field(min_length=1)]
    aggregation: Aggregation = Aggregation.model_construct(
        ops=[AggregationOp.model_construct({"flatten"}, flatten=True)]
    )
    timeout_ms: Milliseconds | None = None
    fail_fast: bool = False
    min_success: Annotated[int, Field(ge=0)] = 1

    @classmethod
    def spell(cls, value: Any) -> Any:
        """Refuse too many targets before any of them is read."""
        targets = value.get("targets") if is_object(value) else None
        if is_array(targets) and (count := len(targets)) > MAX_TARGETS:
            told, most = f"{count} targets", f"at most {MAX_TARGETS} targets"
            raise refuse("FanOutLimit", told, value=told, expected=most, at=("targets",))
        return value

    @model_validator(mode="after")
    def _possible(self) -> ScatterGather:
        if self.min_success > len(self.targets):
            told = f"minSuccess {self.min_success} of {len(self.targets)} targets"
            most = f"at most {len(self.targets)}"
            raise refuse("Impossible", told, value=shown(self.min_success), expected=most, at=("minSuccess",))
        return self

    def compile(self, c: Compiler) -> Run | Pure:
        steps = [c.branch(target, f"target_{index}") for index, target in enumerate(self.targets)]
        combine = self.aggregation.compile()
        timeout = self.timeout_ms / 1000 if self.timeout_ms is not None else None
        fail_fast, min_success = self.fail_fast, self.min_success
        shared = self.copies(c).shared

        async def run(value: Value, call: Call) -> Value:
            results = await scatter(steps, value, call, fail_fast=fail_fast, min_success=min_success, timeout=timeout)
            call.root.spend_rows(row_count(results))
            return combine(bounded(results) if shared else results)

        return run

    def copies(self, c: Compiler) -> Copies:
        return together(c.copies(target) for target in self.targets)

    def flow(self, given: Schema, f: Flow) -> Schema:
        results = [f.operation(target, given, "targets", index) for index, target in enumerate(self.targets)]
        return self.aggregation.flow(array_of(any_of(results)), f, "aggregation")


def scatter_gather(
    *targets: Op[Any, Any] | list[Op[Any, Any]],
    aggregate: AggregationOp | list[AggregationOp] | dict[str, Any] | None = None,
    timeout: Duration | str | None = None,
    fail_fast: bool = False,
    min_success: int | None = None,
) -> Op[Any, Any]:
    """Give the value to every target at the same moment: `w.scatter_gather(a, b, aggregate=[w.flatten()])`.

    `timeout` is a duration with its unit: `w.seconds(5)` or "5s".
    """
    given = [one for item in targets for one in (item if isinstance(item, list) else [item])]
    parts = [operand(one, "w.scatter_gather") for one in given]
    body: dict[str, Any] = {
        "targets": [part.node for part in parts],
        "aggregation": aggregation(FLATTEN if aggregate is None else aggregate),
        "failFast": fail_fast,
    }
    if timeout is not None:
        body["timeoutMs"] = given_ms(timeout, "a timeout")
    if min_success is not None:
        body["minSuccess"] = min_success
    return Op(made(ScatterGather, body), parts)
