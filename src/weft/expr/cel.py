"""CEL conditions: compiled once, evaluated in order; an error is an error, never a silent false.

The library bounds depth (32), iterations (10,000 an evaluation) and regular expressions (RE2, linear), but not what
`+` builds nor the search of one long text in another: those are estimated from the value before it is evaluated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

from cel_expr_python import cel

from weft.errors import ExecutionFailed, ExpressionInvalid, LimitExceeded, nearest, shown

MAX_BYTES: Final = 8 * 1024
MAX_ITERATIONS: Final = 10_000
MAX_BUILT: Final = 128 * 1024 * 1024
"""Bytes that one condition may build or compare, estimated from above."""

_BOOLEAN: Final = (cel.Type.BOOL, cel.Type.DYN)
_FUNCTIONS: Final = "has size matches contains startsWith endsWith all exists exists_one map filter int double string"
_PLACE: Final = re.compile(r"<input>:(-?\d+):(-?\d+): (.*)")
_UNKNOWN: Final = re.compile(r"undeclared reference to '([^']*)'")
_STATUS: Final = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_NOT_PLAIN: Final = re.compile(r"""\\|//|'''|\"{3}|`""")
_LITERAL: Final = re.compile(r"""'[^'\n]*'|"[^"\n]*\"""")
_MACRO: Final = re.compile(r"\b(?:all|exists|exists_one|map|filter)\b")
_BRACKET: Final = re.compile(rf"{_MACRO.pattern}\s*\(|[()]")
_SEARCH: Final = re.compile(r"\bcontains\b(?!\s*\(\s*''\s*\))")


def compile_condition(text: str, variables: Sequence[str] = ("input",)) -> Callable[[Mapping[str, Any]], bool]:
    """Return one CEL condition as a function of its variables' values."""
    conditions = compile_conditions([text], variables)
    return lambda values: conditions.first(values) is not None


def compile_conditions(texts: Sequence[str], variables: Sequence[str] = ("input",)) -> Conditions:
    """Return CEL conditions that share their variables.

    Raises:
        ExpressionInvalid: a text that is too long, does not compile, or cannot be true or false.
    """
    env = _environment(tuple(variables))
    compiled = [(text, _compile(env, text, variables)) for text in texts]
    return Conditions(env, compiled, {name: _fields(name, texts) for name in variables})


class Conditions:
    """Compiled conditions over the same variables."""

    def __init__(
        self,
        env: cel.Env,
        compiled: list[tuple[str, cel.Expression]],
        fields: Mapping[str, frozenset[str] | None],
    ) -> None:
        self._env = env
        self._compiled = compiled
        self._fields = fields
        self._builders = [builder for text, _ in compiled if (builder := _Builder.of(text)).builds]

    def first(self, values: Mapping[str, Any]) -> int | None:
        """Return the index of the first condition that is true; later ones are not evaluated.

        Raises:
            ExecutionFailed: a condition that ends in an error, or in a value that is neither true nor false.
            LimitExceeded: one that iterates, or builds, too much.
        """
        # The library converts whatever it is given, so it is given only the fields that the texts name.
        needed = {name: _pruned(values[name], fields) for name, fields in self._fields.items() if name in values}
        if self._builders:
            _check_built(self._builders, needed)
        activation = self._env.Activation(needed)
        for index, (text, expression) in enumerate(self._compiled):
            verdict = _evaluate(text, expression, activation)
            if isinstance(verdict, str) and verdict.startswith("Non-CEL value type"):
                activation = self._env.Activation(_plain(needed))
                verdict = _evaluate(text, expression, activation)
            if verdict is True:
                return index
            if verdict is not False:
                raise ExecutionFailed(f"Condition {shown(text)} failed: {verdict}")
        return None


@lru_cache(maxsize=64)
def _environment(variables: tuple[str, ...]) -> cel.Env:
    return cel.NewEnv(variables=dict.fromkeys(variables, cel.Type.DYN))


def _compile(env: cel.Env, text: str, variables: Sequence[str]) -> cel.Expression:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise _invalid(text, "it holds half of a surrogate pair", "CelSyntax", error.start) from None
    if size > MAX_BYTES:
        raise _invalid(text, f"it is longer than {MAX_BYTES} bytes", "CelTooLong")
    try:
        compiled = env.compile(text)
    except RuntimeError as error:
        raise _explained(text, str(error), variables) from None
    if (kind := compiled.return_type()) not in _BOOLEAN:
        raise _invalid(text, f"it gives {kind.name()}, not true or false", "CelNotBool", expected="a boolean")
    return compiled


def _explained(text: str, report: str, variables: Sequence[str]) -> ExpressionInvalid:
    place = _PLACE.search(report)
    reason = _STATUS.sub("", place[3] if place else report)
    position = _offset(text, int(place[1]), int(place[2])) if place else None
    if (unknown := _UNKNOWN.search(reason)) is not None:
        name = unknown[1].split(".")[0]
        start = text.rfind(name, 0, (position or 0) + len(name))
        reason = f"nothing here is called {name}" if len(name) <= 80 else "it names something unknown"
        close = nearest(name, [*variables, *_FUNCTIONS.split()])
        return _invalid(text, reason, "CelUnknownName", max(start, 0), expected=", ".join(variables), suggestion=close)
    code = "CelType" if "no matching overload" in reason else "CelSyntax"
    return _invalid(text, reason if len(reason) <= 160 else reason[:157] + "...", code, position)


