"""What is done here can be cut short without the rest of its task."""

from __future__ import annotations

import asyncio

import pytest

from weft.patterns.workflow_here import Here


async def test_what_is_cut_short_ends_and_the_task_goes_on():
    here = Here()
    asyncio.get_running_loop().call_soon(here.cut)
    assert not await here.do(_for_ever())
    await asyncio.sleep(0)
    assert await here.do(asyncio.sleep(0)), "the next is not cut"


async def test_a_cut_that_comes_with_the_end_is_taken_back():
    here = Here()

    async def ends() -> None:
        here.cut()

    assert await here.do(ends())
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_whoever_cancels_the_task_cancels_it():
    here = Here()
    task = asyncio.create_task(here.do(_for_ever()))
    await asyncio.sleep(0)
    here.cut()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_nothing_under_way_is_nothing_cut():
    here = Here()
    here.cut()
    assert await here.do(asyncio.sleep(0))


async def _for_ever() -> None:
    await asyncio.Event().wait()
