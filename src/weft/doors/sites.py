"""Which Host and Origin a listener answers to, and on which addresses weft may listen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from weft.config.checks import is_loopback
from weft.errors import InputError, shown

_log = logging.getLogger("weft.http")

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_WILDCARDS = ("0.0.0.0", "::", "")
_REMEMBERED = 256


def check_bind(host: str, *, authenticated: bool, insecure: bool) -> str | None:
    """Allow a bind, or return the warning to give each minute that it goes on.

    Raises:
        InputError: others could reach the gateway and nothing asks who they are (A1).
    """
    if authenticated or is_loopback(host):
        return None
    if not insecure:
        raise InputError(
            f"refusing to listen on {shown(host)}: others can reach it, and no authenticator is configured",
            code="InsecureBind",
            hint="listen on 127.0.0.1, have callers prove who they are (identity.keyFile, identity.jwt, "
            "identity.certificates or identity.proxies), or accept everybody who reaches it with --insecure",
        )
    return f"listening on {host} without an authenticator: anybody who reaches it can call every tool"


async def keep_warning(warning: str, *, every: float = 60.0) -> None:
    """Log a warning again and again, until cancelled."""
    while True:
        _log.warning(warning)
        await asyncio.sleep(every)


class Site:
    """The names of one listener, as browsers and other clients may write them."""

    def __init__(self, *, bound: str = "127.0.0.1", hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        """Make one; hosts and origins are allowed beside the listener's own.

        Raises:
            InputError: an origin is not one.
        """
        own = () if bound in _WILDCARDS else (_bracketed(bound),)
        self._hosts = frozenset(host.lower().encode() for host in (*LOOPBACK, *own, *map(_bracketed, hosts)))
        self._origins = frozenset(_origin(origin) for origin in origins)
        self._local = is_loopback(bound)
        self._known: set[bytes] = set()

    def has_host(self, host: bytes, *, address: str | None = None) -> bool:
        """Tell whether a Host header names this listener: by name, or by the address that the client connected to."""
        if host in self._known:
            return True
        name = _name(host.lower())
        own = address is not None and name == _bracketed(address).lower().encode()
        if not (name in self._hosts or host.lower() in self._hosts or own):
            return False
        if len(self._known) < _REMEMBERED:
            self._known.add(host)
        return True

    def has_origin(self, origin: bytes, *, scheme: str, host: bytes) -> bool:
        """Tell whether a page of an origin may ask: configured, our own, or, on loopback, of this machine."""
        origin = origin.lower()
        if self.shares_with(origin):
            return True
        kind, found, rest = origin.partition(b"://")
        if not found or kind not in (b"http", b"https"):
            return False
        return (kind == scheme.encode() and rest == host.lower()) or (
            self._local and is_loopback(_name(rest).decode("latin-1"))
        )

    def shares_with(self, origin: bytes) -> bool:
        """Tell whether pages of an origin may read answers (CORS): only configured ones."""
        return origin.lower() in self._origins or (b"*" in self._origins and origin != b"null")


def _bracketed(host: str) -> str:
    """Return a host as it stands in a URL."""
    return f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host


def _name(host: bytes) -> bytes:
    """Return a host without its port; a trailing dot is not the same name to everybody, so it stays."""
    end = host.find(b"]") + 1
    return host[:end] if host.startswith(b"[") and end else host.partition(b":")[0]


def _origin(text: str) -> bytes:
    scheme, found, rest = text.partition("://")
    well_formed = found and scheme in ("http", "https") and rest and "/" not in rest
    if text != "*" and not well_formed:
        raise InputError(f"not an origin: {shown(text)}", hint="write it as https://name or https://name:port")
    return text.lower().encode()
