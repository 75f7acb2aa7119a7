"""CEL conditions: compiled once, evaluated in order; an error is an error, never a silent false.

The library bounds depth (32), iterations (10,000 an evaluation) and regular expressions (RE2, linear), but not what an
iteration costs. So the checked expression is walked with the value first, and what each node may cost at most is added
up, times the rounds of the loops around it. Rows compared with literals may be 10,000; `map` and `filter`, which copy
their list in each round, end at some 2,000; comparing, searching and matching costs what the size of the values says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from cel_expr_python import cel

from weft.errors import ExecutionFailed, ExpressionInvalid, LimitExceeded, nearest, shown

MAX_BYTES: Final = 8 * 1024
MAX_ITERATIONS: Final = 10_000
MAX_BUILT: Final = 128 * 1024 * 1024
"""Bytes that one condition may build, estimated from above."""
SECONDS: Final = 0.1
"""CPU time that one condition may take, estimated from above."""

_Fields = Mapping[str, frozenset[str] | None]
_FUNCTIONS: Final = "has size matches contains startsWith endsWith all exists exists_one map filter int double string"
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
    env = _environment(tuple(variables))
    compiled = [(text, _compile(env, text, variables)) for text in texts]
    return Conditions(env, compiled, {name: _fields(name, texts) for name in variables})


class Conditions:
    """Compiled conditions over the same variables."""

    def __init__(self, env: cel.Env, compiled: list[tuple[str, cel.Expression]], fields: _Fields) -> None:
        self._env, self._compiled, self._fields = env, compiled, fields
        # An Any of a CheckedExpr. What stays cheap on whatever a call may bring is not looked at again.
        messages = [dict(_wire(cast("Any", expression).serialize()))[2] for _, expression in compiled]
        trees = [_tree(dict(_wire(message))[4]) for message in messages]
        self._costly = [tree if _Meter(dict.fromkeys(fields, _ADMITTED)).excess(tree) else None for tree in trees]

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
            if tree and (excess := _Meter({name: _Held(held, False) for name, held in needed.items()}).excess(tree)):
                raise LimitExceeded(*excess, f"condition {shown(text)} may need too much on values this large")
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
        close = nearest(name, [*variables, *_FUNCTIONS.split()])
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


class _Size(NamedTuple):
    """How large a value is at most: nodes, bytes of text, bytes of the longest one, items, items of any list in it."""

    nodes: float = 1
    text: float = 0
    longest: float = 0
    own: float = 0
    deep: float = 0


class _Held(NamedTuple):
    """A value of the input, or any one thing inside it."""

    value: Any
    inside: bool


_Value = _Size | _Held
_Node = tuple[int, tuple[str, ...], tuple["_Node", ...]]
"""The kind of an expression (its field number in cel.expr.Expr), its names or text, its parts."""
_CONST, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _LOOP = range(3, 10)
_NAMES: Final = {_CONST: (6, 7), _IDENT: (1,), _SELECT: (2,), _CALL: (2,), _STRUCT: (1,), _LOOP: (1, 3)}
_PARTS: Final = {_SELECT: (1,), _CALL: (1, 3), _LIST: (1,), _STRUCT: (3, 4), _LOOP: (2, 4, 5, 6, 7)}
_SCALAR: Final = _Size()
_ADMITTED: Final = _Size(100_000, 8 << 20, 8 << 20, 100_000, 100_000)
_FREE: Final = frozenset({"_&&_", "_||_", "!_", "-_", "_-_", "_*_", "_/_", "_%_", "@not_strictly_false", "type"})
_COMPARISONS: Final = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
_BY_BYTE: Final = {
    "size": 1,
    "string": 1,
    "bytes": 1,
    "timestamp": 10,
    "duration": 10,
    "startsWith": 0.05,
    "endsWith": 0.05,
    "_[_]": 0.05,
}
_SCALARS: Final = {*_FREE, *_COMPARISONS, *_FUNCTIONS.split(), "@in", "uint", "bool"} - {"string"}
_REPEAT: Final = re.compile(r"\{(\d{0,4}),?(\d{0,4})")
_PLAIN: Final = re.compile(r"\^?[\w\s@:/,;!#%&~<>='-]*\$?", re.ASCII)
_NODE, _COMPARED, _COPIED = 40, 120, 40
"""Nanoseconds for any node, for one that is compared, for an item that is copied."""


def _wire(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a protobuf message that have a length: their numbers and contents."""
    at = 0
    while at < len(data):
        (tag, at), size = _varint(data, at), {1: 8, 5: 4}.get(data[at] & 7, 0)
        if not size:
            size, at = _varint(data, at)
        if tag & 7 == 2:
            yield tag >> 3, data[at : at + size]
        at += size if tag & 7 else 0


