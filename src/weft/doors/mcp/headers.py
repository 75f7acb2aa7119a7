"""The headers of a request: what it carries and accepts, and what a modern one repeats of its body."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from weft.doors.mcp.faults import HEADER_MISMATCH, Refusal
from weft.doors.mcp.methods import VERSIONS
from weft.ports import is_object
from weft.upstreams.headers import NAMED, Mirrored

VERSION = b"mcp-protocol-version"
METHOD = b"mcp-method"
NAME = b"mcp-name"
SESSION = b"mcp-session-id"
BOTH = b"application/json, text/event-stream"
KNOWN = {version.encode(): version for version in VERSIONS}


class Fields:
    """The header fields of one request, by lower-case name."""

    __slots__ = ("_fields", "doubled")

    def __init__(self, raw: Collection[tuple[bytes, bytes]]) -> None:
        self._fields = dict(raw)
        self.doubled: Collection[bytes] = ()
        if len(self._fields) != len(raw):
            self._join(raw)

    def get(self, name: bytes) -> bytes | None:
        """Return the value of a field as it came."""
        return self._fields.get(name)

    def text(self, name: bytes) -> str | None:
        """Return the value of a field without the white space around it, which is not part of it."""
        value = self._fields.get(name)
        return None if value is None else value.decode("latin-1").strip(" \t")

    def version(self) -> str | None:
        """Return the version of the protocol that the request names."""
        raw = self._fields.get(VERSION)
        return None if raw is None else KNOWN.get(raw) or self.text(VERSION)

    def says(self, name: bytes, text: object) -> bool:
        """Tell whether a field says just that; the plain case is decided without decoding anything."""
        raw = self._fields.get(name)
        if raw is None or not isinstance(text, str):
            return False
        if raw == text.encode() and text.isascii() and not text.startswith("=?"):
            return True
        return decoded(self.text(name)) == text

    def _join(self, raw: Collection[tuple[bytes, bytes]]) -> None:
        """Read fields that are there more than once as HTTP does: as a list."""
        fields: dict[bytes, list[bytes]] = {}
        for name, value in raw:
            fields.setdefault(name, []).append(value)
        self._fields = {name: b", ".join(values) for name, values in fields.items()}
        self.doubled = {name for name, values in fields.items() if len(values) > 1}

    def check_content(self) -> None:
        """Refuse a body that is not JSON in UTF-8."""
        given = self._fields.get(b"content-type")
        if given != b"application/json" and not _is_json(given or b""):
            raise Refusal("Content-Type must be application/json, in UTF-8", status=415)
        if self._fields.get(b"content-encoding", b"identity") != b"identity":
            raise Refusal("a body with a Content-Encoding is not taken: send it as it is", status=415)

    def accepts(self) -> tuple[bool, bool]:
        """Return whether the client takes JSON, and whether it takes a stream of events."""
        given = self._fields.get(b"accept", b"")
        return (True, True) if given == BOTH else _accepted(given)


def check_mirrored_fields(fields: Fields, message: Mapping[str, Any], version: object) -> None:
    """Refuse a modern request whose headers do not say what its body says: what stands between would be misled.

    Raises:
        Refusal: a header is missing, doubled or different.
    """
    if fields.doubled:
        for name in (VERSION, METHOD, NAME):
            if name in fields.doubled:
                raise _mismatch(name, "appears more than once")
    if not fields.says(VERSION, version):
        raise _mismatch(VERSION, "is not the protocol version in the request's _meta", fields)
    method: str = message["method"]
    if not fields.says(METHOD, method):
        raise _mismatch(METHOD, "is not the method of the request", fields)
    key = NAMED.get(method)
    if key is None:
        return
    named = message["params"].get(key)
    if named is not None and not fields.says(NAME, named):
        raise _mismatch(NAME, f"is not the request's params.{key}", fields)


def check_mirrored_arguments(fields: Fields, arguments: object, mirrored: Mirrored) -> None:
    """Refuse a call whose Mcp-Param-* headers do not say what its arguments say.

    Raises:
        Refusal: a header is missing, doubled or different, or there is none of that argument.
    """
    for path, header in mirrored.items():
        name = header.lower().encode()
        if name in fields.doubled:
            raise _mismatch(name, "appears more than once")
        value = _at(arguments, path)
        told, raw = _as_text(value), fields.text(name)
        where = ".".join(path)
        if raw is None:
            if told is not None:
                raise _mismatch(name, f"is missing, and the argument {where!r} is there")
        elif told is None:
            raise _mismatch(name, f"is there, and the argument {where!r} is not")
        elif not _same(decoded(raw), told, value):
            raise _mismatch(name, f"is not the argument {where!r}", fields)


def decoded(value: str | None) -> str | None:
    """Return what a header says, out of base64 when it is marked so; None when that cannot be read."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=") and len(value) > 10):
        return value
    payload = value[9:-2]
    try:
        raw = base64.b64decode(payload, validate=True)
        # Another spelling of the same bytes would let two readers disagree.
        return raw.decode() if base64.b64encode(raw).decode() == payload else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _same(header: str | None, told: str, value: object) -> bool:
    if header == told:
        return True
    if header is None or isinstance(value, bool | str) or not re.fullmatch(r"-?[0-9]{1,400}(\.0+)?", header):
        return False
    # 42 and 42.0 are the same number to some JSON libraries.
    number = int(header.partition(".")[0])
    return number == value


def _at(value: object, path: tuple[str, ...]) -> object:
    for key in path:
        value = value.get(key) if is_object(value) else None
    return value


def _as_text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _mismatch(name: bytes, what: str, fields: Fields | None = None) -> Refusal:
    header = "-".join(part.capitalize() for part in name.decode("latin-1").split("-"))
    missing = fields is not None and fields.get(name) is None
    return Refusal(f"the header {header} {'is missing' if missing else what}", rpc=HEADER_MISMATCH)


@lru_cache(maxsize=64)
def _is_json(value: bytes) -> bool:
    media, *parameters = value.decode("latin-1").lower().split(";")
    if media.strip() != "application/json":
        return False
    charsets = [part.strip()[8:].strip('"') for part in parameters if part.strip().startswith("charset=")]
    return all(charset in {"utf-8", "utf8"} for charset in charsets)


@lru_cache(maxsize=256)
def _accepted(value: bytes) -> tuple[bool, bool]:
    offered: set[str] = set()
    for part in value.decode("latin-1").lower().split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        if not any(re.fullmatch(r"q=0(\.0*)?", parameter) for parameter in parameters):
            offered.add(media)
    return (
        not offered.isdisjoint({"*/*", "application/*", "application/json"}),
        not offered.isdisjoint({"*/*", "text/*", "text/event-stream"}),
    )
