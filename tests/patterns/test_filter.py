"""Filters keep the items of which a field passes a test, and compare as JSON does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft as w
from tests.patterns.worlds import problems, run
from weft.errors import DocumentInvalid, ExecutionFailed
from weft.expr.fields import FieldError
from weft.expr.paths import compile_path
from weft.expr.predicates import compile_test
from weft.ir.predicates import FieldPredicate
from weft.patterns.contract import Pure
from weft.patterns.filter import Filter
from weft.testing import FakeWorld

MIXED: list[Any] = [0, 1, 1.0, 2, 0.5, True, False, None, "1", "abc", "", [1], {"a": 1}, [], {}]
NO_COMPILER: Any = None


def keep(op: str, *value: Any, field: str = "$.x", rows: list[Any] | None = None) -> list[Any]:
    """Return the fields of the rows that a filter keeps."""
    predicate = {"field": field, "op": op, **({"value": value[0]} if value else {})}
    compiled = Filter(predicate=FieldPredicate.model_validate(predicate)).compile(NO_COMPILER)
    assert isinstance(compiled, Pure)
    given = [{"x": one} for one in MIXED] if rows is None else rows
    return [row["x"] if rows is None else row for row in compiled.fn(given)]


def said(values: list[Any]) -> list[str]:
    """Return values so that true and 1 differ."""
    return [repr(value) for value in values]


OPERATORS: list[tuple[str, Any, list[Any]]] = [
    ("eq", 1, [1, 1.0]),
    ("eq", True, [True]),
    ("eq", None, [None]),
    ("eq", "1", ["1"]),
    ("eq", [1], [[1]]),
    ("eq", {"a": 1}, [{"a": 1}]),
    ("ne", 1, [0, 2, 0.5, True, False, None, "1", "abc", "", [1], {"a": 1}, [], {}]),
    ("gt", 0.5, [1, 1.0, 2]),
    ("gte", 1, [1, 1.0, 2]),
    ("lt", 1, [0, 0.5]),
    ("lte", 1, [0, 1, 1.0, 0.5]),
    ("contains", "b", ["abc"]),
    ("contains", "", ["1", "abc", ""]),
    ("in", [1, "abc", None], [1, 1.0, None, "abc"]),
    ("in", [True], [True]),
    ("in", [[1], {}], [[1], {}]),
    ("in", [], []),
]


@pytest.mark.req("ALG-10", "ALG-47")
@pytest.mark.parametrize(("op", "value", "kept"), OPERATORS)
def test_each_operator_keeps_what_json_says_it_should(op: str, value: Any, kept: list[Any]):
    assert said(keep(op, value)) == said(kept)


@pytest.mark.parametrize(
    ("op", "kept"),
    [("is_null", [None]), ("is_not_null", [one for one in MIXED if one is not None]), ("is_error", [])],
)
def test_operators_without_a_value(op: str, kept: list[Any]):
    assert said(keep(op)) == said(kept)


@pytest.mark.req("ALG-47")
@pytest.mark.parametrize(
    ("op", "value", "kept"),
    [
        ("eq", None, [{}, {"x": None}, 7, "text", [1], None]),
        ("is_null", ..., [{}, {"x": None}, 7, "text", [1], None]),
        ("ne", 1, [{}, {"x": None}, 7, "text", [1], None, {"x": True}]),
        ("gt", 0, [{"x": 1}]),
        ("lt", 5, [{"x": 1}]),
        ("in", [None], [{}, {"x": None}, 7, "text", [1], None]),
    ],
)
def test_a_missing_field_counts_as_null_whatever_the_item_is(op: str, value: Any, kept: list[Any]):
    rows = [{}, {"x": None}, 7, "text", [1], None, {"x": 1}, {"x": True}]
    assert keep(op, *([] if value is ... else [value]), rows=rows) == kept


@pytest.mark.req("ALG-47")
@pytest.mark.parametrize("op", ["gt", "gte", "lt", "lte"])
@pytest.mark.parametrize("value", [True, False, "2", None, [], {}, [3]])
def test_numeric_operators_are_false_for_what_is_no_number(op: str, value: Any):
    assert keep(op, 0.5, rows=[{"x": value}]) == []
    assert keep(op, 0.5, rows=[{"x": 0.5}, {"x": value}]) == ([{"x": 0.5}] if op.endswith("e") else [])


@pytest.mark.req("ALG-47")
@pytest.mark.parametrize("value", [None, {"a": [1]}, "text", 3, True])
async def test_what_is_no_list_cannot_be_filtered(value: Any):
    p = w.path({})
    with pytest.raises(ExecutionFailed, match=r"^Filter requires array input$"):
        await FakeWorld().run(w.filter(p.x, w.gt(1)), value)


@pytest.mark.req("ALG-47")
def test_an_operator_that_nobody_knows_is_named():
    found = problems({"filter": {"predicate": {"field": "$.x", "op": "almost", "value": 1}}})
    assert [problem.message for problem in found] == ["Unknown predicate operator: almost"]


@pytest.mark.req("ALG-9", "ALG-10")
@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (w.eq(1), {"op": "eq", "value": 1}),
        (w.ne(1), {"op": "ne", "value": 1}),
        (w.gt(1), {"op": "gt", "value": 1}),
        (w.gte(1), {"op": "gte", "value": 1}),
        (w.lt(1), {"op": "lt", "value": 1}),
        (w.lte(1), {"op": "lte", "value": 1}),
        (w.contains("a"), {"op": "contains", "value": "a"}),
        (w.one_of(1, 2), {"op": "in", "value": [1, 2]}),
        (w.is_null(), {"op": "is_null"}),
        (w.is_not_null(), {"op": "is_not_null"}),
        (w.is_error(), {"op": "is_error"}),
    ],
)
def test_the_builder_takes_a_field_and_a_predicate(predicate: Any, expected: dict[str, Any]):
    p = w.path({})
    assert w.filter(p.a.b, predicate).to_ir() == {"filter": {"predicate": {"field": "$.a.b", **expected}}}


@pytest.mark.req("ALG-11")
def test_functions_and_compounds_are_refused():
    p = w.path({})
    anything: Any = w.filter
    above: Any = w.gt(1)
    for given_instead in (lambda row: row > 1, w.gt, "x > 1", None):  # pyright: ignore
        with pytest.raises(FieldError):
            anything(p.x, given_instead)
    with pytest.raises(FieldError):
        _ = above & w.lt(2)
    with pytest.raises(FieldError):
        _ = above or w.lt(2)
    with pytest.raises(FieldError):
        w.gt(p.y)


@pytest.mark.req("ALG-11")
async def test_several_conditions_are_several_filters():
    p = w.path({})
    rows = [{"n": n} for n in range(6)]
    flow = w.pipeline(w.filter(p.n, w.gt(1)), w.filter(p.n, w.lt(4)))
    assert await FakeWorld().run(flow, rows) == [{"n": 2}, {"n": 3}]


@pytest.mark.req("ALG-27", "ALG-31")
@pytest.mark.parametrize(
    "predicate",
    [
        "item.relevance > 0.7",
        {"field": "$.relevance", "op": "gt", "value": 0.7},
        {"field": "$.relevance", "op": "COMPARISON_OP_GT", "value": {"numberValue": 0.7}},
    ],
)
async def test_every_spelling_of_a_predicate_filters_alike(predicate: Any):
    rows = [{"relevance": 0.9}, {"relevance": 0.7}, {"relevance": "0.9"}, {"relevance": True}, {}, {"relevance": 1}]
    result = await run(FakeWorld(), {"filter": {"predicate": predicate}}, rows)
    assert result.value == [{"relevance": 0.9}, {"relevance": 1}]


async def test_a_field_that_is_several_names_an_index_or_a_wildcard_deep():
    rows: list[Any] = [{"a": {"b": 2}, "t": [1, 5]}, {"a": {"b": 0}, "t": [1]}, {"a": 2, "t": []}]
    world = FakeWorld()
    cases: list[tuple[str, str, Any, list[Any]]] = [
        ("$.a.b", "gt", 1, rows[:1]),
        ("$.t[1]", "eq", 5, rows[:1]),
        ("$.t[*]", "eq", [1], rows[1:2]),
        ("$", "eq", {"a": 2, "t": []}, rows[2:]),
    ]
    for field, op, value, kept in cases:
        spec = {"filter": {"predicate": {"field": field, "op": op, "value": value}}}
        assert (await run(world, spec, rows)).value == kept


async def test_an_empty_list_stays_empty_and_the_input_is_not_changed():
    p = w.path({})
    rows = [{"n": 1}, {"n": 3}]
    assert await FakeWorld().run(w.filter(p.n, w.gt(2)), rows) == [{"n": 3}]
    assert rows == [{"n": 1}, {"n": 3}]
    assert await FakeWorld().run(w.filter(p.n, w.gt(2)), []) == []


def test_a_list_field_is_not_compared_with_numbers_when_the_type_is_known():
    with pytest.raises((DocumentInvalid, FieldError)):
        w.filter(w.path({"type": "object", "properties": {"t": {"type": "array"}}}).t, w.gt(1))


x_of = compile_path("$.x").get
SCALARS = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([0.5, 1.0]) | st.sampled_from(["", "1", "ab"])
)
ROWS = st.lists(st.dictionaries(st.sampled_from("xy"), SCALARS, max_size=2) | SCALARS | st.lists(SCALARS, max_size=2))


@given(ROWS, st.sampled_from(["gt", "gte", "lt", "lte"]), st.integers(-2, 3) | st.sampled_from([0.5, 1.0]))
def test_a_filter_agrees_with_its_predicate_on_every_row(rows: list[Any], op: str, value: float):
    test = compile_test(op, value)
    assert keep(op, value, rows=rows) == [row for row in rows if test(x_of(row))]


@given(ROWS, SCALARS)
def test_equality_agrees_with_its_predicate_on_every_row(rows: list[Any], value: Any):
    test = compile_test("eq", value)
    assert said(keep("eq", value, rows=rows)) == said([row for row in rows if test(x_of(row))])
