"""A snapshot: every tool of a document, compiled, with what callers are told about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.errors import NotFound, Problem
from weft.ir.document import Document
from weft.patterns.contract import Step


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Immutable: a reload builds another one beside it."""

    document: Document
    tools: Mapping[str, Step]
    problems: tuple[Problem, ...] = field(default=())
    """Warnings of the checks; a document with errors makes no snapshot."""

    def step(self, name: str) -> Step:
        """Return a tool, compiled."""
        step = self.tools.get(name)
        if step is None:
            raise NotFound("Composition", name, self.tools)
        return step