def _varint(data: bytes, at: int) -> tuple[int, int]:
    end = next(place for place in range(at, len(data)) if data[place] < 128) + 1
    return sum((byte & 127) << 7 * place for place, byte in enumerate(data[at:end])), end


def _tree(message: bytes) -> _Node:
    kind, body = next(_wire(message))
    fields = list(_wire(body))
    names = tuple(str(value, errors="replace") for field, value in fields if field in _NAMES.get(kind, ()))
    if kind == _STRUCT:
        fields = [part for field, entry in fields if field == 2 for part in _wire(entry)]
    return kind, names, tuple(_tree(value) for field, value in fields if field in _PARTS.get(kind, ()))


class _Meter:
    """Adds up what the evaluation of a tree costs at most."""

    def __init__(self, variables: Mapping[str, _Value]) -> None:
        self._variables = variables
        self._measured: dict[tuple[int, bool], tuple[_Size, _Held]] = {}
        self._work = self._built = 0.0

    def excess(self, tree: _Node) -> tuple[str, float] | None:
        """Return the limit that a tree may exceed."""
        self._walk(tree, self._variables, 1)
        limits = ("CelSize", MAX_BUILT, self._built), ("CelCost", SECONDS, self._work / 1e9)
        return next(((name, limit) for name, limit, used in limits if not used <= limit), None)

    def _walk(self, node: _Node, known: Mapping[str, _Value], times: float) -> _Value:
        """Count a node that runs so many times, and return how large its value is."""
        kind, names, parts = node
        self._work += times * _NODE
        if kind == _CONST:
            size = len("".join(names).encode())
            return _Size(1, size, size)
        if kind == _IDENT:
            # A leading dot names a variable even where a comprehension has the same name.
            return (self._variables if names[0].startswith(".") else known).get(names[0].removeprefix("."), _ADMITTED)
        if kind == _LOOP:
            return self._loop(node, known, times)
        values = [self._walk(part, known, times) for part in parts]
        if kind == _SELECT:
            return _inner(values[0], names)
        if kind == _CALL:
            return self._call(names[0], parts, values, times)
        size = _joined(map(self._size, values), len(values))
        # A message of protobuf, which has a name, converts what it is given.
        self._work += times * (10 * (_COMPARED * size.nodes + size.text) if names else _COMPARED * size.own)
        self._built += times * 24 * size.own
        return size

    def _loop(self, node: _Node, known: Mapping[str, _Value], times: float) -> _Value:
        _, (item, total), (over, start, condition, step, result) = node
        values = self._walk(over, known, times)
        rounds = max(1, min(MAX_ITERATIONS, self._own(values)))
        runs = min(MAX_ITERATIONS, times * rounds)
        # A list that grows is half as long as in the end, on average.
        grows = start[0] == _LIST
        inside = {**known, item: _inner(values), total: _Size(0, own=rounds / 2) if grows else _SCALAR}
        self._walk(condition, inside, runs)
        size = self._size(self._walk(step, inside, runs))
        grown = _Size(rounds * size.nodes, rounds * size.text, size.longest, rounds, max(rounds, size.deep))
        return self._walk(result, {**known, total: grown if grows else _SCALAR}, times)

    def _call(self, name: str, parts: Sequence[_Node], values: list[_Value], times: float) -> _Value:
        if name in ("_?_:_", "dyn"):
            return values[0] if name == "dyn" else _Size(*map(max, *map(self._size, values[-2:])))
        if name == "_+_":
            sizes = [self._size(value) for value in values]
            size = _joined(sizes, sum(size.own for size in sizes))
            # Adding to a list copies its items, not what they hold.
            text = 0 if any(part[0] == _LIST for part in parts) else size.text
            self._work += times * (_COPIED * size.own + 0.5 * text)
            self._built += times * (24 * size.own + text)
            return size._replace(longest=sum(size.longest for size in sizes))
        self._work += 0 if name in _FREE else times * self._cost(name, parts, values)
        if name == "_[_]":
            return _inner(values[0], parts[1][1] if parts[1][0] == _CONST else ())
        own = 0 if name in _BY_BYTE else MAX_BUILT
        return _SCALAR if name in _SCALARS else _joined([_Size(1, 64, 64), *map(self._size, values)], own)

    def _cost(self, name: str, parts: Sequence[_Node], values: list[_Value]) -> float:
        """Return the nanoseconds that a call takes, by what it is given."""
        small = min((one for one in values if isinstance(one, _Size)), default=_ADMITTED)
        if name in _COMPARISONS:
            sizes = [small] if small.nodes <= 1 else [self._size(value) for value in values]
            return _COMPARED * min(size.nodes for size in sizes) + 0.05 * min(size.text for size in sizes)
        if name == "@in":
            if small is values[0] and small.nodes <= 1:
                return self._own(values[1]) * (_COMPARED + 0.05 * small.text)
            return _COMPARED * self._size(values[1]).nodes + 0.05 * self._size(values[1]).text
        whole = [value.value if isinstance(value, _Held) and not value.inside else None for value in values]
        texts = [0 if _children(one) else self._size(value).longest for one, value in zip(whole, values, strict=True)]
        if name == "contains":
            return _COMPARED + texts[0] * (5 + 0.02 * texts[1])
        if name == "matches":
            pattern = "".join(parts[1][1]) if parts[1][0] == _CONST else whole[1]
            return _matching(pattern, texts[0]) if isinstance(pattern, str) else 1e9 * texts[1]
        return _COMPARED + _BY_BYTE.get(name, 10) * sum(texts)

    def _own(self, value: _Value) -> float:
        if isinstance(value, _Size) or value.inside:
            return self._size(value).own
        return len(value.value) if _children(value.value) else 0

    def _size(self, value: _Value) -> _Size:
        if isinstance(value, _Size):
            return value
        key = (id(value.value), value.inside)
        if key not in self._measured:
            sizes = map(_measure, _children(value.value) if value.inside else [value.value])
            self._measured[key] = _Size(*map(max, zip(_SCALAR, *set(sizes), strict=True))), value
        return self._measured[key][0]


