"""Requests that are made twice are carried out once (SEMANTICS 1.1, by number)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from typing import Any

import pytest

import weft as w
from tests.patterns.gateways import FaultyStore, caller, cancelled, gateway, outcome
from tests.patterns.worlds import problems
from weft.errors import DocumentInvalid, ExecutionFailed, InputError, StoreError, TimedOut, ToolFailed, WeftError
from weft.plan.compiler import check, compile_document
from weft.ports import ToolType
from weft.run.engine import Engine
from weft.stores.memory import MemoryStore
from weft.testing import FakeClock, FakeWorld, Late, down, refusal

P = w.path({})
PAY = w.tool("pay")
ORDER = {"order": 7, "amount": 25}
SAFE = {"pay": ToolType(annotations={"idempotentHint": True})}


def once(**given: Any) -> Any:
    return w.idempotent(PAY, key=P.order, **given)


def paid(world: FakeWorld) -> int:
    """Return how often the tool was called."""
    return sum(tool == "pay" for tool, _ in world.calls)


async def records(world: FakeWorld) -> list[bytes]:
    """Return what the store keeps."""
    return [stored.value async for _, stored in world.store().scan("")]


@pytest.mark.req("STA-5", "STA-6", "STA-8")
async def test_idempotent_01_a_hundred_at_once_are_carried_out_once():
    world = FakeWorld(tools={"pay": Late({"paid": 25}, 1)})
    engine = gateway(world, once())
    results = await asyncio.gather(*(engine.run("it", ORDER) for _ in range(100)))
    assert [result.value for result in results] == [{"paid": 25}] * 100
    assert paid(world) == 1
    assert len({id(result.value) for result in results}) == 100, "nobody can change what another one got"
    roles = [result.trace.root.notes["idempotent"] for result in results if result.trace and result.trace.root.notes]
    assert sorted(roles) == ["follower"] * 99 + ["leader"]


async def test_idempotent_02_two_gateways_on_one_store_carry_out_one():
    world = FakeWorld(tools={"pay": Late("done", 1)})
    engines = [gateway(world, once()) for _ in range(2)]
    calls = [engine.run("it", ORDER) for engine in engines for _ in range(20)]
    assert {result.value for result in await asyncio.gather(*calls)} == {"done"}
    assert paid(world) == 1


@pytest.mark.req("STA-8", "STA-9")
@pytest.mark.parametrize("gateways", [1, 2])
async def test_idempotent_03_a_duplicate_in_flight_is_an_error_that_names_the_hash_of_the_key(gateways: int):
    world = FakeWorld(tools={"pay": Late("done", 5)})
    engines = [gateway(world, once(on_duplicate="error")) for _ in range(gateways)]
    first = asyncio.create_task(engines[0].execute("it", {"order": "secret-order"}))
    await asyncio.sleep(0)
    error = await outcome(engines[-1].execute("it", {"order": "secret-order"}))
    assert isinstance(error, ExecutionFailed)
    assert (error.code, error.retryable, error.origin) == ("DuplicateRequest", "no", "caller")
    assert error.message.startswith("Duplicate request detected (key: ")
    assert error.message.endswith("). Policy: error")
    assert "secret" not in error.message
    assert await first == "done"
    assert paid(world) == 1
    again = await outcome(engines[-1].execute("it", {"order": "secret-order"}))
    assert isinstance(again, ExecutionFailed)
    assert again.code == "DuplicateRequest"


@pytest.mark.req("STA-8")
@pytest.mark.parametrize("gateways", [1, 2])
async def test_idempotent_04_a_duplicate_that_is_skipped_gets_null_at_once(gateways: int):
    world = FakeWorld(tools={"pay": Late("done", 5)})
    engines = [gateway(world, once(on_duplicate="skip")) for _ in range(gateways)]
    before = world.clock.now()
    first = asyncio.create_task(engines[0].execute("it", ORDER))
    await asyncio.sleep(0)
    assert await engines[-1].execute("it", ORDER) is None
    assert world.clock.now() == before
    assert await first == "done"
    assert await engines[-1].execute("it", ORDER) is None
    assert paid(world) == 1


async def test_idempotent_05_after_a_failure_that_may_pass_the_next_request_is_carried_out():
    world = FakeWorld(tools={"pay": [down(), "done"]})
    engine = gateway(world, once())
    error = await outcome(engine.execute("it", ORDER))
    assert isinstance(error, WeftError)
    assert error.code == "UpstreamUnavailable"
    assert await records(world) == []
    assert await engine.execute("it", ORDER) == "done"


async def test_followers_of_a_failure_that_may_pass_get_it_too_and_none_tries_by_itself():
    world = FakeWorld(tools={"pay": [Late(down(), 1), "done"]})
    engine = gateway(world, once())
    errors = await asyncio.gather(*(outcome(engine.run("it", ORDER)) for _ in range(5)))
    assert {error.code for error in errors} == {"UpstreamUnavailable"}
    assert len({id(error) for error in errors}) == 5
    assert paid(world) == 1


async def test_idempotent_06_a_failure_that_is_an_answer_is_replayed_with_its_code_and_content():
    world = FakeWorld(tools={"pay": refusal([{"type": "text", "text": "card expired"}])})
    engine = gateway(world, once())
    first, second = [await outcome(engine.execute("it", ORDER)) for _ in range(2)]
    assert isinstance(first, ToolFailed)
    assert isinstance(second, ToolFailed)
    assert second is not first
    assert (second.code, second.content, second.tool) == (first.code, first.content, first.tool)
    assert second.to_json() == first.to_json()
    assert paid(world) == 1


@pytest.mark.parametrize(
    ("records_failures", "answer", "calls"),
    [
        ("none", refusal("no"), 2),
        ("deterministic", refusal("no"), 1),
        ("all", refusal("no"), 1),
        ("none", down(), 2),
        ("deterministic", down(), 2),
        ("all", down(), 1),
        ("all", ExecutionFailed("not for you", code="StepDenied"), 1),
        ("deterministic", ExecutionFailed("not for you", code="StepDenied"), 2),
    ],
)
async def test_which_failures_are_recorded(records_failures: Any, answer: Exception, calls: int):
    world = FakeWorld(tools={"pay": answer})
    engine = gateway(world, once(record_failures=records_failures))
    errors = [await outcome(engine.execute("it", ORDER)) for _ in range(2)]
    assert [error.code for error in errors] == [getattr(answer, "code", "")] * 2
    assert paid(world) == calls


@pytest.mark.parametrize(
    ("answer", "code"), [(down(), "RetriesExhausted"), (TimedOut("late"), "OutcomeUnknown")], ids=["passing", "unknown"]
)
async def test_attempts_that_all_failed_count_as_what_they_failed_with(answer: Exception, code: str):
    world = FakeWorld(tools={"pay": answer})
    attempts = w.retry(PAY, 2, backoff=w.fixed(0), retry_unknown=True)
    engine = gateway(world, w.idempotent(attempts, key=P.order))
    assert (await outcome(engine.execute("it", ORDER))).code == "RetriesExhausted"
    assert (await outcome(engine.execute("it", ORDER))).code == code


def late_answer() -> TimedOut:
    return TimedOut("Timeout after 1000ms")


async def test_idempotent_07_after_an_unknown_outcome_the_default_is_an_error_that_says_so():
    world = FakeWorld(tools={"pay": [late_answer(), "done"]})
    engine = gateway(world, once())
    assert isinstance(await outcome(engine.execute("it", ORDER)), TimedOut)
    error = await outcome(engine.execute("it", ORDER))
    assert isinstance(error, ExecutionFailed)
    assert (error.code, error.retryable) == ("OutcomeUnknown", "no")
    assert "outcome of an earlier request is unknown" in error.message
    assert paid(world) == 1


@pytest.mark.parametrize(("given", "types"), [({"on_unknown": "retry"}, {}), ({}, SAFE)], ids=["told", "hinted"])
async def test_idempotent_07_a_request_that_may_be_repeated_is_carried_out_again(given: Any, types: Any):
    world = FakeWorld(tools={"pay": [late_answer(), "done"]}, types=types)
    engine = gateway(world, once(**given))
    await outcome(engine.execute("it", ORDER))
    assert await engine.execute("it", ORDER) == "done"
    assert world.signals.counts["idempotent_takeovers"] == 1


async def test_idempotent_07_a_deadline_that_passes_while_the_tool_works_is_an_unknown_outcome():
    world = FakeWorld(tools={"pay": Late("done", 50)})
    engine = gateway(world, once())
    error = await outcome(engine.run("it", ORDER, timeout=2))
    assert error.code == "DeadlineExceeded"
    await engine.close()
    assert (await outcome(gateway(world, once()).execute("it", ORDER))).code == "OutcomeUnknown"


class Twins:
    """Two worlds with one store and one clock; the first one gets to it through a store that can stand still."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(clock=self.clock)
        self.front = FaultyStore(self.store)

    def make(self, first: Any, second: Any) -> tuple[FakeWorld, FakeWorld, FaultyStore]:
        """Return both worlds, each with its answer of the tool."""
        one = FakeWorld(tools={"pay": first}, clock=self.clock, stores={"default": self.front})
        return one, FakeWorld(tools={"pay": second}, clock=self.clock, stores={"default": self.store}), self.front


