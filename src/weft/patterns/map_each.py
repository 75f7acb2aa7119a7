"""Map each: do the same to every item of a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from weft.errors import BudgetSpent, DeadlineExceeded, WeftError
from weft.expr.shapes import ANY, any_of, array_of, items_of
from weft.ir.normalise import made
from weft.ir.operations import Operation
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
    require_list,
)
from weft.patterns.copies import Copies, bounded, guarded
from weft.patterns.fanout import all_or_error
from weft.patterns.flows import takes_array
from weft.ports import Schema

A = TypeVar("A")
B = TypeVar("B")
OnError = Literal["fail", "skip", "null"]
SKIPPED = object()
MANY_STEPS = 16
"""Rows on which more is done than this are looked after: between two of them the deadline is asked for."""


class MapEach(Pattern):
    """Items are worked on at the same moment, `maxConcurrency` of them, and stay in order."""

    inner: Operation
    max_concurrency: Annotated[int, Field(ge=1, le=64)] = 16
    on_error: OnError = "fail"

    def compile(self, c: Compiler) -> Run | Pure:
        step = c.branch(self.inner, "inner")
        shared = c.copies(self.inner).shared
        if step.pure is not None and self.on_error == "fail" and step.pure.steps <= MANY_STEPS:
            loop = _loop(step.pure)
            return Pure(guarded(loop) if shared else loop, steps=step.pure.steps)
        limit, on_error = 1 if step.pure is not None else self.max_concurrency, self.on_error

        async def run(value: Value, call: Call) -> Value:
            rows = require_list(value, "MapEach")
            call.root.spend_rows(len(rows))
            if step.kind == "tool":
                call.root.need_calls(len(rows))
            results: list[Value] = [None] * len(rows)
            pending = iter(enumerate(rows))
            workers = [_work(step, pending, results, call, on_error) for _ in range(min(limit, len(rows)))]
            await all_or_error(workers)
            if on_error == "skip":
                results = [result for result in results if result is not SKIPPED]
            return bounded(results) if shared else results

        return run

    def copies(self, c: Compiler) -> Copies:
        return c.copies(self.inner)

    def flow(self, given: Schema, f: Flow) -> Schema:
        if not takes_array(given, "MapEach", f):
            return ANY
        result = f.operation(self.inner, items_of(given), "inner")
        return array_of(any_of([result, {"type": "null"}]) if self.on_error == "null" else result)


def _loop(pure: Pure) -> Callable[[Value], Value]:
    """Return the loop over data that only moves: no task, no await, and no span a row."""
    fn, rows = pure.fn, pure.rows
    if rows is not None:
        return lambda value: rows(require_list(value, "MapEach"))
    return lambda value: [fn(row) for row in require_list(value, "MapEach")]


async def _work(step: Step, pending: Any, results: list[Value], call: Call, on_error: OnError) -> None:
    """Take rows until there are none: a worker costs one task, where a task a row would cost thousands."""
    for index, row in pending:
        try:
            if step.pure is None:
                results[index] = await perform(step, row, call, f"[{index}]")
            elif call.root.clock.now() < call.deadline:
                results[index] = step.pure.fn(row)
            else:
                raise DeadlineExceeded("the call's deadline has passed")
        except BudgetSpent:
            raise
        except WeftError as error:
            if on_error == "fail":
                raise
            call.root.warn(f"Item {index} failed: {error}")
            results[index] = SKIPPED if on_error == "skip" else None


def map_each(
    inner: Op[A, B], *, max_concurrency: int | None = None, on_error: OnError | None = None
) -> Op[Sequence[A], list[B]]:
    """Do the same to every item of a list: `w.map_each(w.tool("fetch"), max_concurrency=8)`."""
    body: dict[str, Any] = {"inner": operand(inner, "w.map_each").node}
    if max_concurrency is not None:
        body["maxConcurrency"] = max_concurrency
    if on_error is not None:
        body["onError"] = on_error
    return Op(made(MapEach, body), [inner])
