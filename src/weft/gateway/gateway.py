"""The gateway: takes requests of clients, finds what they name, and has it done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from weft.errors import NotFound
from weft.gateway.access import Access
from weft.gateway.auditing import Auditor
from weft.gateway.calls import ToolCalls
from weft.gateway.lists import LISTS, page
from weft.gateway.live import ALL, Content, Event, Listener, Live, Naming
from weft.gateway.others import OtherRequests
from weft.gateway.parking import Parking
from weft.gateway.rounds import Answers, Elsewhere, Rounds
from weft.gateway.signing import Signer
from weft.gateway.views import View
from weft.groups.authoring.builder import GroupedTool
from weft.ir.document import Document
from weft.plan.compiler import Stores, no_stores
from weft.plan.snapshot import Snapshot
from weft.ports import ANONYMOUS, Caller, Principal, Signals
from weft.run.engine import Engine
from weft.run.limits import Limits
from weft.telemetry import Telemetry
from weft.upstreams.client import own_version
from weft.upstreams.headers import Mirrored
from weft.upstreams.inventory import Admit
from weft.upstreams.pool import Pool
from weft.upstreams.server import Server, ServerLog
from weft.upstreams.spec import ServerSpec

UPDATED = "notifications/resources/updated"
INSTRUCTIONS = 8000


class Gateway:
    """Everything behind the doors; made inside a running event loop."""

    def __init__(
        self,
        specs: Iterable[ServerSpec] = (),
        *,
        content: Content | None = None,
        naming: Naming | None = None,
        access: Access | None = None,
        auditor: Auditor | None = None,
        admit: Admit | None = None,
        recheck: float | None = None,
        stores: Stores = no_stores,
        signals: Signals | None = None,
        limits: Limits | None = None,
        telemetry: Telemetry | None = None,
        signer: Signer | None = None,
        elsewhere: Elsewhere | None = None,
        log: ServerLog | None = None,
        chatter: ServerLog | None = None,
    ) -> None:
        """Make one; `log` is told of servers, and `chatter` what children say on stderr, line by line."""
        self.telemetry = telemetry or Telemetry()
        self.engine = Engine(Snapshot(Document(), {}), limits=limits, signals=signals)
        self.pool = Pool(
            specs,
            on_change=self._changed,
            on_event=self._event,
            log=log or _silent,
            chatter=chatter,
            admit=admit,
            recheck=recheck,
        )
        self.parking = Parking()
        rounds = Rounds(signer or Signer(), self.parking, elsewhere)
        self._content = content or Content()
        audit = auditor or Auditor(None)
        self._calls = ToolCalls(self.engine, rounds, self.telemetry, audit)
        self._others = OtherRequests(self.engine, rounds, self.telemetry, audit)
        self.telemetry.metrics.upstreams_counted_by(self.pool.outcomes)
        self.live = Live(
            self.engine,
            self.pool,
            naming or Naming(),
            self._content,
            access=access,
            auditor=audit,
            stores=stores,
            on_built=self._built,
        )
        self._ready = False
        self._settling: asyncio.Task[None] | None = None
        self.info: dict[str, Any] = {"name": "weft", "title": "weft", "version": own_version()}

    async def start(self) -> None:
        """Begin to connect to the servers, and serve the registry as far as it goes without them."""
        if self.live.generation == 0:
            await self.live.load(self._content)
        await self.pool.start()
        self._settling = asyncio.get_running_loop().create_task(self._settle())

    async def ready(self) -> None:
        """Wait until every server has answered, or has failed to within its time."""
        if not self._ready and self._settling is not None:
            await asyncio.shield(self._settling)

    async def close(self) -> None:
        """End every call that waits, and every connection."""
        if self._settling is not None:
            self._settling.cancel()
            await asyncio.gather(self._settling, return_exceptions=True)
        await self.parking.close()
        await self.live.close()
        await self.engine.close()
        await self.pool.close()

    async def handle(
        self,
        view: str | None,
        method: str,
        params: Mapping[str, Any],
        caller: Caller,
        *,
        answers: Answers | None = None,
    ) -> dict[str, Any]:
        """Do what a client asks for and return the result, without what the client's protocol version adds to it.

        Raises:
            WeftError: the request cannot be done; what goes wrong inside a tool is in its result instead.
        """
        if not self._ready:
            await self.ready()
        found = self._view(view)
        if method == "tools/call":
            return await self._calls.call(view, found, params, caller, answers, quotas=self.live.access.quotas)
        sight = await found.look(caller.principal)
        if method not in LISTS:
            return await self._others.request(sight, method, params, caller, answers)
        listed = page(sight, method, params)
        self.telemetry.metrics.call(method, "", "ok", 0.0)
        return listed

    def views(self) -> Collection[str]:
        """Return the names of the views that have one."""
        return [name for name in self.live.catalogue.views if name is not None]

    def capabilities(self, view: str | None) -> Mapping[str, Any]:
        """Return what a client of a view may ask for."""
        return self._view(view).capabilities

    async def instructions(self, view: str | None, principal: Principal = ANONYMOUS) -> str | None:
        """Return what a model should know of a view: its description, and what the servers say of themselves."""
        found = await self._view(view).look(principal)
        told = [found.description] if found.description else []
        told += [
            f"{server.spec.key}: {server.inventory.instructions}"
            for server in found.servers
            if server.inventory.instructions
        ]
        return "\n\n".join(told)[:INSTRUCTIONS] or None

    def mirrored(self, view: str | None, tool: str, principal: Principal = ANONYMOUS) -> Mirrored:
        """Return which arguments of a tool its clients repeat in headers; of one that is not for them, none."""
        found = self._view(view).named(principal, tool)
        return {} if found is None else found[0].mirrored

    def attach_groups(self, groups: Iterable[GroupedTool]) -> None:
        """Serve groups of the program that it runs in, beside all else; `w.attach` calls it.

        Raises:
            ValueError: there is a tool of that name.
        """
        added = tuple(groups)
        taken = {*self._view(None).served_names, *(one.name for one in self.live.attached)}
        for one in added:
            _ = one.definition
            if one.name in taken:
                raise ValueError(f"w.attach: the gateway has a tool named {one.name!r}; give the group another name")
        self.live.attached += added
        if self.live.generation:
            self.live.changed()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener of every event from now on, until what is returned is called."""
        return self.live.listen(listener)

    def report(self) -> dict[str, Any]:
        """Return how everything is, for `/readyz`."""
        servers = {key: _health(server) for key, server in self.pool.servers.items()}
        degraded = [key for key, server in self.pool.servers.items() if server.state not in ("ready", "starting")]
        missing = [key for key in degraded if self.pool.servers[key].spec.required]
        return {
            "ready": self._ready and not missing,
            "degraded": degraded,
            "generation": self.live.generation,
            "upstreams": servers,
            "problems": list(self.live.problems),
        }

    def _view(self, name: str | None) -> View:
        views = self.live.catalogue.views
        found = views.get(name)
        if found is None:
            raise NotFound("View", str(name), [known for known in views if known is not None])
        return found

    async def _settle(self) -> None:
        await self.pool.settled()
        self.live.changed()
        await self.live.settle()
        self._ready = True

    def _built(self) -> None:
        metrics = self.telemetry.metrics
        # Kept traces would hold the snapshot that their calls ran in.
        self.telemetry.traces.settle()
        metrics.know(name for view in self.live.catalogue.views.values() for name in view.served_names)
        metrics.upstreams({key: server.state == "ready" for key, server in self.pool.servers.items()})

    def _changed(self) -> None:
        # Until all have settled, one build at the end is enough.
        if self._ready:
            self.live.changed()

    def _event(self, server: Server, method: str, params: dict[str, Any]) -> None:
        if method == UPDATED:
            uri = self.live.catalogue.uris.get((server.spec.key, str(params.get("uri"))))
            told = params if uri is None else {**params, "uri": uri}
            self.live.tell(Event(method, told, ALL))


def _silent(server: str, line: str) -> None:
    """Log nothing."""


def _health(server: Server) -> dict[str, Any]:
    told: dict[str, Any] = {"state": server.state, "tools": len(server.inventory.tools)}
    if server.problem is not None:
        told["problem"] = server.problem
    return told
