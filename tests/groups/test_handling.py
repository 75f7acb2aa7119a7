"""How functions of every kind become handlers, and how they end."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import mcp.types
import pytest
from pydantic import BaseModel

from tests.gateway.served import Client
from weft.errors import ExecutionFailed, ToolFailed, UpstreamUnavailable
from weft.groups.calling import ToolCall
from weft.groups.execution.handling import handler_of
from weft.groups.execution.progress import Progress, progress, progress_of
from weft.groups.execution.results import Failure, Outcome, failure, success


def keywords(call: ToolCall) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (), call.arguments


async def handled(function: Callable[..., Any], *, threaded: bool = False, caller: Any = None, **arguments: Any) -> Any:
    call = ToolCall("platform", arguments, action="users.create", caller=caller)
    return await handler_of(function, keywords, threaded=threaded)(call)


class Async:
    async def __call__(self, n: int) -> int:
        return n + 1


async def plus_one(n: int) -> int:
    await asyncio.sleep(0)
    return n + 1


def promised(n: int) -> Awaitable[int]:
    return plus_one(n)


@pytest.mark.parametrize("function", [plus_one, partial(plus_one), Async(), Async().__call__, (1).__add__, promised])
async def test_functions_async_and_sync_are_called_with_their_arguments(function: Callable[..., Any]):
    handler = handler_of(function, lambda call: ((call.arguments["n"],), {}))
    assert await handler(ToolCall("platform", {"n": 1})) == 2


@pytest.mark.req("GRP-26")
async def test_a_handler_is_given_what_the_call_is_made_into():
    async def seen(*args: Any, **kwargs: Any) -> Any:
        return [args, kwargs]

    call = ToolCall("platform", {"n": "1"})
    assert await handler_of(seen, lambda call: ((int(call.arguments["n"]),), {"who": call.tool}))(call) == [
        [1],
        {"who": "platform"},
    ]


async def test_a_sync_function_runs_where_the_loop_runs_and_in_a_thread_when_it_says_so():
    assert await handled(threading.get_ident) == threading.get_ident()
    assert await handled(threading.get_ident, threaded=True) != threading.get_ident()


@dataclass
class Point:
    x: int


class User(BaseModel):
    name: str


async def test_models_dataclasses_and_tuples_become_json_before_middleware_sees_them():
    async def made() -> Any:
        return {"user": User(name="Ann"), "at": Point(1), "pair": (1, 2)}

    assert await handled(made) == {"user": {"name": "Ann"}, "at": {"x": 1}, "pair": [1, 2]}
    outcome = await handled(lambda: success(User(name="Ann"), text="Ann"))
    assert outcome == Outcome(value={"name": "Ann"}, text="Ann")


async def test_blocks_of_the_sdk_become_wire_objects():
    image = mcp.types.ImageContent(type="image", data="aGk=", mime_type="image/png")
    outcome = await handled(lambda: success(content=[image]))
    assert outcome.content == [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]


async def test_a_result_that_is_not_json_is_an_error():
    with pytest.raises(ExecutionFailed, match="the result is not JSON") as caught:
        await handled(lambda: {"it": object()})
    assert caught.value.code == "NotJson"


async def test_a_failure_that_is_returned_is_raised_like_one_that_is_raised():
    def raising() -> None:
        raise failure("no such user", hint="ask users.list")

    for function in (raising, lambda: failure("no such user", hint="ask users.list")):
        with pytest.raises(Failure, match="no such user") as caught:
            await handled(function)
        assert (caught.value.hint, caught.value.tool) == ("ask users.list", "platform.users.create")


async def test_errors_of_weft_go_through_as_they_are():
    error = ExecutionFailed("no", code="Mine")

    def raising() -> None:
        raise error

    with pytest.raises(ExecutionFailed) as caught:
        await handled(raising)
    assert caught.value is error


async def test_any_other_exception_is_the_failure_of_the_action_and_is_logged(caplog: pytest.LogCaptureFixture):
    async def broken() -> None:
        raise KeyError("password=hunter22")

    with caplog.at_level(logging.ERROR, "weft.actions"), pytest.raises(ToolFailed) as caught:
        await handled(broken)
    assert caught.value.code == "ActionFailed"
    assert caught.value.message == "Tool 'platform.users.create' failed: KeyError: 'password=[redacted]'"
    assert isinstance(caught.value.__cause__, KeyError)
    assert caplog.records[0].getMessage() == "platform.users.create failed: KeyError: 'password=[redacted]'"
    assert caplog.records[0].exc_info is not None


async def test_a_lost_connection_may_be_tried_again_as_with_any_tool():
    def lost() -> None:
        raise ConnectionError("refused")

    with pytest.raises(UpstreamUnavailable, match=r"'platform\.users\.create' is unavailable: refused") as caught:
        await handled(lost)
    assert caught.value.retryable == "yes"


async def test_a_function_that_would_end_the_program_only_ends_its_call():
    def ending() -> None:
        raise SystemExit(3)

    with pytest.raises(ToolFailed, match=r"it called sys\.exit\(3\)"):
        await handled(ending)


async def test_a_function_that_cancels_itself_has_failed():
    async def selfish() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ToolFailed, match="it was cancelled from within"):
        await handled(selfish)


async def test_cancelling_a_call_reaches_the_function():
    ended = list[str]()
    started = asyncio.Event()

    async def waiting() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("closed")

    task = asyncio.create_task(handled(waiting))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["closed"]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (3, Progress(3)),
        (0.5, Progress(0.5)),
        ((3, 10), Progress(3, 10)),
        ((3, 10, "three"), Progress(3, 10, "three")),
        ((3, None, "three"), Progress(3, None, "three")),
        ("reading", Progress(message="reading")),
        (progress(3, 10, "three"), Progress(3, 10, "three")),
        (True, None),
        (None, None),
        ((1, "x"), None),
        ((True, 2), None),
        ((1, 2, 3), None),
        ([3, 10], None),
        ({"done": 1}, None),
        (success("text"), None),
    ],
)
def test_what_counts_as_progress_and_what_as_a_result(given: Any, meant: Progress | None):
    assert progress_of(given) == meant


async def paged(pages: int) -> AsyncIterator[Any]:
    for page in range(1, pages + 1):
        yield page, pages, f"page {page}"
    yield {"pages": pages}


def counted(pages: int) -> Generator[Any, None, dict[str, int]]:
    for page in range(1, pages + 1):
        yield page, pages, f"page {page}"
    return {"pages": pages}


@pytest.mark.parametrize(("function", "threaded"), [(paged, False), (counted, False), (counted, True)])
async def test_a_generator_tells_how_far_it_is_and_then_its_result(function: Callable[..., Any], threaded: bool):
    client = Client(progress=True)
    assert await handled(function, threaded=threaded, caller=client, pages=2) == {"pages": 2}
    assert client.heard == [
        {"progress": 1, "total": 2, "message": "page 1"},
        {"progress": 2, "total": 2, "message": "page 2"},
    ]


async def test_progress_is_told_to_nobody_who_did_not_ask():
    client = Client()
    assert await handled(paged, caller=client, pages=2) == {"pages": 2}
    assert client.heard == []
    assert await handled(counted, pages=1) == {"pages": 1}


async def test_the_result_is_the_last_thing_yielded_that_is_no_progress():
    async def several() -> AsyncIterator[Any]:
        yield {"first": True}
        yield success("a text is a message, unless it is a success")
        yield "tidying up"

    client = Client(progress=True)
    outcome = await handled(several, caller=client)
    assert outcome == success("a text is a message, unless it is a success")
    assert [heard["message"] for heard in client.heard] == ["tidying up"]


async def test_what_a_sync_generator_returns_counts_before_what_it_yields():
    def both() -> Generator[Any, None, Any]:
        yield {"yielded": True}
        return {"returned": True}

    def yielding() -> Iterator[Any]:
        yield {"yielded": True}

    assert await handled(both) == {"returned": True}
    assert await handled(yielding) == {"yielded": True}


async def test_a_generator_that_only_tells_progress_has_the_result_null():
    async def silent() -> AsyncIterator[Any]:
        yield 1

    assert await handled(silent) is None


async def test_progress_goes_up_with_every_message():
    async def talking() -> AsyncIterator[Any]:
        yield "one"
        yield "two"
        yield 5, 9
        yield "between"
        yield 6

    client = Client(progress=True)
    await handled(talking, caller=client)
    assert [heard["progress"] for heard in client.heard] == [1, 2, 5, 5.001, 6]
    assert [heard.get("total") for heard in client.heard] == [None, None, 9, 9, 9]


async def test_a_generator_may_fail_by_raising_or_yielding():
    async def yields() -> AsyncIterator[Any]:
        yield 1
        yield failure("no")

    def raises() -> Iterator[Any]:
        yield 1
        raise ValueError("broken")

    with pytest.raises(Failure, match="no"):
        await handled(yields)
    with pytest.raises(ToolFailed, match="ValueError: broken"):
        await handled(raises)


async def test_a_sync_generator_gives_others_their_turn_at_each_step():
    order = list[str]()

    def steps() -> Iterator[Any]:
        for number in (1, 2):
            order.append(f"step {number}")
            yield number

    async def other() -> None:
        order.append("other")

    await asyncio.gather(handled(steps), other())
    assert order.index("other") < order.index("step 2")


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_cancelling_a_call_closes_its_generator(kind: str):
    ended = list[str]()
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[Any]:
        try:
            while True:
                begun.set()
                await asyncio.sleep(0)
                yield 1
        finally:
            await asyncio.sleep(0)
            ended.append("closed")

    def endless_sync() -> Iterator[Any]:
        try:
            while True:
                begun.set()
                yield 1
        finally:
            ended.append("closed")

    task = asyncio.create_task(handled(endless if kind == "async" else endless_sync))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["closed"]


async def test_a_generator_in_a_thread_is_closed_once_the_thread_stands_still():
    begun, go_on, ended = threading.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def working() -> Iterator[Any]:
        try:
            begun.set()
            go_on.wait(20)
            yield 1
            yield 2  # pragma: no cover (it is closed before)
        finally:
            loop.call_soon_threadsafe(ended.set)

    task = asyncio.create_task(handled(working, threaded=True))
    await asyncio.to_thread(begun.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not ended.is_set()
    go_on.set()
    await asyncio.wait_for(ended.wait(), 20)


async def test_a_generator_that_fails_after_its_call_was_cancelled_disturbs_nobody():
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def working() -> Iterator[Any]:
        begun.set()
        go_on.wait(20)
        ended.set()
        raise ValueError("too late")
        yield

    task = asyncio.create_task(handled(working, threaded=True))
    await asyncio.to_thread(begun.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await asyncio.to_thread(ended.wait, 20)


async def test_a_function_that_ends_by_stop_iteration_is_answered_in_a_thread_too():
    def nothing() -> Any:
        return next(iter([]))

    for threaded in (False, True):
        with pytest.raises(ToolFailed, match="StopIteration"):
            await asyncio.wait_for(handled(nothing, threaded=threaded), 20)


class Looped(Client):
    """A client that can be told only where its loop runs, as those of doors."""

    def progress(self, params: dict[str, Any]) -> None:
        asyncio.get_running_loop()
        super().progress(params)


async def test_a_function_in_a_thread_tells_its_progress_before_its_result():
    call = ToolCall("platform", {}, action="count", caller=Looped(progress=True))

    def count() -> str:
        for number in range(3):
            call.progress(number, 3, "at \udcff")
        return "done"

    assert await handler_of(count, keywords, threaded=True)(call) == "done"
    assert isinstance(call.caller, Looped)
    assert [told["progress"] for told in call.caller.heard] == [0, 1, 2]
    assert call.caller.heard[0]["message"] == "at ?"


async def test_a_generator_in_a_thread_sees_the_context_of_its_call():
    seen: ContextVar[str] = ContextVar("seen", default="nothing")

    def looking() -> Generator[Any, None, str]:
        yield 1
        return seen.get()

    seen.set("set")
    assert await handled(looking, threaded=True) == "set"


async def test_an_async_generator_that_never_waits_lets_others_work_and_can_be_cancelled():
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[Any]:
        while True:
            begun.set()
            yield 1

    task = asyncio.create_task(handled(endless))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_progress_that_goes_down_or_is_no_number_is_left_out():
    async def jumping() -> AsyncIterator[Any]:
        for one in (0, 3, 1, float("nan"), float("inf"), 3, (3, 9, "still"), 4):
            yield one

    client = Client(progress=True)
    await handled(jumping, caller=client)
    assert [told["progress"] for told in client.heard] == [0, 3, 3.001, 4]
    call = ToolCall("platform", {}, caller=client)
    client.heard.clear()
    for done, total in ((1.0, float("nan")), (0.5, None), (float("nan"), None), (2.0, 2.0)):
        call.progress(done, total)
    assert client.heard == [{"progress": 1.0}, {"progress": 2.0, "total": 2.0}]
