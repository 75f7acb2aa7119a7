"""Each call of a workflow has an idempotency key of its own, the same in every attempt at it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.patterns.workflows import spec, step
from tests.patterns.worlds import document
from weft.ports import ToolType
from weft.testing import FakeWorld, down


class Keyed:
    """A server that notes the keys of its calls; a call whose number is among the failures fails."""

    def __init__(self, *failures: int) -> None:
        self.seen: list[tuple[str, str | None]] = []
        self._failures = failures

    def bind(self, ref: Any) -> Any:
        async def invoke(arguments: Any, call: Any) -> Any:
            key = None if call.keys is None else call.keys.next(ref.name, arguments)
            self.seen.append((arguments.get("n"), key))
            if len(self.seen) in self._failures:
                raise down()
            return {}

        return invoke

    def describe(self, ref: Any) -> ToolType:
        return ToolType(annotations={"idempotentHint": True})

    def names(self) -> list[str]:
        return ["t"]


async def keys(what: dict[str, Any], *failures: int, trace: bool = True) -> list[tuple[str, str | None]]:
    """Run and return what the server saw."""
    server = Keyed(*failures)
    engine = FakeWorld().engine(document(what), server)
    try:
        await engine.run("it", {}, trace=trace)
    finally:
        await engine.close()
    return server.seen


def one(id: str, *after: str, **more: Any) -> dict[str, Any]:
    return step(id, *after, tool="t", **{"parameters": {"n": "same"}, **more})


@pytest.mark.parametrize("trace", [True, False])
async def test_attempts_share_a_key_and_steps_never_do_even_with_the_same_arguments(trace: bool):
    what = spec(one("a", retry_count=2), one("b", "a"), one("c", "b"), one("d", "c", for_each=[1, 1]))
    seen = [key for _, key in await keys(what, 1, 2, trace=trace)]
    assert len(seen) == 7
    assert seen[0] == seen[1] == seen[2]
    assert len({*seen[2:]}) == 5
    assert None not in seen


async def test_without_attempts_nobody_needs_keys():
    assert await keys(spec(one("a"), one("b"))) == [("same", None), ("same", None)]


@pytest.mark.parametrize("trace", [True, False])
async def test_a_workflow_that_is_repeated_as_a_whole_repeats_its_keys(trace: bool):
    flow = spec(one("a", parameters={"n": 1}), one("b", "a", parameters={"n": 2}))
    seen = await keys({"retry": {"inner": flow, "maxAttempts": 2, "retryUnknown": True}}, 2, trace=trace)
    assert seen[:2] == seen[2:]
    assert len({key for _, key in seen}) == 2


async def test_equal_runs_in_something_that_is_repeated_have_keys_of_their_own():
    flow = spec(one("a"))
    mapped = {"mapEach": {"inner": flow, "maxConcurrency": 1}}
    items = {"pipeline": {"steps": [{"operation": mapped, "input": {"constant": [1, 1]}}]}}
    seen = await keys({"retry": {"inner": items, "maxAttempts": 2}})
    assert len({key for _, key in seen}) == 2