@pytest.fixture
async def twins() -> AsyncGenerator[Twins]:
    made = Twins()
    yield made
    made.front.go_on()


async def begun(world: FakeWorld, op: Any) -> asyncio.Task[Any]:
    """Return a call of a gateway of its own, whose tool has been called."""
    task = asyncio.create_task(gateway(world, op).execute("it", ORDER))
    for _ in range(20):
        await asyncio.sleep(0)
    assert paid(world) == 1
    return task


async def test_idempotent_08_when_an_owner_dies_duplicates_wait_for_its_lease_and_one_takes_over(twins: Twins):
    dead, world, front = twins.make(Late("lost", 1000), Late("done", 1))
    op = once(on_unknown="retry", lease=10)
    crashed = await begun(dead, op)
    front.stop()
    before = world.clock.now()
    early = await outcome(gateway(world, op).run("it", ORDER, timeout=5))
    assert early.code == "DuplicateInFlight"
    engines = [gateway(world, op) for _ in range(2)]
    results = await asyncio.gather(*(engine.execute("it", ORDER) for engine in engines for _ in range(3)))
    assert results == ["done"] * 6
    assert paid(world) == 1
    assert world.signals.counts["idempotent_takeovers"] == 1
    assert 11 <= world.clock.now() - before < 14
    crashed.cancel()


