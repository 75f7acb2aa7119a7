"""All upstream servers: which of them has a tool, and their lives while the configuration changes."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from weft.errors import InputError, UpstreamUnavailable
from weft.ports import Invoke, ToolRef, ToolType, is_object
from weft.upstreams.child import RestartPolicy
from weft.upstreams.inventory import Admit
from weft.upstreams.onward import Onward
from weft.upstreams.results import value_of, value_schema
from weft.upstreams.server import OnEvent, Server, ServerLog
from weft.upstreams.spec import ServerSpec

IDEMPOTENCY_KEY = "weft/idempotencyKey"
ATTEMPT = "weft/attempt"
"""In `_meta` of a call: what is the same for all attempts at one logical call, and which attempt it is."""


class Pool:
    """The servers of a configuration, by their keys and in its order; an Upstream for compositions."""

    def __init__(
        self,
        specs: Iterable[ServerSpec],
        *,
        on_change: Callable[[], object],
        on_event: OnEvent,
        log: ServerLog,
        chatter: ServerLog | None = None,
        policy: RestartPolicy | None = None,
        admit: Admit | None = None,
        recheck: float | None = None,
    ) -> None:
        """Make a pool; `on_change` is told whenever a state or an inventory is another, `log` one line of a server.

        `chatter` is told what children say on stderr, line by line; without it, `log` is. `admit` is asked about each
        list of tools that a server gives. After each `recheck` seconds servers are asked for their tools again.

        Raises:
            InputError: two servers have one key.
        """
        self._on_change, self._on_event, self._log, self._policy = on_change, on_event, log, policy
        self._chatter, self._admit, self._recheck = chatter, admit, recheck
        self._outcomes: dict[str, Counter[str]] = {}
        self._servers: dict[str, Server] = {spec.key: self._server(spec) for spec in _distinct(specs)}
        self._by_tool: dict[str, Server] | None = None
        self._replacing = asyncio.Lock()
        self._draining: dict[asyncio.Task[None], Server] = {}
        self._starting: list[Server] = []
        self._rechecking: asyncio.Task[None] | None = None

    @property
    def servers(self) -> Mapping[str, Server]:
        """The servers by their keys, in the order of the configuration."""
        return MappingProxyType(self._servers)

    def outcomes(self) -> dict[str, Counter[str]]:
        """Return how many requests to each server have ended, by how; a server that was changed counts on."""
        return {key: self._outcomes[key] for key in self._servers}

    async def start(self) -> None:
        """Begin to connect to all, in the background."""
        for server in self._servers.values():
            server.start()
        if self._recheck is not None:
            self._rechecking = asyncio.get_running_loop().create_task(self._recheck_every(self._recheck))

    def recheck(self) -> None:
        """Have every server asked for its tools again, now and in the background."""
        for server in self._servers.values():
            server.recheck()

    async def settled(self) -> None:
        """Wait until every server has connected or failed once, which their start limits bound."""
        await _settled(self._servers.values())

    async def replace(self, specs: Iterable[ServerSpec]) -> None:
        """Change to other specs: equal ones keep their connection, new ones connect before they take over.

        Servers that are gone, or were changed, are closed when their requests in flight have ended.

        Raises:
            InputError: two servers have one key; nothing is changed.
        """
        wanted = _distinct(specs)
        async with self._replacing:
            before = self._servers
            kept = {
                spec.key: before[spec.key] for spec in wanted if spec.key in before and before[spec.key].spec == spec
            }
            after = {spec.key: kept.get(spec.key) or self._server(spec) for spec in wanted}
            new = [server for key, server in after.items() if key not in kept]
            self._starting = new
            try:
                for server in new:
                    server.start()
                await _settled(new)
            except BaseException:
                await asyncio.gather(*(server.close() for server in new))
                raise
            self._servers = after
            self._outcomes = self.outcomes()
            for key, server in before.items():
                if key not in kept:
                    self._drain(server)
        self._changed()

    async def close(self) -> None:
        """Close all servers; what is in flight fails."""
        if self._rechecking is not None:
            self._rechecking.cancel()
        for server in self._starting:
            await server.close()  # Whoever waits for them to settle waits no longer.
        async with self._replacing:
            for task in list(self._draining):
                task.cancel()
            ending = [*self._servers.values(), *self._draining.values()]
            await asyncio.gather(*(server.close() for server in ending))
            if self._draining:
                await asyncio.wait(self._draining)

    # An Upstream for compositions.

    def find(self, ref: ToolRef) -> Server | None:
        """Return the server of a tool.

        A server is meant by its key, by its name and version, or by its name alone: then the newest. A tool without a
        server is that of the first server, in the order of the configuration, that has one of its name.
        """
        if ref.server is None:
            return self._index().get(ref.name)
        exact = self._servers.get(ref.server) or self._servers.get(f"{ref.server}@{ref.version}")
        if exact is not None or ref.version is not None:
            return exact
        versions = [server for server in self._servers.values() if server.spec.name == ref.server]
        return max(versions, key=lambda server: _order(server.spec.version), default=None)

    def bind(self, ref: ToolRef) -> Invoke | None:
        """Return a tool, ready to be called, or None when no server has it; its server is looked up at each call."""
        if not self._may_have(ref):
            return None
        name = ref.name

        async def invoke(arguments: Any, call: Any) -> Any:
            server = self.find(ref)
            if server is None:
                raise UpstreamUnavailable(ref.server or name, self._why_missing(ref))
            params = {"name": name, "arguments": arguments}
            caller = call.root.context
            if call.keys is not None and caller is not None:
                key = call.keys.next(f"{ref.server or ''}:{name}", arguments)
                caller = Onward(caller, {**caller.meta, IDEMPOTENCY_KEY: key, ATTEMPT: call.keys.attempt})
            result = await server.request("tools/call", params, deadline=call.deadline, caller=caller)
            return value_of(result, tool=name)

        return invoke

    def describe(self, ref: ToolRef) -> ToolType | None:
        """Return what a tool says of its input and output, or None when no server has it."""
        server = self.find(ref)
        tool = server.known.tool(ref.name) if server is not None else None
        if tool is None:
            return None
        given, said, hints = (tool.get(key) for key in ("inputSchema", "description", "annotations"))
        return ToolType(
            given if is_object(given) else None,
            value_schema(tool),
            said if isinstance(said, str) else None,
            hints if is_object(hints) else None,
        )

    def names(self) -> list[str]:
        """Return the names of all tools known now."""
        return list(self._index())

    def _may_have(self, ref: ToolRef) -> bool:
        """Tell whether a tool is here, or may be: a server that never connected has not said what it has."""
        server = self.find(ref)
        if server is not None:
            return not server.connected_once or server.known.tool(ref.name) is not None
        return ref.server is None and any(not one.connected_once for one in self._servers.values())

    def _why_missing(self, ref: ToolRef) -> str:
        if ref.server is not None:
            return "it is not among the configured servers any more"
        away = [key for key, server in self._servers.items() if not server.connected_once]
        return f"no server has this tool; not connected yet: {', '.join(away)}" if away else "no server has this tool"

    def _index(self) -> dict[str, Server]:
        if self._by_tool is None:
            found: dict[str, Server] = {}
            for server in self._servers.values():
                for tool in server.known.tools:
                    found.setdefault(tool["name"], server)
            self._by_tool = found
        return self._by_tool

    # Their lives.

    def _server(self, spec: ServerSpec) -> Server:
        return Server(
            spec,
            on_change=self._changed,
            on_event=self._on_event,
            log=self._log,
            chatter=self._chatter,
            policy=self._policy,
            outcomes=self._outcomes.setdefault(spec.key, Counter()),
            admit=self._admit,
        )

    async def _recheck_every(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            self.recheck()

    def _changed(self) -> None:
        self._by_tool = None
        self._on_change()

    def _drain(self, server: Server) -> None:
        task = asyncio.get_running_loop().create_task(server.drain(), name=f"drain {server.key}")
        self._draining[task] = server
        task.add_done_callback(lambda done: self._draining.pop(done, None))


def _distinct(specs: Iterable[ServerSpec]) -> list[ServerSpec]:
    found: dict[str, ServerSpec] = {}
    for spec in specs:
        if spec.key in found:
            raise InputError(f"two servers have the key '{spec.key}'; give each a name or a version of its own")
        found[spec.key] = spec
    return list(found.values())


async def _settled(servers: Iterable[Server]) -> None:
    for server in servers:
        await server.settled()


def _order(version: str | None) -> tuple[Any, ...]:
    """Return what orders versions: none first, numbers by their size, and a release behind its candidates."""
    if version is None:
        return ()
    release, _, candidate = version.partition("-")
    numbers = tuple(int(number) for number in re.findall(r"\d{1,18}", release.partition("+")[0]))
    return (numbers, not candidate, tuple(_identifier(part) for part in candidate.split(".")))


def _identifier(part: str) -> tuple[int, int, str]:
    return (0, int(part), "") if part.isdecimal() and len(part) < 19 else (1, 0, part)
