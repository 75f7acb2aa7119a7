"""`weft run`: one call of a tool, without a server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.files import REGISTRY, file_meant, no_registry_hint, only_tool, write_file
from weft.cli.given import seconds_given, value_given
from weft.cli.going_on import GoingOn
from weft.cli.output import as_json, fail, note, plain, result, show_problems, warn
from weft.cli.outside import importing
from weft.errors import DocumentInvalid, ExecutionFailed, InputError, NotFound, WeftError

if TYPE_CHECKING:
    from weft.app import Registry
    from weft.app.stores import Stores
    from weft.config import Config
    from weft.ir.document import Document
    from weft.ir.normalise import Parsed
    from weft.ports import Upstream
    from weft.run.engine import Result
    from weft.run.trace import Trace
    from weft.upstreams.pool import Pool

ANSWERS = """\b
Answers of --mock, by tool:
  search: [{title: A}]                         the value, for every call
  search: {$answers: [first, second]}          one for each call, in turn
  search: {$error: "no such page"}             the tool ran and said no
  search: {$down: "connection refused"}        its server is not there
  search: {$late: {seconds: 5, answer: [..]}}  the answer comes late

\b
Example:
  weft run research_pipeline --registry research.py --input '"bees"' --trace
  weft run research_pipeline --mock answers.yaml --input @topic.json
  weft run workflow.yaml -c weft.yaml --input '{"topic": "bees"}'"""


DRAIN = 5.0
"""How many seconds what outlives the call has, such as a tap or a saga."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asked for."""

    tool: str
    config: Path | None
    registry: Path | None
    tools: Path | None
    mock: Path | None
    input: str | None
    timeout: str | None
    trace: bool
    trace_out: Path | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that the call needs."""

    tool: str
    document: Document
    upstream: Upstream
    value: Any
    timeout: float | None
    parsed: Parsed | None
    """The document as it was written, unless that was in Python."""


@click.command("run", epilog=ANSWERS)
@click.argument("tool", metavar="TOOL|FILE")
@click.option("-c", "--config", type=click.Path(path_type=Path), help="A weft.yaml: its servers and stores are used.")
@click.option("--registry", type=click.Path(path_type=Path), help="JSON, YAML or Python.  [default: ./registry.json]")
@click.option("--tools", type=click.Path(path_type=Path), help="A Python file: every @w.python_tool and w.group in it.")
@click.option("--mock", type=click.Path(path_type=Path), help="Answers instead of tools, as YAML or JSON.")
@click.option("--input", metavar="JSON|@FILE|-", help="What the tool is given; - is stdin.  [default: {}]")
@click.option(
    "--timeout", metavar="DURATION", help="The longest the call may take, such as 500ms or 2m.  [default: 60s]"
)
@click.option("--trace", is_flag=True, help="Print what each step did, and how long it took, as a tree.")
@click.option("--trace-out", type=click.Path(path_type=Path), help="Write the trace to a .json or .svg file.")
@click.option("--json", "json_", is_flag=True, help='Print {"value", "warnings", "trace"}, or {"error"}.')
def command(json_: bool, **given: Any) -> None:
    """Run TOOL of a registry in this process and print its result as JSON; warnings and the trace go to stderr.

    FILE is a document with one tool, such as a workflow document.

    Tools are found among the answers of --mock first, then in --tools, then in the registry's own file when that is
    Python, then on the servers of --config. A composition whose input is not an object also takes it as the sole
    property of one. Exits with 1 when the work failed, with 2 when the input is wrong.
    """
    order = Order(**given)
    try:
        # What a tool prints must not stand in the result.
        with redirect_stdout(sys.stderr):
            done = asyncio.run(_done(order))
    except NotPrepared as error:
        fail(error.why, json_=json_, code=2)
    except WeftError as error:
        _tell_of_servers(order, error)
        _show_trace(order, error.trace)
        fail(error, json_=json_, code=1)
    else:
        _show(order, done, json_=json_)


def _tell_of_servers(order: Order, error: WeftError) -> None:
    """Hint at the servers of ./weft.yaml where a tool was not found and nobody named them."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, NotFound):
        cause = cause.__cause__
    if cause is not None and error.hint is None and order.config is None and Path("weft.yaml").exists():
        error.hint = "-c weft.yaml connects to the servers of ./weft.yaml"


class NotPrepared(Exception):
    """The call did not begin: the input is wrong."""

    def __init__(self, why: InputError) -> None:
        super().__init__(why)
        self.why = why


