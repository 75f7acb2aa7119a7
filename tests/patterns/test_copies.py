"""No plan makes a value that is too large to write, however small it is in memory."""

from __future__ import annotations

import json
import time
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.patterns.worlds import document, run
from weft.errors import LimitExceeded
from weft.patterns import copies
from weft.patterns.contract import Pattern
from weft.patterns.copies import overlap, weigh
from weft.testing import FakeWorld

DOUBLE: dict[str, Any] = {"schemaMap": {"mappings": {"a": "$", "b": "$"}}}
SAME: dict[str, Any] = {"schemaMap": {"mappings": {"a": "$"}}}
TWICE: dict[str, Any] = {"scatterGather": {"targets": [SAME, SAME], "aggregation": {"ops": []}}}
BOTH: dict[str, Any] = {"construct": {"fields": {"a": {"previous": {}}, "b": {"previous": {"path": "$"}}}}}


def chain(*operations: Any) -> dict[str, Any]:
    """Return a pipeline of these."""
    return {"pipeline": {"steps": [{"operation": one} for one in operations]}}


BOMBS: dict[str, dict[str, Any]] = {
    "a value in two fields": chain(*[DOUBLE] * 40),
    "a value and a part of it": chain(DOUBLE, *[{"schemaMap": {"mappings": {"a": "$", "b": "$.a"}}}] * 39),
    "nested fields": chain(
        *[{"schemaMap": {"mappings": {"a": "$", "n": {"nested": {"b": {"coalesce": ["$.none", "$"]}}}}}}] * 40
    ),
    "two indexes that may be one": chain(
        {"schemaMap": {"mappings": {"l": {"path": "$[*]"}}}},
        *[chain({"schemaMap": {"mappings": {"l": {"path": "$['l','l']"}}}})] * 40,
    ),
    "a path that selects twice": chain(*[{"schemaMap": {"mappings": {"a": {"path": "$[*,*]"}}}}] * 40),
    "targets that give the input back": chain(*[TWICE] * 40),
    "an object of bindings": {"pipeline": {"steps": [{"operation": SAME, "input": BOTH} for _ in range(40)]}},
    "an output of bindings": chain(*[{"pipeline": {"steps": [{"operation": SAME}], "output": BOTH}}] * 28),
    "results that hold the same": {
        "pipeline": {
            "steps": [
                {"id": "s0", "operation": SAME},
                {"id": "s1", "operation": SAME},
                *(
                    {
                        "id": f"s{n}",
                        "operation": SAME,
                        "input": {
                            "construct": {
                                "fields": {
                                    "a": {"step": {"stepId": f"s{n - 1}"}},
                                    "b": {"step": {"stepId": f"s{n - 2}"}},
                                }
                            }
                        },
                    }
                    for n in range(2, 60)
                ),
            ]
        }
    },
    "enrichments": chain(*({"enricher": {"enrichments": [{"field": f"x{n}", "operation": SAME}]}} for n in range(40))),
    "compositions by name": chain(*["double"] * 40),
    "a router": chain(*[{"router": {"routes": [{"condition": "true", "target": DOUBLE}]}}] * 40),
    "a wire tap": chain(*[{"wireTap": {"inner": DOUBLE, "taps": ["tool"]}}] * 40),
    "recipients": chain(*[{"recipientList": {"recipients": {"operation": "who"}, "allowed": ["same", "other"]}}] * 40),
    "rows that are each small enough": chain({"mapEach": {"inner": chain(*[DOUBLE] * 17)}}, "tool"),
    "rows of a tool that are each small enough": {"mapEach": {"inner": chain("tool", *[DOUBLE] * 17)}},
    "long texts": {"mapEach": {"inner": chain({"schemaMap": {"mappings": {"t": "$.t"}}}, *[DOUBLE] * 12)}},
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
@pytest.mark.parametrize("traced", [False, True])
async def test_what_multiplies_a_value_is_stopped(bomb: dict[str, Any], traced: bool):
    world = FakeWorld(tools={"tool": {"n": [1]}, "who": ["same", "other"]})
    engine = world.engine(document(bomb, double=DOUBLE, same=SAME, other=SAME))
    value: Any = [{"t": "t" * 10_000, "a": {"n": n}} for n in range(20)]
    if "enricher" in str(bomb):
        value = value[0]
    began = time.process_time()
    with pytest.raises(LimitExceeded) as caught:
        await (engine.run("it", value) if traced else engine.execute("it", value))
    assert caught.value.code == "NodeLimit"
    assert time.process_time() - began < 2
    await engine.close()


async def test_what_stops_it_comes_before_a_tool_is_given_the_value():
    world = FakeWorld(tools={"tool": 1})
    with pytest.raises(LimitExceeded):
        await run(world, chain(*[DOUBLE] * 40, "tool"), 1)
    assert world.calls == []


async def test_a_few_copies_are_fine():
    assert (await run(FakeWorld(), chain(*[DOUBLE] * 3), 1)).value["a"]["b"] == {"a": 1, "b": 1}


PLAIN: dict[str, dict[str, Any]] = {
    "fields of their own": {"mapEach": {"inner": {"schemaMap": {"mappings": {"a": "$.a", "b": "$.b", "c": "$.d.e"}}}}},
    "one field in text and as it is": {
        "mapEach": {"inner": {"schemaMap": {"mappings": {"a": "$.a", "t": {"template": "{a}", "vars": {"a": "$.a"}}}}}}
    },
    "alternatives": {"mapEach": {"inner": {"schemaMap": {"mappings": {"u": {"coalesce": ["$.a", "$.a.b"]}}}}}},
    "targets that are tools": {
        "scatterGather": {
            "targets": ["x", chain("y", {"mapEach": {"inner": {"schemaMap": {"mappings": {"a": "$.a"}}}}})]
        }
    },
    "bindings of different sources": {
        "pipeline": {
            "steps": [
                {"operation": "x"},
                {"operation": "y", "input": {"construct": {"fields": {"q": {"input": {}}, "r": {"previous": {}}}}}},
            ]
        }
    },
    "enrichments that are tools": {"enricher": {"enrichments": [{"field": "a", "operation": "x"}]}},
}


@pytest.mark.parametrize("plan", PLAIN.values(), ids=PLAIN)
async def test_plans_that_cannot_copy_weigh_nothing(plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    def never(value: Any) -> int:
        raise AssertionError("weighed")

    monkeypatch.setattr(copies, "weigh", never)
    world = FakeWorld(tools={"x": [{"a": 1}], "y": [{"a": 2}]})
    row = {"a": 1, "b": 2, "d": {"e": 3}}
    await run(world, plan, row if "mapEach" not in plan else [row])


@pytest.mark.parametrize(
    ("sources", "overlapping"),
    [
        ([["$.a"], ["$.b"]], False),
        ([["$.a"], ["$.a"]], True),
        ([["$.a"], ["$.a.b"]], True),
        ([["$.a.c"], ["$.a.b"]], False),
        ([["$"], ["$.b"]], True),
        ([["$.a[0]"], ["$.a[1]"]], False),
        ([["$.a[0]"], ["$.a[-1]"]], True),
        ([["$.a[-2]"], ["$.a[-1]"]], False),
        ([["$.a[*]"], ["$.a[3]"]], True),
        ([["$.a[*].x"], ["$.a[*].y"]], False),
        ([["$.a", "$.a.b"]], False),
        ([["$.a", "$.c"], ["$.b", "$.c.d"]], True),
        ([["$.a[:2]"]], False),
        ([["$.a[:2]"], ["$.b"]], True),
        ([["$..a"]], True),
        ([["$['a','a']"]], True),
        ([[f"$.f{n}"] for n in range(1000)], True),
    ],
)
def test_paths_overlap_when_they_may_lead_to_the_same_part(sources: list[list[str]], overlapping: bool):
    assert overlap(sources) is overlapping


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=200)
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner))


