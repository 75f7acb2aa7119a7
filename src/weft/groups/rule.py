"""What somebody who runs a gateway says of a group: which tools it gathers, and how it shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from weft.errors import InputError, shown
from weft.groups.action import DISCRIMINATOR
from weft.groups.calling import Middleware
from weft.ir.groups import Detail, Format

GROUP: Final = "weft/group"
"""What a group says of itself in `_meta`: for how many tools it stands, and how long their own list would be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseRule:
    """How much of a result a model gets, and whether it may say which fields it wants."""

    select: bool = True
    max_items: int | None = None
    """Items of a list; the rest is cut, and said to be."""

    max_text: int | None = None
    """Characters of one text."""

    max_bytes: int | None = None
    """Bytes of the whole, as JSON."""

    def __post_init__(self) -> None:
        if not isinstance(self.select, bool):  # pyright: ignore[reportUnnecessaryIsInstance] (authors may write anything)
            raise InputError(
                f"ResponseRule: select is {shown(self.select)}: expected True or False", code="InvalidOption"
            )
        for name in ("max_items", "max_text", "max_bytes"):
            given: object = getattr(self, name)
            if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
                told = f"ResponseRule: {name} is {shown(given)}: expected a whole number from 1 on, or None"
                raise InputError(told, code="InvalidOption")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRule:
    """A group of tools that others have."""

    name: str
    title: str | None = None
    description: str | None = None
    include: tuple[str, ...] = ()
    """Globs of the names of tools."""

    exclude: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    """Servers whose tools it has, all of them."""

    tags: frozenset[str] = frozenset()
    """A tool must have one of them."""

    exclude_tags: frozenset[str] = frozenset()
    actions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Keys of actions that are not the names of their tools: `{"documents.find": "doc_search"}`."""

    discriminator: str = DISCRIMINATOR
    format: Format = "markdown"
    detail: Detail = "full"
    views: tuple[str, ...] = ()
    """The views that have it; without any, all have it, and so has the whole."""

    keep_tools: bool = False
    """Whether its tools stay in the list, too."""

    response: ResponseRule = ResponseRule()
    middleware: tuple[Middleware, ...] = ()

    def gathers(self, name: str, *, servers: frozenset[str], tags: frozenset[str]) -> bool:
        """Tell whether a tool belongs to it; `servers` is what the server that has it may be called."""
        if name in self.actions.values():
            return True
        if any(fnmatchcase(name, glob) for glob in self.exclude) or not self.exclude_tags.isdisjoint(tags):
            return False
        if self.tags and self.tags.isdisjoint(tags):
            return False
        named = any(fnmatchcase(name, glob) for glob in self.include) or not servers.isdisjoint(self.servers)
        return named or bool(self.tags and not self.include and not self.servers)
