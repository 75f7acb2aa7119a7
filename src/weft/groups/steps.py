"""Grouped tools as tools that compositions call: values in, values out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.errors import DocumentInvalid, Problem
from weft.groups.authoring.builder import GroupedTool
from weft.groups.execution.results import Outcome
from weft.ports import Invoke, ToolRef, ToolType, is_object


class GroupUpstream:
    """Groups written in Python, where the tools of compositions live.

    Raises:
        DocumentInvalid: two groups have the same name.
    """

    def __init__(self, groups: Iterable[GroupedTool] = ()) -> None:
        self._groups: dict[str, GroupedTool] = {}
        for group in groups:
            if self._groups.setdefault(group.name, group) is not group:
                told = f"two groups are named {group.name!r}"
                raise DocumentInvalid([Problem(code="DuplicateName", message=told, value=group.name)])

    @property
    def groups(self) -> tuple[GroupedTool, ...]:
        """The groups, in the order in which they came."""
        return tuple(self._groups.values())

    def bind(self, ref: ToolRef) -> Invoke | None:
        """Return the group, ready to be called with an action and its arguments."""
        group = self._groups.get(ref.name) if ref.server is None else None
        return None if group is None else _invoke(group)

    def describe(self, ref: ToolRef) -> ToolType | None:
        """Return what the group takes; what comes out depends on the action."""
        group = self._groups.get(ref.name) if ref.server is None else None
        if group is None:
            return None
        listed = group.definition
        return ToolType(listed["inputSchema"], None, listed.get("description"), listed.get("annotations"))

    def names(self) -> list[str]:
        """Return the names of all groups."""
        return list(self._groups)


def _invoke(group: GroupedTool) -> Invoke:
    async def invoke(arguments: Any, call: Any) -> Any:
        given = await group.execute(arguments if is_object(arguments) else {}, caller=call.root.context)
        if not isinstance(given, Outcome):
            return given
        return given.value if given.value is not None or given.content is None else list(given.content)

    return invoke
