"""Every problem of a document: of its text, of its entities, of its plans. Files, gateways and builders ask here."""

from __future__ import annotations

from collections.abc import Iterable

from weft.errors import Problem
from weft.ir.normalise import Parsed
from weft.plan.compiler import check
from weft.ports import Upstream
from weft.registry.book import Book
from weft.registry.findings import Severities, as_severe
from weft.registry.validate import SEED, validate


def problems_of(
    parsed: Parsed, upstream: Upstream | None = None, *, severities: Severities = SEED, allow: Iterable[str] = ()
) -> list[Problem]:
    """Return every problem of a document, in the order of its text.

    `severities` say how strictly a registry is taken, and `allow` lists the private networks where its agents may be.
    """
    entities = validate(Book.of(parsed), severities, allow=allow)
    planned = (parsed.located(one) for one in planning_problems(parsed, upstream, severities))
    problems = [*parsed.problems, *entities, *planned]
    return sorted(problems, key=lambda one: (one.file or "", one.line or 0, one.column or 0, one.pointer, one.code))


def planning_problems(parsed: Parsed, upstream: Upstream | None, severities: Severities = SEED) -> list[Problem]:
    """Return what planning finds, and a registry's own validation does not tell."""
    document = parsed.resolved
    # Once servers are listed, a tool that nobody registered cannot be on one of them.
    elsewhere = frozenset[str]() if document.servers else None
    found = check(document, upstream, known=parsed.broken, elsewhere=elsewhere)
    if not document.versioned:
        return found
    told: list[Problem] = []
    for problem in found:
        if problem.code == "UnknownName" and elsewhere is not None:
            told += as_severe(problem, severities.missing_entity)
        elif problem.code != "Cycle":
            told.append(problem)
    return told