async def _done(order: Order) -> Result:
    """Prepare the call, with servers where they are asked for, and make it."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            config = None if order.config is None else _settings(order.config)
            servers = None if config is None else await stack.enter_async_context(_servers(config))
            prepared = _prepare(order, config, servers)
            stores = None if config is None else await stack.enter_async_context(_stores(config))
        except InputError as error:
            raise NotPrepared(error) from None
        return await _call(prepared, stores, traced=order.trace or order.trace_out is not None)


def _settings(file: Path) -> Config:
    import os

    from weft.config import load_config

    config = load_config(file, os.environ)
    show_problems(config.problems)
    return config


@contextlib.asynccontextmanager
async def _servers(config: Config) -> AsyncGenerator[Pool]:
    from weft.app.servers import connected

    async with connected(config) as pool:
        for server in pool.servers.values():
            if server.state != "ready":
                warn(f"Server '{server.key}' is not available: {server.problem}")
        yield pool


@contextlib.asynccontextmanager
async def _stores(config: Config) -> AsyncGenerator[Stores]:
    from weft.app.stores import Stores

    stores = Stores(config.stores)
    try:
        await stores.open()
        for problem in stores.problems.values():
            warn(problem)
        yield stores
    finally:
        await stores.close()


def _prepare(order: Order, config: Config | None, servers: Pool | None) -> Prepared:
    from weft.app import Upstreams, callable_in
    from weft.plan.inputs import accept, misfits
    from weft.registry.tools import find_tool

    _check_trace_out(order.trace_out)
    timeout = None if order.timeout is None else seconds_given(order.timeout)
    file = file_meant(order.tool) if order.registry is None else None
    order = order if file is None else replace(order, registry=file)
    registry = _registry(order, config)
    name = order.tool if file is None else only_tool(registry.document, file)
    upstream = Upstreams([*_extra(order), registry.tools, *([] if servers is None else [servers])])
    try:
        document = callable_in(registry.document, name, upstream)
    except InputError as error:
        if order.registry is None and config is None and not REGISTRY.exists():
            in_config = ", or that of the gateway with -c weft.yaml" if Path("weft.yaml").exists() else ""
            error.hint = error.hint or f"{no_registry_hint()}{in_config}"
        raise
    tool = find_tool(document, name)
    assert tool is not None, "it can be called"
    value = accept(tool, {} if order.input is None else value_given(order.input))
    for misfit in misfits(tool, value):
        warn(f"The input of '{tool.name}' does not fit: {misfit}")
    return Prepared(name, document, upstream, value, timeout, registry.parsed)


def _registry(order: Order, config: Config | None) -> Registry:
    from weft.app import Registry, open_registry
    from weft.dsl.local import LocalTools
    from weft.ir.document import Document

    file = order.registry or (config.registry.path if config is not None else None) or REGISTRY
    if order.registry is None and not file.exists():
        return Registry(Document(), LocalTools(), [])
    with importing(file):
        registry = open_registry(file).valid()
    # Names that lead nowhere fail when they are called, if they are.
    show_problems(one for one in registry.problems if one.code != "UnknownName")
    return registry


def _extra(order: Order) -> list[Upstream]:
    from weft.app import groups_of
    from weft.dsl.local import LocalTools
    from weft.dsl.modules import read_module
    from weft.ir.read import read_file
    from weft.testing import Canned, answers_of

    found: list[Upstream] = []
    if order.mock is not None:
        found.append(Canned(answers_of(read_file(order.mock))))
    if order.tools is not None:
        with importing(order.tools):
            module = read_module(order.tools)
            groups = groups_of(module)
        if not module.tools and not module.groups:
            hint = "put @w.python_tool above its functions"
            raise InputError(f"{order.tools} has no tools", code="NoTools", hint=hint)
        found += [LocalTools(module.tools), groups]
    return found


def _check_trace_out(path: Path | None) -> None:
    if path is not None and path.suffix not in (".json", ".svg"):
        raise InputError(f"--trace-out: {path} is neither .json nor .svg", code="UnknownFormat")


def _show(order: Order, done: Result, *, json_: bool) -> None:
    _show_trace(order, done.trace)
    for warning in done.warnings:
        warn(warning)
    told: dict[str, Any] = {"value": done.value, "warnings": done.warnings}
    if done.trace is not None:
        told["trace"] = done.trace.to_json()
    try:
        text = as_json(told if json_ else done.value)
    except ExecutionFailed as error:
        fail(error, json_=json_, code=1)
    else:
        result(text)


async def _call(prepared: Prepared, stores: Stores | None, *, traced: bool) -> Result:
    from weft.app import local
    from weft.patterns.kept import Kept

    kept = Kept()
    try:
        engine = local(prepared.document, prepared.upstream, stores=None if stores is None else stores.find, kept=kept)
    except ExecutionFailed as error:
        # A store that nobody configured is a matter of what was written.
        raise NotPrepared(InputError(error.message, code=error.code, hint=error.hint)) from None
    except DocumentInvalid as error:
        # What does not fit a tool is known only now that the servers have told what their tools take.
        found = error.problems if prepared.parsed is None else map(prepared.parsed.located, error.problems)
        raise NotPrepared(DocumentInvalid([*found])) from None
    sagas = GoingOn(kept)
    try:
        return await engine.run(prepared.tool, prepared.value, timeout=prepared.timeout, trace=traced)
    except BaseException:
        sagas.begin(DRAIN)
        raise
    finally:
        await engine.close(drain=DRAIN)
        sagas.end()


def _show_trace(order: Order, given: object) -> None:
    if given is None:
        return
    trace: Trace = given  # pyright: ignore[reportAssignmentType]  (errors carry it untyped)
    if order.trace:
        for line in trace.lines():
            note(plain(line))
    if order.trace_out is not None:
        write_file(order.trace_out, _drawn(trace, order.trace_out))


def _drawn(trace: Trace, path: Path) -> str:
    from weft.cli.drawing.timeline import timeline

    return (
        timeline(trace) if path.suffix == ".svg" else json.dumps(trace.to_json(), indent=2, ensure_ascii=False) + "\n"
    )
