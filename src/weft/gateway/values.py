"""Values of calls: arguments and results held against their schemas, and secrets among them kept out of traces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from weft.errors import ExecutionFailed, ExpressionInvalid, LimitExceeded
from weft.expr.marks import marked_names
from weft.expr.schemas import SchemaCheck, SchemaProblem, compile_schema
from weft.gateway.results import WARNINGS
from weft.ports import Schema, is_array, is_object
from weft.redaction import WHOLE, is_secret_name, redact, secrets_in
from weft.run.trace import Trace
from weft.telemetry.logs import Log
from weft.telemetry.traces import Spans

Checking = Literal["off", "ignore", "warn", "error"]
MOST = 20
"""Problems that are told of one value."""
LOGGED = 5
"""Places that a line of the log names."""
PAUSE = 60.0
"""Seconds between two such lines about the same tool."""

_log = Log("values")
_AFTER_VALUE: Mapping[str, str] = {
    "type": "is not of type",
    "pattern": "does not match ",
    "enum": "is not one of ",
    "minimum": "is less than ",
    "maximum": "is greater than ",
    "exclusiveMinimum": "is less than ",
    "exclusiveMaximum": "is greater than ",
    "multipleOf": "is not a multiple of ",
    "minLength": "is shorter than ",
    "maxLength": "is longer than ",
    "format": "is not a ",
    "minItems": "has less than ",
    "maxItems": "has more than ",
    "minProperties": "has less than ",
    "maxProperties": "has more than ",
    "uniqueItems": "has non-unique elements",
    "anyOf": "is not valid under any of the schemas",
    "oneOf": "is not valid under ",
}
"""What follows the value in the sentence about a keyword; beyond it, only the schema speaks."""
_WITHOUT_VALUE = frozenset({"required", "const", "limit"})
NOTHING = SchemaProblem("", "there is no structuredContent", "required")


@dataclass(slots=True)
class Side:
    """One side of a tool, arguments or results: its schema, compiled when it is first needed, and what is done."""

    schema: Schema
    policy: Literal["warn", "error"]
    noun: str
    shows_values: bool
    _ready: bool = False
    _check: SchemaCheck | None = None
    _marked: frozenset[str] = frozenset()
    _said: float = field(default=float("-inf"))
    _unsaid: int = 0

    def misfits(self, value: Any) -> list[SchemaProblem]:
        """Return why a value does not fit; nothing when it does, or when the schema itself is none."""
        if not self._ready:
            self._compile()
        if self._check is None:
            return []
        try:
            return self._check.problems(value)[:MOST]
        except LimitExceeded as error:
            return [SchemaProblem("", f"cannot be checked: {error.message}", "limit")]

    def told(self, misfits: Iterable[SchemaProblem], value: Any) -> list[str]:
        """Return them as sentences, each with its place."""
        return [f"{one.pointer or f'the {self.noun}'}: {self._sentence(one, value)}" for one in misfits]

    def log(self, tool: str, misfits: Sequence[SchemaProblem]) -> None:
        """Say where values did not fit, and no value; not more often than somebody can read."""
        now = time.monotonic()
        if now - self._said < PAUSE:
            self._unsaid += 1
            return
        places = [f"{one.pointer or '/'} ({one.keyword})" for one in islice(misfits, LOGGED)]
        more = {"unsaid": self._unsaid} if self._unsaid else {}
        _log.warning(f"the {self.noun} of a call did not fit", tool=tool, at=places, **more)
        self._said, self._unsaid = now, 0

    def _compile(self) -> None:
        self._ready = True
        self._marked = marked_names(self.schema)
        try:
            self._check = compile_schema(self.schema)
        except ExpressionInvalid as error:
            _log.warning(f"the {self.noun} of a tool cannot be checked: {error.message}")

    def _sentence(self, problem: SchemaProblem, value: Any) -> str:
        shows = self.shows_values and not _may_hold_secret(problem.pointer, value, self._marked)
        return problem.message if shows else _expected(problem)


@dataclass(frozen=True, slots=True)
class Values:
    """What is done about the arguments and the results of one tool that do not fit its schemas."""

    input: Side | None
    output: Side | None

    @classmethod
    def of(
        cls, input_schema: Schema | None, output_schema: Schema | None, input_policy: Checking, output_policy: Checking
    ) -> Values | None:
        """Return it for a tool, or None when there is nothing to check; a schema is compiled when it is first used."""
        given = _side(input_schema, input_policy, "arguments", shows_values=True)
        told = _side(output_schema, output_policy, "result", shows_values=False)
        return None if given is None and told is None else cls(given, told)

    def arguments(self, arguments: Any) -> list[str]:
        """Return in what ways arguments do not fit."""
        side = self.input
        return [] if side is None else side.told(side.misfits(arguments), arguments)

    def result(self, structured: Any) -> list[str]:
        """Return in what ways a structured result does not fit; without what stands in it."""
        side = self.output
        return [] if side is None else side.told(side.misfits(structured), structured)

    def accept(self, tool: str, arguments: Any) -> list[str]:
        """Return what there is to be said of arguments that may go on; mostly nothing.

        Raises:
            ExecutionFailed: they do not fit, and must (InvalidArguments).
        """
        side = self.input
        if side is None or not (misfits := side.misfits(arguments)):
            return []
        told = f"the arguments do not fit: {'; '.join(side.told(misfits, arguments))}"
        if side.policy == "error":
            raise ExecutionFailed(told, code="InvalidArguments")
        side.log(tool, misfits)
        return [told]

    def deliver(self, tool: str, result: dict[str, Any], warnings: Sequence[str] = ()) -> dict[str, Any]:
        """Return a tool's result with what there is to be said of it; `warnings` is what `accept` gave.

        Raises:
            ExecutionFailed: it does not fit, and must (InvalidOutput).
        """
        side = self.output
        if side is not None and result.get("isError") is not True and result.get("resultType") != "input_required":
            warnings = [*warnings, *_of_result(side, tool, result)]
        return warned(result, warnings)


def _side(schema: Schema | None, policy: Checking, noun: str, *, shows_values: bool) -> Side | None:
    if policy in ("off", "ignore") or not schema or schema == {"type": "object"}:
        return None
    return Side(schema, "error" if policy == "error" else "warn", noun, shows_values)


def _of_result(side: Side, tool: str, result: Mapping[str, Any]) -> list[str]:
    value = result.get("structuredContent")
    misfits = side.misfits(value) if "structuredContent" in result else [NOTHING]
    if not misfits:
        return []
    told = f"the result is not what the outputSchema says: {'; '.join(side.told(misfits, value))}"
    if side.policy == "error":
        raise ExecutionFailed(told, code="InvalidOutput", hint="mend the tool, or its outputSchema")
    side.log(tool, misfits)
    return [told]


def warned(result: dict[str, Any], warnings: Sequence[str]) -> dict[str, Any]:
    """Return a result with more warnings in its `_meta`; the same one when there are none."""
    if not warnings:
        return result
    meta: object = result.get("_meta")
    kept: dict[str, Any] = meta if is_object(meta) else {}
    before: object = kept.get(WARNINGS)
    return {**result, "_meta": {**kept, WARNINGS: [*(before if is_array(before) else ()), *warnings]}}


def _expected(problem: SchemaProblem) -> str:
    """Return what a problem says of the schema, and nothing of the value."""
    if problem.keyword in _WITHOUT_VALUE:
        return problem.message
    mark, text = _AFTER_VALUE.get(problem.keyword), problem.message
    if text[120:123] == "...":
        text = text[123:]  # Of a long sentence the middle is left out, and before that is the value.
    _, found, rest = text.rpartition(mark) if mark is not None else ("", "", "")
    return f"{found}{rest}" if found else f"is not what {problem.keyword!r} allows"


def _may_hold_secret(pointer: str, value: Any, marked: frozenset[str]) -> bool:
    """Tell whether a secret may be in what stands at a place: it, or something above it, has such a name or mark."""
    if WHOLE in marked:
        return True
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if is_object(value) and name in value:
            if name in marked or is_secret_name(name):
                return True
            value = value[name]
        elif is_array(value) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return True
    return is_object(value) or is_array(value)


def secrets_of(arguments: Any, schema: Schema | None) -> tuple[str, ...]:
    """Return the secrets among arguments, by their names and by the marks of their schema."""
    return secrets_in(arguments, marked_names(schema))


def without(spans: Spans | None, secrets: tuple[str, ...]) -> Spans | None:
    """Return the same spans, whose errors do not show these secrets; what a tool says may quote its arguments."""
    if spans is None or not secrets:
        return spans
    made: Callable[[], Trace | None] = spans

    def discreet() -> Trace | None:
        trace = made()
        if trace is not None:
            for _, span in trace.root.walk():
                span.error = None if span.error is None else redact(span.error, secrets)
        return trace

    return discreet
