"""Findings: what is wrong with a registry, as strictly as its owner wants it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

from weft.errors import Loc, Problem, nearest, shown
from weft.ir.entities import OWN_TOOLS
from weft.registry.book import Book
from weft.registry.entities import Kind, Reference

Finding = Literal["error", "warn", "ignore"]


class Severities(Protocol):
    """How strictly a registry is taken when it is loaded: `registry.validation.startup` of weft.yaml is one."""

    @property
    def missing_entity(self) -> Finding:
        """A name or version that nothing has."""
        ...

    @property
    def deprecated_entity(self) -> Finding:
        """The use of what is deprecated."""
        ...

    @property
    def unused_schema(self) -> Finding:
        """A schema that nothing uses."""
        ...


@dataclass(frozen=True, slots=True)
class Strictness:
    """The severities that hold when nobody says otherwise."""

    missing_entity: Finding = "error"
    deprecated_entity: Finding = "warn"
    unused_schema: Finding = "ignore"


def as_severe(problem: Problem, finding: Finding) -> list[Problem]:
    """Return a problem with the severity that was chosen for its kind; nothing when it is to be ignored."""
    if finding == "ignore":
        return []
    return [replace(problem, severity="error" if finding == "error" else "warning")]


def missing(book: Book, ref: Reference, loc: Loc, *, keys: tuple[str, str] = ("name", "version")) -> Problem | None:
    """Return what is wrong with a name and version: nothing has them; None when something does.

    `loc` is the place that holds both, under `keys`.
    """
    if book.get(ref.type, ref.name, ref.version) is not None or book.is_unread(ref.type, ref.name):
        return None
    what = ref.type.capitalize()
    if versions := book.versions(ref.type, ref.name):
        there = ", ".join(versions)
        return Problem(
            code="UnknownVersion",
            message=f"{what} {shown(ref.name)} has no version {shown(ref.version)}: there is {there}",
            loc=(*loc, keys[1]),
            value=shown(ref.version),
            expected=f"one of {there}",
            suggestion=nearest(ref.version, versions),
        )
    if ref.type == "tool" and ref.name in OWN_TOOLS:
        if not ref.version:
            return None
        return Problem(
            code="UnknownVersion",
            message=f"Tool {shown(ref.name)} is weft's own, and has no version",
            loc=(*loc, keys[1]),
            value=shown(ref.version),
            expected="no version, in what an agent depends on",
        )
    close = book.nearest(ref.type, ref.name)
    known = f" (versions of {close}: {', '.join(book.versions(ref.type, close))})" if close else ""
    return Problem(
        code="UnknownName",
        message=f"{what} not found: {shown(ref.name)}",
        loc=(*loc, keys[0]),
        value=shown(ref.name),
        expected=f"{_an(ref.type)} of this registry{known}",
        suggestion=close,
    )


def _an(kind: Kind) -> str:
    return f"an {kind}" if kind == "agent" else f"a {kind}"
