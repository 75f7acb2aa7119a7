"""What a CEL condition may cost on a value: the checked expression is walked with the value before it is evaluated.

What each node may cost at most is added up, times the rounds of the loops around it. Nothing is guessed from the text,
so that spaces, comments and aliases make no difference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

MAX_ITERATIONS: Final = 10_000
"""What the library allows in one evaluation, nested loops included."""
MAX_BUILT: Final = 128 * 1024 * 1024
"""Bytes that one condition may build, estimated from above."""
SECONDS: Final = 0.1
"""CPU time that one condition may take, estimated from above."""

FUNCTIONS: Final = "has size matches contains startsWith endsWith all exists exists_one map filter int double string"


class Size(NamedTuple):
    """How large a value is at most: nodes, bytes of text, bytes of the longest one, items, items of any list in it."""

    nodes: float = 1
    text: float = 0
    longest: float = 0
    own: float = 0
    deep: float = 0


class Held(NamedTuple):
    """A value of the input, or any one thing inside it."""

    value: Any
    inside: bool


Value = Size | Held
Node = tuple[int, tuple[str, ...], tuple["Node", ...]]
"""The kind of an expression (its field number in cel.expr.Expr), its names or text, its parts."""
_CONST, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _LOOP = range(3, 10)
_NAMES: Final = {_CONST: (6, 7), _IDENT: (1,), _SELECT: (2,), _CALL: (2,), _STRUCT: (1,), _LOOP: (1, 3)}
_PARTS: Final = {_SELECT: (1,), _CALL: (1, 3), _LIST: (1,), _STRUCT: (3, 4), _LOOP: (2, 4, 5, 6, 7)}
_SCALAR: Final = Size()
ADMITTED: Final = Size(100_000, 8 << 20, 8 << 20, 100_000, 100_000)
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
_SCALARS: Final = {*_FREE, *_COMPARISONS, *FUNCTIONS.split(), "@in", "uint", "bool"} - {"string"}
_REPEAT: Final = re.compile(r"\{(\d{0,4}),?(\d{0,4})")
_PLAIN: Final = re.compile(r"\^?[\w\s@:/,;!#%&~<>='-]*\$?", re.ASCII)
_NODE, _COMPARED, _COPIED = 40, 120, 40
"""Nanoseconds for any node, for one that is compared, for an item that is copied."""


def tree_of(serialized: bytes) -> Node:
    """Return the tree of a serialized expression: an Any of a CheckedExpr."""
    return _tree(dict(_wire(dict(_wire(serialized))[2]))[4])


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


def _tree(message: bytes) -> Node:
    kind, body = next(_wire(message))
    fields = list(_wire(body))
    names = tuple(str(value, errors="replace") for field, value in fields if field in _NAMES.get(kind, ()))
    if kind == _STRUCT:
        fields = [part for field, entry in fields if field == 2 for part in _wire(entry)]
    return kind, names, tuple(_tree(value) for field, value in fields if field in _PARTS.get(kind, ()))


class Meter:
    """Adds up what the evaluation of a tree costs at most."""

    def __init__(self, variables: Mapping[str, Value]) -> None:
        self._variables = variables
        self._measured: dict[tuple[int, bool], tuple[Size, Held]] = {}
        self._work = self._built = 0.0

    def excess(self, tree: Node) -> tuple[str, float] | None:
        """Return the limit that a tree may exceed."""
        self._walk(tree, self._variables, 1)
        limits = ("CelSize", MAX_BUILT, self._built), ("CelCost", SECONDS, self._work / 1e9)
        return next(((name, limit) for name, limit, used in limits if not used <= limit), None)

    def _walk(self, node: Node, known: Mapping[str, Value], times: float) -> Value:
        """Count a node that runs so many times, and return how large its value is."""
        kind, names, parts = node
        self._work += times * _NODE
        if kind == _CONST:
            size = len("".join(names).encode())
            return Size(1, size, size)
        if kind == _IDENT:
            # A leading dot names a variable even where a comprehension has the same name.
            return (self._variables if names[0].startswith(".") else known).get(names[0].removeprefix("."), ADMITTED)
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

    def _loop(self, node: Node, known: Mapping[str, Value], times: float) -> Value:
        _, (item, total), (over, start, condition, step, result) = node
        values = self._walk(over, known, times)
        rounds = max(1, min(MAX_ITERATIONS, self._own(values)))
        runs = min(MAX_ITERATIONS, times * rounds)
        # A list that grows is half as long as in the end, on average.
        grows = start[0] == _LIST
        inside = {**known, item: _inner(values), total: Size(0, own=rounds / 2) if grows else _SCALAR}
        self._walk(condition, inside, runs)
        size = self._size(self._walk(step, inside, runs))
        grown = Size(rounds * size.nodes, rounds * size.text, size.longest, rounds, max(rounds, size.deep))
        return self._walk(result, {**known, total: grown if grows else _SCALAR}, times)

    def _call(self, name: str, parts: Sequence[Node], values: list[Value], times: float) -> Value:
        if name in ("_?_:_", "dyn"):
            return values[0] if name == "dyn" else Size(*map(max, *map(self._size, values[-2:])))
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
        return _SCALAR if name in _SCALARS else _joined([Size(1, 64, 64), *map(self._size, values)], own)

    def _cost(self, name: str, parts: Sequence[Node], values: list[Value]) -> float:
        """Return the nanoseconds that a call takes, by what it is given."""
        small = min((one for one in values if isinstance(one, Size)), default=ADMITTED)
        if name in _COMPARISONS:
            sizes = [small] if small.nodes <= 1 else [self._size(value) for value in values]
            return _COMPARED * min(size.nodes for size in sizes) + 0.05 * min(size.text for size in sizes)
        if name == "@in":
            if small is values[0] and small.nodes <= 1:
                return self._own(values[1]) * (_COMPARED + 0.05 * small.text)
            return _COMPARED * self._size(values[1]).nodes + 0.05 * self._size(values[1]).text
        whole = [value.value if isinstance(value, Held) and not value.inside else None for value in values]
        texts = [0 if _children(one) else self._size(value).longest for one, value in zip(whole, values, strict=True)]
        if name == "contains":
            return _COMPARED + texts[0] * (5 + 0.02 * texts[1])
        if name == "matches":
            pattern = "".join(parts[1][1]) if parts[1][0] == _CONST else whole[1]
            return _matching(pattern, texts[0]) if isinstance(pattern, str) else 1e9 * texts[1]
        return _COMPARED + _BY_BYTE.get(name, 10) * sum(texts)

    def _own(self, value: Value) -> float:
        if isinstance(value, Size) or value.inside:
            return self._size(value).own
        return len(value.value) if _children(value.value) else 0

    def _size(self, value: Value) -> Size:
        if isinstance(value, Size):
            return value
        key = (id(value.value), value.inside)
        if key not in self._measured:
            sizes = map(_measure, _children(value.value) if value.inside else [value.value])
            self._measured[key] = Size(*map(max, zip(_SCALAR, *set(sizes), strict=True))), value
        return self._measured[key][0]


def _inner(value: Value, name: tuple[str, ...] = ()) -> Value:
    """Return what a field, or any one item, of a value may be."""
    if isinstance(value, Size):
        return value._replace(own=value.deep)
    held, inside = value
    if inside or not name or not isinstance(held, Mapping):
        return Held(held, True)
    fields = cast("Mapping[str, Any]", held)
    return Held(fields[name[0]], False) if name[0] in fields else _SCALAR


def _joined(values: Iterable[Any], own: float) -> Size:
    """Return the size of what holds these values, or values of these sizes."""
    nodes, text, longest, deep = 1.0, 0.0, 0.0, own
    for value in values:
        nodes += 1
        if isinstance(value, str):
            size = len(value) if value.isascii() else 4 * len(value)
            text, longest = text + size, max(longest, size)
        elif value is not None and not isinstance(value, (int, float)):
            size = value if isinstance(value, Size) else _measure(value)
            nodes, text = nodes + size.nodes - 1, text + size.text
            longest, deep = max(longest, size.longest), max(deep, size.deep)
    return Size(nodes, text, longest, own, deep)


def _measure(value: Any) -> Size:
    if isinstance(value, (str, bytes)):
        return Size(1, 4 * len(value), 4 * len(value)) if not value.isascii() else Size(1, len(value), len(value))
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
