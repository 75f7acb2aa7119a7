"""What recovery tells while it looks, the same for sagas and for the runs of workflows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

import pytest

from tests.saga.worlds import Slow, order
from tests.workflows.durable import Town, Weft, workflow
from weft.errors import StoreError
from weft.patterns.saga_record import HEADS
from weft.patterns.workflow_record import WORKFLOWS
from weft.run.recovery import Recovery
from weft.run.workflow_recovery import WorkflowRecovery

pytestmark = pytest.mark.req("STA-44")
KINDS = pytest.mark.parametrize("kind", ["saga", "workflow"])


@pytest.fixture
async def town() -> AsyncGenerator[Town]:
    yield Town()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    while not all(task.done() for task in left):
        for task in left:
            task.cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*left, return_exceptions=True)


def recovery(weft: Weft, kind: str) -> Recovery | WorkflowRecovery:
    """Return what goes on with sagas, or with workflows."""
    return weft.recovery if kind == "saga" else weft.workflows


def refused(reason: str, what: str, number: int) -> StoreError:
    """Return how a store that is away answers."""
    return StoreError("sagas", reason)


async def left_behind(town: Town, kind: str) -> None:
    """Leave a saga or a run without its owner, in its second step."""
    weft = town.weft(order() if kind == "saga" else workflow("reserve", "charge"))
    town.shop.does["charge"] = [Slow(1000)]
    task = asyncio.create_task(weft.call())
    await town.clock.sleep(1)
    weft.kill()
    task.cancel()
    await town.clock.sleep(60)


@KINDS
async def test_a_record_that_cannot_be_read_is_told_of_once_and_why(town: Town, kind: str):
    key = (HEADS if kind == "saga" else WORKFLOWS) + "x"
    await town.store.set(key.replace(kind, f"{kind}-open"), b'{"v": 1}')
    weft = town.weft()
    for _ in range(3):
        assert await recovery(weft, kind).once() == 0
    (told,) = weft.events(f"{kind}_stuck")
    assert told["reason"] == "its record cannot be read: 'status' is missing"


@KINDS
async def test_a_head_that_is_gone_is_told_of_once(town: Town, kind: str):
    await left_behind(town, kind)
    async for key, _ in town.store.scan(HEADS if kind == "saga" else WORKFLOWS):
        await town.store.delete(key)
    weft = town.weft()
    for _ in range(3):
        assert await recovery(weft, kind).once() == 0
    (told,) = weft.events(f"{kind}_stuck")
    assert told["reason"] == "its head is gone from the store"


@KINDS
async def test_a_store_that_is_away_is_told_of_once_for_each_time_whatever_it_says(town: Town, kind: str):
    weft = town.weft()
    one = recovery(weft, kind)
    for _ in range(2):
        for reason in ("connection refused", "no answer within 1 s"):
            weft.store.fault = partial(refused, reason)
            assert await one.once() == 0
        weft.store.fault = None
        assert await one.once() == 0
    assert [told["store"] for told in weft.events("recovery_away")] == [weft.store.name] * 2


@KINDS
@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (b"{}", "the spec it runs by cannot be read: 'place' is missing"),
        (b'{"document": {}}', "the spec it runs by cannot be read: 'place' is missing"),
        (b'{"place": "p", "document": {"tools": 1}}', "the spec it runs by cannot be compiled any more: "),
    ],
)
async def test_a_spec_that_is_damaged_leaves_it_stuck_and_says_why(town: Town, kind: str, spec: bytes, reason: str):
    await left_behind(town, kind)
    async for key, _ in town.store.scan(f"v1|{kind}-spec|"):
        await town.store.set(key, spec)
    weft = town.weft()
    await recovery(weft, kind).once()
    (told,) = weft.events(f"{kind}_stuck")
    assert told["reason"].startswith(reason)


@KINDS
async def test_one_that_could_not_be_read_and_then_can_be_is_told_of_again_when_it_is_stuck(town: Town, kind: str):
    await left_behind(town, kind)
    weft = town.weft()
    ((key, whole),) = [one async for one in town.store.scan(f"v1|{kind}-open|")]
    await town.store.set(key, b"{")
    await recovery(weft, kind).once()
    await town.store.set(key, whole.value)
    async for spec, _ in town.store.scan(f"v1|{kind}-spec|"):
        await town.store.delete(spec)
    await recovery(weft, kind).once()
    first, second = (told["reason"] for told in weft.events(f"{kind}_stuck"))
    assert first.startswith("its record cannot be read: it is not JSON: ")
    assert second == "the spec it runs by is gone from the store"


async def test_a_saga_that_is_stuck_again_after_it_was_retried_is_told_of_again(town: Town):
    await left_behind(town, "saga")
    async for key, _ in town.store.scan("v1|saga-spec|"):
        await town.store.delete(key)
    weft = town.weft()
    await weft.recovery.once()
    assert await weft.recovery.once() == 0
    assert len(weft.events("saga_stuck")) == 1
    await weft.sagas.retry("o1")
    await weft.recovery.once()
    assert len(weft.events("saga_stuck")) == 2
