"""Serving: a gateway in this process, over HTTP or stdio, or in several that share the port."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weft.app.running import Running
from weft.app.specs import message_limits_of
from weft.config import Config, load_config
from weft.config.sections import Listen
from weft.doors.guard import Guard
from weft.doors.hired import Hired, hired
from weft.doors.listener import Listener, bind, run, stopped_by_signals
from weft.doors.listener import serve as serve_listeners
from weft.doors.mcp.app import McpDoor
from weft.doors.mcp.stdio import StdioDoor
from weft.doors.peers import Peers
from weft.doors.sites import Site, check_bind, keep_warning
from weft.doors.workers import Patience, Workers
from weft.dsl.local import LocalTools, PythonTool
from weft.errors import DocumentInvalid, InputError, WeftError, errors_in
from weft.gateway.gateway import Gateway
from weft.gateway.live import Content
from weft.ir.document import Document
from weft.ports import ANONYMOUS, Principal
from weft.telemetry.logs import Log, LogFormat, configure
from weft.telemetry.watchdog import Watchdog
from weft.upstreams.stderr import redact

CLIENTS, OPERATORS = "clients", "operators"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says; what it does not say, weft.yaml does."""

    config: Path | None = None
    registry: Path | None = None
    stdio: bool = False
    agent: str | None = None
    """As which agent of the registry the client on stdin calls."""
    host: str | None = None
    port: int | None = None
    admin_port: int | None = None
    workers: int = 1
    insecure: bool = False
    log_level: str | None = None
    log_format: LogFormat | None = None
    tell: Callable[[str], object] = field(default=print)
    """Tells whoever started it, on stderr, in sentences."""

    def settings(self) -> Config:
        """Return weft.yaml with what the command line says in the place of its own.

        Raises:
            DocumentInvalid: with every problem of the file.
        """
        config = load_config(self.config, os.environ)
        listen: dict[str, Any] = {"host": self.host, "port": self.port}
        listen = {key: value for key, value in listen.items() if value is not None}
        changed = Listen.model_validate({**config.listen.model_dump(by_alias=True, exclude_unset=True), **listen})
        admin = config.admin if self.admin_port is None else config.admin.model_copy(update={"port": self.admin_port})
        return config.model_copy(update={"listen": changed, "admin": admin})


async def serve(options: Options) -> int:
    """Serve until told to stop; return the exit code."""
    config = options.settings()
    logs = config.telemetry.logs
    configure(level=options.log_level or logs.level, format=options.log_format or logs.format, redact=redact)
    if (options.log_format or logs.format) != "json":
        return await _serve(config, options)
    # Whoever reads this by machine gets nothing else between the lines.
    try:
        return await _serve(config, replace(options, tell=_logged))
    except WeftError as error:
        failure = error
    return _logged_failure(failure)


async def _serve(config: Config, options: Options) -> int:
    _tell_of(config, options)
    if options.stdio:
        return await _over_stdio(config, options)
    if options.agent is not None:
        raise InputError("--agent is for --stdio", hint="over HTTP each request says who calls: X-Agent-Name, a token")
    authenticated = config.identity.authenticates
    warning = check_bind(config.listen.host, authenticated=authenticated, insecure=options.insecure)
    job = hired()
    if job is not None:
        return await _as_worker(config, options, job)
    sockets = _sockets(config)
    if options.workers > 1:
        async with _reminding(warning):
            return await _as_parent(config, options, sockets)
    async with _reminding(warning):
        return await _alone(config, options, sockets)


def _logged(text: str) -> None:
    Log("gateway").info(text.strip())


def _logged_failure(error: WeftError) -> int:
    """Log why it does not begin, or did not end well; return the exit code."""
    if isinstance(error, DocumentInvalid):
        problems = [str(problem) for problem in errors_in(error.problems)]
        Log("gateway").error("what weft was given cannot be served", code=error.code, problems=problems)
    else:
        Log("gateway").error(error.message, code=error.code, **({} if error.hint is None else {"hint": error.hint}))
    return 2 if isinstance(error, InputError) else 1


async def _alone(config: Config, options: Options, sockets: dict[str, socket.socket]) -> int:
    running = Running(config, registry=options.registry)
    await _listen(running, config, sockets, on_started=lambda: _announce(options, config, sockets, running))
    return 0


async def _as_worker(config: Config, options: Options, job: Hired) -> int:
    peers = Peers(job.directory, index=job.index, count=job.count)
    running = Running(config, registry=options.registry, key=job.key, peers=peers)
    stop = asyncio.Event()
    orphaned = asyncio.create_task(job.orphaned())
    orphaned.add_done_callback(lambda _: stop.set())
    try:
        await _listen(running, config, job.sockets, on_started=job.started, stop=stop, shared_by=job.count)
    finally:
        orphaned.cancel()
    return 0


async def _as_parent(config: Config, options: Options, sockets: dict[str, socket.socket]) -> int:
    command = (sys.executable, "-m", "weft.cli", *sys.argv[1:])
    workers = Workers(
        command,
        count=options.workers,
        sockets={CLIENTS: sockets[CLIENTS]},
        first_only={name: each for name, each in sockets.items() if name != CLIENTS},
        patience=Patience(drain=config.drain),
    )
    return await workers.run(on_started=lambda: _announce(options, config, sockets, None))


async def _over_stdio(config: Config, options: Options) -> int:
    running = Running(config, registry=options.registry, local=True)
    stop = asyncio.Event()
    try:
        with stopped_by_signals(stop):
            async with _hanging_up(running):
                await running.start()
                limits, principal = message_limits_of(config), _principal(options.agent)
                await _until(stop, StdioDoor(running.gateway, principal=principal, limits=limits).serve())
    finally:
        await running.close()
    return 0


