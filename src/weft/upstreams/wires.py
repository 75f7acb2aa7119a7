"""Ways to a server: which wire its spec asks for, and which one turns out to work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from weft.errors import UpstreamProtocolError, WeftError
from weft.upstreams.egress import only_public
from weft.upstreams.eras import Era
from weft.upstreams.http import HttpTransport
from weft.upstreams.httpsse import SseTransport
from weft.upstreams.httpwire import Limits
from weft.upstreams.oauth import ClientCredentials, TokenSource
from weft.upstreams.session import Session, Wire
from weft.upstreams.spec import ServerSpec
from weft.upstreams.stderr import Log
from weft.upstreams.stdio import StdioLimits, StdioTransport
from weft.upstreams.transport import OnMessage

Kind: TypeAlias = Literal["stdio", "http", "sse"]

NO_POST = frozenset({400, 404, 405})
"""How a server of the old two endpoints answers a POST to the one for its stream."""

ASIDE = 8
"""Connections beside those of the requests: for answers, cancellations, lists and probes."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a server is spoken to: by which kind of wire, and in which era where that is known."""

    kind: Kind
    era: Era | None = None


class Wires:
    """Makes the wires to one server, which share its credentials."""

    def __init__(self, spec: ServerSpec, *, log: Log) -> None:
        self._spec, self._log = spec, log
        self._tokens: TokenSource | None = None

    @property
    def first_way(self) -> Way:
        """Return the way that the spec asks for."""
        if self._spec.command:
            return Way("stdio", self._spec.era)
        return Way("sse", "legacy") if self._spec.transport == "sse" else Way("http", self._spec.era)

    async def connect(
        self, way: Way, *, offers: Mapping[str, Any], heard: OnMessage, deadline: float
    ) -> tuple[Session, Way]:
        """Connect, by another way than the first where its failure points to one; return the way that worked too.

        Raises:
            WeftError: no way works; it is the first way's error.
        """
        session = self._session(way, offers, heard)
        try:
            await session.open(deadline)
        except WeftError as error:
            other = self._other_way(way, session, error)
            if other is None:
                raise
            way, session = other, self._session(other, offers, heard)
            try:
                await session.open(deadline)
            except WeftError:
                raise error from None
        return session, Way(way.kind, session.client.era)

    async def close(self) -> None:
        """Give up what goes on beside the wires."""
        if self._tokens is not None:
            await self._tokens.close()

    def _other_way(self, way: Way, session: Session, error: WeftError) -> Way | None:
        if way.kind == "stdio" and way.era is None and session.ending is not None:
            # Some legacy servers end when they are asked anything before the handshake.
            return Way("stdio", "legacy")
        if way.kind == "http" and self._spec.transport == "auto" and way.era != "modern":
            old = isinstance(error, UpstreamProtocolError) and error.status in NO_POST
            return Way("sse", "legacy") if old else None
        return None

    def _session(self, way: Way, offers: Mapping[str, Any], heard: OnMessage) -> Session:
        session = Session(self._spec.key, offers=offers, heard=heard)
        session.use(self._stdio(session) if way.kind == "stdio" else self._http(way.kind, session), era=way.era)
        return session

    def _stdio(self, session: Session) -> Wire:
        spec = self._spec
        limits = StdioLimits(line=spec.response)
        return StdioTransport(
            spec.command,
            server=spec.key,
            env=spec.env,
            cwd=spec.cwd,
            limits=limits,
            on_exit=session.ended,
            log=self._log,
        )

    def _token_source(self, auth: ClientCredentials) -> TokenSource:
        rule = None if auth.inside is None else only_public(auth.inside)
        spec = self._spec
        return TokenSource(auth, server=spec.key, tls=spec.tls.context(), allow_address=rule, proxy=spec.proxy)

    def _http(self, kind: Kind, session: Session) -> Wire:
        spec = self._spec
        tls = spec.tls.context() if spec.url.startswith("https:") else None
        if spec.auth is not None and self._tokens is None:
            self._tokens = self._token_source(spec.auth)
        limits = Limits(connections=spec.concurrency + ASIDE, queue=spec.queue + ASIDE, body_bytes=spec.response)
        name, headers, tokens, proxy = spec.key, spec.headers, self._tokens, spec.proxy
        if kind == "sse":
            return SseTransport(
                spec.url, name=name, headers=headers, limits=limits, tls=tls, tokens=tokens, proxy=proxy,
                on_end=lambda error: session.ended(error.message),
            )  # fmt: skip
        return HttpTransport(spec.url, name=name, headers=headers, limits=limits, tls=tls, tokens=tokens, proxy=proxy)
