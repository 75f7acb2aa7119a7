"""Risks: what is allowed, works, and is likely to hurt on a bad day. Warnings, found before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from weft.errors import Loc, Problem, shown
from weft.ir.document import Document, ToolDef
from weft.ir.nodes import Node
from weft.ir.operations import AgentCall, CompositionCall, ToolCall, kind_of
from weft.ir.walk import operations_below
from weft.plan.typeflow import source_ref
from weft.ports import ToolRef, Upstream
from weft.registry.tools import Tools

MOST_ATTEMPTS = 10
"""How often one call may reach a tool, when every attempt fails, before that is worth a word."""


def check_risks(
    document: Document, upstream: Upstream | None, patterns: Iterable[tuple[int, Loc, Node]]
) -> Iterator[Problem]:
    """Report retries that multiply each other, and retries of what should not happen twice.

    `patterns` are all of the document, each with the index of its tool and its place.
    """
    risks = _Risks(document, upstream)
    for index, loc, node in patterns:
        if _attempts(node) > 1:
            yield from risks.of(node, loc, index)


def _attempts(node: Node) -> int:
    """Return how often a pattern may run what is inside it, one time after another."""
    # Asked of every pattern of a document: to miss an attribute of a model is slow.
    return getattr(node, "max_attempts") if "max_attempts" in type(node).model_fields else 1  # noqa: B009


class _Risks:
    """Looks through compositions that call each other; there are no circles among them any more."""

    def __init__(self, document: Document, upstream: Upstream | None) -> None:
        self._tools = Tools(document)
        self._upstream = upstream
        self._most: dict[int, int] = {}
        self._found: dict[int, str | None] = {}

    def of(self, node: Node, loc: Loc, owner: int) -> Iterator[Problem]:
        """Report what is risky about one pattern that repeats others."""
        below = max((self._product(one, owner) for one in operations_below(node)), default=1)
        product = _attempts(node) * below
        if below > 1 and product > MOST_ATTEMPTS:
            yield Problem(
                code="RetryAmplification",
                message=f"retries inside of retries: one call may become {product}",
                loc=(*loc, "maxAttempts"),
                value=str(_attempts(node)),
                expected=f"at most {MOST_ATTEMPTS} in all; retry at one place",
                severity="warning",
            )
        inner = getattr(node, "inner", None)
        name = self._write(inner, owner) if isinstance(inner, Node) else None
        if name is not None:
            yield Problem(
                code="RepeatedWrite",
                message=f"{kind_of(node)} may repeat {shown(name)}, which changes something each time it is called",
                loc=(*loc, "inner"),
                value=name,
                expected="idempotent around the tool, or a tool that says idempotentHint",
                severity="warning",
            )

    def _product(self, node: Node, owner: int) -> int:
        if isinstance(node, ToolCall | CompositionCall):
            index = self._index(node, owner)
            if index is None or (spec := self._tools.all[index].spec) is None:
                return 1
            if index not in self._most:
                self._most[index] = self._product(spec, index)
            return self._most[index]
        return _attempts(node) * max((self._product(one, owner) for one in operations_below(node)), default=1)

    def _write(self, node: Node, owner: int) -> str | None:
        """Return the name of a tool that is known to change something, and is not kept from doing so twice."""
        if isinstance(node, ToolCall | CompositionCall | AgentCall):
            index = None if isinstance(node, AgentCall) else self._index(node, owner)
            if index is None:
                ref = ToolRef(node.name, getattr(node, "server", None), node.version, getattr(node, "skill", None))
                return node.name if self._writes(ref) else None
            if index not in self._found:
                self._found[index] = self._defined(self._tools.all[index], index)
            return self._found[index]
        if kind_of(node) == "idempotent":
            return None
        return next((name for one in operations_below(node) if (name := self._write(one, owner))), None)

    def _defined(self, tool: ToolDef, index: int) -> str | None:
        if tool.spec is not None:
            return self._write(tool.spec, index)
        ref = ToolRef(tool.name) if tool.source is None else source_ref(tool)
        return tool.name if self._writes(ref) else None

    def _index(self, node: ToolCall | CompositionCall, owner: int) -> int | None:
        if isinstance(node, ToolCall) and node.server is not None:
            return None
        return self._tools.meant(node.name, node.version, by=owner)

    def _writes(self, ref: ToolRef) -> bool:
        told = None if self._upstream is None else self._upstream.describe(ref)
        hints: Any = (told.annotations if told is not None else None) or {}
        known = hints.get("readOnlyHint") is False or hints.get("destructiveHint") is True
        return known and hints.get("readOnlyHint") is not True and hints.get("idempotentHint") is not True