def _inner(value: _Value, name: tuple[str, ...] = ()) -> _Value:
    """Return what a field, or any one item, of a value may be."""
    if isinstance(value, _Size):
        return value._replace(own=value.deep)
    held, inside = value
    if inside or not name or not isinstance(held, Mapping):
        return _Held(held, True)
    fields = cast("Mapping[str, Any]", held)
    return _Held(fields[name[0]], False) if name[0] in fields else _SCALAR


def _joined(values: Iterable[Any], own: float) -> _Size:
    """Return the size of what holds these values, or values of these sizes."""
    nodes, text, longest, deep = 1.0, 0.0, 0.0, own
    for value in values:
        nodes += 1
        if isinstance(value, str):
            size = len(value) if value.isascii() else 4 * len(value)
            text, longest = text + size, max(longest, size)
        elif value is not None and not isinstance(value, (int, float)):
            size = value if isinstance(value, _Size) else _measure(value)
            nodes, text = nodes + size.nodes - 1, text + size.text
            longest, deep = max(longest, size.longest), max(deep, size.deep)
    return _Size(nodes, text, longest, own, deep)


def _measure(value: Any) -> _Size:
    if isinstance(value, (str, bytes)):
        return _Size(1, 4 * len(value), 4 * len(value)) if not value.isascii() else _Size(1, len(value), len(value))
    children = _children(value)
    return _joined(children, len(children)) if children else _SCALAR


def _children(value: Any) -> Sequence[Any]:
    if isinstance(value, (list, tuple)):
        return cast("Sequence[Any]", value)
    if value is None or isinstance(value, (str, int, float)) or not isinstance(value, Mapping):
        return ()
    return [*cast("Mapping[Any, Any]", value), *cast("Mapping[Any, Any]", value).values()]


def _matching(pattern: str, size: float) -> float:
    """Return the nanoseconds of compiling a pattern of RE2, building its automaton, and running it at its slowest."""
    repeats = [max(int(low or 1), int(high or 1)) for low, high in _REPEAT.findall(pattern)]
    copies = min(1000, math.prod(count + 1 for count in repeats)) if "(" in pattern or "}{" in pattern else 1
    parts = ((len(pattern) + 1) * copies + sum(repeats)) * (500 if "\\p" in pattern.lower() else 1)
    if parts <= 64 and _PLAIN.fullmatch(pattern):
        return 4000 + 1000 * parts + 2 * size
    return 4000 + 2400 * parts + 400 * min(size, 2 ** min(parts, 60)) + size * (2 if parts <= 10 else 8 * parts)
