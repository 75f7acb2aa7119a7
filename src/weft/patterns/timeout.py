"""Timeout: end a step that takes too long, and say so or do something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field

from weft.errors import TimedOut, WeftError
from weft.expr.durations import Duration, given_ms
from weft.expr.shapes import any_of
from weft.ir.nodes import Milliseconds
from weft.ir.normalise import made
from weft.ir.operations import Operation
from weft.patterns.contract import Call, Compiler, Flow, Op, Pattern, Pure, Run, Value, operand, perform
from weft.patterns.copies import Copies, either
from weft.patterns.in_time import GRACE, InTime, Late
from weft.ports import Schema

MAX_GRACE_MS = 60_000
A = TypeVar("A")
B = TypeVar("B")


class Timeout(Pattern):
    """The inner operation is cancelled when its time is over; then `fallback` takes its place, if there is one.

    The fallback has the time that is left to the whole. When that ends first, neither it nor `message` is used.
    """

    aliases: ClassVar[Mapping[str, str]] = {"duration": "durationMs", "cancelGrace": "cancelGraceMs"}

    inner: Operation
    duration_ms: Milliseconds
    fallback: Operation | None = None
    message: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    cancel_grace_ms: Annotated[int, Field(ge=0, le=MAX_GRACE_MS)] = round(GRACE * 1000)

    def compile(self, c: Compiler) -> Run | Pure:
        inner = c.branch(self.inner, "inner")
        fallback = None if self.fallback is None else c.branch(self.fallback, "fallback")
        duration_ms, message = self.duration_ms, self.message
        seconds, grace = duration_ms / 1000, self.cancel_grace_ms / 1000

        async def run(value: Value, call: Call) -> Value:
            root = call.root
            limit = root.clock.now() + seconds
            if limit >= call.deadline:
                return await perform(inner, value, call)  # the time of the whole ends first, with an error of its own
            try:
                return await InTime(perform(inner, value, call, until=limit), root, limit, grace)
            except Late as late:
                error = timed_out(duration_ms, root.clock.now() - limit, message)
                error.__cause__ = late.__cause__
            root.signals.count("timeouts")
            if fallback is None:
                call.note(timeout="expired")
                raise error
            call.note(timeout="fallback")
            try:
                result = await perform(fallback, value, call)
            except Exception as failed:
                failed.__cause__ = failed.__cause__ or error
                if isinstance(failed, WeftError):
                    failed.add(cause=error.to_json())
                raise
            root.mark("fallback", True)
            return result

        return run

    def copies(self, c: Compiler) -> Copies:
        return either(c.copies(one) for one in (self.inner, self.fallback) if one is not None)

    def flow(self, given: Schema, f: Flow) -> Schema:
        result = f.operation(self.inner, given, "inner")
        if self.fallback is None:
            return result
        return any_of([result, f.operation(self.fallback, given, "fallback")])


def timed_out(
    duration_ms: int, over: float, message: str | None = None, *, kind: type[TimedOut] = TimedOut
) -> TimedOut:
    """Return the error of work that was not done in its time; `over` is for how many seconds more it was waited for."""
    told = message or f"Timeout after {duration_ms}ms waiting for pattern execution"
    elapsed = duration_ms + round(over * 1000)
    hint = f"limit {duration_ms} ms, elapsed {elapsed} ms; outcome: unknown, it may have done its work"
    return kind(told, hint=hint)


def timeout(
    inner: Op[A, B], duration: Duration | str, *, fallback: Op[Any, Any] | None = None, message: str | None = None
) -> Op[A, B]:
    """End a step that takes too long: `w.timeout(w.tool("search"), w.seconds(5), fallback=w.tool("archive"))`.

    `duration` is a duration with its unit: `w.seconds(5)` or "5s".
    """
    parts = [operand(inner, "w.timeout")]
    body: dict[str, Any] = {"inner": parts[0].node, "durationMs": given_ms(duration, "a timeout")}
    if fallback is not None:
        parts.append(operand(fallback, "w.timeout"))
        body["fallback"] = fallback.node
    if message is not None:
        body["message"] = message
    return Op(made(Timeout, body), parts)
