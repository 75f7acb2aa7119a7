"""Keys: under which names this room keeps things in a store."""

from __future__ import annotations

import hashlib
from typing import Final
from urllib.parse import quote

LONGEST: Final = 200
"""Longer parts are hashed: a store takes keys of 2 KB."""


def key(kind: str, *parts: str) -> str:
    """Return the key of a thing; no two tenants, templates or runs share one, whatever stands in their names."""
    return "|".join(("v1", kind, *map(_part, parts)))


def _part(text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    quoted = quote(data, safe="")
    # No quoted text has a colon in it, so that nobody is called as the hash of another.
    return quoted if len(quoted) <= LONGEST else f":{hashlib.sha256(data).hexdigest()}"
