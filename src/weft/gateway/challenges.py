"""What a client is told that must prove who it is: where tokens come from (RFC 9728, RFC 6750)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

WELL_KNOWN = "/.well-known/oauth-protected-resource"


def metadata_url(resource: str) -> str:
    """Return where the metadata of a resource is: before its path, as RFC 9728 has it."""
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"


def metadata(resource: str, issuers: Iterable[str], *, scopes: Iterable[str] = ()) -> dict[str, Any]:
    """Return the metadata of a resource: who makes tokens for it, and how they are sent."""
    told: dict[str, Any] = {
        "resource": resource,
        "authorization_servers": list(issuers),
        "bearer_methods_supported": ["header"],
        "resource_name": "weft",
    }
    return {**told, **({"scopes_supported": listed} if (listed := sorted(scopes)) else {})}


def challenge(resource: str, *, given: bool) -> str:
    """Return the value of WWW-Authenticate; with `given` it also says that the credential sent does not hold."""
    wrong = 'error="invalid_token", ' if given else ""
    return f'Bearer {wrong}resource_metadata="{metadata_url(resource)}"'