def _principal(agent: str | None) -> Principal:
    """Return who calls over stdio: whoever has started weft, as the agent that it says to be."""
    if agent is None:
        return ANONYMOUS
    name, _, version = agent.partition("@")
    return Principal(subject=agent, agent_name=name, agent_version=version or None, method="header")


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Do some work to its end, or until told to stop."""
    doing, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
    finally:
        for task in (doing, stopping):
            task.cancel()
        await asyncio.gather(doing, stopping, return_exceptions=True)


async def _listen(
    running: Running,
    config: Config,
    sockets: dict[str, socket.socket],
    *,
    on_started: Callable[[], object],
    stop: asyncio.Event | None = None,
    shared_by: int = 1,
) -> None:
    """Start a gateway, serve on the sockets until told to stop, and end it in good order."""
    try:
        async with _hanging_up(running):
            await running.start()
            listeners: list[Listener] = [running.listener(sockets[CLIENTS], shared_by=shared_by)]
            if OPERATORS in sockets:
                listeners.append(running.admin(sockets[OPERATORS]))
            async with Watchdog(running.telemetry.metrics, Log("loop")):
                await serve_listeners(*listeners, drain=config.drain, on_started=on_started, stop=stop)
    finally:
        await running.close()


def _sockets(config: Config) -> dict[str, socket.socket]:
    sockets = {CLIENTS: bind(config.listen.host, config.listen.port)}
    if config.admin.enabled:
        sockets[OPERATORS] = bind(config.admin.host, config.admin.port)
    return sockets


@contextlib.asynccontextmanager
async def _hanging_up(running: Running) -> AsyncGenerator[None]:
    """Read everything again on SIGHUP."""
    loop = asyncio.get_running_loop()
    tasks = set[asyncio.Task[Any]]()

    def again() -> None:
        if not running.watching:
            return  # What it starts with is as new as can be.
        task = loop.create_task(running.reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGHUP, again)
    try:
        yield
    finally:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.remove_signal_handler(signal.SIGHUP)
        for task in tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def _reminding(warning: str | None) -> AsyncGenerator[None]:
    """Go on saying something that must not be forgotten."""
    if warning is None:
        yield
        return
    task = asyncio.create_task(keep_warning(warning))
    try:
        yield
    finally:
        task.cancel()


def _tell_of(config: Config, options: Options) -> None:
    for problem in config.problems:
        options.tell(str(problem))
    for sentence in config.unused():
        options.tell(f"warning: {sentence}")
    keys = config.identity.key_file
    if keys is not None and not keys.exists():
        options.tell(f"warning: there are no keys in {keys} yet; `weft key create --file {keys}` makes one")


def _announce(options: Options, config: Config, sockets: dict[str, socket.socket], running: Running | None) -> None:
    scheme = "https" if config.listen.tls is not None else "http"
    host, port = sockets[CLIENTS].getsockname()[:2]
    where = f"[{host}]" if ":" in host else host
    options.tell(f"weft serves MCP at {scheme}://{where}:{port}/mcp")
    if OPERATORS in sockets:
        options.tell(f"     operators at http://{config.admin.host}:{sockets[OPERATORS].getsockname()[1]}")
    if running is not None:
        task = asyncio.get_running_loop().create_task(_tell_when_ready(options, running))
        running.keep(task)


async def _tell_when_ready(options: Options, running: Running) -> None:
    await running.gateway.ready()
    report = running.gateway.report()
    tools = len(running.gateway.live.catalogue.views[None].tools)
    servers = len(report["upstreams"])
    counted = f"{tools} tool{'' if tools == 1 else 's'}, {servers} server{'' if servers == 1 else 's'}"
    options.tell(f"     {counted}; Ctrl-C stops")
    for key in report["degraded"]:
        options.tell(f"     {key} is not available: {report['upstreams'][key].get('problem')}")
    for problem in report["problems"]:
        options.tell(f"     {problem}")
    if options.registry is None and (beside := _unused_beside(running.config)) is not None:
        options.tell(f"     {beside.name} is here, and is not served: name it with --registry or registry.source")


def _unused_beside(config: Config) -> Path | None:
    """Return the registry of another name that lies where none was found under the usual one."""
    path = config.registry.path
    if path is None or not config.registry.optional or path.exists():
        return None
    return next((other for suffix in (".yaml", ".yml", ".py") if (other := path.with_suffix(suffix)).exists()), None)


def serve_tools(*tools: PythonTool[..., Any], name: str = "weft", port: int | None = None) -> None:
    """Serve Python tools as an MCP server of its own: over stdio, or at a port of this machine.

    Raises:
        InputError: there are no tools, or the port is taken.
    """
    if not tools:
        raise InputError("there are no tools to serve")
    with contextlib.suppress(KeyboardInterrupt):
        run(_serve_tools(tools, name, port))


async def _serve_tools(tools: Sequence[PythonTool[..., Any]], name: str, port: int | None) -> None:
    gateway = Gateway(content=Content(Document(), LocalTools(tools)))
    gateway.info = {**gateway.info, "name": name, "title": name}
    await gateway.start()
    try:
        if port is None:
            await StdioDoor(gateway).serve()
            return
        guard = Guard({"/mcp": McpDoor(gateway)}, site=Site())
        await serve_listeners(Listener(guard, sockets=[bind("127.0.0.1", port)]))
    finally:
        await gateway.close()