async def test_idempotent_08_a_request_that_may_not_be_repeated_is_not_taken_over(twins: Twins):
    dead, world, front = twins.make(Late("lost", 1000), "done")
    crashed = await begun(dead, once(lease=10))
    front.stop()
    error = await outcome(gateway(world, once(lease=10)).execute("it", ORDER))
    assert error.code == "OutcomeUnknown"
    assert world.calls == []
    crashed.cancel()


async def test_idempotent_09_an_owner_that_wakes_after_a_takeover_cannot_write(twins: Twins):
    paused, world, front = twins.make(Late("first", 1), "second")
    op = once(on_unknown="retry", lease=10)
    owner = await begun(paused, op)
    front.stop()
    assert await gateway(world, op).execute("it", ORDER) == "second"
    front.go_on()
    assert await owner == "first", "its own caller gets what it did"
    assert paused.signals.counts["fenced_write"] == 1
    assert await gateway(world, op).execute("it", ORDER) == "second"
    assert (paid(paused), paid(world)) == (1, 1)


async def test_a_follower_of_an_owner_that_was_taken_over_gets_what_is_recorded(twins: Twins):
    paused, world, front = twins.make(Late("first", 1), "second")
    op = once(on_unknown="retry", lease=10)
    engine = gateway(paused, op)
    owner = asyncio.create_task(engine.execute("it", ORDER))
    for _ in range(20):
        await asyncio.sleep(0)
    front.stop()
    assert await gateway(world, op).execute("it", ORDER) == "second"
    follower = asyncio.create_task(engine.execute("it", ORDER))
    await asyncio.sleep(0)
    front.go_on()
    assert (await owner, await follower) == ("first", "second")


