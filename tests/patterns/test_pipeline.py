"""Pipelines run steps in order, each on what its binding says, and tell where they failed."""

from __future__ import annotations

from typing import Any

import pytest

import weft as w
from tests.patterns.worlds import problems, run, told, told_by
from weft.errors import ExecutionFailed, LimitExceeded, ToolFailed
from weft.patterns.pipeline import Pipeline
from weft.testing import FakeWorld, refusal

BINDINGS: list[tuple[str, Any, Any]] = [
    ("the whole input", {"input": {"path": "$"}}, {"q": "x", "tags": ["a", "b"], "none": None}),
    ("a part of the input", {"input": {"path": "$.q"}}, "x"),
    ("a list of parts of the input", {"input": {"path": "$.tags[*]"}}, ["a", "b"]),
    ("the result of a step", {"step": {"stepId": "first"}}, {"hits": [{"id": 1}, {"id": 2}]}),
    ("a part of a step's result", {"step": {"stepId": "first", "path": "$.hits[1].id"}}, 2),
    ("parts of a step's result", {"step": {"stepId": "first", "path": "$.hits[*].id"}}, [1, 2]),
    ("the previous result", {"previous": {}}, "second"),
    ("a part of the previous result that it lacks", {"previous": {"path": "$.id"}}, None),
    ("a constant", {"constant": {"value": {"n": [1]}}}, {"n": [1]}),
    ("a constant null", {"constant": {"value": None}}, None),
    ("nothing, which is the previous result", None, "second"),
    ("a path that is missing", {"input": {"path": "$.nowhere.at.all"}}, None),
    ("a null that is there", {"input": {"path": "$.none"}}, None),
    ("a wildcard that finds nothing", {"input": {"path": "$.q[*]"}}, []),
    (
        "an object of several sources",
        {
            "construct": {
                "fields": {
                    "query": {"input": {"path": "$.q"}},
                    "ids": {"step": {"stepId": "first", "path": "$.hits[*].id"}},
                    "before": {"previous": {}},
                    "mode": {"constant": {"value": "fast"}},
                    "inner": {"construct": {"fields": {"missing": {"input": {"path": "$.x"}}}}},
                }
            }
        },
        {"query": "x", "ids": [1, 2], "before": "second", "mode": "fast", "inner": {"missing": None}},
    ),
]


@pytest.mark.req("ALG-5")
def test_steps_are_numbered_and_each_is_bound_to_the_one_before():
    a, b = w.tool("a"), w.tool("b")
    steps = [
        {"id": "step_0", "operation": {"tool": {"name": "a"}}, "input": {"input": {"path": "$"}}},
        {"id": "step_1", "operation": {"tool": {"name": "b"}}, "input": {"step": {"stepId": "step_0", "path": "$"}}},
    ]
    assert w.pipeline(a, b).to_ir() == {"pipeline": {"steps": steps}}
    assert w.pipeline([a, b]).to_ir() == w.pipeline(a, b).to_ir()
    assert w.pipeline(a, b).pattern == "pipeline"


def test_steps_of_a_document_that_have_no_id_get_the_ones_of_the_dsl():
    given = Pipeline.model_validate(
        {"steps": [{"operation": "a"}, {"id": "mine", "operation": "b"}, {"operation": "c"}]}
    )
    assert [step.id for step in given.steps] == ["step_0", "mine", "step_2"]


@pytest.mark.req("ALG-3", "ALG-4")
async def test_a_step_is_a_tool_a_composition_or_a_pattern():
    p = w.path({})
    inner = w.composition("shout", "Shout.", w.tool("upper"))
    world = FakeWorld(tools={"search": lambda query: f"{query}!", "upper": str.upper})
    flow = w.pipeline(w.tool("search"), inner, w.schema_map(p, {"said": p}), w.pipeline(w.tool("again")))
    world = FakeWorld(tools={**world.tools, "again": lambda value: value})
    assert await world.run(flow, "weft") == {"said": "WEFT!"}
    ir = w.composition("it", "It.", flow).to_ir()
    assert set(ir) == {"name", "description", "spec"}
    assert [next(iter(step["operation"])) for step in ir["spec"]["pipeline"]["steps"]] == [
        "tool",
        "composition",
        "schemaMap",
        "pipeline",
    ]


@pytest.mark.req("ALG-36")
async def test_each_step_is_given_the_result_before_it_and_the_last_result_is_the_pipelines():
    world = FakeWorld(tools={"a": lambda v: [*v, "a"], "b": lambda v: [*v, "b"], "c": lambda v: [*v, "c"]})
    assert await world.run(w.pipeline(w.tool("a"), w.tool("b"), w.tool("c")), []) == ["a", "b", "c"]
    assert world.calls == [("a", []), ("b", ["a"]), ("c", ["a", "b"])]


