"""Drafts, checked and compiled for what the caller that sent them may call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.errors import DocumentInvalid, Loc, Problem, errors_in, shown
from weft.expr.jcs import hash_of
from weft.gateway.draft import Draft, beside, few
from weft.gateway.draft_state import kept_apart
from weft.gateway.live import Live
from weft.gateway.offered import Offered
from weft.gateway.policy import ToolFacts
from weft.gateway.views import View
from weft.ir.document import Document, ToolDef
from weft.ir.versions import precedence
from weft.patterns.kept import Kept
from weft.plan.compiler import check, check_stores
from weft.plan.snapshot import Snapshot
from weft.ports import Principal, ToolRef
from weft.registry.graph import Nearest, on_servers, references
from weft.registry.tools import Tools

COMPILED = 256
"""How many drafts stay compiled: a template is run again and again."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A draft that can run: under which name, and through which compositions of the registry it goes."""

    name: str
    snapshot: Snapshot
    through: tuple[ToolFacts, ...]


class Drafts:
    """Checks and compiles drafts against what is live, as one caller sees it."""

    def __init__(self, live: Live, *, stores: Callable[[], frozenset[str]] | None = None) -> None:
        """Make it; `stores` tells which there are, where that is known."""
        self._live = self.live = live
        self._stores = stores
        self._tools: tuple[Document, Tools] | None = None
        self._offered: Offered | None = None
        self._compiled: dict[tuple[Any, ...], Compiled] = {}
        """Those for what is offered."""
        self._compiling = asyncio.Lock()
        self.kept = Kept()
        """What the patterns of drafts keep: apart from those of the registry."""

    async def problems(
        self, principal: Principal, draft: Draft, *, servers: Mapping[str, str] | None = None
    ) -> list[Problem]:
        """Return what is wrong with a draft for a caller, warnings too.

        `servers` says which server would provide a tool that is missing.
        """
        document, _, found = self._gathered(principal, draft, servers or {})
        if not found:
            checked = await beside(draft.large, self._checked, document, self._live.offered)
            found = [one for one in checked if one.loc[:2] == ("tools", 0) or one.severity == "error"]
        return few([draft.located(one) for one in found])

    async def compiled(
        self, principal: Principal, draft: Draft, *, servers: Mapping[str, str] | None = None
    ) -> Compiled:
        """Return a draft that can run for a caller.

        Raises:
            DocumentInvalid: with every problem.
        """
        document, through, found = self._gathered(principal, draft, servers or {})
        if not found:
            offered = self._live.offered
            if self._offered is not offered:
                self._offered, self._compiled = offered, {}
            compiled, key = self._compiled, (hash_of([tool.to_json() for tool in document.tools]), through)
            if (known := compiled.get(key)) is not None:
                return known
            found = await beside(draft.large, self._checked, document, offered)
            if not errors_in(found):
                # One at a time: what patterns keep is found by its name, or made.
                async with self._compiling:
                    snapshot = await beside(draft.large, self._live.compile, document, self.kept)
                if len(compiled) >= COMPILED:
                    compiled.clear()
                made = compiled[key] = Compiled(document.tools[0].name, snapshot, through)
                return made
        raise DocumentInvalid(few([draft.located(one) for one in found]))

    def _checked(self, document: Document, offered: Offered) -> list[Problem]:
        own = Document(tools=document.tools[:1])
        missing = () if self._stores is None else check_stores(own, self._stores())
        return [*missing, *check(document, offered)]

    def older(self, principal: Principal, tools: Sequence[str], version: str) -> list[tuple[str, str | None]]:
        """Return the tools, with their versions, that are older than they may be, or of no known version."""
        view = self._view()
        found = [(name, seen[0].facts.version) for name in tools if (seen := view.named(principal, name)) is not None]
        return [(name, at) for name, at in found if at is None or precedence(at) < precedence(version)]

    def missing(self, principal: Principal, tools: Sequence[str]) -> list[str]:
        """Return the tools that there are not for a caller."""
        view = self._view()
        return [name for name in tools if view.named(principal, name) is None]

    def _view(self) -> View:
        return self._live.catalogue.views[None]

    def _gathered(
        self, principal: Principal, draft: Draft, servers: Mapping[str, str]
    ) -> tuple[Document, tuple[ToolFacts, ...], list[Problem]]:
        """Return a draft with all of the registry that it stands on, and names that are not the caller's to use."""
        view, tools, offered = self._view(), self._registered(), self._live.offered
        needed: dict[int, ToolDef] = {}
        through: list[ToolFacts] = []
        unknown = _Unknown(view.seen_by(principal), servers)
        problems: list[Problem] = []
        for call, loc in on_servers(draft.tool):
            ref = ToolRef(call.name, call.server, call.version)
            if offered.bind(ref) is None or not view.scope.decide(principal, offered.facts(ref)).callable:
                problems.append(unknown(call.name, loc, on=call.server))
        for one in references(draft.tool):
            found = view.named(principal, one.name if one.version is None else f"{one.name}@{one.version}")
            if found is None:
                problems.append(unknown(one.name, one.loc))
                continue
            if one.version is None and view.scope.find(principal, view, one.name) is None:
                problems.append(_with_version(one.name, one.loc))
                continue
            tool = found[0]
            if tool.perform is not None:
                problems.append(_not_a_step(one.name, one.loc))
            elif tool.definition is not None:
                index = tools.meant(tool.facts.name, tool.facts.version)
                if index is not None:
                    _add(tools, index, needed)
                    through.append(tool.facts)
        taken = {tool.name for tool in needed.values()}
        named = kept_apart(draft.tool, principal.tenant)
        while named.name in taken:
            # What it is called must not hide what it calls.
            named = named.model_copy(update={"name": f"{named.name}-workflow"})
        document = Document(tools=[named, *needed.values()])
        return document, tuple(dict.fromkeys(through)), problems

    def _registered(self) -> Tools:
        document = self._live.document
        if self._tools is None or self._tools[0] is not document:
            self._tools = (document, Tools(document))
        return self._tools[1]


