"""Caches in worlds of their own, on a clock that the test moves."""

from __future__ import annotations

from typing import Any

import weft as w
from tests.patterns.stepped import SteppedClock, notes
from weft.run.engine import Engine
from weft.testing import FakeWorld

P = w.path({})
SEARCH = w.tool("search")
Q = {"q": "cats"}


def cached(**given: Any) -> Any:
    return w.cache(SEARCH, key=P.q, ttl=60, **given)


def counting() -> Any:
    """Return a tool that answers with how often it was called."""
    calls = iter(range(1, 1000))

    def answer(_arguments: Any) -> Any:
        return {"n": next(calls)}

    return answer


def then(first: Any, rest: Any) -> Any:
    """Return a tool that answers once with the one, and then always with the other."""
    answers = [first]

    def answer(_arguments: Any) -> Any:
        return answers.pop() if answers else rest

    return answer


def world_of(answer: Any, **given: Any) -> FakeWorld:
    return FakeWorld(tools={"search": answer}, clock=SteppedClock(), **given)


async def passes(world: FakeWorld, seconds: float) -> None:
    assert isinstance(world.clock, SteppedClock)
    await world.clock.advance(seconds)


async def served(engine: Engine, given: Any = Q, **more: Any) -> tuple[Any, str]:
    """Return a value, and where it came from."""
    result = await engine.run("it", given, **more)
    return result.value, notes(result)["cache"]
