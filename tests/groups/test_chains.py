"""Middleware and handlers made into one function an action."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from weft.groups.calling import Handler, Middleware, ToolCall
from weft.groups.strategies.chains import chain, compile_chains


async def handler(call: ToolCall) -> Any:
    return [*call.arguments["seen"], "handler"]


def named(name: str) -> Middleware:
    async def middleware(call: ToolCall, next: Handler) -> Any:
        call.arguments["seen"].append(name)
        return await next(call)

    return middleware


def called() -> ToolCall:
    return ToolCall("platform", {"seen": []}, action="create")


@pytest.mark.req("GRP-17", "GRP-18")
async def test_the_first_middleware_is_outermost_and_the_handler_comes_last():
    chained = chain(handler, [named("first"), named("second"), named("third")])
    assert await chained(called()) == ["first", "second", "third", "handler"]


@pytest.mark.req("GRP-19")
async def test_every_action_is_one_function_that_calls_may_share():
    chains = compile_chains({"create": handler, "list": handler}, around={"create": [named("one"), named("two")]})
    assert [await chains["create"](called()) for _ in range(2)] == [["one", "two", "handler"]] * 2
    assert await chains["list"](called()) == ["handler"]


@pytest.mark.req("GRP-19")
def test_a_handler_without_middleware_is_itself():
    assert chain(handler, []) is handler


@pytest.mark.req("GRP-19")
async def test_a_layer_adds_no_coroutine_of_its_own():
    made: list[Any] = []

    async def outer(call: ToolCall, next: Handler) -> Any:
        made.append(next(call))
        return await made[0]

    began = chain(handler, [outer])(called())
    assert inspect.iscoroutine(began)
    assert began.cr_code is outer.__code__
    await began
    assert made[0].cr_code is handler.__code__


async def test_middleware_may_answer_without_the_handler():
    async def closed(call: ToolCall, next: Handler) -> Any:
        return "closed"

    assert await chain(handler, [closed, named("never")])(called()) == "closed"


async def test_middleware_may_call_the_handler_again():
    async def twice(call: ToolCall, next: Handler) -> Any:
        await next(call)
        return await next(call)

    assert await chain(handler, [twice, named("inner")])(called()) == ["inner", "inner", "handler"]
