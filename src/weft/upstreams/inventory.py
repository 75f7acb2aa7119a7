"""What a server offers: its tools, prompts, resources and resource templates, from all pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from weft.errors import NotFound, UpstreamRefused
from weft.upstreams.client import McpClient
from weft.upstreams.eras import Era
from weft.upstreams.sound import IDENTITY, sound
from weft.upstreams.spec import ServerSpec

Items: TypeAlias = tuple[dict[str, Any], ...]
Tools: TypeAlias = Sequence[dict[str, Any]]
Admit: TypeAlias = Callable[[ServerSpec, Tools], Awaitable[Tools]]
"""Returns those of a server's tools, as they came, that are there for anybody."""

LISTS = {
    "tools": {"received": ("tools/list", "tools")},
    "prompts": {"prompts": ("prompts/list", "prompts")},
    "resources": {
        "resources": ("resources/list", "resources"),
        "templates": ("resources/templates/list", "resourceTemplates"),
    },
}
"""By capability: the fields of an inventory, each with its method and the key of its items."""

KINDS = tuple(LISTS)

SOUND = {"tools": "tools", "prompts": "prompts", "resources": "resources", "templates": "resourceTemplates"}
"""The fields of an inventory whose items are such that clients can take them, each with the key of its items."""


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What a server offered when it was last asked; the dicts are as they came, as far as clients can take them."""

    tools: Items = ()
    """Those that are admitted."""
    received: Items = field(default=(), compare=False)
    """All tools that it listed, as they came."""
    prompts: Items = ()
    resources: Items = ()
    templates: Items = ()
    capabilities: dict[str, Any] = field(default_factory=dict[str, Any])
    info: dict[str, Any] = field(default_factory=dict[str, Any])
    instructions: str | None = None
    era: Era | None = None
    version: str = ""

    def tool(self, name: str) -> dict[str, Any] | None:
        """Return a tool by its name."""
        return self._by_name.get(name)

    def require(self, name: str) -> None:
        """Make sure that there is a tool of this name.

        Raises:
            NotFound: there is none.
        """
        if name not in self._by_name:
            raise NotFound("Tool", name, self._by_name)

    @cached_property
    def _by_name(self) -> dict[str, dict[str, Any]]:
        return {tool["name"]: tool for tool in self.tools}


async def take_inventory(
    client: McpClient, spec: ServerSpec, *, deadline: float, admit: Admit | None = None
) -> Inventory:
    """Ask a server for all that its capabilities say it has."""
    said = Inventory(
        capabilities=client.capabilities,
        info=client.server_info,
        instructions=client.instructions,
        era=client.era,
        version=client.version,
    )
    return await updated(said, KINDS, client, spec, deadline=deadline, admit=admit)


async def updated(
    known: Inventory,
    kinds: Collection[str],
    client: McpClient,
    spec: ServerSpec,
    *,
    deadline: float,
    admit: Admit | None = None,
) -> Inventory:
    """Return an inventory with some kinds of things asked for again."""
    found: dict[str, Items] = {}
    for kind in KINDS:
        if kind in kinds and kind in client.capabilities:
            for name, (method, key) in LISTS[kind].items():
                found[name] = await _listed(client, spec, method, key, deadline)
    if "tools" in kinds:
        received = found.get("received", ())
        # As they came: what is mended in a tool must not hide that it changed.
        found["tools"] = tuple(received if admit is None else await admit(spec, received))
    return replace(known, **{name: _sound(name, items) for name, items in found.items()})


async def _listed(client: McpClient, spec: ServerSpec, method: str, key: str, deadline: float) -> Items:
    if method == "tools/list":
        tools = await client.list_tools(deadline=deadline)
        return _named([tool for tool in tools if spec.admits(str(tool.get("name")))], key)
    try:
        items = await client.list_all(method, key, deadline=deadline)
        return _named([item for item in items if spec.admits(str(item.get("name")), str(item.get(IDENTITY[key])))], key)
    except UpstreamRefused:
        # Many servers say that they have resources, and know no templates.
        return ()


def _named(items: list[dict[str, Any]], key: str) -> Items:
    """Return the items that have a name, the first of each."""
    found: dict[str, dict[str, Any]] = {}
    for item in items:
        name: object = item.get(IDENTITY[key])
        if isinstance(name, str) and name not in found:
            found[name] = item
    return tuple(found.values())


def _sound(name: str, items: Items) -> Items:
    return tuple(sound(item, SOUND[name]) for item in items) if name in SOUND else items
