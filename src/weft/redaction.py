"""Redaction: what gives a secret away, its name or its form, and texts without it."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

from weft.ports import is_array, is_object

HIDDEN: Final = "[redacted]"
SHORTEST: Final = 4
"""Texts of fewer characters are not looked for: they are a part of too many words."""
PART: Final = 16
"""So much of the beginning or the end of a long secret is enough to know it by."""
PLACES: Final = 100_000
"""At so many places one may look for what is known: others choose how often a text repeats how it begins."""
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


# By which words a text that needs a closer look is known: to look for words takes a hundredth of the time.
_NAMES_IN: Final = ("token", "secret", "pass", "pwd", "key", "authorization", "credential", "cookie", "jwt")
_SHAPES_IN: Final = (
    *("sk-", "k_live_", "k_test_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox"),
    *("AKIA", "ASIA", "AIza", "ya29.", "npm_", "hf_", "weft_", "eyJ"),
)
_SHORT: Final = 64
"""To look closer at a text of fewer characters takes no longer than to look for these words."""
_FOLDED: Final = "\u0130\u0131\u017f\u212a"
"""Letters that a pattern takes for an i, an s or a k, though they are none in lower case."""


def redact(text: str, secrets: Iterable[str] | Known = ()) -> str:
    """Return the text without what looks like a secret, and without each secret that is known."""
    known = secrets if isinstance(secrets, Known) else Known(secrets)
    if known:
        text = known.hidden_in(text)
    if "-----BEGIN" in text:
        text = _PEM.sub(HIDDEN, text)
    if "://" in text:
        text = _USERINFO.sub(rf"\1{HIDDEN}@", text)
    low = text.lower()
    odd = not text.isascii() and any(letter in text for letter in _FOLDED)
    if ("=" in text or ":" in text) and (odd or any(word in low for word in _NAMES_IN)):
        text = _NAMED.sub(rf"\1{HIDDEN}", text)
    if odd or "bearer" in low or "basic" in low:
        text = _SCHEME.sub(rf"\1 {HIDDEN}", text)
    if len(text) < _SHORT or any(word in text for word in _SHAPES_IN):
        text = _SHAPED.sub(HIDDEN, text)
    return text


class Known:
    """Texts that are hidden wherever they are said, in one pass over a text however many they are.

    Of a long one its first or its last characters are enough: a sentence may have been cut there.
    """

    __slots__ = ("_all", "_beginnings", "_ends", "_left", "_lengths", "_starts", "_width")

    def __init__(self, texts: Iterable[str]) -> None:
        self._all = frozenset(one for one in texts if one)
        self._left = PLACES
        if not self._all:
            return
        long = [one for one in self._all if len(one) >= 2 * PART]
        self._lengths = sorted({len(one) for one in self._all if len(one) < 2 * PART}, reverse=True)
        self._beginnings = _by_beginning(long)
        self._ends = _by_beginning(one[::-1] for one in long)
        self._width = width = min(PART, *map(len, self._all))
        self._starts = {one[:width] for one in self._all} | {end[::-1][:width] for end in self._ends}

    def __bool__(self) -> bool:
        return bool(self._all)

    def __contains__(self, text: str) -> bool:
        return text in self._all

    def hidden_in(self, text: str) -> str:
        """Return a text without them; nothing of it when there was too much to look at, in it and in those before."""
        places = self._places(text)
        self._left -= len(places)
        if self._left < 0:
            return HIDDEN
        made: list[str] = []
        done = 0
        for start, end in sorted(self._found(text, places)):
            if start >= done:
                made += (text[done:start], HIDDEN)
            done = max(done, end)
        return "".join((*made, text[done:])) if made else text

    def _found(self, text: str, places: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield from where to where one of them stands; places may overlap."""
        back, begun, ended = "", 0, 0
        for at in places:
            for length in self._lengths:
                if text[at : at + length] in self._all and at + length <= len(text):
                    yield at, at + length
                    break
            part = text[at : at + PART]
            # In what is hidden already only what goes beyond it is of interest: so no character is compared often.
            if part in self._beginnings and at + PART > begun:
                begun = at + _common(text, at, self._beginnings[part], len(text))
                yield at, begun
            if (last := part[::-1]) in self._ends:
                start = at
                if at >= ended:
                    back = back or text[::-1]
                    behind = len(text) - at - PART
                    start = at + PART - _common(back, behind, self._ends[last], len(text) - ended)
                ended = at + PART
                yield start, ended

    def _places(self, text: str) -> Sequence[int]:
        """Return, in order, where one of them might begin."""
        starts, width = self._starts, self._width
        # For few of them Python's own search is faster than a step for each character.
        if len(starts) * (200 + len(text)) >= 140 * len(text):
            return [at for at in range(len(text) - width + 1) if text[at : at + width] in starts]
        found: list[int] = []
        for start in starts:
            at = text.find(start)
            while at >= 0:
                found.append(at)
                at = text.find(start, at + 1)
        return sorted(found)


def _by_beginning(texts: Iterable[str]) -> dict[str, list[str]]:
    """Return texts in order, by their first characters."""
    made: dict[str, list[str]] = {}
    for one in sorted(texts):
        made.setdefault(one[:PART], []).append(one)
    return made


def _common(text: str, at: int, near: list[str], until: int) -> int:
    """Return how much a text has in common, from a place on, with one of several that begin as it does there."""
    low, high = 0, len(near)
    done = step = PART
    while True:
        chunk = text[at + done : min(at + done + step, until)]
        following = itemgetter(slice(done, done + step))
        found = bisect_left(near, chunk, low, high, key=following)
        if len(chunk) == step and found < high and following(near[found]) == chunk:
            low, high = found, bisect_right(near, chunk, found, high, key=following)
            done, step = done + step, 2 * step
            continue
        return done + max(_same(following(near[one]), chunk) for one in (found - 1, found) if low <= one < high)


def _same(one: str, other: str) -> int:
    """Return how many characters two texts have in common at the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))


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
