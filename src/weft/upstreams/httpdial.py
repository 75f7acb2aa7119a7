"""Opening connections: every address resolved anew, checked just before it is connected to, or through a proxy."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import ipaddress
import re
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from weft.errors import InputError, shown
from weft.upstreams.httpwire import Connection, Target

AllowAddress: TypeAlias = Callable[[str], bool]
"""Says whether a connection to an address may be opened; asked for each address, just before."""

PROXY_HEAD = 16 * 1024


@functools.cache
def usual_tls() -> ssl.SSLContext:
    """Return the one context for servers that need nothing special: made once, since it reads every authority."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


@dataclass(frozen=True, slots=True)
class Proxy:
    """A way out of the network, by http; what it asks for its services is never shown."""

    host: str
    port: int
    authorization: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str) -> Proxy:
        """Read `http://host:port`, with `user:password@` before the host if it wants that.

        Raises:
            InputError: it is not one; only its scheme is shown.
        """
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if parts.scheme != "http" or not host or (parts.path or "/") != "/" or parts.query or parts.fragment:
            raise InputError(f"a proxy is http://host:port, not {shown(parts.scheme + '://...')}")
        pair = None
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        return cls(host, port or 80, f"Basic {base64.b64encode(pair).decode()}" if pair is not None else None)


class Dialer:
    """Opens connections to one origin."""

    def __init__(
        self,
        target: Target,
        *,
        tls: ssl.SSLContext | None = None,
        allow_address: AllowAddress | None = None,
        proxy: str | None = None,
    ) -> None:
        self._target = target
        self._tls = (tls or usual_tls()) if target.secure else None
        self._allow = allow_address
        self._proxy = Proxy.parse(proxy) if proxy is not None else None

    @property
    def start(self) -> str:
        """What each request begins with, behind its method: where to, by which protocol, and what the hop asks for."""
        target, proxy = self._target, self._proxy
        host = f"HTTP/1.1\r\nhost: {target.authority}\r\n"
        if proxy is None or target.secure:
            return f"{target.path} {host}"
        known = f"proxy-authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
        return f"http://{target.authority}{target.path} {host}{known}"

    async def open(self, make: Callable[[], Connection], until: float) -> Connection:
        """Try each address in turn, each with its share of the time that is left.

        Raises:
            OSError, TimeoutError: none of them did, or may be connected to.
        """
        loop = asyncio.get_running_loop()
        addresses = await self._addresses()
        for place, address in enumerate(addresses, 1):
            share = loop.time() + (until - loop.time()) / (len(addresses) - place + 1)
            try:
                async with asyncio.timeout_at(share):
                    return await self._open_at(address, make)
            except OSError:
                if place == len(addresses):
                    raise
        raise OSError(f"no address of {self._target.host} may be connected to")

    async def _open_at(self, address: str, make: Callable[[], Connection]) -> Connection:
        loop, target = asyncio.get_running_loop(), self._target
        name = target.host.rstrip(".") if self._tls is not None else None
        if self._proxy is None or self._tls is None:
            port = self._proxy.port if self._proxy is not None else target.port
            _, connection = await loop.create_connection(make, address, port, ssl=self._tls, server_hostname=name)
            return connection
        sock = await self._tunnel(address, self._proxy)
        try:
            _, connection = await loop.create_connection(make, sock=sock, ssl=self._tls, server_hostname=name)
        except BaseException:
            sock.close()
            raise
        return connection

    async def _tunnel(self, address: str, proxy: Proxy) -> socket.socket:
        """Have the proxy open a connection to the target, and return its end here."""
        loop = asyncio.get_running_loop()
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, (address, proxy.port))
            host = f"[{self._target.host}]" if ":" in self._target.host else self._target.host
            where = f"{host}:{self._target.port}"
            known = f"proxy-authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
            await loop.sock_sendall(sock, f"CONNECT {where} HTTP/1.1\r\nhost: {where}\r\n{known}\r\n".encode("latin-1"))
            head = b""
            while b"\r\n\r\n" not in head:
                piece = await loop.sock_recv(sock, PROXY_HEAD)
                head += piece
                if not piece or len(head) > PROXY_HEAD:
                    raise OSError("the proxy gave no answer")
            found = re.match(rb"HTTP/1\.[01] (\d{3})", head)
            # Nothing may follow: the server behind it speaks only when it is spoken to.
            if found is None or found[1] != b"200" or not head.endswith(b"\r\n\r\n"):
                first = head.partition(b"\r\n")[0].decode("latin-1")
                raise OSError(f"the proxy refused: {shown(first)}")
        except BaseException:
            sock.close()
            raise
        return sock

    async def _addresses(self) -> list[str]:
        """Resolve the host, each time anew: its address may have changed since the last connection."""
        if self._proxy is not None:
            # The proxy resolves the name, and is the one to refuse it; what is spelled as an address is checked here.
            if self._allow is not None and (literal := spelled(self._target.host)) and not self._allow(literal):
                return []
            return await _resolved(self._proxy.host, self._proxy.port)
        found = await _resolved(self._target.host, self._target.port)
        return found if self._allow is None else [address for address in found if self._allow(address)]


def spelled(host: str) -> str | None:
    """Return the address that a host is, in whichever way it is spelled, or None when it is a name."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host))
    # As the C library reads it, which is how a proxy would too: 2130706433, 0x7f.1, 017700000001.
    if re.fullmatch(r"[0-9a-fA-FxX.]+", host.rstrip(".")):
        with contextlib.suppress(OSError):
            return socket.inet_ntoa(socket.inet_aton(host.rstrip(".")))
    return None


async def _resolved(host: str, port: int) -> list[str]:
    literal = spelled(host)
    if literal is not None:
        return [literal]
    known = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in known))
