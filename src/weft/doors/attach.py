"""Grouped tools on servers that other people's libraries make, by what such a server can do, not by its class."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Final, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from weft.doors.fastmcp_tools import add_to_fastmcp
from weft.doors.requesters import Requester
from weft.errors import NotFound
from weft.groups.authoring.builder import GroupedTool
from weft.groups.execution.results import wire_error
from weft.groups.toolset import ToolSet
from weft.ports import is_array, is_object

INNER: Final = ("server", "_lowlevel_server", "_mcp_server")
"""Where servers with an interface of their own keep the one that speaks the protocol."""

LIST, CALL = "tools/list", "tools/call"
COMPLETE: Final = {"resultType": "complete"}
"""What results have since 2026-07-28; for clients of before the server takes it out."""

UNKEPT: Final = {"ttlMs": 0, "cacheScope": "private"}
"""What lists have since then: that they are not to be kept."""

Answer: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
"""Answers a request: (context, params) -> result, as an object of the wire or as a model of it."""

_log = logging.getLogger("weft.groups")


class Registered(Protocol):
    """What a server has for a method."""

    @property
    def params_type(self) -> type[BaseModel]: ...
    @property
    def handler(self) -> Answer: ...


class Answering(Protocol):
    """A server that can be told what to answer: the low-level `Server` of the `mcp` package, and what is made of it."""

    def add_request_handler(self, method: str, params_type: type[Any], handler: Answer) -> None: ...
    def get_request_handler(self, method: str) -> Registered | None: ...


def attach(
    server: object, *groups: GroupedTool | ToolSet, tags: Collection[str] = (), exclude_tags: Collection[str] = ()
) -> None:
    """Serve grouped tools on a server, behind its own: weft's Gateway, `Server` and `MCPServer` of `mcp`, FastMCP.

    Of each only the actions that have one of the tags, and none of the excluded ones. What is attached is frozen.

    Raises:
        TypeError: it is no such server, or no such tool.
        ValueError: the server has a tool of that name.
    """
    tools = _chosen(groups)
    if tags or exclude_tags:
        tools = tools.filtered(tags=tags, exclude_tags=exclude_tags)
        if not len(tools):
            raise ValueError("w.attach: no action is left of those with the tags, without the excluded ones")
    if not isinstance(server, type) and callable(take := getattr(server, "attach_groups", None)):
        take(tools)
        return
    answering = _answering(server)
    if answering is None:
        raise TypeError(
            "w.attach takes a server: weft's Gateway, the Server or the MCPServer of the package mcp, or a FastMCP; "
            f"not {_kind(server)}, which has no add_request_handler and get_request_handler"
        )
    names = {one.name for one in tools}
    listing, calling = answering.get_request_handler(LIST), answering.get_request_handler(CALL)
    for name in sorted(names):
        if name in _names_in(server) or (listing is not None and name in _attached_by(listing.handler)):
            raise ValueError(f"w.attach: the server has a tool named {name!r}; give the group another name")
    definitions = tools.definitions()
    if add_to_fastmcp(server, tools):
        return
    answering.add_request_handler(LIST, *_adding(listing, definitions))
    answering.add_request_handler(CALL, *_routing(calling, tools, names))


def _chosen(given: Iterable[object]) -> ToolSet:
    found: list[GroupedTool] = []
    for one in given:
        if not isinstance(one, GroupedTool | ToolSet):
            raise TypeError(f"w.attach takes what w.group makes, or a w.ToolSet of these, not {_kind(one)}")
        found += [one] if isinstance(one, GroupedTool) else one
    if not found:
        raise TypeError("w.attach takes a server and at least one group: w.attach(server, platform)")
    return ToolSet(*found)


def _kind(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"an object of {type(value).__qualname__}"


def _answering(server: object) -> Answering | None:
    """Return what speaks the protocol: the server itself, or what it has inside."""
    if isinstance(server, type):
        return None
    for one in (server, *(getattr(server, name, None) for name in INNER)):
        if callable(getattr(one, "add_request_handler", None)) and callable(getattr(one, "get_request_handler", None)):
            found: Any = one
            return found
    return None


def _names_in(server: object) -> Collection[str]:
    """Return the names of the tools that a server has; none where only a client could ask."""
    manager: Any = getattr(server, "_tool_manager", None)
    if callable(listed := getattr(manager, "list_tools", None)):
        tools: Any = listed()
        return {str(getattr(one, "name", "")) for one in tools}
    components: object = getattr(getattr(server, "_local_provider", None), "_components", None)
    if not is_object(components):
        return ()
    return {str(getattr(one, "name", "")) for key, one in components.items() if key.startswith("tool:")}


class _Params(BaseModel):
    """What a request for tools has, for a server that had no tools before."""

    model_config = ConfigDict(extra="allow")

    name: str = ""
    arguments: dict[str, Any] | None = None
    meta: dict[str, Any] | None = Field(default=None, alias="_meta")


class _Adding:
    """Answers `tools/list`: what the server has, and behind it the groups."""

    def __init__(self, before: Answer | None, definitions: list[dict[str, Any]]) -> None:
        self._before = before
        self._definitions = definitions
        self._mine = frozenset(str(one["name"]) for one in definitions)
        self.names = self._mine | _attached_by(before)

    async def __call__(self, context: Any, params: Any) -> Any:
        if self._before is None:
            return {"tools": self._definitions, **COMPLETE, **UNKEPT}
        given: Any = await self._before(context, params)
        model = isinstance(given, BaseModel)
        tools: object = getattr(given, "tools", None) if model else _field(given, "tools")
        more: object = getattr(given, "next_cursor", None) if model else _field(given, "nextCursor")
        if not is_array(tools) or more is not None:
            # An error, or a page that is not the last.
            return given
        kept = [one for one in tools if _name(one) not in self._mine]
        if len(kept) < len(tools):
            _log.warning("the server has got a tool of the name of a group that is attached to it: the group is served")
        if not model:
            return {**given, "tools": [*kept, *self._definitions]}
        # As a model again: what the server had not set in it, it may still set.
        added: Any = type(given).model_validate({"tools": self._definitions})
        return given.model_copy(update={"tools": [*kept, *added.tools]})


def _field(given: object, name: str) -> object:
    return given.get(name) if is_object(given) else None


def _name(tool: object) -> object:
    return tool.get("name") if is_object(tool) else getattr(tool, "name", None)


def _attached_by(answer: Answer | None) -> frozenset[str]:
    return answer.names if isinstance(answer, _Adding) else frozenset()


def _adding(before: Registered | None, definitions: list[dict[str, Any]]) -> tuple[type[BaseModel], Answer]:
    if before is None:
        return _Params, _Adding(None, definitions)
    return before.params_type, _Adding(before.handler, definitions)


def _routing(before: Registered | None, tools: ToolSet, names: Collection[str]) -> tuple[type[BaseModel], Answer]:
    """Return what answers `tools/call`: by a group, if it is one's name, else as before."""
    other = _nothing(names) if before is None else before.handler

    async def answer(context: Any, params: Any) -> Any:
        if params.name not in names:
            return await other(context, params)
        async with Requester(context) as caller:
            return {**await tools.call(params.name, params.arguments or {}, caller=caller), **COMPLETE}

    return _Params if before is None else before.params_type, answer


def _nothing(names: Collection[str]) -> Answer:
    async def refuse(context: Any, params: Any) -> Any:
        return {**wire_error(NotFound("Tool", params.name, names)), **COMPLETE}

    return refuse
