"""Aggregation makes one value of a list of results: stable, and never surprised by what JSON can hold."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft as w
from tests.patterns.worlds import problems, run
from weft.errors import DocumentInvalid, ExecutionFailed
from weft.patterns.aggregation import Aggregation, aggregation
from weft.testing import FakeWorld


def combined(ops: Any, results: Any) -> Any:
    """Return what an aggregation makes of results."""
    return Aggregation.model_validate(ops).compile()(results)


@pytest.mark.req("ALG-8")
@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (w.flatten(), {"flatten": True}),
        (w.keep_lists(), {"concat": True}),
        (w.merge(), {"merge": True}),
        (w.limit(3), {"limit": {"count": 3}}),
        (w.sort("$.a"), {"sort": {"field": "$.a", "order": "asc"}}),
        (w.sort("$.a", "desc"), {"sort": {"field": "$.a", "order": "desc"}}),
        (w.dedupe("$.a"), {"dedupe": {"field": "$.a"}}),
    ],
)
def test_builders_write_paths_as_field(op: Any, expected: dict[str, Any]):
    assert op.to_ir() == expected


@pytest.mark.req("ALG-8")
@pytest.mark.parametrize("op", ["shuffle", {"shuffle": True}, {"Flaten": True}])
def test_an_op_that_nobody_knows_is_named(op: Any):
    found = problems({"scatterGather": {"targets": ["a"], "aggregation": {"ops": [op]}}})
    assert found
    assert all(problem.message.startswith("Unknown aggregation op") for problem in found)


@pytest.mark.req("ALG-8")
def test_what_is_no_op_at_all_is_refused_by_the_builder():
    given_instead: Any = 7
    with pytest.raises(TypeError, match=r"^Unknown aggregation op"):
        aggregation(given_instead)


@pytest.mark.req("ALG-40")
@pytest.mark.parametrize(
    ("results", "flat"),
    [
        ([[1], [2, 3], 4, [], None, {"a": 1}], [1, 2, 3, 4, None, {"a": 1}]),
        ([[[1]], "ab"], [[1], "ab"]),
        ([], []),
    ],
)
def test_flatten_goes_one_level_deep_and_keeps_what_is_no_list(results: Any, flat: Any):
    assert combined([{"flatten": True}], results) == flat


@pytest.mark.req("ALG-40")
@pytest.mark.parametrize(
    ("op", "who"),
    [
        ({"flatten": True}, "Flatten"),
        ({"sort": {"field": "$.a"}}, "Sort"),
        ({"dedupe": {"field": "$.a"}}, "Dedupe"),
        ({"limit": {"count": 1}}, "Limit"),
        ({"merge": True}, "Merge"),
    ],
)
@pytest.mark.parametrize("value", [{"a": 1}, None, "text", 3, True])
def test_what_needs_a_list_says_so(op: dict[str, Any], who: str, value: Any):
    with pytest.raises(ExecutionFailed) as caught:
        combined([op], value)
    assert caught.value.message == f"{who} requires array input"


@pytest.mark.req("ALG-40")
async def test_an_op_that_would_be_given_an_object_is_refused_before_it_runs():
    spec = {"scatterGather": {"targets": ["a"], "aggregation": {"ops": ["merge", {"limit": 1}]}}}
    with pytest.raises(DocumentInvalid, match="Limit requires array input"):
        await run(FakeWorld(tools={"a": {"x": 1}}), spec)


def rows(*keys: Any) -> list[dict[str, Any]]:
    """Return rows with these keys, numbered; ... for a row without one."""
    return [{"at": at} if key is ... else {"k": key, "at": at} for at, key in enumerate(keys)]


@pytest.mark.req("ALG-41")
@pytest.mark.parametrize(
    ("order", "keys", "expected"),
    [
        ("asc", [3, 1, 2], [1, 2, 0]),
        ("desc", [3, 1, 2], [0, 2, 1]),
        ("asc", [2, 1.5, 2.0, 1], [3, 1, 0, 2]),
        ("desc", [1, 2, 1, 2], [1, 3, 0, 2]),
        ("asc", ["b", "a", "B", ""], [3, 2, 1, 0]),
        ("desc", ["b", "a", "b"], [0, 2, 1]),
        ("asc", ["x", 2, ..., 1, "a", None, True], [3, 1, 4, 0, 2, 5, 6]),
        ("desc", ["x", 2, ..., 1, "a", None, False], [1, 3, 0, 4, 2, 5, 6]),
        ("asc", [True, 0, False, 1], [1, 3, 0, 2]),
        ("asc", [[2], [1], {"a": 1}, 5], [3, 0, 1, 2]),
        ("asc", [..., ..., ...], [0, 1, 2]),
        ("desc", [None, None], [0, 1]),
        ("asc", [], []),
        ("asc", [10**400, 1, -(10**400)], [2, 1, 0]),
    ],
)
def test_sort_orders_numbers_and_strings_and_keeps_the_order_of_the_rest(order: str, keys: list[Any], expected: Any):
    got = combined([{"sort": {"field": "$.k", "order": order}}], rows(*keys))
    assert [row["at"] for row in got] == expected


@given(st.lists(st.sampled_from([0, 1, 1.0, 2.5, "a", "b", True, None, ...])), st.sampled_from(["asc", "desc"]))
def test_sort_is_stable_and_loses_nothing(keys: list[Any], order: str):
    got = combined([{"sort": {"field": "$.k", "order": order}}], rows(*keys))
    assert sorted(row["at"] for row in got) == list(range(len(keys)))
    for one, other in itertools.pairwise(got):
        if "k" in one and "k" in other and type(one["k"]) is type(other["k"]) and one["k"] == other["k"]:
            assert one["at"] < other["at"]


@pytest.mark.parametrize("field", ["$.deep.k", "$.list[0]", "$['k']"])
def test_sort_follows_any_path(field: str):
    given_rows = [{"k": n, "deep": {"k": n}, "list": [n]} for n in (2, 1)]
    assert [row["k"] for row in combined([{"sort": {"field": field}}], given_rows)] == [1, 2]


def test_sort_of_items_that_are_no_objects():
    assert combined([{"sort": {"field": "$"}}], [3, "a", 1, None]) == [1, 3, "a", None]
    assert combined([{"sort": {"field": "$.k"}}], [{"k": 2}, 7, {"k": 1}, "x"]) == [{"k": 1}, {"k": 2}, 7, "x"]


@pytest.mark.req("ALG-42")
def test_dedupe_keeps_the_first_for_each_key_as_json_compares_keys():
    keys = [1, 1.0, True, "1", None, 1, False, 0, "1", None, [1], [1.0], [True], {"a": 1}, {"a": 1.0}]
    got = combined([{"dedupe": {"field": "$.k"}}], rows(*keys))
    assert [row["at"] for row in got] == [0, 2, 3, 4, 6, 7, 10, 12, 13]


def test_dedupe_keeps_every_item_that_lacks_the_key():
    got = combined([{"dedupe": {"field": "$.k"}}], [{"a": 1}, {"k": 1}, {"a": 1}, 7, 7, {"k": 1}, None])
    assert got == [{"a": 1}, {"k": 1}, {"a": 1}, 7, 7, None]


def test_dedupe_of_whole_items():
    assert combined([{"dedupe": {"field": "$"}}], [1, True, 1.0, "1", 1, True]) == [1, True, "1"]


@pytest.mark.req("ALG-43")
@pytest.mark.parametrize(("count", "expected"), [(0, []), (2, [1, 2]), (9, [1, 2, 3])])
def test_limit_takes_the_first_few(count: int, expected: list[int]):
    assert combined([{"limit": {"count": count}}], [1, 2, 3]) == expected
    assert combined([{"limit": count}], [1, 2, 3]) == expected


def test_a_limit_below_none_is_refused():
    assert problems({"scatterGather": {"targets": ["a"], "aggregation": {"ops": [{"limit": -1}]}}})
    assert problems({"scatterGather": {"targets": ["a"], "aggregation": {"ops": [{"limit": True}]}}})


@pytest.mark.req("ALG-44")
def test_concat_leaves_lists_nested():
    assert combined([{"concat": True}], [[1], [2, [3]], 4]) == [[1], [2, [3]], 4]


@pytest.mark.req("ALG-45")
def test_merge_makes_one_object_later_ones_win_and_the_rest_is_ignored():
    assert combined([{"merge": True}], [{"a": 1, "b": 1}, [{"c": 3}], None, "x", 5, {"b": 2}]) == {"a": 1, "b": 2}
    assert combined([{"merge": True}], []) == {}


@pytest.mark.req("ALG-39")
def test_ops_apply_in_the_order_in_which_they_stand():
    results = [[3, 1], [2, 1]]
    flatten, sort, dedupe, limit = {"flatten": True}, {"sort": {"field": "$"}}, {"dedupe": {"field": "$"}}, {"limit": 2}
    assert combined([flatten, sort, dedupe, limit], results) == [1, 2]
    assert combined([flatten, limit, sort], results) == [1, 3]
    assert combined([limit, flatten, dedupe], [[5, 5], [6], [7]]) == [5, 6]
    assert combined([], results) == results


@pytest.mark.req("ALG-31")
async def test_the_named_function_flattens_and_sorts_by_relevance():
    world = FakeWorld(tools={"a": [{"relevance": 0.2}, {"relevance": 0.9}], "b": [{"relevance": 0.5}]})
    spec = {"scatterGather": {"targets": ["a", "b"], "aggregation": {"function": "flatten_and_sort_by_relevance"}}}
    assert [row["relevance"] for row in (await run(world, spec)).value] == [0.9, 0.5, 0.2]
    other = {"scatterGather": {"targets": ["a"], "aggregation": {"function": "os.system"}}}
    assert [problem.code for problem in problems(other)] == ["UnknownAggregationOp"]


async def test_no_aggregation_is_flatten_and_an_empty_one_is_none():
    world = FakeWorld(tools={"a": [1], "b": [2]})
    assert (await run(world, {"scatterGather": {"targets": ["a", "b"]}})).value == [1, 2]
    assert (await run(world, {"scatterGather": {"targets": ["a", "b"], "aggregation": {"ops": []}}})).value == [
        [1],
        [2],
    ]


def test_aggregation_changes_nothing_that_it_is_given():
    results = [[{"k": 2}], [{"k": 1}]]
    combined([{"flatten": True}, {"sort": {"field": "$.k"}}, {"dedupe": {"field": "$.k"}}, {"limit": 1}], results)
    assert results == [[{"k": 2}], [{"k": 1}]]
