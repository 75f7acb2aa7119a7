"""Enrichers add to an object what other operations know about it."""

from __future__ import annotations

from typing import Any

import pytest

import weft as w
from tests.patterns.worlds import problems, run, told
from weft.errors import ExecutionFailed, ToolFailed
from weft.testing import FakeWorld, Late, refusal

AUTHOR, PRICE = w.tool("get_author"), w.tool("get_price")
TOOLS: dict[str, Any] = {"get_author": {"name": "Ada", "id": 99}, "get_price": 7}


@pytest.mark.req("ALG-18", "ALG-30")
def test_the_builder_writes_fields_operations_and_inputs():
    p = w.path({})
    op = w.enricher(author=(p.author_id, AUTHOR), price=PRICE)
    author = {"field": "author", "operation": {"tool": {"name": "get_author"}}, "input": {"path": "$.author_id"}}
    price = {"field": "price", "operation": {"tool": {"name": "get_price"}}}
    assert op.to_ir() == {"enricher": {"enrichments": [author, price], "mergeStrategy": "nested"}}
    assert op.pattern == "enricher"


@pytest.mark.req("ALG-18", "ALG-30")
@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("nested", {"id": 1, "author": {"name": "Ada", "id": 99}, "price": 7}),
        ("spread", {"id": 99, "name": "Ada", "price": 7}),
        ("replace", {"author": {"name": "Ada", "id": 99}, "price": 7}),
    ],
)
async def test_what_is_added_is_nested_spread_or_all_that_is_kept(strategy: Any, expected: dict[str, Any]):
    world = FakeWorld(tools=TOOLS)
    value = {"id": 1}
    assert await world.run(w.enricher(merge=strategy, author=AUTHOR, price=PRICE), value) == expected
    assert value == {"id": 1}


async def test_a_field_that_is_there_already_is_replaced():
    assert await FakeWorld(tools=TOOLS).run(w.enricher(price=PRICE), {"price": 1}) == {"price": 7}


async def test_each_operation_is_given_the_object_or_the_part_it_asks_for():
    p = w.path({})
    world = FakeWorld(tools=TOOLS)
    await world.run(w.enricher(author=(p.by.id, AUTHOR), price=PRICE, more=(p.none, PRICE)), {"by": {"id": 3}})
    whole = {"by": {"id": 3}}
    assert world.calls == [("get_author", 3), ("get_price", whole), ("get_price", None)]


@pytest.mark.parametrize(
    "spec",
    [
        {"enrichments": [{"field": "price", "source": "get_price"}], "mergeStrategy": "nested"},
        {"enrichments": [{"field": "price", "operation": {"tool": "get_price"}, "input": {"path": "$.id"}}]},
        {"enrichments": [{"field": "price", "operation": "get_price", "input": {"input": {"path": "$.id"}}}]},
        {"enrichments": [{"field": "price", "operation": "get_price"}], "merge": "nested"},
    ],
)
async def test_every_spelling_enriches_alike(spec: dict[str, Any]):
    result = await run(FakeWorld(tools=TOOLS), {"enricher": spec}, {"id": 1})
    assert result.value == {"id": 1, "price": 7}


async def test_enrichments_run_at_the_same_moment():
    world = FakeWorld(tools={"get_author": Late("a", 3), "get_price": Late(1, 4)})
    before = world.clock.now()
    assert await world.run(w.enricher(author=AUTHOR, price=PRICE), {}) == {"author": "a", "price": 1}
    assert world.clock.now() - before == 4


async def test_one_that_fails_is_the_error_and_names_its_field():
    world = FakeWorld(tools={"get_author": refusal("no"), "get_price": Late(1, 4)})
    before = world.clock.now()
    with pytest.raises(ToolFailed) as caught:
        await world.run(w.enricher(author=AUTHOR, price=PRICE), {})
    assert caught.value.path == ("author",)
    assert world.clock.now() == before


@pytest.mark.parametrize("value", [None, [], "text", 3, True])
async def test_only_objects_can_be_enriched(value: Any):
    with pytest.raises(ExecutionFailed, match=r"^Enricher requires object input$"):
        await FakeWorld(tools=TOOLS).run(w.enricher(price=PRICE), value)


async def test_patterns_may_enrich_and_have_spans_under_their_fields():
    p = w.path({})
    result = await FakeWorld(tools=TOOLS).trace(
        w.enricher(first=w.pipeline(AUTHOR, w.schema_map(p, {"who": p.name})), price=PRICE), {"id": 1}
    )
    assert result.value == {"id": 1, "first": {"who": "Ada"}, "price": 7}
    assert set(told(result.trace)) == {
        (0, "it", "ok"),
        (1, "first", "ok"),
        (1, "price", "ok"),
        (2, "step_0", "ok"),
        (2, "step_1", "ok"),
    }


def test_no_enrichment_or_an_unknown_strategy_is_refused():
    assert problems({"enricher": {"enrichments": []}})
    assert problems({"enricher": {"enrichments": [{"field": "a", "operation": "x"}], "mergeStrategy": "blend"}})