def _offset(text: str, line: int, column: int) -> int | None:
    if line < 1 or column < 1:
        return None
    before = text.split("\n")[: line - 1]
    return sum(len(one) + 1 for one in before) + column - 1


def _invalid(text: str, reason: str, code: str, position: int | None = None, **parts: str | None) -> ExpressionInvalid:
    where = "" if position is None else f" at {position}"
    return ExpressionInvalid(
        f"Invalid condition {shown(text)}{where}: {reason}",
        code=code,
        value=text,
        position=position,
        expected=parts.get("expected"),
        suggestion=parts.get("suggestion"),
    )


def _evaluate(text: str, expression: cel.Expression, activation: cel.Activation) -> bool | str:
    """Return the verdict, or the reason why there is none."""
    try:
        result = expression.eval(activation)
    except RuntimeError as error:
        if "Iteration budget" in str(error):
            raise LimitExceeded("CelCost", MAX_ITERATIONS, f"condition {shown(text)} iterates too often") from None
        return _STATUS.sub("", str(error))[:200]
    value = result.value()
    # An error comes back as a value, and its text would pass for true.
    if value is True or value is False:
        return value
    if result.type() == cel.Type.ERROR:
        return _STATUS.sub("", str(value))[:200]
    return f"it gave {result.type().name()}, not true or false"


def _fields(name: str, texts: Iterable[str]) -> frozenset[str] | None:
    """Return the fields of a variable that the texts can reach, or None when that takes the whole value.

    Every occurrence of the name counts, in string literals too, so the answer may be too large but never too small.
    """
    access = re.compile(
        rf"\b{re.escape(name)}\b(?:\s*\.\s*([A-Za-z_]\w*+)(?!\s*\()|\s*\[\s*'([^'\n]*)'\s*\]|\s*\[\s*\"([^\"\n]*)\"\s*\])?",
        re.ASCII,
    )
    reached: set[str] = set()
    for text in texts:
        found = [next((part for part in match.groups() if part is not None), None) for match in access.finditer(text)]
        if None in found or (found and _NOT_PLAIN.search(text)):
            return None
        reached.update(cast("list[str]", found))
    return frozenset(reached)


def _pruned(value: Any, fields: frozenset[str] | None) -> Any:
    if fields is None or not isinstance(value, Mapping):
        return value
    held = cast("Mapping[str, Any]", value)
    return {name: held[name] for name in fields if name in held}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(held) for name, held in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(held) for held in cast("Sequence[Any]", value)]
    return value


@dataclass(frozen=True, slots=True)
class _Builder:
    """What in a text can multiply the size of its input, counted from above."""

    text: str
    sums: int
    macros: int
    nested: int
    searches: int
    items: int

    @staticmethod
    def of(text: str) -> _Builder:
        plain = not _NOT_PLAIN.search(text)
        code = _LITERAL.sub("''", text) if plain else text
        macros = len(_MACRO.findall(code))
        nested = _nesting(code) if plain else macros
        return _Builder(text, code.count("+"), macros, nested, len(_SEARCH.findall(code)), code.count(",") + 1)

    @property
    def builds(self) -> bool:
        return self.sums > 0 or self.searches > 0

    def built(self, longest: int, second: int, items: int) -> float:
        """Return the bytes that the text may build from values no longer than these."""
        items = max(items, self.items)
        rounds = min(MAX_ITERATIONS, max(1, self.macros) * items ** min(self.nested, 14))
        # Each sum adds two values: shared out evenly over ranges, bodies and the rest, sums grow a value the most.
        stages = 2 * self.macros + 1
        growth = math.exp(min(50.0, stages * math.log1p(self.sums / stages)))
        joined = self.sums * (max(longest, len(self.text)) + 16 * items) * growth
        compared = self.searches * longest * growth * second * growth / 64
        return rounds * (joined + compared)


def _nesting(code: str) -> int:
    """Return how many comprehensions stand inside one another at most."""
    opened: list[int] = []
    deepest = 0
    for token in _BRACKET.findall(code):
        if token == ")":
            del opened[-1:]
        else:
            opened.append(token != "(")
            deepest = max(deepest, sum(opened))
    return deepest


def _check_built(builders: Iterable[_Builder], values: Mapping[str, Any]) -> None:
    longest, second, items = _measured(values)
    for builder in builders:
        if builder.built(longest, second, items) > MAX_BUILT:
            what = f"condition {shown(builder.text)} may build too much from texts and lists this long"
            raise LimitExceeded("CelSize", MAX_BUILT, what)


def _measured(values: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the lengths of the longest text, the second longest, and the longest list or object."""
    longest = second = items = 0
    waiting: list[Any] = list(values.values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if len(value) > longest:
                longest, second = len(value), longest
            elif len(value) > second:
                second = len(value)
        elif isinstance(value, (list, tuple, Mapping)):
            held = cast("Sequence[Any]", value)
            items = max(items, len(held))
            waiting.extend(cast("Mapping[str, Any]", value).values() if isinstance(value, Mapping) else held)
    return longest, second, items
