"""Dead letters that wait are sent again until they are taken, also after a restart (SEMANTICS 1.6, test 7)."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import weft as w
from tests.patterns.gateways import FaultyStore, caller, gateway, outcome
from weft.errors import ExecutionFailed, NotFound, StoreError
from weft.patterns.dead_letter_letters import Letter
from weft.patterns.dead_letter_spool import Letterboxes
from weft.run.awaiting import NobodyAwaited
from weft.run.letters import Redriven
from weft.run.limits import Limits
from weft.run.spool import DeadLetters
from weft.stores.memory import MemoryStore
from weft.stores.sqlite import SqliteStore
from weft.testing import FakeClock, FakeWorld, down, refusal

BOOK = w.tool("book")
OP = w.dead_letter(BOOK, "dlq", store="spool")


def office(world: FakeWorld, engine: Any, **given: Any) -> DeadLetters:
    """Return the dead letters of a gateway."""
    boxes = world.kept.of(Letterboxes)
    return DeadLetters(
        boxes, lambda principal, tool: caller(principal.subject, principal.tenant), detach=engine.detach,
        clock=world.clock, signals=world.signals, rng=world.rng, **given,
    )  # fmt: skip


async def failed(world: FakeWorld, *jobs: int) -> None:
    for job in jobs:
        await outcome(gateway(world, OP).run("it", {"id": job}, caller=caller("ann", "acme")))


async def test_dead_letter_07_after_a_restart_a_letter_is_sent_again_under_the_same_id(tmp_path: Path):
    store = SqliteStore(tmp_path / "weft.db")
    before = FakeWorld(tools={"book": refusal("full"), "dlq": down()}, stores={"spool": store})
    with before.clock.held():
        await failed(before, 7)
    await store.close()

    store = SqliteStore(tmp_path / "weft.db")
    kept: dict[str, Any] = {}
    after = FakeWorld(
        tools={"book": "booked", "dlq": lambda letter: kept.setdefault(letter["id"], letter)}, stores={"spool": store}
    )
    with after.clock.held():
        letters = office(after, gateway(after, OP))
        assert await letters.once() == 0, "the pause after the last try is not over"
        (found,) = await letters.list()
        assert (await letters.redrive(found.id)).done == [Redriven(found.id)]
        assert await letters.list() == []
        assert await letters.once() == 0
    assert list(kept) == [before.calls[-1][1]["id"]]
    assert kept[found.id] == before.calls[-1][1]
    await store.close()


async def test_letters_are_sent_after_growing_pauses_until_they_are_taken():
    times: list[float] = []

    def dlq(_: Any) -> Any:
        times.append(world.clock.now())
        return down() if len(times) < 5 else None

    world = FakeWorld(tools={"book": refusal("full"), "dlq": dlq})
    await failed(world, 7)
    letters = office(world, gateway(world, OP), every=1.0)
    loop = asyncio.create_task(letters.run())
    while await letters.list():
        await world.clock.sleep(5)
    loop.cancel()
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert [round(gap, -1) for gap in gaps] == [10, 20, 40, 80]
    assert world.signals.counts["dead_letter_lost"] == 0


async def test_of_two_gateways_that_look_one_sends_a_letter():
    answers: list[Any] = [down()]
    world = FakeWorld(tools={"book": refusal("full"), "dlq": lambda _: answers.pop() if answers else None})
    await failed(world, 7)
    world.clock.time += 60
    both = [office(world, gateway(world, OP)) for _ in range(2)]
    assert sum(await asyncio.gather(*(one.once() for one in both))) == 1
    assert [tool for tool, _ in world.calls].count("dlq") == 2


async def test_of_operators_who_redrive_at_once_one_sends_a_letter(tmp_path: Path):
    store = SqliteStore(tmp_path / "weft.db")
    answers: list[Any] = [down(), down(), down(), down()]
    sending, go_on = asyncio.Event(), asyncio.Event()

    async def dlq(_: Any) -> Any:
        if answers:
            return answers.pop()
        if len(world.calls) == 4:
            sending.set()
        with world.clock.held():
            await go_on.wait()
        return None

    world = FakeWorld(tools={"book": refusal("full"), "dlq": dlq}, stores={"spool": store})
    with world.clock.held():
        await failed(world, 1, 2, 3, 4)
        world.calls.clear()
        first, *others = [office(world, gateway(world, OP)) for _ in range(6)]
        begun = asyncio.create_task(first.redrive())
        await sending.wait()
        (one, *_) = await first.list()
        for redriving in await asyncio.gather(*(other.redrive() for other in others)):
            assert [done.error for done in redriving.done] == ["it is being sent just now"] * 4
        assert (await others[0].redrive(one.id)).done == [Redriven(one.id, "it is being sent just now")]
        go_on.set()
        assert all(done.delivered for done in (await begun).done)
        assert await first.list() == []
    assert [tool for tool, _ in world.calls] == ["dlq"] * 4
    await store.close()


async def test_a_letter_that_was_taken_while_an_operator_looked_is_not_sent_again():
    answers: list[Any] = [down()]
    world = FakeWorld(tools={"book": refusal("full"), "dlq": lambda _: answers.pop() if answers else None})
    await failed(world, 7)
    letters = office(world, gateway(world, OP))
    ((spool, letter),) = (await letters.look()).letters
    assert (await letters.redrive()).done == [Redriven(letter.id)]
    assert await spool.take_now(letter, 10) is None
    assert await spool.store.get(f"v1|deadLetterLease|acme|{letter.id}") is None
    assert [tool for tool, _ in world.calls].count("dlq") == 2


async def test_a_redrive_that_died_while_sending_holds_the_letter_for_a_short_time_only():
    world = FakeWorld(tools={"book": refusal("full"), "dlq": down()})
    with world.clock.held():
        await failed(world, 7)
        letters = office(world, gateway(world, OP))
        ((spool, letter),) = (await letters.look()).letters
        assert await spool.take_now(letter, 35) is True
        assert await letters.once() == 0
        assert await spool.take_now(letter, 35) is False
        world.clock.time += 36
        assert await spool.take_now(letter, 35) is True


async def test_the_beginning_of_an_id_is_enough_where_no_other_begins_so():
    world = FakeWorld(tools={"book": refusal("full"), "dlq": down()})
    with world.clock.held():
        await failed(world, 7)
        letters = office(world, gateway(world, OP))
        ((spool, letter),) = (await letters.look()).letters
        assert await letters.show(letter.id[:4]) == letter
        for few in ("", letter.id[:3]):
            with pytest.raises(NotFound):
                await letters.show(few)
        await spool.keep(replace(letter, id=f"{letter.id[:6]}-other"), 10)
        with pytest.raises(ExecutionFailed) as raised:
            await letters.show(letter.id[:6])
        assert raised.value.code == "AmbiguousLetter"
        assert (await letters.show(letter.id[:7])) == letter


async def test_a_letter_that_a_gateway_kept_and_did_not_send_is_sent_by_another_and_not_kept_again():
    clock = FakeClock()
    store = FaultyStore(MemoryStore(clock=clock))
    stuck, woken = asyncio.Event(), asyncio.Event()

    async def hang(_: Any) -> Exception:
        stuck.set()
        with clock.held():
            await woken.wait()
        return down()

    world = FakeWorld(tools={"book": refusal("full"), "dlq": hang}, stores={"spool": store}, clock=clock)
    paused = asyncio.create_task(failed(world, 7))
    await stuck.wait()
    other = FakeWorld(tools={"book": "booked", "dlq": None}, stores={"spool": store}, clock=clock)
    letters = office(other, gateway(other, OP))
    assert await letters.once() == 0, "its lease is not over"
    clock.time += 60
    assert await letters.once() == 1
    woken.set()
    await paused
    assert await letters.list() == [], "who wakes late does not bring back what was taken"


async def test_operators_see_letters_of_one_tool_or_all_the_oldest_first():
    world = FakeWorld(tools={"book": refusal("full"), "dlq": down("away")})
    await failed(world, 1, 2, 3)
    letters = office(world, gateway(world, OP))
    listed = await letters.list()
    assert [letter.payload["originalInput"]["id"] for letter in listed] == [1, 2, 3]
    assert await letters.list(tool="dlq", limit=2) == listed[:2]
    assert await letters.list(tool="other") == []
    shown = await letters.show(listed[1].id)
    assert isinstance(shown, Letter)
    assert (shown.tool, shown.owner, shown.tries) == ("dlq", "it", 1)
    assert shown.error == "Upstream 'fake' is unavailable: away"
    assert shown.principal.tenant == "acme"
    for ask in (letters.show, letters.redrive):
        with pytest.raises(NotFound):
            await ask("nothing")


async def test_a_letter_whose_tool_nobody_names_any_more_waits():
    world = FakeWorld(tools={"book": refusal("full"), "dlq": down(), "other": None})
    await failed(world, 1)
    later = FakeWorld(tools=world.tools, stores={"spool": world.store("spool")})
    letters = office(later, gateway(later, w.tool("book")), stores=[world.store("spool")])
    (redriven,) = (await letters.redrive()).done
    assert not redriven.delivered
    assert "no composition that is loaded names the tool 'dlq'" in (redriven.error or "")
    assert len(await letters.list()) == 1


async def test_the_tool_is_called_for_the_one_that_the_letter_is_about():
    seen: list[Any] = []

    class Upstream:
        def bind(self, ref: Any) -> Any:
            async def invoke(arguments: Any, call: Any) -> Any:
                if ref.name == "book" or not seen:
                    seen.append(None)
                    raise down()
                seen.append((call.root.context.principal.subject, call.keys.next("dlq", arguments)))

            return invoke

        def describe(self, ref: Any) -> None:
            return None

        def names(self) -> list[str]:
            return ["book", "dlq"]

    world = FakeWorld()
    engine = world.engine(w.compile(w.composition("it", "It.", OP)).document, Upstream())
    await outcome(engine.run("it", {"id": 1}, caller=caller("ann")))
    letters = office(world, engine)
    for letter in await letters.list():
        await letters.redrive(letter.id)
    assert seen[-1][0] == "ann"


async def test_a_spool_that_is_away_is_told_of_once():
    store = FaultyStore(MemoryStore())
    world = FakeWorld(tools={"book": "booked", "dlq": None}, stores={"spool": store})
    letters = office(world, gateway(world, OP))
    store.down = {"scan"}
    assert [await letters.once() for _ in range(3)] == [0, 0, 0]
    assert len(world.signals.named("spool_away")) == 1


async def test_letters_are_sent_eight_at_a_time():
    at_once: list[int] = [0, 0]
    taking = False

    async def dlq(_: Any) -> Any:
        if not taking:
            return down()
        at_once[0] += 1
        at_once[1] = max(at_once)
        await world.clock.sleep(1)
        at_once[0] -= 1
        return None

    world = FakeWorld(tools={"book": refusal("full"), "dlq": dlq})
    await failed(world, *range(20))
    taking = True
    letters = office(world, gateway(world, OP))
    before = world.clock.now()
    assert [one.delivered for one in (await letters.redrive()).done] == [True] * 20
    assert (at_once[1], world.clock.now() - before) == (8, 3)
    assert await letters.list() == []


async def test_a_spool_that_is_away_does_not_keep_others_from_being_sent():
    away, there = FaultyStore(MemoryStore("away")), MemoryStore("spool")
    answers: list[Any] = [down()]
    world = FakeWorld(
        tools={"book": refusal("full"), "dlq": lambda _: answers.pop() if answers else None},
        stores={"away": away, "spool": there},
    )
    await failed(world, 7)
    away.down = {"scan"}
    letters = office(world, gateway(world, OP), stores=[away])
    (waiting,) = (await letters.look()).letters
    with pytest.raises(StoreError):
        await letters.show("nothing")
    sent = await letters.redrive()
    assert [one.id for one in sent.done if one.delivered] == [waiting[1].id]
    assert list(sent.away) == ["away"]
    with pytest.raises(StoreError):
        await office(world, gateway(world, BOOK), stores=[away]).redrive("x")


async def test_letters_that_cannot_be_read_are_told_of_and_the_others_sent():
    answers: list[Any] = [down(), down()]
    store = MemoryStore("spool")
    world = FakeWorld(
        tools={"book": refusal("full"), "dlq": lambda _: answers.pop() if answers else None}, stores={"spool": store}
    )
    await failed(world, 1, 2)
    letters = office(world, gateway(world, OP))
    first, second = await letters.list()
    key = next(key for key in [key async for key, _ in store.scan("v1|deadLetter|")] if key.endswith(first.id))
    for value in (b"", b"[]", b"{}", b'{"id": 1, "tool": 2, "owner": 3, "payload": 4, "tries": "5", "error": 6}'):
        await store.set(key, value)
        found = await letters.look()
        assert [letter.id for _, letter in found.letters] == [second.id]
        assert [(one.id, one.tenant, one.store) for one in found.torn] == [(first.id, "acme", "spool")]
        assert found.torn[0].why
        assert await letters.show(first.id) == found.torn[0]
    sent = {one.id: one.error for one in (await letters.redrive()).done}
    assert sent[second.id] is None
    assert (sent[first.id] or "").startswith("it cannot be read: ")
    assert (await letters.redrive(first.id)).done[0].error == sent[first.id]


async def test_letters_wait_until_the_servers_are_ready_and_are_sent_within_the_limits_of_now():
    class Later(NobodyAwaited):
        there = asyncio.Event()

        async def ready(self) -> None:
            await self.there.wait()

    seen: list[Any] = []

    class Upstream:
        def bind(self, ref: Any) -> Any:
            async def invoke(arguments: Any, call: Any) -> Any:
                seen.append((ref.name, call.root.limits.steps))
                if len(seen) < 3:
                    raise down()

            return invoke

        def describe(self, ref: Any) -> None:
            return None

        def names(self) -> list[str]:
            return ["book", "dlq"]

    world = FakeWorld()
    engine = world.engine(w.compile(w.composition("it", "It.", OP)).document, Upstream())
    await outcome(engine.run("it", {"id": 1}, caller=caller("ann")))
    now = Limits(steps=7)
    letters = office(world, engine, servers=Later(), limits=lambda: now)
    world.clock.time += 60
    loop, asked = asyncio.create_task(letters.run()), asyncio.create_task(letters.redrive())
    await world.clock.sleep(60)
    assert len(seen) == 2
    now = Limits(steps=9)
    Later.there.set()
    assert [one.delivered for one in (await asked).done] == [True]
    assert seen[2] == ("dlq", 9)
    loop.cancel()
