"""Scope: lists, calls and steps go by one decision; an agent sees what it depends on, in exactly that version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.gateway.policy import Policy, Rule, ToolFacts
from weft.gateway.scope import Allowing, Rules, Scope
from weft.ports import ANONYMOUS, Principal

MODES: tuple[Allowing, ...] = ("allow", "warn", "deny")


@dataclass(frozen=True)
class Ref:
    name: str
    version: str = ""
    type: str = "tool"


@dataclass(frozen=True)
class Entity:
    kind: str
    name: str
    version: str
    depends: tuple[Ref, ...] = ()


@dataclass
class SmallBook:
    """A registry of a few entities, which counts what is asked of it."""

    entities: Sequence[Entity]
    asked: int = 0
    _by_key: dict[tuple[str, str, str], Entity] = field(default_factory=dict[tuple[str, str, str], Entity])

    def __post_init__(self) -> None:
        self._by_key = {(one.kind, one.name, one.version): one for one in self.entities}

    def get(self, kind: Literal["agent", "tool"], name: str, version: str) -> Entity | None:
        self.asked += 1
        return self._by_key.get((kind, name, version))

    def versions(self, kind: Literal["agent", "tool"], name: str) -> Sequence[str]:
        self.asked += 1
        return sorted((one.version for one in self.entities if (one.kind, one.name) == (kind, name)), reverse=True)

    def depends_on(self, entity: Entity) -> tuple[Ref, ...]:
        return entity.depends

    def lent_by(self, entity: Entity) -> frozenset[Ref]:
        found = set(entity.depends)
        for ref in entity.depends:
            inner = self._by_key.get((ref.type, ref.name, ref.version))
            found |= self.lent_by(inner) if inner is not None else set()
        return frozenset(found)


@dataclass(frozen=True)
class Tool:
    facts: ToolFacts


class Shelf:
    """Tools that are served, and how many of them were looked at."""

    def __init__(self, *tools: ToolFacts) -> None:
        self._tools = {(one.name, one.version): Tool(one) for one in tools}
        self.looked = 0

    def find(self, name: str, version: str | None) -> Tool | None:
        self.looked += 1
        if version is not None:
            return self._tools.get((name, version))
        found = sorted((one for one in self._tools if one[0] == name), key=lambda one: one[1] or "")
        return self._tools[found[-1]] if found else None

    def all(self) -> Iterable[Tool]:
        for name in dict.fromkeys(name for name, _ in self._tools):
            if (tool := self.find(name, None)) is not None:
                yield tool


def agent(name: str | None = "research", version: str | None = "1.0.0") -> Principal:
    return Principal(subject="s", agent_name=name, agent_version=version, method="jwt", strength="proven")


BOOK = [
    Entity("agent", "research", "1.0.0", (Ref("fetch", "1.2.3"), Ref("search", "1.0.0"))),
    Entity("agent", "research", "2.0.0", (Ref("fetch", "2.0.0"), Ref("other", type="agent"))),
    Entity("agent", "writer", "1.0.0", (Ref("gone", "1.0.0"), Ref("fetch", "9.9.9"), Ref("plain"))),
    Entity("agent", "both", "1.0.0", (Ref("fetch", "1.2.3"), Ref("fetch", "2.0.0"))),
    Entity("agent", "shop", "1.0.0", (Ref("checkout", "1.0.0"),)),
    Entity("tool", "fetch", "1.2.3"),
    Entity("tool", "fetch", "2.0.0"),
    Entity("tool", "search", "1.0.0"),
    Entity("tool", "charge", "1.0.0"),
    Entity("tool", "pay", "1.0.0", (Ref("charge", "1.0.0"),)),
    Entity("tool", "checkout", "1.0.0", (Ref("pay", "1.0.0"), Ref("search", "1.0.0"), Ref("raw"))),
]
FETCH, NEW_FETCH = ToolFacts("fetch", "1.2.3", "web"), ToolFacts("fetch", "2.0.0", "web")
SEARCH, CHARGE = ToolFacts("search", "1.0.0", "search"), ToolFacts("charge", "1.0.0", "payment")
PAY, CHECKOUT, PLAIN = ToolFacts("pay", "1.0.0"), ToolFacts("checkout", "1.0.0"), ToolFacts("plain")
TOOLS = (FETCH, NEW_FETCH, SEARCH, CHARGE, PAY, CHECKOUT, PLAIN)


def scope(*rules: Rule, unknown: Allowing = "allow", undeclared: Allowing = "deny", loopback: bool = True) -> Scope:
    how = Rules(unknown_caller=unknown, undeclared_dependency=undeclared, loopback=loopback)
    return Scope(SmallBook(BOOK), Policy(rules), how)


def listed(made: Scope, principal: Principal, shelf: Shelf | None = None) -> list[tuple[str, str | None]]:
    return [(tool.facts.name, tool.facts.version) for tool in made.seen(principal, shelf or Shelf(*TOOLS))]


def called(made: Scope, principal: Principal, name: str, version: str | None = None) -> tuple[str, str | None] | None:
    found = made.find(principal, Shelf(*TOOLS), name, version)
    return None if found is None else (found[0].facts.name, found[0].facts.version)


def test_a_server_cannot_take_the_place_of_a_tool_of_weft_that_an_agent_depends_on():
    runner = Entity("agent", "runner", "1.0.0", (Ref("composition_execute"),))
    made = Scope(SmallBook([runner]), Policy(), Rules(undeclared_dependency="deny"))
    assert made.decide(agent("runner"), ToolFacts("composition_execute")).callable
    for feigned in (ToolFacts("composition_execute", server="evil"), ToolFacts("composition_execute", "1.0.0", "evil")):
        assert not made.decide(agent("runner"), feigned).callable
        assert made.seen(agent("runner"), Shelf(feigned)) == []


@pytest.mark.req("REG-40")
def test_an_agent_sees_exactly_what_it_depends_on():
    assert listed(scope(), agent()) == [("fetch", "1.2.3"), ("search", "1.0.0")]


@pytest.mark.req("REG-40")
def test_two_versions_of_an_agent_call_two_versions_of_a_tool():
    made = scope()
    assert called(made, agent(), "fetch") == ("fetch", "1.2.3")
    assert called(made, agent(version="2.0.0"), "fetch") == ("fetch", "2.0.0")
    assert listed(made, agent(version="2.0.0")) == [("fetch", "2.0.0")]


@pytest.mark.parametrize("undeclared", MODES)
def test_another_version_never_stands_in_for_the_declared_one(undeclared: Allowing):
    made = scope(undeclared=undeclared)
    assert called(made, agent("writer"), "fetch") is None
    assert called(made, agent("writer"), "gone") is None
    assert listed(made, agent("writer")) == [("plain", None)]


def test_an_agent_that_depends_on_two_versions_means_the_newest_unless_it_says_which():
    made = scope()
    assert listed(made, agent("both")) == [("fetch", "2.0.0")]
    assert called(made, agent("both"), "fetch") == ("fetch", "2.0.0")
    assert called(made, agent("both"), "fetch", "1.2.3") == ("fetch", "1.2.3")
    assert called(made, agent(), "fetch", "2.0.0") is None


@pytest.mark.req("REG-33")
def test_a_call_that_is_not_declared_is_taken_as_configured():
    assert called(scope(undeclared="deny"), agent(), "charge") is None
    modes: list[tuple[Allowing, bool]] = [("allow", False), ("warn", True)]
    for mode, warned in modes:
        found = scope(undeclared=mode).find(agent(), Shelf(*TOOLS), "charge")
        assert found is not None
        assert (found[1].finding is not None) == warned
        assert found[1].reason == "research@1.0.0 does not declare charge@1.0.0"


@pytest.mark.req("REG-32", "REG-41")
@pytest.mark.parametrize("who", [ANONYMOUS, agent("nobody"), agent("research", "7.0.0"), agent("research", None)])
def test_a_caller_that_is_not_registered_is_taken_as_configured(who: Principal):
    newest = [(one.name, one.version) for one in TOOLS if one is not FETCH]
    assert sorted(listed(scope(), who)) == sorted(newest)
    assert called(scope(), who, "fetch") == ("fetch", "2.0.0")
    found = scope(unknown="warn").find(who, Shelf(*TOOLS), "search")
    assert found is not None
    assert found[1].finding == "the caller is not registered"
    assert listed(scope(unknown="deny"), who) == []
    assert called(scope(unknown="deny"), who, "search") is None
    assert scope().sees_all(who)
    assert not scope(unknown="deny").sees_all(who)


def test_an_agent_without_a_version_is_the_only_one_of_its_name():
    assert called(scope(), agent("shop", None), "checkout") == ("checkout", "1.0.0")


def test_where_others_reach_it_a_mere_word_makes_nobody_known():
    said = Principal(subject="research", agent_name="research", agent_version="1.0.0", method="header")
    assert listed(scope(unknown="deny"), said) == [("fetch", "1.2.3"), ("search", "1.0.0")]
    assert listed(scope(unknown="deny", loopback=False), said) == []
    assert called(scope(unknown="deny", loopback=False), said, "search") is None
    assert called(scope(unknown="deny", loopback=False), agent(), "search") is not None


def test_the_policy_comes_before_what_is_declared():
    made = scope(Rule(name="no web", effect="deny", servers=("web",)))
    assert listed(made, agent()) == [("search", "1.0.0")]
    assert called(made, agent(), "fetch") is None
    assert not made.sees_all(ANONYMOUS)


def test_a_tool_that_is_forbidden_is_told_like_one_that_is_not_there():
    with_it, without = Shelf(*TOOLS), Shelf(*(one for one in TOOLS if one is not CHARGE))
    assert scope().find(agent(), with_it, "charge") is scope().find(agent(), without, "charge") is None
    # Only those who run the gateway learn the difference.
    told = [scope().why_not(agent(), shelf, "charge") for shelf in (with_it, without)]
    assert told == ["research@1.0.0 does not declare charge@1.0.0", "there is no such tool"]
    rule = Rule(name="no pay", effect="deny", tools=("charge",))
    assert scope(rule).why_not(agent(), with_it, "charge") == "rule 'no pay'"


def test_a_composition_calls_what_it_reaches_for_those_who_may_call_it():
    made = scope()
    shop = agent("shop")
    for tool in (PAY, CHARGE, SEARCH, ToolFacts("raw"), ToolFacts("raw", "3.0.0", "server")):
        assert made.step(shop, CHECKOUT, tool).callable
    assert called(made, shop, "charge") is None
    assert made.step(shop, CHECKOUT, FETCH).reason == "checkout does not declare fetch@1.2.3"
    assert not made.step(shop, CHECKOUT, ToolFacts("charge", "2.0.0")).callable
    assert not made.step(agent(), CHECKOUT, PAY).callable
    assert not made.step(shop, ToolFacts("unheard", "1.0.0"), PAY).callable


def test_a_tool_that_the_caller_must_have_itself_is_not_lent_by_a_composition():
    rule = Rule(name="money", tools=("charge",), caller_must_also_have=True)
    assert not scope(rule).step(agent("shop"), CHECKOUT, CHARGE).callable
    assert scope(rule).step(agent("shop"), CHECKOUT, SEARCH).callable
    denied = Rule(name="no money", effect="deny", tools=("charge",))
    assert scope(denied).step(agent("shop"), CHECKOUT, CHARGE).callable
    assert not scope(rule, denied, undeclared="allow").step(agent("shop"), CHECKOUT, CHARGE).callable


def test_what_an_agent_sees_costs_the_same_however_much_is_served():
    def cost(count: int) -> tuple[int, int]:
        book = SmallBook(BOOK)
        shelf = Shelf(*TOOLS, *(ToolFacts(f"tool{n}", "1.0.0") for n in range(count)))
        made = Scope(book, Policy([Rule(name="all", effect="allow")]), Rules())
        assert len(made.seen(agent(), shelf)) == 2
        return book.asked, shelf.looked

    assert cost(10) == cost(2000)


_names = st.sampled_from(["a", "b", "c"])
_versions = st.sampled_from(["1.0.0", "2.0.0"])
_facts = st.builds(ToolFacts, _names, _versions | st.none(), st.sampled_from(["s", "t", None]))
_refs = st.lists(st.builds(Ref, _names, _versions | st.just("")), max_size=4, unique=True).map(tuple)
_agents = st.lists(
    st.builds(Entity, st.just("agent"), _names, _versions, _refs),
    max_size=4,
    unique_by=lambda one: (one.name, one.version),
)
_rules = st.lists(
    st.builds(
        Rule,
        name=st.just("r"),
        effect=st.sampled_from(["allow", "deny"]),
        when=st.sampled_from([None, "principal.agentName == 'a'", "tool.version == '1.0.0'", "tool.version > 'x'"]),
        tools=st.sampled_from([("*",), ("a",), ("b", "c")]),
    ),
    max_size=3,
)
_principals = st.builds(
    Principal,
    agent_name=_names | st.none(),
    agent_version=_versions | st.none(),
    method=st.just("key"),
    strength=st.sampled_from(["none", "proven"]),
)
_modes = st.sampled_from(MODES)


@given(
    agents=_agents,
    tools=st.lists(_facts, max_size=6),
    rules=_rules,
    who=_principals,
    unknown=_modes,
    undeclared=_modes,
    loopback=st.booleans(),
)
def test_what_can_be_called_is_listed_and_the_other_way_round(
    *,
    agents: list[Entity],
    tools: list[ToolFacts],
    rules: list[Rule],
    who: Principal,
    unknown: Allowing,
    undeclared: Allowing,
    loopback: bool,
):
    how = Rules(unknown_caller=unknown, undeclared_dependency=undeclared, loopback=loopback)
    made = Scope(SmallBook(agents), Policy(rules), how)
    shelf = Shelf(*tools)
    names = {(tool.facts.name, tool.facts.version) for tool in made.seen(who, shelf)}
    found = {name: made.find(who, shelf, name) for name in "abc"}
    calls = {(one[0].facts.name, one[0].facts.version): one[1] for one in found.values() if one is not None}
    assert names <= calls.keys()
    for call in calls.keys() - names:
        # Only where the operator lets an agent call what it does not declare.
        assert undeclared != "deny"
        assert "does not declare" in calls[call].reason
        assert not calls[call].listed
    if made.sees_all(who):
        assert names == {(tool.facts.name, tool.facts.version) for tool in shelf.all()}
