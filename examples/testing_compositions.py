"""Testing compositions: canned tools, a clock that jumps and failures on demand; no network and no waiting.

Prints:
    passed: the answers of both sources are joined
    passed: a source that is late is dropped with a warning
    passed: a source that is down does not fail the call
    passed: what a tool refuses reaches the caller
"""

import asyncio

import weft as w
from weft.errors import ToolFailed
from weft.testing import FakeWorld, Late, down, refusal

search = w.composition(
    "search_and_rank",
    "Ask two sources and let a model order what they found.",
    w.pipeline(
        w.scatter_gather(w.tool("wiki"), w.tool("news"), timeout=w.seconds(5)),
        w.tool("rank"),
    ),
)


def rank(found: list[str]) -> list[str]:
    return sorted(found, reverse=True)


async def the_answers_of_both_sources_are_joined() -> None:
    world = FakeWorld(tools={"wiki": ["a"], "news": ["b"], "rank": rank})
    assert await world.run(search, "weft") == ["b", "a"]
    assert world.calls == [("wiki", "weft"), ("news", "weft"), ("rank", ["a", "b"])]


async def a_source_that_is_late_is_dropped_with_a_warning() -> None:
    world = FakeWorld(tools={"wiki": Late(["a"], seconds=60), "news": ["b"], "rank": ["b"]})
    result = await world.trace(search, "weft")
    assert result.warnings == ["Target 'wiki' was late and was dropped"]
    assert world.clock.time == 1005  # five seconds passed on the fake clock, none in the test


async def a_source_that_is_down_does_not_fail_the_call() -> None:
    world = FakeWorld(tools={"wiki": down(), "news": ["b"], "rank": rank})
    assert await world.run(search, "weft") == ["b"]


async def what_a_tool_refuses_reaches_the_caller() -> None:
    world = FakeWorld(tools={"wiki": ["a"], "news": ["b"], "rank": refusal("the model is not available")})
    failed = None
    try:
        await world.run(search, "weft")
    except ToolFailed as error:
        failed = error
    assert failed is not None
    assert (failed.content, failed.path) == ("the model is not available", ("step_1",))


if __name__ == "__main__":
    for check in (
        the_answers_of_both_sources_are_joined,
        a_source_that_is_late_is_dropped_with_a_warning,
        a_source_that_is_down_does_not_fail_the_call,
        what_a_tool_refuses_reaches_the_caller,
    ):
        asyncio.run(check())
        print("passed:", check.__name__.replace("_", " "))
