"""Upstream servers: the entries of `servers`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, PrivateAttr, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

from weft.config.checks import (
    check_header_name,
    check_header_value,
    check_headers,
    check_url,
    check_variable,
    check_variable_value,
)
from weft.config.secrets import Secret, looks_secret
from weft.config.settings import AnyPath, Count, FilePath, Flag, Seconds, Setting, Text, Texts, described
from weft.errors import shown
from weft.ir.names import check_glob
from weft.ir.nodes import refuse
from weft.ports import is_array, is_object

Url = Annotated[Text, AfterValidator(check_url)]
HeaderName = Annotated[str, AfterValidator(check_header_name)]
HeaderValue = Annotated[Text, AfterValidator(check_header_value)]
Headers = Annotated[dict[HeaderName, HeaderValue], AfterValidator(check_headers)]
Variable = Annotated[str, AfterValidator(check_variable)]
Env = dict[Variable, Annotated[Text, AfterValidator(check_variable_value)]]
Globs = Annotated[tuple[Annotated[Text, AfterValidator(check_glob)], ...], Strict(False)]
CHILD_ONLY = ("args", "env", "cwd")
HTTP_ONLY = ("transport", "headers", "auth", "tls")


def _argv(value: Any) -> Any:
    if isinstance(value, str):
        raise refuse(
            "WrongType", "a command is a list: it is run without a shell",
            value=None if isinstance(value, Secret) else shown(value), expected=f"a list such as {_as_list(value)}",
        )  # fmt: skip
    if is_array(value) and (not value or value[0] == ""):
        raise refuse("EmptyCommand", "the command is empty", expected="a list such as [npx, -y, some-server]")
    return value


def _as_list(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    safe = not isinstance(command, Secret) and not any(map(looks_secret, words))
    return f"[{', '.join(words)}]" if safe and 0 < len(words) <= 8 else "[npx, -y, some-server]"


Argv = Annotated[
    Texts, BeforeValidator(_argv), WithJsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 1})
]


class ClientTls(Setting):
    """How a connection to a server is secured; certificates are always checked."""

    ca: FilePath | None = described(None, "A file of certificates to trust instead of the system's.")
    cert: FilePath | None = described(None, "The certificate that weft shows to the server.")
    key: FilePath | None = described(None, "The key of that certificate.")

    @classmethod
    def faults(cls, given: Mapping[str, Any]) -> Iterator[PydanticCustomError]:
        """Yield that one of a pair is missing."""
        if len(pair := {"cert", "key"} - given.keys()) == 1:
            yield refuse("MissingKey", f"missing key {pair.pop()!r}", expected="cert and key, or neither")


class Auth(Setting):
    """How weft gets a token for a server: OAuth 2.0 client credentials."""

    type: Literal["oauth2_client_credentials"] = described("oauth2_client_credentials", "The grant.")
    token_url: Url = described(..., "Where tokens are given out.")
    client_id: Text = described(..., "The name of this client.")
    client_secret: Text = described(..., "Its secret, by reference: `${env:NAME}` or `file:/path`.")
    scopes: Texts = described((), "What is asked for.")
    audience: Text | None = described(None, "For whom the token is, where the authorization server wants to know.")
    resource: Url | None = described(
        None, "The resource (RFC 8707) that the token is for; the server's URL unless given."
    )


class Server(Setting):
    """An MCP server: a child process (`command`), or an endpoint (`url`)."""

    command: Argv | None = described(None, "The program to start and its arguments; it speaks MCP on stdin and stdout.")
    args: Texts = described((), "More arguments, for those who keep them apart.")
    env: Env = described({}, "Variables of the child, beside the few that every child gets.")
    cwd: AnyPath = described(
        Path(), "The folder that the child works in; that of this file unless given.", validate_default=True
    )
    url: Url | None = described(None, "The endpoint of a server that is spoken to over HTTP.")
    transport: Literal["auto", "streamable-http", "sse"] = described(
        "auto", "`sse` is the old protocol with two endpoints; `auto` finds out."
    )
    headers: Headers = described({}, "Sent with every request.")
    auth: Auth | None = described(None, "How weft gets a token for this server.")
    tls: ClientTls | None = described(None, "How the connection is secured.")
    era: Literal["legacy", "modern"] | None = described(None, "The protocol's era; weft finds out unless told.")
    include: Globs = described(("*",), "Globs of the tools, prompts and resources that are offered.")
    exclude: Globs = described((), "Globs of those that are not; they win.")
    required: Flag = described(False, "Whether weft refuses to start without this server.")
    on_unavailable: Literal["list", "hide"] = described(
        "list", "Whether the tools of a server that is away stay in the list."
    )
    start_timeout: Seconds = described(10.0, "How long the server may take to start, and a client's first list waits.")
    timeout: Seconds | None = described(
        None, "The longest that one request may take; the call's deadline unless given."
    )
    concurrency: Count = described(32, "How many requests are in flight at once.")
    queue: Count = described(64, "How many more may wait.")

    _key: str = PrivateAttr(default="")

    @classmethod
    def faults(cls, given: Mapping[str, Any]) -> Iterator[PydanticCustomError]:
        """Yield that it is not of exactly one kind, and the keys that its kind does not have."""
        if ("command" in given) == ("url" in given):
            found = "both" if "url" in given else "neither"
            yield refuse(
                "ExactlyOne", f"a server has a command or a url, found {found}", expected="one of command, url"
            )
        else:
            kind, other = ("url", "command") if "url" in given else ("command", "url")
            for name in CHILD_ONLY if kind == "url" else HTTP_ONLY:
                if name in given:
                    told = f"{name!r} is for a server with a {other}; this one has a {kind}"
                    yield refuse("WrongKey", told, value=shown(name), expected=f"no {name!r}", at=(name,))
        headers = given.get("headers")
        if "auth" in given and is_object(headers) and any(name.casefold() == "authorization" for name in headers):
            told = "auth gets a token, and headers has an Authorization too"
            yield refuse("SpeltTwice", told, expected="one of them", at=("headers",))

    @property
    def key(self) -> str:
        """The key under which it stands: `name`, or `name@1.2.0`."""
        return self._key

    @property
    def name(self) -> str:
        """Its name."""
        return self._key.partition("@")[0]

    @property
    def version(self) -> str | None:
        """Its version, when the key has one."""
        return self._key.partition("@")[2] or None

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command line; empty when there is a URL."""
        return (*self.command, *self.args) if self.command is not None else ()