async def test_an_owner_that_wakes_when_nobody_took_over_records_its_result(twins: Twins):
    paused, world, front = twins.make(Late("first", 1), "second")
    owner = await begun(paused, once(lease=10))
    front.stop()
    assert (await outcome(gateway(world, once(lease=10)).execute("it", ORDER))).code == "OutcomeUnknown"
    front.go_on()
    assert await owner == "first"
    assert await gateway(world, once(lease=10)).execute("it", ORDER) == "first"
    assert paused.signals.counts["fenced_write"] == 0


async def test_idempotent_10_the_same_key_with_another_payload_is_refused():
    world = FakeWorld(tools={"pay": Late("done", 5)})
    engines = [gateway(world, once()) for _ in range(2)]
    first = asyncio.create_task(engines[0].execute("it", {"order": 7, "amount": 25}))
    await asyncio.sleep(0)
    for engine in engines:
        error = await outcome(engine.execute("it", {"order": 7, "amount": 26}))
        assert (error.code, error.origin) == ("IdempotencyKeyReused", "caller")
    assert await first == "done"
    assert (await outcome(engines[1].execute("it", {"order": 7, "amount": 26}))).code == "IdempotencyKeyReused"
    assert paid(world) == 1


async def test_only_the_paths_of_the_fingerprint_must_be_the_same():
    world = FakeWorld(tools={"pay": "done"})
    engine = gateway(world, once(fingerprint=[P.amount, P.currency]))
    assert await engine.execute("it", {"order": 7, "amount": 25, "sent_at": 1}) == "done"
    assert await engine.execute("it", {"order": 7, "amount": 25, "sent_at": 2}) == "done"
    assert paid(world) == 1
    error = await outcome(engine.execute("it", {"order": 7, "amount": 25, "currency": None}))
    assert error.code == "IdempotencyKeyReused", "null is not the same as nothing"


@pytest.mark.parametrize(
    ("scope", "calls"), [("caller", 3), ("tenant", 2), ("public", 1)], ids=["caller", "tenant", "public"]
)
async def test_idempotent_11_tenants_and_callers_have_keys_of_their_own(scope: Any, calls: int):
    world = FakeWorld(tools={"pay": lambda _: {"number": len(world.calls)}})
    engine = gateway(world, once(scope=scope))
    whos = [caller("ann", "acme"), caller("bob", "acme"), caller("ann", "other")]
    first = [(await engine.run("it", ORDER, caller=who)).value for who in whos]
    second = [(await engine.run("it", ORDER, caller=who)).value for who in whos]
    assert first == second
    assert paid(world) == calls


@pytest.mark.req("STA-7")
@pytest.mark.parametrize(("ttl", "calls"), [(60, 2), (0, 1), (None, 1)])
async def test_idempotent_12_after_its_ttl_a_request_is_carried_out_again(ttl: Any, calls: int):
    world = FakeWorld(tools={"pay": "done"})
    engine = gateway(world, once(ttl=ttl))
    await engine.execute("it", ORDER)
    world.clock.time += 59.9
    await engine.execute("it", ORDER)
    assert paid(world) == 1
    world.clock.time += 0.1
    await engine.execute("it", ORDER)
    world.clock.time += 1e6
    await engine.execute("it", ORDER)
    assert paid(world) == (calls if ttl is None or ttl == 0 else 3)


@pytest.mark.parametrize("ttl", [w.millis(400), 0.4, "400ms", -1, float("nan"), 2**32])
def test_idempotent_12_a_ttl_that_is_none_is_refused(ttl: Any):
    with pytest.raises((DocumentInvalid, InputError)):
        once(ttl=ttl)


@pytest.mark.parametrize("ttl", [-1, "60", 2**32, 0.4, True, [1]])
def test_a_ttl_that_is_none_is_a_problem_at_its_place(ttl: Any):
    (found,) = problems({"idempotent": {"keyPaths": ["$.id"], "inner": "pay", "ttlSeconds": ttl}})
    assert found.pointer.endswith("/idempotent/ttlSeconds")


KEYS: list[tuple[Any, Any, bool]] = [
    (1, "1", False),
    (1, 1.0, True),
    (1, True, False),
    (None, "null", False),
    (None, 0, False),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ([1, 2], [2, 1], False),
    ("é", "e\u0301", False),
]


