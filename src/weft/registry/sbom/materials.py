"""What goes into a bill of materials, whatever its format: parts in a fixed order, each with what it needs."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from weft.errors import InputError, NotFound, shown
from weft.expr.jcs import hash_of
from weft.registry.book import Book, reference_to
from weft.registry.entities import Kind, Reference

KINDS: tuple[Kind, ...] = ("agent", "tool", "server", "schema")
ROOT = "registry"


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """One entity in a bill; `sha256` is None for something that is needed and not registered."""

    ref: str
    kind: Kind
    name: str
    version: str | None
    sha256: str | None
    description: str | None = None
    deprecated: bool = False
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Materials:
    """All parts in order, what each needs, and what the bill is of."""

    parts: tuple[Part, ...]
    needs: Mapping[str, tuple[str, ...]]
    roots: tuple[str, ...]
    title: str
    sha256: str
    created: datetime | None = None

    @property
    def serial(self) -> uuid.UUID:
        """An identifier that the same contents always have."""
        return uuid.UUID(bytes=bytes.fromhex(self.sha256)[:16], version=4)


def materials(
    book: Book, *, agent: str | None = None, version: str | None = None, environ: Mapping[str, str] | None = None
) -> Materials:
    """Return what a registry, or one agent with all that it needs, is made of.

    There is no time in it, unless SOURCE_DATE_EPOCH is set: the same registry gives the same bill, byte for byte.

    Raises:
        NotFound: no agent has that name.
    """
    begin = [reference_to(one) for one in book.entities()] if agent is None else _agents(book, agent, version)
    needs = _graph(book, begin)
    parts = {ref: _part(book, ref) for ref in needs}
    ordered = tuple(sorted(parts.values(), key=lambda part: (KINDS.index(part.kind), part.ref)))
    told = {_named(ref): tuple(sorted(_named(one) for one in several)) for ref, several in sorted(needs.items())}
    used = {one for ref, several in told.items() for one in several if one != ref}
    # A circle has no beginning: then everything is.
    roots = begin if agent is not None else [ref for ref in needs if _named(ref) not in used] or list(needs)
    title = ROOT if agent is None else agent
    contents = {"title": title, "parts": [_told(part) for part in ordered], "needs": _lists(told)}
    return Materials(
        ordered, told, tuple(sorted(map(_named, roots))), title, hash_of(contents), _created(environ or {})
    )


def _lists(told: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    return {ref: list(several) for ref, several in told.items()}


def _agents(book: Book, agent: str, version: str | None) -> list[Reference]:
    found = [Reference("agent", *one) for one in book.agents if one[0] == agent and version in (None, one[1])]
    if not found:
        known = [name for name, _ in book.agents] if version is None else [f"{name}@{one}" for name, one in book.agents]
        raise NotFound("agent", agent if version is None else f"{agent}@{version}", known)
    return found


def _graph(book: Book, begin: Iterable[Reference]) -> dict[Reference, frozenset[Reference]]:
    """Return all that is reached from some entities, each with what it needs itself."""
    providers = _providers(book)
    needs: dict[Reference, frozenset[Reference]] = {}
    pending = list(begin)
    while pending:
        ref = pending.pop()
        if ref in needs:
            continue
        entity = book.get(ref.type, ref.name, ref.version)
        used = () if entity is None else (*book.uses(entity), *providers.get(ref, ()))
        needs[ref] = frozenset(_meant(book, one.entity) for one in used)
        pending += needs[ref]
    return needs


def _providers(book: Book) -> dict[Reference, list[Reference]]:
    """Return the servers that say that they provide a tool."""
    found: dict[Reference, list[Reference]] = {}
    for server in book.servers.values():
        for one in server.provides:
            found.setdefault(Reference("tool", one.tool, one.version), []).append(reference_to(server))
    return found


def _meant(book: Book, ref: Reference) -> Reference:
    """Return a reference without a version as the newest one."""
    newest = next(iter(book.versions(ref.type, ref.name)), "") if not ref.version else ref.version
    return Reference(ref.type, ref.name, newest)


def as_text(bill: dict[str, Any]) -> str:
    """Return a bill as a file: keys in the order of the format, one item a line."""
    return json.dumps(bill, indent=2, ensure_ascii=False) + "\n"


def _part(book: Book, ref: Reference) -> Part:
    entity = book.get(ref.type, ref.name, ref.version)
    if entity is None:
        return Part(_named(ref), ref.type, ref.name, ref.version or None, None)
    told = entity.to_json()
    return Part(
        ref=_named(ref),
        kind=ref.type,
        name=ref.name,
        version=ref.version or None,
        sha256=hash_of(told),
        description=entity.description or None,
        deprecated=entity.deprecated,
        url=_public(told.get("url")),
    )


def _named(ref: Reference) -> str:
    return f"{ref.type}:{ref.name}" + (f"@{ref.version}" if ref.version else "")


def _told(part: Part) -> list[Any]:
    return [part.ref, part.sha256, part.description, part.deprecated, part.url]


def _public(url: Any) -> str | None:
    """Return a URL without what may be secret in it."""
    if not isinstance(url, str) or not re.match(r"https?://", url):
        return None
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _created(environ: Mapping[str, str]) -> datetime | None:
    given = environ.get("SOURCE_DATE_EPOCH")
    if not given:
        return None
    try:
        return datetime.fromtimestamp(int(given), UTC)
    except (ValueError, OverflowError, OSError):
        wanted = "seconds since 1970"
        raise InputError(f"SOURCE_DATE_EPOCH is {shown(given)}", code="InvalidTime", hint=wanted) from None
