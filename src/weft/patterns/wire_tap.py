"""Wire tap: let others see a value that passes by, without delaying or failing the call."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from weft.ir.normalise import made
from weft.ir.operations import Operation
from weft.patterns.contract import Call, Compiler, Flow, Op, Pattern, Pure, Run, Step, Value, operand, perform
from weft.patterns.copies import Copies
from weft.ports import Schema

TapPoint = Literal["before", "after", "both"]
A = TypeVar("A")
B = TypeVar("B")


class WireTap(Pattern):
    """Taps see the value before the inner operation, its result after it, or both; what they give is not used."""

    inner: Operation
    taps: Annotated[list[Operation], Field(min_length=1)]
    tap_point: TapPoint = "after"

    def compile(self, c: Compiler) -> Run | Pure:
        inner = c.branch(self.inner, "inner")
        taps = [c.branch(tap, f"tap_{index}") for index, tap in enumerate(self.taps)]
        before, after = self.tap_point != "after", self.tap_point != "before"

        async def run(value: Value, call: Call) -> Value:
            if before:
                _send(taps, value, call)
            result = await perform(inner, value, call)
            if after:
                _send(taps, result, call)
            return result

        return run

    def copies(self, c: Compiler) -> Copies:
        return c.copies(self.inner)

    def flow(self, given: Schema, f: Flow) -> Schema:
        result = f.operation(self.inner, given, "inner")
        for index, tap in enumerate(self.taps):
            if self.tap_point != "after":
                f.operation(tap, given, "taps", index)
            if self.tap_point != "before":
                f.operation(tap, result, "taps", index)
        return result


def _send(taps: list[Step], value: Value, call: Call) -> None:
    for tap in taps:
        _detach(tap, value, call.apart())


def _detach(tap: Step, value: Value, call: Call) -> None:
    dropped = f"Tap '{tap.name}' was dropped: too much was under way"
    call.root.detach(_tapped(tap, value, call), lambda: call.root.warn(dropped))


async def _tapped(tap: Step, value: Value, call: Call) -> None:
    try:
        async with call.root.clock.timeout_at(call.deadline):
            await perform(tap, value, call)
    except TimeoutError:
        call.root.warn(f"Tap '{tap.name}' took too long")
    except Exception as error:
        call.root.warn(f"Tap '{tap.name}' failed: {error}")


def wire_tap(inner: Op[A, B], *taps: Op[Any, Any], at: TapPoint = "after") -> Op[A, B]:
    """Let taps see what passes: `w.wire_tap(w.tool("pay"), w.tool("audit"), at="both")`."""
    parts = [operand(inner, "w.wire_tap"), *(operand(tap, "w.wire_tap") for tap in taps)]
    body = {"inner": parts[0].node, "taps": [tap.node for tap in parts[1:]], "tapPoint": at}
    return Op(made(WireTap, body), parts)
