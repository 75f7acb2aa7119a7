"""What is live: the registry, the servers, and the catalogue made of both; each change builds a new one beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from weft.errors import Problem
from weft.gateway.access import Access
from weft.gateway.auditing import Auditor
from weft.gateway.catalogue import Catalogue, build, facts_of, prefixed_refs
from weft.gateway.doubts import doubts
from weft.gateway.names import OnCollision
from weft.gateway.offered import Offered
from weft.gateway.python_groups import group_tools
from weft.gateway.scope import Scope
from weft.gateway.steps import Steps
from weft.gateway.tools import Tool
from weft.gateway.views import ViewRule
from weft.groups.authoring.builder import GroupedTool
from weft.groups.middleware.around import Around
from weft.groups.rule import GroupRule
from weft.ir.document import Document, ToolDef
from weft.ir.loading import no_collection
from weft.ir.versions import precedence
from weft.patterns.kept import Kept
from weft.plan.compiler import Stores, check, compile_document, no_stores
from weft.plan.snapshot import Snapshot
from weft.ports import Upstream
from weft.registry.book import Book
from weft.registry.tools import key_of
from weft.run.engine import Engine
from weft.upstreams.pool import Pool

ALL = object()
"""Every view."""

QUIET = 0.05
"""How long weft waits for further changes before it builds: servers that start together change together."""

CHANGED = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
    "resourceTemplates": "notifications/resources/list_changed",
}


@dataclass(frozen=True, slots=True)
class Content:
    """What a registry brings: its document, the Python tools that came with it, and what is strange about it."""

    document: Document = field(default_factory=Document)
    local: Upstream | None = None
    """Functions and groups."""

    problems: tuple[Problem, ...] = ()
    groups: tuple[GroupedTool, ...] = ()
    """The groups among the Python tools."""

    gathers: tuple[GroupRule, ...] = ()
    """The groups of tools that it declares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Under which names things are served, and in which views."""

    on_collision: OnCollision = "prefix"
    views: Mapping[str, ViewRule] = field(default_factory=dict[str, ViewRule])
    groups: tuple[GroupRule, ...] = ()
    middleware: tuple[Around, ...] = ()
    """What stands around the calls of tools, the outermost first."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that clients may want to hear, of one view or of all."""

    method: str
    params: dict[str, Any]
    view: object = None


Listener: TypeAlias = Callable[[Event], object]


