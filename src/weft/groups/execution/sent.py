"""What somebody sent, as an error may show it: short, and without secrets."""

from __future__ import annotations

import json
from typing import Any, Final

from weft.errors import nearest
from weft.ports import is_array, is_object
from weft.redaction import HIDDEN, WHOLE, is_secret_name, redact

_LONGEST_TEXT: Final = 200
_LONGEST_INSIDE: Final = 40
_MOST_ITEMS: Final = 5
_DEEPEST: Final = 2
_SHOWN: Final = 80


def sent(value: Any, *, marked: frozenset[str] = frozenset(), secret: bool = False, level: int = 0) -> Any:
    """Return a value cut short and with its secrets hidden; `marked` are names that a schema says are secret."""
    if secret or WHOLE in marked:
        return HIDDEN
    if isinstance(value, str):
        # A secret is known by its beginning, so it is looked for before the text is cut.
        longest = _LONGEST_INSIDE if level else _LONGEST_TEXT
        text = redact(value[:_LONGEST_TEXT])
        return text if len(value) <= longest else f"{text[:longest]}..."
    if value is None or isinstance(value, bool | int | float):
        return value
    if level == _DEEPEST:
        return "..."
    if is_object(value):
        kept = list(value.items())[:_MOST_ITEMS]
        return {
            str(name)[:_LONGEST_INSIDE]: sent(one, marked=marked, secret=_is_like_secret(name, marked), level=level + 1)
            for name, one in kept
        } | ({"...": len(value) - _MOST_ITEMS} if len(value) > _MOST_ITEMS else {})
    if is_array(value):
        shown = [sent(one, marked=marked, level=level + 1) for one in value[:_MOST_ITEMS]]
        return [*shown, "..."] if len(value) > _MOST_ITEMS else shown
    return f"a {type(value).__name__}, which is not JSON"


def unasked(name: str, value: Any, marked: frozenset[str]) -> Any:
    """Return in short what was sent under a name that nobody asked for: it may be a secret's, mistyped."""
    return sent(value, marked=marked, secret=_is_like_secret(name, marked), level=1)


def is_secret(name: object, marked: frozenset[str]) -> bool:
    """Tell whether what stands under a name is a secret, by that name or by what a schema says."""
    return isinstance(name, str) and (name in marked or is_secret_name(name))


def _is_like_secret(name: object, marked: frozenset[str]) -> bool:
    return is_secret(name, marked) or nearest(name, marked) is not None


def sent_text(value: Any) -> str:
    """Return what `sent` gives, or a value that holds no secrets, on a short line."""
    text = json.dumps(sent(value), ensure_ascii=False)
    text = text if text.isprintable() else json.dumps(sent(value))
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
