"""What a person does not see, or a model should not obey, in what a tool says of itself; a warning, never a proof."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weft.errors import Loc, json_pointer, shown
from weft.ports import is_array, is_object

_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\u17b4\u17b5")
"""Letters and symbols that are drawn as nothing."""
_JOINERS = frozenset("\u200c\u200d")
_PLAIN_CONTROLS = frozenset("\n\t\r")
_BREAKS = dict.fromkeys(map(ord, _PLAIN_CONTROLS), " ")
_SELECTORS = re.compile("[\ufe00-\ufe0e]|[\ufe00-\ufe0f]{2,}|[\U000e0100-\U000e01ef]")
_PHRASES: tuple[tuple[str, str], ...] = (
    (
        "tells the model to drop its instructions",
        r"\b(ignore|disregard|forget|override)\b.{0,40}\b(instruction|prompt|rule|guideline)s?\b",
    ),
    (
        "asks to keep something from the user",
        r"\b(do not|don't|never|without)\b.{0,30}"
        r"\b(tell|mention|inform|reveal|notify|show|asking|telling|informing|notifying)\b.{0,40}"
        r"\b(user|human|anyone|person|operator)",
    ),
    (
        "pretends to be a part of the prompt",
        r"</?\s*(important|system|secret|instructions?|assistant|admin)\s*>|\[/?(INST|SYSTEM)\]|\bsystem prompt\b",
    ),
    (
        "tells the model when to call tools",
        r"\b(before|after|instead of)\b.{0,20}\b(using|calling|invoking|running)\b.{0,20}"
        r"\b(any|other|this|every|all)\b.{0,12}\btools?\b|\byou (must|have to|should) (always|first)\b",
    ),
    (
        "speaks of secrets and where they lie",
        r"~/\.(ssh|aws|config|cursor|netrc)|\bid_(rsa|ed25519)\b|/etc/(passwd|shadow)|(^|[\s/'\"`])\.env\b"
        r"|\b(send|pass|include|append|forward)\b.{0,40}\b(password|credential|private key|api[ _-]?key|token)s?\b",
    ),
)
_COMPILED = tuple((what, re.compile(pattern, re.IGNORECASE | re.DOTALL)) for what, pattern in _PHRASES)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something in a tool that somebody should read before it is approved."""

    pointer: str
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.what}: {self.text}"

    def to_json(self) -> dict[str, str]:
        """Return it as `weft lock --json` prints it."""
        return {"pointer": self.pointer, "what": self.what, "text": self.text}


def suspicions(tool: dict[str, Any]) -> tuple[Suspicion, ...]:
    """Return what is hidden or commanding in any text of a tool, keys and `_meta` included."""
    return tuple(found for loc, text in _texts(tool, ()) for found in _of_text(json_pointer(loc), text))


def hidden_characters(text: str) -> list[str]:
    """Return the characters of a text that are drawn as nothing, turn it around or steer a terminal."""
    found = [char for index, char in enumerate(text) if _is_hidden(text, index)]
    return found + [char for run in _SELECTORS.findall(text) for char in run]


def _of_text(pointer: str, text: str) -> Iterator[Suspicion]:
    plain = text.isascii() and text.translate(_BREAKS).isprintable()
    if not plain and (characters := hidden_characters(text)):
        named = sorted({f"U+{ord(char):04X}" for char in characters})
        more = f" and {len(named) - 4} more" if len(named) > 4 else ""
        yield Suspicion(pointer, "hidden characters", ", ".join(named[:4]) + more)
    # Hidden characters between the letters must not hide the words.
    readable = text if plain else _readable(text)
    for what, pattern in _COMPILED:
        if (match := pattern.search(readable)) is not None:
            yield Suspicion(pointer, what, shown(" ".join(match[0].split())))


def _readable(text: str) -> str:
    return unicodedata.normalize("NFKC", "".join(char for char in text if not _invisible(char)))


def _is_hidden(text: str, index: int) -> bool:
    char = text[index]
    if char < "\x7f":
        return char < " " and char not in _PLAIN_CONTROLS
    if char in _JOINERS:
        # Emoji and several scripts are written with joiners; between Latin letters they only hide.
        around = (text[index - 1 : index], text[index + 1 : index + 2])
        return any(one == "" or one.isascii() for one in around)
    return _invisible(char)


def _invisible(char: str) -> bool:
    return char in _BLANK or (char >= "\x7f" and unicodedata.category(char) in ("Cf", "Cc", "Co", "Cs", "Zl", "Zp"))


def _texts(value: Any, loc: Loc) -> Iterator[tuple[Loc, str]]:
    if isinstance(value, str):
        yield loc, value
    elif is_object(value):
        for key, item in value.items():
            yield (*loc, key), key
            yield from _texts(item, (*loc, key))
    elif is_array(value):
        for index, item in enumerate(value):
            yield from _texts(item, (*loc, index))