@pytest.mark.parametrize(("one", "other", "same"), KEYS)
async def test_idempotent_13_keys_are_told_apart_by_type_and_value(one: Any, other: Any, same: bool):
    world = FakeWorld(tools={"pay": "done"})
    engine = gateway(world, once(fingerprint=P.nothing))
    await engine.execute("it", {"order": one})
    await engine.execute("it", {"order": other})
    assert paid(world) == (1 if same else 2)


async def test_idempotent_13_several_values_do_not_run_together():
    world = FakeWorld(tools={"pay": "done"})
    engine = gateway(world, w.idempotent(PAY, key=[P.a, P.b], fingerprint=P.nothing))
    for a, b in [("a", "b"), ("ab", ""), ("", "ab"), ('a","b', "")]:
        await engine.execute("it", {"a": a, "b": b})
    assert paid(world) == 4


@pytest.mark.parametrize(
    ("given", "code"), [({}, "KeyPathMissing"), ({"order": math.nan}, "NotJson")], ids=["missing", "NaN"]
)
async def test_idempotent_13_without_a_key_nothing_is_carried_out(given: Any, code: str):
    world = FakeWorld(tools={"pay": "done"})
    error = await outcome(gateway(world, once()).execute("it", given))
    assert error.code == code
    assert ("nothing at $.order, which" in error.message) is (code == "KeyPathMissing")
    assert world.calls == []


async def test_idempotent_14_when_the_first_caller_leaves_the_work_goes_on_for_those_who_wait():
    world = FakeWorld(tools={"pay": Late("done", 5)})
    engine = gateway(world, once())
    first = asyncio.create_task(engine.execute("it", ORDER))
    second = asyncio.create_task(engine.execute("it", ORDER))
    await asyncio.sleep(0)
    await cancelled(first)
    assert await second == "done"
    assert paid(world) == 1
    assert await engine.execute("it", ORDER) == "done"


async def test_idempotent_14_when_nobody_waits_the_work_is_cancelled_and_its_outcome_unknown():
    seen: list[str] = []

    async def pay(_: Any) -> str:
        try:
            await world.clock.sleep(5)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return "done"

    world = FakeWorld(tools={"pay": pay})
    engine = gateway(world, once())
    first = asyncio.create_task(engine.execute("it", ORDER))
    for _ in range(5):
        await asyncio.sleep(0)
    await cancelled(first)
    await engine.close()
    assert seen == ["cancelled"]
    assert (await outcome(engine.execute("it", ORDER))).code == "OutcomeUnknown"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_caller_that_leaves_while_the_key_is_claimed_leaves_no_record():
    class Slow(FaultyStore):
        async def put_if_absent(self, key: str, value: bytes, *, ttl: float | None = None) -> int | None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return await super().put_if_absent(key, value, ttl=ttl)

    world = FakeWorld(tools={"pay": "done"}, stores={"default": Slow(MemoryStore())})
    engine = gateway(world, once())
    first = asyncio.create_task(engine.execute("it", ORDER))
    await asyncio.sleep(0)
    await cancelled(first)
    await engine.close()
    assert world.calls == []
    assert await records(world) == []
    assert await engine.execute("it", ORDER) == "done"


@pytest.mark.parametrize("result", ["x" * 3000, math.nan], ids=["large", "not JSON"])
async def test_idempotent_15_a_result_that_cannot_be_kept_is_given_once_and_never_made_again(result: Any):
    world = FakeWorld(tools={"pay": result})
    engine = gateway(world, once(max_stored_bytes=2000))
    assert await engine.execute("it", ORDER) is result
    assert b"RESULT_TOO_LARGE" in (await records(world))[0]
    error = await outcome(engine.execute("it", ORDER))
    assert (error.code, error.retryable) == ("ResultTooLarge", "no")
    assert paid(world) == 1


async def test_idempotent_15_a_store_that_takes_less_counts_too():
    world = FakeWorld(tools={"pay": "x" * 3000}, stores={"default": FaultyStore(MemoryStore(max_value=1000))})
    engine = gateway(world, once())
    assert len(await engine.execute("it", ORDER)) == 3000
    assert (await outcome(engine.execute("it", ORDER))).code == "ResultTooLarge"


