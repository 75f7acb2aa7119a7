"""A running gateway: its registry and its configuration watched, its doors open, for one process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncGenerator, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from weft.app.access import access_of, is_same_access
from weft.app.approvals import approval_of, argv_of
from weft.app.auditing import Auditing
from weft.app.composing import compositions_of, rights_over
from weft.app.identities import authenticators_of
from weft.app.keeping import Keeping
from weft.app.middleware import Kept as Middleware
from weft.app.registries import content_of, source_of
from weft.app.resuming import OtherWorkers, resume_for_others
from weft.app.specs import document_limits_of, limits_of, message_limits_of, naming_of, specs_of
from weft.config import Config, load_config
from weft.config.checks import is_loopback
from weft.doors.admin import AdminDoor, answer_peers
from weft.doors.compositions import CompositionsDoor
from weft.doors.fronts import admin_front, public_front
from weft.doors.listener import Limits as ListenerLimits
from weft.doors.listener import Listener, Tls
from weft.doors.load import Load, LoadLimits
from weft.doors.mcp.app import McpDoor
from weft.doors.peers import Peers
from weft.doors.plain import PlainDoor
from weft.doors.sites import Site
from weft.doors.state import StateDoor, answer_about_state
from weft.errors import InputError, Problem, UpstreamUnavailable
from weft.gateway.auditing import Auditor
from weft.gateway.gateway import Gateway
from weft.gateway.signing import Signer
from weft.gateway.sources import FileSource, Loaded
from weft.gateway.watcher import Watcher
from weft.run.limits import Limits
from weft.telemetry import Telemetry
from weft.telemetry.exporting import export_of
from weft.telemetry.exposition import render
from weft.telemetry.logs import Log
from weft.telemetry.traces import Traces
from weft.upstreams.stderr import redact

FIXED = ("listen", "admin", "registry", "identity", "lock", "audit", "stores", "compositions", "telemetry", "drain")
"""Sections that are read when weft starts, and only then."""

LIVE_SECTIONS = ("servers", "views", "names", "groups", "limits", "policy", "quotas", "middleware")
"""Sections that count from the moment on that they are changed."""

LIVE = ("response", *(field.name for field in fields(Limits)))
"""Limits that count from the next call on when they are changed."""


class Running:
    """One process of a gateway: what it serves, and what its operators can ask of it."""

    def __init__(
        self,
        config: Config,
        *,
        registry: Path | None = None,
        key: bytes | None = None,
        peers: Peers | None = None,
        env: Mapping[str, str] | None = None,
        local: bool | None = None,
    ) -> None:
        """Make one inside a running event loop; `key` is shared by all workers.

        `local` says that only this machine reaches it; without it, the address that it listens on does.

        Raises:
            InputError: the audit log cannot be written, a file of keys cannot be used, or middleware not imported.
        """
        self.config = config
        self.log = Log("gateway")
        self.peers = peers
        self._env = os.environ if env is None else env
        self._key = key
        self._local = is_loopback(config.listen.host) if local is None else local
        self._written: Config | None = None
        self._listener: Listener | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.telemetry = Telemetry(
            traces=Traces(keep=config.telemetry.traces, redact=redact), export=export_of(self._env, redact=redact)
        )
        self._upstream = upstream = Log("upstream")
        self.auditing = Auditing(config.audit, worker=None if peers is None else peers.index, redact=redact)
        self._auditor = auditor = Auditor(self.auditing.log)
        self.approval = approval = approval_of(config, on_security=partial(_quarantined, auditor))
        self.keeping = Keeping(config)
        self._middleware = Middleware()
        self.gateway = Gateway(
            specs_of(config),
            naming=naming_of(config, kept=self._middleware),
            access=access_of(config, loopback=self._local),
            stores=self.keeping.stores.find,
            signals=self.keeping.signals,
            auditor=auditor,
            admit=None if approval is None else approval.admit,
            recheck=None if approval is None else config.lock.every,
            limits=limits_of(config),
            telemetry=self.telemetry,
            signer=Signer(key),
            elsewhere=OtherWorkers(peers) if peers is not None else None,
            log=self._said_of,
            # The line of an episode has the last of it.
            chatter=lambda server, line: upstream.debug(line, server=server),
        )
        self.compositions = compositions_of(config, self.gateway, self.keeping.stores)
        self.rights = rights_over(self.compositions, self.gateway, auditor)
        self.authenticators = authenticators_of(
            config.identity,
            loopback=self._local,
            egress=config.egress,
            agent_at=self.gateway.live.agent_at,
        )
        self.authenticators.on_refused = lambda reason: auditor.security("identity-refused", reason=reason)
        self.registry = Watcher(source_of(config, registry), self._load, on_result=self._reloaded, log=Log("registry"))
        self.file = (
            None
            if config.file is None
            else Watcher(FileSource(config.file), self._configure, what="configuration", log=Log("config"))
        )

    async def start(self) -> None:
        """Load the registry, connect to the servers, and begin to watch.

        Raises:
            DocumentInvalid: the registry cannot be served.
            UpstreamUnavailable: a server that is required does not answer.
        """
        if self.peers is not None:
            resume_for_others(self.peers, self.gateway.parking)
            answer_peers(self.peers, self)
            self.peers.on("metrics", self._counted)
            await self.peers.start()
        await self.authenticators.start()
        self.auditing.start()
        await self.keeping.open()
        for name, problem in self.keeping.stores.problems.items():
            self.log.warning(problem, store=name)
        await self.registry.start()
        await self.gateway.start()
        watch = self.keeping.begin(self.gateway, self.peers)
        self.telemetry.metrics.state_counted_by(self.keeping.signals.figures, gauges=watch.gauges)
        if self.peers is not None:
            answer_about_state(self.peers, self.keeping.operating)
        if any(server.spec.required for server in self.gateway.pool.servers.values()):
            await self.gateway.ready()
            self._check_required()
        self._tasks.append(asyncio.create_task(self.registry.run(), name="registry watcher"))
        self._tasks.append(asyncio.create_task(self.compositions.keep_alive(), name="runs"))
        if self.approval is not None:
            watching = self.approval.watch(self.gateway.pool.recheck)
            self._tasks.append(asyncio.create_task(watching, name="lock watcher"))
        if self.file is not None:
            await self.file.refresh()
            self._tasks.append(asyncio.create_task(self.file.run(), name="config watcher"))

    async def close(self) -> None:
        """End everything that was begun."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.compositions.close()
        await self.keeping.end()
        await self.gateway.close()
        await self.keeping.close()
        await self.authenticators.close()
        await self._auditor.close()
        await self.auditing.close()
        if self.telemetry.export is not None:
            await asyncio.to_thread(self.telemetry.export.close)
        if self.peers is not None:
            await self.peers.close()

    @property
    def watching(self) -> bool:
        """Whether it has started."""
        return bool(self._tasks)

    def keep(self, task: asyncio.Task[None]) -> None:
        """End a task with everything else."""
        self._tasks.append(task)

    # What is served.

    def listener(self, sock: socket.socket, *, shared_by: int = 1) -> Listener:
        """Return the listener for clients, on a socket that so many processes share."""
        config = self.config
        given, limits = config.listen, config.limits
        door = McpDoor(self.gateway, key=self._key, peers=self.peers, limits=message_limits_of(config))
        plain = PlainDoor(self.gateway, limits=document_limits_of(config))
        compositions = CompositionsDoor(
            self.compositions, rights=self.rights, peers=self.peers, limits=document_limits_of(config)
        )
        site = Site(bound=given.host, hosts=given.allowed_hosts, origins=given.allowed_origins)
        load = Load(
            LoadLimits(
                bytes=limits.in_flight_bytes,
                unknown_body=limits.body,
                per_principal=limits.per_principal,
                anonymous=limits.in_flight,
                rate=limits.rate,
                burst=2 * (limits.rate or 0),
            )
        )
        guard = public_front(
            door,
            plain,
            compositions=compositions,
            health=self,
            site=site,
            metrics=self.metrics,
            load=load,
            authenticators=self.authenticators,
            public_url=given.public_url,
        )
        tls = None if given.tls is None else Tls(cert=given.tls.cert, key=given.tls.key, client_ca=given.tls.client_ca)
        bears = ListenerLimits(
            header_timeout=limits.header_timeout,
            body_timeout=limits.body_timeout,
            header_bytes=limits.headers,
            connections_per_ip=limits.connections_per_address,
        )

        def drained() -> None:
            # Streams on which clients only listen would last as long as the drain may.
            door.close()
            compositions.close()

        listener = Listener(guard, sockets=[sock], tls=tls, limits=bears, shared_by=shared_by, on_drain=drained)
        self.telemetry.metrics.limits_counted_by(
            lambda: {
                "Overloaded": load.overloaded,
                "TooManyRequests": load.throttled,
                "UnknownHost": guard.bad_hosts,
                "ForbiddenOrigin": guard.bad_origins,
                "TooManyConnections": listener.refused_connections,
                "RequestTimeout": listener.timeouts,
            }
        )
        load.unsent = lambda: listener.unsent
        self.telemetry.metrics.limits_counted_by(self.authenticators.counted)
        self.telemetry.metrics.limits_counted_by(self._auditor.counted)
        self.telemetry.metrics.limits_counted_by(lambda: door.exceeded)
        self.telemetry.metrics.limits_counted_by(lambda: plain.exceeded)
        self.telemetry.metrics.limits_counted_by(lambda: compositions.exceeded)
        self.telemetry.metrics.limits_counted_by(lambda: listener.refusals)
        self._listener = listener
        return listener

    def admin(self, sock: socket.socket) -> Listener:
        """Return the listener for operators."""
        state = StateDoor(self.keeping.operating, peers=self.peers)
        guard = admin_front(AdminDoor(self, state=state, peers=self.peers), health=self, metrics=self.metrics)
        return Listener(guard, sockets=[sock])

    # What operators ask.

    def report(self) -> dict[str, Any]:
        """Return how everything is."""
        told = self.gateway.report()
        told["registry"] = self.registry.status()
        if self._auditor.problem is not None:
            told["degraded"].append("audit")
            told["problems"].append(self._auditor.problem)
        if self.keeping.watch is not None:
            for key, found in self.keeping.watch.report().items():
                told[key] += found
        if self.approval is not None:
            told["lock"] = self._unapproved()
            if self.approval.problem is not None:
                told["problems"].append(self.approval.problem)
        watched = {"registry": self.registry, "config": self.file}
        told["degraded"] += [name for name, one in watched.items() if one is not None and one.problems]
        if self.file is not None and self.file.problems:
            told["config"] = self.file.status()
        return told

    def _unapproved(self) -> dict[str, dict[str, Any]]:
        """Return what is not as it was approved, of the servers that there are."""
        found = {} if self.approval is None else self.approval.report()
        return {key: one for key, one in found.items() if key in self.gateway.pool.servers}

    async def metrics(self, accept: str = "") -> tuple[bytes, str]:
        """Return what all workers have counted, as Prometheus reads it, and the kind of text that it is."""
        others = [] if self.peers is None else await self.peers.tell_all({"op": "metrics"})
        snapshots = [self.telemetry.metrics.snapshot(), *(one["metrics"] for one in others)]
        return await asyncio.to_thread(render, snapshots, accept=accept)

    async def reload(self) -> dict[str, Any]:
        """Read registry and configuration again, now."""
        if self.file is not None:
            await self.file.refresh()
        await self.registry.refresh()
        self.gateway.pool.recheck()
        problems = [*self.registry.problems, *(self.file.problems if self.file is not None else ())]
        if self._listener is not None:
            try:
                self._listener.renew_certificate()
            except InputError as error:
                problems.append(Problem(code=error.code, message=error.message))
        return {"generation": self.gateway.live.generation, "problems": [problem.to_json() for problem in problems]}

    async def traces(self, limit: int) -> list[dict[str, Any]]:
        """Return the latest calls."""
        return self.telemetry.traces.recent(limit)

    async def trace(self, trace_id: str) -> list[dict[str, Any]]:
        """Return the calls of a trace with their steps."""
        return self.telemetry.traces.get(trace_id)

    async def upstreams(self) -> dict[str, Any]:
        """Return the state of each server, and what of it is not as it was approved."""
        states = self.gateway.report()["upstreams"]
        for key, found in self._unapproved().items():
            states[key]["lock"] = found
        return states

    # What changes.

    async def _load(self, loaded: Loaded) -> None:
        config = self._written or self.config
        startup = config.registry.validation.startup
        content = await asyncio.to_thread(
            content_of, loaded, severities=startup, allow=config.egress.allow, stores=self.keeping.stores
        )
        await self.gateway.live.load(content)
        for problem in content.problems:
            # Whether a server has it is only known when the servers are; /readyz tells then.
            if problem.code != "UnknownName":
                # An old form is no trouble, only less than there could be.
                (self.log.info if problem.code == "OldRegistry" else self.log.warning)(str(problem))

    async def _configure(self, loaded: Loaded) -> None:
        assert loaded.path is not None
        config = await asyncio.to_thread(load_config, loaded.path, self._env)
        before = self._written or _as_started(self.config, config)
        if before != config:
            for section in (name for name in FIXED if _fixed(config, name) != _fixed(before, name)):
                self.log.warning(f"`{section}` has changed: that takes a restart")
            if _at_the_doors(config) != _at_the_doors(before):
                self.log.warning("`limits` of requests and connections have changed: that takes a restart")
            if self.approval is not None:
                self.approval.argv_of = argv_of(config)
            naming = await asyncio.to_thread(naming_of, config, kept=self._middleware)
            await self.gateway.pool.replace(specs_of(config))
            same = is_same_access(before, config)
            await self.gateway.live.configure(
                naming, self.gateway.live.access if same else access_of(config, loopback=self._local)
            )
            self.gateway.engine.limits = limits_of(config)
        self._written = config

    def _reloaded(self, result: str) -> None:
        if result != "unchanged":
            self.telemetry.metrics.reloaded(result, generation=self.gateway.live.generation)

    async def _counted(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"metrics": self.telemetry.metrics.snapshot()}

    def _said_of(self, server: str, line: str) -> None:
        """Log what became of a server: what is not well is a warning."""
        found = self.gateway.pool.servers.get(server)
        well = found is None or found.state in ("starting", "ready", "stopped")
        (self._upstream.info if well else self._upstream.warning)(line, server=server)

    def _check_required(self) -> None:
        for server in self.gateway.pool.servers.values():
            if server.spec.required and server.state != "ready":
                raise UpstreamUnavailable(server.spec.key, f"it is required, and {server.problem or 'does not answer'}")


def _quarantined(auditor: Auditor, event: str, server: str, tool: str, reason: str) -> None:
    auditor.security(event, server=server, tool=tool, reason=reason)


def _as_started(started: Config, written: Config) -> Config:
    """Return what weft was started with, but for what the command line may have said instead of the file."""
    return written.model_copy(update={name: getattr(started, name) for name in LIVE_SECTIONS})


def _fixed(config: Config, section: str) -> Any:
    """Return what of a section takes a restart; how strictly the registry is taken does not."""
    given = getattr(config, section)
    return given.model_copy(update={"validation": None}) if section == "registry" else given


def _at_the_doors(config: Config) -> dict[str, Any]:
    """Return the limits that are given to the doors, once."""
    return config.limits.model_dump(exclude=set(LIVE))


@contextlib.asynccontextmanager
async def running(config: Config, **given: Any) -> AsyncGenerator[Running]:
    """Run a gateway for as long as the block lasts."""
    one = Running(config, **given)
    try:
        await one.start()
        yield one
    finally:
        await one.close()