def counted(value: Any) -> int:
    """Count as `weigh` does, the plain way."""
    if isinstance(value, dict):
        held = cast("dict[str, Any]", value)
        return 1 + (sum(map(len, held)) >> 6) + sum(map(counted, held.values()))
    if isinstance(value, list):
        return 1 + sum(map(counted, cast("list[Any]", value)))
    return 1 + (len(value) >> 6 if isinstance(value, str) else 0)


@given(TREES, TREES)
def test_a_value_weighs_as_much_as_the_same_value_without_sharing(one: Any, other: Any):
    shared = {"a": one, "b": [one, other, {"c": other}], "c": one}
    assert weigh(shared) == weigh(json.loads(json.dumps(shared))) == counted(shared)


def test_a_value_in_itself_is_weighed_to_an_end():
    circle: list[Any] = []
    circle.append(circle)
    assert weigh(circle) < 10


def test_weighing_is_not_stopped_by_depth_and_walks_what_is_shared_once():
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert weigh(deep) == 100_001
    wide: Any = 1
    for _ in range(500):
        wide = [wide, wide]
    assert weigh(wide) == 2**501 - 1
    del deep


def test_a_pattern_that_does_not_say_is_taken_to_copy():
    nobody: Any = None
    assert Pattern.model_construct().copies(nobody) == copies.OFTEN
