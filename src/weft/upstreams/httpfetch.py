"""One HTTP request to somewhere that is no MCP server: a registry, a token endpoint."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from weft.upstreams.httpdial import AllowAddress
from weft.upstreams.httppool import Pool
from weft.upstreams.httpwire import Limits, Target, clean_header


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole answer; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def fetch(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    deadline: float,
    limit: int,
    allow_address: AllowAddress | None = None,
    proxy: str | None = None,
) -> Fetched:
    """Get a document, whatever its status; no redirect is followed.

    Raises:
        InputError: that is no URL that may be asked.
        UpstreamUnavailable, UpstreamDied, UpstreamMessageTooLarge, UpstreamProtocolError, DeadlineExceeded: no answer.
    """
    return await exchange(
        "GET", url, headers=headers, deadline=deadline, limit=limit, allow_address=allow_address, proxy=proxy
    )


async def exchange(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    deadline: float,
    limit: int,
    name: str | None = None,
    tls: ssl.SSLContext | None = None,
    allow_address: AllowAddress | None = None,
    proxy: str | None = None,
) -> Fetched:
    """Send one request over a connection of its own, and return its whole answer; see `fetch`."""
    target = Target.parse(url)
    fields = dict(clean_header(key, value) for key, value in (headers or {}).items())
    limits = Limits(body_bytes=limit, connections=1)
    pool = Pool(name or target.authority, target, limits=limits, tls=tls, allow_address=allow_address, proxy=proxy)
    try:
        response = await pool.request(pool.head(method, fields), body, deadline=deadline)
        try:
            return Fetched(response.status, response.headers(), bytes(await response.body(limit)))
        finally:
            response.close()
    finally:
        await pool.close()
