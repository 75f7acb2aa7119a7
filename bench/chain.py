"""A chain of three tools that do nothing: what a step costs over a bare await."""

from __future__ import annotations

import weft as w
from weft.app import local_engine
from weft.run.engine import Engine

STEPS = 3


async def nothing(value: str, /) -> str:
    """Give back what was given."""
    return value


async def by_hand(value: str) -> str:
    """Await the three, one after the other."""
    value = await nothing(value)
    value = await nothing(value)
    return await nothing(value)


def engine() -> Engine:
    """Return an engine that has the composition `chain`."""
    tools = [w.python_tool(name=f"nothing_{number}")(nothing) for number in range(STEPS)]
    return local_engine(w.composition("chain", "Nothing, three times.", w.pipeline(*tools)))
