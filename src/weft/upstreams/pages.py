"""Lists that a server gives in pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from weft.errors import UpstreamProtocolError, shown
from weft.ports import is_array, is_object

PAGES = 1000


async def all_pages(
    page: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]], *, server: str, method: str, key: str
) -> list[dict[str, Any]]:
    """Return all items of a list method, from all pages; no cursor, or an empty one, ends it.

    Raises:
        UpstreamProtocolError: the pages do not end, or are none.
    """
    found: list[dict[str, Any]] = []
    seen: set[str] = set()
    params: dict[str, Any] = {}
    while True:
        told = await page(params)
        items: object = told.get(key)
        if not is_array(items):
            raise UpstreamProtocolError(server, f"{method} without a list of {key}: {shown(items)}")
        # One item that is nothing must not cost all the others.
        found += [item for item in items if is_object(item)]
        cursor: object = told.get("nextCursor")
        if cursor is None or cursor == "":
            return found
        if not isinstance(cursor, str):
            raise UpstreamProtocolError(server, f"{method}: a cursor that is no string: {shown(cursor)}")
        if cursor in seen or len(seen) + 1 >= PAGES:
            why = "gave the same cursor twice" if cursor in seen else f"has more than {PAGES} pages"
            raise UpstreamProtocolError(server, f"{method} {why}")
        seen.add(cursor)
        params = {"cursor": cursor}