class _Unknown:
    """Tells of tools that there are not for a caller: those that others may call look the same."""

    def __init__(self, seen: View, servers: Mapping[str, str]) -> None:
        self._nearest = Nearest(list(seen.tools))
        self._servers = servers

    def __call__(self, name: str, loc: Loc, *, on: str | None = None) -> Problem:
        provided = self._servers.get(name) if on is None else None
        close = self._nearest(name)
        return Problem(
            code="UnknownName",
            message=f"Tool not found: {name}"
            + (f" on server {on}" if on is not None else f" ({provided} would provide it)" if provided else ""),
            loc=("tools", 0, *loc),
            value=shown(name),
            expected=f"a tool of {provided}" if provided else "a tool that there is for this caller",
            suggestion=None if close == name else close,
        )


def _with_version(name: str, loc: Loc) -> Problem:
    tool, _, version = name.rpartition("@")
    return Problem(
        code="VersionInName",
        message=f"{shown(name)} is a name with a version, and stands for a name",
        loc=("tools", 0, *loc),
        value=shown(name),
        expected=json.dumps({"name": tool, "version": version}),
    )


def _not_a_step(name: str, loc: Loc) -> Problem:
    return Problem(
        code="NotAStep",
        message=f"'{name}' is a tool of weft itself, which no workflow calls",
        loc=("tools", 0, *loc),
        value=shown(name),
        expected="a tool of a server, or a composition of the registry",
    )


def _add(tools: Tools, first: int, needed: dict[int, ToolDef]) -> None:
    """Add a tool of the registry, and every one that it stands on."""
    waiting = [first]
    while waiting:
        index = waiting.pop()
        if index not in needed:
            needed[index] = tool = tools.all[index]
            meant = (tools.meant(one.name, one.version, by=index) for one in references(tool))
            waiting += [one for one in meant if one is not None]
