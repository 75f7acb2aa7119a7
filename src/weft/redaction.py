"""Redaction: what gives a secret away, its name or its form, and texts without it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from weft.ports import is_array, is_object

HIDDEN: Final = "[redacted]"
SHORTEST: Final = 4
"""Texts of fewer characters are not looked for: they are a part of too many words."""
PART: Final = 16
"""So much of the beginning or the end of a long secret is enough to know it by."""
WHOLE: Final = ""
"""Stands for the whole value among the names of properties."""

_NAMES: Final = (
    r"token|secret|passw(?:or)?d|passphrase|passcode|pwd"
    r"|(?:api|access|private|signing|encryption|auth)[_-]?key|authorization|credentials?|cookie|jwt"
)
_SECRET_NAME: Final = re.compile(rf"(?i){_NAMES}|passw")
# Every repetition is bounded or ends at a separator: others choose this text and must not choose the time it takes.
_NAMED: Final = re.compile(
    rf"""(?ix) ( (?: {_NAMES} ) [\w.-]{{0,40}} \\{{0,4}} ["']? \s{{0,4}} [=:] \s{{0,4}}
                (?: (?: bearer | basic ) \s{{1,4}} )? )
        ( \\{{0,4}}"[^"\n]{{0,512}}" | '[^'\n]{{0,512}}' | [^\s,;&"']+ )"""
)
_SCHEME: Final = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
_SHAPED: Final = re.compile(
    r"""(?x) \b (?: sk-[\w-]{16,} | [rs]k_(?:live|test)_\w{16,} | gh[pousr]_\w{20,} | github_pat_\w{20,}
              | glpat-[\w-]{16,} | xox[a-z]-[\w-]{10,} | A(?:KIA|SIA)[A-Z0-9]{16} | AIza[\w-]{30,} | ya29\.[\w-]{20,}
              | npm_\w{30,} | hf_\w{20,} | weft_[a-z0-9]{10}_[\w-]{16,} | eyJ[\w-]{8,512}\.[\w-]+(?:\.[\w-]*)? )"""
)
_USERINFO: Final = re.compile(r"(://)[^\s/@:]*:[^\s/@]+@")
_PEM: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without what looks like a secret, and without each secret that is known."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        text = _without(text, secret)
    text = _PEM.sub(HIDDEN, text)
    text = _USERINFO.sub(rf"\1{HIDDEN}@", text)
    text = _NAMED.sub(rf"\1{HIDDEN}", text)
    text = _SCHEME.sub(rf"\1 {HIDDEN}", text)
    return _SHAPED.sub(HIDDEN, text)


def _without(text: str, secret: str) -> str:
    """Return the text without a secret, and without what is left of a long one where a sentence was cut."""
    text = text.replace(secret, HIDDEN)
    if len(secret) < 2 * PART:
        return text
    text = _without_beginning(text, secret)
    return _without_beginning(text[::-1], secret[::-1], HIDDEN[::-1])[::-1]


def _without_beginning(text: str, secret: str, hidden: str = HIDDEN) -> str:
    while (at := text.find(secret[:PART])) >= 0:
        rest = text[at : at + len(secret)]
        common = next((n for n, (one, other) in enumerate(zip(rest, secret, strict=False)) if one != other), len(rest))
        text = text[:at] + hidden + text[at + common :]
    return text


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Tell whether what stands under a name is a secret by that name."""
    return _SECRET_NAME.search(name) is not None


def secrets_in(value: Any, marked: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return the texts of a value that are secret by the name that they stand under, the longest first.

    `marked` are more such names, as a schema says. A number is secret only by a mark: `max_tokens` has none.
    """
    found = set[str]()
    waiting: list[tuple[Any, bool]] = [(value, WHOLE in marked)]
    while waiting:
        one, secret = waiting.pop()
        if is_object(one):
            waiting += [(item, secret or key in marked or _named(key, item)) for key, item in one.items()]
        elif is_array(one):
            waiting += [(item, secret) for item in one]
        elif secret and isinstance(one, str | int | float) and not isinstance(one, bool):
            found.update(_spellings(str(one)))
    return tuple(sorted((one for one in found if len(one) >= SHORTEST), key=len, reverse=True))


def _named(name: str, value: Any) -> bool:
    return not isinstance(value, int | float) and is_secret_name(name)


def _spellings(secret: str) -> tuple[str, str]:
    """Return a secret as it is, and as it stands in JSON."""
    return secret, json.dumps(secret)[1:-1]
