"""What fails for good is handed to a tool that keeps it, and is not lost on the way (SEMANTICS 1.6, by number)."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import weft as w
from tests.patterns.gateways import FaultyStore, caller, cancelled, gateway, outcome
from tests.patterns.worlds import problems
from weft.app import problems_of
from weft.errors import ExecutionFailed, InputError, TimedOut, ToolFailed
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.patterns.dead_letter_spool import LETTERS
from weft.plan.compiler import check
from weft.run.limits import Limits
from weft.stores.memory import MemoryStore
from weft.stores.sqlite import SqliteStore
from weft.testing import FakeWorld, Late, down, refusal

BOOK = w.tool("book")
JOB = {"id": 7, "to": "Oslo"}


def kept(**given: Any) -> Any:
    return w.dead_letter(BOOK, "dlq", **given)


def letters(world: FakeWorld) -> list[dict[str, Any]]:
    """Return what the dead letter tool was given."""
    return [payload for tool, payload in world.calls if tool == "dlq"]


def booked(world: FakeWorld) -> int:
    return sum(tool == "book" for tool, _ in world.calls)


async def spooled(store: Any) -> list[dict[str, Any]]:
    return [json.loads(stored.value) async for _, stored in store.scan(LETTERS)]


async def test_dead_letter_01_what_succeeds_is_not_dead():
    world = FakeWorld(tools={"book": "booked", "dlq": None})
    assert await world.run(kept(), JOB) == "booked"
    assert letters(world) == []


@pytest.mark.req("STA-35", "STA-36", "STA-38")
async def test_dead_letter_02_after_all_attempts_the_tool_is_called_once_with_their_number():
    world = FakeWorld(tools={"book": down("refused"), "dlq": None})
    given = await world.run(kept(max_attempts=3, backoff=w.exponential("100ms")), JOB)
    (letter,) = letters(world)
    assert (booked(world), letter["attempts"]) == (3, 3)
    assert world.pauses[:2] == [0.1, 0.2]
    assert letter["originalInput"] == JOB
    assert letter["error"] == "Upstream 'fake' is unavailable: refused"
    assert (letter["errorType"], letter["errorCode"]) == ("UpstreamUnavailable", "UpstreamUnavailable")
    assert [one["code"] for one in letter["attemptErrors"]] == ["UpstreamUnavailable"] * 3
    assert given == {"deadLettered": True, "id": letter["id"]}


async def test_a_letter_tells_of_five_attempts_at_most_and_of_who_called_what():
    world = FakeWorld(tools={"book": down(), "dlq": None})
    made = w.composition("it", "It.", w.pipeline(kept(max_attempts=7)), version="1.2.0")
    engine = world.engine(w.compile(made).document)
    who = caller("ann", "acme", traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
    await engine.run("it", JOB, caller=who)
    (letter,) = letters(world)
    assert (letter["attempts"], len(letter["attemptErrors"])) == (7, 5)
    assert (letter["tool"], letter["tenant"], letter["principal"]) == ("it@1.2.0", "acme", who.principal.id)
    assert letter["traceId"] == "a" * 32
    assert letter["stepPath"][-1] == "book"


@pytest.mark.req("STA-36")
async def test_dead_letter_03_the_timestamp_is_utc_by_rfc_3339():
    world = FakeWorld(tools={"book": down(), "dlq": None})
    await world.run(kept(), JOB)
    written = letters(world)[0]["timestamp"]
    assert written.endswith("Z")
    assert abs(datetime.fromisoformat(written) - datetime.now(UTC)) < timedelta(minutes=10)


@pytest.mark.req("STA-37")
async def test_dead_letter_04_the_error_is_the_result_only_when_it_is_asked_for():
    world = FakeWorld(tools={"book": refusal("full"), "dlq": None})
    error = await outcome(world.run(kept(rethrow=True), JOB))
    assert isinstance(error, ToolFailed)
    assert error.content == "full"
    given = await world.run(kept(rethrow=False), JOB)
    assert given == {"deadLettered": True, "id": letters(world)[1]["id"]}


def document(*tools: dict[str, Any]) -> Any:
    parsed = parse(read(json.dumps({"schemaVersion": "1.0", "tools": list(tools)})))
    assert parsed.problems == ()
    return parsed.document


def dead(inner: str, tool: str) -> dict[str, Any]:
    return {"deadLetter": {"inner": {"tool": {"name": inner}}, "deadLetterTool": tool}}


def test_dead_letter_05_a_tool_that_is_not_there_is_a_problem():
    made = document({"name": "it", "spec": dead("book", "dlqq")})
    (problem,) = check(made, known=frozenset({"book"}), elsewhere=frozenset({"dlq"}))
    assert (problem.code, problem.severity, problem.suggestion) == ("UnknownName", "error", "dlq")
    assert problem.loc == ("tools", 0, "spec", "deadLetter", "deadLetterTool")


async def test_dead_letter_06_when_the_tool_fails_the_first_error_is_told_with_the_second_and_the_letter_kept():
    world = FakeWorld(tools={"book": refusal("full"), "dlq": down("queue away")})
    error = await outcome(world.run(kept(store="spool"), JOB))
    assert isinstance(error, ToolFailed)
    assert "deadLetterError: Upstream 'fake' is unavailable: queue away" in (error.hint or "")
    (letter,) = await spooled(world.store("spool"))
    assert letter["payload"] == letters(world)[0]
    assert (letter["tries"], letter["tool"]) == (1, "dlq")
    assert world.signals.counts["dead_letters{outcome=spooled}"] == 1
    assert world.signals.counts["dead_letter_lost"] == 0


async def test_dead_letter_06_without_a_spool_a_letter_that_is_not_taken_is_counted_as_lost():
    world = FakeWorld(tools={"book": refusal("full"), "dlq": down()})
    assert isinstance(await outcome(world.run(kept(), JOB)), ToolFailed)
    assert world.signals.counts["dead_letter_lost"] == 1


async def test_the_default_store_is_the_spool_when_it_is_durable(tmp_path: Path):
    store = SqliteStore(tmp_path / "weft.db")
    world = FakeWorld(tools={"book": refusal("full"), "dlq": down()}, stores={"default": store})
    with world.clock.held():
        await outcome(world.run(kept(), JOB))
    assert len(await spooled(store)) == 1
    await store.close()


@pytest.mark.parametrize("answer", ["taken", down()], ids=["taken", "refused"])
async def test_a_letter_is_kept_before_it_is_sent_and_forgotten_when_it_was_taken(answer: Any):
    seen: list[int] = []

    async def dlq(_: Any) -> Any:
        seen.append(len(await spooled(world.store("spool"))))
        return answer

    world = FakeWorld(tools={"book": refusal("full"), "dlq": dlq})
    await outcome(world.run(kept(store="spool"), JOB))
    assert seen == [1]
    assert len(await spooled(world.store("spool"))) == (0 if answer == "taken" else 1)


async def test_a_spool_that_is_down_does_not_keep_the_letter_from_being_sent():
    store = FaultyStore(MemoryStore())
    store.down = {"batch"}
    world = FakeWorld(tools={"book": refusal("full"), "dlq": None}, stores={"spool": store})
    assert (await world.run(kept(store="spool"), JOB))["deadLettered"]
    assert len(letters(world)) == 1


async def test_dead_letter_08_a_tool_that_hangs_is_waited_for_no_longer_than_its_time():
    world = FakeWorld(tools={"book": refusal("full"), "dlq": Late(None, 1000)})
    before = world.clock.now()
    error = await outcome(world.run(kept(store="spool", timeout=w.seconds(7)), JOB))
    assert isinstance(error, ToolFailed)
    assert "did not answer within 7 seconds" in (error.hint or "")
    assert world.clock.now() - before == 7
    assert len(await spooled(world.store("spool"))) == 1


async def test_dead_letter_09_a_caller_that_leaves_while_the_letter_is_sent_does_not_stop_it():
    taken: list[Any] = []

    async def dlq(letter: Any) -> None:
        started.set()
        await world.clock.sleep(2)
        taken.append(letter)

    started = asyncio.Event()
    world = FakeWorld(tools={"book": refusal("full"), "dlq": dlq})
    engine = gateway(world, kept())
    call = asyncio.create_task(engine.execute("it", JOB))
    await started.wait()
    await cancelled(call)
    await engine.close()
    assert [letter["originalInput"] for letter in taken] == [JOB]


async def test_dead_letter_09_a_caller_that_leaves_in_a_pause_between_attempts_does_not_lose_the_letter():
    failed = asyncio.Event()

    def book(_: Any) -> Exception:
        failed.set()
        return down()

    world = FakeWorld(tools={"book": book, "dlq": None})
    engine = gateway(world, kept(max_attempts=3, backoff=w.fixed("30s")))
    call = asyncio.create_task(engine.execute("it", JOB))
    await failed.wait()
    await cancelled(call)
    await engine.close()
    assert [letter["attempts"] for letter in letters(world)] == [1]


async def test_a_call_that_runs_out_of_time_is_dead_though_nobody_waits_any_more():
    world = FakeWorld(tools={"book": Late("booked", 50), "dlq": Late(None, 3)})
    engine = gateway(world, kept())
    error = await outcome(engine.run("it", JOB, timeout=2))
    assert error.code == "DeadlineExceeded"
    await engine.close()
    assert [letter["errorCode"] for letter in letters(world)] == ["DeadlineExceeded"]


async def test_a_call_that_is_cancelled_at_its_first_attempt_is_not_dead():
    world = FakeWorld(tools={"book": Late("booked", 50), "dlq": None})
    engine = gateway(world, kept())
    call = asyncio.create_task(engine.execute("it", JOB))
    for _ in range(5):
        await asyncio.sleep(0)
    await cancelled(call)
    await engine.close()
    assert (booked(world), letters(world)) == (1, [])


@pytest.mark.parametrize("faults", [False, True])
async def test_what_the_caller_did_wrong_is_not_dead_unless_that_is_asked_for(faults: bool):
    world = FakeWorld(tools={"book": InputError("no such city"), "dlq": None})
    given = await outcome(world.run(kept(caller_faults=faults), JOB))
    assert isinstance(given, InputError) != faults
    assert len(letters(world)) == faults


async def test_dead_letter_10_the_tool_is_called_for_the_composition_and_its_caller():
    seen: list[tuple[str, Any]] = []

    class Upstream:
        def bind(self, ref: Any) -> Any:
            async def invoke(arguments: Any, call: Any) -> Any:
                seen.append((ref.name, call.root.context))
                if ref.name == "book":
                    raise down()

            return invoke

        def describe(self, ref: Any) -> None:
            return None

        def names(self) -> list[str]:
            return ["book", "dlq"]

    who = caller("ann")
    made = w.compile(w.composition("it", "It.", kept())).document
    await FakeWorld().engine(made, Upstream()).run("it", JOB, caller=who)
    assert seen == [("book", who), ("dlq", who)]


def test_dead_letter_10_the_tool_must_be_among_what_the_composition_depends_on():
    def tool(name: str) -> dict[str, Any]:
        return {
            "name": name, "version": "1.0.0", "description": name, "inputSchema": {"type": "object"},
            "source": {"server": "s", "serverVersion": "1.0.0", "tool": name},
        }  # fmt: skip

    written = {
        "schemaVersion": "2.0",
        "servers": [{"name": "s", "version": "1.0.0", "provides": [
            {"tool": "book", "version": "1.0.0"}, {"tool": "dlq", "version": "1.0.0"}]}],
        "tools": [
            tool("book"), tool("dlq"),
            {"name": "it", "version": "1.0.0", "description": "It.", "spec": dead("book", "dlq"),
             "depends": [{"type": "tool", "name": "book", "version": "1.0.0"}]},
        ],
    }  # fmt: skip
    found = problems_of(parse(read(json.dumps(written))))
    assert any("dlq" in problem.message and problem.pointer.endswith("/deadLetterTool") for problem in found), found


async def test_dead_letter_11_secrets_are_left_out_of_the_letter_by_name_by_mark_and_by_form():
    schema = {"type": "object", "properties": {"pin": {"type": "string", "x-secret": True}}}
    world = FakeWorld(tools={"book": refusal("no room for hunter2-canary, pin 4711-canary"), "dlq": None})
    made = w.composition("it", "It.", kept(store="spool"), input=schema)
    given = {"pin": "4711-canary", "password": "hunter2-canary", "note": "use sk-abcdefghijklmnop123", "max_tokens": 5}
    await world.engine(w.compile(made).document).execute("it", given)
    (letter,) = letters(world)
    written = json.dumps(letter)
    assert "canary" not in written
    assert "sk-abc" not in written
    assert letter["originalInput"]["max_tokens"] == 5


async def test_dead_letter_12_a_large_input_is_replaced_by_what_is_known_of_it():
    world = FakeWorld(tools={"book": down(), "dlq": None})
    await world.run(kept(), {"text": "x" * 2_000_000})
    told = letters(world)[0]["originalInput"]
    assert (told["$truncated"], told["bytes"]) == (True, 2_000_012)
    assert len(json.dumps(letters(world)[0])) < 10_000
    assert told["head"].startswith('{"text": "xxx')


def test_dead_letter_13_letters_about_letters_to_oneself_are_a_circle():
    made = document({"name": "it", "spec": dead("book", "bin")}, {"name": "bin", "spec": dead("keep", "it")})
    assert [one.code for one in check(made, known=frozenset({"book", "keep"})) if one.severity == "error"] == ["Cycle"]
    alone = document({"name": "it", "spec": dead("book", "it")})
    assert [one.code for one in check(alone, known=frozenset({"book"})) if one.severity == "error"] == ["Cycle"]


@pytest.mark.parametrize("error", [refusal("no"), TimedOut("late"), ExecutionFailed("no such path")])
async def test_dead_letter_14_what_another_attempt_cannot_help_has_one(error: Exception):
    world = FakeWorld(tools={"book": error, "dlq": None})
    await world.run(kept(max_attempts=5), JOB)
    assert (booked(world), letters(world)[0]["attempts"]) == (1, 1)


async def test_dead_letter_15_the_letter_has_the_input_as_it_was():
    def book(job: Any) -> Exception:
        job["to"] = "nowhere"
        job["stops"].append("Bergen")
        return down()

    world = FakeWorld(tools={"book": book, "dlq": None})
    await world.run(kept(max_attempts=2), {"to": "Oslo", "stops": []})
    assert letters(world)[0]["originalInput"] == {"to": "Oslo", "stops": []}


async def test_attempts_end_when_the_next_pause_does_not_fit_in_the_time_that_is_left():
    world = FakeWorld(tools={"book": down(), "dlq": None})
    engine = gateway(world, kept(max_attempts=9, backoff=w.fixed("3s")))
    given = (await engine.run("it", JOB, timeout=7)).value
    assert given["deadLettered"]
    assert letters(world)[0]["attempts"] == 3


async def test_the_same_request_made_again_has_a_letter_of_the_same_id():
    world = FakeWorld(tools={"book": down(), "dlq": down()})
    flow = w.retry(kept(rethrow=True), 2, backoff=w.fixed(0))
    await outcome(world.run(flow, JOB))
    ids = {letter["id"] for letter in letters(world)}
    assert (len(letters(world)), len(ids)) == (2, 1)


async def test_a_spent_budget_is_told_and_never_swallowed():
    world = FakeWorld(tools={"book": down(), "dlq": None}, limits=Limits(calls=2))
    error = await outcome(world.run(w.map_each(kept()), [1, 2, 3]))
    assert error.code == "FanOutLimit"


def test_the_builder_writes_the_seeds_form():
    expected = {"inner": {"tool": {"name": "book"}}, "deadLetterTool": "dlq", "maxAttempts": 1, "rethrow": False}
    assert kept().to_ir() == {"deadLetter": expected}
    assert w.dead_letter(BOOK, w.tool("dlq")).to_ir() == kept().to_ir()
    full = kept(max_attempts=2, backoff=w.fixed("1s"), rethrow=True, caller_faults=True, store="s", timeout="9s")
    assert full.to_ir()["deadLetter"] == {
        **expected, "maxAttempts": 2, "backoff": {"fixed": {"delayMs": 1000}}, "rethrow": True, "callerFaults": True,
        "store": "s", "deadLetterTimeoutMs": 9000,
    }  # fmt: skip
    assert kept(timeout=w.millis(250)).to_ir()["deadLetter"]["deadLetterTimeoutMs"] == 250
    with pytest.raises(TypeError, match=r"w\.seconds\(5\) or w\.millis\(5\)"):
        kept(timeout=5)


@pytest.mark.req("STA-35", "STA-37")
def test_the_seeds_spellings_are_taken():
    written = {
        "pattern": "dead_letter", "inner": "book", "dead_letter_tool": "dlq", "max_attempts": 3,
        "backoff": {"type": "fixed", "delayMs": 5},
    }  # fmt: skip
    assert problems(written) == []
    assert problems({"deadLetter": {"inner": "book", "deadLetter": {"tool": {"name": "dlq"}}}}) == []


@pytest.mark.parametrize("wrong", [{"maxAttempts": 0}, {"maxAttempts": 10**9}, {"deadLetterTool": ""}, {"rethrow": 1}])
def test_what_cannot_be_is_a_problem(wrong: dict[str, Any]):
    assert problems({"deadLetter": {"inner": "book", "deadLetterTool": "dlq", **wrong}})


async def test_a_step_beside_it_has_another_idempotency_key():
    seen: list[str] = []

    class Upstream:
        def bind(self, ref: Any) -> Any:
            async def invoke(arguments: Any, call: Any) -> Any:
                seen.append(call.keys.next("book", arguments))
                return arguments

            return invoke

        def describe(self, ref: Any) -> None:
            return None

        def names(self) -> list[str]:
            return ["book", "dlq"]

    op = w.idempotent(w.pipeline(BOOK, kept()), key="$.id")
    await FakeWorld().engine(w.compile(w.composition("it", "It.", op)).document, Upstream()).execute("it", JOB)
    assert len(set(seen)) == 2
