"""The other end: an MCP server that commands speak to, at a URL or as a child process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click

from weft.cli.output import note, plain
from weft.errors import InputError, NotFound, UpstreamAuth, UpstreamProtocolError, UpstreamRefused, UpstreamUnavailable

if TYPE_CHECKING:
    from weft.upstreams.client import McpClient
    from weft.upstreams.transport import Transport

URL = "http://127.0.0.1:15000/mcp"
KEY = "WEFT_KEY"
"""The variable with the API key or token that goes along, unless a header says otherwise."""
CONNECTING = 15.0
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Remote:
    """Which server: a URL with headers, or a command to start."""

    url: str | None
    view: str | None
    headers: tuple[str, ...]
    command: tuple[str, ...] = ()
    agent: str | None = None

    @property
    def name(self) -> str:
        """What the server is called in errors."""
        return self.command[0] if self.command else self.address

    @property
    def address(self) -> str:
        """The URL of the view, or of all that there is."""
        base = (self.url or URL).rstrip("/")
        return f"{base}/{self.view}" if self.view else base


def remote_options(function: F) -> F:
    """Give a command the options that say which server it speaks to."""
    options = (
        click.option("--url", metavar="URL", help=f"Any MCP server over HTTP.  [default: {URL}]"),
        click.option("--view", metavar="NAME", help="A named view of a weft gateway."),
        click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Sent along, with --url."),
        click.option(
            "--agent", metavar="NAME[@VERSION]", help="Call as an agent of the registry, where that is believed."
        ),
        click.option("--stdio", is_flag=True, help="Start a server: its command stands after --."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def remote_of(
    *,
    url: str | None,
    view: str | None,
    headers: tuple[str, ...],
    agent: str | None,
    stdio: bool,
    words: tuple[str, ...],
) -> Remote:
    """Return the server that the options name.

    Raises:
        InputError: they name none, or two.
    """
    if stdio and not words:
        raise InputError("--stdio needs a command", code="NoCommand", hint="put it last: --stdio -- python server.py")
    if stdio and (url or view or headers or agent):
        raise InputError("--stdio goes without --url, --view, --header and --agent", code="TwoServers")
    if words and not stdio:
        hint = "arguments are written NAME=VALUE; a command to start needs --stdio before --"
        raise InputError(f"{words[0]!r} is not an argument", code="UnexpectedArgument", hint=hint)
    return Remote(url, view, headers, words, agent)


@asynccontextmanager
async def connected(remote: Remote) -> AsyncGenerator[McpClient]:
    """Speak with the server while the scope lasts.

    Raises:
        InfrastructureError: it is not there, or speaks no MCP.
    """
    from weft.upstreams.client import McpClient

    client = McpClient(_transport(remote), server=remote.name)
    try:
        try:
            await client.connect(asyncio.get_running_loop().time() + CONNECTING)
        except UpstreamUnavailable as error:
            if not remote.command and not remote.url:
                error.hint = "start a gateway with `weft serve` or `weft demo --serve`, or name a server with --url"
            raise
        except UpstreamAuth as error:
            error.hint = f"put a key or a token into ${KEY}, or send --header 'Authorization: Bearer ..'"
            raise
        except (UpstreamRefused, UpstreamProtocolError) as error:
            if remote.url and urlsplit(remote.url).path in ("", "/"):
                error.hint = f"MCP is mostly at {remote.url.rstrip('/')}/mcp"
            raise
        yield client
    finally:
        await client.close()


def _transport(remote: Remote) -> Transport:
    if remote.command:
        from weft.upstreams.stdio import StdioTransport

        return StdioTransport(remote.command, server=remote.name, log=lambda line: note(plain(line)))
    from weft.upstreams.http import HttpTransport

    headers = dict(map(header_given, remote.headers))
    if (key := os.environ.get(KEY)) and "authorization" not in map(str.lower, headers):
        headers["Authorization"] = f"Bearer {key}"
    if remote.agent is not None:
        name, _, version = remote.agent.partition("@")
        headers |= {"X-Agent-Name": name, **({"X-Agent-Version": version} if version else {})}
    return HttpTransport(remote.address, headers=headers)


def header_given(text: str) -> tuple[str, str]:
    """Return name and value of a --header.

    Raises:
        InputError: it is none.
    """
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise InputError(f"--header: {text!r} is not 'NAME: VALUE'", code="InvalidHeader")
    return name.strip(), value.strip()


def tool_named(name: str, tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the tool of that name; one version of it may be named as `name@version`.

    Raises:
        NotFound: there is none; the nearest name is a hint.
    """
    names = (name, name.rpartition("@")[0])
    found = next((one for wanted in names for one in tools if wanted and one.get("name") == wanted), None)
    if found is None:
        raise NotFound("Tool", name, [str(one.get("name")) for one in tools])
    return found
