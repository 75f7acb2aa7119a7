"""Calls that wait for their client to call again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from weft.errors import InputError, LimitExceeded
from weft.gateway.callers import Nobody
from weft.gateway.parking import Parking
from weft.ports import Caller

ASK = {"q": {"method": "elicitation/create", "params": {"message": "Who?"}}}


class Client(Nobody):
    """A client that hears of progress."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Any] = []

    def progress(self, params: dict[str, Any]) -> None:
        self.heard.append(params)


async def asks_twice(caller: Caller) -> dict[str, Any]:
    caller.progress({"progress": 1})
    first = await caller.ask(ASK)
    caller.progress({"progress": 2})
    second = await caller.ask(ASK)
    return {"answers": [first, second]}


async def asks_once(caller: Caller) -> dict[str, Any]:
    return {"answer": await caller.ask(ASK)}


def only(questions: Mapping[str, Any]) -> str:
    (key,) = questions["inputRequests"]
    return key


async def test_a_call_goes_on_where_it_asked() -> None:
    parking, before, after = Parking(), Client(), Client()
    asked, id_ = await parking.run(asks_twice, before)
    assert asked["resultType"] == "input_required"
    assert asked["inputRequests"][only(asked)] == ASK["q"]
    assert id_ is not None
    asked, id_ = await parking.resume(id_, {only(asked): {"action": "accept"}}, after)
    assert id_ is not None
    result, id_ = await parking.resume(id_, {only(asked): {"action": "decline"}}, after)
    assert (result, id_) == ({"answers": [{"q": {"action": "accept"}}, {"q": {"action": "decline"}}]}, None)
    assert (before.heard, after.heard) == ([{"progress": 1}], [{"progress": 2}]), "the client that waits now is told"
    assert len(parking) == 0


async def test_branches_that_ask_at_once_are_all_answered() -> None:
    async def both(caller: Caller) -> dict[str, Any]:
        return {"all": await asyncio.gather(caller.ask(ASK), caller.ask(ASK))}

    parking = Parking()
    asked, id_ = await parking.run(both, Client())
    assert id_ is not None
    assert len(asked["inputRequests"]) == 2
    result, _ = await parking.resume(id_, {key: {"k": key} for key in asked["inputRequests"]}, Client())
    assert len({one["q"]["k"] for one in result["all"]}) == 2


async def test_what_a_client_left_out_is_asked_again() -> None:
    parking = Parking()
    asked, id_ = await parking.run(asks_once, Client())
    assert id_ is not None
    again, id_ = await parking.resume(id_, {"strange": {}}, Client())
    assert again["inputRequests"] == asked["inputRequests"]
    assert id_ is not None
    result, _ = await parking.resume(id_, {only(again): {"a": 1}}, Client())
    assert result == {"answer": {"q": {"a": 1}}}


async def test_a_call_is_resumed_once_only() -> None:
    parking = Parking()
    asked, id_ = await parking.run(asks_once, Client())
    assert id_ is not None
    await parking.resume(id_, {only(asked): {}}, Client())
    with pytest.raises(InputError, match="has ended"):
        await parking.resume(id_, {only(asked): {}}, Client())


async def test_a_call_whose_client_never_comes_back_is_ended() -> None:
    ended = asyncio.Event()

    async def work(caller: Caller) -> dict[str, Any]:
        try:
            return await caller.ask(ASK)
        finally:
            ended.set()

    parking = Parking(lifetime=0.01)
    await parking.run(work, Client())
    async with asyncio.timeout(5):
        await ended.wait()
    assert len(parking) == 0


async def test_a_client_that_goes_ends_its_call() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def work(caller: Caller) -> dict[str, Any]:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            ended.set()
        return {}

    task = asyncio.ensure_future(Parking().run(work, Client()))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_no_more_calls_wait_than_are_allowed() -> None:
    parking = Parking(most=1)
    await parking.run(asks_once, Client())
    with pytest.raises(LimitExceeded) as caught:
        await parking.run(asks_once, Client())
    assert caught.value.code == "ParkedCalls"
    await parking.close()
    assert len(parking) == 0
