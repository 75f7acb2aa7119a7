"""Groups written in Python, as tools that the gateway performs itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from weft.errors import DeadlineExceeded
from weft.gateway.policy import ToolFacts
from weft.gateway.tools import OwnActions, Performed, Tool
from weft.groups.authoring.builder import GroupedTool
from weft.ports import Caller
from weft.run.limits import Limits


def group_tools(groups: Iterable[GroupedTool], limits: Callable[[], Limits]) -> list[Tool]:
    """Return groups as a catalogue takes them; from then on they are frozen. Calls take no longer than others may.

    Raises:
        DocumentInvalid: the actions of one do not go together.
    """
    return [_tool(group, limits) for group in groups]


def _tool(group: GroupedTool, limits: Callable[[], Limits]) -> Tool:
    listed = group.definition

    async def perform(caller: Caller, arguments: dict[str, Any]) -> Performed:
        most = limits().timeout
        try:
            async with asyncio.timeout(most):
                return Performed(await group.call_whole(arguments, caller=caller), whole=True)
        except TimeoutError:
            raise DeadlineExceeded(f"'{group.name}' did not finish within {most:g} s") from None

    facts = ToolFacts(group.name, annotations=listed.get("annotations") or {})
    own = OwnActions(group.discriminator, group.response)
    return Tool(group.name, listed, facts, perform=perform, actions=own)
