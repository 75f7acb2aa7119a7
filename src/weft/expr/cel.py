"""CEL conditions: compiled once, evaluated in order; an error is an error, never a silent false.

The library bounds depth (32), iterations (10,000 an evaluation) and regular expressions (RE2, linear), but not what an
iteration costs: `celcost` does, before a condition is evaluated. Rows compared with literals may be 10,000; `map` and
`filter`, which copy their list in each round, end at some 2,000; comparing, searching and matching costs what the size
of the values says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from cel_expr_python import cel

from weft.errors import ExecutionFailed, ExpressionInvalid, LimitExceeded, nearest, shown
from weft.expr.celcost import ADMITTED, FUNCTIONS, MAX_ITERATIONS, Held, Meter, tree_of

MAX_BYTES: Final = 8 * 1024

_Fields = Mapping[str, frozenset[str] | None]
_PLACE: Final = re.compile(r"<input>:(-?\d+):(-?\d+): (.*)")
_UNKNOWN: Final = re.compile(r"undeclared reference to '([^']*)'")
_STATUS: Final = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_NOT_PLAIN: Final = re.compile(r"""\\|//|'''|\"{3}|`""")


def compile_condition(text: str, variables: Sequence[str] = ("input",)) -> Callable[[Mapping[str, Any]], bool]:
    """Return one CEL condition as a function of its variables' values."""
    conditions = compile_conditions([text], variables)
    return lambda values: conditions.first(values) is not None


def compile_conditions(texts: Sequence[str], variables: Sequence[str] = ("input",)) -> Conditions:
    """Return CEL conditions that share their variables.

    Raises:
        ExpressionInvalid: a text that is too long, does not compile, or cannot be true or false.
    """
    return _conditions(tuple(texts), tuple(variables))


# A document's conditions are compiled when they are read, to find what is wrong, and again when a plan is made.
@lru_cache(maxsize=4096)
def _conditions(texts: tuple[str, ...], variables: tuple[str, ...]) -> Conditions:
    env = _environment(variables)
    compiled = [(text, _compile(env, text, variables)) for text in texts]
    return Conditions(env, compiled, {name: _fields(name, texts) for name in variables})


class Conditions:
    """Compiled conditions over the same variables."""

    def __init__(self, env: cel.Env, compiled: list[tuple[str, cel.Expression]], fields: _Fields) -> None:
        self._env, self._compiled, self._fields = env, compiled, fields
        # What stays cheap on whatever a call may bring is not looked at again.
        trees = [tree_of(cast("Any", expression).serialize()) for _, expression in compiled]
        self._costly = [tree if Meter(dict.fromkeys(fields, ADMITTED)).excess(tree) else None for tree in trees]

    def first(self, values: Mapping[str, Any]) -> int | None:
        """Return the index of the first condition that is true; later ones are not evaluated.

        Raises:
            ExecutionFailed: a condition that ends in an error, or in a value that is neither true nor false.
            LimitExceeded: one that would iterate, build or work too much.
        """
        # The library converts whatever it is given, so it is given only the fields that the texts name.
        needed = {name: _pruned(values[name], fields) for name, fields in self._fields.items() if name in values}
        activation = self._env.Activation(needed)
        for index, (text, expression) in enumerate(self._compiled):
            tree = self._costly[index]
            if tree and (excess := Meter({name: Held(held, False) for name, held in needed.items()}).excess(tree)):
                raise LimitExceeded(*excess, f"condition {shown(text)} may need too much on values this large")
            verdict = _evaluate(text, expression, activation)
            if isinstance(verdict, str) and verdict.startswith("Non-CEL value type"):
                activation = self._env.Activation(_plain(needed))
                verdict = _evaluate(text, expression, activation)
            if verdict is True:
                return index
            if verdict is not False:
                missing = verdict.startswith("Key not found")
                hint = "ask has(..) before you read a field that may not be there" if missing else None
                raise ExecutionFailed(f"Condition {shown(text)} failed: {verdict}", hint=hint)
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
    if (kind := compiled.return_type()) not in (cel.Type.BOOL, cel.Type.DYN):
        raise _invalid(text, f"it gives {kind.name()}, not true or false", "CelNotBool", expected="a boolean")
    return compiled


def _explained(text: str, report: str, variables: Sequence[str]) -> ExpressionInvalid:
    place = _PLACE.search(report)
    reason = _STATUS.sub("", place[3] if place else report)
    line, column = (int(place[1]), int(place[2])) if place else (0, 0)
    position = sum(len(one) + 1 for one in text.split("\n")[: line - 1]) + column - 1 if min(line, column) > 0 else None
    if (unknown := _UNKNOWN.search(reason)) is not None:
        name = unknown[1].split(".")[0]
        start = text.rfind(name, 0, (position or 0) + len(name))
        reason = f"nothing here is called {name}" if len(name) <= 80 else "it names something unknown"
        close = nearest(name, [*variables, *FUNCTIONS.split()])
        return _invalid(text, reason, "CelUnknownName", max(start, 0), expected=", ".join(variables), suggestion=close)
    code = "CelType" if "no matching overload" in reason else "CelSyntax"
    return _invalid(text, reason if len(reason) <= 160 else reason[:157] + "...", code, position)


def _invalid(text: str, reason: str, code: str, position: int | None = None, **parts: str | None) -> ExpressionInvalid:
    where = "" if position is None else f" at {position}"
    expected, close = parts.get("expected"), parts.get("suggestion")
    message = f"Invalid condition {shown(text)}{where}: {reason}"
    return ExpressionInvalid(message, code=code, value=text, position=position, expected=expected, suggestion=close)


def _evaluate(text: str, expression: cel.Expression, activation: cel.Activation) -> bool | str:
    """Return the verdict, or the reason why there is none."""
    try:
        result = expression.eval(activation)
    except RuntimeError as error:
        if "Iteration budget" in str(error):
            raise LimitExceeded("CelCost", MAX_ITERATIONS, f"condition {shown(text)} iterates too often") from None
        return _STATUS.sub("", str(error))[:200]
    kind = result.type()
    # An error comes back as a value, and its text would pass for true; a list would be converted, however long.
    if kind == cel.Type.BOOL:
        return bool(result.value())
    if kind == cel.Type.ERROR:
        return _STATUS.sub("", str(result.value()))[:200]
    return f"it gave {kind.name()}, not true or false"


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