@pytest.mark.req("ALG-24", "ALG-36")
@pytest.mark.parametrize(("what", "binding", "expected"), BINDINGS, ids=[one[0] for one in BINDINGS])
async def test_a_step_may_take(what: str, binding: Any, expected: Any):
    world = FakeWorld(tools={"search": {"hits": [{"id": 1}, {"id": 2}]}, "name": "second", "last": lambda v: v})
    last = {"id": "last", "operation": "last"} | ({} if binding is None else {"input": binding})
    steps = [{"id": "first", "operation": "search"}, {"id": "second", "operation": "name"}, last]
    result = await run(world, {"pipeline": {"steps": steps}}, {"q": "x", "tags": ["a", "b"], "none": None})
    assert result.value == expected
    assert world.calls[-1] == ("last", expected)


@pytest.mark.parametrize(("what", "binding", "expected"), BINDINGS, ids=[one[0] for one in BINDINGS])
async def test_a_pipeline_may_give(what: str, binding: Any, expected: Any):
    world = FakeWorld(tools={"search": {"hits": [{"id": 1}, {"id": 2}]}, "name": "second"})
    spec: dict[str, Any] = {"steps": [{"id": "first", "operation": "search"}, {"id": "second", "operation": "name"}]}
    spec |= {} if binding is None else {"output": binding}
    result = await run(world, {"pipeline": spec}, {"q": "x", "tags": ["a", "b"], "none": None})
    assert result.value == expected


async def test_bindings_of_the_dsl_are_those_of_documents():
    p = w.path({})
    both = w.construct(q=w.from_input(p.q), n=w.from_step("step_0", p.n), before=w.from_previous(), two=w.constant(2))
    world = FakeWorld(tools={"count": {"n": 7}, "last": lambda v: v})
    flow = w.pipeline(w.tool("count"), w.step(w.tool("last"), input=both), output=w.from_step("step_1", p.n))
    assert await world.run(flow, {"q": "x"}) == 7
    assert world.calls[-1] == ("last", {"q": "x", "n": 7, "before": {"n": 7}, "two": 2})


async def test_the_first_step_may_take_a_part_of_the_input_or_a_constant():
    world = FakeWorld(tools={"a": lambda v: v})
    assert await world.run(w.pipeline(w.step(w.tool("a"), input=w.from_input("$.q"))), {"q": 1}) == 1
    assert await world.run(w.pipeline(w.step(w.tool("a"), input=w.from_previous("$.q"))), {"q": 1}) == 1
    assert await world.run(w.pipeline(w.step(w.tool("a"), input=w.constant([1]))), {"q": 1}) == [1]


async def test_a_tool_that_changes_a_constant_does_not_change_the_plan():
    def spoil(value: dict[str, list[int]]) -> int:
        value["n"].append(9)
        return len(value["n"])

    world = FakeWorld(tools={"spoil": spoil})
    compiled = w.compile(w.composition("it", "It.", w.pipeline(w.step(w.tool("spoil"), input=w.constant({"n": [1]})))))
    engine = world.engine(compiled.document)
    assert [await engine.execute("it", None) for _ in range(3)] == [2, 2, 2]


@pytest.mark.req("ALG-37")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"steps": [{"operation": "a", "input": {"step": {"stepId": "x"}}}]}, "Step not found: x"),
        (
            {"steps": [{"id": "x", "operation": "a", "input": {"step": {"stepId": "x"}}}]},
            "Step not found: x (it is this step itself)",
        ),
        (
            {"steps": [{"operation": "a", "input": {"step": {"stepId": "x"}}}, {"id": "x", "operation": "b"}]},
            "Step not found: x (it comes later)",
        ),
        ({"steps": [{"operation": "a"}], "output": {"step": {"stepId": "x"}}}, "Step not found: x"),
        (
            {
                "steps": [{"operation": "a"}],
                "output": {"construct": {"fields": {"f": {"step": {"stepId": "x"}}}}},
            },
            "Step not found: x",
        ),
    ],
)
def test_a_step_that_does_not_exist_yet_cannot_be_referred_to(spec: dict[str, Any], message: str):
    assert message in [problem.message for problem in problems({"pipeline": spec})]


def test_two_steps_cannot_share_an_id():
    steps = [{"id": "a", "operation": "a"}, {"id": "a", "operation": "b"}]
    assert {problem.code for problem in problems({"pipeline": {"steps": steps}})} == {"DuplicateStep"}


@pytest.mark.parametrize(("size", "expected"), [(3, "big"), (1, "small")])
async def test_a_step_whose_condition_is_false_is_skipped_and_its_value_is_the_previous_one(size: int, expected: str):
    world = FakeWorld(tools={"measure": "small", "enlarge": "big", "last": lambda v: v})
    flow = w.pipeline(
        w.tool("measure"), w.step(w.tool("enlarge"), id="grow", condition="input.size > 2"), w.tool("last")
    )
    result = await world.trace(flow, {"size": size})
    assert result.value == expected
    assert told(result.trace)[2] == (1, "grow", "ok" if size > 2 else "skipped")
    assert world.calls[-1] == ("last", expected)


