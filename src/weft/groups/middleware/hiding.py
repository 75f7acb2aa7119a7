"""What is hidden: what stands under some names, what has some form, and what is said again elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import regex

from weft.errors import ExpressionInvalid
from weft.redaction import is_secret_name

By: TypeAlias = Literal["name", "order"] | None
"""By what a value is hidden: its name looks like that of a secret, or somebody wants it."""

_PAGE: Final = r"(?:next|prev|previous|page|continuation|sync|progress)[_-]?(?:page)?[_-]?token"
_PAGE_NAME: Final = re.compile(rf"(?i){_PAGE}")
# With what stands before the value and the value itself, so that a text can be split at them.
PAGE_SAID: Final = re.compile(rf"""(?i)(\b{_PAGE}["']?\s{{0,4}}[=:]\s{{0,4}}["']?[^\s,;&"']{{1,2048}})""")


class Hiding:
    """The rules of one who hides: names of fields, patterns, and names that stay."""

    def __init__(
        self, *, fields: Iterable[str] = (), patterns: Iterable[regex.Pattern[str]] = (), keep: Iterable[str] = ()
    ) -> None:
        self._fields = frozenset(name.casefold() for name in fields)
        self._keep = frozenset(name.casefold() for name in keep)
        self.patterns = tuple(patterns)
        names = "|".join(re.escape(name) for name in sorted(self._fields, key=len, reverse=True))
        # As `name: value`, to the end of the line: where a value ends, a text does not say. Where JSON stands in a text
        # of JSON, its quotes have backslashes.
        self.said = (
            re.compile(rf"""(?i)((?<!\w)(?:{names})\\{{0,4}}["']?\s{{0,4}}[=:]\s{{0,4}})([^\n,;]+)""")
            if names
            else None
        )

    def by(self, name: object, above: By) -> By:
        """Return by what the value under a name is hidden, below something that may be hidden itself."""
        folded = str(name).casefold()
        if folded in self._keep or above == "order":
            return above
        if folded in self._fields:
            return "order"
        return "name" if is_secret_name(folded) and not _PAGE_NAME.fullmatch(folded) else above


def compile_pattern(text: str) -> regex.Pattern[str]:
    """Return a regular expression.

    Raises:
        ExpressionInvalid: it is none, or fits where there is no character, and so nearly everywhere.
    """
    try:
        made = regex.compile(text)
    except regex.error as error:
        raise ExpressionInvalid(f"not a regular expression: {error}", code="InvalidPattern", value=text) from None
    # What it is made of is a text that it fits at least in parts.
    if any(_fits_nothing(made, sample) for sample in ("", "a b-1", text)):
        told, wanted = "the pattern fits the empty text, and so stands everywhere", "one that needs a character"
        raise ExpressionInvalid(told, code="InvalidPattern", value=text, expected=wanted)
    return made


def _fits_nothing(pattern: regex.Pattern[str], sample: str) -> bool:
    try:
        return any(not found.group() for found in pattern.finditer(sample, timeout=0.1))
    except TimeoutError:
        return False
