"""A workflow with a store: it is written as it goes, and whoever shares the store goes on with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

import weft as w
from tests.saga.worlds import Broken, Slow, away
from tests.workflows.durable import Town, workflow
from weft.errors import StoreError, ToolFailed, UpstreamDied, UpstreamUnavailable, WorkflowFailed
from weft.patterns.workflow_durable import DurableRuns
from weft.patterns.workflow_journal import cancel

pytestmark = pytest.mark.req("WFL-14")
THREE = ("reserve", "charge", "ship")
UNDO = {"reserve": {"tool": "release", "parameters": {"it": "{{output.did}}"}}, "charge": {"tool": "refund"}}


@pytest.fixture
async def town() -> AsyncGenerator[Town]:
    yield Town()
    # Whoever was killed waits for ever, also for what it would do when it is told to end.
    left = asyncio.all_tasks() - {asyncio.current_task()}
    while not all(task.done() for task in left):
        for task in left:
            task.cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*left, return_exceptions=True)


async def test_three_steps_cost_four_commits_and_leave_one_record(town: Town):
    weft = town.weft(workflow(*THREE, output={"all": ["{{reserve.did}}", "{{ship.did}}"]}))
    assert await weft.call() == {"all": ["reserve", "ship"]}
    assert weft.store.commits == 4
    assert await town.kept() == ["workflow"]
    record = await town.record()
    assert record.ended
    assert record.state is not None
    assert [step["status"] for step in record.state.steps or []] == ["succeeded"] * 3
    assert record.outcome() == {"all": ["reserve", "ship"]}


async def test_steps_that_end_together_are_written_together(town: Town):
    steps = [{"id": f"s{n}", "tool": "reserve", "parameters": {"n": n}} for n in range(8)]
    weft = town.weft(workflow(*steps, {"id": "last", "tool": "ship", "depends_on": [step["id"] for step in steps]}))
    await weft.call()
    assert weft.store.commits == 3


@pytest.mark.parametrize("commit", [1, 2, 3])
async def test_another_instance_goes_on_where_it_was(town: Town, commit: int):
    await town.killed_after(commit, workflow(*THREE))
    other = town.weft()
    assert await other.workflows.once() == 0
    await town.pass_lease()
    assert await other.workflows.once() == 1
    record = await town.record()
    assert record.state is not None
    assert record.state.status == "succeeded"
    assert sorted(seen.tool for seen in town.shop.effects.values()) == sorted(THREE)
    assert town.shop.called[: commit - 1] == list(THREE[: commit - 1])
    # Only what was under way is issued again, under its key.
    assert all(town.shop.called.count(tool) == 1 for tool in THREE[: commit - 1])
    assert await town.kept() == ["workflow"]


async def test_results_skips_and_failures_of_an_earlier_life_are_known(town: Town):
    town.shop.always["charge"] = ToolFailed("charge", "no money")
    op = workflow(
        {"id": "a", "tool": "reserve", "parameters": {"x": 10**30}},
        {"id": "b", "tool": "charge", "on_error": "continue", "depends_on": ["a"]},
        {"id": "c", "tool": "mail", "when": "false", "depends_on": ["a"]},
        {"id": "d", "tool": "mail", "parameters": {"b": "{{b}}"}},
        {"id": "e", "tool": "ship", "parameters": {"a": "{{a.for.x}}"}, "depends_on": ["c", "a"]},
        {"id": "f", "tool": "recall", "depends_on": ["e"]},
        output={"e": "{{e.for.a}}", "b": "{{b ?? 7}}", "c": "{{c ?? 8}}"},
    )
    town.shop.does["recall"] = [Slow(1000)]
    weft = town.weft(op)
    task = asyncio.create_task(weft.call())
    await town.clock.sleep(1)
    weft.kill()
    task.cancel()
    other = town.weft()
    await town.pass_lease()
    await other.workflows.once()
    record = await town.record()
    assert record.state is not None
    assert record.state.status == "succeeded", "what failed was said to be no loss"
    told = {step["id"]: step["status"] for step in record.state.steps or []}
    assert told == {"a": "succeeded", "b": "failed", "c": "skipped", "d": "skipped", "e": "succeeded", "f": "succeeded"}
    assert record.outcome() == {"e": 10**30, "b": 7, "c": 8}
    assert town.shop.called.count("charge") == town.shop.called.count("ship") == 1


async def test_a_step_that_must_not_be_done_twice_failed_at_the_crash(town: Town):
    once = {"id": "charge", "tool": "charge", "at_most_once": True, "depends_on": ["reserve"]}
    await town.killed_after(
        3, workflow("reserve", once, "ship", error_handling={"failure_strategy": "rollback"}, undo=UNDO)
    )
    await town.pass_lease()
    await town.weft().workflows.once()
    record = await town.record()
    assert record.state is not None
    assert record.state.status == "rolled_back"
    with pytest.raises(WorkflowFailed, match="nobody knows whether it was done") as failed:
        record.outcome()
    assert failed.value.cause["code"] == "OutcomeUnknown"
    assert town.shop.called == ["reserve", "release"]


@pytest.mark.parametrize("commit", range(1, 8))
async def test_a_roll_back_survives_a_crash_too(town: Town, commit: int):
    town.shop.always["ship"] = ToolFailed("ship", "no ship")
    op = workflow(*THREE, error_handling={"failure_strategy": "rollback"}, undo=UNDO)
    # To begin, two steps, to turn back, two undone, the end.
    await town.killed_after(commit, op)
    await town.pass_lease()
    await town.weft().workflows.once()
    assert await town.open() == []
    record = await town.record()
    assert record.state is not None
    assert record.state.status == "rolled_back"
    with pytest.raises(WorkflowFailed, match=r"no ship.*undone: reserve, charge"):
        record.outcome()
    done = [seen.tool for seen in town.shop.effects.values()]
    assert done == ["reserve", "charge", "refund", "release"]
    assert next(seen for seen in town.shop.calls if seen.tool == "release").arguments == {"it": "reserve"}


async def test_the_run_goes_on_without_its_caller(town: Town):
    town.shop.does["charge"] = [Slow(5)]
    weft = town.weft(workflow(*THREE))
    weft.name_runs("run_1")
    task = asyncio.create_task(weft.call())
    await town.clock.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await town.clock.sleep(10)
    assert town.shop.called == list(THREE)
    record = await town.record()
    assert (record.head.id, record.ended) == ("run_1", True)
    assert weft.followed[0].told is not None
    assert weft.followed[0].told.status == "succeeded"


async def test_a_step_may_take_longer_than_the_lease(town: Town):
    town.shop.does["charge"] = [Slow(45)]
    weft, other = town.weft(workflow(*THREE)), town.weft()
    task = asyncio.create_task(weft.call())
    for _ in range(4):
        await town.clock.sleep(10)
        assert await other.workflows.once() == 0
    await task
    assert town.shop.called == list(THREE)


async def test_of_two_that_recover_one_wins(town: Town):
    await town.killed_after(2, workflow(*THREE))
    await town.pass_lease()
    assert sum(await asyncio.gather(*(town.weft().workflows.once() for _ in range(3)))) == 1
    assert [town.shop.called.count(tool) for tool in THREE] == [1, 1, 1]


async def test_a_stopped_owner_does_nothing_more_once_another_has_taken_over(town: Town):
    weft = town.weft(workflow(*THREE))
    town.shop.does["charge"] = [Slow(1)]
    task = asyncio.create_task(weft.call())
    await town.clock.sleep(0.5)
    weft.store.thawed = asyncio.Event()
    await town.pass_lease()
    other = town.weft()
    await other.workflows.once()
    before = list(town.shop.called)
    weft.store.thawed.set()
    weft.store.thawed = None
    result = await task
    assert town.shop.called == before, "it learnt in time that the run is another's"
    assert result["ship"]["did"] == "ship", "its caller learns how the run ended"


async def test_a_retry_around_it_joins_the_run_of_its_first_attempt(town: Town):
    inner = workflow(*THREE)
    town.shop.does["charge"] = [Slow(8)]
    weft = town.weft()
    weft.load(w.retry(w.timeout(w.tool("flow"), w.seconds(5)), 3, retry_unknown=True, backoff=w.fixed(1)), flow=inner)
    result = await weft.call()
    assert result["charge"]["did"] == "charge"
    assert town.shop.called == list(THREE)


@pytest.mark.parametrize("strategy", ["fail_fast", "rollback"])
async def test_anybody_who_shares_the_store_cancels_a_run(town: Town, strategy: str):
    town.shop.does["charge"] = [Slow(50)]
    weft = town.weft(workflow(*THREE, error_handling={"failure_strategy": strategy}, undo=UNDO))
    task = asyncio.create_task(weft.call())
    await town.clock.sleep(1)
    record = await town.record()
    assert await cancel(town.store, record.key)
    assert await cancel(town.store, record.key), "once is enough"
    await town.clock.sleep(4)
    assert task.done(), "after a third of the lease it is seen"
    with pytest.raises(WorkflowFailed, match="was cancelled") as failed:
        await task
    assert failed.value.code == "WorkflowCancelled"
    record = await town.record()
    assert record.state is not None
    assert record.state.status == ("rolled_back" if strategy == "rollback" else "cancelled")
    assert town.shop.called == ["reserve", "charge", *(["release"] if strategy == "rollback" else [])]
    assert not await cancel(town.store, record.key)


async def test_it_is_seen_at_the_next_writing(town: Town):
    began = town.clock.now()
    town.shop.does["charge"] = [Slow(2)]
    weft = town.weft(workflow(*THREE))
    task = asyncio.create_task(weft.call())
    await town.clock.sleep(1)
    assert await cancel(town.store, (await town.record()).key)
    with pytest.raises(WorkflowFailed):
        await task
    assert town.clock.now() == began + 2
    assert town.shop.called == ["reserve", "charge"]


async def test_a_run_without_an_owner_is_cancelled_by_whoever_takes_it_over(town: Town):
    await town.killed_after(2, workflow(*THREE))
    assert await cancel(town.store, (await town.record()).key)
    await town.pass_lease()
    await town.weft().workflows.once()
    record = await town.record()
    assert record.state is not None
    assert (record.state.status, record.ended) == ("cancelled", True)
    assert town.shop.called == ["reserve"]
    assert await town.kept() == ["workflow"]


async def test_a_run_whose_spec_is_gone_is_stuck_until_it_is_cancelled(town: Town):
    await town.killed_after(2, workflow(*THREE))
    async for key, _ in town.store.scan("v1|workflow-spec|"):
        await town.store.delete(key)
    await town.pass_lease()
    other = town.weft()
    await other.workflows.once()
    assert other.events("workflow_stuck")[0]["reason"] == "the spec it runs by is gone from the store"
    await town.pass_lease()
    assert await other.workflows.once() == 0
    record = await town.record()
    await cancel(town.store, record.key)
    assert await other.workflows.once() == 1
    record = await town.record()
    assert record.state is not None
    assert record.state.status == "cancelled"
    assert await town.kept() == ["workflow"]


async def test_it_goes_by_what_it_began_with_and_is_not_taken_over_for_ever(town: Town):
    await town.killed_after(2, workflow(*THREE))
    for _ in range(10):
        await town.pass_lease()
        other = town.weft(workflow("mail"))
        town.shop.does["charge"] = [Slow(1000)]
        task = asyncio.create_task(other.workflows.once())
        await town.clock.sleep(1)
        other.kill()
        task.cancel()
    await town.pass_lease()
    last = town.weft()
    await last.workflows.once()
    assert last.events("workflow_stuck")[0]["reason"] == "it was taken over 10 times and came no further"
    assert town.shop.called == ["reserve", *["charge"] * 10]
    assert len({seen.key for seen in town.shop.calls}) == 2
    assert [seen.attempt for seen in town.shop.calls][1:] == [*range(2, 12)]


async def test_a_store_that_is_away_stops_the_run_before_the_next_step(town: Town):
    weft = town.weft(workflow(*THREE))

    def fault(what: str, count: int) -> StoreError | None:
        return away() if weft.store.commits > 1 else None

    weft.store.fault = fault
    with pytest.raises(StoreError, match="goes on when the store is back"):
        await weft.call()
    assert town.shop.called == ["reserve"]
    weft.store.fault = None
    await town.pass_lease()
    assert await weft.workflows.once() == 1
    assert town.shop.called == ["reserve", "reserve", "charge", "ship"]
    assert len(town.shop.effects) == 3


@pytest.mark.parametrize("lost", range(4))
async def test_an_answer_that_never_came_is_not_taken_for_somebody_else(town: Town, lost: int):
    weft = town.weft(workflow(*THREE))
    inner, count = weft.store.inner.batch, 0

    async def batch(changes: Any) -> Any:
        nonlocal count
        done = await inner(changes)
        count += 1
        if count == lost + 1:
            raise away(sent=True)
        return done

    weft.store.inner.batch = batch
    await weft.call()
    assert town.shop.called == list(THREE)
    assert await town.kept() == ["workflow"]


async def test_an_emptied_store_is_noticed(town: Town):
    town.shop.does["charge"] = [Slow(5)]
    weft = town.weft(workflow(*THREE))
    task = asyncio.create_task(weft.call())
    await town.clock.sleep(1)
    async for key, _ in town.store.scan("v1|"):
        await town.store.delete(key)
    with pytest.raises(Exception, match="is gone from the store"):
        await task
    assert "ship" not in town.shop.called


async def test_items_of_a_list_have_keys_of_their_own(town: Town):
    each = {"id": "each", "tool": "reserve", "for_each": "{{input.list}}", "parameters": {"item": "{{item}}"}}
    town.shop.does["ship"] = [Broken(UpstreamDied("it", "gone")), None]
    weft = town.weft(workflow({**each, "undo": {"tool": "release", "parameters": {"n": "{{index}}"}}}, "ship"))
    town.shop.does["reserve"] = [None, None, Slow(1000)]
    task = asyncio.create_task(weft.call({"id": 1, "list": [5, 5, 6]}))
    await town.clock.sleep(1)
    weft.kill()
    task.cancel()
    town.shop.does.clear()
    await town.pass_lease()
    await town.weft().workflows.once()
    assert len({seen.key for seen in town.shop.calls if seen.tool == "reserve"}) == 3
    assert town.shop.called.count("reserve") == 6
    record = await town.record()
    assert [one["for"]["item"] for one in record.outcome()["each"]] == [5, 5, 6]


async def test_in_a_run_that_was_taken_over_nobody_can_be_asked(town: Town):
    ask = {"id": "ask", "elicit": {"message": "Sure?", "schema": {"type": "object"}}, "depends_on": ["reserve"]}
    await town.killed_after(2, workflow("reserve", ask, "ship"))
    await town.pass_lease()
    await town.weft().workflows.once()
    with pytest.raises(WorkflowFailed, match="asks a person") as failed:
        (await town.record()).outcome()
    assert failed.value.cause["code"] == "CannotAsk"


async def test_the_time_of_a_run_counts_from_its_beginning(town: Town):
    await town.killed_after(2, workflow(*THREE, timeout_ms=5000))
    await town.pass_lease()
    await town.weft().workflows.once()
    with pytest.raises(WorkflowFailed, match="Workflow timeout"):
        (await town.record()).outcome()
    assert town.shop.called == ["reserve"]


async def test_who_takes_a_run_over_knows_where_it_came_from(town: Town):
    weft = town.weft(workflow(*THREE), 2)
    weft.watch.origin = lambda call: {"through": type(call.root.context).__name__}
    task = asyncio.create_task(weft.call())
    await weft.store.died.wait()
    task.cancel()
    await town.pass_lease()
    other = town.weft()
    await other.workflows.once()
    assert other.origins == [{"through": "Customer"}]


async def test_what_a_list_did_in_part_is_undone_after_a_crash_too(town: Town):
    each = {"id": "each", "tool": "reserve", "for_each": "{{input.list}}", "parameters": {"item": "{{item}}"}}
    undo = {"tool": "release", "parameters": {"item": "{{item}}", "n": "{{index}}"}}
    each |= {"undo": undo, "depends_on": ["charge"], "for_each": {"items": "{{input.list}}", "max_concurrency": 1}}
    town.shop.does["reserve"] = [None, None, ToolFailed("reserve", "no")]
    rolls = {"error_handling": {"failure_strategy": "rollback"}, "undo": {"charge": {"tool": "refund"}}}
    # To begin, the charge, to turn back.
    weft = town.weft(workflow("charge", each, **rolls), 3)
    task = asyncio.create_task(weft.call({"id": 1, "list": ["a", "b", "c"]}))
    await weft.store.died.wait()
    task.cancel()
    await town.pass_lease()
    await town.weft().workflows.once()
    undone = [seen.arguments for seen in town.shop.calls if seen.tool == "release"]
    assert undone == [{"item": "b", "n": 1}, {"item": "a", "n": 0}]
    assert town.shop.called[-1] == "refund"
    record = await town.record()
    assert record.state is not None
    assert record.state.status == "rolled_back"


async def test_who_takes_a_run_over_tells_its_follower(town: Town):
    weft = town.weft(workflow(*THREE))
    weft.name_runs("run_7")
    town.shop.does["charge"] = [Slow(1000)]
    task = asyncio.create_task(weft.call())
    await town.clock.sleep(1)
    weft.kill()
    task.cancel()
    await town.pass_lease()
    other = town.weft()
    await other.workflows.once()
    following = other.followed[0]
    assert following.run_id == "run_7"
    assert following.steps == [(tool, how) for tool in THREE[1:] for how in ("running", "succeeded")]
    assert following.told is not None
    assert [step.status for step in following.told.steps] == ["succeeded"] * 3
    assert following.told.duration > 10


async def test_it_waits_for_a_server_that_is_away_and_may_come_back(town: Town):
    await town.killed_after(2, workflow(*THREE))
    await town.pass_lease()
    town.shop.does["charge"] = [UpstreamUnavailable("it", "refused")] * 2
    other = town.weft()
    other.away = UpstreamUnavailable
    for _ in range(2):
        assert await other.workflows.once() == 0
        await town.pass_lease()
    assert len(other.events("workflow_waiting")) == 1
    assert await other.workflows.once() == 1
    assert (await town.record()).outcome()["ship"]["did"] == "ship"


async def test_what_is_too_large_for_a_store_fails_its_step(town: Town):
    town.shop.does["charge"] = [None]
    large = {"id": "large", "tool": "charge", "parameters": {"x": "{{input.id}}", "y": "{{input.id}}"}}
    undo = {"charge": {"tool": "refund"}}
    weft = town.weft(workflow("reserve", large, error_handling={"failure_strategy": "rollback"}, undo=undo))
    with pytest.raises(WorkflowFailed, match="claim check"):
        await weft.call({"id": "x" * 500_000})
    assert "refund" in town.shop.called, "it was done, and is undone"


async def test_a_result_that_is_too_large_is_given_and_not_kept(town: Town):
    copy = {"id": "copy", "tool": "charge", "parameters": {"x": "{{input.id}}"}, "depends_on": ["reserve"]}
    weft = town.weft(workflow("reserve", copy))
    result = await weft.call({"id": "x" * 600_000})
    assert len(result["copy"]["for"]["x"]) == 600_000
    record = await town.record()
    with pytest.raises(Exception, match="too large to be kept"):
        record.outcome()


async def test_a_sibling_that_was_only_being_written_counts_as_done(town: Town):
    steps = [{"id": "a", "tool": "reserve"}, {"id": "b", "tool": "charge"}, {"id": "c", "tool": "ship"}]
    town.shop.does["ship"] = [ToolFailed("ship", "no")]
    weft = town.weft(workflow(*steps, error_handling={"failure_strategy": "rollback"}, undo=UNDO))
    with pytest.raises(WorkflowFailed) as failed:
        await weft.call()
    assert [step["status"] for step in failed.value.workflow["steps"]] == ["undone", "undone", "failed"]


@pytest.mark.parametrize("applied", [True, False])
async def test_one_who_is_cancelled_while_it_is_written_was_done_and_keeps_nobody_from_writing(
    town: Town, applied: bool
):
    steps = [{"id": "a", "tool": "reserve"}, {"id": "c", "tool": "ship"}]
    town.shop.does["ship"] = [Slow(50)]
    given = {"error_handling": {"failure_strategy": "rollback"}, "timeout_ms": 2000}
    weft = town.weft(workflow(*steps, **given, undo=UNDO))
    inner = weft.store.inner.batch
    slow = 2

    async def batch(changes: Any) -> Any:
        nonlocal slow
        slow -= 1
        if slow:
            return await inner(changes)
        # The first step that ended takes long to write, and is cancelled meanwhile.
        if applied:
            await inner(changes)
        await town.clock.sleep(5)
        return await inner(changes)

    weft.store.inner.batch = batch
    with pytest.raises(WorkflowFailed, match="Workflow timeout"):
        await weft.call()
    assert town.shop.called.count("release") == 1
    record = await town.record()
    assert record.state is not None
    assert record.state.status == "rolled_back"
    assert await town.kept() == ["workflow"]


async def test_what_was_done_is_written_before_the_run_is_handed_over(town: Town):
    weft = town.weft(workflow(*THREE))
    inner, slow = weft.store.inner.batch, 2

    async def batch(changes: Any) -> Any:
        nonlocal slow
        slow -= 1
        if not slow:
            await town.clock.sleep(5)
        return await inner(changes)

    weft.store.inner.batch = batch
    task = asyncio.create_task(weft.call())
    await town.clock.sleep(1)
    (live,) = weft.kept.of(DurableRuns).live.values()
    live.task.cancel()
    with pytest.raises(Exception, match="goes on elsewhere"):
        await task
    assert await town.weft().workflows.once() == 1, "it was let go at once"
    assert town.shop.called == list(THREE)


async def test_a_thousand_steps_are_written_without_writing_all_of_them_each_time(town: Town):
    sizes: list[int] = []
    steps = [{"id": f"s{n}", "tool": "reserve", "depends_on": [f"s{n - 1}"] if n else []} for n in range(300)]
    weft = town.weft(workflow(*steps))
    inner = weft.store.inner.batch

    async def batch(changes: Any) -> Any:
        sizes.append(sum(len(getattr(change, "value", b"")) for change in changes))
        return await inner(changes)

    weft.store.inner.batch = batch
    await weft.call({"id": 1}, timeout=100)
    assert max(sizes[1:-1]) < 2 * min(sizes[1:-1])
    assert await town.kept() == ["workflow"]
