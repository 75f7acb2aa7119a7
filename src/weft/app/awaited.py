"""The servers of a gateway, as those wait for them who finish what others began."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from weft.gateway.gateway import Gateway
from weft.ir.document import Document
from weft.ir.operations import ToolCall
from weft.ir.walk import walk
from weft.plan.typeflow import source_ref
from weft.ports import ToolRef
from weft.registry.graph import references


class Awaited:
    """Tells of servers whether they may still come."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def ready(self) -> None:
        """Wait until each server has answered, or has failed to within its start limit."""
        # A registry that cannot be built is told of elsewhere, and does not keep sagas from being finished.
        with contextlib.suppress(Exception):
            await self._gateway.ready()

    def may_come(self, server: str) -> bool:
        """Tell whether a server is configured; a tool that no server has yet stands for those that never were there."""
        return server in self._gateway.pool.servers or self._some_never_came()

    def unheard(self, document: Document) -> bool:
        """Tell whether a document calls a server that has never been there: nobody knows what its tools are like."""
        if not self._some_never_came():
            return False
        pool, offered = self._gateway.pool, self._gateway.live.offered
        for ref in _called(document):
            server = pool.find(ref)
            if server is None and ref.server is None and offered.describe(ref) is None:
                return True
            if server is not None and not server.connected_once:
                return True
        return False

    def _some_never_came(self) -> bool:
        return not all(server.connected_once for server in self._gateway.pool.servers.values())


def _called(document: Document) -> Iterator[ToolRef]:
    """Yield the tools of servers that a document names."""
    defined = {tool.name for tool in document.tools}
    for tool in document.tools:
        if tool.source is not None:
            yield source_ref(tool)
        if tool.spec is not None:
            for _, node in walk(tool.spec):
                if isinstance(node, ToolCall) and node.server is not None:
                    yield ToolRef(node.name, node.server, node.version)
        for reference in references(tool):
            if reference.name not in defined:
                yield ToolRef(reference.name)
