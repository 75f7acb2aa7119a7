"""Questions that nobody answers do not keep a server from everybody else."""

from __future__ import annotations

import asyncio

import pytest

from tests.upstreams.pools import FORM, WORKSHOP, Person, call, open_shop, running
from tests.waiting import until
from weft.errors import DeadlineExceeded
from weft.upstreams import unanswered
from weft.upstreams.server import Server
from weft.upstreams.sessions import LEASED
from weft.upstreams.spec import ServerSpec

CHILD = ServerSpec(name="shop", command=WORKSHOP, era="legacy", start_timeout=60.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unanswered, "PATIENCE", 0.0)
    monkeypatch.setattr(unanswered, "LOOK_EVERY", 0.05)


def silent() -> Person:
    return Person("nobody", capabilities=FORM, thinks=asyncio.Event())


async def asking(server: Server, count: int) -> list[asyncio.Task[object]]:
    people = [silent() for _ in range(count)]
    calls = [asyncio.create_task(call(server, "ask", caller=who, text="?")) for who in people]
    await until(lambda: all(who.asked for who in people))
    return calls


@pytest.mark.usefixtures("impatient")
async def test_clients_that_do_not_answer_give_way_to_a_client_that_calls():
    async with running(CHILD) as watched:
        server = watched.server()
        calls = await asking(server, LEASED)
        assert (await call(server, "who", caller=Person(capabilities=FORM)))["pid"]
        done, pending = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert (len(done), len(pending)) == (1, LEASED - 1)
        with pytest.raises(DeadlineExceeded, match="was not answered"):
            await done.pop()
        for task in pending:
            task.cancel()
        await asyncio.wait(pending)
        assert server.state == "ready"


@pytest.mark.usefixtures("impatient")
async def test_they_give_way_to_clients_that_cannot_be_asked_too():
    with open_shop() as url:
        async with running(ServerSpec(name="shop", url=url, era="legacy", concurrency=1)) as watched:
            [waiting] = await asking(watched.server(), 1)
            assert (await call(watched.server(), "who"))["pid"]
            with pytest.raises(DeadlineExceeded, match="was not answered"):
                await waiting


async def test_nobody_is_hurried_while_there_is_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unanswered, "PATIENCE", 0.0)
    async with running(CHILD) as watched:
        person = silent()
        waiting = asyncio.create_task(call(watched.server(), "ask", caller=person, text="?"))
        await until(lambda: bool(person.asked))
        for _ in range(3):
            await call(watched.server(), "who", caller=Person(capabilities=FORM))
        assert not waiting.done()
        assert person.thinks is not None
        person.thinks.set()
        assert await waiting == "nobody"


async def test_a_client_that_thinks_is_left_in_peace_for_a_while():
    async with running(CHILD) as watched:
        calls = await asking(watched.server(), LEASED)
        late = asyncio.create_task(call(watched.server(), "who", caller=Person(capabilities=FORM)))
        done, _ = await asyncio.wait([*calls, late], timeout=1.5)
        assert not done
        for task in (*calls, late):
            task.cancel()
        await asyncio.wait([*calls, late])
