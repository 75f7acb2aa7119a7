"""Dead letters that wait are sent again until they are taken, also after a restart (SEMANTICS 1.6, test 7)."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

import weft as w
from tests.patterns.gateways import FaultyStore, caller, gateway, outcome
from weft.errors import NotFound
from weft.patterns.dead_letter_spool import Letterboxes
from weft.run.spool import DeadLetters, Redriven
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
        assert await letters.redrive(found.id) == [Redriven(found.id)]
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
    (redriven,) = await letters.redrive()
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
