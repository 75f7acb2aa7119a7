"""Scope over a registry as it is read: two agents, two versions of one tool, a composition."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.test_scope import Shelf
from weft.gateway.policy import Policy, ToolFacts
from weft.gateway.scope import Rules, Scope
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.ports import Principal
from weft.registry.book import Book


def tool(name: str, version: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "version": version, "source": {"server": "web", "tool": name}} | more


def agent(name: str, *depends: tuple[str, str]) -> dict[str, Any]:
    listed = [{"type": "tool", "name": one, "version": version} for one, version in depends]
    extension = {"uri": "urn:agentgateway:sbom", "params": {"depends": listed}}
    return {"name": name, "version": "1.0.0", "capabilities": {"extensions": [extension]}}


REGISTRY: dict[str, Any] = {
    "schemaVersion": "2.0",
    "tools": [
        tool("fetch", "1.2.3"),
        tool("fetch", "2.0.0"),
        tool("charge", "1.0.0"),
        {
            "name": "buy",
            "version": "1.0.0",
            "depends": [{"type": "tool", "name": "charge", "version": "1.0.0"}],
            "spec": {"pipeline": {"steps": [{"id": "a", "operation": {"tool": {"name": "charge"}}}]}},
        },
    ],
    "agents": [agent("old", ("fetch", "1.2.3")), agent("new", ("fetch", "2.0.0"), ("buy", "1.0.0"))],
}
SHELF = Shelf(*(ToolFacts(one["name"], one["version"]) for one in REGISTRY["tools"]))


@pytest.fixture
def scope() -> Scope:
    book = Book.of(parse(read(json.dumps(REGISTRY).encode(), name="registry.json", format="json")))
    return Scope(book, Policy(), Rules(unknown_caller="deny", undeclared_dependency="deny"))


def caller(name: str) -> Principal:
    return Principal(subject=name, agent_name=name, agent_version="1.0.0", method="key", strength="proven")


@pytest.mark.req("REG-40")
def test_two_agents_see_and_call_two_versions_of_one_tool(scope: Scope):
    seen = {name: [one.facts for one in scope.seen(caller(name), SHELF)] for name in ("old", "new", "nobody")}
    assert seen == {
        "old": [ToolFacts("fetch", "1.2.3")],
        "new": [ToolFacts("fetch", "2.0.0"), ToolFacts("buy", "1.0.0")],
        "nobody": [],
    }
    for name in ("old", "new"):
        found = scope.find(caller(name), SHELF, "fetch")
        assert found is not None
        assert found[0].facts == seen[name][0]


def test_a_composition_lends_what_it_declares(scope: Scope):
    buy, charge = ToolFacts("buy", "1.0.0"), ToolFacts("charge", "1.0.0")
    assert scope.find(caller("new"), SHELF, "charge") is None
    assert scope.step(caller("new"), buy, charge).callable
    assert not scope.step(caller("new"), buy, ToolFacts("fetch", "2.0.0")).callable
    assert not scope.step(caller("old"), buy, charge).callable
