"""Versions: exact ones (semver 2.0.0), which is newer, and why anything else is refused."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeAlias

from weft.errors import Problem, shown

_NUMBER = r"(?:0|[1-9][0-9]*)"
_LABEL = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
PATTERN = (
    rf"^{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(?:-{_LABEL}(?:\.{_LABEL})*)?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$"
)
_EXACT = re.compile(PATTERN.replace("^", "").replace("$", ""))
_RANGE = re.compile(r"[\^~<>=*|, ]|\b[xX]\b|\.\*")
_ALIASES = frozenset({"latest", "newest", "current", "stable", "any", "next"})
EXPECTED = "an exact version such as 1.0.0"
MAX_LENGTH = 64

Precedence: TypeAlias = tuple[Any, ...]


def is_exact(version: object) -> bool:
    """Tell whether this is one version and no other."""
    return isinstance(version, str) and len(version) <= MAX_LENGTH and _EXACT.fullmatch(version) is not None


def why_not_exact(version: object) -> str:
    """Return in a sentence why a value is not an exact version."""
    got = shown(version)
    if not isinstance(version, str):
        return f"the version {got} is not text: quote it"
    if version.casefold() in _ALIASES:
        return f"{got} is no version: it would mean another one tomorrow"
    if _RANGE.search(version):
        return f"{got} is a range of versions, which would let in what nobody has seen"
    if version[:1] in "vV" and is_exact(version[1:]):
        return f"{got} is not an exact version: write it without the {version[0]!r}"
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", version):
        return f"{got} is not a whole version: it has three numbers"
    return f"{got} is not an exact version"


def refused(version: object, *at: str | int) -> Problem:
    """Return the problem of a version that is not exact."""
    meant = version[1:] if isinstance(version, str) and version[:1] in "vV^~=" else None
    return Problem(
        code="InvalidVersion",
        message=why_not_exact(version),
        loc=at,
        value=shown(version),
        expected=EXPECTED,
        suggestion=meant if is_exact(meant) else None,
    )


@lru_cache(maxsize=65_536)
def precedence(version: str | None) -> Precedence:
    """Return what orders versions from old to new; what is no version is older than all that are."""
    if version is None or not is_exact(version):
        return (0, version or "")
    core, _, build = version.partition("+")
    numbers, _, before = core.partition("-")
    # A release is newer than what came before it. Build labels only make the order certain.
    labels = tuple((0, int(one), "") if one.isdigit() else (1, 0, one) for one in before.split(".")) if before else ()
    return (1, *map(int, numbers.split(".")), not before, labels, build)
