"""The two eras of MCP: how a server says of which it is, and what a request of each says of its client."""

from __future__ import annotations

import functools
import importlib.metadata
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from weft.errors import UpstreamProtocolError, shown
from weft.ports import is_array, is_object
from weft.upstreams.headers import MODERN

Era: TypeAlias = Literal["legacy", "modern"]

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
RESERVED = "io.modelcontextprotocol/"
VERSION, CAPABILITIES, INFO, LOG_LEVEL, SERVER_INFO = (
    RESERVED + key for key in ("protocolVersion", "clientCapabilities", "clientInfo", "logLevel", "serverInfo")
)
ENVELOPE = frozenset({VERSION, CAPABILITIES, INFO, LOG_LEVEL})
"""What a modern request says of its client, and a legacy one may not."""

UNSUPPORTED = -32022

UNKNOWN = frozenset({500, 501})
"""Statuses above 4xx with which some servers answer a method that they do not know."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a server said of itself when it was greeted."""

    era: Era
    version: str
    server_info: dict[str, Any]
    capabilities: dict[str, Any]
    instructions: str | None


def discovered(found: dict[str, Any]) -> Greeting | None:
    """Return the greeting of a modern server, or None when this is no answer of one."""
    versions: object = found.get("supportedVersions")
    if not is_array(versions) or MODERN not in versions:
        return None
    meta: object = found.get("_meta")
    return _greeting("modern", MODERN, found, meta.get(SERVER_INFO) if is_object(meta) else None)


def speaks_modern(code: object, data: object) -> bool:
    """Tell whether a server that refused a version (-32022) has named the modern one among those that it speaks."""
    versions: object = data.get("supported") if is_object(data) else None
    return code == UNSUPPORTED and is_array(versions) and MODERN in versions


def initialized(found: dict[str, Any], *, server: str) -> Greeting:
    """Return the greeting of a legacy server.

    Raises:
        UpstreamProtocolError: it speaks no version that weft knows.
    """
    version: object = found.get("protocolVersion")
    if not isinstance(version, str) or version not in LEGACY:
        raise UpstreamProtocolError(server, f"it speaks version {shown(version)}, which weft does not")
    return _greeting("legacy", version, found, found.get("serverInfo"))


def _greeting(era: Era, version: str, found: dict[str, Any], info: object) -> Greeting:
    capabilities: object = found.get("capabilities")
    instructions: object = found.get("instructions")
    return Greeting(
        era,
        version,
        info if is_object(info) else {},
        capabilities if is_object(capabilities) else {},
        instructions if isinstance(instructions, str) else None,
    )


@functools.cache
def own_version() -> str:
    """Return the version of weft."""
    return importlib.metadata.version("weft")
