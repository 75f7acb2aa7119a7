"""What is made of the head of a request."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any, NamedTuple
from urllib.parse import unquote

import httptools

from weft.doors.asgi import CERTIFICATE, COMMON_NAME, Headers, Scope, error_body
from weft.doors.exchange import last_answer

_ASGI = {"version": "3.0", "spec_version": "2.4"}
_UPGRADE = frozenset((b"upgrade", b"connection", b"http2-settings"))


class Certificate(NamedTuple):
    """The certificate of a client, which TLS has verified."""

    sha256: str
    common_name: str | None


class About(NamedTuple):
    """What is the same for every request of a connection."""

    client: tuple[str, int] | None
    server: tuple[str, int] | None
    scheme: str
    certificate: Certificate | None = None


class Refused(Exception):
    """A request that is refused while it is parsed."""

    def __init__(self, status: int, code: str, message: str) -> None:
        """Make one, with the answer to give."""
        super().__init__(message)
        self.code = code
        self.answer = last_answer(status, error_body(code, message))


def about(transport: asyncio.BaseTransport) -> About:
    """Return what is known of a connection."""
    secured = transport.get_extra_info("sslcontext") is not None
    return About(
        _pair(transport.get_extra_info("peername")),
        _pair(transport.get_extra_info("sockname")),
        "https" if secured else "http",
        _certificate(transport) if secured else None,
    )


def _certificate(transport: asyncio.BaseTransport) -> Certificate | None:
    """Return the client's certificate; one that TLS was not to verify has no fields, and does not count."""
    fields: dict[str, Any] = transport.get_extra_info("peercert") or {}
    encoded: bytes | None = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    if not fields or encoded is None:
        return None
    names = [value for part in fields.get("subject", ()) for key, value in part if key == "commonName"]
    return Certificate(hashlib.sha256(encoded).hexdigest(), names[0] if len(names) == 1 else None)


def _pair(address: tuple[str, int] | str | None) -> tuple[str, int] | None:
    """Return host and port of a socket's address; a unix socket has none."""
    return address[:2] if isinstance(address, tuple) else None


def scope_of(method: bytes, url: bytes, headers: Headers, where: About, *, version: str) -> Scope:
    """Return a request as ASGI describes it."""
    target = httptools.parse_url(url)
    raw = target.path or b"/"
    path = raw.decode("ascii")
    scope: Scope = {
        "type": "http",
        "asgi": _ASGI,
        "http_version": version,
        "method": method.decode("ascii"),
        "scheme": where.scheme,
        "path": unquote(path) if "%" in path else path,
        "raw_path": raw,
        "query_string": target.query or b"",
        "root_path": "",
        "headers": headers,
        "client": where.client,
        "server": where.server,
        "state": {},
    }
    if where.certificate is not None:
        scope[CERTIFICATE], scope[COMMON_NAME] = where.certificate
    return scope


def without_upgrade(method: bytes, url: bytes, headers: Headers) -> bytes:
    """Return the head of a request as if it did not offer to speak another protocol."""
    lines = [b"%b: %b\r\n" % header for header in headers if header[0] not in _UPGRADE]
    return b"%b %b HTTP/1.1\r\n%b\r\n" % (method, url, b"".join(lines))
