"""Loops over rows, generated once: the only place where weft compiles Python source of its own making.

The source is built from a fixed set of fragments and from identifiers that this module invents (`c0`, `c1`, `x`);
names, keys and constants of a document are arguments of the generated function, so that no text of a document
ever reaches the source (a property test proves it). The generated code is optimistic: it takes rows to be objects that
have the fields. When one is not, the precise functions, which are also the readable reference, run over all rows again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from weft.expr.paths import Path

Row: TypeAlias = Any
Rows: TypeAlias = list[Any]
MISSED = (KeyError, TypeError, AttributeError)
MAX_CONSTANTS = 600
MAX_NESTED = 30
"""Beyond these the parser takes quadratic time, or refuses: such mappings run without generated code."""
GLOBALS: dict[str, Any] = {"__builtins__": {}}


@dataclass(frozen=True, slots=True)
class Names:
    """Names to follow into the row, all of which must be there."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FirstOf:
    """Names of the row: the first that is there and not null, else null."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fixed:
    """A constant that may be shared by all rows."""

    value: Any


@dataclass(frozen=True, slots=True)
class Apply:
    """Anything else: a function of the row."""

    fn: Callable[[Row], Any]


def names_of(path: Path) -> tuple[str, ...] | None:
    """Return the names that a path follows when it is made of names only, and so can be read optimistically."""
    steps = path.steps
    # Never an index: Python would index a string, and JSONPath does not.
    return tuple(str(step) for step in steps) if steps and all(isinstance(step, str) for step in steps) else None


Part: TypeAlias = "Names | FirstOf | Fixed | Apply | Mapping[str, Part]"


@dataclass(slots=True)
class _Code:
    constants: list[Any] = field(default_factory=list[Any])

    def constant(self, value: Any) -> str:
        self.constants.append(value)
        return f"c{len(self.constants) - 1}"

    def names(self, names: tuple[str, ...]) -> str:
        return "r" + "".join(f"[{self.constant(name)}]" for name in names)

    def first_of(self, names: tuple[str, ...]) -> str:
        *others, last = [f"r.get({self.constant(name)})" for name in names]
        return "".join(f"x if (x := {other}) is not None else " for other in others) + last

    def part(self, part: Part) -> str:
        match part:
            case Names(names):
                return self.names(names)
            case FirstOf(names):
                return f"({self.first_of(names)})"
            case Fixed(value):
                return self.constant(value)
            case Apply(fn):
                return f"{self.constant(fn)}(r)"
            case _:
                return "{" + ", ".join(f"{self.constant(key)}: {self.part(item)}" for key, item in part.items()) + "}"


def _weight(part: Part, depth: int = 0) -> int:
    """Return how many constants a part needs; too many when it is nested, or chained, too deeply for the parser."""
    match part:
        case Names(names):
            return len(names)
        case FirstOf(names):
            return len(names) if len(names) <= MAX_NESTED else MAX_CONSTANTS + 1
        case Fixed() | Apply():
            return 1
        case _ if depth > MAX_NESTED:
            return MAX_CONSTANTS + 1
        case _:
            return sum(1 + _weight(item, depth + 1) for item in part.values())


@lru_cache(maxsize=4096)
def _maker(source: str) -> Callable[..., Any]:
    space: dict[str, Any] = {}
    exec(compile(source, "<weft rows>", "exec"), GLOBALS, space)
    return space["make"]


def _make(code: _Code, body: str) -> Any:
    arguments = ", ".join(f"c{index}" for index in range(len(code.constants)))
    return _maker(f"def make({arguments}):\n{body}")(*code.constants)


def mapping(
    parts: Mapping[str, Part], precise: Callable[[Row], Row]
) -> tuple[Callable[[Row], Row], Callable[[Rows], Rows]]:
    """Return a function that builds one object from a row, and one that does so for a list of rows."""
    if _weight(parts) > MAX_CONSTANTS:
        return precise, lambda values: [precise(value) for value in values]
    code = _Code()
    built = code.part(parts)
    one, many = _make(
        code, f"  def row(r): return {built}\n  def rows(rs): return [{built} for r in rs]\n  return row, rows"
    )

    def row(value: Row) -> Row:
        try:
            return one(value)
        except MISSED:
            return precise(value)

    def rows(values: Rows) -> Rows:
        try:
            return many(values)
        except MISSED:
            return [precise(value) for value in values]

    return row, rows


def column(names: tuple[str, ...], precise: Callable[[Row], Any]) -> Callable[[Rows], Rows]:
    """Return a function that reads one field of every row."""
    code = _Code()
    many = _make(code, f"  def rows(rs): return [{code.names(names)} for r in rs]\n  return rows")

    def rows(values: Rows) -> Rows:
        try:
            return many(values)
        except MISSED:
            return [precise(value) for value in values]

    return rows


# Comparisons with a bool are false, and Python's own True > 0.7 is not: hence the two identity tests.
_NUMERIC = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def where(names: tuple[str, ...], op: str, value: Any, precise: Callable[[Row], bool]) -> Callable[[Rows], Rows]:
    """Return a function that keeps the rows of which a field passes a test."""
    code = _Code()
    read = code.names(names)
    if op in _NUMERIC:
        test = f"(x := {read}) {_NUMERIC[op]} {code.constant(value)} and x is not True and x is not False"
    elif op == "eq" and type(value) is str:
        test = f"{read} == {code.constant(value)}"
    else:
        return lambda values: [row for row in values if precise(row)]
    many = _make(code, f"  def rows(rs): return [r for r in rs if {test}]\n  return rows")

    def rows(values: Rows) -> Rows:
        try:
            return many(values)
        except MISSED:
            return [row for row in values if precise(row)]

    return rows
