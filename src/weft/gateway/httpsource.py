"""A registry from a service: asked for only when it has changed, and its last good copy kept for when it is down."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit, urlunsplit

import orjson

from weft.errors import DocumentInvalid, Problem, UpstreamMessageTooLarge, WeftError, said_by
from weft.gateway.sources import SAME, Loaded, Same, too_large
from weft.ir.read import DOCUMENT_LIMITS, Format
from weft.upstreams.httpfetch import Fetched, fetch

_OK: Final = 200
_NOT_MODIFIED: Final = 304
_FIRST_RETRY: Final = 2.0
_ACCEPTED: Final = {"Accept": "application/json, application/yaml;q=0.9, */*;q=0.1", "Accept-Encoding": "identity"}


class Fetch(Protocol):
    """Gets a URL as `weft.upstreams.httpfetch.fetch` does: follows no redirect, reads no more than `limit` bytes."""

    async def __call__(self, url: str, *, headers: Mapping[str, str], deadline: float, limit: int) -> Fetched:
        """Return the answer, whatever its status; raise a WeftError when there is none."""
        ...


class HttpSource:
    """A document behind a URL; its last good copy lives in the `cache` folder."""

    def __init__(
        self,
        url: str,
        *,
        fetch: Fetch = fetch,
        every: float = 300.0,
        headers: Mapping[str, str] | None = None,
        cache: Path | None = None,
        limit: int = DOCUMENT_LIMITS.bytes,
        timeout: float = 30.0,
    ) -> None:
        self.url = url
        self.name = _shown(url)
        self._fetch = fetch
        self._every = every
        self._headers = dict(headers or {})
        self._copy = None if cache is None else Copy(cache, url)
        self._limit = limit
        self._timeout = timeout
        self._failures = 0
        self._seen: dict[str, str] = {}

    @property
    def every(self) -> float:
        """The refresh interval; after a failure less, and growing back."""
        return min(self._every, _FIRST_RETRY * 2 ** min(self._failures - 1, 20)) if self._failures else self._every

    async def look(self, *, fully: bool = False) -> Loaded | Same | None:
        """Return what the service has now; before anything was had from it, the last good copy will do."""
        try:
            loaded = await self._get({} if fully else self._conditions())
        except DocumentInvalid as down:
            self._failures += 1
            # With nothing to serve, an old registry is better than none.
            if self._seen or self._copy is None or (kept := await asyncio.to_thread(self._copy.read)) is None:
                raise
            data, seen = kept
            self._seen = seen
            return Loaded(name=self.name, data=data, format=_format(seen), stale=down)
        self._failures = 0
        return loaded

    async def _get(self, conditions: dict[str, str]) -> Loaded | Same:
        deadline = asyncio.get_running_loop().time() + self._timeout
        headers = {**_ACCEPTED, **self._headers, **conditions}
        try:
            reply = await self._fetch(self.url, headers=headers, deadline=deadline, limit=self._limit)
        except UpstreamMessageTooLarge as error:
            raise too_large(f"more than {self._limit} bytes", self._limit, self.name) from error
        except (WeftError, OSError, TimeoutError) as error:
            reason = error.message if isinstance(error, WeftError) else said_by(error)
            raise self._invalid("SourceUnavailable", f"the service gave nothing: {reason}") from error
        if reply.status == _NOT_MODIFIED and conditions:
            return SAME
        self._check(reply)
        self._seen = {
            name: reply.headers[name] for name in ("etag", "last-modified", "content-type") if name in reply.headers
        }
        self._seen["hash"] = hashlib.sha256(reply.body).hexdigest()
        return Loaded(name=self.name, data=reply.body, format=_format(self._seen))

    def _conditions(self) -> dict[str, str]:
        asked = {"If-None-Match": self._seen.get("etag"), "If-Modified-Since": self._seen.get("last-modified")}
        return {name: value for name, value in asked.items() if value}

    def _check(self, reply: Fetched) -> None:
        if 300 <= reply.status < 400:
            where = "redirects are not followed: put the final address into the configuration"
            raise self._invalid("SourceUnavailable", f"the service answered {reply.status}; {where}")
        if reply.status != _OK:
            raise self._invalid("SourceUnavailable", f"the service answered {reply.status}")
        if len(reply.body) > self._limit:
            raise too_large(f"{len(reply.body)} bytes", self._limit, self.name)
        kind = reply.headers.get("content-type", "")
        if "html" in kind.lower():
            # A login page or the error page of a proxy: YAML would take much of it for text.
            raise self._invalid("NotADocument", f"the service answered with {kind}", expected="JSON or YAML")

    def _invalid(self, code: str, message: str, *, expected: str | None = None) -> DocumentInvalid:
        return DocumentInvalid([Problem(code=code, message=message, file=self.name, expected=expected)])

    def forget(self) -> None:
        """Take the next look as the first."""
        self._seen = {}

    async def keep(self, loaded: Loaded) -> None:
        """Keep a good copy for the day that the service is down when weft starts."""
        if self._copy is not None:
            await asyncio.to_thread(self._copy.write, loaded.data, dict(self._seen))


class Copy:
    """The last good copy of a URL's document: one file, a line about it and then its bytes."""

    def __init__(self, folder: Path, url: str) -> None:
        # The address is part of the name: another service never gets this one's copy.
        self.path = folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.registry"

    def write(self, data: bytes, about: Mapping[str, str]) -> None:
        """Replace the copy, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(orjson.dumps(about) + b"\n" + data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def read(self) -> tuple[bytes, dict[str, str]] | None:
        """Return the document and what is known of it, or None when there is no whole copy."""
        try:
            first, _, data = self.path.read_bytes().partition(b"\n")
            about: dict[str, Any] = orjson.loads(first)
            whole = about.get("hash") == hashlib.sha256(data).hexdigest()
        except (OSError, ValueError, AttributeError):
            return None
        return (data, about) if whole else None


def _format(about: Mapping[str, str]) -> Format | None:
    kind = about.get("content-type", "").partition(";")[0].strip().lower()
    if kind.endswith(("/json", "+json")):
        return "json"
    return "yaml" if kind.endswith(("/yaml", "/x-yaml", "+yaml")) else None


def _shown(url: str) -> str:
    """Return an address without what may be secret in it: user, password, query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
