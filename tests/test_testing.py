"""The fake world that authors test with: answers, time, failures and chance, as they were told to be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import weft as w
from weft.errors import DeadlineExceeded, DocumentInvalid, NotFound, ToolFailed, UpstreamUnavailable
from weft.ports import ToolType
from weft.testing import FakeClock, FakeWorld, Late, down, in_turn, refusal

A, B = w.tool("a"), w.tool("b")


@pytest.mark.parametrize("answer", [None, 0, "text", [1, 2], [], {"a": 1}, True, ["a", None]])
async def test_a_value_is_the_answer_to_every_call(answer: Any):
    world = FakeWorld(tools={"a": answer})
    assert await world.run(w.pipeline(A, A)) == answer


async def test_answers_in_turn_are_given_one_for_each_call_over_all_runs():
    world = FakeWorld(tools={"a": in_turn("one", ["two"], None, "four")})
    assert await world.run(w.pipeline(A, A)) == ["two"]
    assert await world.run(A) is None
    assert await world.run(A) == "four"


async def test_a_list_with_a_failure_in_it_is_answers_in_turn():
    def one_more(given: int) -> int:
        return given + 1

    world = FakeWorld(tools={"a": [down, Late("two", 1), one_more]})
    with pytest.raises(UpstreamUnavailable):
        await world.run(A, 1)
    assert await world.run(A, 1) == "two"
    assert await world.run(A, 1) == 2


async def test_more_calls_than_answers_are_a_mistake_that_is_told():
    with pytest.raises(ToolFailed, match="'a' was called more often than it has answers"):
        await FakeWorld(tools={"a": in_turn(1)}).run(w.pipeline(A, A))


async def test_a_function_of_the_arguments_may_answer_plainly_later_or_by_failing():
    async def patient(given: Any) -> Any:
        await asyncio.sleep(0)
        return given * 2

    assert await FakeWorld(tools={"a": lambda given: given + 1}).run(A, 1) == 2
    assert await FakeWorld(tools={"a": patient}).run(A, 2) == 4
    assert await FakeWorld(tools={"a": lambda given: Late(given, 3)}).run(A, 5) == 5
    with pytest.raises(ToolFailed, match="no"):
        await FakeWorld(tools={"a": lambda given: refusal("no")}).run(A)


async def test_what_is_late_takes_fake_time_only():
    world = FakeWorld(tools={"a": Late(Late("at last", 1800), 1700)})
    before = world.clock.now()
    assert (await world.trace(A, timeout=3600)).value == "at last"
    assert world.clock.now() - before == 3500
    with pytest.raises(DeadlineExceeded):
        await world.run(A)


async def test_time_jumps_over_pauses_and_remembers_them():
    world = FakeWorld(tools={"a": Late(1, 20), "b": Late(2, 30)})
    before = world.clock.now()
    assert await world.run(w.pipeline(A, B)) == 2
    assert world.clock.now() - before == 50
    assert world.pauses == [20, 30]


@pytest.mark.parametrize("failure", [down, down()])
async def test_a_server_that_is_down_is_unavailable(failure: Any):
    with pytest.raises(UpstreamUnavailable, match="connection refused"):
        await FakeWorld(tools={"a": failure}).run(A)
    with pytest.raises(UpstreamUnavailable, match="no route"):
        await FakeWorld(tools={"a": down("no route")}).run(A)


async def test_a_refusal_is_what_the_tool_said():
    with pytest.raises(ToolFailed) as caught:
        await FakeWorld(tools={"a": refusal({"why": "closed"})}).run(A)
    assert caught.value.content == {"why": "closed"}


async def test_one_failure_answers_many_calls_each_with_its_own_way():
    world = FakeWorld(tools={"a": refusal("no")})
    for _ in range(3):
        with pytest.raises(ToolFailed) as caught:
            await world.run(w.pipeline(w.map_each(A)), [1])
        assert caught.value.path == ("step_0", "[0]")


async def outcomes(seed: int) -> list[bool]:
    """Return which of many calls failed by chance."""
    world = FakeWorld(tools={"a": 1}, chance={"a": 0.5}, seed=seed)
    result = await world.run(w.map_each(A, on_error="null", max_concurrency=1), [0] * 60)
    return [one is None for one in result]


async def test_chance_is_the_same_for_the_same_seed():
    assert await outcomes(7) == await outcomes(7)
    assert await outcomes(7) != await outcomes(8)
    assert 10 < sum(await outcomes(7)) < 50


async def test_chance_may_be_certain_and_only_for_the_tools_named():
    world = FakeWorld(tools={"a": 1, "b": 2}, chance={"a": 1.0})
    assert await world.run(w.scatter_gather(A, B)) == [2]


async def test_chance_goes_on_from_one_run_to_the_next():
    world = FakeWorld(tools={"a": 1}, chance={"a": 0.5}, seed=7)
    failed: list[bool] = []
    for _ in range(20):
        try:
            await world.run(A)
            failed.append(False)
        except UpstreamUnavailable:
            failed.append(True)
    assert failed == (await outcomes(7))[:20]


async def test_every_call_is_remembered_with_its_arguments():
    world = FakeWorld(tools={"a": {"x": 1}, "b": 2})
    await world.run(w.pipeline(A, B), {"q": "weft"})
    await world.run(B, None)
    assert world.calls == [("a", {"q": "weft"}), ("b", {"x": 1}), ("b", None)]


async def test_an_agent_answers_by_name_and_skill_or_by_name():
    skilled = w.agent("helper", "translate")
    world = FakeWorld(tools={"helper/translate": "skill", "helper": "any"})
    assert await world.run(skilled, "x") == "skill"
    assert await world.run(w.agent("helper", "other"), "x") == "any"
    assert await FakeWorld(tools={"helper/translate": "skill"}).run(skilled) == "skill"
    with pytest.raises(NotFound):
        await FakeWorld(tools={"helper/translate": 1}).run(w.agent("helper", "other"))


async def test_a_tool_of_a_server_answers_by_both_names_or_by_its_own():
    tool = w.tool("search", server="web")
    assert await FakeWorld(tools={"web:search": 1, "search": 2}).run(tool) == 1
    assert await FakeWorld(tools={"search": 2}).run(tool) == 2


async def test_python_tools_run_for_real_beside_canned_ones_and_no_fake_time_passes():
    @w.python_tool
    async def double(n: int, /) -> int:
        for _ in range(50):
            await asyncio.sleep(0)
        return n * 2

    world = FakeWorld(tools={"a": Late(4, 5)})
    before = world.clock.now()
    assert await world.run(w.pipeline(A, double), 2) == 8
    assert world.clock.now() - before == 5
    assert world.calls == [("a", 2), ("double", 4)]


async def test_a_canned_tool_stands_in_for_a_python_tool_of_its_name():
    @w.python_tool
    def double(n: int, /) -> int:
        return n * 2

    assert await FakeWorld(tools={"double": "canned"}).run(w.pipeline(double), 2) == "canned"


async def test_types_shape_the_arguments_as_real_ones_would():
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    world = FakeWorld(tools={"a": 1}, types={"a": ToolType(input=schema)})
    await world.run(w.pipeline(A), "weft")
    assert world.calls == [("a", {"query": "weft"})]


async def test_a_tool_of_a_document_is_run_by_name():
    compiled = w.compile(w.composition("it", "It.", w.pipeline(A)))
    world = FakeWorld(tools={"a": 1})
    assert await world.run("it", None, document=compiled.document) == 1
    with pytest.raises(TypeError, match="document"):
        await world.run("it")


async def test_a_composition_with_a_mistake_is_refused_here_as_anywhere():
    p = w.path({})
    flow = w.pipeline(w.schema_map(p, {"a": p.x}), w.schema_map(p, {"b": p.y}))
    with pytest.raises(DocumentInvalid):
        await FakeWorld().run(flow, {})


async def test_timers_of_the_clock_ring_in_order_and_not_when_cancelled():
    clock = FakeClock(start=0)
    rung: list[tuple[str, float]] = []
    for name, when in (("c", 3.0), ("a", 1.0), ("b", 1.0), ("never", 2.0)):
        timer = clock.call_at(when, lambda name=name: rung.append((name, clock.now())))
        if name == "never":
            timer.cancel()
    await clock.sleep(10)
    assert rung == [("a", 1), ("b", 1), ("c", 3)]
    assert clock.now() == 10


async def test_a_scope_of_the_clock_ends_in_time_and_only_then():
    clock = FakeClock()
    with pytest.raises(TimeoutError):
        async with clock.timeout_at(clock.now() + 5):
            await clock.sleep(6)
    async with clock.timeout_at(clock.now() + 5):
        await clock.sleep(4)
    await clock.sleep(100)


async def test_no_time_passes_while_it_is_held():
    clock = FakeClock()
    sleeping = asyncio.create_task(clock.sleep(5))
    with clock.held():
        for _ in range(20):
            await asyncio.sleep(0)
        assert not sleeping.done()
    await sleeping
    assert clock.pauses == [5]


async def test_two_that_sleep_at_once_sleep_no_longer_than_the_longer():
    clock = FakeClock(start=0)
    await asyncio.gather(clock.sleep(3), clock.sleep(7), clock.sleep(5))
    assert clock.now() == 7
