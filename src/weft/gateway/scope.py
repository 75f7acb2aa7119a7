"""Who sees and calls what: the policy first, then what an agent depends on; one decision for lists, calls and steps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar

from weft.gateway.policy import Policy, ToolFacts
from weft.ir.entities import OWN_TOOLS
from weft.ports import Principal
from weft.telemetry.logs import Log

_log = Log("gateway")
Allowing = Literal["allow", "warn", "deny"]
REMEMBERED = 20_000

Lent: TypeAlias = frozenset[tuple[str, str | None]]
"""What a composition may call: names, and versions where one is meant."""


class Reference(Protocol):
    """What an entity depends on; a version that is empty leaves open which."""

    @property
    def type(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...


EntityT = TypeVar("EntityT")


class BookLike(Protocol[EntityT]):
    """The part of the registry that a decision asks: one agent, and what it reaches."""

    def get(self, kind: Literal["agent", "tool"], name: str, version: str, /) -> EntityT | None: ...
    def versions(self, kind: Literal["agent", "tool"], name: str, /) -> Sequence[str]:
        """Return the versions of a name, the newest first."""
        ...

    def depends_on(self, entity: EntityT, /) -> Iterable[Reference]: ...
    def lent_by(self, entity: EntityT, /) -> Collection[Reference]:
        """Return what a composition may call for its caller."""
        ...


class Served(Protocol):
    """A tool as a view serves it."""

    @property
    def facts(self) -> ToolFacts: ...


ServedT = TypeVar("ServedT", bound=Served)
ServedT_co = TypeVar("ServedT_co", bound=Served, covariant=True)


class Shelf(Protocol[ServedT_co]):
    """The tools of a view, with every version that is served."""

    def find(self, name: str, version: str | None) -> ServedT_co | None:
        """Return a tool in exactly that version; without one, in the newest."""
        ...

    def all(self) -> Iterable[ServedT_co]:
        """Return every tool in its newest version."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is done about callers that the registry does not know, and about calls that it does not foresee."""

    unknown_caller: Allowing = "allow"
    undeclared_dependency: Allowing = "warn"
    written: bool = True
    """Whether somebody has said so; a default that denies is none where no agent is registered at all."""
    loopback: bool = True
    """Whether only this machine reaches the gateway: elsewhere a mere word does not make a caller known (A6)."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a tool is listed for somebody, whether it may be called, and why; `finding` is to be warned of."""

    listed: bool
    callable: bool
    reason: str
    finding: str | None = None
    code: Literal["UnknownCaller", "UndeclaredDependency"] = "UnknownCaller"
    """What kind of finding it is."""


_DECLARED = Decision(True, True, "declared")


