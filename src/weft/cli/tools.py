"""`weft tools`: what an MCP server offers."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

import click

from weft.cli.output import as_json, fail, note, plain, plural, result
from weft.cli.remote import Remote, connected, remote_of, remote_options
from weft.cli.tokens import token_counter
from weft.cli.tools_tokens import weigh
from weft.errors import InputError, WeftError
from weft.ports import is_object

LISTING = 30.0
TABLE = ("about: ", "use: ", "actions[", "groups[", "always[", "alwaysNeeds[", "alwaysTakes[")
NARROWEST = 20
EXAMPLES = """\b
Example:
  weft tools
  weft tools --view research
  weft tools --tokens
  weft tools --url https://example.com/mcp --header 'Authorization: Bearer TOKEN'
  weft tools --stdio -- npx -y @modelcontextprotocol/server-everything"""


@click.command("tools", epilog=EXAMPLES)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@remote_options
@click.option("--tokens", "tokens", is_flag=True, help="Print what each tool costs a model that reads the list.")
@click.option("--json", "json_", is_flag=True, help='Print {"tools"} as the server told them, or {"error"}.')
def command(words: tuple[str, ...], tokens: bool, json_: bool, **given: Any) -> None:
    """List the tools of any MCP server: name, what it may do, what it is for.

    `reads` changes nothing, `destroys` may take something away; both are only what the server says.
    """
    try:
        tools = asyncio.run(_tools(remote_of(**given, words=words)))
        weighed = weigh(tools, by=token_counter()) if tokens else None
    except WeftError as error:
        fail(error, json_=json_, code=2 if isinstance(error, InputError) else 1)
    if json_:
        result(as_json({"tools": tools} if weighed is None else weighed.to_json()))
        return
    for line in table(tools) if weighed is None else weighed.lines():
        result(line)
    note(plural(len(tools), "tool"))
    if weighed is not None:
        note(f"tokens by {weighed.by.method}")
        if weighed.by.missing:
            note(plain(weighed.by.missing))


async def _tools(remote: Remote) -> list[dict[str, Any]]:
    async with connected(remote) as client:
        return await client.list_tools(deadline=asyncio.get_running_loop().time() + LISTING)


def table(tools: list[dict[str, Any]]) -> list[str]:
    """Return a line for each tool, as wide as the terminal."""
    names = [plain(_named(tool)) for tool in tools]
    width = max(map(len, names), default=0)
    room = max(shutil.get_terminal_size((100, 24)).columns - width - 12, NARROWEST)
    return [
        f"{click.style(name.ljust(width), bold=True)}  {mark(tool)}  {_cut(about(tool), room)}".rstrip()
        for name, tool in zip(names, tools, strict=True)
    ]


def _named(tool: dict[str, Any]) -> str:
    version = _meta(tool).get("weft/version")
    return f"{tool.get('name')} {version}" if isinstance(version, str) else str(tool.get("name"))


def _meta(tool: dict[str, Any]) -> dict[str, Any]:
    meta: object = tool.get("_meta")
    return meta if is_object(meta) else {}


def mark(tool: dict[str, Any]) -> str:
    """Return in one word what a tool says that it may do."""
    hints: object = tool.get("annotations")
    said = hints if is_object(hints) else {}
    if said.get("readOnlyHint") is True:
        return click.style("reads   ", fg="green")
    if said.get("readOnlyHint") is False and said.get("destructiveHint") is False:
        return click.style("adds    ", fg="yellow")
    return click.style("destroys", fg="red") if said.get("destructiveHint") is True else " " * 8


def about(tool: dict[str, Any]) -> str:
    """Return what a tool is for: the first line of its description, or its title; and that it is deprecated."""
    told = str(tool.get("description") or tool.get("title") or "").strip().partition("\n")[0]
    if told.startswith(TABLE):
        # A grouped tool in TOON, of which the first line is data.
        kind, _, text = told.partition("about: ")
        told = text if not kind else str(tool.get("title") or "a grouped tool")
    deprecated = _meta(tool).get("weft/deprecated")
    if deprecated:
        told = f"(deprecated{f': {deprecated}' if isinstance(deprecated, str) else ''}) {told}"
    return plain(told)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 3].rstrip() + "..."