class Live:
    """Keeps the catalogue and the engine's snapshot up to date; what cannot be built never replaces what works."""

    def __init__(
        self,
        engine: Engine,
        pool: Pool,
        naming: Naming,
        content: Content,
        *,
        access: Access | None = None,
        auditor: Auditor | None = None,
        stores: Stores = no_stores,
        on_built: Callable[[], object],
    ) -> None:
        self._engine = engine
        self._pool = pool
        self._naming = naming
        self._content = content
        self._auditor = auditor or Auditor(None)
        self._stores = stores
        self.kept = Kept()
        """What patterns keep over reloads: circuits, letters that were not delivered."""
        self.offered = Offered(None, pool, {})
        self.document = Document()
        """What the registry has, with the Python tools that came with it."""
        self.own: tuple[Tool, ...] = ()
        """Tools of weft itself, from the next build on."""
        self.attached: tuple[GroupedTool, ...] = ()
        """Groups that the program around it brought, from the next build on."""
        self._on_built = on_built
        self._listeners: dict[object, Listener] = {}
        self._building = asyncio.Lock()
        self._pending: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self.generation = 0
        self.problems: tuple[str, ...] = ()
        self.access = access or Access()
        self._agents: dict[str, tuple[str, str]] = {}
        self.scope = Scope(Book(Document()), self.access.policy, self.access.rules)
        self.catalogue = build(Document(), Offered(None, pool, {}), pool, scope=self.scope)

    async def load(self, content: Content) -> None:
        """Serve a new registry.

        Raises:
            DocumentInvalid: it cannot be compiled; what was served before stays.
        """
        async with self._building:
            await self._build(content, self._naming, self.access)
            self._content = content

    async def configure(self, naming: Naming, access: Access) -> None:
        """Serve the same under new names, in other views, to others."""
        async with self._building:
            await self._build(self._content, naming, access)
            self._naming = naming

    def agent_at(self, url: str) -> tuple[str, str] | None:
        """Return the agent, by name and version, that has its card at a URL; of several versions the newest."""
        return self._agents.get(url)

    def changed(self) -> None:
        """Note that a server offers something else, or is in another state; many such notes make one build."""
        loop = asyncio.get_running_loop()
        if self._pending is None:
            self._pending = loop.call_later(QUIET, self._due)

    def tell(self, event: Event) -> None:
        """Tell everybody who listens."""
        for listener in list(self._listeners.values()):
            listener(event)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener of every event from now on, until what is returned is called."""
        key = object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    async def settle(self) -> None:
        """Build what is due now."""
        if self._pending is not None:
            self._pending.cancel()
            self._due()
        if self._task is not None:
            await asyncio.shield(self._task)

    async def close(self) -> None:
        """Stop building."""
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _due(self) -> None:
        self._pending = None
        before = self._task
        self._task = asyncio.get_running_loop().create_task(self._rebuild(before))

    async def _rebuild(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.gather(before, return_exceptions=True)
        async with self._building:
            await self._build(self._content, self._naming, self.access)

    async def _build(self, content: Content, naming: Naming, access: Access) -> None:
        # Off the event loop: a large registry takes seconds, and calls go on meanwhile.
        snapshot, catalogue, offered, problems = await asyncio.to_thread(self._built, content, naming, access)
        before, self.catalogue = self.catalogue, catalogue
        self.offered = offered
        self.document = snapshot.document
        others = access is not self.access or content.document.agents != self._content.document.agents
        self.access = access
        self._agents = _by_url(content.document)
        self.scope = catalogue.views[None].scope
        self._engine.snapshot = snapshot
        self.problems = problems
        if content is not self._content or self.generation == 0:
            self.generation += 1
        self._on_built()
        for event in _changes(before, catalogue, anyhow=others):
            self.tell(event)

    @no_collection()
    def _built(
        self, content: Content, naming: Naming, access: Access
    ) -> tuple[Snapshot, Catalogue, Offered, tuple[str, ...]]:
        pool, document = self._pool, _with_local(content)
        groups = (*self.attached, *content.groups)
        named = {one.name for one in naming.groups}
        gathers = (*naming.groups, *(one for one in content.gathers if one.name not in named))
        own = (*self.own, *group_tools(groups, lambda: self._engine.limits))
        prefixed = prefixed_refs(document, pool, naming.on_collision, own, [one.name for one in gathers])
        offered = Offered(content.local, pool, prefixed, groups)
        offered.own = {one.name: one.facts for one in own}
        rules = access.rules
        if not rules.written and not document.agents:
            # Where nobody is registered, nobody can be known: who got in may call.
            rules = replace(rules, unknown_caller="allow")
        scope = Scope(Book(document), access.policy, rules)
        offered.steps = self._steps(scope, offered)
        found = check(document, offered)
        # What is wrong only because of what a server offers now must not stop the rest: it is told, and fails when
        # called.
        problems = [problem for problem in found if problem.severity != "error"]
        snapshot = compile_document(document, offered, problems=problems, stores=self._stores, kept=self.kept)
        catalogue = build(
            document,
            offered,
            pool,
            on_collision=naming.on_collision,
            views=naming.views,
            scope=scope,
            checks=access.checks,
            hashes=self._auditor.on,
            own=own,
            groups=gathers,
            middleware=naming.middleware,
        )
        whole = catalogue.views[None]
        served = [*whole.tools.values(), *whole.older.values()]
        offered.served = {
            (one.server.spec.key, one.upstream_name): one.facts
            for one in served
            if one.server is not None and one.definition is None
        }
        offered.registered = {
            **{key_of(one.name, one.version): facts_of(one) for one in document.tools if one.internal},
            **{one.key: one.facts for one in served if one.definition is not None},
        }
        twice = (
            f"group {one.name!r} of the registry is not served: weft.yaml has one of that name"
            for one in content.gathers
            if one.name in named
        )
        return snapshot, catalogue, offered, (*doubts(document, pool, found), *twice, *catalogue.problems)

    def compile(self, document: Document, kept: Kept) -> Snapshot:
        """Compile a document of another day, such as that of a saga, against what is offered now.

        Its compositions may call what they say there, whatever the registry says by now.
        """
        offered = copy(self.offered)
        described = {key_of(one.name, one.version): facts_of(one) for one in document.tools}
        offered.registered = {**described, **offered.registered}
        offered.steps = self._steps(Scope(Book(document), self.access.policy, self.access.rules), offered)
        return compile_document(document, offered, problems=(), stores=self._stores, kept=kept)

    def _steps(self, scope: Scope, offered: Offered) -> Steps:
        """Return what guards the steps of what is compiled now; `scope` knows what each of them may call."""
        return Steps(
            lambda: self.scope,
            self._auditor,
            offered.facts,
            offered.describe,
            lambda: self.access.quotas,
            lent=scope.lent_by,
        )


def _by_url(document: Document) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for agent in sorted(document.agents, key=lambda one: precedence(one.version)):
        if agent.url is not None:
            found[agent.url] = (agent.name, agent.version)
    return found


def _with_local(content: Content) -> Document:
    """Return the document with the Python tools that came with it as tools of their own."""
    if content.local is None:
        return content.document
    # Groups are tools already, as they are.
    named = {one.name for one in (*content.document.tools, *content.groups)}
    local = [ToolDef(name=name) for name in content.local.names() if name not in named]
    return content.document.model_copy(update={"tools": [*content.document.tools, *local]})


def _changes(before: Catalogue, after: Catalogue, *, anyhow: bool = False) -> list[Event]:
    """Return an event for each list of each view that is not what it was.

    `anyhow` says that it is not known for whom they changed: who may see what is another matter now.
    """
    events: dict[tuple[str, str | None], Event] = {}
    for name, view in after.views.items():
        old = before.views.get(name)
        for key, method in CHANGED.items():
            if old is not None and (anyhow or old.lists[key] != view.lists[key]):
                events[method, name] = Event(method, {}, name)
    return list(events.values())