class Scope:
    """Decides for one state of the registry, the servers and the policy; made anew with each of them.

    What is asked of the registry is what one agent depends on, however much else is registered.
    """

    def __init__(self, book: BookLike[EntityT], policy: Policy, rules: Rules | None = None) -> None:
        self._book = book
        self._policy = policy
        self._rules = rules or Rules()
        self._agents: dict[tuple[str, str | None], dict[str, tuple[str | None, ...]] | None] = {}
        self._lent: dict[tuple[str, str | None], Lent] = {}
        self._decided: dict[tuple[Principal, ToolFacts], Decision] = {}
        self._steps: dict[tuple[Principal, ToolFacts, ToolFacts, str | None, Lent | None], Decision] = {}

    def sees_all(self, principal: Principal) -> bool:
        """Tell whether a view's whole list is this caller's, so that nothing needs to be asked tool by tool."""
        open_ = self._policy.is_open and self._rules.unknown_caller != "deny"
        return open_ and self._declared(principal) is None

    def seen(self, principal: Principal, shelf: Shelf[ServedT]) -> list[ServedT]:
        """Return the tools that somebody's `tools/list` has: an agent's are those that it depends on."""
        declared = self._declared(principal)
        if declared is None:
            tools = shelf.all() if self._rules.unknown_caller != "deny" else ()
        else:
            tools = (one for name in declared if (one := self._picked(declared, name, shelf)) is not None)
        return [tool for tool in tools if self.decide(principal, tool.facts).listed]

    def find(
        self, principal: Principal, shelf: Shelf[ServedT], name: str, version: str | None = None
    ) -> tuple[ServedT, Decision] | None:
        """Return the tool that somebody means by a name; None when there is none, or none for this caller: the same."""
        declared = self._declared(principal) or {}
        tool = shelf.find(name, version) if version is not None else self._picked(declared, name, shelf)
        if tool is None:
            return None
        decision = self.decide(principal, tool.facts)
        return (tool, decision) if decision.callable else None

    def why_not(self, principal: Principal, shelf: Shelf[ServedT], name: str, version: str | None = None) -> str:
        """Return why `find` gives nothing, for those who run the gateway; the caller is not told."""
        declared = self._declared(principal) or {}
        tool = shelf.find(name, version) if version is not None else self._picked(declared, name, shelf)
        return "there is no such tool" if tool is None else self.decide(principal, tool.facts).reason

    def is_quick_for(self, principal: Principal) -> bool:
        """Tell whether what somebody sees is soon found: an agent's few tools, or all without a question."""
        return self._declared(principal) is not None or self._policy.is_open or self._rules.unknown_caller == "deny"

    def decide(self, principal: Principal, tool: ToolFacts) -> Decision:
        """Return whether somebody may see and call a tool: what lists and calls both go by."""
        asked = (principal, tool)
        decision = self._decided.get(asked)
        if decision is None:
            decision = self._decide(principal, tool)
            if len(self._decided) >= REMEMBERED:
                self._decided.clear()
            self._decided[asked] = decision
        return decision

    def step(
        self,
        principal: Principal,
        composition: ToolFacts,
        tool: ToolFacts,
        named: str | None = None,
        lent: Lent | None = None,
    ) -> Decision:
        """Return whether a composition may call a tool for somebody, whatever part of it asks: a fallback, a tap too.

        It may call what it declares, for those who may call it; tools for which the policy says so only for those who
        may call them themselves. `named` is what the composition calls the tool, where it is served under another name;
        `lent` is what it declared when it was compiled, where that is not what it declares now.
        """
        asked = (principal, composition, tool, named, lent)
        decision = self._steps.get(asked)
        if decision is None:
            lent = self.lent_by(composition) if lent is None else lent
            decision = self._step(principal, composition, tool, named or tool.name, lent)
            if len(self._steps) >= REMEMBERED:
                self._steps.clear()
            self._steps[asked] = decision
        return decision

    def own_step(
        self, principal: Principal, through: Iterable[ToolFacts], tool: ToolFacts, named: str | None = None
    ) -> Decision:
        """Return whether a workflow of the caller may call a tool: as the caller may, or by compositions it names."""
        own = self.decide(principal, tool)
        if own.callable:
            return Decision(False, True, f"the caller's own workflow; {own.reason}")
        for composition in through:
            lent = self.step(principal, composition, tool, named)
            if lent.callable:
                return lent
        return _refused(own.reason)

    def _step(self, principal: Principal, composition: ToolFacts, tool: ToolFacts, named: str, lent: Lent) -> Decision:
        if not self.decide(principal, composition).callable:
            return _refused(f"{composition.name} may not be called")
        if tool == composition:
            return Decision(False, True, "called itself")
        if (named, tool.version) not in lent and (named, None) not in lent:
            return _refused(f"{composition.name} does not declare {_named(tool)}")
        rule = self._policy.needs_own_right(principal, tool)
        if rule is not None and not self.decide(principal, tool).callable:
            return _refused(f"rule {rule!r}: the caller itself may not call {_named(tool)}")
        return Decision(False, True, f"declared by {composition.name}")

    def _decide(self, principal: Principal, tool: ToolFacts) -> Decision:
        verdict = self._policy.judge(principal, tool)
        if not verdict.allowed:
            return _refused("no rule allows it" if verdict.rule is None else f"rule {verdict.rule!r}")
        declared = self._declared(principal)
        if declared is None:
            told = "the caller is not registered"
            return _by_rule(self._rules.unknown_caller, told, "UnknownCaller", listed=True)
        versions = declared.get(tool.name, ())
        # A server that offers a tool under the name of one of weft's own is not what an agent meant.
        feigned = tool.server is not None and tool.name in OWN_TOOLS and None in versions
        if (tool.version in versions or None in versions) and not feigned:
            return _DECLARED
        finding = f"{principal.agent} does not declare {_named(tool)}"
        return _by_rule(self._rules.undeclared_dependency, finding, "UndeclaredDependency", listed=False)

    def _picked(self, declared: dict[str, tuple[str | None, ...]], name: str, shelf: Shelf[ServedT]) -> ServedT | None:
        """Return the version of a tool that an agent depends on, never another; the newest if it depends on none."""
        versions = declared.get(name, (None,))
        return next((tool for version in versions if (tool := shelf.find(name, version)) is not None), None)

    def _declared(self, principal: Principal) -> dict[str, tuple[str | None, ...]] | None:
        """Return what an agent depends on, by name; None when the caller is no registered agent."""
        name = principal.agent_name
        if name is None:
            return None
        rules = self._rules
        if rules.undeclared_dependency == "deny" and principal.strength == "none" and not rules.loopback:
            return None
        key = (name, principal.agent_version)
        if key not in self._agents:
            if len(self._agents) >= REMEMBERED:
                self._agents.clear()
            self._agents[key] = self._look_up(*key)
        return self._agents[key]

    def _look_up(self, name: str, version: str | None) -> dict[str, tuple[str | None, ...]] | None:
        versions = self._book.versions("agent", name)
        if version is None and len(versions) == 1:
            version = versions[0]
        agent = None if version is None else self._book.get("agent", name, version)
        if agent is None:
            known = f"it has {', '.join(versions)}" if versions else "there is no agent of that name"
            _log.warning(
                f"a caller says to be agent {name} {version or ''}".rstrip() + f", which is not registered: {known}"
            )
            return None
        declared: dict[str, list[str | None]] = {}
        for ref in self._book.depends_on(agent):
            if ref.type == "tool":
                declared.setdefault(ref.name, []).append(ref.version or None)
        return {name: self._ordered(name, versions) for name, versions in declared.items()}

    def _ordered(self, name: str, versions: list[str | None]) -> tuple[str | None, ...]:
        """Return versions of a tool, the newest first."""
        if len(versions) == 1:
            return tuple(versions)
        known = list(self._book.versions("tool", name))
        return tuple(sorted(versions, key=lambda one: known.index(one) if one in known else len(known)))

    def lent_by(self, composition: ToolFacts) -> Lent:
        """Return the names and versions of what a composition may call for its callers."""
        key = (composition.name, composition.version)
        found = self._lent.get(key)
        if found is None:
            entity = self._book.get("tool", composition.name, composition.version or "")
            reached = () if entity is None else self._book.lent_by(entity)
            found = self._lent[key] = frozenset(
                (ref.name, ref.version or None) for ref in reached if ref.type == "tool"
            )
        return found


def _by_rule(
    rule: Allowing, finding: str, code: Literal["UnknownCaller", "UndeclaredDependency"], *, listed: bool
) -> Decision:
    if rule == "deny":
        return _refused(finding)
    return Decision(listed, True, finding, finding if rule == "warn" else None, code)


def _refused(reason: str) -> Decision:
    return Decision(False, False, reason)


def _named(tool: ToolFacts) -> str:
    return tool.name if tool.version is None else f"{tool.name}@{tool.version}"