async def test_a_condition_sees_the_previous_result_and_a_skipped_steps_value_can_be_bound():
    world = FakeWorld(tools={"a": {"ok": False}, "b": "b", "c": lambda v: v})
    flow = w.pipeline(
        w.tool("a"),
        w.step(w.tool("b"), condition="previous.ok"),
        w.step(w.tool("c"), input=w.from_step("step_1")),
        output=w.construct(first=w.from_step("step_0"), last=w.from_previous()),
    )
    assert await world.run(flow) == {"first": {"ok": False}, "last": {"ok": False}}


async def test_a_first_step_that_is_skipped_gives_the_input():
    flow = w.pipeline(w.step(w.tool("a"), condition="false"))
    assert await FakeWorld(tools={"a": 1}).run(flow, "given") == "given"


@pytest.mark.parametrize("condition", ["input.size > 2", "input.missing", "input.text"])
async def test_a_condition_that_ends_in_an_error_is_an_error_never_false(condition: str):
    flow = w.pipeline(w.step(w.tool("a"), id="maybe", condition=condition))
    with pytest.raises(ExecutionFailed, match="Condition") as caught:
        await FakeWorld(tools={"a": 1}).run(flow, {"size": "3", "text": "yes"})
    assert caught.value.path == ("maybe",)


async def test_an_error_names_the_way_to_the_step_that_failed():
    p = w.path({})
    inner = w.pipeline(w.tool("fine"), w.step(w.map_each(w.pipeline(w.step(w.tool("bad"), id="deep"))), id="each"))
    flow = w.pipeline(w.tool("fine"), w.step(w.composition("part", "Part.", inner), id="outer"))
    with pytest.raises(ToolFailed) as caught:
        await FakeWorld(tools={"fine": [1], "bad": refusal("no")}).run(flow)
    assert caught.value.path == ("outer", "each", "[0]", "deep")
    data = w.pipeline(w.step(w.pipeline(w.step(w.schema_map(p, {"x": p.x}), id="map")), id="data"), w.tool("fine"))
    with pytest.raises(ExecutionFailed, match=r"^Path \$\.x not found$") as missing:
        await FakeWorld(tools={"fine": 1}).run(data, {})
    assert missing.value.path == ("data", "map")


async def test_a_binding_that_cannot_be_read_names_its_step():
    flow = w.pipeline(w.tool("rows"), w.step(w.tool("rows"), id="all", input=w.from_input("$..*")))
    with pytest.raises(LimitExceeded) as caught:
        await FakeWorld(tools={"rows": 1}).run(flow, list(range(60_000)))
    assert caught.value.path == ("all",)


@pytest.mark.req("ALG-36", "ALG-50")
async def test_every_step_has_a_span_also_those_that_only_move_data():
    p = w.path({})
    rename = w.schema_map(p, {"b": p.a})
    flow = w.pipeline(w.tool("a"), w.pipeline(rename, w.pipeline(w.schema_map(p, {"c": p.b}))), w.tool("last"))
    world = FakeWorld(tools={"a": {"a": 1}, "last": lambda v: v})
    assert told((await world.trace(flow)).trace) == [
        (0, "it", "ok"),
        (1, "step_0", "ok"),
        (1, "step_1", "ok"),
        (2, "step_0", "ok"),
        (2, "step_1", "ok"),
        (3, "step_0", "ok"),
        (1, "step_2", "ok"),
    ]
    only_data = w.pipeline(rename, w.schema_map(p, {"c": p.b}))
    assert told((await world.trace(only_data, {"a": 1})).trace) == [
        (0, "it", "ok"),
        (1, "step_0", "ok"),
        (1, "step_1", "ok"),
    ]
    bound = w.pipeline(w.tool("a"), w.step(w.pipeline(rename), input=w.from_input()))
    assert told((await world.trace(bound, {"a": 1})).trace)[2:] == [(1, "step_1", "ok"), (2, "step_0", "ok")]
    routed = w.router(w.when("true", only_data))
    assert [name for _, name, _ in told((await world.trace(routed, {"a": 1})).trace)] == [
        "it",
        "route_0",
        "step_0",
        "step_1",
    ]


async def test_a_data_step_that_fails_has_a_failed_span():
    p = w.path({})
    flow = w.pipeline(w.schema_map(p, {"b": p.a}), w.schema_map(p, {"c": p.b.deep}))
    with pytest.raises(ExecutionFailed) as caught:
        await FakeWorld().trace(flow, {"a": 1})
    assert told_by(caught.value) == [(0, "it", "failed"), (1, "step_0", "ok"), (1, "step_1", "failed")]


async def test_with_and_without_a_trace_the_result_is_the_same():
    p = w.path({})
    flow = w.composition("it", "It.", w.pipeline(w.tool("a"), w.pipeline(w.schema_map(p, {"b": p.a}))))
    world = FakeWorld(tools={"a": {"a": 1}})
    engine = world.engine(w.compile(flow).document)
    assert await engine.execute("it", None) == (await engine.run("it", None)).value == {"b": 1}