async def test_idempotent_16_a_store_that_is_down_before_stops_the_request():
    store = FaultyStore(MemoryStore())
    store.down = {"put_if_absent"}
    world = FakeWorld(tools={"pay": "done"}, stores={"default": store})
    engine = gateway(world, once())
    error = await outcome(engine.execute("it", ORDER))
    assert isinstance(error, StoreError)
    assert (error.code, error.retryable) == ("StoreUnavailable", "yes")
    assert world.calls == []
    store.down = set()
    assert await engine.execute("it", ORDER) == "done"


async def test_idempotent_16_a_store_that_is_down_after_costs_a_warning_and_no_second_execution():
    store = FaultyStore(MemoryStore())
    world = FakeWorld(tools={"pay": Late("done", 1)}, stores={"default": store})
    engine = gateway(world, once(in_flight_wait=w.seconds(2)))
    first = asyncio.create_task(engine.run("it", ORDER))
    for _ in range(3):
        await asyncio.sleep(0)
    store.down = {"cas"}
    result = await first
    assert result.value == "done"
    assert result.warnings[0].startswith("What came of the request could not be recorded")
    error = await outcome(engine.execute("it", ORDER))
    assert (error.code, error.retryable) == ("DuplicateInFlight", "yes")
    assert error.retry_after
    store.down = set()
    await engine.close(drain=100)
    assert await engine.execute("it", ORDER) == "done", "what could not be recorded then is recorded later"
    assert paid(world) == 1


@pytest.mark.parametrize("lost", ["put_if_absent", "cas"])
async def test_a_writing_whose_answer_is_lost_counts_as_made(lost: str):
    store = FaultyStore(MemoryStore())
    store.lost = {lost}
    world = FakeWorld(tools={"pay": "done"}, stores={"default": store})
    engine = gateway(world, once())
    assert await engine.execute("it", ORDER) == "done"
    await engine.close(drain=100)
    store.lost = set()
    assert await engine.execute("it", ORDER) == "done"
    assert paid(world) == 1
    assert world.signals.counts["fenced_write"] == 0


async def test_idempotent_17_another_version_or_spec_has_keys_of_its_own():
    world = FakeWorld(tools={"pay": "done"})
    for version, ttl in [("1.0.0", 60), ("1.0.0", 61), ("2.0.0", 61)]:
        made = w.composition("it", "It.", once(ttl=ttl), version=version)
        assert await world.engine(w.compile(made).document).execute("it", ORDER) == "done"
    assert paid(world) == 3


async def test_a_follower_waits_no_longer_than_it_may_and_is_told_when_to_come_back():
    world = FakeWorld(tools={"pay": Late("done", 50)})
    engines = [gateway(world, once(in_flight_wait=w.seconds(3))) for _ in range(2)]
    first = asyncio.create_task(engines[0].execute("it", ORDER))
    await asyncio.sleep(0)
    before = world.clock.now()
    errors = await asyncio.gather(*(outcome(engine.execute("it", ORDER)) for engine in engines))
    assert {error.code for error in errors} == {"DuplicateInFlight"}
    assert world.clock.now() - before == pytest.approx(3)
    impatient = await asyncio.gather(*(outcome(engine.run("it", ORDER, timeout=1)) for engine in engines))
    assert {error.code for error in impatient} == {"DuplicateInFlight"}
    assert await first == "done"


async def test_the_lease_is_renewed_for_as_long_as_the_work_takes():
    world = FakeWorld(tools={"pay": Late("done", 50)})
    engines = [gateway(world, once(lease=w.seconds(3), on_unknown="retry")) for _ in range(2)]
    assert await asyncio.gather(*(engine.execute("it", ORDER) for engine in engines)) == ["done"] * 2
    assert paid(world) == 1


