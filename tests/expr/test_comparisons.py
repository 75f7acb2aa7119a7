"""Predicate builders, and the fields that they cannot be meant for."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from weft.errors import InputError
from weft.expr.comparisons import (
    Predicate,
    check_field,
    contains,
    eq,
    gt,
    gte,
    is_error,
    is_not_null,
    is_null,
    lt,
    lte,
    ne,
    one_of,
)
from weft.expr.fields import FieldError, each, path


class Level(Enum):
    LOW = 1
    HIGH = 2


class Paper(BaseModel):
    title: str
    relevance: float
    year: int
    public: bool
    status: Literal["draft", "final"] | None = None
    level: Level = Level.LOW
    tags: list[str] = []
    note: str | None = None
    either: int | str = 1
    extra: Any = None


p: Any = path(Paper)


@pytest.mark.req("ALG-10", "STA-51", "STA-53")
@pytest.mark.parametrize(
    ("predicate", "document"),
    [
        (eq(1), {"op": "eq", "value": 1}),
        (eq(None), {"op": "eq", "value": None}),
        (eq(True), {"op": "eq", "value": True}),
        (ne("x"), {"op": "ne", "value": "x"}),
        (gt(0.7), {"op": "gt", "value": 0.7}),
        (gte(0), {"op": "gte", "value": 0}),
        (lt(1), {"op": "lt", "value": 1}),
        (lte(1), {"op": "lte", "value": 1}),
        (contains("x"), {"op": "contains", "value": "x"}),
        (one_of("a", "b"), {"op": "in", "value": ["a", "b"]}),
        (is_null(), {"op": "is_null"}),
        (is_not_null(), {"op": "is_not_null"}),
        (is_error(), {"op": "is_error"}),
    ],
)
def test_builders_name_the_operator_and_the_value(predicate: Predicate[Any], document: dict[str, Any]):
    assert predicate.to_json() == document


@pytest.mark.req("ALG-10")
def test_a_predicate_can_be_tried_on_a_value():
    assert gt(0.7).accepts(0.8)
    assert not gt(0.7).accepts(0.6)
    assert one_of("a", "b").accepts("b")
    assert is_null().accepts(None)


@pytest.mark.req("ALG-14")
@pytest.mark.parametrize(
    "build",
    [
        lambda: gt("x"),  # pyright: ignore[reportArgumentType]  (that is the point, here and below)
        lambda: lte(None),  # pyright: ignore[reportArgumentType]
        lambda: contains(3),  # pyright: ignore[reportArgumentType]
        lambda: gt(float("nan")),
        lambda: Predicate[Any]("bigger", 3),
    ],
)
def test_a_value_that_the_operator_cannot_take_is_refused_by_the_builder(build: Callable[[], object]):
    with pytest.raises(InputError):
        build()


@pytest.mark.req("ALG-11")
@pytest.mark.parametrize(
    ("build", "values"), [(gt, [p.year]), (eq, [p.title]), (contains, [p.title]), (one_of, ["a", p.title])]
)
def test_a_field_is_not_compared_with_another_field(build: Callable[..., object], values: list[object]):
    with pytest.raises(FieldError, match="not with another field"):
        build(*values)


COMBINED: list[Callable[[Any, Any], object]] = [
    lambda a, b: a and b,
    lambda a, b: a or b,
    lambda a, b: not a,
    lambda a, b: a & b,
    lambda a, b: a | b,
    lambda a, b: ~a,
]


@pytest.mark.req("ALG-11")
@pytest.mark.parametrize("combine", COMBINED)
def test_predicates_are_not_combined(combine: Callable[[Any, Any], object]):
    with pytest.raises(FieldError, match="cannot be combined; "):
        combine(gt(1), lt(5))


@pytest.mark.req("ALG-9", "ALG-14")
@pytest.mark.parametrize(
    ("field", "predicate"),
    [
        (p.relevance, gt(0.7)),
        (p.relevance, eq(1)),
        (p.year, gt(0.7)),
        (p.year, eq(2020.0)),
        (p.public, eq(True)),
        (p.public, ne(False)),
        (p.title, contains("x")),
        (p.title, one_of("a", "b")),
        (p.title, eq(None)),
        (p.title, is_null()),
        (p.tags, is_error()),
        (p.status, eq("draft")),
        (p.status, ne(None)),
        (p.level, eq(2)),
        (p.note, eq("x")),
        (p.either, gt(1)),
        (p.either, contains("x")),
        (p.either, one_of(1, 2)),
        (p.extra, gt(1)),
        ("$.anything", contains("x")),
    ],
)
def test_a_predicate_that_may_hold_is_taken(field: object, predicate: Predicate[Any]):
    check_field(field, predicate)


@pytest.mark.req("ALG-14")
@pytest.mark.parametrize(
    ("field", "predicate", "sentence"),
    [
        (p.title, gt(0.7), "$.title is string, and gt compares numbers"),
        (p.public, lte(1), "$.public is boolean, and lte compares numbers"),
        (p.note, lt(1), "$.note is null or string, and lt compares numbers"),
        (p.relevance, contains("x"), "$.relevance is number, and contains looks into text"),
        (p.tags, contains("x"), "$.tags is array, and contains looks into text"),
        (p.relevance, eq("x"), "$.relevance is number, never 'x'"),
        (p.relevance, ne("x"), "$.relevance is number, never 'x'"),
        (p.relevance, eq(True), "$.relevance is number, never True"),
        (p.public, eq(1), "$.public is boolean, never 1"),
        (p.year, eq(1.5), "$.year is integer, never 1.5"),
        (p.title, one_of(1, 2), "$.title is string, never 1"),
        (p.status, eq("drafft"), "never 'drafft'; did you mean 'draft'?"),
        (p.level, eq(3), "$.level is one of [1, 2], never 3"),
        (each(p.tags), eq("x"), "$.tags[*] is array, never 'x'"),
    ],
)
def test_a_predicate_that_can_never_hold_is_refused(field: object, predicate: Predicate[Any], sentence: str):
    with pytest.raises(FieldError) as caught:
        check_field(field, predicate)
    assert sentence in str(caught.value)


@pytest.mark.req("ALG-11", "ALG-14")
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (gt, "gt is not called: write w.gt(..)"),
        (is_null, "is_null is not called: write w.is_null(..)"),
        (bool, "filters take a predicate such as w.gt(0.7), not a function; several conditions are"),
        (lambda: True, "filters take a predicate such as w.gt(0.7), not a function"),
        (0.7, "filters take a predicate such as w.gt(0.7), not 0.7"),
        ([gt(1), lt(5)], "several conditions are several filters"),
        (p.title, "not <path $.title of Paper>"),
    ],
)
def test_what_is_no_predicate_is_refused(given: object, sentence: str):
    with pytest.raises(FieldError) as caught:
        check_field(p.relevance, given)
    assert sentence in str(caught.value)


def test_what_is_no_path_has_no_predicate():
    with pytest.raises(FieldError, match="'title' is not a path"):
        check_field("title", eq("x"))


def test_one_of_a_list_says_that_it_wants_the_values_themselves():
    with pytest.raises(FieldError, match=r"w\.one_of\(\*values\)"):
        one_of(["a", "b"])  # pyright: ignore[reportArgumentType, reportCallIssue]  (the mistake)
