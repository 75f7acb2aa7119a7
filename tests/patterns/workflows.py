"""Workflows for tests: documents of a few steps, and a world that notes when each tool began and ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from tests.patterns.worlds import KINDS, run
from weft.errors import Problem, WorkflowFailed
from weft.ir.normalise import Parsed, parse
from weft.ir.read import read
from weft.plan.compiler import check
from weft.ports import ToolType
from weft.run.engine import Result
from weft.run.limits import Limits
from weft.testing import FakeWorld

assert KINDS


def bare(document: dict[str, Any], name: str = "it.json") -> Parsed:
    """Return a workflow document, with nothing around it, read."""
    return parse(read(json.dumps(document), name=name))


def refused(*steps: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    """Return code and place of everything that is wrong with the form of a workflow document."""
    return [(one.code, one.pointer) for one in bare({"steps": [*steps], **more}).problems]


def flowing(document: dict[str, Any], types: dict[str, ToolType] | None = None) -> list[Problem]:
    """Return what checking a sound workflow document finds, placed in its text."""
    parsed = bare(document)
    assert parsed.problems == ()
    upstream = FakeWorld(tools=dict.fromkeys(types or {}), types=types or {})._canned  # pyright: ignore[reportPrivateUsage]
    return [parsed.located(one) for one in check(parsed.resolved, upstream) if one.code != "UnknownName"]


def spec(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return an operation that is a workflow."""
    return {"workflow": {"steps": [*steps], **more}}


def step(id: str, *after: str, tool: str = "", **more: Any) -> dict[str, Any]:
    """Return a step that calls the tool of its own name."""
    return {"id": id, "tool": tool or id, **({"depends_on": [*after]} if after else {}), **more}


async def failing(world: FakeWorld, what: dict[str, Any], value: Any = None) -> WorkflowFailed:
    """Run a workflow that fails, and return how."""
    with pytest.raises(WorkflowFailed) as caught:
        await run(world, what, value)
    return caught.value


def statuses(error: WorkflowFailed) -> dict[str, str]:
    """Return what became of each step."""
    return {one["id"]: one["status"] for one in error.workflow["steps"]}


class Shop:
    """Tools that take a time each, and remember when they were called; what a tool has no answer for is its name."""

    def __init__(
        self, seconds: dict[str, float] | None = None, *, limits: Limits | None = None, **answers: Any
    ) -> None:
        self.began: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.order: list[str] = []
        """What was called, in the order in which it began."""
        self.cancelled: list[str] = []
        self.now = self.most = 0
        self._waiting: list[tuple[int, asyncio.Event]] = []
        self._seconds, self._answers = seconds or {}, answers
        self.world = FakeWorld(tools={}, limits=limits or Limits())

    def stock(self, *names: str) -> Shop:
        """Put tools in."""
        tools = {name: self._tool(name) for name in names}
        self.world = FakeWorld(tools=tools, limits=self.world.limits)
        return self

    def _tool(self, name: str) -> Any:
        async def call(arguments: Any) -> Any:
            clock = self.world.clock
            self.order.append(name)
            for count, event in self._waiting:
                if len(self.order) >= count:
                    event.set()
            self.began.setdefault(name, clock.now() - 1000)
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                if (seconds := self._seconds.get(name)) is not None:
                    await clock.sleep(seconds)
            except asyncio.CancelledError:
                self.cancelled.append(name)
                raise
            finally:
                self.now -= 1
            self.ended[name] = clock.now() - 1000
            answer: Any = self._answers.get(name, name)
            if isinstance(answer, list):
                answer = cast("list[Any]", answer).pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer(arguments) if callable(answer) else answer

        return call

    async def left_after(self, calls: int, work: Coroutine[Any, Any, object]) -> None:
        """Cancel work once so many calls have begun, while no time passes."""
        event = asyncio.Event()
        self._waiting.append((calls, event))
        with self.world.clock.held():
            task = asyncio.create_task(work)
            await event.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    async def run(self, what: dict[str, Any], value: Any = None) -> Result:
        """Run a workflow in this shop."""
        return await run(self.world, what, value)

    async def failing(self, what: dict[str, Any], value: Any = None) -> WorkflowFailed:
        """Run a workflow that fails in this shop, and return how."""
        return await failing(self.world, what, value)


def shop(what: dict[str, Any], seconds: dict[str, float] | None = None, *more: str, **answers: Any) -> Shop:
    """Return a shop that has every tool of a workflow."""
    steps: list[dict[str, Any]] = what["workflow"]["steps"]
    names = [one["tool"] for one in steps if isinstance(one.get("tool"), str)]
    undo = [one["undo"]["tool"] for one in steps if "undo" in one]
    return Shop(seconds, **answers).stock(*names, *undo, *more)
