"""Generated loops agree with the precise functions, and no text of a document reaches their source."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.expr import rows
from weft.expr.paths import MISSING, compile_path, quote
from weft.expr.predicates import compile_test
from weft.expr.rows import Apply, FirstOf, Fixed, Names, column, mapping, names_of, where
from weft.patterns.contract import Pure
from weft.patterns.schema_map import SchemaMap

NAMES = st.sampled_from(["a", "b", "c", "get", "__class__", "", "0"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from([0.5, 1.0, 1e400])
    | st.sampled_from(["", "a", "1"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=8
)
ROWS = st.lists(st.dictionaries(NAMES, VALUES, max_size=5) | VALUES, max_size=6)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(quote) | st.sampled_from(["$", "$.a[0]", "$.a[*]", "$[*].a"])
MUTABLE: dict[str, Any] = {"literal": [1, {"a": []}]}
SOURCES: st.SearchStrategy[dict[str, Any]] = st.recursive(
    PATHS.map(lambda path: {"path": path})
    | st.tuples(PATHS, SCALARS.filter(lambda one: one != 1e400)).map(lambda two: {"path": two[0], "default": two[1]})
    | st.lists(PATHS, min_size=1, max_size=3).map(lambda paths: {"coalesce": paths})
    | st.lists(PATHS, min_size=1, max_size=3).map(lambda paths: {"concat": paths})
    | SCALARS.filter(lambda one: one != 1e400).map(lambda value: {"literal": value})
    | st.just(MUTABLE),
    lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(
        lambda fields: {"nested": {"mappings": fields}}
    ),
    max_leaves=5,
)
MAPPINGS = st.dictionaries(NAMES, SOURCES, min_size=1, max_size=4)
NO_COMPILER: Any = None


def outcome(function: Callable[[Any], Any], value: Any) -> tuple[str, str]:
    """Return what a function does with a value, so that true and 1 differ."""
    try:
        return "gave", repr(function(value))
    except WeftError as error:
        return "failed", error.message


def precise_row(model: SchemaMap) -> Callable[[Any], Any]:
    """Return the mapping as its fields read it one by one, without generated code."""
    reads = {name: source.read() for name, source in model.mappings.items()}

    def run(row: Any) -> Any:
        return {name: read(row) for name, read in reads.items()}

    return run


@given(MAPPINGS, ROWS)
def test_a_generated_mapping_does_what_the_precise_one_does(mappings: dict[str, Any], values: list[Any]):
    model = SchemaMap.model_validate({"mappings": mappings})
    precise = precise_row(model)
    compiled = model.compile(NO_COMPILER)
    assert isinstance(compiled, Pure)
    assert compiled.rows is not None
    for value in values:
        assert outcome(compiled.fn, value) == outcome(precise, value)
    assert outcome(compiled.rows, values) == outcome(lambda _: [precise(value) for value in values], values)


@given(st.lists(NAMES, min_size=1, max_size=3), ROWS)
def test_a_generated_column_does_what_the_path_does(names: list[str], values: list[Any]):
    find = compile_path(quote(names)).find
    got, expected = column(tuple(names), find)(values), [find(value) for value in values]
    assert repr(got) == repr(expected)


@given(
    st.lists(NAMES, min_size=1, max_size=2),
    st.sampled_from(["gt", "gte", "lt", "lte"]),
    st.integers(-2, 3) | st.sampled_from([0.5, 1.0]),
    ROWS,
)
def test_a_generated_comparison_does_what_the_predicate_does(names: list[str], op: str, value: Any, values: list[Any]):
    get, test = compile_path(quote(names)).get, compile_test(op, value)

    def holds(row: Any) -> bool:
        return test(get(row))

    assert repr(where(tuple(names), op, value, holds)(values)) == repr([row for row in values if holds(row)])


@given(
    st.lists(NAMES, min_size=1, max_size=2),
    st.sampled_from(["eq", "ne", "in"]),
    SCALARS.filter(lambda x: x != 1e400),
    ROWS,
)
def test_a_generated_equality_does_what_the_predicate_does(names: list[str], op: str, value: Any, values: list[Any]):
    constant = [value] if op == "in" else value
    get, test = compile_path(quote(names)).get, compile_test(op, constant)

    def holds(row: Any) -> bool:
        return test(get(row))

    assert repr(where(tuple(names), op, constant, holds)(values)) == repr([row for row in values if holds(row)])


@pytest.mark.parametrize("path", ["$", "$.a[0]", "$.a[*]", "$[0]", "$..a"])
def test_only_paths_of_names_are_read_optimistically(path: str):
    assert names_of(compile_path(path)) is None


def test_an_index_into_a_text_is_not_what_python_thinks():
    assert compile_path("$.a[0]").find({"a": "text"}) is MISSING
    assert names_of(compile_path("$['0']")) == ("0",)


# -- no text of a document in the source ------------------------------------------------------------

READ = r"r(\[c\d+\])+"
FIRST = r"\((x if \(x := r\.get\(c\d+\)\) is not None else )*r\.get\(c\d+\)\)"
ATOM = rf"({READ}|{FIRST}|c\d+\(r\)|c\d+)"
TEST = rf"(\(x := {READ}\) (>|>=|<|<=) c\d+ and x is not True and x is not False|{READ} == c\d+)"
HEAD = re.compile(r"def make\((c\d+(, c\d+)*)?\):\n")
COLUMN = re.compile(rf"  def rows\(rs\): return \[{READ} for r in rs\]\n  return rows")
WHERE = re.compile(rf"  def rows\(rs\): return \[r for r in rs if {TEST}\]\n  return rows")
MAPPING = re.compile(r"  def row\(r\): return (.*)\n  def rows\(rs\): return \[(.*) for r in rs\]\n  return row, rows")
FIELD = re.compile(rf"c\d+: {ATOM}")


def is_ours(source: str) -> bool:
    """Tell whether a source is made of our own fragments and nothing else."""
    head = HEAD.match(source)
    if head is None:
        return False
    body = source[head.end() :]
    if COLUMN.fullmatch(body) or WHERE.fullmatch(body):
        return True
    built = MAPPING.fullmatch(body)
    return built is not None and built[1] == built[2] and _is_object(built[1])


def _is_object(text: str) -> bool:
    """Reduce objects from the inside out: what is left of ours is one constant."""
    while True:
        reduced = re.sub(r"\{(c\d+: %s(, c\d+: %s)*)?\}" % (ATOM, ATOM), "c0", text)  # noqa: UP031  (braces)
        if reduced == text:
            return text == "c0"
        text = reduced


@pytest.fixture(scope="module")
def sources() -> Iterator[list[str]]:
    """Collect every source that is compiled."""
    seen: list[str] = []
    maker = rows._maker  # pyright: ignore[reportPrivateUsage]  (the one place where source becomes code)

    def watched(source: str) -> Any:
        seen.append(source)
        return maker(source)

    rows._maker = watched  # pyright: ignore
    yield seen
    rows._maker = maker  # pyright: ignore


HOSTILE = st.text(max_size=20) | st.sampled_from(
    [
        "__import__('os').system('x')",
        "]; import os #",
        "'\n  return os",
        "c0",
        "r",
        "x := 1",
        "{c0: c1}",
        "\u2028",
        "'",
        '"',
        "\\",
        "__builtins__",
    ]
)
HOSTILE_PATHS = st.lists(HOSTILE, min_size=1, max_size=2).map(quote)
HOSTILE_SOURCES: st.SearchStrategy[dict[str, Any]] = st.recursive(
    HOSTILE_PATHS.map(lambda path: {"path": path})
    | st.tuples(HOSTILE_PATHS, HOSTILE).map(lambda two: {"path": two[0], "default": two[1]})
    | st.lists(HOSTILE_PATHS, min_size=1, max_size=3).map(lambda paths: {"coalesce": paths})
    | st.tuples(HOSTILE_PATHS, HOSTILE).map(lambda two: {"concat": {"paths": [two[0]], "separator": two[1]}})
    | (HOSTILE | st.integers() | st.lists(HOSTILE)).map(lambda value: {"literal": value}),
    lambda inner: st.dictionaries(HOSTILE, inner, min_size=1, max_size=3).map(
        lambda fields: {"nested": {"mappings": fields}}
    ),
    max_leaves=6,
)


@pytest.mark.req("ALG-51")
@given(
    mappings=st.dictionaries(
        HOSTILE.filter(lambda name: not name.startswith("$")), HOSTILE_SOURCES, min_size=1, max_size=4
    )
)
def test_no_text_of_a_mapping_reaches_the_source(sources: list[str], mappings: dict[str, Any]):
    sources.clear()
    parts = {name: source.part() for name, source in SchemaMap.model_validate({"mappings": mappings}).mappings.items()}
    mapping(parts, lambda row: row)
    assert sources
    assert all(map(is_ours, sources))


@pytest.mark.req("ALG-51")
@given(
    names=st.lists(HOSTILE, min_size=1, max_size=3), op=HOSTILE | st.sampled_from(["gt", "lte", "eq"]), value=HOSTILE
)
def test_no_text_of_a_path_or_predicate_reaches_the_source(sources: list[str], names: list[str], op: str, value: str):
    sources.clear()
    column(tuple(names), lambda row: row)
    where(tuple(names), op, value, lambda row: True)
    assert sources
    assert all(map(is_ours, sources))


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "def make(c0):\n  def rows(rs): return [r[os] for r in rs]\n  return rows",
        "def make(c0):\n  def rows(rs): return [r['a'] for r in rs]\n  return rows",
        "def make(c0):\n  def row(r): return {c0: 1}\n  def rows(rs): return [{c0: 1} for r in rs]\n  return row, rows",
        "def make(c0):\n  def rows(rs): return [r[c0] for r in rs]\n  return rows\nimport os",
    ],
)
def test_the_check_of_sources_would_see_what_is_not_ours(source: str):
    assert not is_ours(source)


def test_generated_code_knows_no_builtins():
    assert rows.GLOBALS["__builtins__"] == {}


# -- what is too large for generated code ------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        {"a": FirstOf(tuple(f"n{n}" for n in range(10_000)))},
        {f"f{n}": Names((f"n{n}",)) for n in range(20_000)},
        {"a": Names(("x",)), "b": Fixed(1), **{f"c{n}": Apply(lambda row: row) for n in range(2000)}},
    ],
)
def test_what_is_too_large_runs_without_generated_code_and_compiles_at_once(parts: dict[str, Any]):
    began = time.process_time()
    row, many = mapping(parts, lambda value: {"precise": value})
    assert time.process_time() - began < 0.5
    assert (row(1), many([1, 2])) == ({"precise": 1}, [{"precise": 1}, {"precise": 2}])


def test_what_is_nested_too_deeply_runs_without_generated_code():
    parts: Any = {"a": Names(("x",))}
    for _ in range(300):
        parts = {"a": parts}
    assert mapping(parts, lambda value: value)[0](1) == 1
