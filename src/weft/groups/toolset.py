"""A set of grouped tools: what `tools/list` shows of them, and calls by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from weft.errors import DocumentInvalid, NotFound, Problem, shown
from weft.groups.authoring.builder import GroupedTool
from weft.ports import Caller


class ToolSet:
    """Grouped tools by their names."""

    def __init__(self, *groups: GroupedTool) -> None:
        self._tools: dict[str, GroupedTool] = {}
        self._definitions: list[dict[str, Any]] | None = None
        for one in groups:
            if not isinstance(one, GroupedTool):  # pyright: ignore[reportUnnecessaryIsInstance] (authors may write anything)
                raise TypeError(f"w.ToolSet takes what w.group returns, not {shown(one)}")
            if self._tools.setdefault(one.name, one) is not one:
                told = f"two grouped tools are named {one.name!r}"
                raise DocumentInvalid([Problem(code="DuplicateName", message=told, value=one.name)])

    def __iter__(self) -> Iterator[GroupedTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def definitions(self) -> list[dict[str, Any]]:
        """Return the tools as `tools/list` has them, always the same list; it freezes them."""
        if self._definitions is None:
            self._definitions = [one.definition for one in self._tools.values()]
        return self._definitions

    def filtered(self, *, tags: Collection[str] = (), exclude_tags: Collection[str] = ()) -> ToolSet:
        """Return the set with only the actions that have one of the tags and none of the others.

        A tool of which no action is left is not in it.
        """
        left = [one.filtered(tags=tags, exclude_tags=exclude_tags) for one in self._tools.values()]
        return ToolSet(*(one for one in left if one.actions))

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None, caller: Caller | None = None
    ) -> dict[str, Any]:
        """Call a tool and return the result as MCP has it, also when it fails.

        Raises:
            NotFound: there is no such tool.
        """
        try:
            tool = self._tools[name]
        except (KeyError, TypeError):
            raise NotFound("Tool", name, self._tools) from None
        return await tool.call(arguments, caller=caller)
