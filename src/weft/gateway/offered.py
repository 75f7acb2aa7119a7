"""What compositions may name: tools in Python, and those of servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.gateway.catalogue import raw_facts
from weft.gateway.policy import ToolFacts
from weft.gateway.steps import Steps
from weft.groups.authoring.builder import GroupedTool
from weft.groups.steps import GroupUpstream
from weft.ports import Invoke, ToolRef, ToolType, Upstream
from weft.upstreams.pool import Pool


class Offered:
    """The tools that compositions may name: those in Python, those of servers, also under their prefixed names."""

    def __init__(
        self, local: Upstream | None, pool: Pool, prefixed: Mapping[str, ToolRef], groups: Iterable[GroupedTool] = ()
    ) -> None:
        grouped = GroupUpstream(groups)
        self._local = [grouped] if local is None else [local, grouped]
        self._pool = pool
        self._prefixed = prefixed
        self.steps: Steps | None = None
        """What guards each call of a tool."""
        self.served: Mapping[tuple[str, str], ToolFacts] = {}
        """The tools of servers that are served, by the server's key and the name there."""
        self.registered: Mapping[str, ToolFacts] = {}
        """Those of the registry, by name and version."""
        self.own: Mapping[str, ToolFacts] = {}
        """Those that weft performs itself, by name."""

    def bind(self, ref: ToolRef) -> Invoke | None:
        """Return the tool, ready to be called."""
        found = self._found(ref)
        return found if found is None or self.steps is None else self.steps.guarded(ref, found)

    def facts(self, ref: ToolRef) -> ToolFacts:
        """Return what decisions about a tool go by: as it is served, if it is."""
        known = None if ref.known_as is None else self.registered.get(ref.known_as)
        if known is not None:
            return known
        meant = self._meant(ref)
        server = self._pool.find(meant)
        if server is None:
            return self.own.get(ref.name) or ToolFacts(ref.name)
        return self.served.get((server.spec.key, meant.name)) or raw_facts(server, ref.name)

    def _found(self, ref: ToolRef) -> Invoke | None:
        local = self._local if ref.server is None else ()
        found = next((found for one in local if (found := one.bind(ref)) is not None), None)
        return found or self._pool.bind(self._meant(ref))

    def describe(self, ref: ToolRef) -> ToolType | None:
        """Return what is known of the tool."""
        local = self._local if ref.server is None else ()
        found = next((found for one in local if (found := one.describe(ref)) is not None), None)
        return found or self._pool.describe(self._meant(ref))

    def names(self) -> list[str]:
        """Return the names of all tools."""
        local = [name for one in self._local for name in one.names()]
        return list(dict.fromkeys([*local, *self._prefixed, *self._pool.names()]))

    def _meant(self, ref: ToolRef) -> ToolRef:
        return self._prefixed.get(ref.name, ref) if ref.server is None else ref
