"""A cache gives nothing to those who may not call what it stands before (SEMANTICS 1.2, test 13)."""

from __future__ import annotations

from typing import Any

import pytest

import weft as w
from tests.patterns.gateways import caller, outcome
from weft.gateway.auditing import Auditor
from weft.gateway.callers import Inside
from weft.gateway.policy import ToolFacts
from weft.gateway.quotas import Quotas
from weft.gateway.steps import Steps
from weft.plan.compiler import compile_document
from weft.ports import Invoke, ToolRef
from weft.run.engine import Engine
from weft.stores.memory import MemoryStore

P = w.path({})


class Decision:
    def __init__(self, allowed: bool) -> None:
        self.callable = allowed
        self.reason = "a test"


class Rights:
    """Who may call what, as the policy says now."""

    def __init__(self) -> None:
        self.denied = set[tuple[str, str]]()

    def step(self, principal: Any, _facts: Any, _tool: Any, named: str, _lent: Any) -> Decision:
        return Decision((principal.subject, named) not in self.denied)


class Guarding:
    """An upstream whose tools are guarded as the gateway guards those of compositions."""

    def __init__(self, rights: Rights) -> None:
        scope: Any = rights
        self.calls: list[str] = []
        self._steps = Steps(
            lambda: scope,
            Auditor(None),
            lambda ref: ToolFacts(ref.name),
            self.describe,
            Quotas,
            lent=lambda _: frozenset(),
        )

    def bind(self, ref: ToolRef) -> Invoke:
        async def invoke(arguments: Any, call: Any) -> Any:
            self.calls.append(ref.name)
            return f"{ref.name} {len(self.calls)}"

        return self._steps.guarded(ref, invoke)

    def describe(self, ref: ToolRef) -> None:
        return None

    def names(self) -> list[str]:
        return ["search", "other"]


class Asked:
    """A gateway with one cache, and calls of it as clients make them."""

    def __init__(self, inner: Any, *others: Any) -> None:
        self.rights = Rights()
        self.upstream = Guarding(self.rights)
        store = MemoryStore()
        op = w.cache(inner, key=P.q, ttl=60, scope="public")
        document = w.compile(w.composition("it", "It.", op), *others).document
        self._engine = Engine(compile_document(document, self.upstream, stores=lambda _: store))

    async def by(self, subject: str, **given: Any) -> Any:
        inside = Inside(caller(subject), {}, facts=ToolFacts("it"))
        result = await outcome(self._engine.run("it", {"q": 1, **given}, caller=inside))
        return getattr(result, "code", None) or result.value


INNER = [w.tool("search"), w.pipeline(w.tool("search")), w.composition("deep", "Deep.", w.pipeline(w.tool("search")))]


@pytest.mark.parametrize("inner", INNER, ids=["a tool", "a pipeline", "a composition"])
async def test_cache_13_who_loses_a_right_gets_nothing_of_what_is_stored(inner: Any):
    one = Asked(inner)
    assert [await one.by("ann"), await one.by("bob")] == ["search 1", "search 1"]
    one.rights.denied.add(("bob", "search"))
    assert await one.by("bob") == "StepDenied"
    assert await one.by("ann") == "search 1"
    assert one.upstream.calls == ["search"]
    one.rights.denied.clear()
    assert await one.by("bob") == "search 1"


async def test_cache_13_who_may_call_a_part_gets_that_part_from_the_tools_themselves():
    one = Asked(w.router(w.when("input.q == 1 && input.deep", w.tool("other")), otherwise=w.tool("search")))
    one.rights.denied.add(("bob", "other"))
    assert await one.by("ann", deep=False) == "search 1"
    assert await one.by("bob", deep=False) == "search 2", "not from the cache: whose answer that is nobody can tell"
    assert await one.by("bob", deep=True) == "StepDenied"
    assert await one.by("ann", deep=False) == "search 1"
