"""Calls of grouped tools, from the arguments to the result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

import weft as w
from tests.gateway.served import Client
from weft.errors import ExecutionFailed, ToolFailed
from weft.groups.authoring.builder import GroupedTool
from weft.groups.calling import Handler, Middleware, ToolCall
from weft.groups.execution.results import Outcome


class User(BaseModel):
    name: str
    born: date


def noting(name: str, seen: list[str]) -> Middleware:
    async def middleware(call: ToolCall, next: Handler) -> Any:
        seen.append(name)
        return await next(call)

    return middleware


@pytest.mark.req("GRP-17")
async def test_middleware_goes_from_the_tool_through_the_groups_to_the_action():
    seen: list[str] = []
    it = w.group("platform", middleware=[noting("global1", seen)])
    users = it.group("users", middleware=[noting("users", seen)])
    admins = users.group("admins")

    @admins.action(middleware=[noting("action", seen)])
    def create() -> None:
        seen.append("handler")

    it.use(noting("global2", seen))
    admins.use(noting("admins", seen))
    it.group("projects", middleware=[noting("projects", seen)])
    await it.execute({"action": "users.admins.create"})
    assert seen == ["global1", "global2", "users", "admins", "action", "handler"]


def platform() -> GroupedTool:
    it = w.group("platform", common={"properties": {"tenant": {"type": "string"}}})
    users = it.group("users")

    @users.action
    async def create(name: str, born: date) -> User:
        return User(name=name, born=born)

    @users.action
    def count(call: ToolCall, limit: int = 3) -> dict[str, Any]:
        return {"given": call.arguments, "limit": limit, "who": call.principal.subject}

    @users.action
    async def export(pages: int) -> AsyncIterator[Any]:
        for page in range(pages):
            yield page + 1, pages
        yield {"pages": pages}

    @users.action
    def imported(pages: int) -> Iterator[Any]:
        yield f"reading {pages}"
        return [pages]

    return it


@pytest.mark.req("GRP-21")
async def test_the_first_call_makes_it_ready():
    it = platform()
    assert not it.frozen
    await it.execute({"action": "users.count"})
    assert it.frozen


class Counted(str):
    """The key of an action that counts how often it is looked up or compared."""

    asked = 0

    def __hash__(self) -> int:
        self.asked += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        self.asked += 1
        return super().__eq__(other)


@pytest.mark.req("GRP-7")
async def test_a_call_finds_its_action_by_one_look_up_among_however_many():
    asked: list[int] = []
    for many in (10, 1000):
        it = w.group("platform")
        for number in range(many):
            it.add(f"action_{number}", lambda: "done")
        key = Counted(f"action_{many - 1}")
        assert await it.execute({"action": key}) == "done"
        asked.append(key.asked)
    assert asked == [2, 2]


async def test_functions_of_every_kind_are_handlers():
    it, client = platform(), Client(progress=True)
    born = {"name": "Ann", "born": "2000-01-02"}
    assert await it.execute({"action": "users.create", **born}) == born
    assert await it.execute({"action": "users.export", "pages": 2}, caller=client) == {"pages": 2}
    assert [(one["progress"], one["total"]) for one in client.heard] == [(1, 2), (2, 2)]
    assert await it.execute({"action": "users.imported", "pages": 2}, caller=client) == [2]
    assert client.heard[-1]["message"] == "reading 2"


@pytest.mark.req("GRP-26")
async def test_a_handler_gets_what_is_valid_and_nothing_else():
    it = platform()
    given = {"action": "users.count", "limit": 2, "tenant": "t", "_select": ["given", "limit"]}
    assert await it.execute(given) == {"given": {"limit": 2, "tenant": "t"}, "limit": 2}
    assert given["action"] == "users.count"
    for wrong, field in (({"limit": "2"}, "limit"), ({"name": "x"}, "name"), ({"tenant": 1}, "tenant")):
        with pytest.raises(ExecutionFailed) as caught:
            await it.execute({"action": "users.count", **wrong})
        assert caught.value.code == "InvalidArguments"
        assert [one["field"] for one in (caught.value.facts or {})["problems"]] == [field]


@pytest.mark.req("GRP-26")
@pytest.mark.parametrize("in_place", [True, False])
async def test_what_middleware_makes_of_arguments_is_checked_again(in_place: bool):
    async def broken(call: ToolCall, next: Handler) -> Any:
        if in_place:
            call.arguments["limit"] = "many"
        else:
            call.arguments = {**call.arguments, "limit": "many"}
        return await next(call)

    with pytest.raises(ExecutionFailed, match="'limit' is \"many\"") as caught:
        await platform().use(broken).execute({"action": "users.count", "limit": 2})
    assert caught.value.code == "InvalidArguments"


async def test_middleware_may_give_other_arguments():
    async def fewer(call: ToolCall, next: Handler) -> Any:
        call.arguments = {**call.arguments, "limit": 1}
        return await next(call)

    assert (await platform().use(fewer).execute({"action": "users.count", "limit": 2}))["limit"] == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(None, "MissingAction"), ({}, "MissingAction"), ({"action": "users.creat"}, "UnknownAction")],
)
async def test_who_does_not_say_which_action_is_told_the_choices(arguments: Any, code: str):
    result = await platform().call(arguments)
    assert result["isError"]
    assert "users.create" in result["content"][0]["text"]
    assert result["_meta"]["weft/error"]["code"] == code


@pytest.mark.parametrize("wrong", [[], "users.count", 3])
async def test_arguments_that_are_no_object_are_told(wrong: Any):
    result = await platform().call(wrong)
    assert result["content"][0]["text"].startswith("arguments are an object, not ")


async def test_another_name_for_the_discriminator():
    it = w.group("platform", discriminator="op")

    @it.action
    def ping(action: int) -> int:
        return action

    assert await it.execute({"op": "ping", "action": 3}) == 3


async def test_a_call_gives_the_result_as_mcp_has_it():
    it = w.group("platform")
    it.add("one", lambda: {"n": 1}).add("two", lambda: [1, 2]).add("told", lambda: w.success({"n": 3}, text="three"))
    assert await it.call({"action": "one"}) == {
        "content": [{"type": "text", "text": '{"n":1}'}],
        "structuredContent": {"n": 1},
        "isError": False,
    }
    assert (await it.call({"action": "two"}))["structuredContent"] == {"result": [1, 2]}
    assert (await it.call({"action": "told"}))["content"] == [{"type": "text", "text": "three"}]
    assert await it.execute({"action": "told"}) == Outcome(value={"n": 3}, text="three")


async def test_failures_are_results_for_a_model_and_errors_for_python(caplog: pytest.LogCaptureFixture):
    it = w.group("platform")

    @it.action
    def refused() -> Any:
        return w.failure("there is no such user", hint="list them first")

    @it.action
    def broken() -> Any:
        raise LookupError("no row")

    told = await it.call({"action": "refused"})
    assert told["isError"]
    assert told["content"][0]["text"] == "there is no such user. Hint: list them first"
    with caplog.at_level(logging.CRITICAL, "weft.actions"):
        told = await it.call({"action": "broken"})
        assert told["content"][0]["text"] == "Tool 'platform.broken' failed: LookupError: no row"
        with pytest.raises(ToolFailed):
            await it.execute({"action": "broken"})


async def test_broken_middleware_is_a_failure_without_a_traceback(caplog: pytest.LogCaptureFixture):
    async def broken(call: ToolCall, next: Handler) -> Any:
        raise KeyError("user")

    it = platform().use(broken)
    told = await it.call({"action": "users.count"})
    assert (told["isError"], told["content"][0]["text"]) == (True, "middleware failed: KeyError: 'user'")
    assert "middleware of platform.users.count failed: KeyError: 'user'" in caplog.text
    with pytest.raises(ToolFailed):
        await it.execute({"action": "users.count"})


async def test_cancelling_a_call_cancels_its_handler():
    began, ended = asyncio.Event(), asyncio.Event()
    it = w.group("platform", middleware=[noting("outer", [])])

    @it.action
    async def wait() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    for called in (it.call, it.execute):
        began.clear()
        ended.clear()
        task = asyncio.ensure_future(called({"action": "wait"}))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()


async def test_a_result_is_cut_to_its_limits_and_says_so():
    it = w.group("platform", response=w.ResponseRule(max_items=2))
    it.add("rows", lambda: [{"id": n, "text": "x"} for n in range(5)])
    it.add("told", lambda: w.success([1, 2, 3], meta={"a": 1}))
    result = await it.call({"action": "rows", "_select": ["id"]})
    assert result["structuredContent"] == {"result": [{"id": 0}, {"id": 1}]}
    assert len(result["_meta"]["weft/cut"]) > 0
    assert result["_meta"]["weft/cut"][0] in result["content"][-1]["text"]
    assert len(await it.execute({"action": "rows"})) == 5, "programs get all of it"
    assert await it.execute({"action": "told"}) == Outcome(value=[1, 2, 3], meta={"a": 1})
    assert (await it.call({"action": "told"}))["structuredContent"] == {"result": [1, 2]}


async def test_fields_cannot_be_selected_where_the_author_says_so():
    it = w.group("platform", response=w.ResponseRule(select=False)).add("ping", lambda: {"a": 1})
    assert "_select" not in it.definition["inputSchema"]["properties"]
    with pytest.raises(ExecutionFailed, match="'_select' is no field"):
        await it.execute({"action": "ping", "_select": ["a"]})


async def test_what_is_selected_wrongly_is_told():
    result = await platform().call({"action": "users.count", "_select": 3})
    assert "_select is 3, expected a list of dotted field names" in result["content"][0]["text"]


def added(one: int, other: int = 2) -> int:
    return one + other


async def test_an_index_names_actions_only_and_help_tells_their_fields():
    it = w.group("platform", detail="index").add("add", added, description="Adds up.")
    tool = it.definition
    assert list(tool["inputSchema"]["properties"]) == ["action", "of", "_select"]
    assert "additionalProperties" not in tool["inputSchema"]
    assert "- add: Adds up" in tool["description"]
    told = await it.execute({"action": "help", "of": "add"})
    assert set(told["inputSchema"]["properties"]) == {"action", "one", "other", "_select"}
    assert await it.execute({"action": "add", "one": 1}) == 3
    with pytest.raises(ExecutionFailed, match="'two' is no field of add"):
        await it.execute({"action": "add", "one": 1, "two": 2})


async def test_help_goes_through_the_middleware_of_the_tool():
    seen: list[str] = []
    it = w.group("platform", detail="brief", middleware=[noting("global", seen)]).add("ping", lambda: "pong")
    await it.execute({"action": "help", "of": "ping"})
    assert seen == ["global"]


async def cancelling(call: ToolCall, next: Handler) -> Any:
    raise asyncio.CancelledError


async def ending(call: ToolCall, next: Handler) -> Any:
    raise SystemExit(3)


async def forgetting(call: ToolCall, next: Handler) -> Any:
    return next(call)


async def emptying(call: ToolCall, next: Handler) -> Any:
    call.arguments = None  # pyright: ignore[reportAttributeAccessIssue] (authors without a checker)
    return await next(call)


@pytest.mark.parametrize(
    ("middleware", "told"),
    [
        (cancelling, "it was cancelled from within"),
        (ending, "it called sys.exit(3)"),
        (forgetting, "without awaiting it"),
        (emptying, "it made the arguments null, which is no object"),
    ],
)
async def test_what_middleware_does_to_the_whole_only_ends_its_call(middleware: Middleware, told: str):
    it = w.group("platform", middleware=[middleware]).add("one", lambda: 1)
    result = await it.call({"action": "one"})
    assert result["isError"]
    assert told in result["content"][0]["text"]


async def test_a_call_that_is_cancelled_in_its_middleware_is_cancelled():
    begun = asyncio.Event()

    async def waiting(call: ToolCall, next: Handler) -> Any:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(w.group("platform", middleware=[waiting]).add("one", lambda: 1).call({"action": "one"}))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("given", [w.failure("no"), ValueError("no"), Outcome(text="no", failed=True)])
async def test_execute_raises_a_failure_that_was_returned_and_call_tells_it(given: Any):
    async def returning(call: ToolCall, next: Handler) -> Any:
        return given

    it = w.group("platform", middleware=[returning]).add("one", lambda: 1)
    with pytest.raises(ToolFailed, match="no"):
        await it.execute({"action": "one"})
    result = await it.call({"action": "one"})
    assert result["isError"]
    assert "no" in result["content"][0]["text"]


async def test_the_text_of_a_failure_is_cut_as_that_of_a_result():
    def failing() -> None:
        raise w.failure("x" * 1000)

    it = w.group("platform", response=w.ResponseRule(max_text=50)).add("one", failing)
    result = await it.call({"action": "one"})
    assert result["isError"]
    assert len(result["content"][0]["text"]) < 200
