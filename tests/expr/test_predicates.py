"""Predicates compare as JSON does, and refuse at once what they cannot compare."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import ExpressionInvalid, ToolFailed, WeftError
from weft.expr.predicates import OPS, compile_test, key_of, parse_predicate, same

SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5]) | st.sampled_from(["", "1", "a"])
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
)


@given(JSON, JSON)
def test_two_values_share_a_key_exactly_when_they_are_the_same(a: Any, b: Any):
    assert (key_of(a) == key_of(b)) == same(a, b)
    if same(a, b):
        assert hash(key_of(a)) == hash(key_of(b))


@given(JSON)
def test_a_value_is_the_same_as_its_copy(a: Any):
    assert same(a, json.loads(json.dumps(a)))


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (0, False, False),
        (None, False, False),
        ("1", 1, False),
        ([1, [True]], [1.0, [True]], True),
        ([1, [True]], [1, [1]], False),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}, True),
        ({"a": None}, {}, False),
        ([], {}, False),
        (2**53 + 1, float(2**53), False),
    ],
)
def test_equality_is_that_of_json(a: Any, b: Any, equal: bool):
    assert same(a, b) is equal
    assert same(b, a) is equal
    assert compile_test("eq", a)(b) is equal
    assert compile_test("ne", b)(a) is not equal
    assert compile_test("in", [a])(b) is equal


CASES: list[tuple[str, Any, list[Any], list[Any]]] = [
    ("eq", "a", ["a"], ["A", None, 1]),
    ("eq", None, [None], [False, 0, ""]),
    ("eq", True, [True], [1, "true", False]),
    ("eq", [1, 2], [[1, 2]], [[2, 1], None]),
    ("ne", 1, [True, "1", None, 2], [1, 1.0]),
    ("gt", 0.7, [0.71, 1], [0.7, 0, True, "0.9", None, [1]]),
    ("gte", 1, [1, 1.0, 2], [0.99, True, "1", {}]),
    ("lt", 1, [0, -1.5], [1, False, "", None]),
    ("lte", 1, [1, 0], [1.01, False, None]),
    ("contains", "bc", ["abcd", "bc"], ["ac", None, ["bc"], 5, {"bc": 1}]),
    ("in", ["a", "b"], ["a"], ["c", None, ["a"], {"a": 1}]),
    ("in", [1, None, [2]], [1.0, None, [2]], [True, 2, []]),
]


@pytest.mark.req("ALG-10")
@pytest.mark.req("ALG-47")
@pytest.mark.parametrize(("op", "constant", "yes", "no"), CASES)
def test_an_operator_tests_a_value(op: str, constant: Any, yes: list[Any], no: list[Any]):
    test = compile_test(op, constant)
    assert [value for value in yes if test(value) is not True] == []
    assert [value for value in no if test(value) is not False] == []


@pytest.mark.req("STA-53")
def test_a_list_may_be_the_constant_of_eq_and_later_changes_to_it_do_not_matter():
    constant: list[Any] = [{"a": 1}]
    test = compile_test("eq", constant)
    constant[0]["a"] = 2
    assert test([{"a": 1}])


@pytest.mark.req("STA-51")
def test_null_and_error_are_asked_for_without_a_value():
    assert compile_test("is_null")(None)
    assert not compile_test("is_null")(0)
    assert compile_test("is_not_null")(0)
    assert not compile_test("is_not_null")(None)
    is_error = compile_test("is_error")
    assert is_error({"isError": True, "content": []})
    assert is_error(ToolFailed("search", "no").to_json())
    for value in ({"isError": False}, {"isError": 1}, {"code": "x"}, {}, None, "error", [True]):
        assert not is_error(value)


@pytest.mark.req("ALG-47")
@pytest.mark.parametrize(
    ("op", "meant"), [("gtt", "gt"), ("isNull", "is_null"), ("EQ", "eq"), ("", None), ("$where", None)]
)
def test_bad_input_55_an_unknown_operator_is_refused_by_name(op: str, meant: str | None):
    with pytest.raises(ExpressionInvalid) as caught:
        compile_test(op, 1)
    assert caught.value.message == f"Unknown predicate operator: {op}"
    assert caught.value.code == "UnknownOperator"
    assert caught.value.suggestion == meant


NO_NUMBERS: list[Any] = [{}, [1], "1", True, None]
WRONG: list[tuple[str, Any]] = [
    ("in", "abc"),
    ("in", {"a": 1}),
    ("in", None),
    *((op, bad) for op in ("gt", "gte", "lt", "lte") for bad in NO_NUMBERS),
    ("contains", 1),
    ("contains", ["a"]),
    *((op, bad) for op in ("is_null", "is_not_null", "is_error") for bad in (None, True)),
    ("eq", (1, 2)),
    ("eq", object()),
]


@pytest.mark.parametrize(("op", "constant"), WRONG)
def test_bad_input_55_a_constant_that_the_operator_cannot_take_is_refused(op: str, constant: Any):
    with pytest.raises(ExpressionInvalid) as caught:
        compile_test(op, constant)
    assert caught.value.code == "PredicateValue"


@pytest.mark.parametrize("op", [op for op in OPS if not op.startswith("is_")])
def test_a_comparison_needs_a_constant(op: str):
    with pytest.raises(ExpressionInvalid, match="needs a value"):
        compile_test(op)


@pytest.mark.parametrize("constant", [float("nan"), float("inf"), [1, float("-inf")], {"a": [float("nan")]}])
def test_numbers_that_json_has_not_are_refused(constant: Any):
    with pytest.raises(ExpressionInvalid) as caught:
        compile_test("eq", constant)
    assert caught.value.code == "NonFiniteNumber"


@pytest.mark.req("ALG-27")
@pytest.mark.parametrize(
    ("text", "path", "op", "value"),
    [
        ("item.relevance > 0.7", "$.relevance", "gt", 0.7),
        ("item.a.b[0].c>=-1", "$.a.b[0].c", "gte", -1),
        ("  item == null ", "$", "eq", None),
        ("item[-1] != true", "$[-1]", "ne", True),
        ('item.kind == "web"', "$.kind", "eq", "web"),
        ('item.kind in ["web", "db"]', "$.kind", "in", ["web", "db"]),
        ('item.in contains "&& item"', "$.in", "contains", "&& item"),
        ("item.né <= 3", "$.né", "lte", 3),
        ('item.o == {"a": [1]}', "$.o", "eq", {"a": [1]}),
    ],
)
def test_a_predicate_may_be_written_as_text(text: str, path: str, op: str, value: Any):
    assert parse_predicate(text) == (path, op, value)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("row.a > 1", 0),
        ("items.a > 1", 4),
        ("item.a", 6),
        ("item.a >", 8),
        ("item.a = 1", 6),
        ("item.a > 1 && item.b < 2", 11),
        ("item.a > 1 or true", 11),
        ("item.a > item.b", 9),
        ("item.a == 'x'", 10),
        ("item..a > 1", 4),
        ("item.1a > 1", 4),
        ("item[01] > 1", 4),
        ("item['a'] > 1", 4),
        ("item.__class__.__mro__() > 1", 22),
        ("item.a > __import__('os')", 9),
        ("item.a inside [1]", 6),
        ("item.a[99999999999999999999] > 1", 6),
    ],
)
def test_bad_input_55_text_that_is_not_one_comparison_is_refused_with_its_position(text: str, position: int):
    with pytest.raises(ExpressionInvalid) as caught:
        parse_predicate(text)
    assert (caught.value.code, caught.value.position) == ("PredicateSyntax", position)
    assert "several filters" in str(caught.value.expected)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "1e400", "9" * 5000, "[" * 100_000, '"' + "x" * 10])
def test_a_literal_that_is_no_json_value_is_refused(literal: str):
    with pytest.raises(ExpressionInvalid):
        parse_predicate(f"item.a == {literal}")


@given(st.text(max_size=40) | st.text(alphabet='item.[]0a ><=!"', max_size=30))
def test_parsing_raises_nothing_but_its_own_errors(text: str):
    try:
        path, op, _ = parse_predicate(text)
    except WeftError:
        return
    assert path.startswith("$")
    assert op in OPS
