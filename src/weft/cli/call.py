"""`weft call`: one call of a tool of any MCP server."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from dataclasses import dataclass
from typing import Any

import click

from weft.cli.given import seconds_given, value_given
from weft.cli.output import as_json, error_json, fail, note, plain, result, show_error, warn
from weft.cli.remote import Remote, connected, remote_of, remote_options, tool_named
from weft.errors import InputError, NotFound, ToolFailed, UpstreamRefused, WeftError
from weft.ports import is_array, is_object

PAIR = re.compile(r"([\w.$-]+)=(.*)", re.DOTALL)
TIMEOUT = 60.0
EXAMPLES = """\b
Example:
  weft call research_pipeline query="bees in the city" --trace
  weft call add a=1 b=2 --url http://127.0.0.1:9001/mcp
  weft call add --input '{"a": 1, "b": 2}' --stdio -- python server.py"""


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asked for."""

    tool: str
    remote: Remote
    pairs: tuple[str, ...]
    value: Any
    timeout: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the value or why there is none, and what weft says beside it when it is a weft."""

    value: Any
    failure: ToolFailed | None
    warnings: list[str]
    trace_id: str | None


@click.command("call", epilog=EXAMPLES)
@click.argument("tool")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[NAME=VALUE]... [-- COMMAND...]")
@remote_options
@click.option(
    "--input", "inputs", multiple=True, metavar="JSON|@FILE|-|NAME=VALUE", help="The arguments.  [default: {}]"
)
@click.option("--timeout", metavar="DURATION", help="The longest the call may take, such as 2m.  [default: 60s]")
@click.option("--trace", is_flag=True, help="Print what each step did, as a tree; asks the admin listener.")
@click.option("--admin", metavar="URL", help="The admin listener for --trace.  [default: http://127.0.0.1:15001]")
@click.option("--json", "json_", is_flag=True, help='Print {"value" or "error", "warnings", "traceId"}.')
def command(tool: str, words: tuple[str, ...], trace: bool, admin: str | None, json_: bool, **given: Any) -> None:
    """Call TOOL of any MCP server and print its value as JSON; warnings and progress go to stderr.

    Arguments are NAME=VALUE, a text or JSON as the tool's schema says, or one JSON object with --input; another value
    goes to the tool's only required argument. Exits with 1 when the tool failed, with 2 when the input is wrong.
    """
    try:
        answer = asyncio.run(_call(_order(tool, words, **given)))
    except WeftError as error:
        fail(error, json_=json_, code=2 if isinstance(error, InputError) else 1)
    if trace:
        _show_trace(answer, admin)
    for warning in answer.warnings:
        warn(warning)
    beside = {"warnings": answer.warnings, "traceId": answer.trace_id}
    if answer.failure is None:
        result(as_json({"value": answer.value, **beside} if json_ else answer.value))
        return
    if json_:
        result(as_json({"error": error_json(answer.failure), **beside}))
    else:
        show_error(answer.failure)
    raise click.exceptions.Exit(1)


def _order(
    tool: str, words: tuple[str, ...], *, inputs: tuple[str, ...], timeout: str | None, stdio: bool, **where: Any
) -> Order:
    pairs = _leading_pairs(words)
    remote = remote_of(**where, stdio=stdio, words=words[len(pairs) :])
    typed = tuple(one for one in inputs if PAIR.fullmatch(one))
    whole = [one for one in inputs if one not in typed]
    if len(whole) > 1 or (whole and (pairs or typed)):
        raise InputError("the arguments are given twice", code="GivenTwice", hint="either --input JSON or NAME=VALUE")
    value: Any = value_given(whole[0]) if whole else {}
    return Order(tool, remote, pairs + typed, value, TIMEOUT if timeout is None else seconds_given(timeout))


def _leading_pairs(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words before the command of a server: click does not tell where `--` stood."""
    count = next((at for at, word in enumerate(words) if not PAIR.fullmatch(word)), len(words))
    return words[:count]


async def _call(order: Order) -> Answer:
    from weft.gateway.results import TRACE, WARNINGS
    from weft.groups.shaping.results import CUT

    async with connected(order.remote) as client:
        deadline = asyncio.get_running_loop().time() + order.timeout
        tools = await client.list_tools(deadline=deadline)
        on_progress = _show_progress if sys.stderr is not None and sys.stderr.isatty() else None
        try:
            missing, tool = None, tool_named(order.tool, tools)
        except NotFound as error:
            # A gateway of ours may let be called what it does not list; with others nothing is tried out.
            if client.server_info.get("name") != "weft":
                raise
            missing, tool = error, {}
        arguments = _arguments(order, tool.get("inputSchema"))
        try:
            came = await client.call_tool(order.tool, arguments, deadline=deadline, on_progress=on_progress)
        except UpstreamRefused as refused:
            raise (missing or refused) from None
        meta: object = came.get("_meta")
        said = meta if is_object(meta) else {}
        # What was left out for the sake of models, others want to know, too.
        told = [one for key in (WARNINGS, CUT) if is_array(found := said.get(key)) for one in found]
        trace_id: object = said.get(TRACE)
        return Answer(
            *_outcome(came, order.tool, said),
            list(map(str, told)),
            trace_id if isinstance(trace_id, str) else None,
        )


def _outcome(came: dict[str, Any], tool: str, said: dict[str, Any]) -> tuple[Any, ToolFailed | None]:
    """Return the value of a result, or its failure with all that a weft says of it, more than `ToolFailed` can."""
    from weft.gateway.results import ERROR
    from weft.upstreams.results import value_of

    try:
        return value_of(came, tool=tool), None
    except ToolFailed as failed:
        error: object = said.get(ERROR)
        if is_object(error) and isinstance(code := error.get("code"), str):
            failed.code, failed.facts = code, error
        return None, failed


def _arguments(order: Order, schema: object) -> dict[str, Any]:
    properties = _properties(schema)
    if order.pairs:
        found = [PAIR.fullmatch(pair) for pair in order.pairs]
        return {one[1]: _typed(one[2], properties.get(one[1])) for one in found if one is not None}
    if is_object(order.value):
        return order.value
    required: object = schema.get("required") if is_object(schema) else None
    names = [str(one) for one in required] if is_array(required) else []
    names = names if len(names) == 1 else list(properties)
    if len(names) != 1:
        hint = f"it takes {', '.join(properties) or 'no arguments'}"
        raise InputError(f"'{order.tool}' needs an object of arguments", code="InvalidArguments", hint=hint)
    return {names[0]: order.value}


def _properties(schema: object) -> dict[str, Any]:
    properties: object = schema.get("properties") if is_object(schema) else None
    return properties if is_object(properties) else {}


def _typed(text: str, schema: object) -> Any:
    """Return what was typed as a text where the schema wants one, else as the JSON that it spells, if any."""
    wanted: object = schema.get("type") if is_object(schema) else None
    if wanted == "string" or (is_array(wanted) and "string" in wanted):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _show_progress(params: dict[str, Any]) -> None:
    done, total, message = params.get("progress"), params.get("total"), params.get("message")
    counted = f"{done}/{total}" if total is not None else str(done)
    note(click.style(plain(f"  {counted} {message or ''}".rstrip()), dim=True))


def _show_trace(answer: Answer, admin: str | None) -> None:
    from weft.cli.admin import ADMIN
    from weft.cli.trace import show_trace

    if answer.trace_id is None:
        warn("the server told no trace id: it is no weft, or this tool was passed through")
        return
    try:
        show_trace(admin or ADMIN, answer.trace_id, show=note)
    except WeftError as error:
        warn(f"there is no trace: {error.message}")
