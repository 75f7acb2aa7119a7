"""Grouped tools: what middleware costs a call, whether many actions make it slower, and how long building takes."""

from __future__ import annotations

import itertools
import os
import platform
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, date, datetime
from typing import Any, Literal

from pydantic import BaseModel

import weft as w
from bench.figure import Figure
from bench.gateway.effort import Effort
from bench.paired import Paired, paired, quiet
from weft.groups.calling import Handler, ToolCall
from weft.groups.strategies.chains import chain

METHOD = "CPU time, batches in turn; medians with quartiles"
LAYERS = 10
LAYER_US = 1.0
SAME = 1.1
BUILT_SECONDS = 1.0
FEW, MANY = 10, 10_000
BUILT = 1_000
CALL = {"action": "find", "name": "ann", "limit": 3}


async def find(name: str, limit: int = 10, role: Literal["admin", "user"] = "user") -> dict[str, Any]:
    """Find users by name."""
    return {"name": name, "limit": limit}


class Person(BaseModel):
    """Somebody, as a model."""

    name: str
    born: date
    tags: list[str] = []


async def create(name: str, born: date, tags: list[str] | None = None) -> None:
    """Create a user."""


async def replaced(person: Person, call: ToolCall) -> None:
    """Put a user in the place of another."""


async def search(arguments: dict[str, Any]) -> None:
    """Search for users."""


SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}, "page": {"type": "integer", "minimum": 1}}}
KINDS: list[tuple[Callable[..., Any], Any]] = [(find, None), (create, None), (replaced, Person), (search, SCHEMA)]


async def layer(call: ToolCall, next: Handler) -> Any:
    """Do nothing, as middleware does it."""
    return await next(call)


async def handler(call: ToolCall) -> Any:
    """Do nothing, as a handler does it."""
    return call.arguments


def grouped(actions: int = 1, *, layers: int = 0) -> w.GroupedTool:
    """Return a tool in use, with so many actions that take the same."""
    it = w.group("platform", middleware=[layer] * layers)
    it.add("find", find)
    for number in range(actions - 1):
        it.add(f"group_{number % 20}.action_{number}", find)
    assert it.definition
    return it


async def layers() -> AsyncIterator[Figure]:
    """Measure ten layers around a handler against the handler, and the same in a whole call."""
    call = ToolCall("platform", CALL, action="find")
    chained = chain(handler, [layer] * LAYERS)
    name = "a layer of middleware, of ten, over calling the handler"
    yield _added(name, await paired(lambda: chained(call), lambda: handler(call)), LAYERS, LAYER_US)
    ours, theirs = grouped(layers=LAYERS), grouped()
    assert await ours.execute(CALL) == await theirs.execute(CALL) == await find("ann", 3)
    measured = await paired(lambda: ours.execute(CALL), lambda: theirs.execute(CALL))
    yield _added("the same in a whole call, which is then checked twice", measured, LAYERS, LAYER_US)
    measured = await paired(lambda: theirs.execute(CALL), lambda: find("ann", 3))
    yield _added("a whole call of an action, over calling its function", measured, 1, None)


def _added(name: str, measured: Paired, parts: int, limit: float | None) -> Figure:
    detail = {key: value for key, value in measured.to_json().items() if key != "quartiles"}
    return Figure(name, (measured.ours_us - measured.theirs_us) / parts, limit, "us", detail)


async def looking_up(effort: Effort) -> AsyncIterator[Figure]:
    """Measure calls of ten actions, from all over the list, among many actions against among ten."""
    many = MANY if effort.turns > 5 else BUILT
    measured = await paired(_in_turn(grouped(many)), _in_turn(grouped(FEW)))
    told = measured.to_json()
    detail = {key: told[key] for key in ("quartiles", "ours_us", "theirs_us", "rounds")}
    yield Figure(f"a call among {many:,} actions, CPU / among {FEW}", measured.ratio, SAME, "x", detail)


def _in_turn(tool: w.GroupedTool) -> Callable[[], Awaitable[Any]]:
    keys = list(tool.actions)
    taken = keys[:: len(keys) // FEW][:FEW]
    calls = itertools.cycle([{**CALL, "action": key} for key in taken])
    return lambda: tool.execute(next(calls))


async def building(effort: Effort) -> AsyncIterator[Figure]:
    """Measure how long it takes from functions to the definition of a tool that can be called."""
    times: list[float] = []
    for _ in range(effort.few_turns):
        began = time.thread_time()
        it = w.group("platform", conflicts="union")
        for number, (function, params) in zip(range(BUILT), itertools.cycle(KINDS), strict=False):
            it.add(f"group_{number % 20}.action_{number}", function, params=params)
        assert it.definition
        times.append(time.thread_time() - began)
    low, middle, high = statistics.quantiles(times, n=4)
    detail = {"quartiles": [round(low, 3), round(high, 3)], "rounds": len(times)}
    yield Figure("building a tool of 1,000 actions", middle, BUILT_SECONDS, "s", detail)


async def measured(effort: Effort) -> dict[str, Any]:
    """Measure everything, and return it as the result file has it."""
    same, is_quiet = await quiet(lambda: find("ann", 3))
    noise = "" if is_quiet else "  (too noisy: do not trust this run)"
    print(f"a function / itself: {same.ratio:.3f}{noise}", flush=True)
    figures: list[Figure] = []
    for part in (layers(), looking_up(effort), building(effort)):
        async for figure in part:
            print(figure, flush=True)
            figures.append(figure)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "method": METHOD,
        "same_against_same": same.to_json(),
        "quiet": is_quiet,
        "figures": [figure.to_json() for figure in figures],
    }
