"""The engine runs what a snapshot holds, and tells failures of tools from its own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import weft as w
from tests.patterns.worlds import document
from weft.dsl.local import LocalTools
from weft.errors import (
    BudgetSpent,
    DeadlineExceeded,
    ExecutionFailed,
    NotFound,
    ToolFailed,
    UpstreamUnavailable,
    WeftError,
)
from weft.ir.document import Document
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.plan.compiler import compile_document
from weft.run.engine import Engine
from weft.testing import Canned, FakeWorld, Late, down, refusal

A = w.tool("a")
VALUES: list[Any] = [None, True, 0, -1.5, "", "text", [], {}, [None, [{}]], {"a": {"b": [1, "x", None]}}]


def engine_of(world: FakeWorld, *compositions: Any) -> Engine:
    """Return an engine that has these compositions."""
    return world.engine(w.compile(*compositions).document)


@pytest.mark.req("ALG-34")
async def test_a_composition_is_executed_by_name():
    engine = engine_of(FakeWorld(tools={"a": lambda v: v}), w.composition("it", "It.", w.pipeline(A)))
    assert await engine.execute("it", {"x": 1}) == {"x": 1}
    assert (await engine.run("it", {"x": 1})).value == {"x": 1}


@pytest.mark.req("ALG-34")
@pytest.mark.parametrize("trace", [False, True])
async def test_a_composition_that_nobody_knows_is_named(trace: bool):
    engine = engine_of(FakeWorld(tools={"a": 1}), w.composition("search", "Search.", w.pipeline(A)))
    for call in (engine.execute("serach", None), engine.run("serach", None, trace=trace)):
        with pytest.raises(NotFound) as caught:
            await call
        assert caught.value.message == "Composition not found: serach"
        assert caught.value.hint == "did you mean 'search'?"


@pytest.mark.req("ALG-35")
async def test_compositions_in_compositions_run_by_name_and_in_place():
    inner = w.composition("inner", "Inner.", w.pipeline(A, w.pipeline(A)))
    middle = w.composition("middle", "Middle.", w.pipeline(inner, inner))
    world = FakeWorld(tools={"a": lambda v: v + 1})
    assert await world.run(w.composition("it", "It.", w.pipeline(middle, w.scatter_gather(inner, middle))), 0) == [6, 8]


def virtual(**source: Any) -> Document:
    """Return a document with the virtual tool `find` and a composition of it."""
    value = {
        "schemaVersion": "1.0",
        "tools": [
            {
                "name": "find",
                "source": {"server": "web", "tool": "web_search", **source},
                "outputTransform": {"schemaMap": {"mappings": {"title": {"path": "$.name"}}}},
            },
            {"name": "it", "spec": {"pipeline": {"steps": [{"operation": "find"}]}}},
        ],
    }
    parsed = parse(read(json.dumps(value)))
    assert parsed.problems == ()
    return parsed.document


@pytest.mark.req("ALG-35")
async def test_a_virtual_tool_renames_adds_defaults_hides_fields_and_shapes_its_output():
    world = FakeWorld(tools={"web:web_search": {"name": "Weft", "rank": 3}})
    engine = world.engine(virtual(defaults={"limit": 5, "lang": "en"}, hideFields=["secret"]))
    assert await engine.execute("it", {"q": "x", "limit": 9}) == {"title": "Weft"}
    assert world.calls == [("web:web_search", {"limit": 9, "lang": "en", "q": "x"})]
    with pytest.raises(ExecutionFailed, match="takes no argument 'secret'"):
        await engine.execute("it", {"q": "x", "secret": 1})


async def test_an_output_that_cannot_be_shaped_is_an_error():
    engine = FakeWorld(tools={"web:web_search": {"rank": 3}}).engine(virtual())
    with pytest.raises(ExecutionFailed, match=r"Path \$\.name not found"):
        await engine.execute("it", {"q": "x"})


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (ValueError("broken"), "Tool 'a' failed: ValueError: broken"),
        (KeyError("x"), "Tool 'a' failed: KeyError: 'x'"),
        (AssertionError(), "Tool 'a' failed: AssertionError"),
        (TimeoutError("slow"), "Tool 'a' failed: TimeoutError: slow"),
        (RecursionError(), "Tool 'a' failed: RecursionError"),
    ],
)
@pytest.mark.parametrize("flow", [A, w.pipeline(A), w.map_each(A)])
async def test_what_a_tool_raises_is_its_failure_under_its_name(raised: Exception, said: str, flow: Any):
    with pytest.raises(ToolFailed) as caught:
        await FakeWorld(tools={"a": raised}).run(flow, [1])
    assert caught.value.message == said
    assert caught.value.tool == "a"
    assert caught.value.origin == "upstream"
    assert caught.value.__cause__ is raised


async def test_a_connection_that_breaks_is_an_upstream_that_is_unavailable():
    with pytest.raises(UpstreamUnavailable) as caught:
        await FakeWorld(tools={"a": ConnectionResetError("reset")}).run(A)
    assert caught.value.retryable == "yes"


@pytest.mark.parametrize("failure", [refusal({"why": ["no", 1]}), down("gone")])
async def test_failures_that_are_weft_errors_pass_untouched(failure: Any):
    with pytest.raises(WeftError) as caught:
        await FakeWorld(tools={"a": failure}).run(w.pipeline(w.pipeline(A)))
    assert caught.value is failure
    assert caught.value.path == ("step_0", "step_0")


async def test_a_tool_that_is_not_there_is_named_when_it_is_called():
    engine = engine_of(FakeWorld(tools={"serch": 1}), w.composition("it", "It.", w.pipeline(w.tool("search"))))
    with pytest.raises(NotFound, match="Tool not found: search") as caught:
        await engine.execute("it", None)
    assert caught.value.hint == "did you mean 'serch'?"


async def test_a_call_keeps_the_snapshot_that_it_began_with():
    begun = asyncio.Event()
    world = FakeWorld()

    async def old(arguments: Any) -> str:
        begun.set()
        await world.clock.sleep(5)
        return "old"

    def snapshot(answer: Any) -> Any:
        flow = w.composition("it", "It.", w.pipeline(w.tool("a"), w.tool("b")))
        return compile_document(w.compile(flow).document, Canned({"a": answer, "b": lambda v: f"{v} finished"}))

    engine = Engine(snapshot(old), clock=world.clock)
    call = asyncio.create_task(engine.execute("it", None))
    await begun.wait()
    engine.snapshot = snapshot("new")
    assert await engine.execute("it", None) == "new finished"
    engine.snapshot = compile_document(document({"pipeline": {"steps": [{"operation": "c"}]}}), Canned({"c": 1}))
    assert await call == "old finished"
    assert await engine.execute("it", None) == 1


async def test_many_calls_run_at_the_same_moment():
    world = FakeWorld(tools={"a": lambda v: Late(v, 1)})
    engine = engine_of(world, w.composition("it", "It.", w.pipeline(A, A)))
    before = world.clock.now()
    assert await asyncio.gather(*(engine.execute("it", n) for n in range(50))) == list(range(50))
    assert world.clock.now() - before == 2


@pytest.mark.req("ALG-1")
@pytest.mark.parametrize("value", VALUES)
async def test_any_json_value_goes_in_and_comes_out(value: Any):
    engine = engine_of(FakeWorld(tools={"a": lambda v: v}), w.composition("it", "It.", w.pipeline(A, A)))
    assert await engine.execute("it", value) == value


@pytest.mark.req("ALG-1")
async def test_what_is_no_json_does_not_cross():
    with pytest.raises(ToolFailed, match="Tool 'a' failed: it gave object, which is not JSON"):
        await FakeWorld(tools={"a": lambda v: object()}).run(A)


@pytest.mark.req("ALG-17")
async def test_the_research_example_compiles_and_runs():
    p = w.path({})
    sources: dict[str, tuple[dict[str, Any], float]] = {
        "web": ({"title": p.title, "url": p.link}, 0.6),
        "arxiv": ({"title": p.title, "url": w.coalesce(p.pdf_url, p.arxiv_id)}, 0.85),
        "scholar": ({"title": p.name, "url": p.href}, 0.9),
    }
    targets = [
        w.named(
            f"{name}_normalized", w.pipeline(w.tool(name), w.map_each(w.schema_map(p, {**fields, "relevance": score})))
        )
        for name, (fields, score) in sources.items()
    ]
    flow = w.composition(
        "research",
        "Research a topic.",
        w.pipeline(
            w.scatter_gather(*targets, aggregate=[w.flatten(), w.sort(p.relevance, "desc")]),
            w.filter(p.relevance, w.gt(0.7)),
            w.map_each(w.tool("fetch")),
            w.tool("summarize"),
        ),
        input=str,
    )
    world = FakeWorld(
        tools={
            "web": [{"title": "w", "link": "u1"}],
            "arxiv": [{"title": "x", "pdf_url": None, "arxiv_id": "u2"}, {"title": "y", "pdf_url": "u3"}],
            "scholar": [{"name": "z", "href": "u4"}],
            "fetch": lambda row: row["url"],
            "summarize": lambda pages: f"about {', '.join(pages)}",
        }
    )
    assert await world.run(flow, "looms") == "about u4, u2, u3"
    assert sorted(world.calls[:3]) == [("arxiv", "looms"), ("scholar", "looms"), ("web", "looms")]


def bomb(last: dict[str, Any]) -> Document:
    """Return compositions of which each calls the next ten times, seven deep."""
    steps = [{"operation": {"composition": f"c{at + 1}"}} for at in range(7) for _ in range(10)]
    tools: list[Any] = [
        {"name": f"c{at}", "spec": {"pipeline": {"steps": steps[10 * at : 10 * at + 10]}}} for at in range(7)
    ]
    return parse(read(json.dumps({"tools": [*tools, {"name": "c7", "spec": last}]}))).document


@pytest.mark.parametrize("last", [{"schemaMap": {"mappings": {"a": {"path": "$"}}}}, {"tool": "a"}])
@pytest.mark.parametrize("trace", [False, True])
async def test_compositions_that_multiply_each_other_spend_the_budget_of_steps(last: dict[str, Any], trace: bool):
    engine = FakeWorld(tools={"a": 1}).engine(bomb(last))
    with pytest.raises(BudgetSpent, match="StepLimit"):
        await engine.run("c0", None, trace=trace)
    with pytest.raises(BudgetSpent, match="StepLimit"):
        await engine.run("c3", None, trace=trace)


async def test_a_result_that_comes_late_because_a_tool_kept_the_loop_busy_is_refused():
    world = FakeWorld()

    @w.python_tool
    def slow() -> str:
        """Let time pass without giving anybody else a turn."""
        world.clock.time += 5
        return "late"

    engine = world.engine(w.compile(w.composition("it", "It.", w.pipeline(slow))).document, LocalTools([slow]))
    with pytest.raises(DeadlineExceeded, match="'it' did not finish before its deadline"):
        await engine.execute("it", {}, timeout=2)
    assert await engine.execute("it", {}, timeout=6) == "late"


async def test_a_tool_that_would_end_the_program_ends_its_own_call():
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    @w.python_tool
    def leaves() -> str:
        """End everything."""
        raise SystemExit(5)

    @w.python_tool
    def mute() -> str:
        """Fail without words."""
        raise Mute

    for tool, told in (
        (leaves, "Tool 'leaves' failed: it called sys.exit(5)"),
        (mute, "Tool 'mute' failed: Mute, whose text"),
    ):
        with pytest.raises(ToolFailed) as caught:
            await FakeWorld().run(w.pipeline(tool), {})
        assert caught.value.message.startswith(told)
