"""Drafts: workflow documents that somebody sends, checked and compiled for what that caller may call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.errors import DocumentInvalid, InputError, Loc, Problem, errors_in, json_pointer, nearest, shown
from weft.expr.jcs import hash_of
from weft.expr.schemas import compile_schema
from weft.gateway.asked import InputUnfit, Options
from weft.gateway.live import Live
from weft.gateway.policy import ToolFacts
from weft.gateway.views import View
from weft.ir.document import Document, ToolDef
from weft.ir.normalise import Parsed, is_workflow, parse
from weft.ir.read import read
from weft.ir.versions import precedence
from weft.patterns.kept import Kept
from weft.patterns.workflow import Workflow
from weft.plan.compiler import check
from weft.plan.snapshot import Snapshot
from weft.plan.typeflow import declared_input
from weft.ports import Principal
from weft.registry.graph import references
from weft.registry.tools import Tools

COMPILED = 256
"""How many drafts stay compiled: a template is run again and again."""
MAX_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Draft:
    """A workflow document, read; `at` is where it stands in what was sent."""

    parsed: Parsed
    tool: ToolDef
    workflow: Workflow
    at: Loc

    def changed(self, **fields: Any) -> Draft:
        """Return the draft with other settings than its document has."""
        workflow = self.workflow.model_copy(update=fields)
        return replace(self, workflow=workflow, tool=self.tool.model_copy(update={"spec": workflow}))

    def located(self, problem: Problem) -> Problem:
        """Return a problem at its place in what was sent."""
        return _here(self.parsed.located(problem), self.at)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A draft that can run: under which name, and through which compositions of the registry it goes."""

    name: str
    snapshot: Snapshot
    through: tuple[ToolFacts, ...]


def read_draft(composition: Any, at: Loc = ()) -> Draft:
    """Return a workflow document.

    Raises:
        DocumentInvalid: with everything that is wrong with its form.
    """
    if not is_workflow(composition):
        told = f"{shown(composition)} is not a workflow document"
        wrong = Problem(code="WrongType", message=told, value=shown(composition), expected="an object with steps")
        raise DocumentInvalid([_here(wrong, at)])
    text = json.dumps(composition)
    if len(text) > MAX_BYTES:
        told = f"the document has {len(text)} bytes (limit {MAX_BYTES})"
        raise InputError(told, code="DocumentTooLarge")
    parsed = parse(read(text, format="json"))
    if errors_in(parsed.problems) or not parsed.document.tools:
        raise DocumentInvalid([_here(one, at) for one in parsed.problems])
    tool = parsed.resolved.tools[0]
    assert isinstance(tool.spec, Workflow)
    return Draft(parsed, tool, tool.spec, at)


def _here(problem: Problem, at: Loc) -> Problem:
    loc = (*at, *problem.loc)
    return replace(problem, loc=loc, pointer=json_pointer(loc), file=None, line=None, column=None)


def overridden(draft: Draft, options: Options) -> Draft:
    """Return a draft with what a request says instead of its document."""
    handling = draft.workflow.error_handling
    changes: dict[str, Any] = {}
    if options.max_concurrency is not None:
        changes["max_concurrency"] = options.max_concurrency
    if options.error_strategy is not None:
        changes["error_handling"] = handling.model_copy(update={"failure_strategy": options.error_strategy})
    return draft.changed(**changes) if changes else draft


def check_input(draft: Draft, input: Mapping[str, Any]) -> None:
    """Make sure that a draft takes an input.

    Raises:
        InputUnfit: it does not.
    """
    found = compile_schema(declared_input(draft.tool)).problems(input)
    if found:
        raise InputUnfit(found)


class Drafts:
    """Checks and compiles drafts against what is live, as one caller sees it."""

    def __init__(self, live: Live) -> None:
        self._live = self.live = live
        self._tools: tuple[Document, Tools] | None = None
        self._compiled: dict[tuple[Any, ...], Compiled] = {}
        self.kept = Kept()
        """What the patterns of drafts keep: apart from those of the registry."""

    def problems(
        self, principal: Principal, draft: Draft, *, servers: Mapping[str, str] | None = None
    ) -> list[Problem]:
        """Return what is wrong with a draft for a caller, warnings too.

        `servers` says which server would provide a tool that is missing.
        """
        document, _, found = self._gathered(principal, draft, servers or {})
        if not found:
            document_problems = check(document, self._live.offered)
            found = [one for one in document_problems if one.loc[:2] == ("tools", 0) or one.severity == "error"]
        return [draft.located(one) for one in found]

    def compiled(self, principal: Principal, draft: Draft, *, servers: Mapping[str, str] | None = None) -> Compiled:
        """Return a draft that can run for a caller.

        Raises:
            DocumentInvalid: with every problem.
        """
        document, through, found = self._gathered(principal, draft, servers or {})
        if not found:
            offered = self._live.offered
            key = (id(offered), hash_of([tool.to_json() for tool in document.tools]), through)
            known = self._compiled.get(key)
            if known is not None:
                return known
            found = check(document, offered)
            if not errors_in(found):
                if len(self._compiled) >= COMPILED:
                    self._compiled.clear()
                snapshot = self._live.compile(document, self.kept)
                made = self._compiled[key] = Compiled(document.tools[0].name, snapshot, through)
                return made
        raise DocumentInvalid([draft.located(one) for one in found])

    def least(self, principal: Principal, tools: Sequence[str], version: str) -> list[tuple[str, str]]:
        """Return the tools, with their versions, that are older than they may be."""
        view = self._view()
        found = [(name, seen[0].facts.version) for name in tools if (seen := view.named(principal, name)) is not None]
        return [(name, at) for name, at in found if at is not None and precedence(at) < precedence(version)]

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
        view, tools = self._view(), self._registered()
        needed: dict[int, ToolDef] = {}
        through: list[ToolFacts] = []
        problems: list[Problem] = []
        for one in references(draft.tool):
            found = view.named(principal, one.name if one.version is None else f"{one.name}@{one.version}")
            if found is None:
                problems.append(self._unknown(principal, one.name, one.loc, servers))
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
        named = draft.tool
        while named.name in taken:
            # What it is called must not hide what it calls.
            named = named.model_copy(update={"name": f"{named.name}-workflow"})
        document = Document(tools=[named, *needed.values()])
        return document, tuple(dict.fromkeys(through)), problems

    def _unknown(self, principal: Principal, name: str, loc: Loc, servers: Mapping[str, str]) -> Problem:
        seen = self._view().seen_by(principal).tools
        provided = servers.get(name)
        return Problem(
            code="UnknownName",
            message=f"Tool not found: {name}" + (f" ({provided} would provide it)" if provided else ""),
            loc=("tools", 0, *loc),
            value=shown(name),
            expected=f"a tool of {provided}" if provided else "a tool that there is for this caller",
            suggestion=nearest(name, seen),
        )

    def _registered(self) -> Tools:
        document = self._live.document
        if self._tools is None or self._tools[0] is not document:
            self._tools = (document, Tools(document))
        return self._tools[1]


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
