"""What authors say of tools and actions wrongly, and what they are told."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import AsyncIterator
from typing import Any

import pytest

import weft as w
from weft.errors import DocumentInvalid, Frozen, InputError
from weft.groups.calling import Handler, ToolCall


def one() -> int:
    return 1


async def short(call: ToolCall) -> Any: ...


async def yielding(call: ToolCall, next: Handler) -> AsyncIterator[Any]:
    yield await next(call)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"response": 5}, r"response is a w\.ResponseRule, .* not 5"),
        ({"icons": 5}, "icons is a list of objects, .* not 5"),
        ({"icons": [{"source": "x"}]}, "an icon says by src where it is"),
        ({"meta": 5}, "meta is an object, not 5"),
        ({"meta": {"at": object()}}, "meta is JSON, not"),
        ({"description": 5}, "description is a text, not 5"),
        ({"title": 5}, "title is a text, not 5"),
        ({"middleware": [5]}, "middleware is a function of a call and of what comes next, not 5"),
        ({"middleware": one}, "middleware is a list of functions"),
        ({"middleware": [short]}, r"takes a call and what comes next, as .*timed\(call, next\).* short does not"),
        ({"middleware": [yielding]}, "and yielding yields"),
    ],
)
def test_what_is_no_option_of_a_tool_is_told_where_it_is_written(given: dict[str, Any], told: str):
    with pytest.raises(TypeError, match=rf"^w\.group\('platform'\): .*{told}"):
        w.group("platform", **given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"reads_only": "yes"}, "reads_only is True or False, not 'yes'"),
        ({"threaded": 1}, "threaded is True or False, not 1"),
        ({"tags": 5}, "tags is a list of texts, not 5"),
        ({"tags": ["a", 5]}, "tags is a list of texts, and 5 is none"),
        ({"description": 5}, "description is a text, not 5"),
        ({"middleware": [short]}, "short does not"),
    ],
)
def test_what_is_no_option_of_an_action_is_told_where_it_is_written(given: dict[str, Any], told: str):
    with pytest.raises(TypeError, match=rf"^w\.group\('platform'\), action 'one': .*{told}"):
        w.group("platform").add("one", one, **given)


def test_what_is_no_option_of_a_group_is_told_too():
    with pytest.raises(TypeError, match=r"^w\.group\('platform'\): a description is a text, not 5"):
        w.group("platform").group("users", 5)  # pyright: ignore[reportArgumentType] (authors without a checker)
    with pytest.raises(TypeError, match=r"^w\.group\('platform'\): middleware takes a call"):
        w.group("platform").group("users").use(short)  # pyright: ignore[reportArgumentType] (authors without a checker)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"max_bytes": "16KiB"}, "max_bytes is '16KiB': expected a whole number from 1 on, or None"),
        ({"max_items": -1}, "max_items is -1"),
        ({"max_text": True}, "max_text is True"),
        ({"select": 1}, "select is 1: expected True or False"),
    ],
)
def test_a_limit_that_is_none_is_refused_when_it_is_made(given: dict[str, Any], told: str):
    with pytest.raises(InputError, match=told) as caught:
        w.ResponseRule(**given)
    assert caught.value.code == "InvalidOption"


@pytest.mark.parametrize("name", ["shop.orders", "x" * 65])
def test_a_name_that_mcp_takes_and_some_clients_do_not_is_warned_of(name: str):
    with pytest.warns(UserWarning, match="some clients refuse a tool named"):
        assert w.group(name).name == name
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        w.group("x" * 64)


@pytest.mark.req("GRP-31")
def test_what_stands_around_actions_cannot_be_taken_away():
    async def refusing(call: ToolCall, next: Handler) -> Any:
        raise w.failure("no")

    users = w.group("platform").group("users", "Who is there.", middleware=[refusing])
    for name in ("middleware", "description", "path"):
        with pytest.raises(AttributeError):
            setattr(users, name, ())
    assert users.middleware == (refusing,)


@pytest.mark.req("GRP-29", "GRP-30")
async def test_who_changes_the_definition_changes_nothing_that_a_call_does():
    def find(name: str) -> str:
        return name

    it = w.group("platform").add("find", find)
    it.definition["inputSchema"]["properties"]["name"]["type"] = "integer"
    del it.definition["inputSchema"]["properties"]["action"]
    assert not (await it.call({"action": "find", "name": "Ada"}))["isError"]
    assert it.actions["find"].schema["properties"]["name"]["type"] == "string"
    assert it.filtered().definition["inputSchema"]["properties"]["name"]["type"] == "string"


@pytest.mark.req("GRP-28")
def test_an_action_that_was_added_without_an_error_is_in_the_tool_whoever_builds_meanwhile():
    for _ in range(5):
        it = w.group("platform")
        for number in range(100):
            it.add(f"a{number}", one)
        added: list[int] = []

        def adding(it: w.GroupedTool = it, added: list[int] = added) -> None:
            with contextlib.suppress(Frozen):
                while True:
                    it.add(f"late{len(added)}", one)
                    added.append(1)

        thread = threading.Thread(target=adding)
        thread.start()
        keys = it.definition["inputSchema"]["properties"]["action"]["enum"]
        thread.join()
        assert len(keys) == 100 + len(added)


@pytest.mark.req("GRP-28")
def test_a_tool_that_could_not_be_made_ready_can_be_put_right():
    empty = w.group("platform")
    with pytest.raises(DocumentInvalid):
        _ = empty.definition
    assert not empty.frozen
    assert empty.add("one", one).definition["name"] == "platform"
