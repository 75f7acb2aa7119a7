"""What an operator says of one upstream server: how to reach it, and how much it may cost."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias

from weft.errors import InputError
from weft.upstreams.httpdial import usual_tls
from weft.upstreams.oauth import ClientCredentials

TransportKind: TypeAlias = Literal["auto", "streamable-http", "sse"]
WhenAway: TypeAlias = Literal["list", "hide"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Which authorities to trust, and the certificate to show; a server is always verified."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return the context of these files, or the usual one when there are none.

        Raises:
            InputError: a file is missing, or is not what it should be.
        """
        if self.ca is None and self.cert is None:
            return usual_tls()
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                # A function, so that OpenSSL never asks a terminal for the key's password.
                context.load_cert_chain(self.cert, self.key, password=lambda: "")
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"TLS files cannot be used ({self.ca or self.cert}): {error}") from None
        context.set_alpn_protocols(["http/1.1"])
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """One server: a child process by its `command`, or a `url`; equal specs need no new connection.

    Secrets are in it, already resolved: they are kept out of its repr.
    """

    name: str
    version: str | None = None
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: Path | None = None
    url: str = ""
    transport: TransportKind = "auto"
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    auth: ClientCredentials | None = field(default=None, repr=False)
    era: Literal["legacy", "modern"] | None = None
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    required: bool = False
    on_unavailable: WhenAway = "list"
    start_timeout: float = 10.0
    timeout: float | None = None
    concurrency: int = 32
    queue: int = 64
    response: int = 8 * 1024 * 1024
    """Bytes of one message of the server, at most."""
    tls: Tls = field(default_factory=Tls)
    proxy: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise InputError(f"server '{self.key}' needs either a command or a url")

    @property
    def key(self) -> str:
        """Return the name by which the server is known: with its version, if it has one."""
        return f"{self.name}@{self.version}" if self.version else self.name

    def admits(self, *names: str) -> bool:
        """Tell whether something of the server is taken: some include matches one of its names, and no exclude does."""
        matches = any(fnmatchcase(name, glob) for name in names for glob in self.include)
        return matches and not any(fnmatchcase(name, glob) for name in names for glob in self.exclude)
