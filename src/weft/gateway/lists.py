"""Lists in pages, with cursors that only weft reads."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from weft.errors import InputError, shown
from weft.gateway.views import View

PAGE = 1000
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_MARK = b"weft:"


def page(view: View, method: str, params: Mapping[str, Any], *, size: int = PAGE) -> dict[str, Any]:
    """Return the page of a list that a cursor asks for.

    Raises:
        InputError: it is none of weft's cursors.
    """
    key = LISTS[method]
    items = view.lists[key]
    start = _start(params.get("cursor"))
    if start > len(items):
        raise _invalid(params.get("cursor"))
    found: dict[str, Any] = {key: list(items[start : start + size])}
    if start + size < len(items):
        found["nextCursor"] = base64.urlsafe_b64encode(_MARK + str(start + size).encode()).decode()
    return found


def _start(cursor: object) -> int:
    if cursor is None:
        return 0
    if not isinstance(cursor, str):
        raise _invalid(cursor)
    try:
        raw = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise _invalid(cursor) from None
    number = raw.removeprefix(_MARK)
    if not raw.startswith(_MARK) or not number.isdigit() or len(number) > 9:
        raise _invalid(cursor)
    return int(number)


def _invalid(cursor: object) -> InputError:
    return InputError(
        f"{shown(cursor)} is no cursor of this list", code="InvalidCursor", hint="begin again without a cursor"
    )