async def test_upstream_calls_of_one_request_have_the_same_idempotency_key_in_every_attempt_at_it():
    seen: list[tuple[str, int]] = []

    class Upstream:
        def bind(self, ref: Any) -> Any:
            async def invoke(arguments: Any, call: Any) -> Any:
                seen.append((call.keys.next("pay", arguments), call.keys.attempt))
                if len(seen) == 1:
                    raise late_answer()
                return "done"

            return invoke

        def describe(self, ref: Any) -> None:
            return None

        def names(self) -> list[str]:
            return ["pay"]

    world = FakeWorld()
    document = w.compile(w.composition("it", "It.", once(on_unknown="retry"))).document
    for _ in range(2):
        await outcome(world.engine(document, Upstream()).run("it", ORDER, caller=caller("ann")))
    await world.engine(document, Upstream()).run("it", ORDER, caller=caller("bob"))
    assert seen[0] == seen[1]
    assert seen[2] != seen[1]


@pytest.mark.parametrize("waits", [False, True], ids=["replay", "follower"])
async def test_what_a_request_led_to_is_not_given_to_who_may_not_call_the_tool_any_more(waits: bool):
    allowed = {"ann"}

    class Guarded:
        def bind(self, ref: Any) -> Any:
            return self

        def describe(self, ref: Any) -> None:
            return None

        def names(self) -> list[str]:
            return ["pay"]

        def allows(self, call: Any) -> bool:
            return call.root.context.principal.subject in allowed

        async def __call__(self, arguments: Any, call: Any) -> Any:
            await world.clock.sleep(5)
            return "done"

    world = FakeWorld()
    document = w.compile(w.composition("it", "It.", once(scope="tenant"))).document
    engine = Engine(compile_document(document, Guarded(), stores=world.store), clock=world.clock)
    first = asyncio.create_task(engine.run("it", ORDER, caller=caller("ann")))
    await asyncio.sleep(0)
    if not waits:
        await first
    error = await outcome(engine.run("it", ORDER, caller=caller("bob")))
    assert error.code == "StepDenied"
    allowed.add("bob")
    assert (await engine.run("it", ORDER, caller=caller("bob"))).value == (await first).value == "done"


def test_the_builder_writes_the_seeds_form_and_what_was_given():
    expected = {"keyPaths": ["$.order"], "inner": {"tool": {"name": "pay"}}, "onDuplicate": "cached"}
    assert once().to_ir() == {"idempotent": expected}
    full = w.idempotent(
        PAY, key=[P.a, "$.b"], store="s", ttl=w.hours(1), on_duplicate="skip", on_unknown="retry",
        record_failures="all", fingerprint=P.c, scope="tenant", in_flight_wait="2s", lease=5, max_stored_bytes=4096,
    )  # fmt: skip
    assert full.to_ir()["idempotent"] == {
        "keyPaths": ["$.a", "$.b"], "inner": {"tool": {"name": "pay"}}, "store": "s", "ttlSeconds": 3600,
        "onDuplicate": "skip", "onUnknown": "retry", "recordFailures": "all", "fingerprintPaths": ["$.c"],
        "scope": "tenant", "inFlightWaitMs": 2000, "leaseSeconds": 5, "maxStoredBytes": 4096,
    }  # fmt: skip


@pytest.mark.req("STA-5", "STA-54", "STA-59")
def test_the_seeds_spellings_are_taken():
    written = {"pattern": "idempotent", "key_paths": ["$.order"], "inner": "pay", "store": "s", "ttl_seconds": 60}
    assert problems(written) == []
    assert problems({"idempotent": {"key": "$.order", "inner": "pay", "onDuplicate": "ON_DUPLICATE_CACHED"}}) == []


@pytest.mark.parametrize(
    "wrong",
    [{"keyPaths": []}, {"keyPaths": ["order"]}, {"onDuplicate": "never"}, {"onUnknown": "skip"}, {"leaseSeconds": 0}],
)
def test_what_cannot_be_is_a_problem(wrong: dict[str, Any]):
    assert problems({"idempotent": {"keyPaths": ["$.order"], "inner": "pay", **wrong}})


@pytest.mark.req("STA-4")
def test_a_store_that_nobody_configured_is_a_problem():
    document = w.compile(w.composition("it", "It.", once(store="requests"))).document
    (problem,) = [one for one in check(document, stores=frozenset({"cache"})) if one.severity == "error"]
    assert problem.message.startswith("Store 'requests' not configured")
    assert problem.loc[-1] == "store"
