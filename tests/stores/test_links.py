"""Links when more want a connection than there are, and when making one fails in a way that nobody foresaw."""

from __future__ import annotations

import asyncio

import pytest

from weft.errors import StoreError
from weft.stores.links import Crowded, Links
from weft.stores.remote import Fate, Remote

PLENTY = 20.0


class Plain:
    """A connection to nowhere."""

    dropped = False

    async def alive(self) -> bool:
        """Tell whether it was not dropped."""
        return not self.dropped

    async def drop(self) -> None:
        """Close it."""
        self.dropped = True


async def plain() -> Plain:
    """Connect at once."""
    return Plain()


async def unsure(link: Plain, broken: Plain) -> Fate:
    """Find nothing out."""
    return Fate.UNSURE


@pytest.mark.parametrize("writes", [False, True])
async def test_who_finds_no_connection_free_is_told_that_it_is_busy_and_has_sent_nothing(writes: bool):
    remote = Remote("state", Links("state", plain, size=2, timeout=PLENTY), timeout=0.1)
    release, busy = asyncio.Event(), asyncio.Event()
    asked: list[Plain] = []

    async def work(link: Plain) -> str:
        asked.append(link)
        if len(asked) == 2:
            busy.set()
        await release.wait()
        return "done"

    held = [asyncio.create_task(remote.read(work, timeout=PLENTY)) for _ in range(2)]
    await busy.wait()
    with pytest.raises(Crowded) as raised:
        await (remote.write(work, unsure) if writes else remote.read(work))
    assert (raised.value.code, raised.value.retryable) == ("StoreBusy", "yes")
    assert "no connection was free within 0.1 s" in raised.value.message
    release.set()
    assert await asyncio.gather(*held) == ["done", "done"]
    assert len(asked) == 2
    assert await remote.read(work) == "done"


async def test_to_wait_for_a_connection_takes_nothing_from_the_time_of_the_operation():
    links = Links("state", plain, size=1, timeout=PLENTY)
    remote = Remote("state", links, timeout=PLENTY)
    link, loop = await links.take(), asyncio.get_running_loop()
    async with asyncio.timeout(PLENTY) as limit:
        before, came = limit.when() or 0.0, loop.time()
        waiting = asyncio.create_task(remote._take(limit))  # pyright: ignore[reportPrivateUsage]  (its clock is real)
        await asyncio.sleep(0)
        assert limit.when() is None
        await links.give(link)
        assert await waiting is link
        assert before < (limit.when() or 0.0) <= before + loop.time() - came


async def test_a_server_that_lets_nobody_connect_is_not_busy_but_away():
    async def connect() -> Plain:
        return await asyncio.get_running_loop().create_future()

    links = Links("state", connect, size=2, timeout=PLENTY)
    with pytest.raises(StoreError) as raised:
        await Remote("state", links, timeout=0.05).read(_nothing)
    assert (raised.value.code, type(raised.value)) == ("StoreUnavailable", StoreError)
    await links.close()


async def test_whatever_goes_wrong_while_connecting_is_an_error_of_the_store_and_no_traceback(
    caplog: pytest.LogCaptureFixture,
):
    async def connect() -> Plain:
        raise ValueError("invalid literal for int(): 'hunter2'")

    links = Links("state", connect, size=2, timeout=PLENTY)
    with pytest.raises(StoreError) as raised:
        await links.take()
    assert raised.value.message == "Store 'state': it cannot be connected to: ValueError"
    await links.close()
    assert caplog.records == []


async def _nothing(link: Plain) -> None:
    """Ask nothing."""
