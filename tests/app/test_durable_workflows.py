"""A gateway goes on with the durable workflows that another one left, and says which stores would forget them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.app.served import house, registry
from tests.app.shop import SQLITE
from tests.app.upstream import Upstream, upstream
from tests.waiting import until
from weft.gateway.callers import Inside, Nobody
from weft.gateway.origins import caller_of_run, origin_of
from weft.gateway.policy import ToolFacts
from weft.ir.document import Document
from weft.patterns.workflow_durable import DurableRuns
from weft.ports import Principal
from weft.run.call import Place, Root
from weft.run.clock import MonotonicClock
from weft.run.limits import Limits
from weft.run.workflow_recovery import volatile_workflows
from weft.stores.memory import MemoryStore
from weft.stores.sqlite import SqliteStore

pytestmark = pytest.mark.req("WFL-14")
STEPS = [
    {"id": "first", "tool": "echo", "parameters": {"n": "{{input.n}}"}},
    {"id": "second", "tool": "wait", "parameters": {"n": "{{first.arguments.n}}"}},
    {"id": "third", "tool": "echo", "parameters": {"n": "{{second.arguments.n}}"}},
]


def flow(store: str) -> dict[str, Any]:
    return registry({"name": "flow", "description": "It.", "spec": {"workflow": {"steps": STEPS, "store": store}}})


async def test_what_one_gateway_left_the_next_one_finishes(tmp_path: Path) -> None:
    async with upstream() as up:
        config = {"servers": {"shop": {"url": up.url}}, "stores": SQLITE}
        async with house(tmp_path, config, flow("orders")) as gate:
            await gate.has("flow")
            call = asyncio.create_task(gate.call("flow", {"n": 7}))
            await until(lambda: up.waiting)
            (live,) = gate.running.gateway.live.kept.of(DurableRuns).live.values()
            live.task.cancel()
            told = await call
            assert told["isError"] is True
            assert "goes on elsewhere" in told["content"][0]["text"]
        up.let_go.set()
        async with house(tmp_path, config, flow("orders")) as gate:
            await until(lambda: called(up) == ["echo", "wait", "wait", "echo"])
            assert await gate.metric("weft_workflow_recoveries_total") == 1
            assert await gate.metric("weft_workflows_total", status="succeeded") == 1
    keys = [message["params"]["_meta"]["weft/idempotencyKey"] for message in up.messages]
    assert keys[1] == keys[2]
    assert len(set(keys)) == 3


def called(up: Upstream) -> list[str]:
    return [message["params"]["name"] for message in up.messages]


def test_a_store_that_forgets_its_runs_is_warned_of(tmp_path: Path) -> None:
    document = Document.model_validate(flow("orders"))
    (problem,) = volatile_workflows(document, lambda name: MemoryStore("orders"))
    assert (problem.code, problem.severity) == ("StoreNotDurable", "warning")
    assert problem.loc == ("tools", 0, "spec", "workflow", "store")
    assert list(volatile_workflows(document, lambda name: SqliteStore(tmp_path / "x.db"))) == []


def test_a_callers_own_workflow_goes_on_with_no_more_rights_than_it_had() -> None:
    ann = Principal(subject="ann", tenant="acme")
    through = (ToolFacts("order", "1.0.0", annotations={"readOnlyHint": True}),)
    own = Inside(Nobody(principal=ann), {}, facts=ToolFacts("order"), through=through)
    root = Root(MonotonicClock(), Limits(), lambda work, dropped: None, own)
    again = caller_of_run(ann, "order@1.0.0", origin_of(Place(root, 0.0, False)))
    assert isinstance(again, Inside)
    assert again.through == through, "else its steps would be judged as those of the registry's tool of that name"
    assert again.principal == ann
    theirs = Root(MonotonicClock(), Limits(), lambda work, dropped: None, Inside(Nobody(principal=ann), {}))
    assert origin_of(Place(theirs, 0.0, False)) is None
    plain = caller_of_run(ann, "order@1.0.0", None)
    assert isinstance(plain, Inside)
    assert (plain.through, plain.facts) == (None, ToolFacts("order", "1.0.0"))
