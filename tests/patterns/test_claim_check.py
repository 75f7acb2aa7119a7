"""Large values stay where they are stored, and come back only as they were (SEMANTICS 1.8, by number)."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import weft as w
from tests.patterns.gateways import caller, cancelled, gateway, outcome
from tests.patterns.worlds import problems
from weft.app import problems_of
from weft.config.sections import CallLimits
from weft.errors import ExecutionFailed, LimitExceeded, ToolFailed, UpstreamUnavailable, WeftError
from weft.expr.jcs import canonical
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.patterns.claim_check import MAX_BYTES, weight
from weft.plan.compiler import check
from weft.ports import ToolType
from weft.testing import Canned, FakeWorld, Late, down, refusal

ROUTE = w.tool("route")


def always(value: Any) -> Callable[[Any], Any]:
    """Return a tool that gives one value, also when that is a list."""

    def answer(_: Any) -> Any:
        return value

    return answer


REPORT = {"title": "Q3", "body": "canary-body"}


def checked(inner: Any = ROUTE, **given: Any) -> Any:
    return w.claim_check(inner, store="put", retrieve="get", **given)


def blobs(**tools: Any) -> FakeWorld:
    """Return a world with a working store of blobs, but for the tools given."""
    held: dict[str, Any] = {}

    def put(value: Any) -> str:
        held[f"ref-{len(held)}"] = json.loads(json.dumps(value))
        return f"ref-{len(held) - 1}"

    def drop(reference: str) -> None:
        del held[reference]

    answers: dict[str, Any] = {"put": put, "get": held.get, "drop": drop, "route": always({"to": "print"})}
    return FakeWorld(tools={**answers, **tools})


def names(world: FakeWorld) -> list[str]:
    return [tool for tool, _ in world.calls]


@pytest.mark.req("STA-48", "STA-49", "STA-50")
async def test_claim_check_01_the_inner_operation_gets_the_reference_and_nobody_else_the_value():
    world = blobs()
    result = await world.trace(checked(w.pipeline(ROUTE)), REPORT)
    assert result.value == {"to": "print"}
    assert world.calls == [("put", REPORT), ("route", "ref-0")]
    assert result.trace is not None
    told = json.dumps(result.trace.to_json()) + str(world.signals.events)
    assert "canary" not in told


async def test_claim_check_02_when_storing_fails_nothing_else_runs():
    world = blobs(put=down())
    assert isinstance(await outcome(world.run(checked(), REPORT)), UpstreamUnavailable)
    assert names(world) == ["put"]


@pytest.mark.parametrize("error", [refusal("no route"), down()])
async def test_claim_check_03_when_the_inner_operation_fails_its_error_is_told_and_the_orphan_noted(error: Exception):
    world = blobs(route=error)
    assert await outcome(world.run(checked(), REPORT)) is error
    assert world.signals.counts["claim_orphaned"] == 1
    (event,) = world.signals.named("claim_orphaned")
    assert "ref-0" not in str(event)


async def test_claim_check_03_what_was_stored_for_a_call_that_failed_is_released():
    world = blobs(route=refusal("no route"))
    assert isinstance(await outcome(world.run(checked(release="drop"), REPORT)), ToolFailed)
    assert world.calls[-1] == ("drop", "ref-0")
    assert world.signals.counts["claim_orphaned"] == 0


@pytest.mark.parametrize("answer", [down(), Late(None, 500)], ids=["down", "hangs"])
async def test_claim_check_03_a_release_that_fails_is_an_orphan_and_changes_nothing(answer: Any):
    world = blobs(route=refusal("no route"), drop=answer)
    engine = gateway(world, checked(release="drop"))
    before = world.clock.now()
    assert isinstance(await outcome(engine.execute("it", REPORT)), ToolFailed)
    assert world.clock.now() == before, "nobody waits for the release"
    await engine.close(drain=1000)
    assert world.signals.counts["claim_orphaned"] == 1


async def test_what_was_stored_for_a_caller_that_left_is_released():
    world = blobs(route=Late(None, 50))
    engine = gateway(world, checked(release="drop"))
    call = asyncio.create_task(engine.execute("it", REPORT))
    for _ in range(5):
        await asyncio.sleep(0)
    await cancelled(call)
    await engine.close()
    assert names(world) == ["put", "route", "drop"]


@pytest.mark.parametrize("at_end", [False, True])
async def test_what_is_always_released_is_released_after_success_too(at_end: bool):
    world = blobs()
    await world.run(checked(release="drop", release_on="always", retrieve_at_end=at_end), REPORT)
    assert names(world) == ["put", "route", *(["get"] if at_end else []), "drop"]


@pytest.mark.parametrize("answer", [refusal("no such blob"), None], ids=["error", "null"])
async def test_claim_check_04_what_is_gone_is_told_as_expired(answer: Any):
    error = await outcome(blobs(get=answer).run(checked(retrieve_at_end=True), REPORT))
    assert isinstance(error, ExecutionFailed)
    assert (error.code, error.retryable) == ("ClaimExpired", "no")


async def test_claim_check_04_a_store_that_cannot_be_reached_is_not_told_as_expired():
    error = await outcome(blobs(get=down()).run(checked(retrieve_at_end=True), REPORT))
    assert isinstance(error, UpstreamUnavailable), "it may be there, and another try may find it"


@pytest.mark.parametrize("other", [{"title": "Q3", "body": "forged"}, [REPORT], "Q3", 0])
async def test_claim_check_05_something_else_than_what_was_stored_is_corrupt(other: Any):
    world = blobs(get=always(other))
    error = await outcome(world.run(checked(retrieve_at_end=True), REPORT))
    assert isinstance(error, ExecutionFailed)
    assert error.code == "ClaimCorrupt"
    assert "forged" not in str(error.to_json())
    assert world.signals.counts["claim_corrupt"] == 1


async def test_claim_check_05_the_same_value_written_otherwise_is_the_same():
    world = blobs(get=always({"b": [1.0, "é"], "a": None}))
    given = {"a": None, "b": [1, "é"]}
    assert (await world.run(checked(retrieve_at_end=True), given))["payload"] == given


async def test_claim_check_06_a_reference_that_leads_to_anothers_value_gives_nothing_of_it():
    held: dict[str, Any] = {}

    def put(value: Any) -> str:
        held.setdefault("same", value)
        return "same"

    world = blobs(put=put, get=held.get)
    engine = gateway(world, checked(retrieve_at_end=True))
    mine = {"of": "acme-canary"}
    assert (await engine.run("it", mine, caller=caller("ann", "acme"))).value["payload"] == mine
    error = await outcome(engine.run("it", {"of": "other"}, caller=caller("ann", "other")))
    assert error.code == "ClaimCorrupt"
    assert "canary" not in json.dumps(error.to_json())


async def test_claim_check_06_no_reference_is_taken_from_a_caller_or_a_result():
    world = blobs(route=always({"claim": "ref-0"}))
    engine = gateway(world, checked(retrieve_at_end=True))
    await engine.run("it", {"of": "acme"}, caller=caller("ann", "acme"))
    given = (await engine.run("it", "ref-0", caller=caller("eve", "other"))).value
    assert given == {"output": {"claim": "ref-0"}, "payload": "ref-0"}
    assert world.calls[-1] == ("get", "ref-1")


@pytest.mark.parametrize("reference", ["r", 7, {"bucket": "b", "key": "k"}, ["b", "k"]])
async def test_claim_check_07_a_reference_is_whatever_the_store_gives(reference: Any):
    world = blobs(put=always(reference), get=always(REPORT))
    assert (await world.run(checked(retrieve_at_end=True), REPORT))["payload"] == REPORT
    assert world.calls[1:] == [("route", reference), ("get", reference)]


@pytest.mark.parametrize("reference", [None, "", [], {}, True, "r" * 9000, {"r": ["x"] * 9000}], ids=str)
async def test_claim_check_07_what_cannot_be_a_reference_is_refused(reference: Any):
    world = blobs(put=always(reference))
    error = await outcome(world.run(checked(), REPORT))
    assert isinstance(error, ExecutionFailed)
    assert error.code == "ClaimRefInvalid"
    assert len(error.message) < 300
    assert names(world) == ["put"]


async def test_a_reference_may_be_a_part_of_what_the_store_gives():
    world = blobs(put=always({"id": "r1", "size": 3}))
    await world.run(checked(ref_path="$.id"), REPORT)
    assert world.calls[-1] == ("route", "r1")
    error = await outcome(world.run(checked(ref_path="$.key"), REPORT))
    assert error.code == "ClaimRefInvalid"


async def test_claim_check_08_a_store_that_says_no_is_the_error():
    error = await outcome(blobs(put=refusal("quota")).run(checked(), REPORT))
    assert isinstance(error, ToolFailed)
    assert error.content == "quota"


@pytest.mark.req("STA-50")
async def test_claim_check_09_retrieved_at_the_end_there_are_both():
    world = blobs()
    assert await world.run(checked(retrieve_at_end=True), REPORT) == {"output": {"to": "print"}, "payload": REPORT}
    assert names(world) == ["put", "route", "get"]


async def test_claim_check_10_what_is_too_large_is_refused_before_anything_is_made_of_it():
    world = blobs()
    engine = gateway(world, checked())
    large = {"rows": ["é" * 1_000_000] * 50}
    tracemalloc.start()
    error = await outcome(engine.execute("it", large))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(error, LimitExceeded)
    assert error.code == "ClaimSize"
    assert peak < 8 << 20
    assert world.calls == []


@pytest.mark.parametrize("value", [None, 5, "text", "é€", [1, [2]], {"a": {"b": "c" * 100}}, REPORT])
def test_the_weight_of_a_value_is_about_its_size(value: Any):
    size = len(canonical(value))
    assert abs(weight(value, 1 << 20) - size) <= 8
    assert weight(value, 0) > 0


async def test_claim_check_11_the_journal_of_a_saga_has_the_reference_and_not_the_value():
    world = blobs(print=down())
    steps = [w.saga_step("route", ROUTE), w.saga_step("print", w.tool("print"))]
    flow = checked(w.saga(*steps, store="sagas", allow_volatile=True))
    error = await outcome(world.run(flow, {"body": "canary" * 10_000}))
    assert isinstance(error, WeftError)
    journal = b"".join([stored.value async for _, stored in world.store("sagas").scan("")])
    assert b"ref-0" in journal
    assert b"canary" not in journal


def test_claim_check_12_its_tools_must_be_among_what_the_composition_depends_on():
    def tool(name: str) -> dict[str, Any]:
        return {
            "name": name, "version": "1.0.0", "description": name, "inputSchema": {"type": "object"},
            "source": {"server": "s", "serverVersion": "1.0.0", "tool": name},
        }  # fmt: skip

    used = ("put", "get", "drop", "route")
    spec = checked(release="drop").to_ir()
    written = {
        "schemaVersion": "2.0",
        "servers": [{"name": "s", "version": "1.0.0", "provides": [
            {"tool": name, "version": "1.0.0"} for name in used]}],
        "tools": [
            *map(tool, used),
            {"name": "it", "version": "1.0.0", "description": "It.", "spec": spec,
             "depends": [{"type": "tool", "name": "route", "version": "1.0.0"}]},
        ],
    }  # fmt: skip
    found = {problem.pointer.rsplit("/", 1)[1] for problem in problems_of(parse(read(json.dumps(written))))}
    assert {"storeTool", "retrieveTool", "releaseTool"} <= found


def test_the_builder_writes_the_seeds_form():
    expected = {
        "storeTool": "put", "retrieveTool": "get", "inner": {"tool": {"name": "route"}}, "retrieveAtEnd": False,
    }  # fmt: skip
    assert checked().to_ir() == {"claimCheck": expected}
    assert w.claim_check(ROUTE, store=w.tool("put"), retrieve=w.tool("get")).to_ir() == {"claimCheck": expected}
    full = checked(retrieve_at_end=True, release="drop", release_on="always", ref_path="$.id", max_bytes=100)
    assert full.to_ir()["claimCheck"] == {
        **expected, "retrieveAtEnd": True, "releaseTool": "drop", "releaseOn": "always", "refPath": "$.id",
        "maxBytes": 100,
    }  # fmt: skip


@pytest.mark.req("STA-48")
def test_the_seeds_spellings_are_taken():
    written = {"pattern": "claim_check", "store_tool": "put", "retrieve_tool": "get", "inner": "route"}
    assert problems({**written, "retrieve_at_end": True}) == []


@pytest.mark.parametrize(
    ("wrong", "place"),
    [({"retrieveTool": "put"}, "retrieveTool"), ({"releaseTool": "put"}, "releaseTool"), ({"maxBytes": 0}, "maxBytes")],
)
def test_one_tool_cannot_be_two(wrong: dict[str, Any], place: str):
    spec = {"storeTool": "put", "retrieveTool": "get", "inner": "route", **wrong}
    (found,) = problems({"claimCheck": spec})
    assert found.pointer.endswith(f"/claimCheck/{place}")


def test_types_flow_from_the_store_to_the_inner_operation():
    p = w.path({})
    op = w.claim_check(w.filter(p.a, w.eq(1)), store="put", retrieve="get")
    document = w.compile(w.composition("it", "It.", op)).document
    upstream = Canned({"put": "r", "get": 1}, types={"put": ToolType(output={"type": "string"})})
    assert [one.code for one in check(document, upstream) if one.severity == "error"] == ["NotAnArray"]


def test_tools_are_given_by_name():
    with pytest.raises(TypeError, match="takes a tool by name"):
        checked(release=w.pipeline(ROUTE))


def test_a_value_of_the_largest_size_fits_into_an_answer_that_has_it_twice():
    # A server whose answer is over limits.response is started again, and with it all who use it are cut off.
    value = {"text": "x" * (MAX_BYTES - 12)}
    assert weight(value, MAX_BYTES) == MAX_BYTES
    answer = {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}
    assert len(json.dumps(answer)) < CallLimits().response
